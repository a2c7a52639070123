"""The client certificate in a machine's kubeconfig has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from killcheck.capabilities.offered import Capability
from killcheck.executor import scripts
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.machine.machine_fault import MachineFault
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import KillPath, Layer

__all__ = ["KubeconfigEnded"]

#: The header field in which the embedded API server tells of a verified client certificate.
_PEER = ":peer-certificate"


class _Ended(Struct):
    """Refuses whoever comes with a client certificate. Source: apiserver's x509 authenticator (it verifies: 401)."""

    met: list[str] = field(default_factory=list)

    def __call__(self, request: Any) -> Any:
        from killcheck.embedded import Response

        if _PEER not in request.headers:
            return None
        self.met.append(f"{request.method} {request.path}")
        said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 401}
        return Response(401, {**said, "reason": "Unauthorized", "message": "Unauthorized"})


class KubeconfigEnded(MachineFault):
    """Reproduces rows 20 and 22: kubeadm's admin certificate lives a year, on a laptop too, and nobody renews a copy.

    Pods come with tokens, and go on.
    """

    name = "kubeconfig-ended"
    simulates = "the client certificate in the machine's kubeconfig has ended"
    family = "credentials"
    failures = (20, 22)
    needs = (Capability.WIRE,)
    shows = Evidence.CALL
    rank = 2

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where its program asks a Kubernetes API."""
        texts = scripts.texts(layer.command, kill_path.folder) if layer.command else ()
        asks = any("kube" in text for _, text in texts)
        return None if asks else f"nothing in {layer.command} asks a Kubernetes API"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Client certificates are refused over the wire. Raises FaultError where the layer brings none."""
        why = self.unsuited_targets(stage.kill_path, layer.layer)
        if why:
            raise FaultError(f"{self.name}: {why}")
        return Plan((self.simulates,), edits=("the wire",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """From now on."""
        self.ended = _Ended()
        stage.journal.set_attribute(Capability.WIRE, self.simulates, "interceptor", self.ended)
        return [self.simulates]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A call of the machine's was refused: killcheck itself does not come over the wire."""
        met = getattr(self, "ended", _Ended()).met
        return f"401 Unauthorized to {met[0]} ({len(met)} call(s))" if met else None
