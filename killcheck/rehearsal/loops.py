"""Loops that watch over a target for as long as their pod runs: a shell that looks, writes, and sleeps.

One whose rounds are alike is run in a drill, beside what is drilled. Its rounds differ where it looks at the clock or
counts: of these nothing is known before the whole night was seen, which takes too long.
"""

from __future__ import annotations

from collections.abc import Sequence

from killcheck import executor
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.kube.plurals import plural_of
from killcheck.rehearsal.programs import CONTROLLERS, watches_over
from killcheck.spec.killpath import Target
from killcheck.text import lazy_re
from killcheck.text.durations import parse_duration

__all__ = ["goes_round", "round_s", "watchers"]

_LOOP = lazy_re.compile(r"\b(?:while|until)\b")
_SLEEP = lazy_re.compile(r"\bsleep\s+(\S+?)(?=[\s;|&)]|$)")
#: What makes one round differ from another: the time, a count, chance.
_DIFFERS = lazy_re.compile(r"\bdate\b|time|SECONDS|RANDOM|\(\(|\bexpr\b|\blet\b|\bshuf\b")


def watchers(objects: Sequence[Obj], targets: Sequence[Target]) -> list[Obj]:
    """The controllers without GPUs that are read to write to a target, in a loop whose rounds are alike."""
    wanted = [(plural_of(one.kind), one.namespace, one.object) for one in targets if one.kind]
    return [
        obj
        for obj in objects
        if obj.get("kind") in CONTROLLERS
        and watches_over(obj)
        and round_s(obj) is not None
        and any(
            call.resource == plural and call.about(namespace, name, {})
            for call in executor.read(dig(obj, "spec", "template", "spec"), namespace_of(obj) or "default").writes
            for plural, namespace, name in wanted
        )
        and name_of(obj)
    ]


def goes_round(obj: Obj) -> bool:
    """Whether a controller's program is a loop that waits: what fails in one round is tried again in a later one."""
    text = _text(obj) if obj.get("kind") in CONTROLLERS else ""
    return _LOOP.search(text) is not None and _SLEEP.search(text) is not None


def _text(obj: Obj) -> str:
    containers = dig(obj, "spec", "template", "spec", "containers", default=[])
    return "\n".join(str(word) for c in containers for word in (*(c.get("command") or ()), *(c.get("args") or ())))


def round_s(obj: Obj) -> float | None:
    """How many seconds a round of it takes at most; None: it is no loop, or its rounds are not alike."""
    text = _text(obj)
    slept = _SLEEP.findall(text)
    if not _LOOP.search(text) or _DIFFERS.search(text) or not slept:
        return None
    try:
        return sum(parse_duration(word if word[-1:].isalpha() else f"{word}s") for word in slept)
    except ValueError:
        return None
