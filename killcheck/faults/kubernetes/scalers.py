"""What a scaler reads, and what its first request waits for: a source that does not answer, a queue without end.

What the triggers of a modelled KEDA read is set where the drill itself says that the last request is served: nothing
else is changed. On a cluster with a KEDA of its own the source is somebody's, and is left alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from killcheck.capabilities.offered import Capability, present
from killcheck.faults.base import Evidence, Fault, FaultError, Plan
from killcheck.faults.kubernetes.registries import host_of, images_of_targets
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, condition, dig, format_time, name_of, namespace_of
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import retry
from killcheck.spec.killpath import KillPath, Layer
from killcheck.watch.scene import event_time

__all__ = ["ColdStartSlow", "QueueRunaway", "ReadingStuck", "TriggerFails", "images_of_targets"]


def _scaled_by(stage: Stage, layer: Layer) -> Obj | None:
    """The ScaledObject of a layer; an HTTPScaledObject's has its name. None: there is none."""
    ref = layer.scaler
    if ref is None:
        return None
    kube = stage.cluster.kube
    return retry(stage.cluster.loop, lambda: kube.find(r.SCALEDOBJECTS, ref.name, ref.namespace))


class _Reading(Fault):
    """What a scaler's triggers read from the trigger on."""

    shows = Evidence.OTHERS
    needs = (Capability.CONTROLLERS,)
    #: None: still what they read before.
    reading: ClassVar[str | None]

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only where a scaler turns something off."""
        return None if layer.scaler else "the layer is no scaler"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The drill's own word for the last request. Raises FaultError where it means nothing."""
        why = self.unsuited_layer(layer.layer)
        if why is not None:
            raise FaultError(f"{self.name}: {why}")
        return Plan((f"{layer.layer.scaler}: {self.simulates}",), edits=(f"the triggers of {layer.layer.scaler}",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Say it when the trigger is pulled."""
        stage.reading = self.reading
        return [f"{layer.layer.scaler}: {self.simulates}"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """What KEDA made of it."""
        scaled = _scaled_by(stage, layer.layer) if stage.timeline is not None else None
        return None if scaled is None else self.effect(stage, layer, scaled)

    @abstractmethod
    def effect(self, stage: Stage, layer: LayerRun, scaled: Obj) -> str | None:
        """What a ScaledObject shows of it; None: nothing yet."""


class TriggerFails(_Reading):
    """Reproduces row 28: Prometheus, Redis or a queue's API is gone, and KEDA neither scales in nor knows of work."""

    name = "trigger-fails"
    simulates = "what its triggers ask does not answer"
    family = "orchestrator"
    failures = (28,)
    reading = "error"

    def effect(self, stage: Stage, layer: LayerRun, scaled: Obj) -> str | None:
        """KEDA says that it cannot read it."""
        ready = condition(scaled, "Ready") or {}
        if ready.get("status") != "False":
            return None
        return f"ScaledObject {namespace_of(scaled)}/{name_of(scaled)}: {ready.get('reason')}: {ready.get('message')}"


class ReadingStuck(_Reading):
    """Reproduces row 40: an exporter that is stuck at its last value, a monitor whose requests count."""

    name = "reading-stuck"
    simulates = "what its triggers read never falls: a stale series, a monitor's own requests"
    family = "rivals"
    failures = (40,)
    reading = None
    _looks = False

    def effect(self, stage: Stage, layer: LayerRun, scaled: Obj) -> str | None:
        """It is active still when it should have been idle for long enough."""
        active = condition(scaled, "Active") or {}
        idle = (stage.cluster.loop.now() - stage.timeline.start).total_seconds() if stage.timeline else 0.0
        if active.get("status") != "True" or idle < (layer.layer.idle_s or 0.0):
            return None
        what = f"ScaledObject {namespace_of(scaled)}/{name_of(scaled)}"
        return f"{what}: {active.get('reason')} {idle:.0f} s after the last request"

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Look again when it should have been idle: that it goes on shows in no change."""
        if self._looks or stage.timeline is None:
            return None
        self._looks = True
        return (layer.layer.idle_s or 0.0) + 0.1


class QueueRunaway(_Reading):
    """Reproduces row 58's neighbour: a producer gone wild, or messages that nobody takes off, and a fleet that grows.

    It goes as far as the scaler's ceiling; what that costs is in the drill's dollars.
    """

    name = "queue-runaway"
    simulates = "the queue has a million items more, and never falls"
    family = "rivals"
    failures = (58, 40)
    costs = "targets at their ceiling, as long as the drill lasts"
    reading = "1000000"

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only where work waits somewhere."""
        http = layer.scaler is not None and layer.scaler.kind == "HTTPScaledObject"
        return super().unsuited_layer(layer) or ("it counts requests: there is no queue" if http else None)

    def effect(self, stage: Stage, layer: LayerRun, scaled: Obj) -> str | None:
        """The autoscaler that KEDA made wants as many as it may have."""
        kube, name = stage.cluster.kube, str(dig(scaled, "status", "hpaName", default=""))
        hpa = retry(stage.cluster.loop, lambda: kube.find(r.HPAS, name, namespace_of(scaled))) if name else None
        most, wanted = dig(hpa or {}, "spec", "maxReplicas"), dig(hpa or {}, "status", "desiredReplicas")
        limited = (condition(hpa or {}, "ScalingLimited") or {}).get("reason") == "TooManyReplicas"
        if not limited or wanted is None or wanted < most:
            return None
        return f"HorizontalPodAutoscaler {namespace_of(scaled)}/{name} wants {wanted} replica(s), and may have no more"


class ColdStartSlow(Fault):
    """Reproduces row 5 for what wakes: the copy on the node is gone, and the registry is slow for a large image.

    Who waits for the first answer has a limit: the spec's, or the interceptor's own.
    """

    name = "cold-start-slow"
    simulates = "the target's image is on no node any more, and its registry is slow"
    family = "image"
    shows = Evidence.OTHERS
    failures = (5,)
    needs = (Capability.REGISTRY,)
    rank = 2

    def __init__(self) -> None:
        #: What was evicted.
        self._images: list[str] = []

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only where something is awaited."""
        if layer.scaler is None:
            return "the layer is no scaler: nobody waits for what it turned off"
        if layer.cold_start_s is None and layer.scaler.kind != "HTTPScaledObject":
            return "nobody waits for the first pod: the spec gives no coldStart"
        return None

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where the targets are pods."""
        return None if any(t.kind for t in kill_path.covered_by(layer)) else "none of its targets is in Kubernetes"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The nodes' copies, and the registries."""
        return Plan((self.simulates,), edits=("caches of the nodes", "registries of the targets"))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Evict what the targets run, and slow its registries down."""
        registry = present(stage.cluster.capabilities.registry)
        self._images = list(images_of_targets(stage, layer))
        done = []
        for image in self._images:
            host = host_of(image)
            what = f"registry {host}: slow"
            before = registry.host(host).state
            if before != "slow":
                stage.journal.call(Capability.REGISTRY, what, ("set_state", host, "slow"), ("set_state", host, before))
                done.append(what)
            for node, cache in list(registry.caches.items()):
                had = dict(cache.images)
                what = f"evicted {image} from {node}"
                with stage.journal.acting_on(Capability.REGISTRY, what, ("restore_cache", node, had)):
                    if cache.evict(image):
                        done.append(what)
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A pod that came after the last request pulled what it lacked."""
        if stage.timeline is None:
            return None
        since = format_time(stage.timeline.start)
        pulled = tuple(f'Successfully pulled image "{one}"' for one in self._images)
        for event in stage.scene.events.values():
            message = str(event.get("message", ""))
            if pulled and message.startswith(pulled) and event_time(event)[:19] > since[:19]:
                return f"{dig(event, 'involvedObject', 'name')}: {message[:300]}"
        return None
