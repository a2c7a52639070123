"""What the triggers of a ScaledObject say at a moment: by their types, as KEDA's scalers answer.

Source: kedacore/keda v2.20.2 pkg/scaling/scale_handler.go (getScaledObjectState), pkg/scalers/cron_scaler.go,
pkg/scalers/kubernetes_workload_scaler.go. ``cron`` is reckoned exactly, and ``kubernetes-workload`` counts the pods
that it selects in its namespace, those that have ended left out. ``cpu`` and ``memory`` are the HPA's: alone they make
a target active for ever. What only a live source knows is what the annotation ``killcheck.dev/trigger-value`` says - a
number, ``active``, ``error`` - and where there is none, it is assumed to be active, as whoever brought the target on
would have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from math import ceil

from msgspec import Struct

from killcheck.kube import schedule
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of
from killcheck.kube.selectors import LabelSelector, SelectorError, parse_labels
from killcheck.text import lazy_re

__all__ = [
    "ACTIVE",
    "KNOWN",
    "MOST",
    "SCALED",
    "VALUE",
    "Reading",
    "counts",
    "is_zero_of_nothing",
    "live",
    "metric",
    "only_resources",
    "read",
    "refused",
    "target",
    "triggers",
    "unbuilt",
]

#: What the live triggers of a ScaledObject read here.
VALUE = "killcheck.dev/trigger-value"
#: The reading that is above every activation.
ACTIVE = "active"
RESOURCES = ("cpu", "memory")
#: maxReplicaCount where a ScaledObject says none.
MOST = 100
#: Groups and kinds that KEDA's model scales: those with a scale that something here acts on.
SCALED = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        ("argoproj.io", "Rollout"),
        ("apps.kruise.io", "CloneSet"),
    }
)
#: The trigger that counts pods.
_WORKLOAD = "kubernetes-workload"
#: What triggers call the work that one replica takes. Source: pkg/scalers of KEDA v2.20.2 (redis, aws_sqs_queue,
#: rabbitmq, prometheus, kafka, azure_servicebus, gcp_pubsub, metrics_api, postgresql).
_EACH = frozenset(
    {
        "listLength",
        "queueLength",
        "value",
        "threshold",
        "lagThreshold",
        "messageCount",
        "subscriptionSize",
        "targetValue",
        "targetQueryValue",
        "pendingEntriesCount",
    }
)
#: How a schedule is spelt in a metric's name (parseCronTimeFormat), and what no name may have (NormalizeString).
_IN_NAMES = str.maketrans({" ": "", "*": "x", "/": "Sl", "?": "Qm", ",": "Cm"})
_NORMAL = str.maketrans("/.:%()", "------")
#: Types of triggers that tell their metric only when they are asked (external_scaler.go, GetMetricSpecForScaling).
_ASKED = frozenset({"external", "external-push"})
#: Types whose scaler is built only where its source answers (the New functions of pkg/scalers).
_CONNECTING = frozenset(
    "kafka mongodb mysql postgresql rabbitmq redis redis-cluster redis-sentinel redis-streams redis-cluster-streams "
    "redis-sentinel-streams couchdb opensearch cassandra mssql".split()
)
#: A cron trigger is read alike on every day.
_ANY_DAY = datetime(2026, 1, 1, tzinfo=UTC)
#: Types of triggers that need no live source.
KNOWN = frozenset({"cron", _WORKLOAD, *RESOURCES})


class Reading(Struct, frozen=True):
    """``active``: whether any trigger is; ``error``: whether any cannot be read; ``by``: the active ones' types.

    ``assumed``: types of the live triggers whose reading nobody gave. ``changes``: when a cron window opens or closes
    next; ``desired``: how many replicas the open windows want (0: none is open); ``called``: how many a number that was
    read calls for (0: none was, or what one replica takes is not said).
    """

    active: bool
    error: bool = False
    by: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    changes: datetime | None = None
    desired: int = 0
    called: int = 0


def target(scaled: Obj) -> tuple[str, str, str]:
    """Group, kind and name of what is scaled: a Deployment of apps/v1, where nothing else is said."""
    ref = dig(scaled, "spec", "scaleTargetRef", default={})
    group = str(ref.get("apiVersion") or "apps/v1").rpartition("/")[0]
    return group, ref.get("kind") or "Deployment", ref.get("name", "")


def triggers(scaled: Obj) -> list[Obj]:
    """The triggers of a ScaledObject."""
    return list(dig(scaled, "spec", "triggers", default=None) or [])


def live(scaled: Obj) -> list[str]:
    """Types of the triggers that only a live source knows."""
    return [str(t.get("type")) for t in triggers(scaled) if t.get("type") not in KNOWN]


#: Sums, products and the like of readings: numbers stand behind ``*`` and ``/`` alone. A word is taken whole, or a long
#: one would be tried in all of its parts.
_OF_NOTHING = lazy_re.compile(r"(?:[A-Za-z_]\w*+|[+(),\[\]\s]|\*\s*+(?=[A-Za-z_])|[*/]\s*+\d++(?:\.\d++)?)+")
_FUNCTIONS = frozenset({"count", "len"})


def is_zero_of_nothing(formula: str) -> bool:
    """Whether a formula of ``scalingModifiers`` is zero where all that the triggers read is: as far as can be told."""
    words = set(re.findall(r"[A-Za-z_]\w*", formula))
    return _OF_NOTHING.fullmatch(formula) is not None and not words & _FUNCTIONS


def refused(scaled: Obj) -> str:
    """Why KEDA takes no such ScaledObject, in its words, and so scales nothing; empty: it does.

    Source: apis/keda/v1alpha1 (CheckReplicaCountBoundsAreValid, GetHPAMinReplicas, ValidateTriggers) of v2.20.2.
    """
    spec = scaled.get("spec") or {}
    least, most, idle = (spec.get(key) for key in ("minReplicaCount", "maxReplicaCount", "idleReplicaCount"))
    floor = 0 if least is None else max(1, int(least))  # a zero that is said counts as the HPA's least, one
    ceiling = MOST if most is None else int(most)
    counts = "ScaledObject doesn't have correct Idle/Min/Max Replica Counts specification"
    if floor > ceiling:
        return f"{counts}: MinReplicaCount={floor} must be less than MaxReplicaCount={ceiling}"
    if idle is not None and int(idle) >= floor:
        return f"{counts}: IdleReplicaCount={idle} must be less than MinReplicaCount={floor}"
    said = _refused_triggers(triggers(scaled))
    return said and f"ScaledObject doesn't have correct triggers specification: {said}"


def _refused_triggers(found: list[Obj]) -> str:
    if not found:
        return "no triggers defined in the ScaledObject/ScaledJob"
    names: set[str] = set()
    for trigger in found:
        if trigger.get("useCachedMetrics") and trigger.get("type") in (*RESOURCES, "cron"):
            return f'property "useCachedMetrics" is not supported for "{trigger["type"]}" scaler'
        name = str(trigger.get("name") or "")
        if name in names:
            return (
                f'triggerName "{name}" is defined multiple times in the ScaledObject/ScaledJob, but it must be unique'
            )
        names |= {name} if name else set()
    return ""


def unbuilt(scaled: Obj) -> str:
    """Why KEDA cannot make an HPA of these triggers, and so scales nothing until it can; empty: it can.

    One that cannot be built is enough (buildScalers). An external one is asked for its metric, and the others' metrics
    do without it (getScaledObjectMetricSpecs; recorded). With an HPA from before, the source only reads nothing.
    """
    for trigger in triggers(scaled):
        kind = trigger.get("type")
        if (kind == "cron" and _misread(trigger)) or (kind == _WORKLOAD and _selector(trigger) is None):
            return f"error parsing {kind} metadata"
        if kind in _CONNECTING and annotations_of(scaled).get(VALUE) == "error":
            return f"error connecting to the source of the {kind} trigger"
    asked = annotations_of(scaled).get(VALUE) == "error" and all(t.get("type") in _ASKED for t in triggers(scaled))
    if asked:
        return f"no metric specs returned from scalers for ScaledObject {namespace_of(scaled)}/{name_of(scaled)}"
    return ""


def _misread(cron: Obj) -> bool:
    """Whether KEDA cannot read a cron trigger; a zone that it does not know it meets only when it looks."""
    meta = cron.get("metadata") or {}
    return "timezone" not in meta or _window({"metadata": meta | {"timezone": "UTC"}}, _ANY_DAY) is None


def metric(scaled: Obj, number: int) -> str:
    """What KEDA calls the metric of a trigger, as its events and its HPA have it: exact for those in :data:`KNOWN`."""
    trigger = triggers(scaled)[number]
    meta, kind = trigger.get("metadata") or {}, str(trigger.get("type"))
    if kind == _WORKLOAD:
        kind = f"workload-{namespace_of(scaled)}"
    elif kind == "cron":
        edges = (str(meta.get(edge, "")).translate(_IN_NAMES) for edge in ("start", "end"))
        kind = "-".join(("cron", str(meta.get("timezone", "")), *edges)).translate(_NORMAL)
    return f"s{number}-{kind}"


def only_resources(scaled: Obj) -> bool:
    """Whether all triggers are cpu or memory: then it never goes to zero."""
    return bool(triggers(scaled)) and all(t.get("type") in RESOURCES for t in triggers(scaled))


def counts(scaled: Obj, pod: Obj) -> bool:
    """Whether a trigger of a ScaledObject counts a pod, ended or not."""
    return any(_selects(trigger, scaled, pod) for trigger in _workloads(scaled))


def read(scaled: Obj, now: datetime, pods: Iterable[Obj] = ()) -> Reading:
    """What they say now; ``pods``: those of the cluster, in which a ``kubernetes-workload`` trigger counts its own."""
    by: list[str] = []
    error, desired = False, 0
    edges: list[datetime] = []
    for trigger in triggers(scaled):
        if trigger.get("type") != "cron":
            continue
        window = _window(trigger, now)
        if window is None:
            error = True
            continue
        opened, changes = window
        edges.append(changes)
        if opened:
            by.append("cron")
            desired = max(desired, _count(trigger))
    said = annotations_of(scaled).get(VALUE, "")
    error = error or said == "error"
    by += [str(t.get("type")) for t in triggers(scaled) if t.get("type") not in KNOWN and _above(said or ACTIVE, t)]
    counted = 0
    for trigger in _workloads(scaled):
        found = str(_pods(trigger, scaled, pods))
        if _selector(trigger) is None:
            error = True
        elif _above(found, trigger):
            by.append(_WORKLOAD)
            counted = max(counted, _called(found, trigger))
    active = bool(by) or (only_resources(scaled) and not error)
    assumed = () if said else tuple(live(scaled))
    called = max(counted, *(_called(said, t) for t in triggers(scaled) if t.get("type") not in KNOWN), 0)
    return Reading(active, error, tuple(by), assumed, min(edges, default=None), desired, called)


def _workloads(scaled: Obj) -> list[Obj]:
    return [trigger for trigger in triggers(scaled) if trigger.get("type") == _WORKLOAD]


def _selector(trigger: Obj) -> LabelSelector | None:
    """The pods that a trigger counts; None: it says none that can be read, which KEDA refuses."""
    text = str(dig(trigger, "metadata", "podSelector", default=""))
    try:
        return parse_labels(text) if text else None
    except SelectorError:
        return None


def _selects(trigger: Obj, scaled: Obj, pod: Obj) -> bool:
    selector = _selector(trigger)
    return selector is not None and namespace_of(pod) == namespace_of(scaled) and selector.matches(labels_of(pod))


def _pods(trigger: Obj, scaled: Obj, pods: Iterable[Obj]) -> int:
    ended = ("Succeeded", "Failed")
    return sum(_selects(trigger, scaled, pod) and dig(pod, "status", "phase") not in ended for pod in pods)


def _window(trigger: Obj, now: datetime) -> tuple[bool, datetime] | None:
    """Whether a cron trigger's window is open, and when that changes; None: it cannot be read.

    It is open while the next end comes before the next start.
    """
    meta = trigger.get("metadata") or {}
    try:
        first, last = str(meta["start"]), str(meta["end"])
        start = schedule.parse(first, str(meta["timezone"])).next(now)
        end = schedule.parse(last, str(meta["timezone"])).next(now)
    except (KeyError, ValueError):
        return None
    if first == last or not _count(trigger):
        return None
    if start is None or end is None:  # a date that never comes: the other edge alone says
        later = start or end
        return None if later is None else (start is None, later)
    return end <= start, min(start, end)


def _count(trigger: Obj) -> int:
    text = str(dig(trigger, "metadata", "desiredReplicas", default="0"))
    return int(text) if text.isdigit() else 0


def _above(said: str, trigger: Obj) -> bool:
    """Whether a reading is above a trigger's own activation (activationListLength, ...; 0)."""
    if said in (ACTIVE, "error"):
        return said == ACTIVE
    meta = trigger.get("metadata") or {}
    bounds = [_number(value) for key, value in meta.items() if str(key).startswith("activation")]
    return _number(said) > max(bounds, default=0.0)


def _called(said: str, trigger: Obj) -> int:
    """For how many replicas a reading calls, by what one of them takes; 0: it is no number, or that is not said."""
    each = next((_number(value) for key, value in (trigger.get("metadata") or {}).items() if key in _EACH), 0.0)
    return ceil(_number(said) / each) if each > 0 and _above(said or ACTIVE, trigger) else 0


def _number(said: object) -> float:
    try:
        return float(str(said))
    except ValueError:
        return 0.0
