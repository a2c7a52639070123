"""A fleet that grows with its queue, and nothing that says where it stops."""

from __future__ import annotations

import math
from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.keda_floor import scales
from killcheck.probes.world import World

from killcheck.kube.gpus import claims_of, spec_devices
from killcheck.kube.objects import Obj, dig, namespace_of
from killcheck.kube.workloads import templates
from killcheck.text.numbers import whole

__all__ = ["Runaway"]

#: How far each scaler goes where it does not say. Sources: kedacore/keda apis/keda/v1alpha1 (ScaledObject, ScaledJob),
#: kedacore/http-add-on operator/apis/http/v1alpha1 (replicas.max).
_UNSAID = {"ScaledObject": 100, "ScaledJob": 100, "HTTPScaledObject": 100}
_WHERE = {
    "ScaledObject": ("spec", "maxReplicaCount"),
    "ScaledJob": ("spec", "maxReplicaCount"),
    "HTTPScaledObject": ("spec", "replicas", "max"),
}


class Runaway(Probe):
    """A queue that fills by mistake, or a poison message that is never taken off, is answered with machines."""

    id = "runaway"
    claim = "What scales GPUs up by a queue or by traffic says how far it goes."
    remedy = "State the most replicas that the budget allows (maxReplicaCount, replicas.max), and limits on the pool."
    severity = "warning"
    failures = (58,)
    sources = ("kedacore/keda apis/keda/v1alpha1/scaledobject_types.go: defaultHPAMaxReplicas",)
    needs = ("ScaledObject", "ScaledJob", "HTTPScaledObject")

    def ask(self, world: World) -> Iterable[Finding]:
        """Scalers of what holds GPUs that leave their ceiling to a default."""
        for scaler in world.of(*_WHERE):
            kind = str(scaler["kind"])
            said = dig(scaler, *_WHERE[kind])
            if said is not None:
                continue
            claims = claims_of(world.objects)
            devices = sum(
                spec_devices(template.spec, namespace_of(obj), claims, metadata=template.metadata)
                for obj in self._scaled(world, scaler)
                for template in templates(obj)
            )
            if not devices:
                continue
            most = _UNSAID[kind]
            allowed = sum(_limit(pool) for pool in world.of("NodePool"))
            bound = f"; the pools' limits are {allowed:g} GPUs" if math.isfinite(allowed) and allowed else ""
            message = f"says no maximum: up to {most} replicas, {most * devices} GPUs{bound}"
            yield self.finding(world, scaler, ("spec",), message, severity="note" if bound else "warning")

    @staticmethod
    def _scaled(world: World, scaler: Obj) -> list[Obj]:
        if scaler["kind"] == "ScaledJob":
            return [scaler]
        return [holder.obj for holder in world.holders if scales(scaler, holder.obj)]


def _limit(pool: Obj) -> float:
    said = dig(pool, "spec", "limits", default={})
    gpus = [number for name, value in said.items() if "gpu" in name and (number := whole(value)) is not None]
    return float(gpus[0]) if gpus else math.inf
