"""Programs that stop something which nothing here is: switches that miss what they were meant for.

A selector that matches nothing, a name of another day, a ReplicaSet, a Job or a pod that somebody's controller makes
again, a restart of the target, the schedule of a run that goes on. Beside a target that no layer turns off such a
program is what somebody relies on: it is drilled, and its GPUs tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from killcheck.discover.made_runs import started_by
from killcheck.executor import Reading
from killcheck.executor.api_calls import ApiCall
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of, owners
from killcheck.kube.plurals import plural_of
from killcheck.kube.workloads import templates
from killcheck.spec.killpath import KINDS, Target
from killcheck.text.values import replace

__all__ = ["meant_for"]

#: What holds GPUs or makes what does. Pods come and go under names that no manifest has.
_WORKLOADS = frozenset(plural_of(kind) for kind in KINDS) - {"pods", "configmaps", "cronjobs", "services", "containers"}


def meant_for(reading: Reading, objects: Sequence[Obj], targets: Sequence[Target]) -> Iterator[Target]:
    """Those of ``targets`` in whose namespace a program stops workloads that are not among ``objects``.

    Also those that it calls by kind and name, in a namespace that is not theirs; that it restarts; of which it deletes
    pods that no manifest here makes; and runs of a CronJob that it suspends.
    """
    stray = [call for call in reading.writes if _stops(call) and not _found(call, objects)]
    stray += [call for call in reading.writes if _ends_pods(call) and not _found_below(call, objects)]
    for target in targets:
        missed = any(call.namespace in ("", target.namespace) or _namesake(call, target) for call in stray)
        if missed or any(_leaves_on(call, target, objects) for call in reading.writes):
            yield target


def _leaves_on(call: ApiCall, target: Target, objects: Sequence[Obj]) -> bool:
    """Whether it is about a target, and after it as many pods are on."""
    return _restarts(call, target, objects) or _suspends_its_own(call, target, objects)


def _ends_pods(call: ApiCall) -> bool:
    """Whether it deletes or evicts pods."""
    return call.resource == "pods" and (call.verb.startswith("delete") or call.subresource == "eviction")


def _found_below(call: ApiCall, objects: Sequence[Obj]) -> bool:
    """Whether the pods of a call are those of a workload among ``objects``, by its labels."""
    if not call.selector:
        return any(call.name.startswith(name_of(obj)) for obj in objects if templates(obj)) or not call.name
    return any(
        replace(call, name="").about(namespace_of(obj) or "default", "", dig(one.metadata, "labels", default={}))
        for obj in objects
        for one in templates(obj)
    )


def _restarts(call: ApiCall, target: Target, objects: Sequence[Obj]) -> bool:
    """Whether it is a rollout restart of a target, after which as many pods are on."""
    labels = next((labels_of(obj) for obj in objects if _is(obj, target)), {})
    same = call.resource == plural_of(target.kind) and call.about(target.namespace, target.object, labels)
    return call.body == "rollout restart" and same


def _suspends_its_own(call: ApiCall, target: Target, objects: Sequence[Obj]) -> bool:
    """Whether it suspends the CronJob that a target is a run of: the run goes on."""
    if call.resource != "cronjobs" or not _holds_back(call):
        return False
    runs = [obj for obj in objects if _is(obj, target)]
    named = {str(owner.get("name")) for obj in runs for owner in owners(obj) if owner.get("kind") == "CronJob"}
    named |= {ref.name for ref in started_by(runs)}
    return any(call.about(target.namespace, name, {}) for name in named)


def _is(obj: Obj, target: Target) -> bool:
    return (obj.get("kind"), namespace_of(obj) or "default", name_of(obj)) == (
        target.kind,
        target.namespace,
        target.object,
    )


def _namesake(call: ApiCall, target: Target) -> bool:
    return bool(target.object) and (call.resource, call.name) == (plural_of(target.kind), target.object)


def _stops(call: ApiCall) -> bool:
    """Whether it is plainly meant to turn a workload off."""
    if call.resource not in _WORKLOADS or call.removes or call.marks:
        return False
    return call.verb.startswith("delete") or call.replicas == 0 or _holds_back(call)


def _holds_back(call: ApiCall) -> bool:
    """Whether it writes ``suspend: true``."""
    return '"suspend":true' in call.body.replace(" ", "") or ('/suspend"' in call.body and "true" in call.body)


def _found(call: ApiCall, objects: Sequence[Obj]) -> bool:
    group = call.group
    return any(
        (plural_of(str(obj.get("kind"))), str(obj.get("apiVersion")).rpartition("/")[0]) == (call.resource, group)
        and call.about(namespace_of(obj) or "default", name_of(obj), labels_of(obj))
        for obj in objects
    )
