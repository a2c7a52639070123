"""Leases of nodes as a client sees them: renewed every ten seconds for as long as a kubelet vouches for its own.

In virtual time nothing is written for it (``killcheck.embedded.nodes.heartbeat``): the renewal that would have been is
told to whoever reads from outside this process. While somebody there watches Leases they are written, each at its
time.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from killcheck.embedded.api.http import Request, User
from killcheck.embedded.api.watch import WatchStream
from killcheck.kube.objects import Obj, annotations_of, dig, format_time, parse_time

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core

__all__ = ["TABLE", "renewed", "write_for"]

#: Says ``until-stopped`` on a Lease that its kubelet renews without writing.
_MARK = "killcheck.dev/heartbeat"
_RENEWAL_S = 10.0
TABLE = ("coordination.k8s.io", "leases")


def renewed(lease: Obj, now: datetime) -> Obj:
    """The Lease with the renewal that was its kubelet's last by now."""
    written = dig(lease, "spec", "renewTime")
    if not written or _MARK not in annotations_of(lease):
        return lease
    since = parse_time(written)
    beats = int((now - since).total_seconds() // _RENEWAL_S)
    last = since + timedelta(seconds=max(beats, 0) * _RENEWAL_S)
    return lease | {"spec": lease["spec"] | {"renewTime": format_time(last, micro=True)}}


def write_for(server: Core, stream: WatchStream) -> None:
    """Write every renewal at its time, for as long as a watch is open: who watches sees them come."""

    def beat() -> None:
        if stream.over:
            return
        for (namespace, name), lease in list(server.store.items(TABLE)):
            fresh = renewed(lease, server.loop.now())["spec"].get("renewTime")
            if fresh == lease["spec"].get("renewTime"):
                continue
            path = f"/apis/{TABLE[0]}/v1/namespaces/{namespace}/{TABLE[1]}/{name}"
            headers = {"content-type": "application/merge-patch+json", "user-agent": "kubelet/"}
            kubelet = User(f"system:node:{name}", ("system:nodes", "system:masters", "system:authenticated"))
            server.handle(Request("PATCH", path, headers=headers, body={"spec": {"renewTime": fresh}}, user=kubelet))
        server.loop.call_later(_next_s(server), beat)

    server.loop.call_later(_next_s(server), beat)


def _next_s(server: Core) -> float:
    """Seconds until the next renewal of any Lease."""
    now = server.loop.now()
    written = [dig(one, "spec", "renewTime") for one in server.store.values(TABLE) if _MARK in annotations_of(one)]
    ages = [(now - parse_time(when)).total_seconds() for when in written if when]
    return min((_RENEWAL_S - age % _RENEWAL_S for age in ages), default=_RENEWAL_S)
