"""Containers that are given other resources while they run (pods/NAME/resize), as far as a node has them.

Source: pkg/kubelet/allocation/{allocation_manager,handlers}.go, pkg/kubelet/lifecycle/predicate.go (a node that is too
small), pkg/kubelet/events/resize.go and ``computePodResizeAction`` in kuberuntime_manager.go of Kubernetes v1.36.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct

from killcheck.embedded.api.pod_resources import ZERO, pod_resources, quantity
from killcheck.embedded.nodes import stopping
from killcheck.embedded.nodes.container import Container
from killcheck.embedded.nodes.execution import Enterable
from killcheck.kube.objects import Obj, dig, format_time

if TYPE_CHECKING:
    from killcheck.embedded.nodes.pod_worker import PodWorker

__all__ = ["Resizing"]

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
#: Seconds from the decision to containers that have what they were given, and to the next look at a node without room.
ACTUATED_S = 1.0
RETRY_S = 180.0
_UNITS = {"cpu": 1000, "memory": 1}


class Resizing(Struct):
    """One pod's."""

    life: PodWorker
    _told: tuple[str, int] = ("", 0)

    def look(self) -> None:
        """Give the containers what the pod's spec says now, if the node has it."""
        life = self.life
        if life.terminating or life.final or not life.sandbox or life.kubelet.stopped:
            return
        wanted = {
            str(c["name"]): c.get("resources") or {}
            for kind in ("initContainers", "containers")
            for c in life.pod["spec"].get(kind) or ()
        }
        changed = [c for c in life.containers if (c.spec.get("resources") or {}) != wanted.get(c.name, {})]
        if not changed:
            self._clear(PENDING)
            return
        lacking = self._lacking()
        if lacking:
            self._defer(lacking)
            return
        before = {c.name: c.spec.get("resources") or {} for c in changed}
        for container in changed:
            container.spec = container.spec | {"resources": wanted[container.name]}
        self.life.resize_conditions.pop(PENDING, None)
        self._set(IN_PROGRESS, "", "")
        life.event("Normal", "ResizeStarted", f"Pod resize started: {self._summary()}")
        life.show()
        life.after(ACTUATED_S, self._actuate, changed, before)

    def _actuate(self, changed: list[Container], before: dict[str, Obj]) -> None:
        life = self.life
        if life.terminating or life.kubelet.stopped:
            return
        for container in changed:
            if not container.alive:
                continue
            if _restarts(container, before[container.name]):
                life.event("Normal", "Killing", f"Container {container.name} resize requires restart", container)
                container.again = True
                stopping.stop(life, container, life.grace_s)
                life.after(life.grace_s, life.kill_one, container, container.started_at)
            elif isinstance(container.running, Enterable):
                container.running.resized(container.spec)
        self.life.resize_conditions.pop(IN_PROGRESS, None)
        life.event("Normal", "ResizeCompleted", f"Pod resize completed: {self._summary()}")
        life.show()

    def _lacking(self) -> str | None:
        """What the node has too little of for the pod beside the others; None: nothing."""
        life = self.life
        asked = pod_resources(life.pod, "requests")
        for name, unit in _UNITS.items():
            room = dig(life.kubelet.node, "status", "allocatable", default={}).get(name)
            if room is None or name not in asked:
                continue
            used = sum(
                (pod_resources(other, "requests").get(name, ZERO).value for other in life.kubelet.others(life.uid)),
                Fraction(0),
            )
            if used + asked[name].value > quantity(room).value:
                return (
                    f"Node didn't have enough resource: {name}, requested: {_whole(asked[name].value, unit)}, used: "
                    f"{_whole(used, unit)}, capacity: {_whole(quantity(room).value, unit)}"
                )
        return None

    def _defer(self, why: str) -> None:
        generation = self._generation
        self._set(PENDING, "Deferred", why)
        if self._told != ("Deferred", generation):
            self._told = ("Deferred", generation)
            self.life.event("Warning", "ResizeDeferred", f"Pod resize Deferred: {self._summary(why)}")
        self.life.show()
        self.life.after(RETRY_S, self.look)

    # -- what is said of it --------------------------------------------------------------------------------
    @property
    def _generation(self) -> int:
        return int(self.life.pod["metadata"].get("generation") or 0)

    def _set(self, kind: str, reason: str, message: str) -> None:
        known = self.life.resize_conditions.get(kind)
        since = known["lastTransitionTime"] if known else format_time(self.life.loop.now())
        body = {
            "type": kind,
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": since,
            "observedGeneration": self._generation,
        }
        self.life.resize_conditions[kind] = body | {
            name: text for name, text in (("reason", reason), ("message", message)) if text
        }

    def _clear(self, kind: str) -> None:
        if self.life.resize_conditions.pop(kind, None) is not None:
            self.life.show()

    def _summary(self, error: str = "") -> str:
        """As Go marshals it: fields in their order, what is empty left out."""
        summary: Obj = {}
        for kind in ("initContainers", "containers"):
            listed = [
                {"name": c["name"], "resources": _sorted(c.get("resources") or {})}
                for c in self.life.pod["spec"].get(kind) or ()
            ]
            if listed:
                summary[kind] = listed
        summary["generation"] = self._generation
        return json.dumps(summary | ({"error": error} if error else {}), separators=(",", ":"))


def _restarts(container: Container, before: Obj) -> bool:
    """Whether a change is only to be had with a restart (``resizePolicy``)."""
    policies = {str(p["resourceName"]): p.get("restartPolicy") for p in container.spec.get("resizePolicy") or ()}
    now = container.spec.get("resources") or {}
    return any(
        policies.get(name) == "RestartContainer"
        and any(
            (before.get(which) or {}).get(name) != (now.get(which) or {}).get(name) for which in ("requests", "limits")
        )
        for name in _UNITS
    )


def _sorted(resources: Obj) -> Obj:
    return {which: dict(sorted(resources[which].items())) for which in ("limits", "requests") if resources.get(which)}


def _whole(value: Fraction, unit: int) -> int:
    return -int(-value * unit // 1)
