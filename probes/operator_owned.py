"""Targets that an operator puts back."""

from __future__ import annotations

import re
from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import Executor, World, namespace_or_default

from killcheck.executor.api_calls import ApiCall
from killcheck.kube.objects import Obj, annotations_of, controller_of, dig, labels_of, name_of, ref_of
from killcheck.text import lazy_re

__all__ = ["OperatorOwned"]


class OperatorOwned(Probe):
    """What scales a child is undone by the operator that owns it: the root's own replica field has to be written."""

    id = "operator-owned"
    claim = "What a layer scales is not reconciled by an owner above it."
    remedy = "Write the replica field of the owning object instead (or its suspend, paused, stop field)."
    failures = (31,)
    sources = (
        "NVIDIA/k8s-nim-operator#710",
        "kserve/kserve#6001",
        "ray-project/ray#59076",
        "argoproj/argo-rollouts#3855",
        "mortise-org/mortise#490",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """What executors write, where it has an owner or a Rollout refers to it."""
        for one in world.executors:
            for call in one.reading.writes:
                yield from self._floored(world, one, call)
                child = _written(world, call)
                if child is None:
                    continue
                owner = controller_of(child)
                if owner and owner.get("kind") != "CronJob":
                    who = f"{owner.get('kind')}/{owner.get('name')}"
                    yield self.finding(
                        world,
                        one.owner,
                        command_path(one),
                        f"{call}: {who} owns it and puts it back",
                        also=[(child, ("metadata", "ownerReferences"))],
                    )
                for rollout in world.of("Rollout"):
                    ref = dig(rollout, "spec", "workloadRef", default={})
                    if (ref.get("kind"), ref.get("name")) == (child.get("kind"), name_of(child)):
                        message = f"{call}: the pods belong to {ref_of(rollout)}, which only takes the template there"
                        yield self.finding(
                            world, one.owner, command_path(one), message, also=[(rollout, ("spec", "workloadRef"))]
                        )

    def _floored(self, world: World, one: Executor, call: ApiCall) -> Iterable[Finding]:
        """Fields of a root that its operator does not take at their word."""
        if not call.writes or call.verb.startswith("delete"):
            return
        for obj in world.of("InferenceService") if call.resource == "inferenceservices" else ():
            mode = str(annotations_of(obj).get("serving.kserve.io/deploymentMode", "")).lower()
            if _about(call, obj) and mode in ("standard", "rawdeployment") and _MINIMUM.search(call.body):
                message = f"{call} sets minReplicas: 0, which KServe does not take in {mode} mode: a pod stays"
                yield self.finding(
                    world,
                    one.owner,
                    command_path(one),
                    message,
                    also=[(obj, ("metadata", "annotations"))],
                    remedy='Annotate the InferenceService with serving.kserve.io/stop: "true", or delete it.',
                )
        for obj in world.of("RayCluster") if call.resource == "rayclusters" else ():
            scaling = dig(obj, "spec", "enableInTreeAutoscaling") is True
            floors = [
                (i, group)
                for i, group in enumerate(dig(obj, "spec", "workerGroupSpecs", default=[]))
                if group.get("minReplicas")
            ]
            if _about(call, obj) and scaling and floors and re.search(r"[\"'/]replicas\b", call.body):
                path = ("spec", "workerGroupSpecs", floors[0][0], "minReplicas")
                message = f"{call} writes replicas, which Ray's autoscaler keeps at minReplicas or above"
                yield self.finding(
                    world,
                    one.owner,
                    command_path(one),
                    message,
                    also=[(obj, path)],
                    remedy="Write spec.suspend: true, or lower minReplicas too.",
                )


def _about(call: ApiCall, obj: Obj) -> bool:
    return call.about(namespace_or_default(obj), name_of(obj), labels_of(obj))


def _written(world: World, call: ApiCall) -> Obj | None:
    """The object that a call scales or patches."""
    if call.verb not in ("patch", "update") or not call.name:
        return None
    return next(
        (
            found
            for kind, plural in _KINDS.items()
            if call.resource == plural
            for found in [world.find(kind, call.namespace, call.name)]
            if found
        ),
        None,
    )


_MINIMUM = lazy_re.compile(r"""minReplicas["']?\s*[:=]\s*["']?0""")
_KINDS = {"Deployment": "deployments", "StatefulSet": "statefulsets", "ReplicaSet": "replicasets", "Job": "jobs"}
