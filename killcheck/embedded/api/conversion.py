"""Objects in another version than the one they are stored in.

Only three groups need it here: events (core/v1 and events.k8s.io/v1 are views of one object), autoscaling (v1 and v2),
and custom resources (their ``None`` strategy changes ``apiVersion`` alone).
"""

from __future__ import annotations

from killcheck.embedded.api import hpaversions
from killcheck.embedded.api.kinds import Kind
from killcheck.kube.objects import Obj, dig

__all__ = ["EVENTS_GROUP", "converted", "to_storage"]

#: core/v1 name -> events.k8s.io/v1 name
_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_EVENT_FIELDS_BACK = {new: old for old, new in _EVENT_FIELDS.items()}
EVENTS_GROUP = "events.k8s.io"


def converted(kind: Kind, obj: Obj) -> Obj:
    """A stored object as ``kind`` shows it; the object itself where that is the stored version."""
    wanted = kind.resource.api_version
    if obj.get("apiVersion") == wanted:
        return obj
    if kind.crd is None:
        if kind.resource.group == EVENTS_GROUP:
            obj = {_EVENT_FIELDS.get(key, key): value for key, value in obj.items()}
        elif kind.resource.group == "autoscaling":
            obj = hpaversions.to_v1(obj) if kind.resource.version == "v1" else hpaversions.to_v2(obj)
    return obj | {"apiVersion": wanted}


def to_storage(kind: Kind, obj: Obj) -> Obj:
    """An object as it is to be stored: custom resources in their storage version, the others as they are read most."""
    if kind.crd is not None:
        return obj | {"apiVersion": f"{kind.resource.group}/{_storage_version(kind)}"}
    if kind.resource.group == EVENTS_GROUP:
        obj = {_EVENT_FIELDS_BACK.get(key, key): value for key, value in obj.items()}
        return obj | {"apiVersion": "v1"}
    if kind.resource.group == "autoscaling" and kind.resource.version == "v1":
        return hpaversions.to_v2(obj) | {"apiVersion": "autoscaling/v2"}
    return obj


def _storage_version(kind: Kind) -> str:
    versions = dig(kind.crd, "spec", "versions", default=[])
    return next((str(v["name"]) for v in versions if v.get("storage")), kind.resource.version)
