"""KEDA: ScaledObjects that wake a workload, put it to zero when its triggers are idle, and restore their minimum.

Source: kedacore/keda v2.20.2 pkg/scaling/executor/scale_scaledobjects.go (RequestScale, scaleToZeroOrIdle),
controllers/keda/scaledobject_controller.go (handlePause, conditions) and hpa.go. Like KEDA's own scale loop it looks
each pollingInterval, counted from its start; here only where something may have changed. What the triggers say:
:mod:`killcheck.embedded.models.keda_triggers`. The HPA that it makes is told the metric by an annotation.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from msgspec import Struct

from killcheck.embedded.controllers.hpa import METRIC, PERIOD_S
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.embedded.models import keda_triggers
from killcheck.embedded.models.clonesets import CloneSets
from killcheck.embedded.models.keda_triggers import Reading
from killcheck.embedded.models.rollouts import Rollouts
from killcheck.entries import Doubt
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Conflict, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    condition,
    dig,
    format_time,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    parse_time,
    ref_of,
    uid_of,
)
from killcheck.kube.owner_references import controller_ref

__all__ = ["PAUSED", "Keda", "interval", "says"]

PAUSED = "autoscaling.keda.sh/paused"
PAUSED_AT = "autoscaling.keda.sh/paused-replicas"
PAUSED_IN = "autoscaling.keda.sh/paused-scale-in"
PAUSED_OUT = "autoscaling.keda.sh/paused-scale-out"
FORCED = "autoscaling.keda.sh/force-activation"
_READY = "ScaledObject is defined correctly and is ready for scaling"
_STOPPED = "ScaledObject is paused"
_COOLING = "Scaler cooling down because triggers are not active"
#: Seconds from a ScaledObject's birth to its first poll: KEDA makes the HPA first (recorded: 0.3 to 0.5 s).
FIRST_S = 0.4
#: How often controller-runtime hands every object over again: what a pause restores, it restores then, in seconds.
RESYNC_S = 10 * 3600.0


#: A fallback's behaviors that can make replicas more; the others leave as many as there are, or fewer.
_RAISING = frozenset({"static", "currentReplicasIfHigher"})


class _Change(Struct, frozen=True):
    """Replicas of a workload that are to be written, the event that says so (empty: none), and what called for it."""

    workload: Obj
    now: int
    wanted: int
    reason: str = ""
    reading: Reading | None = None


#: Of the kinds in keda_triggers.SCALED.
_SCALABLE = (r.DEPLOYMENTS, r.STATEFULSETS, r.LEADERWORKERSETS, Rollouts.own, CloneSets.own)


@dataclass(eq=False, repr=False)
class Keda(Controller):
    """keda-operator, for what has a scale subresource here."""

    name: ClassVar[str] = "keda-operator"

    def setup(self) -> None:
        """Follow ScaledObjects and what they scale."""
        #: The last moment at which each was seen active, and whether it was at the last look.
        self._was_active: dict[Key, bool] = {}
        #: The poll in which each ScaledObject was last scaled: KEDA acts once a poll, whoever writes in between.
        self._acted: dict[Key, int] = {}
        #: When each was first seen.
        self._born: dict[Key, float] = {}
        #: Since when the triggers of each cannot be read.
        self._unread: dict[Key, float] = {}
        #: (when, annotation) of the last pause that was carried out.
        self._paused: dict[Key, tuple[float, str]] = {}
        self.scaled = self.follow(r.SCALEDOBJECTS, self._own, optional=True)
        self.scalable = {
            (one.group, one.kind): (one, self.follow(one, self._scalers_of, optional=one.group != "apps"))
            for one in _SCALABLE
        }
        self.pods = self.follow(r.PODS, self._counting)

    def _counting(self, change: Change, old: Obj | None, new: Obj) -> list[Key]:
        """Whose triggers count a pod that came, went or ended."""
        if change == "modified" and dig(old or {}, "status", "phase") == dig(new, "status", "phase"):
            return []
        return [key_of(scaled) for scaled in self.scaled.values() if keda_triggers.counts(scaled, new)]

    def _own(self, change: Change, old: Obj | None, new: Obj) -> list[Key]:
        if change == "deleted":
            self._finalize(old or new)
        elif change == "added":
            self._born[key_of(new)] = self.loop.monotonic()
        return [key_of(new)]

    def _scalers_of(self, change: Change, old: Obj | None, new: Obj) -> list[Key]:
        return [
            key_of(scaled)
            for scaled in self.scaled.values()
            if namespace_of(scaled) == namespace_of(new)
            and keda_triggers.target(scaled) == (_group(new), new["kind"], name_of(new))
        ]

    # -- one look ------------------------------------------------------------------------------------------
    def reconcile(self, key: Key) -> None:
        """The controller's pass over one ScaledObject, and one poll of its scale loop."""
        scaled = self.scaled.get(key[1], key[0])
        workload = self._workload(scaled) if scaled is not None else None
        if scaled is None or workload is None:
            if scaled is not None:
                self._say(scaled, self._conditions(scaled, None, self._no_target(scaled)), {})
            return
        now = int(dig(workload, "spec", "replicas", default=1))
        refused, unmade = ("", "") if _is_paused(scaled) else _stuck(scaled)
        if (refused or unmade) and self.kube.find(r.HPAS, _hpa(scaled), key[0]) is None:
            more = self._of_target(scaled, now) | ({} if refused else _types(scaled))
            self._say(scaled, self._conditions(scaled, None, refused or unmade), more)
            return  # with an HPA the loop that runs goes on
        if now:
            self._on.add(key)
        reading = keda_triggers.read(scaled, self.loop.now(), self.pods.values())
        self._see(scaled, reading)
        conditions = self._conditions(scaled, reading, "", cooling=self._cools(scaled, now, reading) > 0)
        self._say(scaled, conditions, self._status(scaled, now))
        if _is_paused(scaled):
            self._pause(scaled, workload, now)
            return
        self._paused.pop(key, None)
        self._keep_hpa(scaled, workload, reading)
        self._by_triggers(scaled, workload, now, reading)
        if reading.changes is not None:
            self.queue.add(key, (reading.changes - self.loop.now()).total_seconds() + 0.001)

    def _see(self, scaled: Obj, reading: Reading) -> None:
        """Say once what is assumed of a source that nobody here can ask."""
        if reading.assumed:
            said = (
                f"what the {', '.join(reading.assumed)} trigger of ScaledObject {namespace_of(scaled)}/"
                f"{name_of(scaled)} reads is not known here: assumed active (annotation {keda_triggers.VALUE} says "
                "otherwise)"
            )
            self.rests_on(said, ref_of(scaled))

    def _by_triggers(self, scaled: Obj, workload: Obj, now: int, reading: Reading) -> None:
        """As RequestScale."""
        spec = scaled.get("spec") or {}
        least, idle = int(spec.get("minReplicaCount") or 0), spec.get("idleReplicaCount")
        active = reading.active or says(scaled, FORCED)
        if self._went_idle(scaled, active):
            return  # the last poll that found it active has been written: that change brings the next look
        if active:
            self._seen_active(scaled)
            if (now == 0 or (idle is not None and now < least)) and not says(scaled, PAUSED_OUT):
                self._soon(scaled, _Change(workload, now, max(least, 1), "KEDAScaleTargetActivated", reading))
        elif reading.error and (not spec.get("fallback") or dig(spec, "fallback", "replicas", default=0)):
            return
        elif (idle is not None and now > int(idle)) or (now > 0 and least == 0):
            if not says(scaled, PAUSED_IN):
                self._when_cool(scaled, workload, now, int(idle) if idle is not None else least)
        elif idle is None and now < least:
            self._soon(scaled, _Change(workload, now, least, reading=reading))  # KEDA says nothing of this one

    def _went_idle(self, scaled: Obj, active: bool) -> bool:
        key = key_of(scaled)
        was, self._was_active[key] = self._was_active.get(key, False), active
        return was and not active and self._seen_active(scaled, self._into_period(scaled))

    def _when_cool(self, scaled: Obj, workload: Obj, now: int, wanted: int) -> None:
        """Once its cooldown has passed."""
        left = self._left(scaled)
        if left > 0:
            self.queue.add(key_of(scaled), left)
        else:
            self._soon(scaled, _Change(workload, now, wanted, "KEDAScaleTargetDeactivated"))

    def _left(self, scaled: Obj) -> float:
        """Seconds of its cooldown; one that never was active waits for initialCooldownPeriod alone (0)."""
        spec, last = scaled.get("spec") or {}, dig(scaled, "status", "lastActiveTime")
        cooldown = spec.get("cooldownPeriod", 300) if last else spec.get("initialCooldownPeriod", 0)
        since = parse_time(last or scaled["metadata"]["creationTimestamp"])
        return float(cooldown or 0) - (self.loop.now() - since).total_seconds()

    def _cools(self, scaled: Obj, now: int, reading: Reading) -> float:
        """How long what is idle stays on for its cooldown alone, in seconds."""
        awake = reading.active or reading.error or says(scaled, FORCED) or says(scaled, PAUSED_IN)
        return 0.0 if awake or now <= _least_asleep(scaled) else self._left(scaled)

    def _soon(self, scaled: Obj, change: _Change) -> None:
        """At the next poll: KEDA looks every pollingInterval (30 s), counted from its own start."""
        every, into, key = interval(scaled), self._into_period(scaled), key_of(scaled)
        early = self._born.get(key, 0.0) + FIRST_S - self.loop.monotonic()
        if early > 0.001:
            self.queue.add(key, early)
            return
        poll = int((self.loop.now() - parse_time(scaled["metadata"]["creationTimestamp"])).total_seconds() // every)
        if into >= (1.0 if poll else 1.0 + FIRST_S) or self._acted.get(key) == poll:
            self.queue.add(key, every - into + 0.001)
            return
        self._acted[key] = poll
        self._scale(scaled, change)

    def _scale(self, scaled: Obj, change: _Change) -> None:
        workload, now, wanted, reading = change.workload, change.now, change.wanted, change.reading
        if now == wanted:
            return
        resource, _ = self.scalable[_group(workload), workload["kind"]]
        try:
            self.kube.patch(
                resource, name_of(workload), {"spec": {"replicas": wanted}}, namespace_of(workload), subresource="scale"
            )
        except NotFound:  # it went with its scaler, a moment before
            return
        what = f"{namespace_of(workload)}/{name_of(workload)}"
        if (
            wanted > now == 0
            and not _least_asleep(scaled)  # which comes back whatever triggers read
            and key_of(scaled) in self._on
            and reading is not None
            and reading.assumed
            and (set(reading.by) <= set(reading.assumed))
        ):
            said = (
                f"ScaledObject {namespace_of(scaled)}/{name_of(scaled)} lit {workload['kind']} {what} again: its "
                f"{', '.join(reading.assumed)} trigger is assumed active, and what it reads then nobody here knows "
                f"(annotation {keda_triggers.VALUE}: '0' says that it is idle; a switch that pauses the scaler need "
                "not know)"
            )
            self.unproven.append(Doubt(ref_of(scaled), said, may_be_on=False))
        if change.reason:
            word = "Scaled" if wanted > now else "Deactivated"
            by = _why(scaled, reading) if wanted > now else ""
            self.events.emit(
                scaled,
                "Normal",
                change.reason,
                f"{word} {workload['apiVersion']}.{workload['kind']} {what} from {now} to {wanted}{by}",
            )

    # -- pauses --------------------------------------------------------------------------------------------
    def _pause(self, scaled: Obj, workload: Obj, now: int) -> None:
        """The scale loop stops and the HPA goes; a count is written when the pause is seen, and at each resync."""
        key, text = key_of(scaled), annotations_of(scaled).get(PAUSED_AT, "")
        self._drop_hpa(scaled)
        last = self._paused.get(key)
        if last is not None and last[1] == text:
            left = last[0] + RESYNC_S - self.loop.monotonic()
            if left > 0.001:  # less is rounding: a wait of that much would never end
                self.queue.add(key, left)
                return
        self._paused[key] = (self.loop.monotonic(), text)
        if text.isdigit():
            self._scale(scaled, _Change(workload, now, int(text)))
            self.queue.add(key, RESYNC_S)

    def _finalize(self, scaled: Obj) -> None:
        """A ScaledObject that goes puts its target back to what it was, where it says so."""
        self._drop_hpa(scaled)
        original = dig(scaled, "status", "originalReplicaCount")
        workload = self._workload(scaled)
        if dig(scaled, "spec", "advanced", "restoreToOriginalReplicaCount") and original is not None and workload:
            self._scale(scaled, _Change(workload, int(dig(workload, "spec", "replicas", default=1)), int(original)))

    # -- the HPA -------------------------------------------------------------------------------------------
    def _keep_hpa(self, scaled: Obj, workload: Obj, reading: Reading) -> None:
        spec, namespace, name = scaled.get("spec") or {}, namespace_of(scaled), _hpa(scaled)
        wanted = {
            "minReplicas": max(1, int(spec.get("minReplicaCount") or 0)),
            "maxReplicas": int(spec.get("maxReplicaCount") or keda_triggers.MOST),
            "scaleTargetRef": {key: workload[key] for key in ("apiVersion", "kind")} | {"name": name_of(workload)},
        }
        metric = _metric(scaled, workload, reading, falls_back=self._falls_back(scaled, reading))
        notes, labels = {METRIC: metric}, _hpa_labels(scaled)
        known = self.kube.find(r.HPAS, name, namespace)
        if known is None:
            self._make_hpa(scaled, wanted, {"annotations": notes, "labels": labels})
            return
        had = labels_of(known)
        differs = any(known["spec"].get(part) != value for part, value in wanted.items())
        if differs or not labels.items() <= had.items():  # it is written whole then, and not for a label too many
            change: Obj = {"labels": dict.fromkeys(had.keys() - labels.keys()) | labels, "annotations": notes}
            self.kube.patch(r.HPAS, name, {"metadata": change, "spec": wanted}, namespace)
        elif annotations_of(known).get(METRIC, "") != metric:
            self.kube.patch(r.HPAS, name, {"metadata": {"annotations": notes}}, namespace)

    def _make_hpa(self, scaled: Obj, spec: Obj, meta: Obj) -> None:
        namespace = namespace_of(scaled)
        metrics = [
            {
                "type": "External",
                "external": {
                    "metric": {"name": keda_triggers.metric(scaled, number)},
                    "target": {"type": "AverageValue", "averageValue": "1"},
                },
            }
            for number in range(len(keda_triggers.triggers(scaled)))
        ]
        owner = controller_ref(scaled, r.SCALEDOBJECTS)
        body = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": meta | {"name": _hpa(scaled), "namespace": namespace, "ownerReferences": [owner]},
            "spec": spec | {"metrics": metrics},
        }
        try:
            self.kube.create(r.HPAS, body, namespace)
        except Conflict:
            return

    def _drop_hpa(self, scaled: Obj) -> None:
        try:
            self.kube.delete(r.HPAS, _hpa(scaled), namespace_of(scaled))
        except NotFound:
            return

    # -- status --------------------------------------------------------------------------------------------
    def _conditions(self, scaled: Obj, reading: Reading | None, failed: str, *, cooling: bool = False) -> list[Obj]:
        """Ready, Active, Fallback, Paused, in the order and words of KEDA's."""
        paused = _is_paused(scaled) or says(scaled, PAUSED_IN) or says(scaled, PAUSED_OUT)
        broken = reading is not None and reading.error and not reading.active
        ready = (
            ("False", "ScaledObjectCheckFailed", failed)
            if failed
            else (
                ("False", "TriggerError", "Triggers defined in ScaledObject are not working correctly")
                if broken
                else ("True", "ScaledObjectReady", _STOPPED if _is_paused(scaled) else _READY)
            )
        )
        active = ("False", "ScalerCooldown", _COOLING) if cooling else _activity(scaled, reading)
        if _is_paused(scaled):  # nobody asks the triggers
            known: Obj = condition(scaled, "Active") or {}
            active = (known.get("status", "Unknown"), known.get("reason", ""), known.get("message", ""))
        rest = ("True", "ScaledObjectPaused", _STOPPED) if paused else _unpaused(scaled)
        rows = (
            ("Ready", *ready),
            ("Active", *active),
            ("Fallback", *self._fallback(scaled, reading)),
            ("Paused", *rest),
        )
        return [
            {key: value for key, value in zip(("type", "status", "reason", "message"), row, strict=True) if value}
            for row in rows
        ]

    def _fallback(self, scaled: Obj, reading: Reading | None) -> tuple[str, str, str]:
        if reading is None and dig(scaled, "spec", "fallback"):
            return "Unknown", "", ""  # until its metric is asked for
        if reading is not None and self._falls_back(scaled, reading):
            return "True", "FallbackExists", "At least one trigger is falling back on this scaled object"
        return "False", "NoFallbackFound", "No fallbacks are active on this scaled object"

    def _falls_back(self, scaled: Obj, reading: Reading) -> bool:
        """Whether its HPA has asked in vain more often than it may; what is asleep has an HPA that does not ask."""
        key = key_of(scaled)
        if not reading.error or not dig(scaled, "spec", "fallback"):
            self._unread.pop(key, None)
            return False
        since = self._unread.setdefault(key, self.loop.monotonic())
        most = int(dig(scaled, "spec", "fallback", "failureThreshold", default=0) or 0)
        left = since + most * PERIOD_S - self.loop.monotonic()
        if left > 0:
            self.queue.add(key, left + 0.001)
        return left <= 0

    def _status(self, scaled: Obj, now: int) -> Obj:
        """Beside the conditions; what a pause finds stays as it is."""
        if _is_paused(scaled):
            text = annotations_of(scaled).get(PAUSED_AT, "")
            return {"pausedReplicaCount": int(text)} if text.isdigit() else {}
        unpaused = {"pausedReplicaCount": None} if "pausedReplicaCount" in scaled.get("status", {}) else {}
        return self._of_target(scaled, now) | {"hpaName": _hpa(scaled)} | _types(scaled) | unpaused

    def _of_target(self, scaled: Obj, now: int) -> Obj:
        resource, _ = self.scalable[keda_triggers.target(scaled)[:2]]
        status: Obj = {
            "scaleTargetKind": f"{resource.api_version}.{resource.kind}",
            "scaleTargetGVKR": {
                "group": resource.group,
                "version": resource.version,
                "kind": resource.kind,
                "resource": resource.plural,
            },
        }
        if dig(scaled, "status", "originalReplicaCount") is None:
            status["originalReplicaCount"] = now
        return status

    def _no_target(self, scaled: Obj) -> str:
        group, kind, name = keda_triggers.target(scaled)
        resource, _ = self.scalable.get((group, kind), (None, None))
        lacks = f': {resource.plural}.{group} "{name}" not found' if resource is not None else ""
        return f"ScaledObject doesn't have correct scaleTargetRef specification{lacks}"

    def _say(self, scaled: Obj, conditions: list[Obj], more: Obj) -> None:
        known = scaled.get("status") or {}
        status = more | {"conditions": conditions}
        if all(known.get(key) == value for key, value in status.items()):
            return
        try:
            self.kube.patch(
                r.SCALEDOBJECTS, name_of(scaled), {"status": status}, namespace_of(scaled), subresource="status"
            )
        except ApiError:
            return

    def _into_period(self, scaled: Obj) -> float:
        """Seconds since its last poll."""
        began = parse_time(scaled["metadata"]["creationTimestamp"])
        return (self.loop.now() - began).total_seconds() % interval(scaled)

    def _seen_active(self, scaled: Obj, ago_s: float | None = None) -> bool:
        """Write when a poll found it active; answers whether that is news.

        KEDA writes at each poll; here the first one is written, and the last (``ago_s`` seconds ago) once it is over.
        """
        known = dig(scaled, "status", "lastActiveTime") or ""
        if ago_s is None and self._first_seen.get(key_of(scaled)) == uid_of(scaled):
            return False
        self._first_seen[key_of(scaled)] = uid_of(scaled) if ago_s is None else ""
        when = format_time(self.loop.now() - timedelta(seconds=ago_s or 0.0))
        if when <= known:
            return False
        try:
            self.kube.patch(
                r.SCALEDOBJECTS,
                name_of(scaled),
                {"status": {"lastActiveTime": when}},
                namespace_of(scaled),
                subresource="status",
            )
        except NotFound:
            return False
        return True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._first_seen: dict[Key, str] = {}
        #: Whose target was on at some time.
        self._on: set[Key] = set()

    def _workload(self, scaled: Obj) -> Obj | None:
        group, kind, name = keda_triggers.target(scaled)
        _, informer = self.scalable.get((group, kind), (None, None))
        return informer.get(name, namespace_of(scaled)) if informer is not None else None


def _stuck(scaled: Obj) -> tuple[str, str]:
    """Why KEDA takes no such ScaledObject, and why it cannot make an HPA for it; empty: it does."""
    refused, unbuilt = keda_triggers.refused(scaled), keda_triggers.unbuilt(scaled)
    return refused, unbuilt and f"failed to ensure HPA is correctly created for ScaledObject: {unbuilt}"


def _types(scaled: Obj) -> Obj:
    return {"triggersTypes": ",".join(dict.fromkeys(str(t.get("type")) for t in keda_triggers.triggers(scaled)))}


def _activity(scaled: Obj, reading: Reading | None) -> tuple[str, str, str]:
    """Status, reason and message of the condition Active."""
    if reading is None:
        return "Unknown", "UnknownState", "ScaledObject check failed"
    if says(scaled, FORCED):
        return "True", "ScalerActive", "Scaling is performed because activation is being forced by annotation"
    if reading.active:
        return "True", "ScalerActive", "Scaling is performed because triggers are active"
    return "False", "ScalerNotActive", "Scaling is not performed because triggers are not active"


def _why(scaled: Obj, reading: Reading | None) -> str:
    """How the event of an activation ends (scaleFromZeroOrIdle)."""
    if says(scaled, FORCED):
        return ", caused by forced activation annotation"
    found = enumerate(keda_triggers.triggers(scaled))
    names = [keda_triggers.metric(scaled, n) for n, t in found if reading is not None and t.get("type") in reading.by]
    return f", triggered by {';'.join(names)}"


def _unpaused(scaled: Obj) -> tuple[str, str, str]:
    """The condition Paused of what is not: it says so where it was (``reconcileScaledObject``)."""
    known: Obj = next((one for one in dig(scaled, "status", "conditions", default=()) if one["type"] == "Paused"), {})
    if known.get("status") == "True":
        return "False", "ScaledObjectUnpaused", "pause annotation removed for ScaledObject"
    return "False", known.get("reason", ""), known.get("message", "")


def _is_paused(scaled: Obj) -> bool:
    return PAUSED_AT in annotations_of(scaled) or says(scaled, PAUSED)


def says(scaled: Obj, annotation: str) -> bool:
    """Whether a boolean annotation is set: what is no boolean counts as true (getBoolAnnotation)."""
    text = annotations_of(scaled).get(annotation)
    return text is not None and text not in ("0", "f", "F", "false", "FALSE", "False")


def _least_asleep(scaled: Obj) -> int:
    """The replicas of a target whose triggers are not active."""
    idle, least = dig(scaled, "spec", "idleReplicaCount"), dig(scaled, "spec", "minReplicaCount", default=0)
    return int(least or 0) if idle is None else int(idle)


def _metric(scaled: Obj, workload: Obj, reading: Reading, *, falls_back: bool) -> str:
    """How many replicas the HPA is told of; empty: as many as there are.

    A queue makes them more and never fewer here (an HPA waits five minutes before it takes any away); where no trigger
    can be read a fallback's count stands for the metric, or what there is (pkg/fallback, doFallback).
    """
    now = int(dig(workload, "spec", "replicas", default=1))
    told = dig(scaled, "spec", "fallback", default={})
    fallback = int(told.get("replicas") or 0) if told.get("behavior", "static") in _RAISING and falls_back else 0
    wanted = fallback if reading.error and not reading.active else reading.called
    found = max(reading.desired, wanted if wanted > now else 0)
    return str(found) if found else ""


def _hpa(scaled: Obj) -> str:
    own = dig(scaled, "spec", "advanced", "horizontalPodAutoscalerConfig", "name")
    return str(own or f"keda-hpa-{name_of(scaled)}")


def interval(scaled: Obj) -> float:
    """How often KEDA asks its triggers, in seconds."""
    return float(dig(scaled, "spec", "pollingInterval", default=30) or 30)


def _group(workload: Obj) -> str:
    return str(workload["apiVersion"]).rpartition("/")[0]


def _hpa_labels(scaled: Obj) -> dict[str, str]:
    """KEDA 2.20, controllers/keda/hpa.go: the ScaledObject's own labels too, but for those that it excludes."""
    excluded = annotations_of(scaled).get("scaledobject.keda.sh/hpa-excluded-labels", "").split(",")
    return {
        "app.kubernetes.io/managed-by": "keda-operator",
        "scaledobject.keda.sh/name": name_of(scaled),
        "app.kubernetes.io/part-of": name_of(scaled),
    } | {key: value for key, value in labels_of(scaled).items() if key not in excluded}
