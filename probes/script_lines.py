"""Which line of a program's script a failure or a call came from: as its interpreter said, or as a traced firing told.

What may *not* live here: how a trace is made (:mod:`killcheck.rehearsal.traced`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from posixpath import basename
from typing import TYPE_CHECKING

from killcheck.probes.base import At
from killcheck.probes.world import Executor, World

from killcheck.kube.objects import Obj, dig
from killcheck.text import lazy_re
from killcheck.text.yamlfile import Path

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Call, Ending, Step

__all__ = ["of_call", "of_end"]

#: How interpreters say where they are, and what they could not do there: bash, dash, Python.
_SAID = (
    lazy_re.compile(r"(?m)^(?P<file>[^\s:]+): line (?P<line>\d+): (?:(?P<word>[\w./-]+): )?"),
    lazy_re.compile(r"(?m)^(?P<file>[^\s:]+): (?P<line>\d+): (?:(?P<word>[\w./-]+): )?"),
    lazy_re.compile(r'(?m)^  File "(?P<file>[^"]+)", line (?P<line>\d+)(?P<word>)'),
)
#: Options of an interpreter behind which its program comes.
_INLINE = lazy_re.compile(r"[-+][a-z]*c[a-z]*")
_INTERPRETERS = lazy_re.compile(r"(?:ba|da|a)?sh|python[\d.]*")
#: What makes requests of the API server.
_CLIENTS = frozenset({"kubectl", "oc", "curl", "wget", "helm"})
#: Characters of a line that are shown.
_SHOWN = 100


def of_end(world: World, one: Executor, ending: Ending) -> At | None:
    """The line on which a container's program ended with a failure; None: it cannot be told."""
    for said in _SAID:
        for found in reversed(list(said.finditer(ending.log))):
            at = _at(world, one, ending.container, found["file"], int(found["line"]))
            if at is not None and (found["word"] or "") in at.text:
                return at
    steps = [step for step in (one.seen.steps if one.seen else ()) if step.container == ending.container]
    last = _last(steps, ending.code) if steps else None
    return _at(world, one, ending.container, last.file, last.line) if last else None


def _last(steps: list[Step], code: int | None) -> Step:
    """What was begun last, traps aside: the last of which the next one says that it ended as the program did."""
    trapped = any(step.words.startswith("trap ") for step in steps)
    ended = [step for step, after in pairwise(steps) if after.before == code]
    return ended[-1] if trapped and ended else steps[-1]


def of_call(world: World, one: Executor, call: Call) -> At | None:
    """The line that made a call; None: several could have, or none is known."""
    found = {(step.container, step.file, step.line): step for step in _callers(one, call)}
    if len(found) != 1:
        return None
    (step,) = found.values()
    return _at(world, one, step.container, step.file, step.line)


def _callers(one: Executor, call: Call) -> Iterator[Step]:
    """The steps that may have made a call: clients whose words name its object, or programs that connect."""
    steps = one.seen.steps if one.seen else ()
    clients = [step for step in steps if _CLIENTS & {basename(word) for word in step.words.split()[:3]}]
    named = [
        step for step in clients if call.name and call.name in step.words.replace("=", " ").replace("/", " ").split()
    ]
    written = [step for step in named or clients if not call.writes or _may_write(step.words)]
    yield from written or [step for step in steps if step.words in ("socket.connect", "subprocess.Popen")]


def _may_write(words: str) -> bool:
    verbs = set(words.split())
    return not verbs & {"get", "describe", "wait", "logs", "top"}


def _at(world: World, one: Executor, container: str, file: str, number: int) -> At | None:
    """A line of a file or a command line of a container, where it is among the manifests."""
    for path, spec in one.containers:
        if spec.get("name") == container:
            for obj, place, text in _sources(world, one, path, spec, file):
                lines = text.splitlines()
                if 0 < number <= len(lines):
                    shown = " ".join(lines[number - 1].split())[:_SHOWN]
                    return At(obj, place, number, shown, file if obj is not one.owner else "")
    return None


def _sources(world: World, one: Executor, path: Path, spec: Obj, file: str) -> Iterable[tuple[Obj, Path, str]]:
    """The text that a file of a container is: of a ConfigMap, or what its interpreter was given on its command line."""
    if "/" in file and not _INTERPRETERS.fullmatch(basename(file)):
        yield from _mounted(world, one, spec, file)
    else:
        yield from _inline(one.owner, path, spec, basename(file))


def _inline(owner: Obj, path: Path, spec: Obj, interpreter: str) -> Iterable[tuple[Obj, Path, str]]:
    """A program on the command line; none where it is another interpreter's, whose child then spoke."""
    words = [(field, n, str(word)) for field in ("command", "args") for n, word in enumerate(spec.get(field) or ())]
    for place, ((_, _, flag), (field, number, text)) in enumerate(pairwise(words)):
        if _INLINE.fullmatch(flag):
            names = {basename(word) for _, _, word in words[:place]}
            if not _INTERPRETERS.fullmatch(interpreter) or interpreter in names:
                yield owner, (*path, field, number), text
            return


def _mounted(world: World, one: Executor, spec: Obj, file: str) -> Iterable[tuple[Obj, Path, str]]:
    volumes = {str(volume.get("name")): volume for volume in dig(one.spec, "volumes", default=[])}
    for mount in sorted(spec.get("volumeMounts") or (), key=lambda mount: -len(str(mount.get("mountPath", "")))):
        base = str(mount.get("mountPath", "")).rstrip("/")
        source = dig(volumes.get(str(mount.get("name")), {}), "configMap", default={})
        held = world.config_maps.get((one.namespace, str(source.get("name"))))
        if held is None or not (file == base or file.startswith(f"{base}/")):
            continue
        inner = str(mount.get("subPath") or file[len(base) + 1 :])
        keys = {str(item.get("path")): str(item.get("key")) for item in source.get("items") or ()}
        key = keys.get(inner, inner)
        text = dig(held, "data", key)
        if isinstance(text, str):
            yield held, ("data", key), text
        return
