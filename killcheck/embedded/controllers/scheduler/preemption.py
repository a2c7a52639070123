"""Who has to make room: the least important pods on one node, as few as will do.

Source: pkg/scheduler/framework/{preemption,plugins/defaultpreemption} of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from killcheck.embedded.controllers.scheduler.attempt import Attempt, fit_message
from killcheck.embedded.controllers.scheduler.nodes import NodeInfo, PodInfo, Reject
from killcheck.kube.objects import Obj, condition, dig, namespace_of, uid_of
from killcheck.kube.selectors import from_match_labels
from killcheck.text.values import replace

__all__ = ["Plan", "find_room"]

_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_NO_VICTIMS = Reject("DefaultPreemption", ("No preemption victims found for incoming pod",))


class Plan(Struct, frozen=True):
    """The pods that go, most important first, and how many of them a disruption budget would protect."""

    node: str
    victims: tuple[PodInfo, ...]
    violations: int


def find_room(attempt: Attempt, budgets: list[Obj]) -> Plan | str:
    """A node and its victims, or why there is none (as it stands in the event)."""
    info = attempt.info
    if info.pod["spec"].get("preemptionPolicy") == "Never":
        return "not eligible due to preemptionPolicy=Never."
    nominated = dig(info.pod, "status", "nominatedNodeName", default="")
    at = attempt.snapshot.nodes.get(nominated)
    refusal = attempt.refused.get(nominated)
    if (
        at is not None
        and (refusal is None or refusal.resolvable)
        and any(other.priority < info.priority and _being_preempted(other.pod) for other in at.pods.values())
    ):
        return "not eligible due to a terminating pod on the nominated node."
    plans: list[Plan] = []
    refused: dict[str, Reject] = {}
    for at in attempt.nodes:
        reject = attempt.refused.get(at.name)
        if reject is None or not reject.resolvable:
            continue
        found = _victims(attempt, at, budgets)
        if isinstance(found, Plan):
            plans.append(found)
        else:
            refused[at.name] = found
    if not plans:
        return fit_message(len(attempt.nodes), refused, _NOT_HELPFUL)
    return min(plans, key=_cost)


def _being_preempted(pod: Obj) -> bool:
    if "deletionTimestamp" not in pod["metadata"]:
        return False
    target = condition(pod, "DisruptionTarget")
    return target is not None and target.get("reason") == "PreemptionByScheduler"


def _started(info: PodInfo) -> str:
    return str(dig(info.pod, "status", "startTime", default="9999"))


def _cost(plan: Plan) -> tuple[int, int, int, int, str]:
    """Fewest budgets violated, least important victims, fewest, and of equals the youngest."""
    highest = [info for info in plan.victims if info.priority == plan.victims[0].priority]
    youngest = min((_started(info) for info in highest), default="")
    return (
        plan.violations,
        plan.victims[0].priority,
        sum(info.priority + 2**31 for info in plan.victims),
        len(plan.victims),
        _descending(youngest),
    )


def _descending(text: str) -> str:
    return "".join(chr(0x10FFFF - ord(letter)) for letter in text)


def _victims(attempt: Attempt, at: NodeInfo, budgets: list[Obj]) -> Plan | Reject:
    trial = at.copy()
    lower = [other for other in at.pods.values() if other.priority < attempt.info.priority]
    if not lower:
        return _NO_VICTIMS
    removed: list[PodInfo] = []
    try:
        for other in lower:
            _move(attempt, trial, other, -1)
            removed.append(other)
        reject = attempt.check(trial)
        if reject is not None:
            return replace(reject, resolvable=False)
        lower.sort(key=lambda other: (-other.priority, _started(other)))
        protected = _protected(lower, budgets)
        victims: list[PodInfo] = []
        for other in [o for o in lower if o.uid in protected] + [o for o in lower if o.uid not in protected]:
            _move(attempt, trial, other, 1)
            removed.remove(other)
            if attempt.check(trial) is not None:
                _move(attempt, trial, other, -1)
                removed.append(other)
                victims.append(other)
        if not victims:
            return _NO_VICTIMS
        victims.sort(key=lambda other: (-other.priority, _started(other)))
        return Plan(at.name, tuple(victims), sum(other.uid in protected for other in victims))
    finally:
        for other in removed:
            _move(attempt, trial, other, 1)


def _move(attempt: Attempt, trial: NodeInfo, other: PodInfo, by: int) -> None:
    if by > 0:
        trial.add(other)
    else:
        trial.remove(other.uid)
    attempt.inter_pod.moved(other, trial, by)
    attempt.spread.moved(other, trial, by)


def _protected(victims: Iterable[PodInfo], budgets: list[Obj]) -> set[str]:
    """The pods whose deletion a disruption budget would not allow."""
    left = {uid_of(budget): int(dig(budget, "status", "disruptionsAllowed", default=0)) for budget in budgets}
    found = set()
    for info in victims:
        for budget in budgets:
            if namespace_of(budget) != info.namespace:
                continue
            selector = from_match_labels(budget["spec"].get("selector"))
            if selector.empty or not selector.matches(info.labels):
                continue
            left[uid_of(budget)] -= 1
            if left[uid_of(budget)] < 0:
                found.add(info.uid)
    return found
