"""Kubernetes quantities as plain numbers: cores, bytes, counts. Enough for limits, requests and quotas.

Source of the format: k8s.io/apimachinery pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from killcheck.text import lazy_re

__all__ = ["amount", "amounts", "text", "total"]

_FORM = lazy_re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?", re.ASCII)
_SUFFIX: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{letter: Fraction(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{letter + "i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}


def amount(value: Any) -> float:
    """``"500m"`` is 0.5, ``"4Gi"`` 4294967296.0, ``8`` 8.0. Raises ValueError for anything else."""
    if value is True or value is False:
        raise ValueError(f"not a quantity: {value!r}")
    return _amount(str(value).strip())


@lru_cache(maxsize=4096)
def _amount(value: str) -> float:
    match = _FORM.fullmatch(value)
    if not match:
        raise ValueError(f"not a quantity: {value!r}")
    number, suffix = Fraction(match[1]), match[2] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix[1] != "i":
        return float(number * Fraction(10) ** int(suffix[1:]))
    return float(number * _SUFFIX[suffix])


def amounts(given: Mapping[str, Any] | None) -> dict[str, float]:
    """Every quantity of a resource list. Raises ValueError."""
    return {name: amount(value) for name, value in (given or {}).items()}


def total(lists: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The sum of some resource lists, by resource."""
    found: dict[str, float] = {}
    for one in lists:
        for name, value in one.items():
            found[name] = found.get(name, 0.0) + value
    return found


def text(name: str, value: float) -> str:
    """A number as a resource list spells it: memory and storage in Mi or bytes, fractions of cores in milli."""
    if name in ("memory", "ephemeral-storage") and value >= 1024:
        kibi = value / 1024
        return f"{int(kibi)}Ki" if kibi == int(kibi) else str(int(value))
    return str(int(value)) if value == int(value) else f"{round(value * 1000)}m"
