"""Tolerations that pods are given: for nodes that are not ready, and for the devices that they ask for.

Source: plugin/pkg/admission/defaulttolerationseconds/admission.go, extendedresourcetoleration/admission.go.
"""

from __future__ import annotations

from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.validation.resources import is_extended
from killcheck.kube.objects import Obj, dig

__all__ = ["DefaultTolerationSeconds", "ExtendedResourceToleration"]

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


class ExtendedResourceToleration:
    """ExtendedResourceToleration: off by default, on in GKE, which taints nodes by the devices that they have."""

    def mutate(self, request: AdmissionRequest) -> None:
        """Let a pod onto nodes that are tainted with the name of a device that it asks for."""
        if request.resource != ("", "pods") or request.subresource or request.obj is None:
            return
        if request.operation not in ("CREATE", "UPDATE"):
            return
        spec = request.obj.setdefault("spec", {})
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        asked = {name for one in containers for name in dig(one, "resources", "requests", default={})}
        given = [
            {"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in sorted(filter(is_extended, asked))
        ]
        present: list[Obj] = spec.get("tolerations") or []
        if missing := [one for one in given if one not in present]:
            spec["tolerations"] = present + missing


def _tolerates(toleration: Obj, key: str) -> bool:
    return (toleration.get("key") or key) == key and (toleration.get("effect") or "NoExecute") == "NoExecute"
