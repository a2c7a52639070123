"""Somebody lights again what was turned off: an operator that owns the field, a starter that nobody told.

Both are played by this process, through the API, as what they stand for would do it; so they end with it. Every write
puts back what was there before the drill: undone, there is nothing to be undone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import ClassVar

from killcheck.faults.base import SCALED, Evidence, Fault, FaultError, Plan, none_scaled
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, ref_of, uid_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.changes import Undo
from killcheck.safety.undo import retry
from killcheck.spec.killpath import KillPath, Layer, Proof, Target

__all__ = ["RivalOperator", "SecondStarter"]


class _Relighting(Fault):
    """Writes the targets' replicas back."""

    family = "rivals"
    costs = "the targets start anew in the middle of the drill"
    #: How it signs its writes.
    manager: ClassVar[str]
    shows = Evidence.TARGETS

    def __init__(self) -> None:
        self._on: dict[tuple[str, str, str], int] = {}
        self._relit: str | None = None

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Wherever a layer turns something off."""
        return None if layer.covers else "the layer turns nothing off that could be lit again"

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where there are replicas to be written."""
        return none_scaled(kill_path, layer)

    @staticmethod
    def _targets(stage: Stage, layer: LayerRun) -> list[Target]:
        return [t for t in stage.kill_path.covered_by(layer.layer) if t.kind in SCALED]

    def _objects(self, stage: Stage, layer: LayerRun) -> Iterator[tuple[Target, Obj]]:
        for target in self._targets(stage, layer):
            for obj in stage.scene.objects_of(target):
                yield target, obj

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The targets are scaled up once more after they have gone to zero."""
        targets = self._targets(stage, layer)
        if not targets:
            raise FaultError("none of the layer's targets is a Deployment or StatefulSet, whose replicas could be set")
        verbs = [
            Permission(verb, "apps", f"{target.kind.lower()}s", "", target.namespace, target.object)
            for target in targets
            for verb in ("get", "patch")
        ]
        return Plan(
            tuple(f"{target}: {self.simulates}" for target in targets),
            namespaces=tuple(sorted({target.namespace for target in targets})),
            permissions=tuple(verbs),
            edits=tuple(f"{target}.spec.replicas" for target in targets),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Remember what is on."""
        self._on = {
            self._key(obj): int(dig(obj, "spec", "replicas", default=0))
            for _, obj in self._objects(stage, layer)
            if dig(obj, "spec", "replicas")
        }
        return [f"{self.manager} watches {'/'.join(part for part in key if part)}" for key in self._on]

    @staticmethod
    def _key(obj: Obj) -> tuple[str, str, str]:
        return str(obj.get("kind")), namespace_of(obj), name_of(obj)

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """It lit a target again that had been at zero."""
        return self._relit

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Light again what is at zero, when it is time to."""
        wait_s = self.wait_s(stage)
        if wait_s != 0.0:
            return wait_s
        for target, obj in self._objects(stage, layer):
            wanted = self._on.get(self._key(obj), 0)
            if wanted and not dig(obj, "spec", "replicas"):
                self._light(stage, target, obj, wanted)
        return None

    @abstractmethod
    def wait_s(self, stage: Stage) -> float | None:
        """Seconds until it acts; 0: now; None: not before something else happens."""

    def _light(self, stage: Stage, target: Target, obj: Obj, wanted: int) -> None:
        resource = stage.scene.resource_of(target)
        path = resource.path(namespace_of(obj), name_of(obj))
        body = {"spec": {"replicas": wanted}}
        what = f"{self.manager} set {ref_of(obj)} to {wanted} replica(s), as it was"
        manual = f"kubectl scale {resource.qualified} {name_of(obj)} -n {namespace_of(obj)} --replicas={wanted}"
        # What it writes is as it was: a target that was on is the drill's own to put back.
        undo = Undo("merge", path, {}, uid_of(obj), {}, manual)

        def write() -> None:
            """Light it; what has gone meanwhile is left."""
            try:
                stage.cluster.kube.call(
                    "PATCH",
                    path,
                    query={"fieldManager": self.manager},
                    body=body,
                    headers={"content-type": "application/merge-patch+json"},
                )
            except NotFound:
                return

        with stage.journal.change(what, undo):
            retry(stage.cluster.loop, write)
        stage.rival = self.manager
        self._relit = self._relit or f"{what}, at {stage.cluster.loop.now():%H:%M:%S}"


class RivalOperator(_Relighting):
    """Reproduces row 31: the replicas belong to a custom resource, and its operator sets them whenever they differ."""

    name = "rival-operator"
    simulates = "an operator owns the target's replicas and sets them back whenever they differ"
    failures = (31,)
    manager = "killcheck-operator"

    def wait_s(self, stage: Stage) -> float | None:
        """Operators reconcile at once."""
        return 0.0


class SecondStarter(_Relighting):
    """Reproduces rows 34 and 55: a second starter - a downscaler's uptime, a morning's CI - lights what is off."""

    name = "second-starter"
    simulates = "a second starter, which nobody told, starts the target again after it has gone off"
    failures = (34, 55)
    manager = "killcheck-starter"

    #: How long after the last GPU pod has gone it starts, in seconds; at most half of the time that it has to hold.
    after_s: ClassVar[float] = 60.0

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where somebody watches whether it holds."""
        unwatched = "P4 is not to be proven: nobody watches whether they stay off"
        return super().unsuited_targets(kill_path, layer) or (None if Proof.P4 in kill_path.proof else unwatched)

    def wait_s(self, stage: Stage) -> float | None:
        """Once, a while after everything has gone."""
        if self._relit or stage.timeline is None:
            return None
        gone = stage.timeline.reached.get("pods_gone")
        if gone is None:
            return None
        after_s = min(self.after_s, stage.timeline.deadlines["held"] / 2)
        left = (gone.observed + timedelta(seconds=after_s) - stage.cluster.loop.now()).total_seconds()
        return max(0.0, left)
