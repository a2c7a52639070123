"""A Docker Engine without Kubernetes as a place to drill on: its containers are the targets and the executors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from killcheck.capabilities.cluster import ClusterError, InstanceState
from killcheck.capabilities.offered import Capabilities
from killcheck.clock import WallLoop
from killcheck.cluster.base import RealPlace
from killcheck.engine.api import EngineApi, Schedule
from killcheck.engine.connection import Engine, host_of
from killcheck.engine.projection import CONSENT, CONTAINERS, SPARE
from killcheck.kube import selectors
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, labels_of, name_of
from killcheck.safety.journal import Journal, Undo
from killcheck.spec.killpath import DOCKER, KillPath, Proof

if TYPE_CHECKING:
    from killcheck.safety.consent import Plan

__all__ = ["DockerCluster", "connect"]

#: What a drill may ask of an engine; anything else takes a Kubernetes API.
_SERVED = frozenset(
    {
        "pods",
        "nodes",
        "namespaces",
        "events",
        "jobs",
        "cronjobs",
        "replicasets",
        "containers",
        "images",
        "tags",
        "configmaps",
        "leases",
    }
)


def connect(on: str, loop: WallLoop) -> Kube:
    """The API of the engine that ``--on docker[:HOST]`` names. Raises KubeConfigError, Unreachable."""
    return Kube(EngineApi(Engine(host_of(on)), loop))


class DockerCluster(RealPlace):
    """The engine that ``on`` names, for one kill path. Raises ClusterError where the two do not fit together."""

    def __init__(self, on: str, kill_path: KillPath) -> None:
        self.name = on
        self.loop = WallLoop()
        self.kill_path = kill_path
        _refuse(on, kill_path)
        self.engine = Engine(host_of(on))
        schedules = [
            Schedule(layer.name, layer.container.name, layer.container.argv, layer.schedule, layer.time_zone)
            for layer in kill_path.layers
            if layer.container is not None
        ]
        kinds = {target.instance_type for target in kill_path.targets} - {""}
        self.api = EngineApi(
            self.engine, self.loop, schedules, instance_type=next(iter(kinds)) if len(kinds) == 1 else ""
        )
        self.kube = Kube(self.api)
        self.capabilities = Capabilities(engine=self.engine)
        self.own_consent = self.keeper = self

    def objections(self, plan: Plan) -> Iterable[str]:
        """Why this engine's containers may not be touched: each that a drill changes or runs says so by its label."""
        for permission in plan.permissions:
            if permission.resource not in _SERVED:
                yield f"{permission} takes a Kubernetes API, and a Docker Engine has none"
        for container in self._touched():
            if labels_of(container).get(CONSENT) != "true":
                yield (
                    f"container {name_of(container)} has not opted in: make it with the label {CONSENT}=true "
                    f"(docker run --label {CONSENT}=true, or labels: in its Compose file)"
                )

    def _touched(self) -> list[Obj]:
        names = {layer.container.name for layer in self.kill_path.layers if layer.container is not None}
        names |= {target.object for target in self.kill_path.targets if target.object}
        wanted = [selectors.parse_labels(t.selector) for t in self.kill_path.targets if t.selector]
        return [
            c
            for c in self.kube.list(CONTAINERS, DOCKER).items
            if name_of(c) in names or any(s.matches(labels_of(c)) for s in wanted)
        ]

    def remember(self, journal: Journal, container: Obj) -> None:
        """Write down how a container is put back on: started, or, should its end have removed it, made again.

        It would be made from a copy that is never started; its environment, secrets and all, stays on the engine.
        """
        name = name_of(container)
        spare = f"{name[:40]}-killcheck-spare-{journal.run[-8:]}"
        journal.create(
            CONTAINERS,
            {
                "apiVersion": CONTAINERS.api_version,
                "kind": CONTAINERS.kind,
                "spec": {"copyOf": name},
                "metadata": {"name": spare, "namespace": DOCKER},
            },
            f"created container {spare}, never started",
        )
        body = {
            "metadata": {"name": name, "labels": labels_of(container), "annotations": {SPARE: spare}},
            "spec": {"replicas": 1, "networks": container["spec"]["networks"]},
        }
        undo = Undo("put", CONTAINERS.path(DOCKER, name), body, manual=f"docker start {name}")
        with journal.change(f"container {name} was on", undo):
            pass

    def instance_state(self, node: Obj) -> InstanceState:
        """Whether the host itself is on cannot be told by what runs on it."""
        return "unknown"

    def close(self) -> None:
        """Stop listening; idempotent."""
        self.api.close()
        self.engine.api.close()


def _refuse(on: str, kill_path: KillPath) -> None:
    strangers = [str(t) for t in kill_path.targets if t.kind and t.kind != "Container"]
    if strangers:
        raise ClusterError(
            f"--on {on} drills containers, and the spec's target(s) {', '.join(strangers)} are of a Kubernetes "
            "cluster: name its context with --on, or say kind: Container"
        )
    beyond = sorted(kill_path.proof & {Proof.P2, Proof.P3})
    if beyond:
        raise ClusterError(
            f"proof {', '.join(beyond)} cannot be seen from a Docker Engine: its host stays on when containers go. Say "
            "proof: [P1, P4], and drill what turns the machine itself off as a target that a command counts"
        )
