"""A pod that is resized in place: its node must be there, run Linux, and be able to hold what is asked for.

Source: plugin/pkg/admission/podresize/admission.go.
"""

from __future__ import annotations

from fractions import Fraction

from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, dig, labels_of
from killcheck.kube.quantities import parse

__all__ = ["PodResize"]

_NODES = ("", "nodes")


class PodResize:
    """PodResize admission: refuses what no kubelet could do."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def validate(self, request: AdmissionRequest) -> list[str]:
        """Raises StatusError 403."""
        pod, old = request.obj or {}, request.old or {}
        name = dig(pod, "spec", "nodeName", default="")
        if request.subresource != "resize" or not name or pod.get("spec") == old.get("spec"):
            return []
        node = self.store.get(_NODES, ("", name))
        if node is None:
            raise request.forbidden(f'node "{name}" not found')
        system = labels_of(node).get("kubernetes.io/os", "linux")
        if system != "linux":
            raise request.forbidden(f'pod resize is only supported on linux nodes, node "{name}" is "{system}"')
        allocatable = dig(node, "status", "allocatable", default={})
        short = [
            f"{resource}, requested: {int(asked * unit)}, allocatable: {int(there * unit)}"
            for resource, unit in (("cpu", 1000), ("memory", 1))
            if (asked := _requested(pod["spec"], resource)) > (there := parse(str(allocatable.get(resource, "0"))))
        ]
        if short:
            raise request.forbidden(f"node didn't have enough allocatable resources: {'; '.join(short)}")
        return []


def _requested(spec: Obj, resource: str) -> Fraction:
    """What the pod's containers ask for together: sidecars beside the others; what ends before them at most once."""

    def of(container: Obj) -> Fraction:
        return parse(str(dig(container, "resources", "requests", resource, default="0")))

    sidecars = largest = Fraction(0)
    for one in spec.get("initContainers") or []:
        if one.get("restartPolicy") == "Always":
            sidecars += of(one)
        largest = max(largest, sidecars if one.get("restartPolicy") == "Always" else of(one) + sidecars)
    together = sum((of(one) for one in spec.get("containers") or []), sidecars)
    return max(together, largest) + parse(str(dig(spec, "overhead", resource, default="0")))
