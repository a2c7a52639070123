"""How many nodes a cloud's group may have for a while beyond its maximum: while it replaces them, or keeps some warm.

Sources: docs.aws.amazon.com "Instance maintenance policies", "Availability Zone rebalancing" (10 %, or one machine),
"Warm pools" (MaxGroupPreparedCapacity), EKS "managed node group update phases"; cloud.google.com "Node upgrade
strategies"; learn.microsoft.com "Upgrade AKS node pools" (maxSurge, in nodes or percent).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from killcheck.kube.objects import dig, items
from killcheck.text.numbers import whole

__all__ = ["of_agent_pool", "of_gke_pool", "of_node_group", "of_scaling_group", "share"]

_REBALANCED = 0.1
_WHOLE_GROUP = 100


def share(most: float, surge: float) -> float:
    """How many times its maximum a group may be: one for a group without any."""
    return (most + surge) / most if most > 0 and not math.isinf(most) else 1.0


def of_scaling_group(group: Mapping[str, Any], most: float) -> float:
    """Nodes of an Auto Scaling group beyond ``most``."""
    healthy = _number(dig(group, "InstanceMaintenancePolicy", "MaxHealthyPercentage"))
    zones = len(items(group.get("AvailabilityZones")))
    rebalanced = max(1.0, math.ceil(most * _REBALANCED)) if zones > 1 else 0.0
    warm = _number(dig(group, "WarmPoolConfiguration", "MaxGroupPreparedCapacity"))
    return max(rebalanced, math.ceil(most * max(0.0, healthy - _WHOLE_GROUP) / _WHOLE_GROUP), warm - most)


def of_node_group(group: Mapping[str, Any]) -> float:
    """Nodes of a managed node group of EKS beyond its maximum while it is updated; as it was exported."""
    said = group.get("updateConfig")
    if not isinstance(said, Mapping) or said.get("updateStrategy") == "MINIMAL":
        return 0.0
    return max(2.0 * len(items(group.get("subnets"))), _number(said.get("maxUnavailable")))


def of_gke_pool(pool: Mapping[str, Any], most: float, zones: int) -> float:
    """Nodes of a GKE pool beyond ``most`` during an upgrade."""
    said = pool.get("upgradeSettings")
    if not isinstance(said, Mapping):
        return 0.0
    return most if said.get("strategy") == "BLUE_GREEN" else _number(said.get("maxSurge")) * zones


def of_agent_pool(pool: Mapping[str, Any], most: float) -> float:
    """Nodes of an AKS pool beyond ``most`` during an upgrade."""
    said = str(dig(pool, "upgradeSettings", "maxSurge", default=""))
    part = whole(said.removesuffix("%"))
    if part is None:
        return 0.0
    return math.ceil(most * part / _WHOLE_GROUP) if said.endswith("%") else float(part)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
