"""What KEDA logs in with to read a trigger, as far as it is among what is known: without it nothing is scaled in.

Source: kedacore/keda pkg/scaling/resolver (authenticationRef, secretTargetRef) and pkg/scaling/executor (a trigger that
fails leaves the replicas as they are).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from killcheck.kube.objects import Obj, dig, mappings, name_of, namespace_of

__all__ = ["absent", "absent_secrets"]


def absent(scaler: Obj, objects: Sequence[Obj]) -> str | None:
    """The TriggerAuthentication that a ScaledObject names and nobody has; None: all are there."""
    return next((name for kind, name, found in _named(scaler, objects) if kind.startswith("Trig") and not found), None)


def absent_secrets(scaler: Obj, objects: Sequence[Obj]) -> list[str]:
    """The Secrets that its credentials are read from and that are not here: they may well be made elsewhere."""
    there = {name_of(one) for one in objects if one.get("kind") == "Secret" and _home(one) == _home(scaler)}
    named = [
        str(one.get("name"))
        for _, _, found in _named(scaler, objects)
        for one in mappings(dig(found, "spec", "secretTargetRef"))
    ]
    return [name for name in dict.fromkeys(named) if name not in there]


def _named(scaler: Obj, objects: Sequence[Obj]) -> Iterator[tuple[str, str, Obj | None]]:
    """(kind, name, object) of each that its triggers name."""
    for trigger in mappings(dig(scaler, "spec", "triggers")):
        ref = trigger.get("authenticationRef") or {}
        if ref.get("name"):
            kind, name = str(ref.get("kind") or "TriggerAuthentication"), str(ref["name"])
            within = [one for one in objects if one.get("kind") == kind and name_of(one) == name]
            own = [one for one in within if kind != "TriggerAuthentication" or _home(one) == _home(scaler)]
            yield kind, name, own[0] if own else None


def _home(obj: Obj) -> str:
    return namespace_of(obj) or "default"
