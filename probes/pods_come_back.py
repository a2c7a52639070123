"""Executors that delete what its controller makes again."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import ref_of

__all__ = ["PodsComeBack"]


class PodsComeBack(Probe):
    """A deleted pod of a Deployment, StatefulSet or Job is back in seconds, on the same GPUs."""

    id = "pods-come-back"
    claim = "No layer deletes pods that a controller makes again."
    remedy = "Scale the owner to zero, suspend or delete the Job, or hold its queue (stopPolicy: HoldAndDrain)."
    failures = (32,)
    sources = ("kubernetes-sigs/kueue#1299", "recording 30b")

    def ask(self, world: World) -> Iterable[Finding]:
        """Deletions of pods where the targets of that namespace are controllers and nothing else is written."""
        for one in world.executors:
            if any(call.resource not in ("pods", "nodes") for call in one.reading.writes):
                continue
            for call in one.reading.writes:
                if call.resource != "pods" or not call.verb.startswith("delete"):
                    continue
                owners = [
                    obj
                    for _, obj in world.targets
                    if obj.get("kind") != "Pod" and call.namespace in ("", namespace_or_default(obj))
                ]
                if owners:
                    message = f"{call}: {ref_of(owners[0])} makes its pods again at once"
                    yield self.finding(world, one.owner, command_path(one), message)
                    break
