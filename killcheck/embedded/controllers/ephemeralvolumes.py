"""Generic ephemeral volumes: a claim is made for each, which belongs to its pod and goes with it.

Source: pkg/controller/volume/ephemeral of Kubernetes v1.36 (syncHandler, handleVolume). A claim of that name that is
not the pod's stays as it is, and the pod waits.
"""

from __future__ import annotations

from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of
from killcheck.kube.owner_references import controller_ref

__all__ = ["EphemeralVolumeController"]


class EphemeralVolumeController(Controller):
    """Makes the claims of pods that have none yet."""

    name = "ephemeral-volume-controller"

    def setup(self) -> None:
        """Follow pods that have such volumes."""
        self.pods = self.follow(r.PODS, lambda change, _old, new: _key(new) if change == "added" else [])

    def reconcile(self, key: Key) -> None:
        """The claims of one pod."""
        pod = self.pods.get(key[1], key[0])
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        for volume in _ephemeral(pod):
            template = dig(volume, "ephemeral", "volumeClaimTemplate", default={})
            meta: Obj = {"name": f"{name_of(pod)}-{volume['name']}", "namespace": key[0]}
            meta |= {"labels": labels_of(template), "annotations": annotations_of(template)}
            meta["ownerReferences"] = [controller_ref(pod, r.PODS)]
            claim: Obj = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta}
            try:
                self.kube.create(r.PERSISTENTVOLUMECLAIMS, claim | {"spec": template.get("spec") or {}})
            except Conflict:
                continue


def _ephemeral(pod: Obj) -> list[Obj]:
    return [one for one in dig(pod, "spec", "volumes", default=[]) if "ephemeral" in one]


def _key(pod: Obj) -> list[Key]:
    return [(namespace_of(pod), name_of(pod))] if _ephemeral(pod) else []
