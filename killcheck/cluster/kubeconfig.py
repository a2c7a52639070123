"""A real cluster, named explicitly by a kubeconfig context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

from killcheck.capabilities.cluster import InstanceState
from killcheck.clock import WallLoop
from killcheck.cluster.base import RealCluster
from killcheck.entries import Assumption
from killcheck.kube.client import Kube
from killcheck.kube.config import connect
from killcheck.kube.objects import Obj, dig

__all__ = ["KubeconfigCluster", "on_its_clock"]

#: Clocks that are no further apart than this are the same: NTP keeps them closer, and a Date is whole seconds.
SAME = timedelta(seconds=2)


class KubeconfigCluster(RealCluster):
    """Reads by watch, writes only through the journal. Raises KubeError at once where it cannot be reached."""

    def __init__(self, context: str, *, kubeconfig: Path | None = None) -> None:
        self.name = context
        self.kubeconfig = kubeconfig
        self.loop = WallLoop()
        self.kube = connect(context, kubeconfig=kubeconfig, loop=self.loop)
        self.kubernetes = on_its_clock(self.kube, self.loop)

    def instance_state(self, node: Obj) -> InstanceState:
        """What the spec's ``cloud:`` says; without it nothing is known."""
        asked = self.capabilities.instances
        return asked.state(dig(node, "spec", "providerID", default="")) if asked else "unknown"

    def assumptions(self) -> Sequence[Assumption]:
        """Nodes without a machine, and whose clock the times are by."""
        ahead = self.loop.ahead.total_seconds()
        found = super().assumptions()
        if not ahead:
            return found
        how = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'}"
        return [*found, Assumption(f"the cluster's clock is {how} this machine's: times are the cluster's")]

    def close(self) -> None:
        """Stop the programs that still run; idempotent."""
        if self.capabilities.programs is not None:
            self.capabilities.programs.close()


def on_its_clock(kube: Kube, loop: WallLoop) -> str:
    """Let a loop go by the API server's clock, as Leases and objects do, and answer its version. Raises KubeError."""
    asked = loop.now()
    answer = kube.call("GET", "/version")
    loop.ahead = _ahead(answer.headers, asked, loop.now())
    return str(answer.body.get("gitVersion", ""))


def _ahead(headers: Mapping[str, str], asked: datetime, answered: datetime) -> timedelta:
    """How far the server's clock is ahead of ours, by its Date header; zero where that cannot be told apart from none.

    Objects carry the server's times: who turned what off, and when, can only be told on one clock.
    """
    text = next((value for name, value in headers.items() if name.lower() == "date"), "")
    try:
        date = parsedate_to_datetime(text).replace(tzinfo=UTC)  # HTTP dates are GMT
    except ValueError:
        return timedelta(0)
    # A Date is a whole second, rounded down, taken at some moment between the question and the answer.
    earliest, latest = date - answered, date + timedelta(seconds=1) - asked
    if earliest <= SAME and latest >= -SAME:
        return timedelta(0)
    return timedelta(seconds=round(((earliest + latest) / 2).total_seconds(), 1))
