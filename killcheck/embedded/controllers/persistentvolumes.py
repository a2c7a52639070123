"""The volume binder: claims get a volume that is there, or one that their storage class provisions at once.

A minimal form of pkg/controller/volume/persistentvolume of Kubernetes v1.36; provisioners are taken to work instantly.
"""

from __future__ import annotations

from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.embedded.controllers.scheduler.scheduler import STORAGECLASSES
from killcheck.embedded.controllers.scheduler.volumes import SELECTED_NODE
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, annotations_of, dig, format_time, key_of, name_of, namespace_of, uid_of
from killcheck.kube.quantities import parse
from killcheck.text import lazy_re

__all__ = ["PersistentVolumeBinder"]

#: What of a host the controller deletes (pkg/volume/hostpath).
_DELETABLE = lazy_re.compile("/tmp/.+")  # noqa: S108 - a rule about others' paths
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_OWN_CHOICE = "pv.kubernetes.io/bound-by-controller"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class PersistentVolumeBinder(Controller):
    """Binds PersistentVolumeClaims; keys are theirs, or ("volume:", name of a volume whose claim has gone)."""

    name = "persistentvolume-binder-controller"
    component = "persistentvolume-controller"

    def setup(self) -> None:
        """Follow claims, volumes and classes."""
        self.volumes = self.informers.of(r.PERSISTENTVOLUMES)
        self.classes = self.informers.of(STORAGECLASSES, optional=True)
        self.claims = self.informers.of(r.PERSISTENTVOLUMECLAIMS)
        self.listen(r.PERSISTENTVOLUMECLAIMS, self._claim_changed)
        self.listen(r.PERSISTENTVOLUMES, self._volume_changed)
        self.follow(STORAGECLASSES, lambda *_: self._unbound(), optional=True)

    def _unbound(self) -> list[Key]:
        return [key_of(claim) for claim in self.claims.values() if not claim["spec"].get("volumeName")]

    def _claim_changed(self, change: Change, _old: Obj | None, new: Obj) -> None:
        volume = new["spec"].get("volumeName")
        if change == "deleted" and volume:
            self.queue.add(("volume:", volume))
        elif change != "deleted":
            self.queue.add(key_of(new))

    def _volume_changed(self, change: Change, _old: Obj | None, new: Obj) -> None:
        if change == "deleted":
            return
        if dig(new, "status", "phase") == "Bound":
            return
        if not dig(new, "spec", "claimRef", "uid") and dig(new, "status", "phase") != "Available":
            self.queue.add(("volume:", name_of(new)))
        for key in self._waiting_for(name_of(new)):
            self.queue.add(key)

    def _waiting_for(self, volume: str) -> list[Key]:
        """The claims that are not bound and that a volume might be for: by its name, or because they name none."""
        return [
            key_of(claim)
            for claim in self.claims.values()
            if claim["spec"].get("volumeName") in (None, "", volume) and dig(claim, "status", "phase") != "Bound"
        ]

    def reconcile(self, key: Key) -> None:
        """Bind a claim, or deal with a volume that nobody claims."""
        if key[0] == "volume:":
            self._release(key[1])
            return
        claim = self.claims.objects.get(key)
        if claim is None or "deletionTimestamp" in claim["metadata"] or dig(claim, "status", "phase") == "Bound":
            return
        named = claim["spec"].get("volumeName")
        waits = not named and self._waits(claim)
        volume = self.volumes.get(named) if named else self._match(claim, waits=waits)
        if volume is None and waits:
            text = "waiting for first consumer to be created before binding"
            self.events.emit(claim, "Normal", "WaitForFirstConsumer", text)
        elif volume is None and not named:
            volume = self._provision(claim)
        if volume is not None and (not named or _free_for(volume, claim)):
            self._bind(claim, volume)
            return
        if not named and self._class_of(claim) is None:
            self._unbindable(claim)
        self._pending(claim)

    def _pending(self, claim: Obj) -> None:
        """What others say of a claim without a volume is put right: pv_controller.go, updateClaimStatus."""
        said = claim.get("status") or {}
        wanted = {k: v for k, v in said.items() if k not in ("accessModes", "capacity")} | {"phase": "Pending"}
        if wanted != said:
            self.kube.replace(r.PERSISTENTVOLUMECLAIMS, claim | {"status": wanted}, subresource="status")

    def _unbindable(self, claim: Obj) -> None:
        """pv_controller.go, syncUnboundClaim and provisionClaim."""
        wanted = claim["spec"].get("storageClassName")
        if wanted:
            text = f'storageclass.storage.k8s.io "{wanted}" not found'
            self.events.emit(claim, "Warning", "ProvisioningFailed", text)
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            self.events.emit(claim, "Normal", "FailedBinding", text)

    def _class_of(self, claim: Obj) -> Obj | None:
        name = claim["spec"].get("storageClassName")
        if name is not None:
            return self.classes.get(name) if name else None
        return next((c for c in self.classes.values() if annotations_of(c).get(_DEFAULT) == "true"), None)

    def _waits(self, claim: Obj) -> bool:
        """Whether the scheduler has to choose a node first (IsDelayBindingMode)."""
        found = self._class_of(claim) or {}
        late = found.get("volumeBindingMode") == "WaitForFirstConsumer"
        return late and SELECTED_NODE not in annotations_of(claim)

    def _match(self, claim: Obj, *, waits: bool) -> Obj | None:
        """The smallest volume that is free and suffices; while a claim ``waits``, one that is kept for it alone."""
        found_class = self._class_of(claim)
        class_name = name_of(found_class) if found_class else str(claim["spec"].get("storageClassName") or "")
        wanted = parse(dig(claim, "spec", "resources", "requests", "storage", default="0"))
        modes = set(claim["spec"].get("accessModes") or ())
        fits = [
            volume
            for volume in self.volumes.values()
            if _free_for(volume, claim)
            and (volume["spec"].get("claimRef") or (volume["spec"].get("storageClassName") or "") == class_name)
            and modes <= set(volume["spec"].get("accessModes") or ())
            and _size(volume) >= wanted
        ]
        # one that is kept for this claim comes first, of whatever class (index.go, FindMatchingVolume)
        kept = [volume for volume in fits if volume["spec"].get("claimRef")]
        return min(kept or ([] if waits else fits), key=lambda volume: (_size(volume), name_of(volume)), default=None)

    def _provision(self, claim: Obj) -> Obj | None:
        found = self._class_of(claim)
        if found is None or found.get("provisioner", _NO_PROVISIONER) == _NO_PROVISIONER:
            return None
        name = f"pvc-{uid_of(claim)}"
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": found["provisioner"]}},
            "spec": {
                "capacity": {"storage": dig(claim, "spec", "resources", "requests", "storage", default="1Gi")},
                "accessModes": claim["spec"].get("accessModes") or ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": found.get("reclaimPolicy", "Delete"),
                "storageClassName": name_of(found),
                "claimRef": _reference(claim),
                "csi": {"driver": found["provisioner"], "volumeHandle": name},
            },
        }
        try:
            volume = self.kube.create(r.PERSISTENTVOLUMES, body)
        except Conflict:
            return self.kube.get(r.PERSISTENTVOLUMES, name)
        text = f"Successfully provisioned volume {name}"
        self.events.emit(claim, "Normal", "ProvisioningSucceeded", text)
        return volume

    def _bind(self, claim: Obj, volume: Obj) -> None:
        if dig(volume, "spec", "claimRef", "uid") != uid_of(claim):
            meta = volume["metadata"]
            if dig(volume, "spec", "claimRef") is None:  # by the controller's own choice
                meta = meta | {"annotations": annotations_of(volume) | {_OWN_CHOICE: "yes"}}
            spec = volume["spec"] | {"claimRef": _reference(claim)}
            volume = self.kube.replace(r.PERSISTENTVOLUMES, volume | {"metadata": meta, "spec": spec})
        if dig(volume, "status", "phase") != "Bound":
            self._phase(volume, "Bound")
        meta = claim["metadata"]
        marks = {"pv.kubernetes.io/bind-completed": "yes", _OWN_CHOICE: "yes"}
        meta = meta | {"annotations": annotations_of(claim) | marks}
        written = self.kube.replace(
            r.PERSISTENTVOLUMECLAIMS,
            claim | {"metadata": meta, "spec": claim["spec"] | {"volumeName": name_of(volume)}},
        )
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes"),
            "capacity": volume["spec"].get("capacity"),
        }
        self.kube.replace(r.PERSISTENTVOLUMECLAIMS, written | {"status": status}, subresource="status")

    def _release(self, name: str) -> None:
        volume = self.volumes.get(name)
        if volume is None:
            return
        ref = dig(volume, "spec", "claimRef")
        if ref is None or not ref.get("uid"):  # free, or kept for a claim by its name
            if dig(volume, "status", "phase") != "Available":
                self._phase(volume, "Available")
            return
        claim = self.claims.get(ref["name"], ref["namespace"])
        if claim is not None and uid_of(claim) == ref.get("uid"):
            return
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            path = str(dig(volume, "spec", "hostPath", "path", default=""))
            if path and not _DELETABLE.fullmatch(path):
                words = f"host_path deleter only supports /tmp/.+ but received provided {path}"
                if dig(volume, "status", "phase") != "Failed":
                    self._phase(volume, "Failed", words)
                return
            try:
                self.kube.delete(r.PERSISTENTVOLUMES, name)
            except NotFound:
                return
        else:
            self._phase(volume, "Released")

    def _phase(self, volume: Obj, phase: str, message: str = "") -> None:
        before = volume.get("status") or {}
        since = before.get("lastPhaseTransitionTime") if before.get("phase") == phase else None
        told = {"phase": phase, "lastPhaseTransitionTime": since or format_time(self.loop.now())}
        told |= {"message": message} if message else {}
        status = before | told
        self.kube.replace(r.PERSISTENTVOLUMES, volume | {"status": status}, subresource="status")


def _reference(claim: Obj) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace_of(claim),
        "name": name_of(claim),
        "uid": uid_of(claim),
        "resourceVersion": claim["metadata"]["resourceVersion"],
    }


def _free_for(volume: Obj, claim: Obj) -> bool:
    ref = dig(volume, "spec", "claimRef")
    if ref is None:
        return "deletionTimestamp" not in volume["metadata"]
    same = (ref.get("namespace"), ref.get("name")) == key_of(claim)
    return same and ref.get("uid") in (None, "", uid_of(claim))


def _size(volume: Obj) -> float:
    return float(parse(dig(volume, "spec", "capacity", "storage", default="0")))
