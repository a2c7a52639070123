"""Monitors that turn nothing off while what they ask does not answer."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import World

from killcheck.rehearsal.programs import CONTROLLERS
from killcheck.rehearsal.record import Outcome

__all__ = ["BlindWatch"]


class BlindWatch(Probe):
    """Watched for an hour beside a Service that does not answer: where it acts on nothing, an outage counts as work."""

    id = "blind-watch"
    rehearsed = True
    claim = "A monitor turns off what idles also when the source of its metric does not answer."
    remedy = "Count a source that does not answer as idle after a while, or add a dead-man's switch at a fixed hour."
    severity = "warning"
    failures = (28, 40)
    sources = ("seed 1: self-terminating workers beside the orchestrator", "KE#1850")

    def ask(self, world: World) -> Iterable[Finding]:
        """Each controller that is a layer, asked a Service, and wrote nothing: not proven where it was cut short."""
        for one in world.watched:
            first = one.seen.first if one.seen else None
            if first is None or one.layer is None or one.owner.get("kind") not in CONTROLLERS:
                continue
            if not first.services or first.writes or first.outcome not in (Outcome.ENDLESS, Outcome.GIVEN_UP):
                continue
            asked = ", ".join(first.services)
            if first.outcome is Outcome.GIVEN_UP or (one.layer.idle_s or 0.0) >= first.seconds:
                yield self.unproven(
                    world,
                    one.owner,
                    f"whether it acts while {asked} does not answer: it had not after {first.seconds / 60:.0f} min",
                )
                continue
            minutes = f"{first.seconds / 60:.0f} min"
            message = f"turned nothing off in {minutes} while {asked} did not answer: an outage counts as work"
            yield self.finding(world, one.owner, command_path(one), message)
