"""Executors that end well although their request was refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from killcheck.probes.base import Finding, Probe
from killcheck.probes.rehearsed import is_gone, mistaken
from killcheck.probes.script_lines import of_call
from killcheck.probes.where import command_path
from killcheck.probes.world import SCALED, Executor, World

from killcheck.rehearsal.loops import goes_round

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Call, Firing

__all__ = ["FalseGreen"]


class FalseGreen(Probe):
    """The founding failure: curl without -f, ``|| true``, no ``set -e``, a pipe: a 403, exit 0, a Complete Job."""

    id = "false-green"
    claim = "An executor whose request is refused ends with an exit code other than 0."
    remedy = "Let the refusal end the executor: curl -f, set -e, no '|| true', raise_for_status(), check=True."
    failures = (14,)
    sources = ("coreos/coreos-kubernetes#450", "curl(1) --fail")

    def ask(self, world: World) -> Iterable[Finding]:
        """One finding for each way that a failure gets lost: in layers, and in what would be one if it did anything."""
        spaces = {holder.namespace for holder in world.holders}
        for one in world.watched:
            yield from self._seen(world, one)
        for one in world.executors:
            if (one.seen is not None and one.seen.ran) or goes_round(one.owner):
                continue  # what never ends is green to nobody
            if one.layer is None and (one.reading.writes or one.namespace not in spaces):
                continue
            for how in one.reading.false_green:
                yield self.finding(world, one.owner, command_path(one), how.said, remedy=how.mend)

    def _seen(self, world: World, one: Executor) -> Iterable[Finding]:
        """A rehearsal: a refusal that came, or one that was made to come, and exit code 0 all the same."""
        seen = one.seen
        if seen is None:
            return
        firings = ((seen.first, ""), (seen.refused, " (rehearsed with its rights to change anything taken away)"))
        for firing, how in firings:
            refused = firing.refused if firing else ()
            lost = [call for call in refused if firing and _matters(call, firing) and not is_gone(call, firing)]
            if firing and lost and firing.exit_code == 0 and not (how and firing.off):
                at, said = of_call(world, one, lost[0]), f"ends with exit code 0 although {lost[0]}{how}"
                yield self.finding(world, one.owner, command_path(one), said, seen=True, at=at)
                return


def _matters(call: Call, firing: Firing) -> bool:
    """Whether a refused call should have ended the program: a write, or a look at what it then did not change."""
    if call.writes:
        return call.status not in (404, 409) or call.verb not in ("create", "delete")
    if mistaken(call, firing):
        return True
    missed = call.status == 404 and call.resource in SCALED and bool(call.name)
    return not firing.off and (call.status in (401, 403) or missed) and call.resource != "namespaces"
