"""Programs that do not do the same every night."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import Executor, World

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Change, Firing

__all__ = ["OtherNights"]


class OtherNights(Probe):
    """Fired on nights of each kind that its program may tell apart: one that leaves on what another one turns off."""

    id = "other-nights"
    rehearsed = True
    claim = "An executor that looks at the calendar turns off on every night what it turns off on one."
    remedy = (
        "Let it turn off what is on whatever day it is. Where nights are left out on purpose, say so in its schedule, "
        "and let something else turn the GPUs off."
    )
    failures = (14, 39)
    sources = ("date(1)", "drills: the nights that a program tells apart")

    def ask(self, world: World) -> Iterable[Finding]:
        """The first night that turns less off than the others."""
        for one in world.watched:
            if one.seen is None or not one.seen.later:
                continue
            tonight = [(None, one.seen.first)]
            nights = [*tonight, *((f"{at:%A, %Y-%m-%d}", firing) for at, firing in one.seen.later)]
            every = {_key(change) for _, firing in nights for change in firing.off}
            for when, firing in nights:
                left = sorted(every - {_key(change) for change in firing.off})
                if left:
                    yield self._about(world, one, when, firing, left)
                    break

    def _about(self, world: World, one: Executor, when: str | None, firing: Firing, left: list[str]) -> Finding:
        said = f" (exit code {firing.exit_code})" if firing.exit_code is not None else ""
        elsewhere = {
            f"{t.kind}/{t.namespace}/{t.object}"
            for layer in world.kill_path.layers
            if one.layer is None or layer.name != one.layer.name
            for t in world.kill_path.covered_by(layer)
        }
        return self.finding(
            world,
            one.owner,
            command_path(one),
            f"fired on {when or 'its next night'} it leaves {', '.join(left)} on, which it turns off on others{said}",
            severity="warning" if set(left) <= elsewhere else "error",
        )


def _key(change: Change) -> str:
    return f"{change.kind}/{change.namespace}/{change.name}"
