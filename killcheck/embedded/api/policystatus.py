"""The status of a ValidatingAdmissionPolicy: which generation was looked at.

Whether its expressions fit the types that they are asked about is not looked at here: there are no warnings. Source:
pkg/controller/validatingadmissionpolicystatus of Kubernetes v1.36.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from killcheck.embedded.api.http import Request, User
from killcheck.embedded.api.store import Change, Key
from killcheck.kube.objects import dig

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core

__all__ = ["PolicyStatus"]

_TABLE = ("admissionregistration.k8s.io", "validatingadmissionpolicies")
_MANAGER = "validatingadmissionpolicy-status"
_USER = User(f"system:serviceaccount:kube-system:{_MANAGER}-controller", ("system:masters",))


class PolicyStatus:
    """Writes it whenever a policy has a generation that it does not tell."""

    def __init__(self, server: Core) -> None:
        self.server = server
        server.store.listen(_TABLE, self._changed)

    def _changed(self, change: Change) -> None:
        policy = change.new
        if policy is not None and dig(policy, "status", "observedGeneration") != policy["metadata"].get("generation"):
            self.server.loop.call_soon(self._report, change.key)

    def _report(self, key: Key) -> None:
        policy = self.server.store.get(_TABLE, key)
        if policy is None or "controller-manager" in self.server.down():
            return
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": key[1]},
            "status": {"observedGeneration": policy["metadata"].get("generation"), "typeChecking": {}},
        }
        path = f"/apis/{_TABLE[0]}/v1/{_TABLE[1]}/{key[1]}/status"
        query = {"fieldManager": [_MANAGER], "force": ["true"]}
        headers = {"content-type": "application/apply-patch+yaml", "user-agent": "kube-controller-manager/"}
        self.server.handle(Request("PATCH", path, query=query, headers=headers, body=body, user=_USER))
