"""Devices that no manifest describes, made as claims ask for them: what a DRA driver would advertise on a GPU node.

A driver names its devices in ResourceSlices, and its chart brings its DeviceClasses: neither lies beside a workload.
Both are made as the claims of a pod have them, where the CEL of class and request is satisfied by what is made; where
it is not, nothing is, and the pod's own reason is told. Sources: deployments/helm of NVIDIA's k8s-dra-driver-gpu, of
AMD's k8s-gpu-dra-driver and of Intel's resource drivers (their classes and attributes, 2026).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from killcheck.embedded.controllers.scheduler import cel
from killcheck.kube.objects import Obj, dig, namespace_of
from killcheck.text import lazy_re

__all__ = ["KNOWN_CLASSES", "Devices", "claims_at", "device_class", "devices_for", "slice_of"]

#: DeviceClasses that drivers' charts bring: the driver, and the type of its devices by its own attribute.
KNOWN_CLASSES: Mapping[str, tuple[str, str]] = {
    "gpu.nvidia.com": ("gpu.nvidia.com", "gpu"),
    "mig.nvidia.com": ("gpu.nvidia.com", "mig"),
    "vfio.gpu.nvidia.com": ("gpu.nvidia.com", "vfio"),
    "gpu.amd.com": ("gpu.amd.com", ""),
    "gpu.intel.com": ("gpu.intel.com", ""),
    "gaudi.intel.com": ("gaudi.intel.com", ""),
    "tpu.google.com": ("tpu.google.com", ""),
}
#: What NVIDIA's driver calls its products: tried in turn where an expression asks for more than an equal word.
_PRODUCTS = (
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA H100 80GB HBM3",
    "NVIDIA H200",
    "NVIDIA B200",
    "NVIDIA L4",
    "NVIDIA L40S",
    "NVIDIA A10G",
    "Tesla T4",
)
_DRIVER = lazy_re.compile(r"device\.driver\s*==\s*[\"']([^\"']+)[\"']")
_EQUAL = lazy_re.compile(
    r"device\.attributes\[[\"']([^\"']+)[\"']\]\.(\w+)\s*==\s*(?:[\"']([^\"']*)[\"']|(true|false)\b|(\d+))"
)
_CAPACITY = lazy_re.compile(r"device\.capacity\[[\"']([^\"']+)[\"']\]\.(\w+)")
#: So much of whatever a device has a capacity of.
_MUCH = "80Gi"


class Devices(Struct, frozen=True):
    """What one driver advertises: as entries of a ResourceSlice's ``devices``."""

    driver: str
    entries: tuple[Obj, ...]


def device_class(name: str) -> Obj:
    """A DeviceClass as its driver's chart has it."""
    driver, kind = KNOWN_CLASSES[name]
    expression = f"device.driver == '{driver}'" + (
        f" && device.attributes['{driver}'].type == '{kind}'" if kind else ""
    )
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def slice_of(devices: Devices, node: str) -> Obj:
    """The ResourceSlice by which a driver advertises devices of a node."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{devices.driver}"},
        "spec": {
            "driver": devices.driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices.entries),
        },
    }


def devices_for(claims: Iterable[Obj], classes: Callable[[str], Obj | None]) -> list[Devices] | None:
    """Devices that satisfy claims that are not allocated, by driver; None: what would do so is not known.

    ``classes`` gets a DeviceClass by its name. Raises CelMissing.
    """
    found: dict[str, list[Obj]] = {}
    for claim in claims:
        for request in dig(claim, "spec", "devices", "requests", default=[]):
            choice = next(iter(request.get("firstAvailable") or [request.get("exactly") or request]))
            one = _device(choice, classes(str(choice.get("deviceClassName"))))
            if one is None:
                return None
            driver, body = one
            count = 1 if choice.get("allocationMode") == "All" else int(choice.get("count") or 1)
            entries = found.setdefault(driver, [])
            entries += [{"name": f"device-{len(entries) + i}", **body} for i in range(count)]
    return [Devices(driver, tuple(entries)) for driver, entries in found.items()]


def _device(choice: Obj, of_class: Obj | None) -> tuple[str, Obj] | None:
    """(driver, a device of it) that a request would take."""
    if of_class is None:
        return None
    expressions = [*_expressions(of_class.get("spec") or {}), *_expressions(choice)]
    text = " && ".join(expressions)
    named = _DRIVER.search(text)
    driver = named[1] if named else KNOWN_CLASSES.get(str(choice.get("deviceClassName")), ("", ""))[0]
    if not driver:
        return None
    for product in _PRODUCTS:
        body = _body(driver, text, product)
        if all(cel.matches(expression, driver, body) for expression in expressions):
            return driver, body
    return None


def _expressions(holder: Obj) -> Iterator[str]:
    for selector in holder.get("selectors") or ():
        if expression := dig(selector, "cel", "expression"):
            yield str(expression)


def _body(driver: str, text: str, product: str) -> Obj:
    """A device with the attributes that expressions compare with something, and the capacities that they ask about."""
    attributes: dict[str, Any] = {"type": {"string": "gpu"}, "productName": {"string": product}}
    for domain, name, word, truth, number in _EQUAL.findall(text):
        key = name if domain == driver else f"{domain}/{name}"
        attributes[key] = {"bool": truth == "true"} if truth else {"int": int(number)} if number else {"string": word}
    capacity = {"memory": {"value": _MUCH}}
    for domain, name in _CAPACITY.findall(text):
        capacity[name if domain == driver else f"{domain}/{name}"] = {"value": _MUCH}
    return {"attributes": attributes, "capacity": capacity}


def claims_at(claims: Iterable[Obj], namespace: str, names: Iterable[str | None]) -> list[Obj] | None:
    """The claims of these names; None while one is not there yet."""
    by_name = {claim["metadata"]["name"]: claim for claim in claims if namespace_of(claim) == namespace}
    wanted = list(names)
    return [by_name[str(name)] for name in wanted] if all(name in by_name for name in wanted) else None
