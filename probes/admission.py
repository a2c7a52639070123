"""Asks the embedded cluster's admission whether it would take an executor's pod: a dry run of our own."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction

from killcheck.probes.live import pod_of
from killcheck.probes.world import Executor, World, owners_of

from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of
from killcheck.kube.workloads import templates

__all__ = ["declared", "refusal"]


#: The PriorityClasses that every cluster has (kube-apiserver's scheduling bootstrap).
_PRIORITIES = tuple(
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))
)


def refusal(world: World, one: Executor) -> str | None:
    """Why the pod would be refused, in the API server's words; None if it would not be."""
    rules = [obj for kind in ("ResourceQuota", "LimitRange") for obj in world.in_namespace(kind, one.namespace)]
    namespace = world.find("Namespace", "", one.namespace)
    labels = dig(namespace, "metadata", "labels", default={})
    if not rules and not any(key.startswith("pod-security.") for key in labels):
        return None
    from killcheck.clock import VirtualLoop
    from killcheck.embedded import AdmissionRequest, Authorizer, Chain, Registry, StatusError, Store, User

    loop, store, kinds = VirtualLoop(world.now), Store(), Registry()
    for obj in (
        _namespace(namespace, one.namespace),
        _account(one),
        *_PRIORITIES,
        *world.of("PriorityClass"),
        *(_headroom(world, rule, one.namespace) for rule in rules),
    ):
        kind = kinds.by_kind(*_group_kind(obj))
        if kind is not None:
            store.put(kind.table, (namespace_of(obj), name_of(obj)), copy(obj))
    kind = kinds.by_kind("", "Pod")
    if kind is None:
        return None
    chain = Chain(store, loop, Authorizer(store), random.Random(1))  # noqa: S311 - names, not secrets
    user = User("system:serviceaccount:kube-system:job-controller", ("system:serviceaccounts", "system:authenticated"))
    try:
        chain.admit(AdmissionRequest("CREATE", kind, "", one.namespace, "", pod_of(one), None, user, dry_run=True))
    except StatusError as error:
        return str(error)
    return None


def _group_kind(obj: Obj) -> tuple[str, str]:
    return str(obj["apiVersion"]).rpartition("/")[0], str(obj["kind"])


def _namespace(known: Obj | None, name: str) -> Obj:
    labels = dig(known, "metadata", "labels", default={})
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": dict(labels)},
        "status": {"phase": "Active"},
    }


def _account(one: Executor) -> Obj:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": one.account, "namespace": one.namespace}}


def _headroom(world: World, rule: Obj, namespace: str) -> Obj:
    """The rule as new; of a quota only what is left of it, since the pods that use it are not here: those that it
    counts by itself, or those that the manifests declare."""
    from killcheck.kube.quantities import format_quantity, parse

    made = copy({"apiVersion": "v1", "kind": rule["kind"], "spec": rule.get("spec") or {}})
    made["metadata"] = {"name": name_of(rule), "namespace": namespace}
    scoped = dig(rule, "spec", "scopes") or dig(rule, "spec", "scopeSelector")
    used = dig(rule, "status", "used") or ({} if scoped or world.live else declared(world, namespace))
    for name, hard in dig(made, "spec", "hard", default={}).items():
        if name in used:
            made["spec"]["hard"][name] = format_quantity(max(parse(str(hard)) - parse(str(used[name])), parse("0")))
    return made


def declared(world: World, namespace: str) -> dict[str, str]:
    """What a quota would count of the declared replicas of a namespace, by the quota's names (as quantities)."""
    from killcheck.kube.quantities import format_quantity, parse

    found: dict[str, Fraction] = defaultdict(Fraction)
    for obj in (o for kind in _STANDING for o in world.in_namespace(kind, namespace) if not owners_of(o)):
        for template in templates(obj):
            found["pods"] += template.count
            found["count/pods"] += template.count
            for container in dig(template.spec, "containers", default=[]):
                resources = container.get("resources") or {}
                limits = resources.get("limits") or {}
                requests = {**limits, **(resources.get("requests") or {})}
                for prefix, values in (("requests.", requests), ("limits.", limits)):
                    for name, value in values.items():
                        found[f"{prefix}{name}"] += template.count * parse(str(value))
    for plain in ("cpu", "memory"):
        found[plain] = found[f"requests.{plain}"]
    return {name: format_quantity(value) for name, value in found.items()}


#: Workloads whose pods stand when a CronJob fires.
_STANDING = ("Deployment", "StatefulSet", "ReplicaSet", "Pod")
