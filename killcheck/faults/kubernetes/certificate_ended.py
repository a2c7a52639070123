"""The API server shows executors a certificate that has ended."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.capabilities.offered import Capability
from killcheck.executor.refusals import ENDED
from killcheck.faults.base import Evidence, Plan
from killcheck.faults.kubernetes.executor import ExecutorFault, log_line
from killcheck.layers.base import LayerRun, Stage

__all__ = ["CertificateEnded"]


class CertificateEnded(ExecutorFault):
    """Reproduces row 22: kubeadm's serving certificates live a year; a node's clock that is a year ahead sees the same.

    On the embedded cluster only executors come over TLS: the control plane goes on, as one that trusts itself does.
    """

    name = "certificate-ended"
    simulates = "the API server's certificate, as executors are shown it, has ended"
    family = "network"
    failures = (22,)
    needs = (Capability.WIRE,)
    rank = 2
    shows = Evidence.EXECUTOR

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Whoever connects over the wire is shown another certificate."""
        return Plan((self.simulates,), edits=("the wire's certificate",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Show it from the next connection on."""
        stage.journal.set_attribute(Capability.WIRE, self.simulates, "certificate_ended", True)
        return [self.simulates]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """This executor would not have it."""
        return log_line(stage, ENDED)
