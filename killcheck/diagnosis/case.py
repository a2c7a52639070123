"""What a diagnosis is made from, and what it is."""

from __future__ import annotations

from msgspec import Struct, field

from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, condition, dig, labels_of, name_of
from killcheck.layers.base import LayerRun, Observations
from killcheck.watch.scene import Scene, event_time
from killcheck.watch.timeline import Timeline

__all__ = ["Case", "Diagnosis"]


class Diagnosis(Struct, frozen=True):
    """``cause``: in Kubernetes' own words where it has any. ``failures``: rows of the failure catalogue.

    ``lasting``: the remedy would have survived the fault too; every other mends what is seen, and under a fault that
    may be what the drill itself did.
    """

    cause: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    failures: tuple[int, ...] = ()
    lasting: bool = False


class Case(Struct):
    """A drill that got stuck before ``stuck_at``."""

    stuck_at: str
    layer: LayerRun
    scene: Scene
    timeline: Timeline
    observations: Observations = field(default_factory=Observations)
    #: Something that had been off came on again.
    relit: bool = False
    #: Whose pod last wrote an object's replicas (``Deployment shop/keep-warm``), by the object's uid, where known.
    scaled_by: dict[str, str] = field(default_factory=dict)

    @property
    def job(self) -> Obj:
        """The drill's Job as last seen; empty where there is none."""
        return self.observations.job or {}

    @property
    def pods(self) -> list[Obj]:
        """The executor's pods as last seen, the newest last."""
        return sorted(self.observations.pods.values(), key=lambda p: str(p["metadata"].get("creationTimestamp", "")))

    def containers(self) -> list[tuple[Obj, Obj]]:
        """(pod, container status) of every executor container, init containers first, the newest pod first."""
        return [
            (pod, status)
            for pod in reversed(self.pods)
            for status in (
                *dig(pod, "status", "initContainerStatuses", default=[]),
                *dig(pod, "status", "containerStatuses", default=[]),
            )
        ]

    def events(self, *reasons: str) -> list[Obj]:
        """Events about the Job and its pods with one of these reasons, the newest first."""
        found = [e for e in self.observations.events.values() if not reasons or e.get("reason") in reasons]
        return sorted(found, key=event_time, reverse=True)

    def job_condition(self, kind: str) -> Obj | None:
        """The Job's condition of that type, if it is True."""
        found = condition(self.job, kind)
        return found if found and found.get("status") == "True" else None

    def log(self) -> str:
        """The newest executor's log."""
        for pod in reversed(self.pods):
            for (name, _), text in self.observations.logs.items():
                if name == name_of(pod) and text:
                    return text
        return ""

    def log_lines(self, most: int = 5) -> list[str]:
        """The telling end of the log."""
        lines = [line.rstrip() for line in self.log().splitlines() if line.strip()]
        return [f"log: {line[:300]}" for line in lines[-most:]]

    def pools(self) -> list[Obj]:
        """The NodePools of the nodes that are left, as the API has them; none where they cannot be read."""
        names = {labels_of(node).get("karpenter.sh/nodepool", "") for node in self.scene.pool_nodes()} - {""}
        try:
            found = [self.scene.cluster.kube.find(r.NODEPOOLS, name) for name in sorted(names)]
        except KubeError:
            return []
        return [pool for pool in found if pool is not None]

    def last_words(self, most: int = 6) -> list[str]:
        """The newest events, as evidence."""
        return [said(event) for event in self.events()[:most]] + self.log_lines()


def said(event: Obj) -> str:
    """An event in one line."""
    count = int(event.get("count") or 1)
    times = f" (x{count})" if count > 1 else ""
    return f"event {event.get('type')} {event.get('reason')}{times}: {event.get('message')}"
