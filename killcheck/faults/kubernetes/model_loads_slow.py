"""A model that takes nearly all of the time that it is given: whether what watches the container lets it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from killcheck.capabilities.offered import Capability, present
from killcheck.faults.base import Evidence, Fault, FaultError, Plan
from killcheck.faults.kubernetes.registries import images_of_targets
from killcheck.kube.http_routes import says_when_ready
from killcheck.kube.objects import Obj, condition, dig, format_time, name_of, parse_time
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import KillPath, Layer
from killcheck.watch.scene import event_time

__all__ = ["ModelLoadsSlow"]

#: How much of what the spec allows for a cold start the load takes: the rest is for node, image and start.
SHARE = 0.8


class ModelLoadsSlow(Fault):
    """Reproduces row 27's neighbour: tens of gigabytes from a network share before the first answer.

    It is within what the spec allows. A startupProbe or livenessProbe that has less patience ends the container before
    it is ready, and it begins anew: whoever asked waits for nobody.
    """

    name = "model-loads-slow"
    simulates = f"the model takes {SHARE:.0%} of the cold start that is allowed"
    family = "image"
    shows = Evidence.OTHERS
    failures = (27,)
    needs = (Capability.REGISTRY,)
    rank = 2

    def __init__(self) -> None:
        self._load_s = 0.0

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only where something is awaited, and somebody says for how long."""
        if layer.scaler is None:
            return "the layer is no scaler: nobody waits for what it turned off"
        return None if layer.cold_start_s else "the spec gives no coldStart: how long a model may load is not said"

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where the targets are pods."""
        return None if any(t.kind for t in kill_path.covered_by(layer)) else "none of its targets is in Kubernetes"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """What is in the targets' images. Raises FaultError where nobody waits for it."""
        why = self.unsuited_layer(layer.layer)
        if why is not None:
            raise FaultError(f"{self.name}: {why}")
        return Plan((self.simulates,), edits=("how long the targets' programs take to be ready",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Let what is in the targets' images load for as long; pods that are ready stay so."""
        self._load_s = SHARE * (layer.layer.cold_start_s or 0.0)
        registry = present(stage.cluster.capabilities.registry)
        done = []
        for image in images_of_targets(stage, layer):
            what, before = f"what is in {image} loads for {self._load_s:.0f} s", registry.loads_s.get(image)
            stage.journal.call(
                Capability.REGISTRY, what, ("set_load", image, self._load_s), ("set_load", image, before)
            )
            done.append(what)
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A pod that came after the last request loaded for as long, or was ended while it did."""
        if stage.timeline is None:
            return None
        since = format_time(stage.timeline.start)[:19]
        for event in stage.scene.events.values():
            message = str(event.get("message", ""))
            if message.endswith("probe, will be restarted") and event_time(event)[:19] > since:
                return f"{dig(event, 'involvedObject', 'name')}: {message}"
        targets = [target for target in stage.kill_path.covered_by(layer.layer) if target.kind]
        for pod in stage.scene.pods.values():
            if not any(stage.scene.is_of(target, pod) for target in targets):
                continue
            took_s = _loaded_s(pod, stage.timeline.start)
            if took_s is not None and (took_s + 1 >= self._load_s or not says_when_ready(pod)):
                return f"{name_of(pod)} was ready {took_s:.0f} s after it started, and loads for {self._load_s:.0f} s"
        return None


def _loaded_s(pod: Obj, since: datetime) -> float | None:
    """How long after its containers' start a pod that began later was ready; None: it is not, or was there before."""
    ready = condition(pod, "Ready") or {}
    began = [
        parse_time(at)
        for status in dig(pod, "status", "containerStatuses", default=[])
        if (at := dig(status, "state", "running", "startedAt"))
    ]
    if ready.get("status") != "True" or not began or min(began) < since:
        return None
    return (parse_time(str(ready["lastTransitionTime"])) - max(began)).total_seconds()
