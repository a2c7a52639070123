"""The disk of a machine: mounted read-only, or full, so that files can be made and removed and nothing more fits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from killcheck.capabilities.offered import Capability, present
from killcheck.executor import scripts
from killcheck.faults.base import Evidence, Plan
from killcheck.faults.machine.machine_fault import MachineFault
from killcheck.faults.machine.words import said_by
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import KillPath, Layer
from killcheck.text import lazy_re

__all__ = ["DiskFull", "DiskReadOnly"]


class DiskReadOnly(MachineFault):
    """Reproduces row 57: a file system with errors is mounted read-only, and a script that writes first ends there."""

    name = "disk-read-only"
    simulates = "the machine's disk is mounted read-only after an error"
    family = "orchestrator"
    failures = (57,)
    shows = Evidence.TRIED

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The folders that the machine's programs write to."""
        return Plan((f"the machine: {self.simulates}",), edits=("the machine's disk",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Mount them so."""
        stage.journal.set_attribute(Capability.MACHINE, self.simulates, "read_only", True)
        return [self.simulates]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The layer's program was refused, in the kernel's words; or a try of the machine's is, and it said nothing."""
        if layer.ran is None:
            return None
        refused = present(stage.cluster.capabilities.machine).cannot_write()
        return (
            said_by(layer.ran, self.refusal)
            or (refused and f"{refused}; {layer.ran.command} said nothing of it")
            or None
        )

    #: As the C library, Python, Go and Node say it.
    refusal: ClassVar[re.Pattern[str]] = lazy_re.compile(
        r"read-only file ?system|\bEROFS\b|\[Errno 30\]", re.IGNORECASE
    )

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Not where all that runs is read, and nothing of it writes a file."""
        if layer.command is None or scripts.writes(layer.command, kill_path.folder) is not False:
            return None
        return f"nothing in {layer.command} writes to a disk"


class DiskFull(DiskReadOnly):
    """Reproduces row 57: logs, or what the work leaves, fill the disk, and a script that writes first ends there.

    Worse than a read-only one: what is made stays empty, and what grows is cut, for whoever reads it next. Each program
    of the embedded machine has a copy of the disk, and leaves it to the next (that takes namespaces).
    """

    name = "disk-full"
    simulates = "the machine's disk is full: files can be made and removed, and nothing more fits into them"

    refusal = lazy_re.compile(r"no space left on device|\bENOSPC\b|\[Errno 28\]", re.IGNORECASE)

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Fill it."""
        stage.journal.set_attribute(Capability.MACHINE, self.simulates, "full", True)
        return [self.simulates]
