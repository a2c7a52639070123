"""KEDA triggers that fail, and what KEDA does then."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.keda_floor import scales
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import Obj, condition, dig

__all__ = ["KedaTrigger"]


class KedaTrigger(Probe):
    """With a trigger that fails KEDA does not scale in; with a fallback it scales out to that."""

    id = "keda-trigger"
    claim = "A trigger that fails does not leave or bring GPUs on."
    remedy = "Renew the trigger's credentials; keep fallback.replicas at 0, and have a dead-man's switch besides."
    failures = (28,)
    sources = ("KE#1850", "kedacore/keda pkg/scaling/executor/scale_scaledobjects.go")

    def ask(self, world: World) -> Iterable[Finding]:
        """ScaledObjects whose target is one of ours."""
        for target, obj in world.targets:
            for scaler in (s for s in world.of("ScaledObject") if scales(s, obj)):
                fallback = dig(scaler, "spec", "fallback", "replicas", default=0)
                if fallback:
                    message = f"holds {target} at {fallback} whenever its trigger cannot be read"
                    yield self.finding(world, scaler, ("spec", "fallback", "replicas"), message)
                ready = condition(scaler, "Ready")
                if ready and ready.get("status") == "False":
                    message = f"is not ready ({ready.get('reason')}): it scales nothing in"
                    yield self.finding(world, scaler, ("status", "conditions"), message)
                yield from self._credentials(world, scaler)

    def _credentials(self, world: World, scaler: Obj) -> Iterable[Finding]:
        for index, trigger in enumerate(dig(scaler, "spec", "triggers", default=[])):
            ref = trigger.get("authenticationRef") or {}
            if not ref.get("name") or ref.get("kind", "TriggerAuthentication") != "TriggerAuthentication":
                continue
            namespace = namespace_or_default(scaler)
            others = any(world.in_namespace("TriggerAuthentication", namespace))
            if world.find("TriggerAuthentication", namespace, ref["name"]) is None and (
                world.knows("TriggerAuthentication") or others
            ):
                yield self.finding(
                    world,
                    scaler,
                    ("spec", "triggers", index, "authenticationRef", "name"),
                    f"TriggerAuthentication {ref['name']} does not exist: the trigger cannot be read",
                )
