"""What every fault is: a plan, an injection through the journal, the evidence that it bit, and its healing.

A fault's undo is data in the journal; a fault has no healing code that only its own process could run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from killcheck.capabilities.offered import Capability, lacking
from killcheck.kube.client import Kube
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj
from killcheck.kube.permissions import Permission
from killcheck.kube.resources import Resource
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import KillPath, Layer, Proof
from killcheck.text import lazy_re

__all__ = [
    "SCALED",
    "Evidence",
    "Fault",
    "FaultError",
    "Mismatch",
    "Plan",
    "Unsuited",
    "none_asked",
    "none_rented",
    "none_scaled",
]


#: Kinds whose ``spec.replicas`` somebody else can write, and whose template makes their pods.
SCALED = ("Deployment", "StatefulSet")


def none_scaled(kill_path: KillPath, layer: Layer) -> str | None:
    """Why there are no replicas to be written among a layer's targets; None where there are."""
    scaled = any(target.kind in SCALED for target in kill_path.covered_by(layer))
    return None if scaled else "none of the layer's targets is a Deployment or StatefulSet"


#: What GKE and AKS label the nodes of a pool with.
_PROVIDED = lazy_re.compile(r"(cloud\.google\.com/gke-nodepool|(kubernetes\.azure\.com/)?agentpool)=")


def none_rented(kill_path: KillPath) -> str | None:
    """Why no machine can be given back or taken away: every pool is one's own; None where one may be rented.

    One's own machines are in no autoscaler's pool, stay for good (``floor``), and neither P2 nor P3 asks after them.
    """
    own = all(pool.floor and not pool.node_pool for pool in kill_path.nodes) and kill_path.nodes
    return None if not own or {Proof.P2, Proof.P3} & kill_path.proof else "every machine is one's own and stays on"


def all_provided(kill_path: KillPath) -> str | None:
    """Why nothing of Karpenter's or of AWS' means anything to its machines: every pool is GKE's or AKS' own, by the
    label that it is selected by; None where one may be another.
    """
    provided = [pool for pool in kill_path.nodes if _PROVIDED.match(pool.selector)]
    every = bool(provided) and len(provided) == len(kill_path.nodes)
    return "its node pools are the provider's own: no NodePool, no queue of notices" if every else None


def none_asked(kill_path: KillPath) -> str | None:
    """Why what becomes of machines is nobody's question: they are one's own, or neither P2 nor P3 is to be proven."""
    unasked = "neither P2 nor P3 is to be proven: what keeps a node does not touch the proof"
    return none_rented(kill_path) or (None if {Proof.P2, Proof.P3} & kill_path.proof else unasked)


class Evidence(StrEnum):
    """What shows that a fault took hold: somebody who met it. That it is in place shows nothing, so no member says so.

    :data:`TRIED` is for what a layer may well do without: a survival then says that it did.
    """

    #: The layer's own program: its words, or how it ended.
    EXECUTOR = "what the executor said, or how it ended"
    #: A request or a program's call that was answered by the fault.
    CALL = "a call that met it"
    #: The trigger that met it: nothing fired, or at another time.
    TRIGGER = "a firing that did not come, or came at another time"
    #: A controller, a kubelet, a handler, an API server or a cloud.
    OTHERS = "what a controller, a kubelet, a handler or the cloud said or did about it"
    #: The targets themselves: on again, held, working on.
    TARGETS = "what became of the targets"
    #: The drill's own try, here and now.
    TRIED = "a try that the drill made after the trigger"


class Mismatch(StrEnum):
    """What of a drill a fault is not for."""

    #: It acts through an API that is not where the layer is.
    PLACE = "place"
    #: It means nothing to a layer of this type.
    LAYER = "layer"
    #: There is nothing to act on among what the layer turns off, or in the spec.
    TARGETS = "targets"
    #: It means nothing to the layer's very executor.
    EXECUTOR = "executor"
    #: The cluster has not what it acts on.
    CAPABILITY = "capability"


class Unsuited(Struct, frozen=True):
    """That a fault is not for a drill: ``reason``, and why in words."""

    reason: Mismatch
    why: str

    @property
    def whatever_is_there(self) -> bool:
        """No other spec and no other cluster would change it: it means nothing to such a layer."""
        return self.reason in (Mismatch.PLACE, Mismatch.LAYER)

    def of(self, fault: str, layer: str, cluster: str) -> str:
        """The sentence that a person is told."""
        if self.reason is Mismatch.CAPABILITY:
            return f"{fault} cannot be injected on {cluster}: it needs {self.why}"
        return f"{fault} means nothing to {layer}: {self.why}"


class FaultError(Exception):
    """The fault cannot be injected here; one sentence for a person. The drill is inconclusive."""


class Plan(Struct, frozen=True):
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
    #: What :meth:`bitten` goes by. Whoever overrides that says this too.
    shows: ClassVar[Evidence]
    #: Rows of the failure catalogue that it reproduces.
    failures: ClassVar[tuple[int, ...]] = ()
    #: Capabilities without which it cannot be injected; none: any Kubernetes API will do.
    needs: ClassVar[tuple[Capability, ...]] = ()
    #: Another project's kind that it acts through, and that project's name: without it nothing of the sort is there.
    through: ClassVar[tuple[Resource, str] | None] = None
    #: What it costs besides the drill's own time, in a sentence; empty: nothing.
    costs: ClassVar[str] = ""
    #: Of several faults those with a lower rank are injected first: what needs a working cluster to get started (0)
    #: comes before what only changes something (1), and that before what stops the cluster from working (2).
    rank: ClassVar[int] = 1

    #: Where it bit before anything of the drill's own run began, nothing of it begins for as long as the fault stands:
    #: not even where others make room, or try again.
    bars: bool = False

    #: Whether it lets a firing succeed and holds up the next: then whether that comes is asked under it too.
    lingers: bool = False

    #: When it gave notice of a reclaim, and how many seconds that leaves; None: it gives none.
    noticed: tuple[datetime, float] | None = None

    #: Whether it can act on the drill's own copy of a container's run on a Docker Engine.
    on_docker: ClassVar[bool] = False
    #: Whether it acts on what is outside Kubernetes: a machine, its programs and timers.
    outside: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """What it needs has one of the names that there are; what it is seen by is said where that is asked.

        Raises ValueError and TypeError where it is imported.
        """
        super().__init_subclass__()
        if "bitten" in vars(cls) and not isinstance(vars(cls).get("shows"), Evidence | property):
            raise TypeError(f"fault {cls.__name__} has a bitten() of its own and does not say what it shows (Evidence)")
        # Only where a class says so itself: what it inherits is found where it would be, past a base that says nothing.
        if "needs" in vars(cls):
            cls.needs = tuple(map(Capability, cls.needs))

    @classmethod
    def settings(cls) -> dict[str, float]:
        """Its settings by name, their units at the names' ends (``lasts_s``: seconds)."""
        return {
            name: getattr(cls, name)
            for name in dir(cls)
            if name.islower() and name.endswith(_UNITS) and isinstance(getattr(cls, name), int | float)
        }

    def night(self, cron_job: Obj, after: datetime) -> datetime | None:
        """When the embedded cluster's clock must begin for this fault to mean anything; None: any night will do."""
        return None

    def unsuited(
        self,
        kill_path: KillPath,
        layer: Layer,
        *,
        cron_job: Obj | None = None,
        offered: Collection[Capability] | None = None,
    ) -> Unsuited | None:
        """Why it is not injected into a layer; None: it can be.

        ``cron_job``: the layer's, where it has been read; ``offered``: what the cluster has besides its API, where that
        is known. What is not given is not asked.
        """
        missing = () if offered is None else lacking(self.needs, offered)
        whys: dict[Mismatch, Callable[[], str | None]] = {
            Mismatch.PLACE: lambda: self._unsuited_place(layer),
            Mismatch.LAYER: lambda: self.unsuited_layer(layer),
            Mismatch.TARGETS: lambda: self.unsuited_targets(kill_path, layer),
            Mismatch.EXECUTOR: lambda: None if cron_job is None else self.unsuited_executor(layer.name, cron_job),
            Mismatch.CAPABILITY: lambda: ", ".join(one.how for one in missing),
        }
        return next((Unsuited(reason, why) for reason, ask in whys.items() if (why := ask())), None)

    def _unsuited_place(self, layer: Layer) -> str | None:
        """On a Docker Engine most faults have no API to act through."""
        if layer.container is None or self.on_docker or Capability.ENGINE in self.needs:
            return None
        return "it acts through a Kubernetes API, and a Docker Engine has none"

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Why it means nothing to a layer of this type; None: it does. Part of :meth:`unsuited`."""
        return None

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Why it finds nothing to act on among what a layer turns off, or in the spec; None: it does."""
        return None

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Why it means nothing to a layer's very executor, by its CronJob as it is; None: it does.

        A matrix leaves such a cell out and says so; a drill that asks for it all the same is inconclusive.
        """
        return None

    @classmethod
    def not_installed(cls, kube: Kube) -> str | None:
        """That what it acts :attr:`through` is not served there, a sentence; None: it is. Raises KubeError."""
        if cls.through is None:
            return None
        resource, project = cls.through
        try:
            served = any(one.plural == resource.plural for one in kube.resources(resource.api_version))
        except NotFound:
            served = False
        return None if served else f"{project} is not installed here: there is no {resource.qualified}"

    def must_be_installed(self, kube: Kube) -> None:
        """Raise FaultError where what it acts :attr:`through` is not there."""
        missing = self.not_installed(kube)
        if missing is not None:
            raise FaultError(missing)

    @abstractmethod
    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """What it will change; changes nothing. Raises FaultError where it cannot be injected honestly here."""

    @abstractmethod
    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Put it in place, every change through ``stage.journal``; returns what was changed, in words."""

    @abstractmethod
    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """What was seen of its effect; None as long as there is nothing. Asked from the trigger on until it answers.

        That it was injected, or is in place, is no evidence: something must have met it, in the way that
        :attr:`shows` says.
        """

    def belied(self, layer: LayerRun) -> str | None:
        """Why what :meth:`bitten` said shows nothing, now that the layer has turned the GPUs off; None: it stands."""
        return None

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Called at every change from the trigger to the verdict: what goes on happening (a rival) happens here.

        Every change goes through ``stage.journal``. Returns in how many seconds it wants to be called again whatever
        happens; None: at the next change.
        """
        return None

    def missed(self) -> str | None:
        """Why nothing can have met it, where it knows: a request that it was to make failed. None: nothing is known."""
        return None

    def spares(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """What it leaves as it is and the world would not, a sentence each: another layer with the same image."""
        return ()

    def leaves(self, stage: Stage) -> str | None:
        """What of it may be there still when everything is put back, in a sentence; None: nothing."""
        return None
