"""Cloud commands that stop without ending the bill."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from killcheck.probes.base import Evidence, Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import World

from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Rehearsed

__all__ = ["CloudStop"]


class CloudStop(Probe):
    """Azure bills a VM that is stopped but not deallocated; a group replaces an instance ended behind its back."""

    id = "cloud-stop"
    claim = "What an executor tells the cloud ends the bill."
    remedy = "az vm deallocate; autoscaling ... --should-decrement-desired-capacity; set the group's desired size to 0."
    failures = (50, 51)
    sources = (
        "learn.microsoft.com/en-us/previous-versions/azure/dn593561(v=azure.11)",
        "docs.aws.amazon.com: TerminateInstanceInAutoScalingGroup, ShouldDecrementDesiredCapacity",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """Cloud commands in executors, and in what a machine's own schedule starts: as it was seen, else read."""
        for one in world.executors:
            text = one.text.replace("\\\n", " ")
            for pattern, message in _PATTERNS:
                if pattern.search(text):
                    yield self.finding(world, one.owner, command_path(one), message)
        for ref, seen in world.rehearsed.items():
            if seen.beside is None:
                continue
            asked = [call.argv for call in seen.first.clouds] or seen.beside.read
            lines = dict.fromkeys(" ".join(argv) for argv in asked)
            found = [(line, message) for line in lines for pattern, message in _PATTERNS if pattern.search(line)]
            yield from (self._about(ref, seen, line, message) for line, message in found)

    def _about(self, ref: str, one: Rehearsed, line: str, message: str) -> Finding:
        beside = one.beside
        assert beside is not None
        evidence = (Evidence(ref, "ExecStart", line[:200]),)
        return Finding(
            self.id,
            self.severity,
            ref,
            message,
            self.remedy,
            evidence,
            "",
            beside.file,
            beside.line,
            failures=self.failures,
            basis="seen" if one.first.clouds else "read",
        )


_PATTERNS = (
    (lazy_re.compile(r"\baws\s+ec2\s+(stop|terminate)-instances\b.*\s--dry-run\b"), "--dry-run: nothing is stopped"),
    (lazy_re.compile(r"\baz\s+vm(ss)?\s+stop\b"), "az vm stop leaves the VM allocated: it bills as if it ran"),
    (
        lazy_re.compile(r"terminate-instance-in-auto-scaling-group(?!.*--should-decrement)(?!.*--no-should)"),
        "ends an instance without lowering the group's desired capacity: the group launches another",
    ),
    (
        lazy_re.compile(r"terminate-instance-in-auto-scaling-group.*--no-should-decrement"),
        "ends an instance and keeps the group's desired capacity: the group launches another",
    ),
)
