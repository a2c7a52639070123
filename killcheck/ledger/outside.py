"""Schedules that act from outside Kubernetes and lie beside the manifests: crontabs, timers, pipelines, Terraform.

Nothing of them runs in a drill. One that is read to light a target is an open entry, and so is one that names a target
and could not be read whole. What plainly is the morning's start is taken for meant, as a CronJob's is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from killcheck import executor
from killcheck.capabilities.inventory import Inventory
from killcheck.entries import Entry, Status
from killcheck.executor import Reading
from killcheck.executor.scripts import texts
from killcheck.kube import outside_schedules
from killcheck.kube.passed_over import Cause, names_accelerators
from killcheck.ledger import calls
from killcheck.ledger.stakes import Stakes
from killcheck.machine import scheduled
from killcheck.machine.starting import start_in, started_by, unread_in
from killcheck.machine.units import is_schedule
from killcheck.spec.killpath import Command, Ref
from killcheck.text.files import text_of
from killcheck.text.shown import brief
from killcheck.text.yamlfile import YamlError, documents
from killcheck.watch import starts

__all__ = ["entries", "stops_of"]

_SETTLES = "drill it where it runs (--on CONTEXT), leave it out with --exclude, or say under assume: why it lights none"
#: Where CI systems write down what they run.
_RUNS = frozenset({"run", "script", "commands", "before_script", "after_script"})
_MOST_DEPTH = 16


class _Schedule(Struct, frozen=True):
    """What a file starts: ``programs`` as a shell has them, at ``times`` (cron, zone); none: that is not known.

    ``whole``: whether all that it runs is among the programs.
    """

    programs: tuple[str, ...]
    times: tuple[tuple[str, str], ...]
    whole: bool


def entries(inventory: Inventory, stakes: Stakes, now: datetime) -> Iterator[Entry]:
    """One for each schedule that was passed over beside the manifests. Raises OSError."""
    skipped = inventory.loaded.skipped if inventory.loaded is not None and not inventory.live else ()
    told = {one.file: brief(one.starts) for one in skipped if one.cause is Cause.OUTSIDE}
    for file, why in told.items():
        if Path(file).is_file() and not (_under_a_sentinel(Path(file), stakes) or _of_layers(Path(file), stakes)):
            yield _entry(file, why, _schedule(Path(file)), stakes, now)


def _of_layers(file: Path, stakes: Stakes) -> bool:
    """Whether all that a timer or crontab fires are programs of the path's own layers, which a drill fires itself."""
    if not is_schedule(file):
        return False
    drilled = {(layer.name, layer.command.argv) for layer in stakes.kill_path.layers if layer.command}
    own = {(one.name, one.command.argv) for one in scheduled.find([file.parent]) if one.by == file}
    return bool(own) and own <= drilled  # the same program of another name, or place, may be somebody else's


def _under_a_sentinel(file: Path, stakes: Stakes) -> bool:
    """Whether the units of a sentinel are there: its layer tells of what they start."""
    units = [Path(unit).name for layer in stakes.kill_path.layers if layer.sentinel for unit in layer.sentinel.units]
    return file.parent.name in units


def _entry(file: str, why: str, found: _Schedule, stakes: Stakes, now: datetime) -> Entry:
    readings = [_read(text) for text in found.programs]
    raised = next((said for one in readings if (said := calls.raising(one, stakes))), None)
    text = "\n".join(found.programs) or text_of(Path(file), errors="replace")
    named = _named(text, stakes)
    started = (start_in(text) or started_by(text)) if named else None
    what = f"'{raised or started}'" if raised or started else ""
    if not what and found.whole and all(map(_is_whole, readings)) and not next(unread_in(text), None):
        return Entry(file, Status.HARMLESS, "its programs were read whole, and light nothing")
    if not what and not named:
        return Entry(file, Status.ASSUMED, f"{why}; it names no target, and is taken to light none")
    morning = _of_the_morning(found, stakes, now) if what else None
    if morning:
        return Entry(file, Status.ASSUMED, f"it runs {what}: {morning}")
    said = f"it runs {what}" if what else f"it names {named}, and was not read whole"
    return Entry(file, Status.NOT_MODELLED, f"{said}, on a schedule from outside Kubernetes ({why})", _SETTLES)


def _read(text: str) -> Reading:
    """What a piece of shell asks of the API; which namespace a kubeconfig names is not known."""
    container = {"name": "outside", "image": "", "command": ["/bin/bash", "-c", text]}
    return executor.read({"containers": [container]}, "")


def _is_whole(reading: Reading) -> bool:
    return not reading.not_understood


def _named(text: str, stakes: Stakes) -> str | None:
    """The target, the namespace or the node pool that a text names, or that it names accelerators; None: none."""
    words = [*(held.name for held in stakes.targets), *stakes.namespaces, *stakes.pools]
    found = next((word for word in words if re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", text)), None)
    return found or ("accelerators" if names_accelerators(text) else None)


def _of_the_morning(found: _Schedule, stakes: Stakes, now: datetime) -> str | None:
    """Why all its firings plainly are the morning's; None: they are not, or nobody knows when it fires."""
    begun = [starts.Start(Ref("", "Timer", "", "outside"), text, zone) for text, zone in found.times]
    if not begun or not all(starts.is_morning(start, stops_of(stakes), now) for start in begun):
        return None
    when = ", ".join(f"{start.text}, {start.zone or 'UTC'}" for start in begun)
    return f"its schedule ({when}) is taken for the morning's"


def stops_of(stakes: Stakes) -> list[starts.Start]:
    """The schedules of the CronJobs that are layers of the path."""
    refs = {(o.namespace, o.name) for layer in stakes.kill_path.layers if (o := layer.cron_job)}
    crons = map(starts.of_cron_job, (o for o in stakes.objects if o.get("kind") == "CronJob"))
    return [stop for stop in crons if stop and (stop.ref.namespace, stop.ref.name) in refs]


# -- what a file starts --------------------------------------------------------------------------------------
def _schedule(file: Path) -> _Schedule:
    if is_schedule(file):
        return _of_machine(file)
    text = text_of(file, errors="replace")
    times = tuple((when, "") for when in outside_schedules.times_in(text))
    try:
        programs = [run for doc in documents(text, str(file)) for run in _runs(doc.value, 0)]
    except YamlError:
        return _Schedule((), times, whole=False)
    return _Schedule(tuple(programs), times, whole=bool(programs) and "uses:" not in text)


def _of_machine(file: Path) -> _Schedule:
    """Of a timer or crontab: its commands, with the scripts beside it that they come to."""
    own = [one for one in scheduled.find([file.parent]) if one.by == file]
    programs = [text for one in own for text in _texts(one.command, one.folder)]
    times = [(one.schedule, one.time_zone) for one in own if one.schedule]
    return _Schedule(tuple(programs), tuple(times), whole=bool(own) and all(one.lacks is None for one in own))


def _texts(command: Command, folder: Path) -> Iterator[str]:
    yield shlex.join(command.argv)
    yield from (text for _, text in list(texts(command, folder))[1:])


def _runs(value: Any, depth: int) -> Iterator[str]:
    """Whatever a pipeline says that it runs."""
    if depth > _MOST_DEPTH:
        return
    inner: Iterable[Any] = value.items() if isinstance(value, dict) else ()
    for key, held in inner:
        lines = held if isinstance(held, list) else [held]
        if key in _RUNS and all(isinstance(line, str) for line in lines):
            yield "\n".join(lines)
        else:
            yield from _runs(held, depth + 1)
    for held in value if isinstance(value, list) else ():
        yield from _runs(held, depth + 1)
