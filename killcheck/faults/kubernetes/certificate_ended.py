"""The API server shows executors a certificate that is not valid by their clocks: it has ended, or has not begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from killcheck.capabilities.offered import Capability
from killcheck.executor.refusals import ENDED
from killcheck.faults.base import Evidence, Plan
from killcheck.faults.kubernetes.executor import ExecutorFault, log_line
from killcheck.layers.base import LayerRun, Stage

__all__ = ["CertificateEnded", "NodeClockBehind"]


class _Shown(ExecutorFault):
    """On the embedded cluster only executors come over TLS: the control plane goes on, as if it trusted itself."""

    family = "network"
    #: Which certificate the wire shows.
    shown: ClassVar[str]
    failures = (22,)
    needs = (Capability.WIRE,)
    rank = 2
    shows = Evidence.EXECUTOR

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Whoever connects over the wire is shown another certificate."""
        return Plan((self.simulates,), edits=("the wire's certificate",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Show it from the next connection on."""
        stage.journal.set_attribute(Capability.WIRE, self.simulates, "certificate", self.shown)
        return [self.simulates]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """This executor would not have it."""
        return log_line(stage, ENDED)


class CertificateEnded(_Shown):
    """Reproduces row 22: kubeadm's serving certificates live a year; a clock that is a year ahead sees the same."""

    name = "certificate-ended"
    simulates = "the API server's certificate, as executors are shown it, has ended"
    shown = "ended"


class NodeClockBehind(_Shown):
    """Reproduces row 22: a node whose clock is behind takes the certificate that was renewed just now for an early one.

    Go's x509 says one sentence for both (*certificate has expired or is not yet valid: current time ... is before*).
    Source: KK#124022.
    """

    name = "node-clock-behind"
    simulates = "the clock of the executor's node is behind: the API server's new certificate is not valid yet"
    shown = "early"
