"""Status conditions as Karpenter keeps them (awslabs/operatorpkg status): a root ``Ready`` over dependent ones."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.kube.objects import Obj, condition, dig

__all__ = ["clear", "is_true", "put", "rooted"]


def is_true(obj: Obj, kind: str) -> bool:
    """Whether the condition is there and True."""
    found = condition(obj, kind)
    return bool(found) and found["status"] == "True"  # type: ignore[index]


def put(obj: Obj, kind: str, status: str, now: str, *, reason: str = "", message: str = "") -> bool:
    """Set a condition on ``obj`` (ours to change); answers whether anything changed.

    The transition time moves only with the status. A reason is compulsory: a True condition's is its own type.
    """
    conditions = obj.setdefault("status", {}).setdefault("conditions", [])
    entry = {
        "type": kind,
        "status": status,
        "reason": reason or kind,
        "message": message,
        "lastTransitionTime": now,
        "observedGeneration": dig(obj, "metadata", "generation", default=1),
    }
    for index, existing in enumerate(conditions):
        if existing["type"] == kind:
            if existing["status"] == status:
                entry["lastTransitionTime"] = existing["lastTransitionTime"]
            conditions[index] = entry
            return bool(existing != entry)
    conditions.append(entry)
    return True


def clear(obj: Obj, kind: str) -> bool:
    """Remove a condition; answers whether it was there."""
    conditions = dig(obj, "status", "conditions", default=[])
    kept = [entry for entry in conditions if entry["type"] != kind]
    if len(kept) == len(conditions):
        return False
    obj["status"]["conditions"] = kept
    return True


def rooted(obj: Obj, dependents: Sequence[str], now: str) -> bool:
    """Fill in what is missing of ``dependents`` and recompute ``Ready``; answers whether anything changed."""
    changed = False
    for kind in dependents:
        if condition(obj, kind) is None:
            changed |= put(
                obj, kind, "Unknown", now, reason="AwaitingReconciliation", message="object is awaiting reconciliation"
            )
    states = {kind: str(dig(condition(obj, kind), "status", default="Unknown")) for kind in dependents}
    for state, reason in (("False", "UnhealthyDependents"), ("Unknown", "ReconcilingDependents")):
        named = [f"{kind}={state}" for kind in dependents if states[kind] == state]
        if named:
            return put(obj, "Ready", state, now, reason=reason, message=", ".join(named)) or changed
    return put(obj, "Ready", "True", now) or changed
