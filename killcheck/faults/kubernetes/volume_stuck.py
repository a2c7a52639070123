"""A volume stays attached to the GPU node: Karpenter waits for it, and the instance bills on."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.faults.base import Evidence, Fault, FaultError, Plan, all_provided, none_asked
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, condition, dig, name_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import retry
from killcheck.spec.killpath import KillPath, Layer

__all__ = ["VolumeStuck"]

_GROUP = "storage.k8s.io"


class VolumeStuck(Fault):
    """Reproduces row 44: the pods are evicted, and their volume's detachment never comes to an end.

    A VolumeAttachment of our own, of a driver that nobody runs, is on every GPU node. It is what Kubernetes shows of a
    volume that a dead CSI driver will never let go. Karpenter holds the instance until it is gone, or until the pool's
    terminationGracePeriod has passed (karpenter pkg/controllers/node/termination, filterVolumeAttachments). It takes
    no notice of those without a persistentVolumeName, and of pods that cannot be drained. A cluster autoscaler waits
    for no volume: there this fault does not bite.
    """

    name = "volume-stuck"
    simulates = "a volume does not detach from the GPU node, because its CSI driver is dead"
    family = "drain"
    failures = (44,)
    through = (r.NODECLAIMS, "Karpenter, which alone waits for volumes to detach,")
    shows = Evidence.OTHERS

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where it is asked what becomes of machines."""
        return none_asked(kill_path) or all_provided(kill_path)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """A VolumeAttachment of our own for each GPU node."""
        self.must_be_installed(stage.cluster.kube)
        verbs = [Permission(v, _GROUP, "volumeattachments") for v in ("get", "create", "delete")]
        return Plan(
            ("a VolumeAttachment of our own, of a driver that nobody runs, on every node of the GPU pools",),
            permissions=tuple(verbs),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Create them."""
        done: list[str] = []
        if not stage.scene.pool_nodes():
            raise FaultError("no node of the GPU pools is there")
        for number, node in enumerate(stage.scene.pool_nodes()):
            name = f"{self._prefix(stage)}-{number}"
            stage.journal.create(
                r.VOLUMEATTACHMENTS,
                {
                    "apiVersion": f"{_GROUP}/v1",
                    "kind": "VolumeAttachment",
                    "metadata": {"name": name},
                    "spec": {
                        "attacher": "nobody.killcheck.dev",
                        "nodeName": name_of(node),
                        "source": {"persistentVolumeName": name},
                    },
                },
            )
            done.append(f"created VolumeAttachment {name} on node {name_of(node)}")
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Karpenter says that it waits for our attachment, or waits for one while ours is on that node."""
        for event in stage.scene.events.values():
            if event.get("reason") == "AwaitingVolumeDetachment" and self._prefix(stage) in str(event.get("message")):
                return f"AwaitingVolumeDetachment: {event.get('message')}"
        for claim in stage.scene.claims.values():
            waits = condition(claim, "VolumesDetached")
            node = dig(claim, "status", "nodeName", default="")
            if (
                waits
                and waits.get("status") != "True"
                and any(dig(one, "spec", "nodeName") == node for one in self._ours(stage))
            ):
                return f"NodeClaim {name_of(claim)}: VolumesDetached {waits.get('status')}: {waits.get('reason')}"
        return None

    def _ours(self, stage: Stage) -> list[Obj]:
        kube = stage.cluster.kube
        names = [f"{self._prefix(stage)}-{number}" for number in range(len(stage.scene.known_nodes))]
        found = [
            retry(stage.cluster.loop, lambda n=name: kube.find(r.VOLUMEATTACHMENTS, n))  # type: ignore[misc]
            for name in names
        ]
        return [one for one in found if one is not None]

    @staticmethod
    def _prefix(stage: Stage) -> str:
        return f"killcheck-volume-{stage.run[-6:]}"
