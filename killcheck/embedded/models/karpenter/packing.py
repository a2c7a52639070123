"""Where pending pods would go: onto nodes that are there or under way, or onto new NodeClaims, pool by pool.

Source: sigs.k8s.io/karpenter pkg/controllers/provisioning/scheduling, v1.14. Left out: topology spread, volumes' zones,
preferences, pods with ResourceClaims (Karpenter leaves those out by default, too).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field

from killcheck.embedded.models.karpenter.pods import alternatives, anti_affine, requests, tolerates
from killcheck.embedded.models.karpenter.pool import Pool
from killcheck.embedded.models.karpenter.shortage import Shortage
from killcheck.instances.amounts import text, total
from killcheck.instances.catalogue import InstanceType
from killcheck.instances.launchable import Launchable, well_known
from killcheck.instances.requirements import RequirementError, Requirements
from killcheck.kube.objects import Obj, dig, labels_of, namespace_of

__all__ = ["Existing", "Fresh", "Packing", "allocatable", "daemon_specs", "distinct_values", "instance_type_names"]

#: Karpenter offers this many types, the cheapest, to a launch.
MAX_TYPES = 600


def allocatable(one: InstanceType) -> dict[str, float]:
    """What pods get of a type's capacity: less what the kubelet reserves and the eviction threshold (AL2023)."""
    found = {name: float(value) for name, value in one.capacity.items()}
    reserved = 0.0
    for start, end, share in ((0, 1, 0.06), (1, 2, 0.01), (2, 4, 0.005), (4, 1 << 20, 0.0025)):
        reserved += max(0, min(one.vcpu, end) - start) * share
    found["cpu"] = round(one.vcpu - reserved, 3)
    found["memory"] -= (11 * one.pods + 255 + 100) << 20
    found["ephemeral-storage"] = found["ephemeral-storage"] * 0.9 - (1 << 30)
    return found


class Existing(Struct):
    """A node, or a NodeClaim on its way to be one. ``free`` is what is left of it."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Obj]
    free: dict[str, float]
    pods: list[Obj] = field(default_factory=list)

    def take(self, pod: Obj, needs: Mapping[str, float], wanted: Sequence[Requirements]) -> bool:
        """Put the pod here if it fits."""
        if tolerates(pod["spec"], self.taints) or any(
            value > self.free.get(name, 0.0) for name, value in needs.items() if value
        ):
            return False
        if not any(self._carries(one) for one in wanted) or _apart(pod, self.pods):
            return False
        for name, value in needs.items():
            self.free[name] = self.free.get(name, 0.0) - value
        self.pods.append(pod)
        return True

    def _carries(self, wanted: Requirements) -> bool:
        return all(one.allows((self.labels[key],) if key in self.labels else ()) for key, one in wanted.items())


def _apart(pod: Obj, others: Iterable[Obj]) -> bool:
    return any(anti_affine(pod, other) or anti_affine(other, pod) for other in others)


class Fresh(Struct):
    """A NodeClaim that would be made: its pool, what it requires by now, the types still open to it."""

    pool: Pool
    requirements: Requirements
    mask: int
    needs: dict[str, float]
    overhead: dict[str, float]
    pods: list[Obj] = field(default_factory=list)


class _Refused(Struct):
    """What has no place for pods of one kind: room only shrinks and requirements only grow within a round, so what has
    refused one of them refuses the next. ``first``: of the nodes that are there, those before it; ``fresh``: ids, and
    of how many labels they tell."""

    first: int = 0
    fresh: set[tuple[int, int]] = field(default_factory=set)

    def takes(self, existing: Sequence[Existing], take: Callable[[Existing], bool]) -> bool:
        """Whether one of those that have not refused yet takes a pod."""
        while self.first < len(existing):
            if take(existing[self.first]):
                return True
            self.first += 1
        return False

    def joins(self, fresh: Sequence[Fresh], join: Callable[[Fresh], bool]) -> bool:
        """The same for NodeClaims to be, whose order changes."""
        for one in fresh:
            asked = id(one), len(one.requirements)  # a label that another pod brings is defined from then on
            if asked not in self.fresh:
                if join(one):
                    return True
                self.fresh.add(asked)
        return False


def _like(pod: Obj, needs: Mapping[str, float]) -> str:
    """The same for pods that any node takes alike: what is asked of nodes, and of the pods on them."""
    spec = pod["spec"]
    asked = [spec.get(key) for key in ("nodeSelector", "affinity", "tolerations")]
    return json.dumps([namespace_of(pod), labels_of(pod), sorted(needs.items()), asked], sort_keys=True)


class Packing:
    """One round. ``pools`` come in the order in which they are tried; ``remaining`` is what limits leave each."""

    def __init__(
        self,
        types: Launchable,
        pools: Sequence[Pool],
        *,
        remaining: Mapping[str, Mapping[str, float]],
        existing: Sequence[Existing],
        daemons: Sequence[Obj],
        unavailable: Shortage,
    ) -> None:
        self.types = types
        offered = {pool.name: types.select(pool.requirements, pool.prefix).certain for pool in pools}
        #: Pools whose requirements leave no type at all.
        self.barren = [pool for pool in pools if not offered[pool.name]]
        self.pools = [pool for pool in pools if offered[pool.name]]
        self.remaining = {name: dict(left) for name, left in remaining.items()}
        self.existing = existing
        self.daemons = daemons
        #: Types without capacity at the moment.
        self.unavailable = unavailable
        self.fresh: list[Fresh] = []
        self._refused: dict[str, _Refused] = {}

    def place(self, pod: Obj) -> str | None:
        """Find a place for a pod; returns why there is none (None: there is one)."""
        try:
            needs, wanted = requests(pod["spec"]), list(alternatives(pod["spec"]))
        except (RequirementError, ValueError) as error:
            return str(error)
        refused = self._refused.setdefault(_like(pod, needs), _Refused())
        if refused.takes(self.existing, lambda one: one.take(pod, needs, wanted)):
            return None
        self.fresh.sort(key=lambda one: len(one.pods))
        if refused.joins(self.fresh, lambda one: any(not self._join(one, pod, needs, want) for want in wanted)):
            return None
        if not self.pools:
            return "nodepool requirements filtered out all available instance types"
        errors: list[str] = []
        for pool in self.pools:
            reasons = [why for want in wanted if (why := self._open(pool, pod, needs, want))]
            if len(reasons) < len(wanted):
                return None
            errors.append(reasons[0])
        return "; ".join(errors)

    # -- inside --------------------------------------------------------------------------------------------
    def _open(self, pool: Pool, pod: Obj, needs: Mapping[str, float], wanted: Requirements) -> str | None:
        """Try a new NodeClaim of ``pool``; returns why not."""
        selection = self.types.select(pool.requirements, pool.prefix)
        left = self.remaining.get(pool.name, {})
        if left.get("nodes", 1.0) <= 0:
            return f"node limits have been exhausted for nodepool (NodePool={pool.name})"
        mask = self.types.within(selection.certain, left)
        if not mask:
            return f"all available instance types exceed limits for nodepool (NodePool={pool.name})"
        one = Fresh(pool, Requirements(pool.requirements), mask, {}, self._daemon_overhead(pool))
        why = self._join(one, pod, needs, wanted)
        if why:
            return why
        self.fresh.append(one)
        largest: dict[str, float] = {}
        for member in self.types.members(one.mask):
            for name, value in member.capacity.items():
                largest[name] = max(largest.get(name, 0.0), value)
        largest["nodes"] = 1.0
        self.remaining[pool.name] = {name: value - largest.get(name, 0.0) for name, value in left.items()}
        return None

    def _join(self, one: Fresh, pod: Obj, needs: Mapping[str, float], wanted: Requirements) -> str | None:
        """Add the pod to a NodeClaim to be; returns why it cannot be."""
        taint = tolerates(pod["spec"], one.pool.taints)
        if taint:
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"did not tolerate taint (taint={taint['key']}{value}:{taint['effect']})"
        unknown = one.requirements.undefined(wanted, well_known(one.pool.prefix))
        if unknown:
            return f'incompatible requirements, label "{unknown[0]}" does not have known values'
        conflicts = one.requirements.conflicts(wanted)
        if conflicts:
            key = conflicts[0]
            return f"incompatible requirements, key {key}, {wanted[key]} not in {one.requirements[key]}"
        if _apart(pod, one.pods):
            return "pod anti-affinity rules out every node of the nodepool"
        merged = one.requirements.merged(wanted)
        combined = total([one.needs, needs])
        mask = one.mask & self._offered(merged, one.pool.prefix)
        fitting = self._fitting(mask, total([combined, one.overhead]))
        if fitting and not distinct_values(self.types.members(fitting), merged, one.pool.prefix):
            return f"minValues requirement is not met, requirements={_spelt(merged)}"
        if not fitting:
            return self._why(one, merged, combined)
        one.requirements, one.needs, one.mask = merged, combined, fitting
        one.pods.append(pod)
        return None

    def _offered(self, requirements: Requirements, prefix: str) -> int:
        """Types that pass and have capacity in a capacity type that is allowed."""
        mask = self.types.select(requirements, prefix).certain
        allowed, zones = requirements.get("karpenter.sh/capacity-type"), requirements.get("topology.kubernetes.io/zone")
        without = [
            self.unavailable.everywhere(kind, zones)
            for kind in ("spot", "on-demand")
            if allowed is None or allowed.has(kind)
        ]
        for one in without[:1]:
            lacking = one
            for other in without[1:]:
                lacking &= other
            mask &= ~lacking
        return mask

    def _fitting(self, mask: int, needs: Mapping[str, float]) -> int:
        """Round after round asks the same: the answers are kept with the types."""
        return self.types.kept(("fitting", mask, frozenset(needs.items())), lambda: self._looked_through(mask, needs))

    def _looked_through(self, mask: int, needs: Mapping[str, float]) -> int:
        found, rooms = 0, self.types.kept("rooms", lambda: {one.name: allocatable(one) for one in self.types.types})
        for one in self.types.members(mask):
            room = rooms[one.name]
            if all(value <= room.get(name, 0.0) for name, value in needs.items() if value):
                found |= self.types.bits[one.name]
        return found

    def _daemon_overhead(self, pool: Pool) -> dict[str, float]:
        counted = []
        for spec in self.daemons:
            if tolerates(spec, pool.taints):
                continue
            wanted = list(alternatives(spec))
            if any(
                not pool.requirements.conflicts(one) and not pool.requirements.undefined(one, well_known(pool.prefix))
                for one in wanted
            ):
                counted.append(requests(spec))
        return total(counted)

    def _why(self, one: Fresh, merged: Requirements, needs: Mapping[str, float]) -> str:
        met = self._offered(merged, one.pool.prefix)
        fits = self._fitting(self.types.all, needs)
        if not met and not fits:
            says = "no instance type met the scheduling requirements or had enough resources"
        elif not met:
            says = "no instance type met all requirements"
        elif not fits:
            says = "no instance type has enough resources"
        else:
            says = (
                "no instance type which had enough resources and the required offering met the scheduling requirements"
            )
        spelt = json.dumps({name: text(name, value) for name, value in sorted(needs.items())}, separators=(",", ":"))
        return f"{says}, requirements={_spelt(merged)}, resources={spelt}"


def _spelt(requirements: Requirements) -> str:
    return ", ".join(sorted(str(one) for one in requirements.values()))


def distinct_values(types: Iterable[InstanceType], requirements: Requirements, prefix: str) -> bool:
    """Whether the types have as many distinct values as every ``minValues`` asks for."""
    asked = {key: one.min_values for key, one in requirements.items() if one.min_values}
    if not asked:
        return True
    found: dict[str, set[str]] = {key: set() for key in asked}
    for one in types:
        for key in asked:
            name = "type" if key.endswith("/instance-type") else key.removeprefix(f"{prefix}/")
            found[key].update(one.labels.get(name, one.usage if key.endswith("capacity-type") else ()))
    return all(len(found[key]) >= least for key, least in asked.items())


def instance_type_names(types: Launchable, mask: int) -> list[str]:
    """The cheapest types of a mask, as many as Karpenter offers to a launch."""
    return [one.name for one in types.ordered(mask, "cheapest")[:MAX_TYPES]]


def daemon_specs(daemonsets: Iterable[Obj]) -> list[Obj]:
    """The pod specs of some DaemonSets."""
    return [dig(one, "spec", "template", "spec", default={}) for one in daemonsets]
