"""Kubernetes quantities (``500m``, ``64Mi``, ``1e3``): exact numbers, and the canonical text of them.

Source: k8s.io/apimachinery/pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from killcheck.kube.objects import Obj, dig

__all__ = ["ZERO", "Quantity", "pod_resources", "quantity"]

_SYNTAX = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[KMGTPE]i|[numkMGTPE]?)")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}


@dataclass(frozen=True, slots=True)
class Quantity:
    """``form`` is how it is written: binary (Ki, Mi), decimal (m, k, M) or exponent (e3)."""

    value: Fraction
    form: str = "decimal"

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.value + other.value, self.form if self.value else other.form)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.value - other.value, self.form if self.value else other.form)

    def __lt__(self, other: Quantity) -> bool:
        return self.value < other.value

    def __le__(self, other: Quantity) -> bool:
        return self.value <= other.value

    def __str__(self) -> str:
        if self.form == "binary" and abs(self.value) >= 1024 and self.value.denominator == 1:
            return _binary(int(self.value))
        return _decimal(self.value, exponent=self.form == "exponent")


ZERO = Quantity(Fraction(0))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    found = _SYNTAX.fullmatch(text)
    if not found:
        raise ValueError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    sign, digits, suffix = found.groups()
    value = Fraction(digits) * (-1 if sign == "-" else 1)
    if suffix in _BINARY and suffix:
        return Quantity(value * 1024 ** _BINARY.index(suffix), "binary")
    if suffix in _DECIMAL:
        return Quantity(_round(value * Fraction(10) ** _DECIMAL[suffix]), "decimal")
    return Quantity(_round(value * Fraction(10) ** int(suffix[1:])), "exponent")


def quantity(value: Any) -> Quantity:
    """The quantity that a string or a number writes. Raises ValueError."""
    return _parse(str(value))


def _round(value: Fraction) -> Fraction:
    """Nano is the finest that there is; what is finer is rounded up."""
    nanos = value * 10**9
    return value if nanos.denominator == 1 else Fraction(-(-nanos.numerator // nanos.denominator), 10**9)


def _binary(value: int) -> str:
    power = 0
    while value and value % 1024 == 0 and power < len(_BINARY) - 1:
        value //= 1024
        power += 1
    return f"{value}{_BINARY[power]}"


def _decimal(value: Fraction, *, exponent: bool) -> str:
    value = _round(value)
    if not value:
        return "0"
    power = -9
    mantissa = int(value * 10**9)
    while mantissa % 1000 == 0 and power < 18:
        mantissa //= 1000
        power += 3
    if exponent:
        return f"{mantissa}e{power}" if power else str(mantissa)
    return f"{mantissa}{_SUFFIX[power]}"


def pod_resources(pod: Obj, which: str) -> dict[str, Quantity]:
    """What a whole pod asks for: ``which`` is ``requests`` or ``limits``.

    Containers and restartable init containers (sidecars) add up; other init containers count where they need more
    than that; overhead is added. Source: k8s.io/component-helpers/resource/helpers.go.
    """
    spec: Obj = pod.get("spec") or {}
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        _add(total, _of(container, which))
    started: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        need = _of(container, which)
        if container.get("restartPolicy") == "Always":
            _add(total, need)
            _add(started, need)
            need = dict(started)
        else:
            _add(need, started)
        _raise(peak, need)
    _raise(total, peak)
    total |= _of(spec, which)
    overhead = {name: quantity(value) for name, value in (spec.get("overhead") or {}).items()}
    for name, amount in overhead.items():
        if which == "requests" or name in total:
            total[name] = total.get(name, ZERO) + amount
    return total


def _of(holder: Obj, which: str) -> dict[str, Quantity]:
    return {name: quantity(value) for name, value in dig(holder, "resources", which, default={}).items()}


def _add(into: dict[str, Quantity], more: dict[str, Quantity]) -> None:
    for name, amount in more.items():
        into[name] = into.get(name, ZERO) + amount


def _raise(into: dict[str, Quantity], least: dict[str, Quantity]) -> None:
    for name, amount in least.items():
        if name not in into or into[name] < amount:
            into[name] = amount
