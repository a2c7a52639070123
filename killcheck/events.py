"""What happens in a run, as one stream of typed events: the drill emits, everything else consumes.

The run record is these events as JSON lines; terminal, HTML, JUnit, Allure and Prometheus are made from them alone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct, field, structs

from killcheck.kube.objects import format_time, parse_time

__all__ = [
    "Diagnosed",
    "DrillFinished",
    "DrillStarted",
    "Event",
    "FaultBitten",
    "FaultHealed",
    "FaultInjected",
    "Fenced",
    "Found",
    "Healed",
    "Judged",
    "LedgerKept",
    "LogTaken",
    "Noted",
    "ObjectChanged",
    "PhaseLost",
    "PhaseReached",
    "RunFinished",
    "RunStarted",
    "Said",
    "Sampled",
    "Sink",
    "Snapshot",
    "SteadyState",
    "Subjects",
    "Triggered",
    "from_json",
]

_KINDS: dict[str, type[Event]] = {}


class Event(Struct, frozen=True, kw_only=True):
    """``at``: the cluster's time (UTC); ``drill``: the drill it belongs to, empty for the run itself."""

    kind: ClassVar[str] = ""
    at: Annotated[datetime, Meta(tz=True)]
    drill: str = ""

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__
        _KINDS[cls.kind] = cls

    def to_json(self) -> dict[str, Any]:
        """A JSON object; :func:`from_json` reads it back."""
        data = structs.asdict(self) | {"at": format_time(self.at, micro=True)}
        return {"event": self.kind, **data}


Sink = Callable[[Event], None]


def from_json(data: dict[str, Any]) -> Event | None:
    """The event that :meth:`Event.to_json` wrote; None for a kind that this version does not know.

    Raises ValueError where it has no time, or a field that there must be is missing; of what types the others are is
    for whoever reads.
    """
    cls = _KINDS.get(str(data.get("event")))
    if cls is None:
        return None
    known = set(cls.__struct_fields__)
    values = {key: value for key, value in data.items() if key in known}
    try:
        values["at"] = parse_time(str(values["at"]))
        return cls(**values)
    except (KeyError, TypeError):
        missing = [one.name for one in structs.fields(cls) if one.required and one.name not in values]
        raise ValueError(f"{cls.__name__} has no {', '.join(missing)}") from None
    except ValueError:
        raise ValueError(f"{cls.__name__}: at is no time such as 2026-01-31T20:00:00Z") from None


class RunStarted(Event, frozen=True, kw_only=True):
    """A run begins: what, on which cluster, with which spec."""

    run: str
    version: str
    cluster: str
    real: bool
    kill_path: str
    drills: list[dict[str, Any]] = field(default_factory=list)
    spec: dict[str, Any] = field(default_factory=dict)


class Snapshot(Event, frozen=True, kw_only=True):
    """What was there around the drills, of the run: by object, its fields as a person would compare them.

    A field's value is what it says where that is short, else a digest of it. Secrets and what comes and goes by itself
    (pods, events, leases, nodes) are not in it.
    """

    objects: dict[str, dict[str, str]]


class Subjects(Event, frozen=True, kw_only=True):
    """What the drills of the run are of, as digests (``sha256:`` and 64 digits) of what is said, not how it is written.

    ``spec``: of the spec, empty where there is none. ``objects``: of every object of the manifests, by its ref.
    ``unread``: of files that could not be read. ``images``: what the layers' executors run, as it is written.
    ``withheld``: objects, Secrets aside, that hold values which are not in their digests.
    """

    spec: str = ""
    objects: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)


class DrillStarted(Event, frozen=True, kw_only=True):
    """A drill begins; deadlines are seconds after the trigger."""

    layer: str
    layer_type: str
    faults: list[str]
    deadlines: dict[str, float]
    proof: list[str]
    title: str = ""


class SteadyState(Event, frozen=True, kw_only=True):
    """The GPUs are on: what is at stake."""

    gpu_pods: list[str]
    nodes: list[str]
    devices: int
    usd_per_hour: float | None
    replicas: dict[str, int]
    #: The extended resources that the pods hold.
    resources: list[str] = field(default_factory=list)


class FaultInjected(Event, frozen=True, kw_only=True):
    """A fault was put in place; ``changes`` says what was changed, object by object."""

    fault: str
    changes: list[str]


class FaultBitten(Event, frozen=True, kw_only=True):
    """The evidence that a fault took hold."""

    fault: str
    evidence: str


class FaultHealed(Event, frozen=True, kw_only=True):
    """A fault was undone (``problem`` empty) or could not be."""

    fault: str
    problem: str = ""


class Triggered(Event, frozen=True, kw_only=True):
    """The layer's trigger was pulled: time zero of the drill. ``phases``: those that it goes through, in order."""

    how: str
    phases: list[str] = field(default_factory=list)


class PhaseReached(Event, frozen=True, kw_only=True):
    """A phase of the timeline; ``at_s`` seconds after the trigger by the API's own timestamps where there are any.

    ``margin_s``: where the trigger is a spot notice, what was left of it then; negative after the reclaim.
    """

    phase: str
    at_s: float
    observed_s: float
    deadline_s: float | None
    evidence: str
    margin_s: float | None = None


class PhaseLost(Event, frozen=True, kw_only=True):
    """A phase that had been reached no longer holds: something scaled back."""

    phase: str
    why: str


class Sampled(Event, frozen=True, kw_only=True):
    """How things stand, at every change: GPUs on, nodes, dollars so far (None: a price is unknown)."""

    gpu_pods: int
    nodes: int
    replicas: int
    usd: float | None


class Said(Event, frozen=True, kw_only=True):
    """A Kubernetes event about an object on the kill path."""

    object: str
    type: str
    reason: str
    message: str
    count: int = 1
    component: str = ""


class ObjectChanged(Event, frozen=True, kw_only=True):
    """A telling change of an object on the kill path, in a few words."""

    object: str
    what: str


class LogTaken(Event, frozen=True, kw_only=True):
    """An executor container's log, secrets redacted, the last part of it."""

    pod: str
    container: str
    text: str


class Noted(Event, frozen=True, kw_only=True):
    """Something a reader should know: an assumption, a doubt."""

    text: str


class Diagnosed(Event, frozen=True, kw_only=True):
    """Why it stuck, as a person would find after ten minutes of kubectl."""

    stuck_at: str
    cause: str
    evidence: list[str]
    remedy: str
    failures: list[int] = field(default_factory=list)


class Judged(Event, frozen=True, kw_only=True):
    """The verdict of a drill, with the reason in a sentence."""

    verdict: str
    off_by: str
    why: str


class LedgerKept(Event, frozen=True, kw_only=True):
    """What a drill's verdict rests on.

    It has the entries that a reader has to know of, as the JSON document has them in ``ledger``. It counts the entries
    of each status.
    """

    entries: list[dict[str, Any]]
    counts: dict[str, int]


class Healed(Event, frozen=True, kw_only=True):
    """What killcheck changed is put back: ``undone`` in words; ``problems`` non-empty means dirty."""

    undone: list[str]
    problems: list[str]
    steady_again: bool


class Found(Event, frozen=True, kw_only=True):
    """A probe's finding, as the JSON document has it in ``findings``; of the run, not of a drill."""

    finding: dict[str, Any]


class Fenced(Event, frozen=True, kw_only=True):
    """What one pool could launch at worst, as the JSON document has it in ``fences``; of the run, not of a drill."""

    fence: dict[str, Any]


class DrillFinished(Event, frozen=True, kw_only=True):
    """The drill's result as the JSON document has it."""

    result: dict[str, Any]


class RunFinished(Event, frozen=True, kw_only=True):
    """The run is over."""

    verdict: str
    exit_code: int
