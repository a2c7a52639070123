"""A disk that has no room left: files can still be made, emptied and removed, and nothing more fits than was there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from killcheck.capabilities.offered import Capability
from killcheck.faults.machine.parts import DiskReadOnly
from killcheck.layers.base import LayerRun, Stage
from killcheck.text import lazy_re

__all__ = ["DiskFull"]


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
