"""Timers and crontabs beside the spec of a path outside Kubernetes that no layer names: what they start is not seen.

No virtual night is played where the targets are counted by a program. What lies beside the spec and starts a target at
some hour of its own would light it again after every drill that passed. What plainly is the morning's start is taken
for meant, as a CronJob's is. Nothing is run.
"""

from __future__ import annotations

import re
from pathlib import Path

from killcheck.clock import wall_now
from killcheck.entries import Becomes, Entry, Status, leaves
from killcheck.machine import scheduled, units
from killcheck.machine.starting import DOUBT, MAKES
from killcheck.spec.killpath import KillPath, Ref
from killcheck.watch import starts

__all__ = ["entries"]

_SETTLES = (
    "name its folder under units: of a sentinel layer, or say under assume: (kind: Timer) why it starts nothing at "
    "night"
)


@leaves("single controllers", "timers beside such a path that start something and that no layer names", Becomes.OPEN)
def entries(kill_path: KillPath) -> list[Entry]:
    """An open entry for each that starts something, or calls a cloud for what may; the rest is assumed, and told."""
    if not kill_path.folder or all(target.count is None for target in kill_path.targets):
        return []
    root = Path(kill_path.folder)
    named = {(root / one).resolve() for layer in kill_path.layers if layer.sentinel for one in layer.sentinel.units}
    try:
        every = list(units.folders_below(root))
        found = units.read([one for one in every if one.resolve() not in named], beside=root)
        unread_there = units.read(every, beside=root).unread  # whoever the sentinel's layer judges, too
    except OSError as error:
        why = f"it starts nothing ({error.strerror or 'it cannot be read'})"
        return [Entry(f"Timer/{Path(error.filename or root).name}", Status.ASSUMED, why)]
    own = units.own_programs(kill_path)
    mornings = _mornings(kill_path, root)
    started = [
        _starts(one, mornings) for one in found.starters if not own & {Path(word).name for word in one.command.argv}
    ]
    unread = [
        _not_followed(f"Timer/{one.partition(': ')[0].partition(' -> ')[0]}", one, kill_path)
        for one in unread_there
        if not any(_names(one.partition(" (")[0], name) for name in own)
    ]
    return [*started, *unread, *_at_no_known_hour(kill_path, root)]


def _at_no_known_hour(kill_path: KillPath, root: Path) -> list[Entry]:
    """Timers of the layers themselves, which the drill fired: when, or whether, they fire nobody here can say."""
    drilled = {(one.name, one.command.argv) for one in kill_path.layers if one.command and not one.schedule}
    return [
        Entry(
            f"Timer/{one.name}",
            Status.NOT_MODELLED,
            f"when it goes off is not known here: OnCalendar={one.unclear}",
            "say schedule: of its layer in the spec (cron), or say under assume: (kind: Timer) that it does",
        )
        for one in (scheduled.find([root]) if drilled else ())
        if one.unclear and (one.name, one.command.argv) in drilled
    ]


def _starts(one: units.StartAuthority, mornings: dict[str, str]) -> Entry:
    timer = one.name.partition(" -> ")[0]
    if timer in mornings:
        why = f"it starts something ({one.found}): {mornings[timer]} is taken for the morning's"
        return Entry(f"Timer/{timer}", Status.ASSUMED, why)
    why = f"it starts something beside this path, and no layer names it ({one.found})"
    return Entry(f"Timer/{timer}", Status.NOT_MODELLED, why, _SETTLES)


def _mornings(kill_path: KillPath, root: Path) -> dict[str, str]:
    """By timer (``gpu-on.timer``) or line of a crontab (``crontab:3``), schedules that plainly are the morning's."""
    now, found = wall_now(), {}
    stops = [
        [
            starts.Start(Ref("", "Timer", "", layer.name), layer.schedule, layer.time_zone or "")
            for layer in kill_path.layers
            if layer.command and layer.schedule and target.name in layer.covers
        ]
        for target in kill_path.targets  # which one is started nobody reads: it has to be the morning of each
    ]
    for one in scheduled.find([root]) if all(stops) else ():
        start = starts.Start(Ref("", "Timer", "", one.name), one.schedule or "", one.time_zone)
        if one.by and one.schedule and all(starts.is_morning(start, several, now) for several in stops):
            name = one.by.name if one.by.suffix else f"{one.by.name}:{one.line}"
            found[name] = f"its schedule ({one.schedule}, {one.time_zone or 'UTC'})"
    return found


def _not_followed(timer: str, told: str, kill_path: KillPath) -> Entry:
    if DOUBT in told or MAKES in told or any(_names(told, one.name) for one in kill_path.targets):
        return Entry(timer, Status.NOT_MODELLED, f"it may start something beside this path ({told})", _SETTLES)
    return Entry(timer, Status.ASSUMED, f"it starts nothing ({told})")


def _names(text: str, name: str) -> bool:
    """Whether a text has a name as a word of its own, or as the end of a path."""
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None
