"""Argo Rollouts' controller: a Rollout's ReplicaSet, as many as it asks for.

Only what turns it on and off, as argo-rollouts v1.8 does it (rollout/sync.go: ``spec.replicas`` reaches the ReplicaSet,
whatever is paused; utils/replicaset: the hash of the template in its name and labels). A rollout that goes by steps
and whose template changes is left where it is: when the old pods go is its steps' matter, and what analyses say.

Left out: steps, analyses, traffic, ``workloadRef`` (nothing is made of one).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from killcheck.embedded.controllers.revisions import template_hash
from killcheck.embedded.models.groups import Groups
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, copy, dig, name_of
from killcheck.kube.resources import Resource

__all__ = ["Rollouts"]

_HASH = "rollouts-pod-template-hash"


class Rollouts(Groups):
    """Of Rollouts."""

    name: ClassVar[str] = "argo-rollouts"
    own: ClassVar[Resource] = Resource("argoproj.io", "v1alpha1", "rollouts", "Rollout")
    made: ClassVar[Resource] = r.REPLICASETS

    def hands_off(self, obj: Obj) -> bool:
        """One whose pods are another workload's, and one in the middle of its steps."""
        if dig(obj, "spec", "template") is None:
            return True
        if not dig(obj, "spec", "strategy", "canary", "steps"):
            return False
        now = self._name(obj)
        return any(name_of(one) != now for one in self.children.values() if self.is_of(obj, one))

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """The ReplicaSet of its template."""
        template = copy(dig(obj, "spec", "template"))
        digest = {_HASH: template_hash(dig(obj, "spec", "template"), None)}
        meta = template.setdefault("metadata", {})
        meta["labels"] = {**(meta.get("labels") or {}), **digest}
        selector = copy(dig(obj, "spec", "selector", default={}))
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **digest}
        yield {
            "metadata": {"name": self._name(obj), "labels": dict(meta["labels"])},
            "spec": {"replicas": dig(obj, "spec", "replicas", default=1), "selector": selector, "template": template},
        }

    def _name(self, obj: Obj) -> str:
        return f"{name_of(obj)}-{template_hash(dig(obj, 'spec', 'template'), None)}"
