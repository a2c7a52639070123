"""What pods ask for: quantities that add up and keep the form in which they are written.

Source: k8s.io/component-helpers/resource/helpers.go, and apimachinery's Quantity.Add.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from msgspec import Struct

from killcheck.kube.objects import Obj, dig
from killcheck.kube.quantities import Form, form_of, format_quantity, parse

__all__ = ["ZERO", "Quantity", "pod_resources", "quantity"]


class Quantity(Struct, frozen=True):
    """An exact amount; ``form`` is how it is written (``64Mi``, ``64M``, ``64e6``)."""

    value: Fraction
    form: Form = "decimal"

    def __add__(self, other: Quantity) -> Quantity:
        """The sum, in the form of the first that is not zero."""
        return Quantity(self.value + other.value, self.form if self.value else other.form)

    def __lt__(self, other: Quantity) -> bool:
        return self.value < other.value

    def __str__(self) -> str:
        return format_quantity(self.value, self.form)


ZERO = Quantity(Fraction(0))


def quantity(value: Any) -> Quantity:
    """The quantity that a string or a number writes. Raises QuantityError."""
    return _quantity(str(value))


@lru_cache(maxsize=1024)
def _quantity(text: str) -> Quantity:
    return Quantity(parse(text), form_of(text))


def pod_resources(pod: Obj, which: str) -> dict[str, Quantity]:
    """What a whole pod asks for: ``which`` is ``requests`` or ``limits``.

    Containers and restartable init containers (sidecars) add up; other init containers count where they need more
    than that; what the pod says for itself goes before; overhead is added.
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
    for name, value in (spec.get("overhead") or {}).items():
        if which == "requests" or name in total:
            total[name] = total.get(name, ZERO) + quantity(value)
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
