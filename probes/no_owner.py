"""Nobody to call."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import annotations_of, labels_of

__all__ = ["NoOwner"]


class NoOwner(Probe):
    """At 3 a.m. the question is whose eight GPUs these are."""

    id = "no-owner"
    claim = "Every holder of GPUs says whose it is."
    remedy = "Label it: team, owner, or app.kubernetes.io/managed-by with a contact annotation."
    severity = "note"
    failures = (39,)
    sources = ("kubernetes.io/docs: recommended labels",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Labels and annotations of the targets."""
        for _, obj in world.targets:
            space = world.find("Namespace", "", namespace_or_default(obj)) or {}
            words = {key.rpartition("/")[2] for o in (obj, space) for key in (*labels_of(o), *annotations_of(o))}
            if not words & _OWNERS:
                yield self.finding(world, obj, ("metadata", "labels"), "no label says whose it is")


_OWNERS = frozenset(
    {"team", "owner", "owned-by", "contact", "squad", "cost-center", "costcenter", "maintainer", "oncall"}
)
