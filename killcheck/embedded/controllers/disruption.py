"""The disruption controller: how many pods of a budget are healthy, and how many of them may go.

Source: pkg/controller/disruption of Kubernetes v1.36; recordings 23, 23b, 23c. A pod whose eviction was granted and
that is still there after two minutes counts again.
"""

from __future__ import annotations

from datetime import timedelta

from killcheck.embedded.controllers import pods as podset
from killcheck.embedded.controllers.revisions import scaled
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    controller_of,
    dig,
    format_time,
    labels_of,
    name_of,
    namespace_of,
    parse_time,
)
from killcheck.kube.selectors import from_match_labels

__all__ = ["DisruptionController"]

#: How long an eviction that was granted may take, seconds.
TIMEOUT_S = 120.0
#: The original looks again a little later than that (recording 23c).
_SLACK_S = 0.5


class _Unknown(Exception):
    """How many pods there should be cannot be told; the message says why."""


class DisruptionController(Controller):
    """Keeps the status of every PodDisruptionBudget."""

    name = "disruption-controller"
    component = "controllermanager"

    def setup(self) -> None:
        """Follow budgets, pods, and what scales pods."""
        self.pods = self.informers.of(r.PODS)
        self.in_namespace = self.informers.index(r.PODS, "namespace", lambda pod: [namespace_of(pod)])
        self.budgets = self.follow(r.PDBS)
        self.follow(r.PODS, self._budgets_of)
        for resource in (r.DEPLOYMENTS, r.STATEFULSETS, r.REPLICASETS):
            self.follow(resource, self._rescaled)

    def _budgets_of(self, _change: Change, old: Obj | None, new: Obj) -> list[Key]:
        keys = []
        for budget in self.budgets.values():
            if namespace_of(budget) == namespace_of(new):
                selector = from_match_labels(budget["spec"].get("selector"))
                if any(obj is not None and selector.matches(labels_of(obj)) for obj in (old, new)):
                    keys.append((namespace_of(budget), name_of(budget)))
        return keys

    def _rescaled(self, change: Change, old: Obj | None, new: Obj) -> list[Key]:
        if change != "modified" or dig(old, "spec", "replicas") == dig(new, "spec", "replicas"):
            return []
        return [(namespace_of(b), name_of(b)) for b in self.budgets.values() if namespace_of(b) == namespace_of(new)]

    def reconcile(self, key: Key) -> None:
        """Count, and write it down."""
        budget = self.budgets.objects.get(key)
        if budget is None:
            return
        selector = from_match_labels(budget["spec"].get("selector"))
        pods = [pod for pod in self.in_namespace.get(key[0]) if selector.matches(labels_of(pod))]
        if not pods:
            self.events.emit(budget, "Normal", "NoPods", "No matching pods found")
        try:
            expected, desired = self._expected(budget, pods)
        except _Unknown as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            self.events.emit(budget, "Warning", "CalculateExpectedPodCountFailed", text)
            self._fail_safe(budget, str(error))
            return
        disrupted = self._disrupted(key, budget, pods)
        healthy = sum(
            podset.is_ready(pod)
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"] and name_of(pod) not in disrupted
        )
        self._write(budget, healthy, desired, expected, disrupted)

    # -- counting ------------------------------------------------------------------------------------------
    def _expected(self, budget: Obj, pods: list[Obj]) -> tuple[int, int]:
        """(how many pods there should be, how many of them healthy)."""
        most, least = budget["spec"].get("maxUnavailable"), budget["spec"].get("minAvailable")
        if most is not None:
            expected = self._scale_of(budget, pods)
            return expected, max(0, expected - scaled(most, expected, up=True))
        if isinstance(least, str):
            expected = self._scale_of(budget, pods)
            return expected, scaled(least, expected, up=True)
        return len(pods), int(least or 0)

    def _scale_of(self, budget: Obj, pods: list[Obj]) -> int:
        found: dict[str, tuple[str, int]] = {}
        unmanaged = False
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                unmanaged = True
            elif owner["uid"] not in found:
                found[owner["uid"]] = self._size(owner, pod)
        if unmanaged:
            text = (
                f"Pods selected by this PodDisruptionBudget (selector: {budget['spec'].get('selector')}) were found to "
                "be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in "
                'undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an '
                "integer value."
            )
            self.events.emit(budget, "Warning", "UnmanagedPods", text)
        return sum(dict(found.values()).values())

    def _size(self, owner: Obj, pod: Obj) -> tuple[str, int]:
        """The uid of what scales a pod, and its size."""
        namespace = namespace_of(pod)
        try:
            resource = self.kube.resource_for(owner["apiVersion"], owner["kind"])
            if resource == r.REPLICASETS:
                above = controller_of(self.kube.get(resource, owner["name"], namespace))
                if above is not None and above["kind"] == "Deployment":
                    owner, resource = above, r.DEPLOYMENTS
            scale = self.kube.get(resource, owner["name"], namespace, subresource="scale")
        except NotFound as error:
            raise _Unknown(f'found no controllers for pod "{name_of(pod)}"') from error
        except ApiError as error:
            raise _Unknown(error.message) from error
        return str(owner["uid"]), int(dig(scale, "spec", "replicas", default=0))

    def _disrupted(self, key: Key, budget: Obj, pods: list[Obj]) -> dict[str, str]:
        """The pods whose eviction was granted and is still to be believed."""
        noted = dig(budget, "status", "disruptedPods", default={})
        result: dict[str, str] = {}
        now = self.loop.now()
        for pod in pods:
            stamp = noted.get(name_of(pod))
            if not stamp or "deletionTimestamp" in pod["metadata"]:
                continue
            left = (parse_time(stamp) + timedelta(seconds=TIMEOUT_S) - now).total_seconds()
            if left < 0:
                text = f"Pod was expected by PDB {key[0]}/{key[0]} to be deleted but it wasn't"
                self.events.emit(pod, "Warning", "NotDeleted", text)
            else:
                result[name_of(pod)] = stamp
                self.queue.add(key, left + _SLACK_S)
        return result

    # -- status --------------------------------------------------------------------------------------------
    def _write(self, budget: Obj, healthy: int, desired: int, expected: int, disrupted: dict[str, str]) -> None:
        allowed = healthy - desired
        if expected <= 0 or allowed <= 0:
            allowed = 0
        state, reason = ("True", "SufficientPods") if allowed > 0 else ("False", "InsufficientPods")
        status: Obj = {
            "observedGeneration": budget["metadata"].get("generation", 0),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": [self._condition(budget, state, reason, "")],
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        if status != budget.get("status"):
            self.kube.replace(r.PDBS, budget | {"status": status}, subresource="status")

    def _fail_safe(self, budget: Obj, why: str) -> None:
        """What cannot be counted allows nothing."""
        status = (budget.get("status") or {}) | {
            "disruptionsAllowed": 0,
            "conditions": [self._condition(budget, "False", "SyncFailed", why)],
        }
        if status != budget.get("status"):
            self.kube.replace(r.PDBS, budget | {"status": status}, subresource="status")

    def _condition(self, budget: Obj, state: str, reason: str, message: str) -> Obj:
        old: Obj = next(iter(dig(budget, "status", "conditions", default=[])), {})
        since = old.get("lastTransitionTime") if old.get("status") == state else None
        return {
            "type": "DisruptionAllowed",
            "status": state,
            "observedGeneration": budget["metadata"].get("generation", 0),
            "lastTransitionTime": since or format_time(self.loop.now()),
            "reason": reason,
            "message": message,
        }
