"""CEL selectors of device classes and requests, evaluated with celpy (imported only when one is met).

Source: k8s.io/dynamic-resource-allocation/cel: ``device.driver``, ``device.attributes[domain].name``,
``device.capacity[domain].name``; ``quantity()`` and ``semver()`` with ``compareTo``, ``isGreaterThan``, ``isLessThan``;
and the API server's own functions of strings and lists.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from killcheck.embedded.api.celfunctions import FUNCTIONS
from killcheck.kube.objects import Obj
from killcheck.kube.quantities import parse
from killcheck.text import lazy_re

__all__ = ["CelMissing", "matches"]

_VERSION = lazy_re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?")


class CelMissing(Exception):
    """celpy is not installed: nothing can be said about selectors (``pip install 'killcheck[dra]'``)."""


def matches(expression: str, driver: str, device: Obj) -> bool:
    """Whether a device satisfies an expression; one that fails to evaluate is not satisfied.

    ``device`` is an entry of a ResourceSlice's ``spec.devices``. Raises CelMissing.
    """
    program = _program(expression)
    celpy = _celpy()
    variables = {"device": celpy.json_to_cel(_view(driver, device))}
    try:
        return bool(program.evaluate(variables))
    except celpy.CELEvalError:
        return False


def _celpy() -> Any:
    try:
        import celpy
    except ImportError as error:
        raise CelMissing("CEL selectors need the package cel-python") from error
    return celpy


@lru_cache(maxsize=256)
def _program(expression: str) -> Any:
    celpy = _celpy()
    environment = celpy.Environment()
    functions = {
        **FUNCTIONS,
        "quantity": _quantity,
        "semver": _semver,
        "compareTo": _compare,
        "isGreaterThan": lambda one, other: celpy.celtypes.BoolType(_compare(one, other) > 0),
        "isLessThan": lambda one, other: celpy.celtypes.BoolType(_compare(one, other) < 0),
    }
    return environment.program(environment.compile(expression), functions=functions)


def _quantity(text: Any) -> Any:
    """Amounts compare as whole billionths."""
    return _celpy().celtypes.DoubleType(float(parse(str(text))))


def _semver(text: Any) -> Any:
    return _celpy().celtypes.StringType(_sortable(str(text)))


def _sortable(text: str) -> str:
    """A version such that later ones sort after earlier ones; a pre-release sorts before its release."""
    found = _VERSION.fullmatch(text)
    if not found:
        raise ValueError(f"not a semantic version: {text}")
    numbers = ".".join(f"{int(part):09d}" for part in found.groups()[:3])
    return f"{numbers}-{found[4]}" if found[4] else f"{numbers}~"


def _compare(one: Any, other: Any) -> Any:
    return _celpy().celtypes.IntType((one > other) - (one < other))


def _view(driver: str, device: Obj) -> Obj:
    basic = device.get("basic") or device  # v1beta1 wraps
    attributes: dict[str, dict[str, Any]] = {driver: {}}
    for name, value in (basic.get("attributes") or {}).items():
        domain, _, short = name.rpartition("/")
        attributes.setdefault(domain or driver, {})[short] = _attribute(value)
    capacity: dict[str, dict[str, Any]] = {driver: {}}
    for name, value in (basic.get("capacity") or {}).items():
        domain, _, short = name.rpartition("/")
        text = value.get("value") if isinstance(value, dict) else value
        capacity.setdefault(domain or driver, {})[short] = float(parse(str(text)))
    shared = bool(basic.get("allowMultipleAllocations"))
    return {"driver": driver, "attributes": attributes, "capacity": capacity, "allowMultipleAllocations": shared}


def _attribute(value: Obj) -> Any:
    """``{"string": ...}``, ``{"int": ...}``, ``{"bool": ...}`` or ``{"version": ...}``."""
    if "version" in value:
        return _sortable(str(value["version"]))
    return next((value[kind] for kind in ("string", "int", "bool") if kind in value), None)
