"""Targets that ask for nothing now, and in which something that does not run here may ask for GPUs again.

Source: ray-project/ray, python/ray/autoscaler/_private/kuberay/node_provider.py: with ``enableInTreeAutoscaling`` the
autoscaler beside the head writes each group's ``replicas`` by its load, up to ``maxReplicas``. ``suspend`` of the
RayCluster ends the head too (ray-project/kuberay).
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.entries import Becomes, Entry, Status, leaves
from killcheck.kube.client import Kube
from killcheck.kube.gpus import spec_devices
from killcheck.kube.objects import Obj, dig
from killcheck.ledger.stakes import Stakes

__all__ = ["entries"]

_SETTLES = (
    "write spec.suspend: true, which ends the autoscaler too, or drill it on a cluster where it runs (--on CONTEXT), "
    "or say under assume: why nothing asks for workers"
)


@leaves("worker fleets", "Ray's own autoscaler (enableInTreeAutoscaling), and the load it grows with", Becomes.OPEN)
def entries(stakes: Stakes, kube: Kube) -> Iterator[Entry]:
    """An open entry for each RayCluster, as it is now, whose own autoscaler lives on and may grow a group of GPUs.

    Raises KubeError.
    """
    for held in stakes.targets:
        if (held.kind, held.group) != ("RayCluster", "ray.io"):
            continue
        resource = kube.resource_for(held.api_version, held.kind)
        spec = dig(kube.find(resource, held.name, held.namespace) or {}, "spec", default={})
        if spec.get("enableInTreeAutoscaling") is True and spec.get("suspend") is not True:
            for group in filter(_may_grow, spec.get("workerGroupSpecs") or ()):
                because = (
                    f"Ray's autoscaler beside its head (enableInTreeAutoscaling) may ask for workers of group "
                    f"{group.get('groupName')} again, by a load that is in no manifest"
                )
                yield Entry(str(held), Status.NOT_MODELLED, because, _SETTLES)


def _may_grow(group: Obj) -> bool:
    """Whether a group may have workers again, and they hold GPUs."""
    return group.get("maxReplicas") != 0 and spec_devices(dig(group, "template", "spec", default={})) > 0
