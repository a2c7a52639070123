"""A pool that takes on-demand machines where no spot is to be had: the same night, at another price."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.instances.catalogue import shipped
from killcheck.kube.objects import Obj, dig

__all__ = ["SpotFallback"]

_CAPACITY, _TYPE = "karpenter.sh/capacity-type", "node.kubernetes.io/instance-type"


class SpotFallback(Probe):
    """Karpenter takes spot first; when none is to be had it launches on-demand, and nothing moves back by itself."""

    id = "spot-fallback"
    claim = "A pool of spot machines does not fall back to on-demand ones, or somebody meant it to."
    remedy = (
        "Make two pools, the on-demand one with a lower weight and limits of its own; or state the bill under fences: "
        "maxUsdPerHour."
    )
    severity = "note"
    failures = (52,)
    sources = (
        "karpenter.sh/docs: NodePools, karpenter.sh/capacity-type (spot before on-demand)",
        "aws/karpenter-provider-aws pkg/providers/instance (getCapacityType)",
    )
    needs = ("NodePool",)

    def ask(self, world: World) -> Iterable[Finding]:
        """NodePools that name both, and what an hour of on-demand is at most."""
        for pool in world.of("NodePool"):
            for index, one in enumerate(dig(pool, "spec", "template", "spec", "requirements", default=[])):
                if one.get("key") != _CAPACITY or not _both(one):
                    continue
                bill = _dearest(pool)
                cost = f": {bill}" if bill else ""
                message = f"falls back to on-demand where no spot is to be had{cost}"
                path = (
                    "spec",
                    "template",
                    "spec",
                    "requirements",
                    index,
                    "values" if one.get("values") else "operator",
                )
                yield self.finding(world, pool, path, message)


def _both(requirement: Obj) -> bool:
    """Whether it leaves room for spot machines and for on-demand ones."""
    values, operator = set(map(str, requirement.get("values") or ())), requirement.get("operator")
    if operator == "In":
        return values >= {"spot", "on-demand"}
    return operator == "Exists" or (operator == "NotIn" and not values & {"spot", "on-demand"})


def _dearest(pool: Obj) -> str | None:
    """What a machine of the dearest type that it names is, on demand; None where types are not named or priced."""
    named = [
        str(value)
        for one in dig(pool, "spec", "template", "spec", "requirements", default=[])
        if one.get("key") == _TYPE and one.get("operator") == "In"
        for value in one.get("values") or ()
    ]
    catalogue = shipped()
    found = [(kind.usd_per_hour, kind.name) for kind in map(catalogue.get, named) if kind and kind.usd_per_hour]
    if not found:
        return None
    usd, name = max(found)
    return f"${usd:.2f} an hour for a {name}"
