"""Who has how much of what, and who borrows: ClusterQueues' nominal quotas, cohorts of one level, what is reserved.

Source: kubernetes-sigs/kueue pkg/cache/scheduler/resource_node.go (available, potentialAvailable, localQuota). Left
out: Cohort objects with quotas or parents of their own, fair sharing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from killcheck.cloud.amounts import amount
from killcheck.kube.objects import Obj, dig, name_of

__all__ = ["FlavorResource", "Limits", "Quotas", "cohort_of", "flavors_of"]

#: (flavor, resource).
FlavorResource = tuple[str, str]
#: Sums of halves and thirds of cores are compared with this much patience.
EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Limits:
    """One resource of one flavor in one ClusterQueue; None: no limit of that kind."""

    nominal: float
    borrowing: float | None
    lending: float | None

    @property
    def local(self) -> float:
        """What is never lent."""
        return max(0.0, self.nominal - self.lending) if self.lending is not None else 0.0


NOTHING = Limits(0.0, None, None)


def cohort_of(queue: Obj) -> str:
    """The cohort's name: ``spec.cohort`` in v1beta1, ``spec.cohortName`` in v1beta2."""
    return str(dig(queue, "spec", "cohort", default="") or dig(queue, "spec", "cohortName", default=""))


def flavors_of(queue: Obj) -> list[str]:
    """Every ResourceFlavor that a ClusterQueue names."""
    groups = dig(queue, "spec", "resourceGroups", default=[])
    return [str(flavor["name"]) for group in groups for flavor in group.get("flavors") or ()]


class Quotas:
    """The quotas of some ClusterQueues and what is used of them."""

    def __init__(self, queues: Iterable[Obj]) -> None:
        self.limits: dict[str, dict[FlavorResource, Limits]] = {}
        self.cohorts: dict[str, str] = {}
        self.used: dict[str, dict[FlavorResource, float]] = {}
        for queue in queues:
            name = name_of(queue)
            self.limits[name] = dict(_limits(queue))
            self.used[name] = {}
            if cohort_of(queue):
                self.cohorts[name] = cohort_of(queue)

    def add(self, queue: str, usage: Mapping[FlavorResource, float], sign: int = 1) -> None:
        """Reserve, or with ``sign`` -1 give back."""
        used = self.used.setdefault(queue, {})
        for key, value in usage.items():
            used[key] = used.get(key, 0.0) + sign * value

    def available(self, queue: str, key: FlavorResource) -> float:
        """What is left for a queue, borrowing included; negative where a quota was lowered below what is used."""
        own, used = self.limit(queue, key), self.used[queue].get(key, 0.0)
        if queue not in self.cohorts:
            return own.nominal - used
        members = self.members(queue)
        lent = sum(self.limit(one, key).nominal - self.limit(one, key).local for one in members)
        taken = sum(max(0.0, self.used[one].get(key, 0.0) - self.limit(one, key).local) for one in members)
        shared = lent - taken
        if own.borrowing is not None:
            shared = min(shared, own.nominal - own.local - max(0.0, used - own.local) + own.borrowing)
        return max(0.0, own.local - used) + shared

    def most(self, queue: str, key: FlavorResource) -> float:
        """What a queue could have if nothing were used."""
        own = self.limit(queue, key)
        if queue not in self.cohorts:
            return own.nominal
        lent = sum(self.limit(one, key).nominal - self.limit(one, key).local for one in self.members(queue))
        most = own.local + lent
        return most if own.borrowing is None else min(most, own.nominal + own.borrowing)

    def fits(self, queue: str, usage: Mapping[FlavorResource, float]) -> bool:
        """Whether a queue has room for all of it."""
        return all(value <= self.available(queue, key) + EPSILON for key, value in usage.items())

    def would_borrow(self, queue: str, usage: Mapping[FlavorResource, float]) -> bool:
        """Whether a queue that used this much more would be above its nominal quota."""
        return any(
            self.used[queue].get(key, 0.0) + value > self.limit(queue, key).nominal + EPSILON
            for key, value in usage.items())

    def borrows(self, queue: str, keys: Iterable[FlavorResource]) -> bool:
        """Whether a queue uses more than its nominal quota of any of these."""
        return any(self.used[queue].get(key, 0.0) > self.limit(queue, key).nominal + EPSILON for key in keys)

    def limit(self, queue: str, key: FlavorResource) -> Limits:
        """A queue's limits; of what it does not have, none at all."""
        return self.limits[queue].get(key, NOTHING)

    def members(self, queue: str) -> list[str]:
        """The queues of its cohort, itself included."""
        cohort = self.cohorts.get(queue)
        return [one for one, name in self.cohorts.items() if name == cohort] if cohort else [queue]


def _limits(queue: Obj) -> Iterable[tuple[FlavorResource, Limits]]:
    for group in dig(queue, "spec", "resourceGroups", default=[]):
        for flavor in group.get("flavors") or ():
            for entry in flavor.get("resources") or ():
                yield (str(flavor["name"]), str(entry["name"])), Limits(
                    amount(entry.get("nominalQuota", 0)), _maybe(entry.get("borrowingLimit")),
                    _maybe(entry.get("lendingLimit")))


def _maybe(value: object) -> float | None:
    return None if value is None else amount(value)
