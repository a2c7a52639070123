"""Who has how much of what, and who borrows: ClusterQueues' nominal quotas, the cohorts above them, what is reserved.

A cohort is a name, or a Cohort object with quotas, limits and a parent of its own: a tree, whose leaves are queues.
Source: kubernetes-sigs/kueue pkg/cache/scheduler/resource_node.go (available, potentialAvailable, localQuota,
accumulateFromChild). Left out: fair sharing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from killcheck.instances.amounts import amount
from killcheck.kube.objects import Obj, dig, name_of

__all__ = ["FlavorResource", "Limits", "Quotas", "cohort_of", "flavors_of"]

#: (flavor, resource).
FlavorResource = tuple[str, str]
#: Sums of halves and thirds of cores are compared with this much patience.
EPSILON = 1e-6


class Limits(Struct, frozen=True):
    """One resource of one flavor in one ClusterQueue or Cohort; None: no limit of that kind."""

    nominal: float
    borrowing: float | None
    lending: float | None

    def local(self, subtree: float) -> float:
        """What of everything at and below a node is never lent to its parent."""
        return max(0.0, subtree - self.lending) if self.lending is not None else 0.0


NOTHING = Limits(0.0, None, None)


def cohort_of(queue: Obj) -> str:
    """The cohort's name: ``spec.cohort`` in v1beta1, ``spec.cohortName`` in v1beta2."""
    return str(dig(queue, "spec", "cohort", default="") or dig(queue, "spec", "cohortName", default=""))


def flavors_of(queue: Obj) -> list[str]:
    """Every ResourceFlavor that a ClusterQueue names."""
    groups = dig(queue, "spec", "resourceGroups", default=[])
    return [str(flavor["name"]) for group in groups for flavor in group.get("flavors") or ()]


class Quotas:
    """The quotas of some ClusterQueues and Cohorts, and what is used of them."""

    def __init__(self, queues: Iterable[Obj], cohorts: Iterable[Obj] = ()) -> None:
        self.limits: dict[str, dict[FlavorResource, Limits]] = {}
        self.cohorts: dict[str, str] = {}
        self.used: dict[str, dict[FlavorResource, float]] = {}
        self._pools: dict[str, dict[FlavorResource, Limits]] = {}
        self._parents: dict[str, str] = {}
        for queue in queues:
            name = name_of(queue)
            self.limits[name] = dict(_limits(queue))
            self.used[name] = {}
            if cohort_of(queue):
                self.cohorts[name] = cohort_of(queue)
        for cohort in cohorts:
            self._pools[name_of(cohort)] = dict(_limits(cohort))
            parent = str(dig(cohort, "spec", "parentName", default="") or dig(cohort, "spec", "parent", default=""))
            if parent:
                self._parents[name_of(cohort)] = parent

    def add(self, queue: str, usage: Mapping[FlavorResource, float], sign: int = 1) -> None:
        """Reserve, or with ``sign`` -1 give back."""
        used = self.used.setdefault(queue, {})
        for key, value in usage.items():
            used[key] = used.get(key, 0.0) + sign * value

    def available(self, queue: str, key: FlavorResource) -> float:
        """What is left for a queue, borrowing included; negative where a quota was lowered below what is used."""
        own, used = self.limit(queue, key), self.used[queue].get(key, 0.0)
        return self._left(own, own.nominal, used, self.cohorts.get(queue), key)

    def _left(self, own: Limits, subtree: float, used: float, parent: str | None, key: FlavorResource) -> float:
        if not parent:
            return subtree - used
        pool = self._pool(parent, key)
        above = self._left(pool, self._subtree(parent, key), self._taken(parent, key), self._parents.get(parent), key)
        local = own.local(subtree)
        if own.borrowing is not None:
            above = min(above, subtree - local - max(0.0, used - local) + own.borrowing)
        return max(0.0, local - used) + above

    def most(self, queue: str, key: FlavorResource) -> float:
        """What a queue could have if nothing were used."""
        own = self.limit(queue, key)
        return self._most(own, own.nominal, self.cohorts.get(queue), key)

    def _most(self, own: Limits, subtree: float, parent: str | None, key: FlavorResource) -> float:
        if not parent:
            return subtree
        above = self._most(self._pool(parent, key), self._subtree(parent, key), self._parents.get(parent), key)
        most = own.local(subtree) + above
        return most if own.borrowing is None else min(most, subtree + own.borrowing)

    # -- cohorts -------------------------------------------------------------------------------------------
    def cyclic(self, queue: str) -> bool:
        """Whether the cohorts above a queue are their own ancestors: then nothing is admitted."""
        seen: set[str] = set()
        cohort = self.cohorts.get(queue, "")
        while cohort:
            if cohort in seen:
                return True
            seen.add(cohort)
            cohort = self._parents.get(cohort, "")
        return False

    def _pool(self, cohort: str, key: FlavorResource) -> Limits:
        return self._pools.get(cohort, {}).get(key, NOTHING)

    def _subtree(self, cohort: str, key: FlavorResource) -> float:
        """A cohort's own quota and what its children lend it."""
        total = self._pool(cohort, key).nominal
        for queue in self._queues_in(cohort):
            own = self.limit(queue, key)
            total += own.nominal - own.local(own.nominal)
        for child in self._children(cohort):
            below = self._subtree(child, key)
            total += below - self._pool(child, key).local(below)
        return total

    def _taken(self, cohort: str, key: FlavorResource) -> float:
        """What its children use beyond what is theirs alone."""
        total = 0.0
        for queue in self._queues_in(cohort):
            own = self.limit(queue, key)
            total += max(0.0, self.used[queue].get(key, 0.0) - own.local(own.nominal))
        for child in self._children(cohort):
            local = self._pool(child, key).local(self._subtree(child, key))
            total += max(0.0, self._taken(child, key) - local)
        return total

    def _queues_in(self, cohort: str) -> list[str]:
        return [queue for queue, name in self.cohorts.items() if name == cohort]

    def _children(self, cohort: str) -> list[str]:
        return [child for child, parent in self._parents.items() if parent == cohort]

    def path(self, queue: str) -> str:
        """A queue below the cohorts that it is in, from the root on: ``/cohort/queue``."""
        found, cohort = [queue], "" if self.cyclic(queue) else self.cohorts.get(queue, "")
        while cohort:
            found.append(cohort)
            cohort = self._parents.get(cohort, "")
        return "".join(f"/{name}" for name in reversed(found))

    def _root(self, cohort: str) -> str:
        while cohort in self._parents:
            cohort = self._parents[cohort]
        return cohort

    def fits(self, queue: str, usage: Mapping[FlavorResource, float]) -> bool:
        """Whether a queue has room for all of it."""
        return all(value <= self.available(queue, key) + EPSILON for key, value in usage.items())

    def would_borrow(self, queue: str, usage: Mapping[FlavorResource, float]) -> bool:
        """Whether a queue that used this much more would be above its nominal quota."""
        return any(
            self.used[queue].get(key, 0.0) + value > self.limit(queue, key).nominal + EPSILON
            for key, value in usage.items()
        )

    def borrows(self, queue: str, keys: Iterable[FlavorResource]) -> bool:
        """Whether a queue uses more than its nominal quota of any of these."""
        return any(self.used[queue].get(key, 0.0) > self.limit(queue, key).nominal + EPSILON for key in keys)

    def limit(self, queue: str, key: FlavorResource) -> Limits:
        """A queue's limits; of what it does not have, none at all."""
        return self.limits[queue].get(key, NOTHING)

    def members(self, queue: str) -> list[str]:
        """The queues of its cohort's whole tree, itself included."""
        if queue not in self.cohorts or self.cyclic(queue):
            return [queue]
        root = self._root(self.cohorts[queue])
        return [one for one, name in self.cohorts.items() if not self.cyclic(one) and self._root(name) == root]


def _limits(queue: Obj) -> Iterable[tuple[FlavorResource, Limits]]:
    for group in dig(queue, "spec", "resourceGroups", default=[]):
        for flavor in group.get("flavors") or ():
            for entry in flavor.get("resources") or ():
                yield (
                    (str(flavor["name"]), str(entry["name"])),
                    Limits(
                        amount(entry.get("nominalQuota", 0)),
                        _maybe(entry.get("borrowingLimit")),
                        _maybe(entry.get("lendingLimit")),
                    ),
                )


def _maybe(value: object) -> float | None:
    return None if value is None else amount(value)
