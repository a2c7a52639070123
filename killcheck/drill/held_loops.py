"""Loops beside a kill path in the rest of the night: played for a few rounds, and then held.

The cluster is as it was after each round, so the next would do what these did. It is told that they were held.
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, annotations_of, dig, name_of, namespace_of, ref_of
from killcheck.kube.pod_annotations import EXECUTE
from killcheck.layers.base import Stage
from killcheck.rehearsal.loops import round_s

__all__ = ["Resting"]

_GO_ON = {one.kind: one for one in (r.DEPLOYMENTS, r.STATEFULSETS, r.DAEMONSETS)}


class Resting:
    """Loops of an embedded cluster that are no layer of the path, and none of its targets."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._held: list[tuple[r.Resource, Obj]] = []

    def rounds_s(self, rounds: int) -> float:
        """How many seconds so many rounds of the slowest take; 0: there is none."""
        return max((rounds * (round_s(obj) or 0.0) for _, obj in self._running()), default=0.0)

    def hold(self) -> list[str]:
        """They do nothing from now on. Answers what is to be said of it."""
        self._held = list(self._running())
        self._say("false")
        return [f"{ref_of(obj)} ran beside it for a few rounds, and was held then" for _, obj in self._held]

    def let_go(self) -> None:
        """They are as they were; on a cluster in this process alone, of which nothing outlives the drill."""
        self._say("true")
        self._held = []

    def _say(self, runs: str) -> None:
        body = {"spec": {"template": {"metadata": {"annotations": {EXECUTE: runs}}}}}
        for resource, obj in self._held:
            self.stage.cluster.kube.patch(resource, name_of(obj), body, namespace_of(obj))

    def _running(self) -> Iterator[tuple[r.Resource, Obj]]:
        if self.stage.cluster.real:  # nobody named them
            return
        path = self.stage.kill_path
        refs = [one.workload for one in path.layers if one.workload] + [one.ref for one in path.targets if one.ref]
        own = {(ref.kind, ref.namespace, ref.name) for ref in refs}
        for obj in self.stage.cluster.inventory().objects:
            resource = _GO_ON.get(str(obj.get("kind")))
            runs = annotations_of({"metadata": dig(obj, "spec", "template", "metadata", default={})})
            if resource and runs.get(EXECUTE) == "true" and (resource.kind, namespace_of(obj), name_of(obj)) not in own:
                yield resource, obj
