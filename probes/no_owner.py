"""Nobody to call."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import annotations_of, dig, labels_of
from killcheck.spec.chargeback import OWNERS

__all__ = ["NoOwner"]


class NoOwner(Probe):
    """At 3 a.m. the question is whose eight GPUs these are; at the end of the month, whose bill."""

    id = "no-owner"
    claim = "Every holder of GPUs says whose it is."
    remedy = "Label it: team, owner, or app.kubernetes.io/managed-by with a contact annotation."
    severity = "note"
    failures = (39,)
    sources = ("kubernetes.io/docs: recommended labels",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Labels and annotations of the targets, their pods and their namespaces; every one that the spec asks for."""
        said = world.kill_path.chargeback
        for _, obj in world.targets:
            space = world.find("Namespace", "", namespace_or_default(obj)) or {}
            pod = dig(obj, "spec", "template", default={})
            keys = {key for one in (obj, space, pod) for key in (*labels_of(one), *annotations_of(one))}
            lacking = [label for label in said.labels if label not in keys] if said else []
            if lacking:
                yield self.finding(
                    world, obj, ("metadata", "labels"), f"lacks {', '.join(lacking)}: its bill is nobody's"
                )
            elif not {key.rpartition("/")[2] for key in keys} & OWNERS and not (said and said.labels):
                yield self.finding(world, obj, ("metadata", "labels"), "no label says whose it is")
