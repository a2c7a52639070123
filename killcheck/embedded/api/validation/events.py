"""Events: strict by events.k8s.io, and as they ever were by the core group.

Source: pkg/apis/core/validation/events.go of Kubernetes v1.36. Fields have the core group's names in what is refused.
"""

from __future__ import annotations

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import meta, names
from killcheck.embedded.api.validation.fields import Causes, immutable, invalid, required
from killcheck.kube.objects import Obj, dig

__all__ = ["create", "update"]

_LIMITS = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
#: events.k8s.io's name -> the core group's, which are told.
_TOLD = {
    "regarding": "involvedObject",
    "reason": "reason",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "type": "type",
    "eventTime": "eventTime",
    "action": "action",
    "related": "related",
    "reportingController": "reportingController",
    "reportingInstance": "reportingInstance",
}
_UNSET = "needs to be unset"


def create(kind: Kind, new: Obj) -> Causes:
    """A new event."""
    strict = kind.resource.group != ""
    causes = _legacy(new, strict=strict)
    if not strict:
        return causes
    causes += meta.create(new["metadata"], names.dns_subdomain) + _series(new)
    if not new.get("eventTime"):
        causes.append(required("eventTime"))
    if new.get("type") not in ("Normal", "Warning"):
        causes.append(invalid("type", "", f"has invalid value: {new.get('type', '')}"))
    unset = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount")
    causes += [invalid(_TOLD[field], "", _UNSET) for field in unset if new.get(field)]
    source = new.get("deprecatedSource") or {}
    return causes + ([invalid("source", "", _UNSET)] if source.get("component") or source.get("host") else [])


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed event: by events.k8s.io its series alone may change."""
    strict = kind.resource.group != ""
    causes = _legacy(new, strict=strict)
    if not strict:
        return causes
    causes += meta.update(new["metadata"], old["metadata"])
    if new.get("series") != old.get("series"):
        causes += _series(new)
    for field, told in _TOLD.items():
        causes += immutable(told, new.get(field), old.get(field))
    return causes


def _legacy(new: Obj, *, strict: bool) -> Causes:
    """``legacyValidateEvent``."""
    about = dig(new, "regarding" if strict else "involvedObject", "namespace", default="")
    namespace = new["metadata"].get("namespace", "")
    elsewhere = [invalid("involvedObject.namespace", about, "does not match event.namespace")]
    if not new.get("eventTime"):
        alike = namespace in ("", "default") if not about else namespace == about
        return [] if alike else elsewhere
    causes: Causes = elsewhere if not about and namespace not in ("default", "kube-system") else []
    field = "reportingController" if strict else "reportingComponent"
    who = str(new.get(field) or "")
    causes += [] if who else [required(field)]
    causes += [invalid(field, who, words) for words in names.qualified_name(who)]
    for told, limit in _LIMITS.items():
        said = str(new.get("note" if strict and told == "message" else told) or "")
        if not said and told != "message":
            causes.append(required(told))
        if len(said) > limit:
            causes.append(invalid(told, "", f"can have at most {limit} characters"))
    return causes


def _series(new: Obj) -> Causes:
    series = new.get("series")
    if series is None:
        return []
    causes: Causes = [] if (series.get("count") or 0) >= 2 else [invalid("series.count", "", "should be at least 2")]
    return causes + ([] if series.get("lastObservedTime") else [required("series.lastObservedTime")])
