"""This machine as a place to drill on: kill paths that have no part in Kubernetes, by programs alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from killcheck.capabilities.cluster import InstanceState
from killcheck.clock import WallLoop
from killcheck.cluster.base import RealPlace
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj

__all__ = ["NAME", "HostCluster"]

#: What ``--on`` calls it, and what ``consent.contexts`` must allow.
NAME = "host"


class _NoApi:
    """There is no API server: whoever asks is told so, and never 'none'."""

    def __getattr__(self, name: str) -> Any:
        raise KubeError(f"{NAME} is this machine, not a cluster: there is no Kubernetes API to ask")


class HostCluster(RealPlace):
    """Reads and acts by the programs that the spec names (the capability ``programs``), on the wall's clock."""

    name = NAME

    def __init__(self) -> None:
        self.loop = WallLoop()
        self.kube = Kube(_NoApi())
        self.own_consent = self

    def instance_state(self, node: Obj) -> InstanceState:
        """There are no nodes."""
        return "unknown"

    def objections(self, plan: object) -> Sequence[str]:
        """There are no namespaces and no pools that would have to consent; the spec's commands must be allowed."""
        return ()

    def close(self) -> None:
        """Stop the programs that still run; idempotent."""
        if self.capabilities.programs is not None:
            self.capabilities.programs.close()
