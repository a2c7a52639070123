"""A kill path without Kubernetes: machines of a cloud, and the timers and crontabs that turn them off.

The machines are those that the programs were seen, or read, to stop or to start by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from killcheck.executor.cloud_machines import Asked, asked
from killcheck.machine.scheduled import LATE_S
from killcheck.spec.deadlines import Deadlines
from killcheck.spec.killpath import Command, KillPath, Layer, LayerType, Proof, Target
from killcheck.text.values import replace

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Beside, Rehearsed

__all__ = ["LIMIT_S", "Alone", "asked_by", "found", "home_of", "in_a_folder", "is_often", "layer", "placed"]

#: How long what a machine's schedule starts may run, in seconds.
LIMIT_S = 600.0
#: By when such a machine must be off: its program's own time, and what a cloud takes to stop one.
_DEADLINES = Deadlines.fitted({"executor_finished_s": LIMIT_S, "pods_gone_s": 900.0})


class Alone(Struct, frozen=True):
    """The kill path of machines. ``notes``: what a reader should know; ``evidence``: how each layer is known."""

    kill_path: KillPath
    notes: tuple[str, ...]
    evidence: Mapping[str, str]
    #: The files of the timers and crontabs that it was made of.
    taken: frozenset[str] = frozenset()


def is_often(schedule: str) -> bool:
    """Whether a cron schedule fires more than a few times a day: that watches, where a dead-man's switch waits."""
    hours = schedule.split()[1] if len(schedule.split()) >= 5 else ""
    return hours == "*" or bool(re.fullmatch(r"\*/[1-4]", hours)) or schedule.startswith(("@hourly", "@every"))


def asked_by(one: Rehearsed) -> list[Asked]:
    """The machines that a program stops or starts: as it was seen to, else as it is read."""
    seen = [machine for call in one.first.clouds for machine in asked(call.argv)]
    return seen or [machine for argv in (one.beside.read if one.beside else ()) for machine in asked(argv)]


def found(rehearsed: Mapping[str, Rehearsed], name: str = "") -> Alone | None:
    """The kill path of the machines that timers and crontabs stop and start; None: they name none."""
    programs = {who.partition("/")[2]: one for who, one in rehearsed.items() if one.beside is not None}
    machines = {who: asked_by(one) for who, one in programs.items()}
    targets = _targets(machine for several in machines.values() for machine in several)
    if not targets:
        return None
    home = home_of(one.beside for one in programs.values() if one.beside)
    layers, notes, evidence = [], [], {}
    for who, one in programs.items():
        covers = tuple(dict.fromkeys(machine.name for machine in machines[who] if machine.stops))
        starts = tuple(dict.fromkeys(machine.name for machine in machines[who] if not machine.stops))
        if starts and not covers:
            notes.append(f"Timer/{who} starts {', '.join(starts)}: it starts what others stop")
        if covers and one.never_starts:
            notes.append(f"Timer/{who} turns nothing off: {one.first.why}")
        elif covers and one.beside:
            layers.append(layer(who, one.beside, covers, home))
            evidence[who] = _how(one)
    path = KillPath(
        name or targets[0].name,
        targets,
        tuple(layers),
        deadlines=_DEADLINES,
        proof=frozenset({Proof.P3, Proof.P4}),
        folder=home,
    )
    taken = frozenset(one.beside.by for who, one in programs.items() if one.beside and machines[who])
    return Alone(path, tuple(notes), evidence, taken)


def layer(name: str, beside: Beside, covers: tuple[str, ...], home: str) -> Layer:
    """What a machine's schedule starts, as a layer of a spec in the folder ``home``."""
    command = Command(beside.argv, min(beside.limit_s or LIMIT_S, LIMIT_S), dict(beside.env))
    return Layer(
        name,
        LayerType.IDLE_MONITOR if is_often(beside.schedule) else LayerType.COMMAND,
        covers,
        command=replace(command, folder=_inside(beside.folder, home)) if in_a_folder(command) else command,
        schedule=beside.schedule,
        time_zone=beside.time_zone,
        deadlines=_later(min(beside.late_s, LATE_S)),
    )


def _later(by_s: float) -> Deadlines | None:
    """Deadlines of a layer whose timer may go off after its time; None: those of the kill path."""
    if not by_s:
        return None
    counted = ("job_created_s", "executor_finished_s", "scale_written_s", "pods_gone_s", "instance_gone_s")
    return Deadlines.fitted({name: getattr(_DEADLINES, name) + by_s for name in counted}, _DEADLINES)


def in_a_folder(command: Command) -> bool:
    """Whether any of its words leads to what lies in its folder."""
    return any("./" in word for word in command.argv)


def home_of(programs: Iterable[Beside]) -> str:
    """The folder that all their folders are, or lie in; empty: there is no program."""
    folders = [os.path.realpath(one.folder) for one in programs]
    return os.path.commonpath(folders) if folders else ""


def placed(path: KillPath, folder: str) -> KillPath | None:
    """The same for a spec that lies in ``folder``; None: its programs are in no folder below that."""
    base, wanted = os.path.realpath(path.folder), os.path.realpath(folder)
    layers = []
    for one in path.layers:
        if one.command is None or not in_a_folder(one.command):
            layers.append(one)
            continue
        inner = _inside(os.path.normpath(os.path.join(base, one.command.folder)), wanted)  # noqa: PTH118
        if inner.startswith(".."):
            return None
        layers.append(replace(one, command=replace(one.command, folder=inner)))
    return replace(path, layers=tuple(layers), folder=wanted)


def _inside(folder: str, home: str) -> str:
    inner = os.path.relpath(os.path.realpath(folder), os.path.realpath(home)) if home else ""
    return "" if inner == "." else inner


def _targets(machines: Iterable[Asked]) -> tuple[Target, ...]:
    """Each machine once, with how it is counted and started."""
    by_name: dict[str, Asked] = {}
    for one in machines:
        by_name.setdefault(one.name, one)
    return tuple(
        Target(one.name, count=Command(one.count), start=Command(one.start, 120.0)) for one in by_name.values()
    )


def _how(one: Rehearsed) -> str:
    """How a layer is known."""
    if not one.first.clouds:
        return f"read: what its commands say; {'fired once, it asked for nothing' if one.ran else 'it was not fired'}"
    return f"seen in a rehearsal: fired once, it asked for '{one.first.clouds[0]}'; no cloud was there"
