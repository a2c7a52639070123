"""Nothing is created in a namespace that does not exist or is going; the first namespaces may not be deleted.

Source: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.
"""

from __future__ import annotations

from killcheck.embedded.api import status
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import dig

__all__ = ["NamespaceLifecycle"]

NAMESPACES = ("", "namespaces")
IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


class NamespaceLifecycle:
    """NamespaceLifecycle."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def mutate(self, request: AdmissionRequest) -> None:
        """Refuse what the namespace does not allow; nothing is changed."""
        if request.resource == NAMESPACES:
            if request.operation == "DELETE" and request.name in IMMORTAL:
                raise status.forbidden("namespaces", "", request.name, "this namespace may not be deleted")
            return
        if not request.namespace or request.operation == "DELETE":
            return
        if request.resource == ("authorization.k8s.io", "localsubjectaccessreviews"):
            return
        namespace = self.store.get(NAMESPACES, ("", request.namespace))
        if namespace is None:
            raise status.not_found("namespaces", "", request.namespace)
        if request.operation != "CREATE" or dig(namespace, "status", "phase") != "Terminating":
            return
        refusal = request.forbidden(
            f"unable to create new content in namespace {request.namespace} because it is being terminated"
        )
        refusal.status["details"]["causes"] = [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {request.namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ]
        raise refusal
