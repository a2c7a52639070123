"""Claims and volumes are born with what keeps them while they are in use.

Source: plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go.
"""

from __future__ import annotations

from killcheck.embedded.api.admission.request import AdmissionRequest

__all__ = ["FINALIZERS", "StorageObjectInUseProtection"]

FINALIZERS = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
}


class StorageObjectInUseProtection:
    """Adds the finalizer that the protecting controllers take away."""

    def mutate(self, request: AdmissionRequest) -> None:
        """Of a new claim or volume."""
        finalizer = FINALIZERS[request.kind.resource.plural]
        if request.operation != "CREATE" or request.subresource or request.obj is None:
            return
        there = request.obj["metadata"].get("finalizers") or []
        if finalizer not in there:
            request.obj["metadata"]["finalizers"] = [*there, finalizer]
