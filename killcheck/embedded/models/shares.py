"""Parts of GPUs that pods ask for by annotation, as KAI's and run:ai's schedulers hand them out.

Whoever hands them out reserves a whole device on the node (KAI-Scheduler pkg/binder/binding/resourcereservation: a pod
that asks for one). Here each pod with a share has whole ones of its own: it lands where GPUs are, and what its node
costs counts. Two that would share a device are two here, so dollars are a bound from above.
"""

from __future__ import annotations

from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.models.assumednodes import Assumptions
from killcheck.kube import gpus
from killcheck.kube.objects import Obj

__all__ = ["SharedDevices"]

_DEVICE = "nvidia.com/gpu"


class SharedDevices:
    """Gives pods that share a device by annotation alone a whole one."""

    def __init__(self, assumptions: Assumptions) -> None:
        self.assumptions = assumptions

    def mutate(self, request: AdmissionRequest) -> None:
        """Add the request to a pod that is created."""
        obj = request.obj
        if obj is None or obj.get("kind") != "Pod" or request.operation != "CREATE":
            return
        spec: Obj = obj["spec"]
        count = gpus.fraction(obj.get("metadata") or {})
        if not count or gpus.requests(spec) or spec.get("resourceClaims") or not spec.get("containers"):
            return
        self.assumptions.shares += 1
        resources = spec["containers"][0].setdefault("resources", {})
        for part in ("requests", "limits"):
            resources.setdefault(part, {})[_DEVICE] = str(count)
