"""A pod's claims for volumes: there, bound, and reachable from the node.

Source: pkg/scheduler/framework/plugins/volumebinding of Kubernetes v1.36. Which volume a claim gets,
the binder decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from killcheck.embedded.controllers.scheduler.filters import matches_node_terms
from killcheck.embedded.controllers.scheduler.nodes import NodeInfo, Reject
from killcheck.kube.objects import Obj, annotations_of, dig, name_of, namespace_of

__all__ = ["SELECTED_NODE", "VolumeCheck", "claims_of"]

SELECTED_NODE = "volume.kubernetes.io/selected-node"
_AFFINITY = Reject("VolumeBinding", ("node(s) didn't match PersistentVolume's node affinity",))

#: A claim by (name, namespace), a volume by name, a storage class by name.
Find = Callable[[str, str], Obj | None]


def claims_of(pod: Obj) -> Iterator[tuple[str, bool]]:
    """The names of the PersistentVolumeClaims that a pod uses, and whether each is made for the pod."""
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"], False
        elif "ephemeral" in volume:
            yield f"{name_of(pod)}-{volume['name']}", True


class VolumeCheck:
    """``problem`` refuses the pod everywhere; ``to_bind`` are claims that wait for their first consumer."""

    def __init__(self, pod: Obj, claim: Find, volume: Find, storage_class: Find) -> None:
        self.problem = ""
        self.to_bind: list[Obj] = []
        self._affinities: list[list[Obj]] = []
        unbound = False
        for name, made in claims_of(pod):
            found = claim(name, namespace_of(pod))
            if found is None:
                wait = "waiting for ephemeral volume controller to create the " if made else ""
                self.problem = f'{wait}persistentvolumeclaim "{name}"' + ("" if made else " not found")
                return
            if "deletionTimestamp" in found["metadata"]:
                self.problem = f'persistentvolumeclaim "{name}" is being deleted'
                return
            bound_to = found["spec"].get("volumeName")
            if bound_to and dig(found, "status", "phase") == "Bound":
                self._restrict(volume(bound_to, ""))
            elif _late(storage_class(str(found["spec"].get("storageClassName") or ""), "")):
                self.to_bind.append(found)
            else:
                unbound = True
        if unbound:
            self.problem = "pod has unbound immediate PersistentVolumeClaims"

    def _restrict(self, volume: Obj | None) -> None:
        terms = dig(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms")
        if terms:
            self._affinities.append(terms)

    def check(self, at: NodeInfo) -> Reject | None:
        """None: every volume can be had on the node."""
        for terms in self._affinities:
            if not matches_node_terms(terms, at.node or {}, at.labels):
                return _AFFINITY
        for claim in self.to_bind:
            if annotations_of(claim).get(SELECTED_NODE, at.name) != at.name:
                return _AFFINITY
        return None


def _late(storage_class: Obj | None) -> bool:
    return storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
