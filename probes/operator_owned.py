"""Targets that an operator puts back."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import World

from killcheck.executor.api_calls import ApiCall
from killcheck.kube.objects import Obj, controller_of, dig, name_of, ref_of

__all__ = ["OperatorOwned"]


class OperatorOwned(Probe):
    """What scales a child is undone by the operator that owns it: the root's own replica field has to be written."""

    id = "operator-owned"
    claim = "What a layer scales is not reconciled by an owner above it."
    remedy = "Write the replica field of the owning object instead (or its suspend, paused, stop field)."
    failures = (31,)
    sources = (
        "NVIDIA/k8s-nim-operator#710", "kserve/kserve#6001", "ray-project/ray#59076", "argoproj/argo-rollouts#3855",
        "mortise-org/mortise#490")

    def ask(self, world: World) -> Iterable[Finding]:
        """What executors write, where it has an owner or a Rollout refers to it."""
        for one in world.executors:
            for call in one.reading.writes:
                child = _written(world, call)
                if child is None:
                    continue
                owner = controller_of(child)
                if owner and owner.get("kind") != "CronJob":
                    who = f"{owner.get('kind')}/{owner.get('name')}"
                    yield self.finding(
                        world, one.owner, command_path(one), f"{call}: {who} owns it and puts it back",
                        also=[(child, ("metadata", "ownerReferences"))])
                for rollout in world.of("Rollout"):
                    ref = dig(rollout, "spec", "workloadRef", default={})
                    if (ref.get("kind"), ref.get("name")) == (child.get("kind"), name_of(child)):
                        message = f"{call}: the pods belong to {ref_of(rollout)}, which only takes the template there"
                        yield self.finding(
                            world, one.owner, command_path(one), message, also=[(rollout, ("spec", "workloadRef"))])


def _written(world: World, call: ApiCall) -> Obj | None:
    """The object that a call scales or patches."""
    if call.verb not in ("patch", "update") or not call.name:
        return None
    return next(
        (found for kind, plural in _KINDS.items() if call.resource == plural
         for found in [world.find(kind, call.namespace, call.name)] if found), None)


_KINDS = {"Deployment": "deployments", "StatefulSet": "statefulsets", "ReplicaSet": "replicasets", "Job": "jobs"}
