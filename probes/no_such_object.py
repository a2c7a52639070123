"""Executors that name what does not exist."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import World

from killcheck.kube.objects import name_of
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
        for one in world.executors:
            if one.seen is not None and one.seen.ran:
                continue  # call-refused has seen it
            for call in one.reading.writes:
                kind = _KINDS.get(call.resource)
                if kind is None or not call.name or call.namespace not in spaces or call.verb == "create":
                    continue
                if world.find(kind, call.namespace, call.name) is None:
                    there = [name_of(h.obj) for h in world.holders if h.namespace == call.namespace]
                    message = f"{call}: there is no such {kind}{did_you_mean(call.name, there)}"
                    yield self.finding(world, one.owner, command_path(one), message)


_KINDS = {
    "deployments": "Deployment",
    "statefulsets": "StatefulSet",
    "scaledobjects": "ScaledObject",
    "nodepools": "NodePool",
    "clusterqueues": "ClusterQueue",
}
