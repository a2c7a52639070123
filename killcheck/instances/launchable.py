"""Which concrete machine types a set of requirements lets through: bit masks over the catalogue, one bit a type.

What the catalogue cannot decide (network bandwidth, capacity reservations, keys of a newer Karpenter) is kept apart:
:attr:`Selection.possible` is everything that could not be excluded, :attr:`Selection.certain` what surely passes.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeVar, cast

from msgspec import Struct

from killcheck.instances.catalogue import Catalogue, InstanceType, Provider
from killcheck.instances.requirements import Requirement

__all__ = [
    "AUTO_MODE",
    "KARPENTER_AWS",
    "KARPENTER_AZURE",
    "Launchable",
    "Ranking",
    "Selection",
    "launchable",
    "well_known",
]

#: Label prefixes of the two AWS flavours of Karpenter.
KARPENTER_AWS = "karpenter.k8s.aws"
AUTO_MODE = "eks.amazonaws.com"
#: That of Karpenter on AKS, where it is called node auto-provisioning.
KARPENTER_AZURE = "karpenter.azure.com"
#: Whose types a flavour launches, by its label prefix, which is its NodeClasses' group.
FLAVOURS: Mapping[str, Provider] = {KARPENTER_AWS: "aws", AUTO_MODE: "aws", KARPENTER_AZURE: "azure"}

#: So many answers are kept of a set of types.
KEPT = 10_000
T = TypeVar("T")

_TYPE = "node.kubernetes.io/instance-type"
_CAPACITY = "karpenter.sh/capacity-type"

#: Well-known labels whose values depend on where a node starts, not on its type: any value can be had.
_ANYWHERE = frozenset(
    {
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.k8s.aws/zone-id",
        "karpenter.sh/nodepool",
    }
)
#: Names after the prefix that are well-known although the catalogue does not know their values.
_UNDECIDED = frozenset(
    {
        "instance-network-bandwidth",
        "capacity-reservation-id",
        "capacity-reservation-type",
        "capacity-reservation-interruptible",
        "placement-group-id",
        "placement-group-partition",
    }
)
#: Names after the prefix whose values the catalogue knows (karpenter-provider-aws pkg/apis/v1/labels.go, v1.14).
_NAMES = frozenset(
    {
        "nitro-sandbox",
        *(
            f"instance-{name}"
            for name in (
                "category",
                "generation",
                "family",
                "size",
                "cpu",
                "memory",
                "cpu-manufacturer",
                "cpu-sustained-clock-speed-mhz",
                "ebs-bandwidth",
                "local-nvme",
                "capability-flex",
                "hypervisor",
                "encryption-in-transit-supported",
                "gpu-name",
                "gpu-manufacturer",
                "gpu-count",
                "gpu-memory",
                "accelerator-name",
                "accelerator-manufacturer",
                "accelerator-count",
                "tenancy",
            )
        ),
    }
)


#: The same of Karpenter on AKS (karpenter-provider-azure pkg/apis/v1beta1/labels.go); the others are not decided here.
_SKU_NAMES = frozenset(
    f"sku-{name}"
    for name in (
        "name",
        "family",
        "series",
        "version",
        "cpu",
        "memory",
        "gpu-name",
        "gpu-manufacturer",
        "gpu-count",
    )
)
_SKU_UNDECIDED = frozenset(
    {"sku-networking-accelerated", "sku-storage-premium-capable", "sku-storage-ephemeralos-maxsize", "placement-scope"}
)
#: Labels of AKS' own domain that are well-known to it, and restrict no size.
_AKS = frozenset(
    f"kubernetes.azure.com/{name}"
    for name in ("sku-cpu", "sku-memory", "cluster", "mode", "scalesetpriority", "priority", "os-sku", "fips_enabled")
)


#: Labels by which a list names particular types: a value that is not in the catalogue is a type that is not.
_IDENTIFYING = frozenset(
    {
        "type",
        "sku-name",
        "sku-family",
        "sku-series",
        "sku-gpu-name",
        *(
            f"instance-{name}"
            for name in (
                "category",
                "family",
                "generation",
                "size",
                "gpu-name",
                "gpu-manufacturer",
                "accelerator-name",
                "accelerator-manufacturer",
            )
        ),
    }
)


@functools.cache
def well_known(prefix: str) -> frozenset[str]:
    """The labels that the Karpenter with ``prefix`` knows the values of, and that pods may therefore ask for."""
    core = {_TYPE, _CAPACITY, "kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/windows-build"}
    azure = prefix == KARPENTER_AZURE
    own = _SKU_NAMES | _SKU_UNDECIDED if azure else _NAMES | _UNDECIDED
    return frozenset({f"{prefix}/{name}" for name in own} | core | _ANYWHERE | (_AKS if azure else frozenset()))


class Selection(Struct, frozen=True):
    """Masks of types; ``undecided`` are the keys that kept ``certain`` from being ``possible``."""

    certain: int
    possible: int
    undecided: tuple[str, ...] = ()


class Launchable:
    """Some types, indexed by label value. Of a whole catalogue, have it from :func:`launchable`, which keeps it."""

    def __init__(self, types: Iterable[InstanceType]) -> None:
        self.types: tuple[InstanceType, ...] = tuple(types)
        self.all = (1 << len(self.types)) - 1
        self.bits = {one.name: 1 << index for index, one in enumerate(self.types)}
        self._index: dict[str, dict[str, int]] = {}
        self._bearers: dict[str, int] = {}
        self._masks: dict[Requirement, int] = {}
        self._rank: dict[str, Ranking] = {}
        self._patterns: dict[str, int] = {}
        #: Kept for :mod:`killcheck.fence.bounds`: types by what they are worth for a resource, and what they add up to.
        self.rates: dict[str, tuple[Ranking, list[float]]] = {}
        self._kept: dict[Hashable, Any] = {}

    def kept(self, key: Hashable, found: Callable[[], T]) -> T:
        """What somebody found out about these types, who asks the same again and again."""
        if key not in self._kept:
            if len(self._kept) > KEPT:
                self._kept.clear()
            self._kept[key] = found()
        return cast(T, self._kept[key])

    def members(self, mask: int) -> Iterator[InstanceType]:
        """The types of a mask, in order of name."""
        while mask:
            lowest = mask & -mask
            yield self.types[lowest.bit_length() - 1]
            mask ^= lowest

    def mask(self, types: Iterable[InstanceType]) -> int:
        """The mask of some types (unknown ones left out)."""
        found = 0
        for one in types:
            found |= self.bits.get(one.name, 0)
        return found

    def first(self, mask: int, by: str) -> InstanceType | None:
        """The first of a mask by ``devices`` (most), ``usd`` (dearest) or ``cheapest``; ties go to the dearer one.

        Unpriced types come last by ``usd`` and by ``cheapest``.
        """
        return self._ranked(by).first(mask)

    def ordered(self, mask: int, by: str) -> list[InstanceType]:
        """All types of a mask in that order."""
        return [one for bit, one in self._ranked(by).entries if mask & bit] if mask else []

    @functools.cached_property
    def priced(self) -> int:
        """The types whose price is known."""
        return self.mask(one for one in self.types if one.usd_per_hour is not None)

    def matching(self, patterns: Iterable[str]) -> int:
        """The types whose names match one of some shell patterns; kept by pattern."""
        found = 0
        for pattern in patterns:
            if pattern not in self._patterns:
                self._patterns[pattern] = self.mask(one for one in self.types if fnmatchcase(one.name, pattern))
            found |= self._patterns[pattern]
        return found

    def smallest(self, mask: int, resource: str) -> int:
        """The least of a resource that a type of the mask has."""
        return next((amount for amount, bits in sorted(self._amounts(resource).items()) if bits & mask), 0)

    def select(self, requirements: Mapping[str, Requirement], prefix: str, *, os: str = "linux") -> Selection:
        """The types that pass every requirement on a label Karpenter knows; other keys restrict nothing."""
        certain = possible = self._of(prefix)
        undecided = []
        for key, requirement in requirements.items():
            sure, maybe = self._passing(key, requirement, prefix, os)
            certain &= sure
            possible &= maybe
            if sure != maybe:
                undecided.append(key)
        return Selection(certain, possible, tuple(undecided))

    def unknown_values(self, key: str, requirement: Requirement, prefix: str) -> list[str]:
        """Values that a list on an identifying label names and no type here has: types that the catalogue lacks."""
        domain, _, said = key.rpartition("/")
        name = "type" if key == _TYPE else said if domain == prefix else ""  # a label of one's own may be called so too
        if requirement.complement or name not in _IDENTIFYING:
            return []
        return sorted(requirement.values - self._values(name).keys())

    def within(self, mask: int, limits: Mapping[str, float]) -> int:
        """The types of ``mask`` whose capacity exceeds none of ``limits`` (in a capacity's own units)."""
        for resource, most in limits.items():
            if resource == "nodes":
                mask = mask if most >= 1 else 0
                continue
            for amount, bits in self._amounts(resource).items():
                if amount > most:
                    mask &= ~bits
        return mask

    # -- inside --------------------------------------------------------------------------------------------
    def _of(self, prefix: str) -> int:
        """The types of the cloud whose Karpenter it is."""
        if prefix not in self._patterns:
            provider = FLAVOURS.get(prefix, "aws")
            self._patterns[prefix] = self.mask(one for one in self.types if one.provider == provider)
        return self._patterns[prefix]

    def _passing(self, key: str, requirement: Requirement, prefix: str, os: str) -> tuple[int, int]:
        """(surely, possibly) passing masks of one requirement."""
        if key in _ANYWHERE:
            passes = requirement.complement or bool(requirement.values)
            return (self.all, self.all) if passes else (0, 0)
        if key == "kubernetes.io/os":
            passes = requirement.allows((os,))
            return (self.all, self.all) if passes else (0, self.all if requirement.allows(("windows",)) else 0)
        if key == "node.kubernetes.io/windows-build":
            return (self.all, self.all) if requirement.lenient and os == "linux" else (0, self.all)
        if key == _CAPACITY:
            sure = self._indexed("usage", requirement)
            return sure, self.all if requirement.has("reserved") else sure
        if key in (_TYPE, "kubernetes.io/arch"):
            mask = self._indexed("type" if key == _TYPE else "arch", requirement)
            return mask, mask
        domain, _, name = key.partition("/")
        if domain != prefix:
            return self.all, self.all
        if name in ("ec2nodeclass", "nodeclass", "aksnodeclass"):
            return self.all, self.all  # the pool's own label: no type carries it, and nothing conflicts
        if name in (_SKU_NAMES if prefix == KARPENTER_AZURE else _NAMES):
            mask = self._indexed(name, requirement)
            return mask, mask
        return 0, self.all

    def _indexed(self, name: str, requirement: Requirement) -> int:
        """Types whose label ``name`` passes; kept by requirement, which is immutable."""
        known = self._masks.get(requirement)
        if known is None:
            values = self._values(name)
            known = ~self._bearers[name] & self.all if requirement.lenient else 0
            if requirement.complement:
                for value, mask in values.items():
                    if requirement.has(value):
                        known |= mask
            else:
                for value in requirement.values:
                    known |= values.get(value, 0)
            self._masks[requirement] = known
        return known

    def _values(self, name: str) -> dict[str, int]:
        if name not in self._index:
            values: dict[str, int] = {}
            bearers = 0
            for index, one in enumerate(self.types):
                for value in one.usage if name == "usage" else one.label(name):
                    values[value] = values.get(value, 0) | 1 << index
                    bearers |= 1 << index
            self._index[name] = values
            self._bearers[name] = bearers
        return self._index[name]

    def _amounts(self, resource: str) -> dict[int, int]:
        name = f"capacity {resource}"
        if name not in self._index:
            amounts: dict[int, int] = {}
            for index, one in enumerate(self.types):
                amount = one.capacity.get(resource, 0)
                amounts[amount] = amounts.get(amount, 0) | 1 << index
            self._index[name] = amounts  # type: ignore[assignment]
        return self._index[name]  # type: ignore[return-value]

    def _ranked(self, by: str) -> Ranking:
        if by not in self._rank:
            order = {
                "devices": lambda one: (-one.devices, -(one.usd_per_hour or 0), one.name),
                "usd": lambda one: (-(one.usd_per_hour or 0), -one.devices, one.name),
                "cheapest": lambda one: (one.usd_per_hour is None, one.usd_per_hour or 0, one.vcpu, one.name),
            }[by]
            self._rank[by] = self.ranking(sorted(self.types, key=order))
        return self._rank[by]

    def ranking(self, types: Iterable[InstanceType]) -> Ranking:
        """Some types in an order of one's own."""
        return Ranking([(self.bits[one.name], one) for one in types])


class Ranking:
    """Types in an order; the first of a mask is found by halving, not by walking."""

    def __init__(self, entries: list[tuple[int, InstanceType]]) -> None:
        self.entries = entries
        self._upto = list(itertools.accumulate((bit for bit, _ in entries), operator.or_))

    def position(self, mask: int) -> int:
        """Where the first of a mask stands; the length where none does."""
        if not self._upto or not mask & self._upto[-1]:
            return len(self.entries)
        low, high = 0, len(self.entries) - 1
        while low < high:
            middle = (low + high) // 2
            if mask & self._upto[middle]:
                high = middle
            else:
                low = middle + 1
        return low

    def first(self, mask: int) -> InstanceType | None:
        """The first of a mask."""
        at = self.position(mask)
        return self.entries[at][1] if at < len(self.entries) else None

    def top(self, mask: int, count: int) -> list[InstanceType]:
        """The first ``count`` of a mask."""
        found: list[InstanceType] = []
        while len(found) < count and (at := self.position(mask)) < len(self.entries):
            bit, one = self.entries[at]
            found.append(one)
            mask &= ~bit
        return found


def launchable(catalogue: Catalogue, *providers: Provider) -> Launchable:
    """The index of a catalogue's types of some providers (none named: AWS'); made once a catalogue."""
    wanted = providers or ("aws",)
    kept, key = catalogue._views, f"launchable {' '.join(wanted)}"
    if key not in kept:
        kept[key] = Launchable(one for provider in wanted for one in catalogue.of(provider))
    found: Launchable = kept[key]
    return found
