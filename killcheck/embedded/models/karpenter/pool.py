"""A NodePool read once: what it lets through, what it is limited to, when its nodes may be disrupted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from killcheck.embedded.api.validation.names import label_value
from killcheck.embedded.models.karpenter import names as n
from killcheck.entries import Becomes, leaves
from killcheck.instances.amounts import amounts
from killcheck.instances.launchable import FLAVOURS, KARPENTER_AWS
from killcheck.instances.requirements import RequirementError, Requirements
from killcheck.kube.objects import Obj, dig, name_of, uid_of
from killcheck.kube.schedule import parse as parse_schedule
from killcheck.text.durations import parse_duration

__all__ = ["UNBOUNDED", "Pool", "PoolError", "read_pool"]

#: Disruptions allowed where no budget is active (Karpenter's math.MaxInt32).
UNBOUNDED = 2**31 - 1


class PoolError(ValueError):
    """The NodePool cannot be used; the message is what its ValidationSucceeded condition says."""


class Pool(Struct, frozen=True):
    """What the controllers need of a NodePool. Durations are seconds; None: never."""

    obj: Obj
    name: str
    uid: str
    weight: int
    replicas: int | None
    limits: Mapping[str, float]
    requirements: Requirements
    labels: Mapping[str, str]
    taints: tuple[Obj, ...]
    startup_taints: tuple[Obj, ...]
    node_class: Mapping[str, str]
    prefix: str
    policy: str
    consolidate_after_s: float | None
    expire_after: str
    budgets: tuple[Mapping[str, Any], ...]

    @property
    def template(self) -> Obj:
        """``spec.template.spec``."""
        return dig(self.obj, "spec", "template", "spec", default={})  # type: ignore[no-any-return]

    def allowed(self, reason: str, nodes: int, now: datetime) -> int:
        """How many of ``nodes`` may be disrupted for ``reason`` at once: the least over the active budgets.

        A share is rounded up, as with PDBs. A budget that cannot be read allows nothing.
        """
        least = UNBOUNDED
        for budget in self.budgets:
            reasons = budget.get("reasons")
            if not reasons or reason in reasons:
                least = min(least, _allowed(budget, nodes, now))
        return least

    @property
    def scheduled_budgets(self) -> bool:
        """Whether what is allowed changes with the time of day."""
        return any(budget.get("schedule") for budget in self.budgets)


def _allowed(budget: Mapping[str, Any], nodes: int, now: datetime) -> int:
    try:
        if not _active(budget, now):
            return UNBOUNDED
        text = str(budget.get("nodes", "10%"))
        return math.ceil(nodes * int(text[:-1]) / 100) if text.endswith("%") else int(text)
    except ValueError:
        return 0


def _active(budget: Mapping[str, Any], now: datetime) -> bool:
    """Whether the schedule (cron, UTC) hit within the last ``duration``. Raises ValueError."""
    schedule, duration = budget.get("schedule"), budget.get("duration")
    if not schedule and not duration:
        return True
    hit = parse_schedule(str(schedule)).next(now - timedelta(seconds=parse_duration(str(duration))))
    return hit is not None and hit <= now


def _check_labels(labels: Mapping[str, Any], requirements: Iterable[Obj]) -> None:
    """That each value can be a node's label (Karpenter's RuntimeValidate). Raises PoolError."""
    pairs = list(labels.items())
    pairs += [(one.get("key", ""), value) for one in requirements for value in one.get("values") or ()]
    for key, value in pairs:
        if words := label_value(str(value)):
            raise PoolError(f"invalid value {value} for key {key}, {words[0]}")


@leaves("clouds", "Karpenter of other clouds than AWS and Azure: nothing launches for its pools", Becomes.OPEN)
def read_pool(obj: Obj) -> Pool:
    """The pool of a NodePool object. Raises PoolError."""
    spec, template = obj.get("spec", {}), dig(obj, "spec", "template", default={})
    inner, disruption = template.get("spec", {}), spec.get("disruption") or {}
    node_class = inner.get("nodeClassRef") or {}
    name = name_of(obj)
    class_label = f"{node_class.get('group', '')}/{str(node_class.get('kind', '')).lower()}"
    prefix = node_class.get("group") or KARPENTER_AWS
    if prefix not in FLAVOURS:
        raise PoolError(f"machines of {prefix} are not modelled: nothing launches for this pool here")
    labels = dict(dig(template, "metadata", "labels", default={}))
    labels |= {n.NODEPOOL: name, class_label: str(node_class.get("name", ""))}
    try:
        requirements = Requirements.of(inner.get("requirements") or [], labels)
        limits = amounts(spec.get("limits"))
        after = _nillable(disruption.get("consolidateAfter", "0s"))
    except (RequirementError, ValueError) as error:
        raise PoolError(str(error)) from error
    _check_labels(labels, inner.get("requirements") or ())
    return Pool(
        obj,
        name,
        uid_of(obj),
        int(spec.get("weight") or 0),
        spec.get("replicas"),
        limits,
        requirements,
        labels,
        tuple(inner.get("taints") or ()),
        tuple(inner.get("startupTaints") or ()),
        node_class,
        prefix,
        str(disruption.get("consolidationPolicy", "WhenEmptyOrUnderutilized")),
        after,
        str(inner.get("expireAfter", "720h")),
        tuple(disruption.get("budgets", [{"nodes": "10%"}])),
    )


def _nillable(value: Any) -> float | None:
    return None if value == "Never" else parse_duration(str(value))
