"""Requests that become conversations: which protocol is spoken after the upgrade.

Source: k8s.io/streaming/pkg/httpstream (Handshake), wsstream and spdy; k8s.io/apiserver/pkg/util/proxy/streamtunnel.go
of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.embedded.api import status
from killcheck.embedded.api.http import Request
from killcheck.embedded.api.status import StatusError

__all__ = ["SPDY", "TUNNEL", "upgrade"]

SPDY = "SPDY/3.1"
#: Before the name of a protocol: SPDY inside a WebSocket's messages.
TUNNEL = "SPDY/3.1+"
_VERSION = "X-Stream-Protocol-Version"


def upgrade(request: Request, websocket: Sequence[str], spdy: Sequence[str]) -> dict[str, str]:
    """The headers of the 101, by what the client offers. Raises StatusError 400 or 403."""
    asked = request.headers.get("upgrade", "").lower()
    if not asked or "upgrade" not in request.headers.get("connection", "").lower():
        raise status.bad_request("Upgrade request required")
    if asked == "websocket":
        offered = _listed(request, "sec-websocket-protocol")
        chosen = next((name for name in offered if name in websocket), "")
        if not chosen:
            raise status.bad_request(
                f"unable to upgrade: the server speaks {', '.join(websocket)}, not {', '.join(offered) or 'none'}"
            )
        return {"Upgrade": "websocket", "Sec-WebSocket-Protocol": chosen}
    if asked != SPDY.lower():
        raise status.bad_request(f"unable to upgrade: websocket and {SPDY} are spoken, not {asked}")
    if _VERSION.lower() not in request.headers:
        raise status.bad_request(f"unable to upgrade: header {_VERSION} does not exist in request")
    offered = _listed(request, _VERSION.lower())
    chosen = next((name for name in offered if name in spdy), "")
    if not chosen:
        raise StatusError(
            403,
            "Forbidden",
            "unable to upgrade: unable to negotiate protocol: client supports "
            f"[{' '.join(offered)}], server accepts [{' '.join(spdy)}]",
            details={},
            headers={"X-Accepted-Stream-Protocol-Versions": ", ".join(spdy)},
        )
    return {"Upgrade": SPDY, _VERSION: chosen}


def _listed(request: Request, name: str) -> list[str]:
    return [word for word in (part.strip() for part in request.headers.get(name, "").split(",")) if word]
