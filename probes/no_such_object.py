"""Executors that name what does not exist."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import dig, name_of
from killcheck.text.suggestions import did_you_mean

__all__ = ["NoSuchObject"]


class NoSuchObject(Probe):
    """A renamed Deployment: the switch gets a 404 every night, or matches nothing and is content."""

    id = "no-such-object"
    claim = "What an executor scales or deletes exists."
    remedy = "Name the object that is there now."
    failures = (39,)
    sources = ("google/cybernetic-agent-governance-engine#74",)
    needs = ("Deployment", "StatefulSet")

    def ask(self, world: World) -> Iterable[Finding]:
        """Calls with a name, on kinds that can be looked up, in namespaces where something holds GPUs."""
        spaces = {holder.namespace for holder in world.holders}
        yield from self._scalers(world, spaces)
        for one in world.executors:
            if one.seen is not None and one.seen.ran:
                continue  # call-refused has seen it
            for call in one.reading.writes:
                kind = _KINDS.get(call.resource)
                if kind is None or not call.name or call.namespace not in spaces or call.verb == "create":
                    continue
                if world.find(kind, call.namespace, call.name) is None:
                    there = [name_of(h.obj) for h in world.holders if h.namespace == call.namespace]
                    near = did_you_mean(call.name, there)
                    message = f"{call}: there is no such {kind}{near}"
                    if near or not world.incomplete:
                        yield self.finding(world, one.owner, command_path(one), message)
                    else:
                        yield self.unproven(world, one.owner, f"{message}: it may be in what was not read")

    def _scalers(self, world: World, spaces: set[str]) -> Iterable[Finding]:
        """Scalers whose scaleTargetRef is not there, beside what holds GPUs and no layer turns off: meant for that."""
        covered = {name for layer in world.kill_path.layers for name in layer.covers}
        left = {target.namespace for target in world.kill_path.targets if target.name not in covered}
        for scaler in world.of("ScaledObject", "HTTPScaledObject"):
            ref, home = dig(scaler, "spec", "scaleTargetRef", default={}), namespace_or_default(scaler)
            name, kind = str(ref.get("name") or ref.get("deployment") or ""), str(ref.get("kind") or "Deployment")
            ours = kind in ("Deployment", "StatefulSet")
            if ours and name and home in spaces & left and world.find(kind, home, name) is None:
                there = [name_of(h.obj) for h in world.holders if h.namespace == home]
                near = did_you_mean(name, there)
                said = f"scales {kind} {name}, which is not there{near}"
                if near or not world.incomplete:
                    yield self.finding(world, scaler, ("spec", "scaleTargetRef"), said)
                else:
                    yield self.unproven(world, scaler, f"{said}: it may be in what was not read")


_KINDS = {
    "deployments": "Deployment",
    "statefulsets": "StatefulSet",
    "scaledobjects": "ScaledObject",
    "nodepools": "NodePool",
    "clusterqueues": "ClusterQueue",
}
