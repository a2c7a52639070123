"""What a rehearsal shows of a program: which targets it turned off, which it tried to, which it puts back up.

What may *not* live here: the reading of programs (:mod:`killcheck.executor`), and the rehearsal itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from killcheck.kube.objects import Obj, labels_of, name_of, namespace_of
from killcheck.kube.plurals import plural_of
from killcheck.spec.killpath import Target

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Call, Change, Rehearsed

__all__ = ["Seen", "of"]


class Seen(Struct, frozen=True):
    """Names of targets: ``off`` went off; ``tried`` were asked for and stayed, at least in part; ``lit`` were put up.

    ``asked``: those of ``off`` that had no pod to lose, as nothing in a rehearsal acts on their kind: they ask for none
    now. ``ended_well``: it was run to its end, with exit code 0. ``cordons``: it keeps nodes from taking new pods.
    """

    off: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    lit: tuple[str, ...] = ()
    ended_well: bool = False
    asked: tuple[str, ...] = ()
    cordons: bool = False


def of(rehearsed: Rehearsed, targets: Sequence[Target], by_target: Mapping[str, Obj]) -> Seen:
    """What one program's first firing did to each target."""
    first = rehearsed.first
    writes, refused = first.writes, tuple(first.refused)
    changed: dict[tuple[str, str], list[Change]] = {}
    for change in first.changes:
        changed.setdefault((change.kind, change.namespace), []).append(change)
    off, tried, lit, asked = [], [], [], []
    for target in targets:
        obj = by_target[target.name]
        here = changed.get((str(obj.get("kind")), namespace_of(obj) or "default"), ())
        changes = [change for change in here if _is(change, obj)]
        if any(change.off for change in changes):
            off.append(target.name)
            if not any(change.pods_before for change in changes):
                asked.append(target.name)
        elif any(_lowers(call, target, changes) for call in writes):
            tried.append(target.name)
        elif any(_raises(call, target, changes) for call in writes):
            lit.append(target.name)
        elif (
            any(change.after < change.before for change in changes)
            or any(_meant(call, target) for call in refused if not call.replicas)
            or any(_is_of(call, target) or _ends_one_of(call, target) for call in writes)
        ):
            tried.append(target.name)
    cordons = any(call.resource == "nodes" and "unschedulable" in call.body for call in writes)
    return Seen(tuple(off), tuple(tried), tuple(lit), first.exit_code == 0, tuple(asked), cordons)


def _is(change: Change, obj: Obj) -> bool:
    """Of one kind in one namespace: whether it is this object, or any of its labels where it has no name."""
    return change.name == name_of(obj) or (not name_of(obj) and bool(labels_of(obj)))


def _lowers(call: Call, target: Target, changes: list[Change]) -> bool:
    """Whether a write, taken or refused, asks for fewer replicas of a target than it had."""
    wanted = call.replicas
    return wanted is not None and _is_of(call, target) and any(wanted < change.before for change in changes)


def _raises(call: Call, target: Target, changes: list[Change]) -> bool:
    """Whether a write keeps a target's replicas where they are, or puts them up."""
    wanted = call.replicas or 0
    return bool(wanted) and _is_of(call, target) and any(wanted >= change.before for change in changes)


def _is_of(call: Call, target: Target) -> bool:
    return call.about[1:] == (plural_of(target.kind), target.namespace, target.object)


def _ends_one_of(call: Call, target: Target) -> bool:
    """Whether a write takes away what a target's controller made of it: its ReplicaSet, a pod."""
    if (call.resource, call.namespace) not in (("replicasets", target.namespace), ("pods", target.namespace)):
        return False
    ends = call.verb == "delete" or call.subresource == "eviction" or call.replicas == 0
    return ends and bool(target.object) and call.name.startswith(f"{target.object}-")


def _meant(call: Call, target: Target) -> bool:
    """Whether a refused call was about a target: by its name, wherever it was looked for, or by a list of its kind."""
    if call.name:
        return call.name == target.object and _scales(call.resource)
    return call.resource == plural_of(target.kind) and call.namespace in ("", target.namespace)


def _scales(resource: str) -> bool:
    """Whether a resource is a workload, rather than what stands beside one under the same name."""
    return resource not in ("configmaps", "secrets", "services", "serviceaccounts", "namespaces", "leases")
