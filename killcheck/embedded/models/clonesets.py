"""OpenKruise's CloneSet (``apps.kruise.io``), from replicas to pods.

Only what turns them on and off, as its controller does it (openkruise/kruise pkg/controller/cloneset, July 2026): as
many active pods as ``replicas`` says; one that is deleted or over is made again under another name, at once
(sync/cloneset_scale.go, Scale; utils, GetActiveAndInactivePods). Each pod has an id, and the claims of that id, which
go with the pod that is scaled in.

Left out: updates, in place or not; order of who goes first. Told: pods that are held by a ``preDelete`` hook until
somebody lets them go, and those that are named to be deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Key
from killcheck.embedded.models.groups import Groups
from killcheck.entries import Doubt
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Conflict, NotFound
from killcheck.kube.objects import Obj, annotations_of, copy, dig, labels_of, name_of, namespace_of, ref_of, uid_of
from killcheck.kube.owner_references import controller_ref
from killcheck.kube.resources import Resource

__all__ = ["CloneSets"]

_CLONESETS = Resource("apps.kruise.io", "v1alpha1", "clonesets", "CloneSet")
#: The label of a pod and its claims that says which one it is (apis/apps/v1beta1, CloneSetInstanceID).
_ID = "apps.kruise.io/cloneset-instance-id"
#: Fields by which more happens to pods than replicas say.
_HOOK, _NAMED = ("spec", "lifecycle", "preDelete"), ("spec", "scaleStrategy", "podsToDelete")


class CloneSets(Groups):
    """kruise-manager, for CloneSets."""

    name: ClassVar[str] = "kruise-manager"
    own: ClassVar[Resource] = _CLONESETS
    made: ClassVar[Resource] = r.PODS

    def setup(self) -> None:
        """Count the ids that were given: none is given twice."""
        self._given: dict[str, int] = {}
        super().setup()

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """Nothing by name: pods are counted."""
        return iter(())

    def reconcile(self, key: Key) -> None:
        """As many active pods as are asked for."""
        obj = self.objects.get(key[1], key[0])
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            return
        self._doubt(obj)
        mine = [pod for pod in self.children.values() if self.is_of(obj, pod)]
        active = [pod for pod in mine if _is_active(pod)]
        for pod in mine:
            if not _is_active(pod) and "deletionTimestamp" not in pod["metadata"]:
                self._delete(pod)
        asked = int(dig(obj, "spec", "replicas", default=1))
        for _ in range(asked - len(active)):
            self._one_more(obj)
        for pod in active[asked:]:
            self._delete(pod)
            for claim in self.kube.list(r.PERSISTENTVOLUMECLAIMS, key[0]).items:
                if labels_of(claim).get(_ID) == labels_of(pod).get(_ID):
                    self._delete_claim(claim)

    def _doubt(self, obj: Obj) -> None:
        said = [".".join(where) for where in (_HOOK, _NAMED) if dig(obj, *where)]
        doubt = Doubt(ref_of(obj), f"{ref_of(obj)}: {' and '.join(said)} is not modelled")
        if said and doubt not in self.unproven:
            self.unproven.append(doubt)

    def _one_more(self, obj: Obj) -> None:
        uid = uid_of(obj)
        self._given[uid] = self._given.get(uid, 0) + 1
        number = hashlib.sha1(f"{uid}/{self._given[uid]}".encode(), usedforsecurity=False).hexdigest()[:5]
        template = dig(obj, "spec", "template", default={})
        spec = copy(template.get("spec") or {})
        labels = {**labels_of(template), _ID: number}
        for claim in dig(obj, "spec", "volumeClaimTemplates", default=[]):
            name = f"{name_of(claim)}-{name_of(obj)}-{number}"
            self._claim(obj, claim, name, labels)
            others = [one for one in spec.get("volumes") or () if one.get("name") != name_of(claim)]
            spec["volumes"] = [*others, {"name": name_of(claim), "persistentVolumeClaim": {"claimName": name}}]
        meta = {"name": f"{name_of(obj)}-{number}", "labels": labels, "annotations": annotations_of(template)}
        self._create(obj, {"metadata": meta, "spec": spec})

    def _claim(self, owner: Obj, claim: Obj, name: str, labels: Obj) -> None:
        meta: Obj = {"name": name, "namespace": namespace_of(owner), "labels": labels}
        meta["ownerReferences"] = [controller_ref(owner, self.own)]
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim.get("spec")}
        try:
            self.kube.create(r.PERSISTENTVOLUMECLAIMS, body)
        except Conflict:
            return
        except ApiError as error:
            self.events.emit(owner, "Warning", "FailedCreate", f"failed to create pvc: {error.message}")
            raise

    def _delete_claim(self, claim: Obj) -> None:
        try:
            self.kube.delete(r.PERSISTENTVOLUMECLAIMS, name_of(claim), namespace_of(claim))
        except NotFound:
            return


def _is_active(pod: Obj) -> bool:
    over = dig(pod, "status", "phase") in ("Succeeded", "Failed")
    return not over and "deletionTimestamp" not in pod["metadata"]
