"""Silences that stand in manifests, or that a program among them sets: an alert that one mutes tells nobody.

What somebody sets by hand while Alertmanager runs is not seen.

Sources: silence-operator's ``Silence`` (spec.matchers: name, value, isRegex, isEqual, matchType);
prometheus/alertmanager cli/silence_add.go and api/v2 (POST /api/v2/silences).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from killcheck.alerting.routing import Unknown, hold
from killcheck.kube.objects import Obj, dig, mappings, ref_of
from killcheck.text import lazy_re

__all__ = ["silenced", "who_silences"]

_SETS = lazy_re.compile(r"\bamtool\b.{0,2000}\bsilence\b.{0,200}\badd\b|/api/v[12]/silences\b", re.DOTALL)
_KINDS = ("CronJob", "Job", "Pod", "Deployment", "StatefulSet", "DaemonSet", "ConfigMap", "CronWorkflow", "Workflow")


def who_silences(objects: Iterable[Obj]) -> list[Obj]:
    """Silences, and what runs or holds a program that sets some."""
    return [one for one in objects if _is_silence(one) or (one.get("kind") in _KINDS and _sets(one))]


def silenced(labels: Mapping[str, str | None], found: Iterable[Obj]) -> tuple[str, str]:
    """Why an alert tells nobody: (what is certain, what nobody knows), both empty where nothing mutes it."""
    doubt = ""
    for one in found:
        if not _is_silence(one):
            doubt = doubt or f"{ref_of(one)} sets silences while it runs"
            continue
        try:
            mutes = hold(list(_matchers(one)), labels)
        except Unknown as error:
            doubt = doubt or f"whether {ref_of(one)} silences it turns on its label {error}, which is not known"
            continue
        if mutes and set(dig(one, "spec", default={})) <= {"matchers", "owner", "issue_url", "postmortem_url"}:
            return f"{ref_of(one)} silences it", ""
        doubt = doubt or (f"{ref_of(one)} may silence it" if mutes else "")
    return "", doubt


def _is_silence(obj: Obj) -> bool:
    return obj.get("kind") == "Silence" and bool(mappings(dig(obj, "spec", "matchers")))


def _matchers(obj: Obj) -> Iterator[tuple[str, str, str]]:
    for one in mappings(dig(obj, "spec", "matchers")):
        plain = ("=" if one.get("isEqual", True) else "!") + ("~" if one.get("isRegex") else "")
        how = {"!": "!="}.get(plain, plain)
        yield str(one.get("name")), str(one.get("matchType") or how), str(one.get("value"))


def _sets(obj: Obj) -> bool:
    """Whether any text in it sets silences."""
    waiting: list[object] = [obj.get("spec"), obj.get("data")]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += [
                *(each for each in one if not isinstance(each, str)),
                " ".join(e for e in one if isinstance(e, str)),
            ]
        elif isinstance(one, str) and _SETS.search(one):
            return True
    return False
