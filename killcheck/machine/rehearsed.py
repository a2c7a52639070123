"""The rehearsal of a machine's own schedule: each program fired once, alone, at its own time, and watched.

It runs in a sandbox of this host as any other. A kubectl of its leads to a throw-away cluster that holds the manifests.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from killcheck.capabilities.programs import Ran
from killcheck.executor.scripts import commands_of
from killcheck.kube import schedule
from killcheck.kube.objects import Obj
from killcheck.machine import kubeconfigs
from killcheck.machine.modelled import Machine
from killcheck.machine.scheduled import Scheduled, find
from killcheck.rehearsal.record import NOT_FIRED, Beside, Ending, Firing, Outcome, Rehearsed
from killcheck.rehearsal.stage import Stage
from killcheck.spec.killpath import Command

__all__ = ["read", "rehearse"]

#: How many programs are fired at most.
MOST = 40
#: A shell's exit codes for a program that is not there, or may not be executed.
_NOT_THERE = (126, 127)
#: Whose they are, in the record.
ACCOUNT = "its kubeconfig"


def rehearse(objects: Sequence[Obj], roots: Sequence[Path], now: datetime) -> dict[str, Rehearsed]:
    """Every program that the units and crontabs below ``roots`` start, by its reference: at most :data:`MOST` are
    fired, and of the others nothing is known but that. Raises LoadError, OSError."""
    found = {}
    for number, one in enumerate(find(roots)):
        lacks = one.lacks or (
            f"the first {MOST} programs of machines are fired, and it comes after" if number >= MOST else None
        )
        if one.broken:
            never = Firing(Outcome.NOT_STARTED, why=one.broken)
            found[one.ref] = Rehearsed(one.ref, "", ACCOUNT, never, beside=_beside(one))
        else:
            found[one.ref] = _unfired(one, lacks) if lacks else _rehearsed(objects, one, now)
    return found


def read(roots: Sequence[Path]) -> dict[str, Rehearsed]:
    """The same programs as they are read, none of them fired. Raises OSError."""
    return {
        one.ref: _unfired(one, one.lacks or NOT_FIRED)
        if not one.broken
        else Rehearsed(one.ref, "", ACCOUNT, Firing(Outcome.NOT_STARTED, why=one.broken), beside=_beside(one))
        for one in find(roots)
    }


def _unfired(one: Scheduled, why: str) -> Rehearsed:
    return Rehearsed(one.ref, "", ACCOUNT, Firing(Outcome.UNKNOWN, why=why), beside=_beside(one))


def _rehearsed(objects: Sequence[Obj], one: Scheduled, now: datetime) -> Rehearsed:
    refused = None
    with Stage(objects, None, _slot(one, now)) as stage:
        stage.settle()
        act = partial(_ended, _machine(stage, one), one)
        first = stage.outside(act)
        if first.outcome is Outcome.ENDED and first.clouds:
            stage.refuse_clouds()
            refused = stage.outside(act)
    return Rehearsed(one.ref, "", ACCOUNT, first, refused=refused, beside=_beside(one))


def _beside(one: Scheduled) -> Beside:
    env = tuple(sorted(one.command.env.items()))
    read = commands_of(one.command, one.folder, as_shell=bool(one.odd))
    read += commands_of(Command(("/bin/sh", "-c", one.meant)), one.folder) if one.meant else ()
    return Beside(
        one.command.argv,
        env,
        str(one.file),
        one.line,
        one.schedule or "",
        one.time_zone,
        str(one.by or ""),
        str(one.folder),
        tuple(dict.fromkeys(read)),
        one.odd,
        one.limit_s,
        one.idle,
        one.late_s,
    )


def _slot(one: Scheduled, now: datetime) -> datetime:
    try:
        found = schedule.parse(one.schedule or "", one.time_zone or None).next(now) if one.schedule else None
    except schedule.ScheduleError:
        found = None
    return found or now


def _machine(stage: Stage, one: Scheduled) -> Machine:
    cluster = stage.cluster
    more = kubeconfigs.mounts(cluster, [one.command], one.folder)
    return Machine(cluster.nodes.runtime, cluster.loop, one.folder, known=[one.command], more=more)


def _ended(machine: Machine, one: Scheduled) -> Ending | str:
    """How it ended, or why that is not known here."""
    ran: Ran = machine.run(one.command)
    if machine.unknowns:
        return "; ".join(machine.unknowns)
    said = "\n".join(text for text in (ran.output.strip(), ran.errors.strip()) if text)
    if ran.code in _NOT_THERE:
        return f"it starts something that is not here: {said or f'exit code {ran.code}'}"
    return Ending("machine", one.file.name, ran.code, ran.why, said[-2000:])
