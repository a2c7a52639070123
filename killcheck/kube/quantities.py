"""Kubernetes quantities (``500m``, ``64Mi``, ``1e3``): exact numbers, and the canonical text of them.

Source: k8s.io/apimachinery/pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from killcheck.text import lazy_re

__all__ = ["Form", "QuantityError", "canonical", "form_of", "format_quantity", "parse"]

#: How a quantity is written: ``64M``, ``64Mi`` or ``64e6``.
Form = Literal["decimal", "binary", "exponent"]

_SYNTAX = lazy_re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = ("", *_BINARY)
_MOST = 2**63 - 1
_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class QuantityError(ValueError):
    """Not a quantity; the message is Kubernetes'."""


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[Fraction, Form]:
    found = _SYNTAX.fullmatch(text)
    if not text or found is None:
        raise QuantityError(_WRONG)
    sign, whole, fraction, suffix = found.groups()
    if not whole and not fraction:
        raise QuantityError("unable to parse numeric part of quantity" if suffix else _WRONG)
    scale, form = _scale(suffix)
    digits = int((whole or "") + (fraction or "") or 0)
    magnitude = _round_up(Fraction(digits, 10 ** len(fraction or "")) * scale)
    if form == "binary":
        magnitude = min(magnitude, Fraction(_MOST))
        if 0 < magnitude < 1:
            form = "decimal"
    return -magnitude if sign == "-" else magnitude, form


def _scale(suffix: str) -> tuple[Fraction, Form]:
    if suffix in _DECIMAL:
        return Fraction(10) ** _DECIMAL[suffix], "decimal"
    if suffix in _BINARY:
        return Fraction(2 ** _BINARY[suffix]), "binary"
    if re.fullmatch(r"[eE][-+]?[0-9]{1,3}", suffix):
        return Fraction(10) ** int(suffix[1:]), "exponent"
    raise QuantityError("unable to parse quantity's suffix")


def _round_up(value: Fraction) -> Fraction:
    """Nano is the finest that there is; what is finer is rounded away from zero."""
    nanos = value * 10**9
    return value if nanos.denominator == 1 else Fraction(-(-nanos.numerator // nanos.denominator), 10**9)


def parse(quantity: str | float) -> Fraction:
    """The exact number that a quantity writes: ``"500m"`` is 1/2. Raises QuantityError."""
    return _parsed(str(quantity))[0]


def form_of(quantity: str | float) -> Form:
    """How a quantity is written, so that what is computed from it can be written alike. Raises QuantityError."""
    return _parsed(str(quantity))[1]


def format_quantity(value: Fraction | int, form: Form = "decimal") -> str:
    """The canonical text: no fraction, the largest suffix that allows it (``1500m``, ``1536Mi``, ``2e3``)."""
    value = Fraction(value)
    if not value:
        return "0"
    if form == "binary" and abs(value) >= 1024 and value.denominator == 1:
        return _with_binary_suffix(int(value))
    magnitude = _round_up(abs(value))
    power, number = -9, int(magnitude * 10**9)
    while number % 1000 == 0 and (power < 18 or form == "exponent"):
        number, power = number // 1000, power + 3
    if form == "exponent":
        suffix = f"e{power}" if power else ""
    else:
        suffix = _SUFFIX[power]
    return f"{'-' if value < 0 else ''}{number}{suffix}"


def _with_binary_suffix(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < len(_BINARY):
        value, power = value // 1024, power + 1
    return f"{value}{_BINARY_SUFFIX[power]}"


@lru_cache(maxsize=4096)
def canonical(quantity: str) -> str:
    """A quantity as the API server writes it back: ``0.5`` is ``500m``, ``1024Mi`` is ``1Gi``. Raises QuantityError."""
    value, form = _parsed(quantity)
    return format_quantity(value, form)
