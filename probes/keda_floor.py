"""KEDA scalers that light again what a layer put out."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.world import Executor, World, namespace_or_default

from killcheck.kube.objects import Obj, annotations_of, dig, name_of
from killcheck.kube.plurals import plural_of
from killcheck.spec.killpath import Target
from killcheck.text import lazy_re

__all__ = ["KedaFloor", "scales"]

#: The annotation that pauses a ScaledObject where it is, as commands and patches write it.
_PAUSED = lazy_re.compile(r"autoscaling\.keda\.sh/paused[\"'\\]*\s*[=:]\s*[\"'\\]*true\b")
#: A floor of zero, as commands and patches write it.
_LOWERED = lazy_re.compile(r"(?:min|idle)ReplicaCount[\"'\\]*\s*[=:]\s*[\"'\\]*0\b")


class KedaFloor(Probe):
    """KEDA restores minReplicaCount within seconds; ``paused`` alone keeps the pods that run."""

    id = "keda-floor"
    claim = "No ScaledObject brings a target back after a layer scaled it to zero."
    remedy = (
        'Set minReplicaCount: 0, or let the layer set the annotation autoscaling.keda.sh/paused-replicas: "0" instead '
        "of scaling."
    )
    failures = (27,)
    sources = ("KE#5570", "KE#5165", "kedacore/keda pkg/scaling/executor/scale_scaledobjects.go")

    def ask(self, world: World) -> Iterable[Finding]:
        """ScaledObjects whose scaleTargetRef is a target."""
        for target, obj in world.targets:
            for scaler in world.of("ScaledObject", "HTTPScaledObject"):
                if scales(scaler, obj) and not _is_stopped_too(world, target, obj, scaler):
                    yield from self._about(world, scaler, str(target), bool(world.zeroes(target)))

    def _about(self, world: World, scaler: Obj, target: str, others: bool) -> Iterable[Finding]:
        paused = annotations_of(scaler).get("autoscaling.keda.sh/paused-replicas")
        pause_path = ("metadata", "annotations", "autoscaling.keda.sh/paused-replicas")
        http = scaler.get("kind") == "HTTPScaledObject"
        path = ("spec", "replicas", "min") if http else ("spec", "minReplicaCount")
        idle = None if http else dig(scaler, "spec", "idleReplicaCount")
        floor = int(dig(scaler, *path, default=0) if idle is None else idle)
        if paused is not None and paused != "0":
            message = f"paused at {paused} replicas: {target} is kept there for good"
            yield self.finding(world, scaler, pause_path, message)
        elif annotations_of(scaler).get("autoscaling.keda.sh/paused") == "true" and paused is None:
            message = f"paused without paused-replicas: the pods of {target} that run go on running"
            yield self.finding(
                world,
                scaler,
                ("metadata", "annotations", "autoscaling.keda.sh/paused"),
                message,
                remedy='Set the annotation autoscaling.keda.sh/paused-replicas: "0", or unpause it.',
            )
        elif floor and paused is None:
            undone = "a scale to zero is undone within seconds" if others else "it never reaches zero"
            yield self.finding(
                world,
                scaler,
                path,
                f"keeps at least {floor} of {target}: {undone}",
                patch="" if http else merge_patch(scaler, {"spec": {"minReplicaCount": 0}}),
            )


def _is_stopped_too(world: World, target: Target, obj: Obj, scaler: Obj) -> bool:
    """Whether each layer that turns a target off pauses, lowers or deletes its scaler, or was seen to work."""
    layers = world.zeroes(target)
    acting = [one for one in world.layer_executors if one.layer in layers]
    return bool(layers) and len(acting) == len(layers) and all(_stops(one, obj, scaler) for one in acting)


def _stops(one: Executor, obj: Obj, scaler: Obj) -> bool:
    if one.seen is not None and one.seen.ran:
        key = (obj.get("kind"), namespace_or_default(obj), name_of(obj))
        return key in [(change.kind, change.namespace, change.name) for change in one.seen.first.off]
    written = "autoscaling.keda.sh/paused-replicas" in one.text or _LOWERED.search(one.text) is not None
    return any(
        (call.resource, call.name) == (plural_of(str(scaler.get("kind"))), name_of(scaler))
        and (call.verb == "delete" or written or _pauses_and_scales(one, obj))
        for call in one.reading.writes
    )


def _pauses_and_scales(one: Executor, obj: Obj) -> bool:
    """Whether a program pauses KEDA, which leaves what runs alone, and scales the target to zero itself."""
    named = (plural_of(str(obj.get("kind"))), name_of(obj))
    zero = any(call.replicas == 0 and (call.resource, call.name) == named for call in one.reading.writes)
    return zero and _PAUSED.search(one.text) is not None


def scales(scaler: Obj, obj: Obj) -> bool:
    """Whether a scaler's scaleTargetRef is ``obj``."""
    ref = dig(scaler, "spec", "scaleTargetRef", default={})
    name, kind = ref.get("name") or ref.get("deployment"), ref.get("kind") or "Deployment"
    same = namespace_or_default(scaler) == namespace_or_default(obj)
    return same and (kind, name) == (obj.get("kind"), name_of(obj))
