"""Nodes that join after the trigger: each has a phase's whole deadline, from when it joined.

One that was being launched when the trigger was pulled, or that came in place of another, could not go by a deadline
that began before it was there. One that joins when the deadline is over is no late one: something is on again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime

from killcheck.kube.objects import Obj, name_of, parse_time
from killcheck.watch.timeline import Timeline

__all__ = ["PHASES", "Joined"]

#: The phases that a node goes through, of which each has a deadline.
PHASES = ("node_cordoned", "node_drained", "node_gone", "instance_gone")


class Joined:
    """Puts off deadlines of a timeline by what was not there when they began."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        #: Seconds after the trigger at which a node joined, by its name; those that were there are not in it.
        self._at_s: dict[str, float] = {}
        #: When a node was first seen to be through a phase, in seconds after the trigger.
        self._through_s: dict[tuple[str, str], float] = {}

    def notice(self, nodes: Iterable[Obj], wake_in: Callable[[float], None]) -> None:
        """Keep when each of these joined, by its own creationTimestamp; be woken at the deadlines that it has."""
        for node in nodes:
            after_s = self._after_s(node)
            if after_s <= 0.0 or self._at_s.get(name_of(node)) == after_s:
                continue
            self._at_s[name_of(node)] = after_s
            for phase in PHASES:
                if phase in self._timeline.deadlines:
                    wake_in(self._timeline.deadlines[phase] + 0.001)

    def _after_s(self, node: Obj) -> float:
        return (parse_time(str(node["metadata"]["creationTimestamp"])) - self._timeline.start).total_seconds()

    @property
    def names(self) -> Collection[str]:
        """The nodes that joined, also those that went again since."""
        return self._at_s

    def put_off(self, phase: str, there: Mapping[str, Obj | None], through: Collection[str], now: datetime) -> None:
        """Put off a phase's deadline by as much as the node that took longest joined after the trigger.

        ``there``: the nodes that the phase is about, None: gone; ``through``: those of them that are through it.
        """
        if phase in self._timeline.reached:
            return  # what joins now is another matter: it takes the phase back, or it does not
        elapsed_s = (now - self._timeline.start).total_seconds()
        took = []
        for name in there:
            if name not in through:
                self._through_s.pop((phase, name), None)
                through_s = elapsed_s
            else:
                through_s = self._through_s.setdefault((phase, name), elapsed_s)
            took.append((through_s, through_s - self._late_s(phase, name)))
        if took:
            last_s, longest_s = (max(column) for column in zip(*took, strict=True))
            off_s = max(0.0, last_s - longest_s)
            for one in (phase, "instance_gone") if phase == "node_gone" else (phase,):
                self._timeline.put_off[one] = off_s

    def _late_s(self, phase: str, name: str) -> float:
        """How much later than the others' a node's own deadline began."""
        joined_s = self._at_s.get(name, 0.0)
        return joined_s if joined_s <= self._timeline.deadlines.get(phase, 0.0) else 0.0

    def longest_s(self) -> float:
        """By how much the latest deadline is put off, in seconds."""
        return max(self._timeline.put_off.values(), default=0.0)
