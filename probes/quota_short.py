"""Quotas that the declared replicas do not fit into."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.admission import declared
from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import dig
from killcheck.kube.quantities import format_quantity, parse

__all__ = ["QuotaShort"]


class QuotaShort(Probe):
    """Off is easy; on again is not: the morning's pods are refused one by one (exceeded quota), and nobody is told."""

    id = "quota-short"
    claim = (
        "The declared replicas of what is turned off fit into their namespace's quota when they are turned on again."
    )
    remedy = "Raise the quota, or declare fewer replicas."
    severity = "warning"
    failures = (11,)
    sources = ("kubernetes plugin/pkg/admission/resourcequota", "recording 12")
    needs = ("ResourceQuota",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Quotas without scopes, in namespaces of targets: what they allow of accelerators and pods."""
        spaces = {target.namespace for target, _ in world.targets}
        for quota in world.of("ResourceQuota"):
            space = namespace_or_default(quota)
            if space not in spaces or dig(quota, "spec", "scopes") or dig(quota, "spec", "scopeSelector"):
                continue
            wanted = declared(world, space)
            for name, hard in dig(quota, "spec", "hard", default={}).items():
                if name in wanted and parse(wanted[name]) > parse(str(hard)):
                    asked = format_quantity(parse(wanted[name]))
                    message = f"allows {hard} of {name}, and the declared replicas ask for {asked}: not all come back"
                    yield self.finding(world, quota, ("spec", "hard", name), message)
