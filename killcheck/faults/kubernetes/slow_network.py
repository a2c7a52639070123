"""The way to the API server is there and no good: names are slow to resolve, full packets are lost.

Sources: kubernetes/kubernetes#56903 and coredns/coredns#3163 (a lost question costs the resolver's five seconds);
resolv.conf(5) (timeout: 5; each domain of the search list is a question of its own); flannel-io/flannel#1614,
open-cluster-management-io/ocm#1314 (the connection is made, and the handshake's larger packets are dropped: *TLS
handshake timeout*).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct, field

from killcheck.capabilities.offered import Capability
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.kubernetes.executor import ExecutorFault, asks_for_no_name, cron_job_of, log_line
from killcheck.kube.objects import Obj
from killcheck.layers.base import LayerRun, Stage

__all__ = ["DnsSlow", "HandshakeLost"]


class _Slow(Struct):
    """How long look-ups take, and which there were."""

    seconds: float
    asked: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> float:
        self.asked.append(name)
        return self.seconds


class DnsSlow(ExecutorFault):
    """Reproduces row 25's neighbour: a name of three parts is looked up in each domain of the search list before."""

    name = "dns-slow"
    simulates = "each look-up of a name takes the executor 5 s: the resolver's first question is lost"
    family = "network"
    failures = (25,)
    needs = (Capability.WIRE,)
    rank = 2
    shows = Evidence.CALL

    #: What a question that is lost costs (resolv.conf(5), timeout).
    takes_s: ClassVar[float] = 5.0

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """An executor that goes by address asks for no name."""
        return asks_for_no_name(layer_name, cron_job)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Answers of the cluster's DNS are held back. Raises FaultError where no name is asked for."""
        why = self.unsuited_executor(layer.layer.name, cron_job_of(layer))
        if why:
            raise FaultError(f"{self.name}: {why}")
        return Plan((self.simulates,), edits=("the answers of DNS",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Hold them back from now on."""
        self.slow = _Slow(self.takes_s)
        stage.journal.set_attribute(Capability.WIRE, self.simulates, "names", self.slow)
        return [self.simulates]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Somebody asked for a name: only executors ask here."""
        asked = getattr(self, "slow", _Slow(0.0)).asked
        return f"{len(asked)} look-up(s) took {self.takes_s:.0f} s each, first: {asked[0]}" if asked else None


class _Lost(Struct):
    """Handshakes that came to nothing."""

    met: int = 0

    def __call__(self) -> bool:
        self.met += 1
        return True


class HandshakeLost(ExecutorFault):
    """Reproduces row 23's neighbour: a tunnel's MTU is smaller than its ends believe, and nobody tells them.

    A client without a limit of its own waits for ever: a Job without a deadline is then active for ever too.
    """

    name = "handshake-lost"
    simulates = "packets of full size are lost (MTU): connections to the API server are made, and no handshake ends"
    family = "network"
    failures = (23,)
    needs = (Capability.WIRE,)
    rank = 2
    shows = Evidence.CALL

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Whoever connects over the wire hears nothing after that."""
        return Plan((self.simulates,), edits=("the wire's handshakes",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Say nothing from the next connection on."""
        self.lost = _Lost()
        stage.journal.set_attribute(Capability.WIRE, self.simulates, "handshakes", self.lost)
        return [self.simulates]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """What the executor says of it, or that it waits: only executors come over the wire here."""
        met = getattr(self, "lost", _Lost()).met
        said = log_line(stage, r"handshake|ssl connection timed? ?out|timed out")
        return (said or f"{met} connection(s) whose handshake nobody answers") if met else None
