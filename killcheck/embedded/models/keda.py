"""KEDA: ScaledObjects that wake a workload, put it to zero when its triggers are idle, and restore their minimum.

Semantics of kedacore/keda pkg/scaling/executor/scale_scaledobjects.go (RequestScale) and the paused annotations. What
its triggers say is modelled: the annotation ``killcheck.dev/trigger-value`` on the ScaledObject is the queue depth (or
requests in flight) that every trigger reads; ``error`` stands for a scaler that cannot be asked (TriggerError).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Controller
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, annotations_of, dig, format_time, name_of, namespace_of, parse_time

__all__ = ["Keda"]

#: What the triggers of a ScaledObject read here.
VALUE = "killcheck.dev/trigger-value"
PAUSED = "autoscaling.keda.sh/paused"
PAUSED_AT = "autoscaling.keda.sh/paused-replicas"


@dataclass
class Keda(Controller):
    """keda-operator, for Deployments and StatefulSets and HTTPScaledObjects' interceptor-owned ones."""

    name: ClassVar[str] = "keda-operator"

    def setup(self) -> None:
        """Follow ScaledObjects and what they scale."""
        self._was_active: dict[tuple[str, str], bool] = {}
        #: The poll in which each ScaledObject was last scaled: KEDA acts once a poll, whoever writes in between.
        self._acted: dict[tuple[str, str], int] = {}
        self.scaled = self.follow(r.SCALEDOBJECTS, optional=True)
        self.deployments = self.follow(r.DEPLOYMENTS, self._scalers_of)
        self.statefulsets = self.follow(r.STATEFULSETS, self._scalers_of)

    def _scalers_of(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        return [
            (namespace_of(scaled), name_of(scaled))
            for scaled in self.scaled.values()
            if namespace_of(scaled) == namespace_of(new) and _target(scaled) == (new.get("kind"), name_of(new))
        ]

    def reconcile(self, key: tuple[str, str]) -> None:
        """One poll of one ScaledObject."""
        scaled = self.scaled.get(key[1], key[0])
        if scaled is None:
            return
        workload = self._workload(scaled)
        if workload is None:
            return
        now = int(dig(workload, "spec", "replicas", default=0))
        notes = annotations_of(scaled)
        if PAUSED_AT in notes:
            self._scale(scaled, workload, now, int(notes[PAUSED_AT]), "KEDAScaleTargetActivated")
        elif notes.get(PAUSED) != "true" and notes.get(VALUE) != "error":
            self._by_triggers(scaled, workload, now)

    def _by_triggers(self, scaled: Obj, workload: Obj, now: int) -> None:
        spec = scaled.get("spec") or {}
        least = int(spec.get("minReplicaCount", 0))
        active = float(annotations_of(scaled).get(VALUE, "0")) > _activation(scaled)
        key = (namespace_of(scaled), name_of(scaled))
        was_active, self._was_active[key] = self._was_active.get(key, False), active
        if was_active and not active and self._seen_active(scaled, self._into_period(scaled)):
            return  # the last poll that found it active has been written: that change brings the next look
        if active:
            self._seen_active(scaled)
            if now == 0:
                self._soon(scaled, workload, 0, max(least, 1), "KEDAScaleTargetActivated")
        elif now < least:
            self._soon(scaled, workload, now, least, "KEDAScaleTargetActivated")
        elif now > 0 and least == 0:
            self._when_cool(scaled, workload, now)

    def _when_cool(self, scaled: Obj, workload: Obj, now: int) -> None:
        cooldown = float(dig(scaled, "spec", "cooldownPeriod", default=300))
        since = dig(scaled, "status", "lastActiveTime") or scaled["metadata"]["creationTimestamp"]
        left = cooldown - (self.loop.now() - parse_time(since)).total_seconds()
        if left > 0:
            self.queue.add((namespace_of(scaled), name_of(scaled)), left)
            return
        idle = int(dig(scaled, "spec", "idleReplicaCount", default=0))
        self._soon(scaled, workload, now, idle, "KEDAScaleTargetDeactivated")

    def _soon(self, scaled: Obj, workload: Obj, now: int, wanted: int, reason: str) -> None:
        """At the next poll: KEDA looks every pollingInterval (30 s), counted from its own start."""
        every, into = _interval(scaled), self._into_period(scaled)
        key = (namespace_of(scaled), name_of(scaled))
        began = parse_time(scaled["metadata"]["creationTimestamp"])
        poll = int((self.loop.now() - began).total_seconds() // every)
        if into < 1.0 and self._acted.get(key) != poll:
            self._acted[key] = poll
            self._scale(scaled, workload, now, wanted, reason)
        else:
            self.queue.add(key, every - into + 0.001)

    def _scale(self, scaled: Obj, workload: Obj, now: int, wanted: int, reason: str) -> None:
        if now == wanted:
            return
        resource = r.DEPLOYMENTS if workload["kind"] == "Deployment" else r.STATEFULSETS
        self.kube.patch(
            resource, name_of(workload), {"spec": {"replicas": wanted}}, namespace_of(workload), subresource="scale"
        )
        word = "Scaled" if wanted > now else "Deactivated"
        self.events.emit(
            scaled,
            "Normal",
            reason,
            f"{word} apps/v1.{workload['kind']} {namespace_of(workload)}/{name_of(workload)} from {now} to {wanted}",
        )

    def _into_period(self, scaled: Obj) -> float:
        """Seconds since its last poll."""
        began = parse_time(scaled["metadata"]["creationTimestamp"])
        return (self.loop.now() - began).total_seconds() % _interval(scaled)

    def _seen_active(self, scaled: Obj, ago_s: float = 0.0) -> bool:
        """Write when a poll found it active; answers whether that is news."""
        when = format_time(self.loop.now() - timedelta(seconds=ago_s))
        known = dig(scaled, "status", "lastActiveTime") or ""
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

    def _workload(self, scaled: Obj) -> Obj | None:
        kind, name = _target(scaled)
        informer = self.statefulsets if kind == "StatefulSet" else self.deployments
        return informer.get(name, namespace_of(scaled))


def _activation(scaled: Obj) -> float:
    """What a reading must exceed to wake the target: the least of its triggers' (activationListLength, ...; 0)."""
    return min(
        (
            max(
                (
                    float(value)
                    for key, value in (trigger.get("metadata") or {}).items()
                    if key.startswith("activation")
                ),
                default=0.0,
            )
            for trigger in dig(scaled, "spec", "triggers", default=[])
        ),
        default=0.0,
    )


def _interval(scaled: Obj) -> float:
    return float(dig(scaled, "spec", "pollingInterval", default=30))


def _target(scaled: Obj) -> tuple[str, str]:
    ref = dig(scaled, "spec", "scaleTargetRef", default={})
    return ref.get("kind") or "Deployment", ref.get("name", "")
