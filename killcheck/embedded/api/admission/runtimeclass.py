"""A pod's RuntimeClass: it must exist, and says what the pod costs besides and where it may run.

Source: plugin/pkg/admission/runtimeclass/admission.go.
"""

from __future__ import annotations

from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.status import StatusError
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, copy, dig

__all__ = ["RuntimeClass", "unfit_for_a_path"]

CLASSES = ("node.k8s.io", "runtimeclasses")


class RuntimeClass:
    """RuntimeClass admission of new pods."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def mutate(self, request: AdmissionRequest) -> None:
        """Set overhead, nodeSelector and tolerations as the class has them. Raises StatusError 403."""
        name = dig(request.obj, "spec", "runtimeClassName")
        if request.operation != "CREATE" or request.subresource or request.obj is None or name is None:
            return
        if not name:
            raise StatusError(500, "", "resource name may not be empty")
        found = self.store.get(CLASSES, ("", str(name)))
        if found is None:
            wrong = unfit_for_a_path(str(name))
            if wrong:  # of the client's own, before anything is asked (client-go/rest/request.go)
                raise StatusError(500, "", f'invalid resource name "{name}": [{" ".join(wrong)}]')
            raise request.forbidden(f'pod rejected: RuntimeClass "{name}" not found')
        spec = request.obj["spec"]
        overhead = dig(found, "overhead", "podFixed")
        if overhead is not None:
            if spec.get("overhead") and spec["overhead"] != overhead:
                raise request.forbidden("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
            spec["overhead"] = copy(overhead)
        self._place(request, spec, found.get("scheduling") or {})

    def validate(self, request: AdmissionRequest) -> list[str]:
        """What a pod costs besides comes from its class alone. Raises StatusError 403."""
        spec = dig(request.obj, "spec", default={})
        if request.operation != "CREATE" or request.subresource or spec.get("overhead") is None:
            return []
        name = spec.get("runtimeClassName")
        found = self.store.get(CLASSES, ("", str(name))) if name else None
        if found is None or dig(found, "overhead", "podFixed") is None:
            raise request.forbidden(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
        return []

    def _place(self, request: AdmissionRequest, spec: Obj, scheduling: Obj) -> None:
        selector = spec.get("nodeSelector") or {}
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.get(key, value) != value:
                raise request.forbidden(
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = "
                    f"{selector[key]}"
                )
        if scheduling.get("nodeSelector"):
            spec["nodeSelector"] = selector | scheduling["nodeSelector"]
        there = spec.get("tolerations") or []
        added = [one for one in scheduling.get("tolerations") or [] if one not in there]
        if added:
            spec["tolerations"] = [*there, *copy({"t": added})["t"]]


def unfit_for_a_path(name: str) -> list[str]:
    """What keeps a name from being part of a path (apimachinery/pkg/api/validation/path)."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in name]
