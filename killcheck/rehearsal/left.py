"""What a firing left in its cluster: what the next night finds there."""

from __future__ import annotations

from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, copy
from killcheck.rehearsal.record import Firing

__all__ = ["left_behind"]

#: Set by the server, and refused or ignored in what is created.
_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink", "ownerReferences")
#: What a night leaves of these is over by the next: they end, or were what was to be changed.
_PASSING = frozenset({"pods", "jobs", "events", "tokenreviews", "serviceaccounts"})


def left_behind(kube: Kube, firing: Firing) -> list[Obj]:
    """Objects that the program made and did not take away again, as they are now."""
    found = {}
    for call in firing.writes:
        if call.verb == "create" and not call.refused and not call.subresource and call.resource not in _PASSING:
            path = f"{call.path.rstrip('/')}/{call.name}"
            obj = _read(kube, path)
            if obj is not None:
                found[path] = obj
    return list(found.values())


def _read(kube: Kube, path: str) -> Obj | None:
    try:
        obj = kube.call("GET", path).body
    except KubeError:
        return None
    if not isinstance(obj, dict):
        return None
    kept = copy(obj)
    for field in _OWN:
        kept["metadata"].pop(field, None)
    kept.pop("status", None)
    return kept
