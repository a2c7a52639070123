"""A new node is tainted not-ready until the node lifecycle controller has seen it ready.

Source: plugin/pkg/admission/nodetaint/admission.go (TaintNodesByCondition).
"""

from __future__ import annotations

from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.kube.objects import Obj

__all__ = ["TaintNodes"]

TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodes:
    """TaintNodesByCondition."""

    def mutate(self, request: AdmissionRequest) -> None:
        """Add the taint to a node that is being created."""
        if request.operation != "CREATE" or request.subresource or request.obj is None:
            return
        spec = request.obj.setdefault("spec", {})
        taints: list[Obj] = spec.get("taints") or []
        if not any(taint.get("key") == TAINT["key"] and taint.get("effect") == TAINT["effect"] for taint in taints):
            spec["taints"] = [*taints, dict(TAINT)]
