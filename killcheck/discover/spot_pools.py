"""Karpenter's pools that buy on the spot market alone, and the workloads that can be nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.instances.requirements import RequirementError, Requirements
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.kube.workloads import templates

__all__ = ["is_spot", "lands_only_on"]

#: Labels that nodes of Karpenter carry whether or not their pool says so.
_WELL_KNOWN = frozenset(
    {
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "kubernetes.io/hostname",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "karpenter.sh/capacity-type",
        "karpenter.sh/nodepool",
        *(
            f"karpenter.k8s.aws/instance-{part}"
            for part in (
                "category",
                "family",
                "generation",
                "size",
                "cpu",
                "memory",
                "gpu-name",
                "gpu-manufacturer",
                "gpu-count",
                "gpu-memory",
                "accelerator-name",
                "accelerator-manufacturer",
                "accelerator-count",
            )
        ),
    }
)


def is_spot(pool: Obj) -> bool:
    """Whether a Karpenter pool buys nothing but spot."""
    return any(
        r.get("key") == "karpenter.sh/capacity-type" and r.get("operator") == "In" and r.get("values") == ["spot"]
        for r in dig(pool, "spec", "template", "spec", "requirements", default=[])
    )


def lands_only_on(workload: Obj, some: Sequence[Obj], every: Sequence[Obj]) -> bool:
    """Whether pods of a workload can be on some of these Karpenter pools, and on no other."""
    found = [pool for pool in every if any(_can_land(t.spec, pool) for t in templates(workload))]
    return bool(found) and all(pool in some for pool in found)


def _can_land(spec: Obj, pool: Obj) -> bool:
    """By the pool's taints, the labels it is known to give, and what its requirements allow."""
    from killcheck.embedded import alternatives, tolerates

    template = dig(pool, "spec", "template", default={})
    if tolerates(spec, dig(template, "spec", "taints", default=[])) is not None:
        return False
    labels = {**dig(template, "metadata", "labels", default={}), "karpenter.sh/nodepool": name_of(pool)}
    try:
        offered = Requirements.of(dig(template, "spec", "requirements", default=[]), labels)
        return any(
            not offered.conflicts(wanted) and not offered.undefined(wanted, _WELL_KNOWN)
            for wanted in alternatives(spec)
        )
    except RequirementError:
        return True
