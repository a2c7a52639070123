"""Attribute-based instance selection: the types that EC2's ``InstanceRequirements`` let an Auto Scaling group pick.

Source: EC2 API reference, InstanceRequirements (2026). Without ``AcceleratorCount`` with a ``Max``, types with devices
are among them; only EC2's default price protection, which depends on the day's prices, may keep them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from killcheck.instances.catalogue import InstanceType
from killcheck.instances.launchable import Launchable

__all__ = ["select"]

_KINDS = {"gpu": "gpu", "fpga": "fpga", "inference": "accelerator", "media": "media"}

#: Attributes that are known and do not decide between types with and without devices, or that the catalogue lacks:
#: what they exclude stays possible, and nothing is certain.
_UNDECIDED = frozenset(
    {
        "InstanceGenerations",
        "NetworkInterfaceCount",
        "NetworkBandwidthGbps",
        "BaselineEbsBandwidthMbps",
        "LocalStorageTypes",
        "SpotMaxPricePercentageOverLowestPrice",
        "OnDemandMaxPricePercentageOverLowestPrice",
        "MaxSpotPriceAsPercentageOfOptimalOnDemandPrice",
        "RequireHibernateSupport",
        "BaselinePerformanceFactors",
        "RequireEncryptionInTransit",
    }
)


def select(requirements: Mapping[str, Any], types: Launchable) -> tuple[int, int, list[str]]:
    """(surely, possibly selected types, what could not be decided)."""
    mask, undecided = types.all, []
    tests = dict(_TESTS)
    for name, wanted in requirements.items():
        test = tests.pop(name, None)
        if test is not None:
            mask &= types.mask(one for one in types.types if test(one, wanted))
        elif name in _UNDECIDED:
            undecided.append(f"the catalogue cannot decide {name}")
        else:
            undecided.append(f"attribute {name} is not known")
    # What is not stated has a default: no bare metal, no burstable types.
    for name in ("BareMetal", "BurstablePerformance"):
        if name in tests:
            mask &= types.mask(one for one in types.types if tests[name](one, "excluded"))
    protected = _protected(requirements, types, mask)
    certain = 0 if undecided else mask & ~protected
    if protected:
        undecided.append("EC2's price protection may keep out the dearer of them, at the day's prices")
    return certain, mask, undecided


def _protected(requirements: Mapping[str, Any], types: Launchable, mask: int) -> int:
    """The types that price protection may keep out: those with devices, where none were asked for."""
    asked = {"AcceleratorCount", "AcceleratorTypes", "AcceleratorNames", "AcceleratorManufacturers"} & set(requirements)
    return 0 if asked else mask & types.mask(one for one in types.types if one.devices)


def _between(given: Any, value: float) -> bool:
    least, most = given.get("Min"), given.get("Max")
    return (least is None or value >= least) and (most is None or value <= most)


def _stated(given: Any, holds: bool) -> bool:
    return {"included": True, "excluded": not holds, "required": holds}.get(str(given), True)


def _named(patterns: Any, name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _makers(wanted: Iterable[str]) -> set[str]:
    return {{"amazon-web-services": "aws"}.get(name, name) for name in wanted}


def _accelerator_names(one: InstanceType, wanted: Any) -> bool:
    return one.device_name.replace("-80gb", "") in wanted


_TESTS: dict[str, Callable[[InstanceType, Any], bool]] = {
    "VCpuCount": lambda one, wanted: _between(wanted, one.vcpu),
    "MemoryMiB": lambda one, wanted: _between(wanted, one.memory_mib),
    "MemoryGiBPerVCpu": lambda one, wanted: _between(wanted, one.memory_mib / 1024 / one.vcpu) if one.vcpu else True,
    "CpuManufacturers": lambda one, wanted: one.cpu_manufacturer in _makers(wanted),
    "ExcludedInstanceTypes": lambda one, wanted: not _named(wanted, one.name),
    "AllowedInstanceTypes": lambda one, wanted: _named(wanted, one.name),
    "BareMetal": lambda one, wanted: _stated(wanted, "metal" in one.size),
    "BurstablePerformance": lambda one, wanted: _stated(wanted, one.family[:1] == "t" and one.family[1:2].isdigit()),
    "LocalStorage": lambda one, wanted: _stated(wanted, bool(one.local_nvme_gb)),
    "TotalLocalStorageGB": lambda one, wanted: _between(wanted, one.local_nvme_gb),
    "AcceleratorCount": lambda one, wanted: _between(wanted, one.devices),
    "AcceleratorTypes": lambda one, wanted: one.device_kind in {_KINDS.get(kind, kind) for kind in wanted},
    "AcceleratorManufacturers": lambda one, wanted: one.device_manufacturer in _makers(wanted),
    "AcceleratorNames": _accelerator_names,
    "AcceleratorTotalMemoryMiB": lambda one, wanted: _between(wanted, one.device_memory_mib * (one.device_count or 1)),
}
