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
        self._own_held: list[tuple[r.Resource, Obj]] = []

    def rounds_s(self, rounds: int) -> float:
        """How many seconds so many rounds of the slowest take; 0: there is none."""
        return max((rounds * (round_s(obj) or 0.0) for _, obj in self._running()), default=0.0)

    def hold(self) -> list[str]:
        """They do nothing from now on. Answers what is to be said of it."""
        self._held = list(self._running())
        self._say("false", self._held)
        return [f"{ref_of(obj)} ran beside it for a few rounds, and was held then" for _, obj in self._held]

    def let_go(self) -> None:
        """They are as they were; on a cluster in this process alone, of which nothing outlives the drill."""
        self._say("true", self._held)
        self._held = []
        self.let_own_go()

    def hold_own(self) -> None:
        """The layers' own do nothing for a while: of the days between two that are tried nobody asks."""
        if not self._own_held:
            self._own_held = list(self._running(own=True))
            self._say("false", self._own_held)

    def let_own_go(self) -> None:
        """...and begin anew."""
        self._say("true", self._own_held)
        self._own_held = []

    def _say(self, runs: str, held: list[tuple[r.Resource, Obj]]) -> None:
        body = {"spec": {"template": {"metadata": {"annotations": {EXECUTE: runs}}}}}
        for resource, obj in held:
            self.stage.cluster.kube.patch(resource, name_of(obj), body, namespace_of(obj))

    def _running(self, *, own: bool = False) -> Iterator[tuple[r.Resource, Obj]]:
        """Those that run their programs: what is no part of the path, or the workloads that its layers are."""
        if self.stage.cluster.real:  # nobody named them
            return
        path = self.stage.kill_path
        layers = {(ref.kind, ref.namespace, ref.name) for ref in (one.workload for one in path.layers) if ref}
        parts = layers | {(ref.kind, ref.namespace, ref.name) for ref in (one.ref for one in path.targets) if ref}
        for obj in self.stage.cluster.inventory().objects:
            resource = _GO_ON.get(str(obj.get("kind")))
            runs = annotations_of({"metadata": dig(obj, "spec", "template", "metadata", default={})})
            if resource is None or runs.get(EXECUTE) != "true":
                continue
            key = resource.kind, namespace_of(obj), name_of(obj)
            if key in layers if own else key not in parts:
                yield resource, obj
