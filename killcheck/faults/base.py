"""What every fault is: a plan, an injection through the journal, the evidence that it bit, and its healing.

A fault's undo is data in the journal; a fault has no healing code that only its own process could run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from killcheck.capabilities.offered import Capability
from killcheck.kube.objects import Obj
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import KillPath, Layer, Proof

__all__ = ["SCALED", "Fault", "FaultError", "Plan", "none_asked", "none_rented", "none_scaled"]


#: Kinds whose ``spec.replicas`` somebody else can write, and whose template makes their pods.
SCALED = ("Deployment", "StatefulSet")


def none_scaled(kill_path: KillPath, layer: Layer) -> str:
    """Why there are no replicas to be written among a layer's targets; empty where there are."""
    scaled = any(target.kind in SCALED for target in kill_path.covered_by(layer))
    return "" if scaled else "none of the layer's targets is a Deployment or StatefulSet"


def none_rented(kill_path: KillPath) -> str:
    """Why no machine can be given back or taken away: every pool is one's own; empty where one may be rented.

    One's own machines are in no autoscaler's pool, stay for good (``floor``), and neither P2 nor P3 asks after them.
    """
    own = all(pool.floor and not pool.node_pool for pool in kill_path.nodes) and kill_path.nodes
    return "" if not own or {Proof.P2, Proof.P3} & kill_path.proof else "every machine is one's own and stays on"


def none_asked(kill_path: KillPath) -> str:
    """Why what becomes of machines is nobody's question: they are one's own, or neither P2 nor P3 is to be proven."""
    unasked = "neither P2 nor P3 is to be proven: what keeps a node does not touch the proof"
    return none_rented(kill_path) or ("" if {Proof.P2, Proof.P3} & kill_path.proof else unasked)


class FaultError(Exception):
    """The fault cannot be injected here; one sentence for a person. The drill is inconclusive."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a fault will change, before anything happens.

    ``changes``: one sentence each. ``namespaces``: where it changes something that exists (the drill's own Job is not
    that), and so needs consent. ``permissions``: verbs beyond reading. ``edits``: the fields that it sets, each as a
    path (``CronJob inference/off.spec.suspend``): two faults that set the same field, or one a part of the other's,
    cannot be told apart and are refused together.
    """

    changes: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    permissions: tuple[Permission, ...] = ()
    edits: tuple[str, ...] = ()

    @property
    def on_copy(self) -> bool:
        """Whether it reaches the drill's own copy of the executor's Job alone, and no firing of the schedule's own."""
        return any(edit != COPY and edit.startswith(COPY) for edit in self.edits)


#: What faults that rewrite the drill's own copy of the executor's Job set, as the path of an edit.
COPY = "the drill's Job"

#: Units in which settings of faults are given: the last part of their names.
_UNITS = ("_s", "_count", "_cpus")


class Fault(ABC):
    """One reversible sabotage of something that a layer depends on."""

    #: As ``--under`` takes it.
    name: ClassVar[str]
    #: What happens in the world, in a sentence.
    simulates: ClassVar[str]
    #: The family of DESIGN's table: image, credentials, network, spot, orchestrator, schedule, admission, rivals,
    #: drain.
    family: ClassVar[str]
    #: Rows of the failure catalogue that it reproduces.
    failures: ClassVar[tuple[int, ...]] = ()
    #: Capabilities without which it cannot be injected; none: any Kubernetes API will do.
    needs: ClassVar[tuple[Capability, ...]] = ()
    #: What it costs besides the drill's own time, in a sentence; empty: nothing.
    costs: ClassVar[str] = ""
    #: Of several faults those with a lower rank are injected first: what needs a working cluster to get started (0)
    #: comes before what only changes something (1), and that before what stops the cluster from working (2).
    rank: ClassVar[int] = 1

    #: When it gave notice of a reclaim, and how many seconds that leaves; None: it gives none.
    noticed: tuple[datetime, float] | None = None

    #: Whether it can act on the drill's own copy of a container's run on a Docker Engine.
    on_docker: ClassVar[bool] = False
    #: Whether it acts on what is outside Kubernetes: a machine, its programs and timers.
    outside: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """What it needs has one of the names that there are. Raises ValueError where it is imported."""
        super().__init_subclass__()
        cls.needs = tuple(map(Capability, cls.needs))

    @classmethod
    def settings(cls) -> dict[str, float]:
        """Its settings by name, their units at the names' ends (``lasts_s``: seconds)."""
        return {
            name: getattr(cls, name)
            for name in dir(cls)
            if name.islower() and name.endswith(_UNITS) and isinstance(getattr(cls, name), int | float)
        }

    def misplaced(self, layer: Layer) -> str:
        """Why it cannot act where the layer is: on a Docker Engine most faults have no API to act through."""
        if layer.container is None or self.on_docker or Capability.ENGINE in self.needs:
            return ""
        return "it acts through a Kubernetes API, and a Docker Engine has none"

    def night(self, cron_job: Obj, after: datetime) -> datetime | None:
        """When the embedded cluster's clock must begin for this fault to mean anything; None: any night will do."""
        return None

    def applies(self, layer: Layer) -> str:
        """Why this fault means nothing to a layer; empty where it applies."""
        return ""

    def pointless(self, kill_path: KillPath, layer: Layer) -> str:
        """Why this fault finds nothing to act on among what a layer turns off; empty where it does."""
        return ""

    def unneeded(self, layer_name: str, cron_job: Obj) -> str:
        """Why it means nothing to a layer's very executor, by its CronJob as it is; empty where it does.

        A matrix leaves such a cell out and says so; a drill that asks for it all the same is inconclusive.
        """
        return ""

    @abstractmethod
    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """What it will change; changes nothing. Raises FaultError where it cannot be injected honestly here."""

    @abstractmethod
    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Put it in place, every change through ``stage.journal``; returns what was changed, in words."""

    @abstractmethod
    def bitten(self, stage: Stage, layer: LayerRun) -> str:
        """The evidence that it took hold; empty as long as there is none. Asked at every change until it answers."""

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Called at every change from the trigger to the verdict: what goes on happening (a rival) happens here.

        Every change goes through ``stage.journal``. Returns in how many seconds it wants to be called again whatever
        happens; None: at the next change.
        """
        return None

    def leaves(self, stage: Stage) -> str:
        """What of it may be there still when everything is put back, in a sentence; empty: nothing."""
        return ""
