"""Programs that stop something which nothing here is: switches that miss what they were meant for.

A selector that matches nothing, a name of another day, a ReplicaSet or a Job that somebody's controller makes again.
Beside a target that no layer turns off such a program is what somebody relies on: it is drilled, and its GPUs tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from killcheck.executor import Reading
from killcheck.executor.api_calls import ApiCall
from killcheck.kube.objects import Obj, labels_of, name_of, namespace_of
from killcheck.kube.plurals import plural_of
from killcheck.spec.killpath import KINDS, Target

__all__ = ["meant_for"]

#: What holds GPUs or makes what does. Pods come and go under names that no manifest has.
_WORKLOADS = frozenset(plural_of(kind) for kind in KINDS) - {"pods", "configmaps", "cronjobs", "services", "containers"}


def meant_for(reading: Reading, objects: Sequence[Obj], targets: Sequence[Target]) -> Iterator[Target]:
    """Those of ``targets`` in whose namespace a program stops workloads that are not among ``objects``.

    Also those that it calls by kind and name, in a namespace that is not theirs.
    """
    stray = [call for call in reading.writes if _stops(call) and not _found(call, objects)]
    for target in targets:
        if any(call.namespace in ("", target.namespace) or _namesake(call, target) for call in stray):
            yield target


def _namesake(call: ApiCall, target: Target) -> bool:
    return bool(target.object) and (call.resource, call.name) == (plural_of(target.kind), target.object)


def _stops(call: ApiCall) -> bool:
    """Whether it is plainly meant to turn a workload off."""
    if call.resource not in _WORKLOADS or call.removes or call.marks:
        return False
    held = '"suspend":true' in call.body.replace(" ", "") or ('/suspend"' in call.body and "true" in call.body)
    return call.verb.startswith("delete") or call.replicas == 0 or held


def _found(call: ApiCall, objects: Sequence[Obj]) -> bool:
    group = call.group
    return any(
        (plural_of(str(obj.get("kind"))), str(obj.get("apiVersion")).rpartition("/")[0]) == (call.resource, group)
        and call.about(namespace_of(obj) or "default", name_of(obj), labels_of(obj))
        for obj in objects
    )
