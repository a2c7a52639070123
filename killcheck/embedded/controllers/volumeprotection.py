"""Claims stay until no pod on a node uses them, volumes until no claim is bound to them.

Source: pkg/controller/volume/pvcprotection and pvprotection of Kubernetes v1.36.
"""

from __future__ import annotations

from abc import abstractmethod

from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, namespace_of
from killcheck.kube.resources import Resource

__all__ = ["PvProtection", "PvcProtection"]


class _Protection(Controller):
    """Takes a finalizer from what is being deleted and is not used, and puts it back where somebody took it."""

    finalizer: str
    resource: Resource

    @abstractmethod
    def used(self, key: Key, obj: Obj) -> bool:
        """Whether somebody still needs it."""

    def setup(self) -> None:
        """Follow what is protected."""
        self.objects = self.follow(self.resource)

    def reconcile(self, key: Key) -> None:
        """Let it go, or keep it."""
        obj = self.objects.objects.get(key)
        if obj is None:
            return
        meta = obj["metadata"]
        held = list(meta.get("finalizers") or ())
        if "deletionTimestamp" not in meta:
            wanted = held if self.finalizer in held else [*held, self.finalizer]
        elif self.finalizer in held and not self.used(key, obj):
            wanted = [name for name in held if name != self.finalizer]
        else:
            return
        if wanted != held:
            self.kube.replace(self.resource, obj | {"metadata": meta | {"finalizers": wanted}})


class PvcProtection(_Protection):
    """A claim that a pod uses which has been given to a node, ended or not, stays."""

    name = "persistentvolumeclaim-protection-controller"
    finalizer = "kubernetes.io/pvc-protection"
    resource = r.PERSISTENTVOLUMECLAIMS

    def setup(self) -> None:
        """Follow claims, and pods that go."""
        super().setup()
        self.pods = self.follow(r.PODS, self._pod_changed)

    def _pod_changed(self, change: Change, _old: Obj | None, pod: Obj) -> list[Key]:
        gone = change == "deleted" or _is_shut_down(pod)
        return [(namespace_of(pod), name) for name in _claims(pod)] if gone else []

    def used(self, key: Key, obj: Obj) -> bool:
        """Whether a pod on a node names it."""
        return any(
            namespace_of(pod) == key[0]
            and pod["spec"].get("nodeName")
            and key[1] in _claims(pod, own=not _is_shut_down(pod))
            for pod in self.pods.values()
        )


class PvProtection(_Protection):
    """A volume that is bound stays."""

    name = "persistentvolume-protection-controller"
    finalizer = "kubernetes.io/pv-protection"
    resource = r.PERSISTENTVOLUMES

    def used(self, key: Key, obj: Obj) -> bool:
        """Whether a claim is bound to it."""
        return bool(dig(obj, "status", "phase") == "Bound")


def _is_shut_down(pod: Obj) -> bool:
    """Whether its kubelet is done with it, whatever finalizer still holds it: its own claims may be one's cause."""
    meta = pod["metadata"]
    return "deletionTimestamp" in meta and meta.get("deletionGracePeriodSeconds") == 0


def _claims(pod: Obj, *, own: bool = True) -> list[str]:
    """The claims that a pod names, and with ``own`` those that it has made of its own (``ephemeral``)."""
    found = []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.append(str(volume["persistentVolumeClaim"]["claimName"]))
        elif own and "ephemeral" in volume:
            found.append(f"{pod['metadata']['name']}-{volume['name']}")
    return found
