"""Whoever issues ServiceAccount tokens signs with a new key, and the API server does not have it yet."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from killcheck.capabilities.offered import Capability
from killcheck.entries import Becomes, leaves
from killcheck.faults.base import Evidence, Plan
from killcheck.faults.kubernetes.executor import ExecutorFault, identity
from killcheck.layers.base import LayerRun, Stage

__all__ = ["IssuerKeysRotated"]


@dataclass
class _OldKeys:
    """Refuses tokens that were signed after ``since`` (seconds since 1970), as an authenticator without their key does.

    Source: pkg/serviceaccount/jwt.go (no key of the issuer's verifies it: the token is nobody's, 401).
    """

    since: int
    met: list[str] = field(default_factory=list)

    def __call__(self, request: Any) -> Any:
        from killcheck.embedded import Response

        claims = _claims(str(request.headers.get("authorization", "")))
        about, issued = claims.get("kubernetes.io"), claims.get("iat")  # in a stranger's token they may be anything
        if not isinstance(about, dict) or not isinstance(issued, int | float) or issued < self.since:
            return None
        self.met.append(f"{claims.get('sub')}: {request.method} {request.path}")
        said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 401}
        return Response(401, {**said, "reason": "Unauthorized", "message": "Unauthorized"})


def _claims(header: str) -> dict[str, Any]:
    """What a bearer token says of itself; nothing where it is no JWT."""
    parts = header.removeprefix("Bearer ").split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@leaves("credentials", "a cloud's trust in the cluster's issuer of tokens", Becomes.UNSEEN)
class IssuerKeysRotated(ExecutorFault):
    """Reproduces row 17's neighbour: a rotation that one side has not heard of, an OIDC provider's stale key set.

    It is of the cluster and of no executor: every switch that comes with a fresh token is refused the same night.
    """

    name = "issuer-keys-rotated"
    simulates = "tokens are signed with a new key, and the API server does not have it yet"
    family = "credentials"
    shows = Evidence.CALL
    failures = (17, 18, 19)
    needs = (Capability.WIRE,)
    rank = 2

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Fresh tokens are refused over the wire."""
        return Plan((self.simulates,), edits=("the wire",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """From now on."""
        self._keys = _OldKeys(int(stage.cluster.loop.now().timestamp()))
        stage.journal.set_attribute(Capability.WIRE, self.simulates, "interceptor", self._keys)
        return [self.simulates]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """This executor was refused for it."""
        own = "system:serviceaccount:" + ":".join(identity(layer)) + ":"
        keys = getattr(self, "_keys", None)
        found = next((one for one in keys.met if one.startswith(own)), None) if keys is not None else None
        return None if found is None else f"401 Unauthorized to {found}"
