"""Every bound on GPUs side by side: quotas of namespaces, of queues, limits of pools.

The least of those that apply is what is had; the others promise what never comes, or stop what was meant to run.

Sources: kubernetes.io/docs "Resource Quotas", "Limit Ranges"; kueue.sigs.k8s.io "ClusterQueue" (nominalQuota,
borrowingLimit, lendingLimit, cohort).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from killcheck.fence.pools import Pool
from killcheck.instances.amounts import amount
from killcheck.kube.objects import Obj, dig, name_of, namespace_of

__all__ = ["ceilings"]

_RESOURCE = "nvidia.com/gpu"


def ceilings(objects: Sequence[Obj], pools: Iterable[Pool]) -> list[str]:
    """A line for each bound; none where there is no quota and no queue, as the pools are in the fences' own table."""
    rows = [*_quotas(objects), *_ranges(objects), *_queues(objects)]
    if not rows:
        return []
    limits = [(one.name, one.all_limits().get(_RESOURCE)) for one in pools if not one.name.startswith("RBAC/")]
    rows += [(name, "no limit" if most is None else f"{most:g}") for name, most in limits]
    return [f"{_RESOURCE} at most: {name}: {bound}" for name, bound in rows]


def _quotas(objects: Iterable[Obj]) -> Iterator[tuple[str, str]]:
    for one in objects:
        hard = dig(one, "spec", "hard", default={}) if one.get("kind") == "ResourceQuota" else {}
        most = hard.get(f"requests.{_RESOURCE}", hard.get(f"limits.{_RESOURCE}"))
        if most is not None:
            yield f"ResourceQuota/{namespace_of(one)}/{name_of(one)}", str(most)


def _ranges(objects: Iterable[Obj]) -> Iterator[tuple[str, str]]:
    for one in objects:
        for item in dig(one, "spec", "limits", default=[]) if one.get("kind") == "LimitRange" else ():
            most = dig(item, "max", _RESOURCE)
            if most is not None:
                yield f"LimitRange/{namespace_of(one)}/{name_of(one)}", f"{most} a {str(item.get('type')).lower()}"


def _queues(objects: Sequence[Obj]) -> Iterator[tuple[str, str]]:
    queues = [one for one in objects if one.get("kind") == "ClusterQueue"]
    for queue in queues:
        own, may_borrow = _quota(queue, "nominalQuota"), _quota(queue, "borrowingLimit", math.inf)
        if own is None:
            continue
        cohort = _cohort(queue)
        others = [one for one in queues if cohort and one is not queue and _cohort(one) == cohort]
        lent = min(may_borrow or 0.0, sum(_lends(one) for one in others))
        borrowed = f", and {lent:g} borrowed from cohort {cohort}" if lent else ""
        held = dig(queue, "spec", "stopPolicy", default="None")
        stopped = f"; stopPolicy {held}" if held != "None" else ""
        yield f"ClusterQueue/{name_of(queue)}", f"{own:g}{borrowed}{stopped}"


def _cohort(queue: Obj) -> str:
    """Its cohort: ``cohort`` of v1beta1, ``cohortName`` of v1beta2."""
    return str(dig(queue, "spec", "cohort") or dig(queue, "spec", "cohortName") or "")


def _lends(queue: Obj) -> float:
    own = _quota(queue, "nominalQuota") or 0.0
    return min(own, _quota(queue, "lendingLimit", own) or 0.0)


def _quota(queue: Obj, field: str, unsaid: float | None = None) -> float | None:
    """A field of the GPUs' quota over all flavors; ``unsaid`` where none gives it, None where GPUs are not covered."""
    said, covered = list[float](), False
    for group in dig(queue, "spec", "resourceGroups", default=[]):
        for flavor in group.get("flavors") or ():
            for one in flavor.get("resources") or ():
                if one.get("name") == _RESOURCE:
                    covered = True
                    said += [_number(one[field])] if one.get(field) is not None else []
    return sum(said) if said else (unsaid if covered else None)


def _number(value: Any) -> float:
    try:
        return amount(value)
    except ValueError:
        return math.inf
