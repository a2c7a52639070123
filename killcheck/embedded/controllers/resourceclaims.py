"""The ResourceClaim controller: claims made from templates, and claims let go when their pods have ended.

Source: pkg/controller/resourceclaim of Kubernetes v1.36; recording 32.
"""

from __future__ import annotations

from killcheck.embedded.controllers import pods as podset
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, annotations_of, controller_of, copy, dig, key_of, name_of, namespace_of, uid_of
from killcheck.kube.owner_references import controller_ref

__all__ = ["ResourceClaimController"]

_FOR = "resource.kubernetes.io/pod-claim-name"
_FINALIZER = "resource.kubernetes.io/delete-protection"


class ResourceClaimController(Controller):
    """Pods by key (namespace, name); claims by (``claim:`` namespace, name)."""

    name = "resourceclaim-controller"
    component = "resource_claim"

    def setup(self) -> None:
        """Follow pods that use claims, and claims."""
        self.claims = self.informers.of(r.RESOURCECLAIMS, optional=True)
        #: Claims that were made and that the watch has not shown yet, by (namespace, name).
        self._made: dict[Key, Obj] = {}
        self.pods = self.informers.of(r.PODS)
        self.listen(r.PODS, self._pod_changed)
        self.listen(r.RESOURCECLAIMS, self._claim_changed, optional=True)

    def _pod_changed(self, change: Change, _old: Obj | None, new: Obj) -> None:
        if not new["spec"].get("resourceClaims"):
            return
        if change != "deleted":
            self.queue.add(key_of(new))
        if change == "deleted" or podset.is_terminal(new):
            for claim in self.claims.values():
                users = dig(claim, "status", "reservedFor", default=[])
                owner = controller_of(claim)
                used = any(user["uid"] == uid_of(new) for user in users)
                if used or (owner is not None and owner["uid"] == uid_of(new)):
                    self.queue.add((f"claim:{namespace_of(claim)}", name_of(claim)))

    def _claim_changed(self, change: Change, _old: Obj | None, new: Obj) -> None:
        self._made.pop(key_of(new), None)
        if change != "deleted":
            self.queue.add((f"claim:{namespace_of(new)}", name_of(new)))

    def reconcile(self, key: Key) -> None:
        """A pod: make its claims. A claim: let go whose users have ended."""
        if key[0].startswith("claim:"):
            claim = self.claims.get(key[1], key[0].removeprefix("claim:"))
            if claim is not None:
                self._release(claim)
            return
        pod = self.pods.objects.get(key)
        if pod is not None and "deletionTimestamp" not in pod["metadata"] and not podset.is_terminal(pod):
            self._make(pod)

    # -- from templates ------------------------------------------------------------------------------------
    def _make(self, pod: Obj) -> None:
        statuses = {entry["name"]: entry for entry in dig(pod, "status", "resourceClaimStatuses", default=[])}
        made = dict(statuses)
        for entry in pod["spec"].get("resourceClaims") or ():
            template = entry.get("resourceClaimTemplateName")
            known = (statuses.get(entry["name"]) or {}).get("resourceClaimName")
            if not template or (known and self._is_there((namespace_of(pod), known))):
                continue
            claim = self._existing(pod, entry["name"]) or self._create(pod, entry["name"], template)
            made[entry["name"]] = {"name": entry["name"], "resourceClaimName": name_of(claim)}
        if made != statuses:
            patch = {"metadata": {"uid": uid_of(pod)}, "status": {"resourceClaimStatuses": list(made.values())}}
            self.kube.patch(r.PODS, name_of(pod), patch, namespace_of(pod), kind="strategic", subresource="status")

    def _is_there(self, key: Key) -> bool:
        return key in self._made or key in self.claims.objects

    def _existing(self, pod: Obj, name: str) -> Obj | None:
        """A claim that was made and not written down."""
        for claim in (*self.claims.values(), *self._made.values()):
            owner = controller_of(claim)
            if owner is not None and owner["uid"] == uid_of(pod) and annotations_of(claim).get(_FOR) == name:
                return claim
        return None

    def _create(self, pod: Obj, name: str, template_name: str) -> Obj:
        try:
            template = self.kube.get(r.RESOURCECLAIMTEMPLATES, template_name, namespace_of(pod))
        except NotFound:
            text = (
                f'PodResourceClaim {name}: resource claim template "{template_name}": '
                f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            )
            self.events.emit(pod, "Warning", "FailedResourceClaimCreation", text)
            raise
        spec = copy(template["spec"])
        meta = spec.get("metadata") or {}
        made = self.kube.create(
            r.RESOURCECLAIMS,
            {
                "apiVersion": r.RESOURCECLAIMS.api_version,
                "kind": "ResourceClaim",
                "spec": spec["spec"],
                "metadata": {
                    "generateName": f"{name_of(pod)}-{name}-",
                    "namespace": namespace_of(pod),
                    "labels": meta.get("labels") or {},
                    "annotations": (meta.get("annotations") or {}) | {_FOR: name},
                    "ownerReferences": [controller_ref(pod, r.PODS)],
                },
            },
        )
        self._made[key_of(made)] = made
        return made

    # -- letting go ----------------------------------------------------------------------------------------
    def _release(self, claim: Obj) -> None:
        users = dig(claim, "status", "reservedFor", default=[])
        left = [user for user in users if user.get("resource") != "pods" or self._uses(user, namespace_of(claim))]
        if len(left) != len(users) or (not users and dig(claim, "status", "allocation")):
            status = {key: value for key, value in (claim.get("status") or {}).items() if key != "reservedFor"}
            if left:
                status["reservedFor"] = left
            else:
                status.pop("allocation", None)
            claim = self.kube.replace(r.RESOURCECLAIMS, claim | {"status": status}, subresource="status")
        finalizers = claim["metadata"].get("finalizers") or []
        if _FINALIZER in finalizers and not dig(claim, "status", "allocation"):
            meta = claim["metadata"] | {"finalizers": [name for name in finalizers if name != _FINALIZER]}
            self.kube.replace(r.RESOURCECLAIMS, claim | {"metadata": meta})
        self._drop_made(claim)

    def _uses(self, user: Obj, namespace: str) -> bool:
        pod = self.pods.get(user["name"], namespace)
        return pod is not None and uid_of(pod) == user["uid"] and not podset.is_terminal(pod)

    def _drop_made(self, claim: Obj) -> None:
        """A claim made for a pod goes when the pod has ended."""
        owner = controller_of(claim)
        if owner is None or owner["kind"] != "Pod" or "deletionTimestamp" in claim["metadata"]:
            return
        pod = self.pods.get(owner["name"], namespace_of(claim))
        if pod is not None and uid_of(pod) == owner["uid"] and podset.is_terminal(pod):
            try:
                self.kube.delete(r.RESOURCECLAIMS, name_of(claim), namespace_of(claim), uid=uid_of(claim))
            except NotFound:
                return
