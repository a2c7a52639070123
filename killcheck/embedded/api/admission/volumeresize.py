"""Claims grow only where their storage class says so.

Source: plugin/pkg/admission/storage/persistentvolume/resize/admission.go of Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, dig
from killcheck.kube.quantities import parse

__all__ = ["VolumeResize"]

_CLASSES = ("storage.k8s.io", "storageclasses")
_UNBOUND = "Only bound persistent volume claims can be expanded"
_FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


class VolumeResize:
    """PersistentVolumeClaimResize admission."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def validate(self, request: AdmissionRequest) -> list[str]:
        """Refuse to make a claim larger that cannot be."""
        new, old = request.obj, request.old
        if new is None or old is None or request.subresource or _size(new) <= _size(old):
            return []
        if dig(old, "status", "phase") != "Bound":
            raise request.forbidden(_UNBOUND)
        name = str(dig(new, "spec", "storageClassName", default=""))
        found = self.store.get(_CLASSES, ("", name)) if name else None
        if found is None or not found.get("allowVolumeExpansion"):
            raise request.forbidden(_FIXED)
        return []


def _size(claim: Obj) -> float:
    return float(parse(str(dig(claim, "spec", "resources", "requests", "storage", default="0"))))
