"""Leases of nodes as a client sees them: renewed every ten seconds for as long as a kubelet vouches for its own.

In virtual time nothing is written for it (``killcheck.embedded.nodes.heartbeat``): the renewal that would have been is
told to whoever reads from outside this process.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from killcheck.kube.objects import Obj, annotations_of, dig, format_time, parse_time

__all__ = ["TABLE", "renewed"]

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
