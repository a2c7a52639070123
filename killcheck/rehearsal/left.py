"""What a firing left in its cluster: what the next night finds there."""

from __future__ import annotations

from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, copy
from killcheck.rehearsal.programs import Program
from killcheck.rehearsal.record import Call, Firing
from killcheck.text.jsontext import from_text

__all__ = ["left_behind", "marks", "only_counts"]

#: Set by the server, and refused or ignored in what is created.
_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink", "ownerReferences")
#: What a night leaves of these is over by the next: they end, or were what was to be changed.
_PASSING = frozenset({"pods", "jobs", "events", "tokenreviews", "serviceaccounts"})
#: What is new in the morning, or is not asked about a night.
_RENEWED = (_PASSING - {"jobs"}) | {"nodes", "nodeclaims", "leases"}


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


def marks(program: Program, firing: Firing) -> bool:
    """Whether a firing may have left more than numbers of replicas: an annotation, a word in a ConfigMap, a file on a
    disk that outlives its pod."""
    disks = any("persistentVolumeClaim" in volume for volume in program.pod_spec.get("volumes") or ())
    return disks or any(
        not call.refused and call.resource not in _RENEWED and not only_counts(call) for call in firing.writes
    )


def only_counts(call: Call) -> bool:
    """Whether a write says how many replicas there are to be, and nothing more."""
    if call.replicas is None or call.group != "apps" or call.subresource == "scale":
        return call.replicas is not None and call.group == "apps"
    try:
        body = from_text(call.body)
    except ValueError:  # longer than what is kept of it
        return False
    return isinstance(body, list) or set(body) <= {"apiVersion", "kind", "spec"}


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
