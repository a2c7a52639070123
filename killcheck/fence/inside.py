"""Inside the cluster: whether a pod that asks for devices would be refused, stay Pending, or make something launch.

Quotas and limit ranges of its namespace, then the nodes that are there, then the pools. Admission policies and webhooks
are not evaluated here: they are never counted as a refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from killcheck.fence.pools import Pool
from killcheck.instances.amounts import amount
from killcheck.kube.objects import Obj, dig, name_of, namespace_of

__all__ = ["Ask", "Finding", "ask", "queues"]

Outcome = Literal["refused", "pending", "launches", "unproven"]


class Ask(Struct, frozen=True):
    """What would happen to the pod, by what, and what could not be judged."""

    outcome: Outcome
    by: str
    reasons: tuple[str, ...] = ()


class Finding(Struct, frozen=True):
    """Something wrong beside the pools: ``severity`` is SARIF's."""

    object: str
    message: str
    remedy: str
    severity: Literal["error", "warning", "note"] = "warning"


def ask(
    objects: Sequence[Obj],
    pools: Sequence[Pool],
    devices: int,
    *,
    namespace: str,
    resource: str = "nvidia.com/gpu",
) -> Ask:
    """What a pod in ``namespace`` that asks for ``devices`` of ``resource``, and tolerates everything, would meet."""
    unjudged = [
        f"{one['kind']}/{name_of(one)} is not evaluated"
        for one in objects
        if one.get("kind") in ("ValidatingAdmissionPolicy", "ValidatingWebhookConfiguration")
    ]
    refusal = _quota(objects, namespace, resource, devices) or _range(objects, namespace, resource, devices)
    if refusal:
        return Ask("refused", refusal, tuple(unjudged))
    for node in objects:
        held = dig(node, "status", "allocatable", resource) if node.get("kind") == "Node" else None
        if held is not None and _number(held) >= devices:
            return Ask("launches", f"Node/{name_of(node)} has {held} of {resource} already", tuple(unjudged))
    return _from_pools(pools, devices, resource, unjudged)


def _from_pools(pools: Sequence[Pool], devices: int, resource: str, unjudged: list[str]) -> Ask:
    maybe = ""
    for pool in pools:
        enough = pool.types.mask(one for one in pool.types.types if one.capacity.get(resource, 0) >= devices)
        sure, possible = pool.types.first(pool.certain & enough, "devices"), pool.possible & enough
        if sure is not None:
            return Ask("launches", f"{pool.name} would launch {sure.name} or the like", tuple(unjudged))
        if possible or pool.unknown:
            maybe = maybe or pool.name
            unjudged += [text for text in (*pool.unknown, *pool.undecided) if text not in unjudged]
    if maybe:
        return Ask("unproven", f"{maybe} may launch it", tuple(unjudged))
    return Ask("pending", f"no pool has a type with {devices} of {resource}", tuple(unjudged))


def _number(value: Any) -> float:
    try:
        return amount(value)
    except ValueError:
        return float("inf")


def _in(objects: Iterable[Obj], kind: str, namespace: str) -> Iterable[Obj]:
    return (one for one in objects if one.get("kind") == kind and namespace_of(one) == namespace)


def _quota(objects: Sequence[Obj], namespace: str, resource: str, devices: int) -> str | None:
    """The ResourceQuota that refuses, if one surely does (one with scopes may not apply)."""
    for quota in _in(objects, "ResourceQuota", namespace):
        if dig(quota, "spec", "scopes") or dig(quota, "spec", "scopeSelector"):
            continue
        hard = dig(quota, "spec", "hard", default={})
        used = dig(quota, "status", "used", default={})
        for key, asked in ((f"requests.{resource}", devices), ("pods", 1), ("count/pods", 1)):
            if key in hard and _number(used.get(key, 0)) + asked > _number(hard[key]):
                return f"ResourceQuota/{name_of(quota)} allows {hard[key]} of {key}"
    return None


def _range(objects: Sequence[Obj], namespace: str, resource: str, devices: int) -> str | None:
    for one in _in(objects, "LimitRange", namespace):
        for item in dig(one, "spec", "limits", default=()):
            most = dig(item, "max", resource)
            if item.get("type") in ("Container", "Pod") and most is not None and devices > _number(most):
                return f"LimitRange/{name_of(one)} allows {most} of {resource} a {item['type'].lower()}"
    return None


# -- Kueue -----------------------------------------------------------------------------------------------------
def queues(objects: Sequence[Obj], pools: Sequence[Pool]) -> list[Finding]:
    """Quotas of ClusterQueues above what the pools can bring, and flavors whose labels no pool has.

    ``pools``: all that there are; none: they are not known, and nothing is said of what they bring.
    """
    flavors = {name_of(one): one for one in objects if one.get("kind") == "ResourceFlavor"}
    found: list[Finding] = []
    for queue in objects:
        if queue.get("kind") != "ClusterQueue":
            continue
        for group in dig(queue, "spec", "resourceGroups", default=()):
            for entry in group.get("flavors") or ():
                found += _flavor(queue, entry, flavors.get(str(entry.get("name"))), pools)
    return found


def _flavor(queue: Obj, entry: Any, flavor: Obj | None, pools: Sequence[Pool]) -> list[Finding]:
    where, name = f"ClusterQueue/{name_of(queue)}", str(entry.get("name"))
    if flavor is None:
        says = f"flavor {name} does not exist: nothing of it is ever admitted"
        return [Finding(where, says, "create the ResourceFlavor")]
    labels = {str(key): str(value) for key, value in dig(flavor, "spec", "nodeLabels", default={}).items()}
    matching = [pool for pool in pools if _carries(pool, labels)]
    if not pools:
        return []
    if not matching:
        spelt = ", ".join(f"{key}={value}" for key, value in labels.items())
        return [
            Finding(
                where,
                f"no pool's nodes carry the labels of flavor {name} ({spelt}): what it admits stays Pending",
                "use labels that a pool's template or requirements give its nodes",
            )
        ]
    found = []
    for asked in entry.get("resources") or ():
        resource, quota = str(asked.get("name")), _number(asked.get("nominalQuota", 0))
        quota += _number(asked.get("borrowingLimit", 0))
        brought = sum(_brings(pool, resource) for pool in matching)
        if quota > brought:
            found.append(
                Finding(
                    where,
                    f"flavor {name} admits {quota:g} of {resource}, its pools can bring {brought:g}: the rest waits "
                    "on nodes that never come",
                    "set the quota to the pools' limits",
                )
            )
    return found


def _brings(pool: Pool, resource: str) -> float:
    limits = pool.all_limits()
    if resource in limits:
        return limits[resource]
    most_of = max((one.capacity.get(resource, 0) for one in pool.types.members(pool.possible)), default=0)
    return float(most_of) * limits.get("nodes", float("inf")) if most_of else 0.0


def _carries(pool: Pool, labels: dict[str, str]) -> bool:
    """Whether the pool's nodes can have these labels."""
    if pool.obj is None:
        return True
    from killcheck.instances.launchable import well_known
    from killcheck.instances.requirements import RequirementError, Requirements

    spec = dig(pool.obj, "spec", "template", "spec", default={})
    try:
        requirements = Requirements.of(
            spec.get("requirements") or (), dig(pool.obj, "spec", "template", "metadata", "labels", default={})
        )
        wanted = Requirements.of((), labels)
    except RequirementError:
        return True
    known = well_known("karpenter.k8s.aws") | well_known("eks.amazonaws.com")
    return not requirements.undefined(wanted, known) and not requirements.conflicts(wanted)
