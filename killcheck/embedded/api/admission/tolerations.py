"""Pods stay five minutes on a node that is not ready or unreachable, unless they say otherwise.

Source: plugin/pkg/admission/defaulttolerationseconds/admission.go.
"""

from __future__ import annotations

from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.kube.objects import Obj

__all__ = ["DefaultTolerationSeconds"]

SECONDS = 300
KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds:
    """DefaultTolerationSeconds."""

    def mutate(self, request: AdmissionRequest) -> None:
        """Add what is missing of the two tolerations."""
        if request.subresource or request.obj is None or request.operation not in ("CREATE", "UPDATE"):
            return
        spec = request.obj.setdefault("spec", {})
        present: list[Obj] = spec.get("tolerations") or []
        missing = [key for key in KEYS if not any(_tolerates(toleration, key) for toleration in present)]
        if missing:
            spec["tolerations"] = present + [
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
                for key in missing
            ]


def _tolerates(toleration: Obj, key: str) -> bool:
    return (toleration.get("key") or key) == key and (toleration.get("effect") or "NoExecute") == "NoExecute"
