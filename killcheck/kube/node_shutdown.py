"""How a node says that its kubelet shuts it down gracefully: its machine goes in a moment, and takes no more pods.

Source: pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go, pkg/kubelet/nodestatus/setters.go of Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.kube.objects import Obj, condition

__all__ = ["MESSAGE", "shutting_down"]

#: The message of its Ready condition, which is False then.
MESSAGE = "node is shutting down"


def shutting_down(node: Obj) -> bool:
    """Whether a Node says so."""
    ready = condition(node, "Ready") or {}
    return ready.get("status") == "False" and ready.get("message") == MESSAGE
