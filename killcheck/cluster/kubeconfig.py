"""A real cluster, named explicitly by a kubeconfig context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from killcheck.clock import WallLoop
from killcheck.cloud.instances import Instances
from killcheck.cluster.base import InstanceState
from killcheck.kube.config import connect
from killcheck.kube.objects import Obj, dig
from killcheck.programs import close_programs

__all__ = ["KubeconfigCluster"]


class KubeconfigCluster:
    """Reads by watch, writes only through the journal. Raises KubeError at once where it cannot be reached."""

    real = True

    def __init__(self, context: str, *, kubeconfig: Path | None = None) -> None:
        self.name = context
        self.loop = WallLoop()
        self.kube = connect(context, kubeconfig=kubeconfig, loop=self.loop)
        self.levers: dict[str, object] = {}
        self.version = str(self.kube.call("GET", "/version").body.get("gitVersion", ""))

    def instance_state(self, node: Obj) -> InstanceState:
        """What the spec's ``cloud:`` says; without it nothing is known."""
        asked = cast("Instances | None", self.levers.get("instances"))
        return asked.state(dig(node, "spec", "providerID", default="")) if asked else "unknown"

    def assumptions(self) -> Sequence[str]:
        """None: what is here is real."""
        return ()

    def unknowns(self) -> Sequence[str]:
        """None."""
        return ()

    def close(self) -> None:
        """Stop the programs that still run; idempotent."""
        close_programs(self.levers)
