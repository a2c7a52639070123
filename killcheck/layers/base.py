"""What every layer type is: a trigger, phases of its own, and the question whether it was this layer that acted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field

from killcheck.capabilities.cluster import Cluster
from killcheck.capabilities.programs import Programs, Ran
from killcheck.entries import Entry, Status
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig
from killcheck.kube.permissions import Permission
from killcheck.layers import unnamed_timers
from killcheck.safety.journal import Journal
from killcheck.spec.killpath import Command, KillPath, Layer
from killcheck.watch.scene import Scene
from killcheck.watch.timeline import Timeline

if TYPE_CHECKING:
    from killcheck.layers.firing import Forecast

__all__ = [
    "CONTROLLERS",
    "Explanation",
    "Hindrance",
    "LayerError",
    "LayerRun",
    "NotFired",
    "Observations",
    "Stage",
    "is_controller",
    "writer_of",
]


#: What is over sooner is not told to be waited for, in seconds.
SOON_S = 5.0
#: Field managers of controllers that write replicas: never an executor's.
CONTROLLERS = (
    "keda",
    "argocd",
    "horizontal-pod-autoscaler",
    "kube-controller-manager",
    "kueue",
    "karpenter",
    "kustomize-controller",
    "helm-controller",
    "kube-green",
    "kube-downscaler",
)


def is_controller(writer: str) -> bool:
    """Whether a field manager is a well-known controller's."""
    return any(mark in writer.lower() for mark in CONTROLLERS)


def writer_of(obj: Obj) -> str | None:
    """The field manager that last wrote ``spec.replicas``; None where managedFields do not tell."""
    found = [
        entry
        for entry in dig(obj, "metadata", "managedFields", default=[])
        if "f:replicas" in dig(entry, "fieldsV1", "f:spec", default={})
    ]
    newest = max(found, key=lambda e: str(e.get("time", "")), default=None)
    return str(newest.get("manager", "")) if newest else None


class LayerError(Exception):
    """The layer cannot be drilled as the spec has it; one sentence for a person."""


class Explanation(Struct, frozen=True):
    """Why the layer itself did not act, as only its type can know; becomes the diagnosis.

    ``lasting``: the remedy mends the kill path itself. Without it, a drill under a fault says what would have survived
    the fault instead: what is to be mended may be what the drill did.
    """

    cause: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    failures: tuple[int, ...] = ()
    lasting: bool = False


class Hindrance(StrEnum):
    """What kept a trigger that was pulled from setting anything off."""

    SUSPENDED = "suspended"
    #: The schedule or its time zone was changed, so that its slot is another.
    SLOT_MOVED = "slot moved"
    UNREADABLE = "unreadable schedule"
    #: concurrencyPolicy Forbid, and a Job that is still active then.
    STILL_ACTIVE = "still active"
    NO_JOB = "no job"
    #: A ResourceQuota leaves no room for the Job.
    QUOTA = "quota"
    #: A policy or a webhook refuses it.
    ADMISSION = "admission"
    #: A machine's own timer would not go off now.
    TIMER = "timer"


class NotFired(Struct, frozen=True):
    """That a trigger set nothing off: ``reason``, and why in words."""

    reason: Hindrance
    why: str

    def __str__(self) -> str:
        return self.why


class Observations(Struct):
    """What is known of an executor's life, kept also when its objects are gone: the diagnosis reads it.

    ``logs``, ``unread``: by pod and container, the text, and why it could not be read: such a log is not an empty one.
    """

    job: Obj | None = None
    pods: dict[str, Obj] = field(default_factory=dict)
    logs: dict[tuple[str, str], str] = field(default_factory=dict)
    unread: dict[tuple[str, str], str] = field(default_factory=dict)
    events: dict[str, Obj] = field(default_factory=dict)

    def told(self) -> dict[tuple[str, str], str]:
        """The logs as a record has them: what could not be read says so in its place."""
        return {key: f"[the log could not be read: {why}]" for key, why in self.unread.items()} | self.logs


class Stage(Struct):
    """What a layer works with during one drill."""

    cluster: Cluster
    kill_path: KillPath
    scene: Scene
    journal: Journal
    run: str
    #: Rewrites of the executor's pod template by faults that act on the drill's own copy.
    rewrites: list[Callable[[Obj], None]] = field(default_factory=list)
    #: A fault changed what the drill itself starts, and nothing that the layer's own timer starts.
    own_start_altered: bool = False
    observations: Observations = field(default_factory=Observations)
    timeline: Timeline | None = None
    #: The slot that the schedule itself is to fire at: the trigger is left to it. None: the trigger is pulled by hand.
    slot: datetime | None = None
    #: What a scaler's modelled triggers read from the trigger on; None: still what they read before it.
    reading: str | None = "0"
    #: Something is sabotaged: what began before the trigger was pulled says nothing about it.
    sabotaged: bool = False
    #: The field manager as which a fault lights targets again; empty: none does.
    rival: str = ""
    #: Told what is waited for, a sentence.
    tell: Callable[[str], None] = lambda _said: None

    @property
    def altered(self) -> bool:
        """Whether a firing of the layer's own says nothing about the fault: it did not meet it."""
        return self.own_start_altered or bool(self.rewrites)

    def wait(self, what: str, done: Callable[[], bool], within_s: float) -> bool:
        """Wait until ``done`` for ``within_s`` seconds at most; where a person waits too, say for what and until when.

        Answers what ``done`` said last.
        """
        loop = self.cluster.loop
        if not self.cluster.real or within_s <= SOON_S:
            return loop.run_until(done, within_s)
        if loop.run_until(done, SOON_S):
            return True
        now, left_s = loop.now(), within_s - SOON_S
        since, until = now - timedelta(seconds=SOON_S), now + timedelta(seconds=left_s)
        self.tell(f"waits for {what}, since {since:%H:%M:%S} and until {until:%H:%M:%S} at the latest")
        return loop.run_until(done, left_s)

    @property
    def programs(self) -> Programs:
        """What runs the spec's commands here. Raises LayerError where nothing may."""
        found = self.cluster.capabilities.programs
        if found is None:
            raise LayerError(f"the spec's commands cannot be run on {self.cluster.name}")
        return found


class LayerRun(ABC):
    """One drill of one layer."""

    #: The phases of this layer before the targets react, in order.
    own_phases: tuple[str, ...] = ()
    #: Where the trigger is a spot notice: how many seconds it leaves before the cloud takes the machine.
    notice_s: float | None = None
    #: What to do about a :meth:`flaw`.
    remedy: str = ""
    #: Whether it ever turns anything off while nobody pulls its trigger.
    acts_unasked: bool = True
    #: Whether it acts at moments of its own, and not only when a schedule fires.
    goes_on: bool = False

    def __init__(self, layer: Layer, stage: Stage) -> None:
        self.layer = layer
        self.stage = stage
        #: Its CronJob as read before the drill; empty: it has none. The Job that a drill made of it; empty: none.
        self.cron_job: Obj = {}
        self.job_name = ""
        #: How the program that the drill started has ended; None: it has not, or there is none.
        self.ran: Ran | None = None
        #: What playing further nights left open of it.
        self.later: list[Entry] = []

    @staticmethod
    @abstractmethod
    def drills(layer: Layer) -> bool:
        """Whether this is what drills a layer, by its type and by what it names; no two classes say so of one."""

    @abstractmethod
    def prepare(self) -> None:
        """Read what is needed, check that the layer can be drilled. Raises LayerError, KubeError; changes nothing."""

    @property
    def program(self) -> Obj:
        """What of Kubernetes its program is read from, for what its nights differ by; empty: there is nothing."""
        return self.cron_job

    def makes_up(self, since: datetime) -> str | None:
        """What it will do by itself, once everything is put back, for what it missed since then; None: nothing."""
        return None

    @abstractmethod
    def permissions(self) -> Sequence[Permission]:
        """What the drill of this layer needs beyond reading."""

    def commands(self) -> Sequence[Command]:
        """The programs that drilling it runs, those of its targets included."""
        targets = [c for t in self.stage.kill_path.covered_by(self.layer) for c in (t.count, t.start) if c is not None]
        items = [self.stage.kill_path.items.count] if self.stage.kill_path.items else []
        return [*targets, *items, *self.layer.commands]

    def namespaces(self) -> Sequence[str]:
        """Namespaces in which it changes something."""
        return [self.layer.ref.namespace] if self.layer.ref and self.layer.ref.namespace else []

    def before_trigger(self) -> str | None:
        """What must be so when the trigger is pulled, seen or waited for; returns what was seen, in words."""
        return None

    def remember(self) -> None:  # noqa: B027 - most change nothing else
        """Journal how to take back what the layer itself is about to change beside its targets."""

    @abstractmethod
    def trigger(self) -> str:
        """Pull the trigger through the journal; returns what was done, in words."""

    @abstractmethod
    def notice(self, change: Change, old: Obj | None, new: Obj) -> None:
        """A difference in the scene: record phases and observations."""

    @abstractmethod
    def acted(self, zero_at: datetime) -> str | None:
        """The evidence that it was this layer that brought the targets to zero at that moment; None: it was not."""

    def stand_by(self) -> None:
        """Prepare to see this layer act by itself while another one is drilled. Raises as :meth:`prepare` does."""
        self.prepare()

    def signs(self, writer: str | None) -> bool:
        """Whether a zero written by that field manager can be this layer's; an executor can sign as anything else."""
        return writer is None or not is_controller(writer)

    def also_acted(self, zero_at: datetime, since: datetime | None = None) -> str | None:
        """Evidence that the layer acted at that moment by a firing of its own that this drill did not make.

        ``since``: only by one that began from then on.
        """
        return None

    def explain(self, stuck_at: str) -> Explanation | None:
        """Why a drill that is stuck before that phase is; None: the common rules are asked."""
        return None

    def flaw(self) -> str | None:
        """What the layer did that it must not do (acted on a busy target, died in a short gap); None: nothing."""
        return None

    def doubts(self) -> Sequence[Entry]:
        """What it could not read or try and its outcome rests on, for the ledger."""
        untried = self.untried()
        own = [Entry(f"layer {self.layer.name}", Status.ASSUMED, untried)] if untried else []
        return [*own, *self.later, *unnamed_timers.entries(self.stage.kill_path)]

    def untried(self) -> str | None:
        """What a layer of its type must do as well and this drill did not try, and why; None: nothing."""
        return None

    def unproven(self) -> str | None:
        """Why this drill can prove nothing of the layer, whatever was seen; None: it can."""
        return None

    def only_node(self) -> str | None:
        """The one node that this drill is about, the pools' others may stay on; None: all of them must go."""
        return None

    def takes_s(self) -> float:
        """How long at most the layer itself is at it before everything must only hold, beyond the deadlines."""
        return 0.0

    def acts_within_s(self) -> float:
        """How long it may take at most until it acts by itself, however short the night that is watched."""
        return 0.0

    def holds_from(self) -> datetime | None:
        """From when on nothing may come back; None: the layer is not through with what it does itself."""
        return datetime.min.replace(tzinfo=UTC)

    def afterwards(self) -> Sequence[str]:
        """What else is tried once everything is proven, before anything is put back; says what was seen."""
        return ()

    def not_fired(self) -> NotFired | None:
        """Why the trigger, when it was pulled, set nothing off; None: it did, or was not pulled yet."""
        return None

    def missed(self, due: datetime) -> NotFired | None:
        """What kept the layer from firing at a slot that has passed, the one after this drill's; None: nothing did."""
        return None

    def idles_s(self) -> float | None:
        """How long what is on must have idled until a firing of its own turns it off; None: that cannot be tried."""
        return None

    def tidy(self) -> None:  # noqa: B027 - most leave nothing
        """Take away what this drill's firing left and the layer's own would not, on a cluster of this process alone."""

    def own_firing(self, since: datetime) -> Sequence[str]:
        """What a firing of its own schedule, from ``since`` on, came to: what its programs said and how they ended."""
        return ()

    def set_apart(self, *, at_any_hour: bool = False) -> tuple[Sequence[str], Sequence[Permission]]:
        """What else is changed, and needed for it, when a fault acts on the drill's own copy of the executor alone.

        ``at_any_hour``: what it may come to, whenever the drill is; else what it comes to now.
        """
        return (), ()

    def over(self) -> bool:
        """Whether the layer has finished for good without having acted (nothing more can come of it)."""
        return False

    def forecast(self) -> Forecast | None:
        """What the layer's own schedule will do, as it was before any fault; None: it has none."""
        return None

    def next_chance(self, after: datetime) -> datetime | None:
        """When this layer would act next by itself; None where it has no schedule."""
        return None

    def comes_again(self, after: datetime) -> datetime | None:
        """When it is to turn off what was put on again, after it did so once; None: that cannot be tried."""
        return self.next_chance(after)

    def late_by_s(self) -> float:
        """How much later than that they may still be on, in seconds."""
        return self.stage.kill_path.deadlines_for(self.layer).pods_gone_s
