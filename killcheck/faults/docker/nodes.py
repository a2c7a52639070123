"""What happens to machines where nodes are containers (kind): paused, stopped, cut off, reclaimed on notice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from killcheck.capabilities.offered import Capability
from killcheck.engine.projection import CONTAINERS, NAMESPACE
from killcheck.faults.base import FaultError, Plan
from killcheck.faults.docker.states import CUT_OFF, PAUSED, STOPPED, ContainersFault
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, name_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import TAINTS, adding
from killcheck.text.values import replace

__all__ = ["NodeDisconnected", "NodePaused", "NodeReclaimed", "NodeStopped"]

#: Taint of a node that has notice, as AWS' node termination handler names it.
NOTICE_TAINT = "aws-node-termination-handler/spot-itn"


class _NodeFault(ContainersFault):
    """A change of the containers that are the GPU pools' nodes."""

    needs = (Capability.NODE_CONTAINERS,)
    called = "node container"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Those machines, as wholes; the engine is this machine's own, and no API server is asked for rights on it."""
        plan = super().plan(stage, layer)
        names = [name_of(container) for container in self.containers(stage, layer)]
        return replace(plan, permissions=(), edits=tuple(f"Container {name}.spec" for name in names))

    def containers(self, stage: Stage, layer: LayerRun) -> list[Obj]:
        """Those of the pools' nodes."""
        kube = stage.cluster.kube
        nodes = [node for node in kube.list(r.NODES).items if stage.scene.in_pool(node)]
        try:
            found = [kube.get(CONTAINERS, name_of(node), NAMESPACE) for node in nodes]
        except NotFound as error:
            raise FaultError(f"a node of the GPU pools is no container of this engine: {error}") from error
        if not found:
            raise FaultError("no node of the GPU pools is there")
        return found

    def names(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Of every node that was seen."""
        return list(stage.scene.known_nodes)


class NodePaused(_NodeFault):
    """Reproduces row 37: kubelet and processes are frozen; nothing ends, nothing is said, and it bills."""

    name = "node-paused"
    simulates = "the GPU node is frozen: its kubelet and its processes do nothing"
    family = "network"
    failures = (37,)
    state = PAUSED


class NodeStopped(_NodeFault):
    """Reproduces rows 49 and 52: the machine is off, and its Node object stands."""

    name = "node-stopped"
    simulates = "the GPU node's machine is off, without notice"
    family = "spot"
    failures = (49, 52)
    state = STOPPED


class NodeDisconnected(_NodeFault):
    """Reproduces row 37: the node does not answer; its containers run on, and bill."""

    name = "node-disconnected"
    simulates = "the GPU node is cut off from the network"
    family = "network"
    failures = (37,)
    state = CUT_OFF


class NodeReclaimed(_NodeFault):
    """Reproduces row 52: the node is tainted as by a termination handler; at the notice's end its machine goes."""

    name = "node-reclaimed"
    simulates = "a spot notice, and at its end the GPU node's machine goes off"
    family = "spot"
    failures = (52,)
    state = STOPPED
    #: How long the notice leaves (GCP 30 s, AWS 2 min).
    notice_s = 30.0

    def __init__(self) -> None:
        self._due: datetime | None = None
        self._left: list[str] = []

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The nodes get a taint, then their machines go off."""
        plan = super().plan(stage, layer)
        return replace(plan, permissions=(Permission("patch", "", "nodes"), Permission("get", "", "nodes")))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Give notice."""
        self._due = stage.cluster.loop.now() + timedelta(seconds=self.notice_s)
        taint = {"key": NOTICE_TAINT, "value": "true", "effect": "NoSchedule"}
        done = []
        for container in self.containers(stage, layer):
            name = name_of(container)
            stage.journal.merge(r.NODES, name, None, adding(taint, *TAINTS), f"notice for {name}", transient=True)
            self._left.append(name)
            done.append(f"notice for {name}: its machine goes off in {self.notice_s:.0f} s")
        return done

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """At the notice's end the machines go."""
        if self._due is None or not self._left:
            return None
        remaining = (self._due - stage.cluster.loop.now()).total_seconds()
        if remaining > 0:
            return remaining
        for name in self._left:
            stage.journal.merge(CONTAINERS, name, NAMESPACE, {"spec": {"replicas": 0}}, f"reclaimed {name}")
        self._left = []
        return None

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The notice is over, and the engine says that a node's machine is off."""
        off = super().bitten(stage, layer) if self._due is not None and not self._left else ""
        return f"{off}: its notice ended at {self._due:%H:%M:%S}" if off else None
