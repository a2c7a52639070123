"""A kill path of machines of a cloud, and the timers, crontabs and CronJobs that turn them off: no GPU is in pods.

The machines are those that the programs were seen, or read, to stop or to start by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from killcheck.executor import cloud_lines, reading
from killcheck.executor.cloud_machines import Asked, asked
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.machine.scheduled import LATE_S
from killcheck.spec.deadlines import Deadlines
from killcheck.spec.killpath import Command, Consent, KillPath, Layer, LayerType, Proof, Ref, Target
from killcheck.text.values import replace

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Beside, Rehearsed

__all__ = ["LIMIT_S", "Alone", "asked_by", "found", "home_of", "in_a_folder", "is_often", "layer", "placed", "refused"]

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


def found(rehearsed: Mapping[str, Rehearsed], name: str = "", objects: Iterable[Obj] = ()) -> Alone | None:
    """The kill path of the machines that timers, crontabs and CronJobs stop and start; None: they name none."""
    besides = {who: one.beside for who, one in rehearsed.items() if one.beside is not None}
    programs = [_Program(who, asked_by(rehearsed[who]), rehearsed[who]) for who in besides]
    programs += [_of_cron_job(obj, rehearsed) for obj in objects if obj.get("kind") == "CronJob"]
    targets = _targets(machine for one in programs for machine in one.machines)
    if not targets:
        return None
    home = home_of(besides.values())
    layers, notes, evidence = [], [], {}
    for one in programs:
        who = one.ref.rpartition("/")[2]
        covers = tuple(dict.fromkeys(machine.name for machine in one.machines if machine.stops))
        starts = tuple(dict.fromkeys(machine.name for machine in one.machines if not machine.stops))
        if starts and not covers:
            notes.append(f"{one.ref} starts {', '.join(starts)}: it starts what others stop")
        if covers and one.seen and one.seen.never_starts:
            notes.append(f"{one.ref} turns nothing off: {one.seen.first.why}")
        elif covers:
            own = besides.get(one.ref)
            layers.append(layer(who, own, covers, home) if own else _fired_there(one.ref, covers))
            evidence[who] = _how(one.seen)
    path = KillPath(
        name or targets[0].name,
        targets,
        tuple(layers),
        deadlines=_DEADLINES,
        proof=frozenset({Proof.P3, Proof.P4}),
        consent=Consent(namespaces=tuple(dict.fromkeys(one.ref.namespace for one in layers if one.ref))),
        folder=home,
    )
    taken = frozenset(besides[one.ref].by for one in programs if one.machines and one.ref in besides)
    return Alone(path, tuple(notes), evidence, taken)


def refused(objects: Iterable[Obj]) -> Iterator[str]:
    """What a cloud would refuse of the commands of CronJobs, a sentence each."""
    for obj in objects:
        spec = dig(obj, "spec", "jobTemplate", "spec", "template", "spec", default={})
        read = reading.read(spec, namespace_of(obj) or "default").commands if obj.get("kind") == "CronJob" else ()
        for argv in read:
            wrong = cloud_lines.wrong_in(argv)
            if wrong is not None:
                yield f"CronJob/{namespace_of(obj) or 'default'}/{name_of(obj)} runs '{' '.join(argv)[:120]}': {wrong}"


class _Program(Struct, frozen=True):
    """``ref``: ``Timer/gpu-off`` or ``CronJob/ops/gpu-off``; ``seen`` None: it was not rehearsed."""

    ref: str
    machines: list[Asked]
    seen: Rehearsed | None = None


def _of_cron_job(obj: Obj, rehearsed: Mapping[str, Rehearsed]) -> _Program:
    """A CronJob with the machines that it was seen, or is read, to stop or to start."""
    ref = f"CronJob/{namespace_of(obj) or 'default'}/{name_of(obj)}"
    seen = rehearsed.get(ref)
    machines = asked_by(seen) if seen else []
    spec = dig(obj, "spec", "jobTemplate", "spec", "template", "spec", default={})
    read = () if machines else reading.read(spec, namespace_of(obj) or "default").commands
    return _Program(ref, machines or [machine for argv in read for machine in asked(argv)], seen)


def _fired_there(ref: str, covers: tuple[str, ...]) -> Layer:
    """A CronJob that acts on machines, as a layer."""
    _, namespace, name = ref.split("/")
    return Layer(name, LayerType.DEAD_MAN, covers, cron_job=Ref("batch/v1", "CronJob", namespace, name))


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


def _how(one: Rehearsed | None) -> str:
    """How a layer is known."""
    if one is None or not one.first.clouds:
        fired = "fired once, it asked for nothing" if one and one.ran else "it was not fired"
        return f"read: what its commands say; {fired}"
    return f"seen in a rehearsal: fired once, it asked for '{one.first.clouds[0]}'; no cloud was there"
