"""Timers and crontabs beside the spec of a path outside Kubernetes that no layer names: what they start is not seen.

No virtual night is played where the targets are counted by a program. What lies beside the spec and starts a target at
some hour of its own would light it again after every drill that passed. Nothing is run.
"""

from __future__ import annotations

from pathlib import Path

from killcheck.entries import Becomes, Entry, Status, leaves
from killcheck.machine import units
from killcheck.machine.starting import DOUBT
from killcheck.spec.killpath import KillPath

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
        found = units.read([one for one in units.folders_below(root) if one.resolve() not in named], beside=root)
    except OSError as error:
        why = f"it starts nothing ({error.strerror or 'it cannot be read'})"
        return [Entry(f"Timer/{Path(error.filename or root).name}", Status.ASSUMED, why)]
    own = units.own_programs(kill_path)
    started = [
        Entry(
            f"Timer/{one.name.partition(' -> ')[0]}",
            Status.NOT_MODELLED,
            f"it starts something beside this path, and no layer names it ({one.found})",
            _SETTLES,
        )
        for one in found.starters
        if not own & {Path(word).name for word in one.command.argv}
    ]
    unread = [
        _not_followed(f"Timer/{one.partition(': ')[0].partition(' -> ')[0]}", one)
        for one in found.unread
        if not any(name in one for name in own)
    ]
    return [*started, *unread]


def _not_followed(timer: str, told: str) -> Entry:
    if DOUBT in told:
        return Entry(timer, Status.NOT_MODELLED, f"it may start something beside this path ({told})", _SETTLES)
    return Entry(timer, Status.ASSUMED, f"it starts nothing ({told})")
