"""Programs that work once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from killcheck.probes.base import Finding, Probe
from killcheck.probes.rehearsed import telling
from killcheck.probes.where import command_path
from killcheck.probes.world import World

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Firing

__all__ = ["SecondNight"]


class SecondNight(Probe):
    """Fired twice in a rehearsal: what the first night left (a lock, a marker) keeps the second from its work."""

    id = "second-night"
    rehearsed = True
    claim = "An executor that is fired a second time, a night later, does what it did the first time."
    remedy = "Let nothing be left behind, or let stopping not depend on it (a Lease that expires, kubectl apply)."
    failures = (8, 14)
    sources = ("KK#101584", "kubernetes.io/docs: Jobs are to be idempotent")

    def ask(self, world: World) -> Iterable[Finding]:
        """Where the second night turned less off than the first, or fails where that ended well."""
        for one in world.watched:
            first, second = (one.seen.first, one.seen.second) if one.seen else (None, None)
            if first is None or second is None:
                continue
            less = len(second.off) < len(first.off)
            fails = first.exit_code == 0 and second.exit_code != 0
            if not less and not fails:
                continue
            refused = next((str(call) for call in second.refused if call.writes), "")
            said = refused or (telling(second.failed) if second.failed else _words(second))
            after = "nothing goes off" if not second.off else "less goes off" if less else "it fails"
            yield self.finding(
                world,
                one.owner,
                command_path(one),
                f"the second night {after}{': ' if said else ''}{said}",
                severity="error" if less else "warning",
            )


def _words(firing: Firing) -> str:
    """The last words of a firing that ended well."""
    words = next((ending.last_words for ending in firing.endings if ending.last_words), "")
    return f'it says "{words[:200]}"' if words else ""
