"""Single values as Go's JSON decoder reads them: numbers by size, quantities, times, bytes.

Source: sigs.k8s.io/json; metav1.Time and MicroTime, resource.Quantity, intstr.IntOrString in k8s.io/apimachinery.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from killcheck.kube.objects import copy
from killcheck.kube.quantities import QuantityError, canonical
from killcheck.text import lazy_re

__all__ = ["NEVER_EMPTY", "OMIT", "Mismatch", "reader"]

#: A value that is not written at all.
OMIT: Any = object()
#: Types whose zero is a value like any other, or that have their own way of being empty.
NEVER_EMPTY = frozenset({"Quantity", "IntOrString", "Time", "MicroTime", "Duration", "any"})


class Mismatch(Exception):
    """A value of the wrong type, on its way up to the top of the object."""

    def __init__(self, value: Any, go_type: str, *, shown: str = "", plain: str = "") -> None:
        super().__init__(plain)
        self.shown = shown or json_type(value)
        self.go_type = go_type
        self.plain = plain
        self.struct = ""
        self.path: list[str] = []

    def inside(self, struct: str, key: str) -> None:
        """Say in which structure's field it was; called from the innermost outwards."""
        self.struct = self.struct or struct
        self.path.insert(0, key)

    def words(self) -> str:
        """What encoding/json says."""
        if self.plain:
            return self.plain
        if not self.path:
            return f"json: cannot unmarshal {self.shown} into Go value of type {self.go_type}"
        at = f"{self.struct}.{'.'.join(self.path)}"
        return f"json: cannot unmarshal {self.shown} into Go struct field {at} of type {self.go_type}"


def json_type(value: Any) -> str:
    """The word that Go uses for a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def reader(base: str, go: str) -> Callable[[Any], Any]:
    """The function that reads a scalar type; it raises Mismatch."""
    if base == "string" and go:
        return _named_string(go)
    return _READERS[base]


def _string(value: Any) -> Any:
    if value.__class__ is str or isinstance(value, str):
        return value
    raise Mismatch(value, "string")


def _named_string(go: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if value.__class__ is str or isinstance(value, str):
            return value
        raise Mismatch(value, go)

    return read


def _bool(value: Any) -> Any:
    if value is True or value is False:
        return value
    raise Mismatch(value, "bool")


def _integer(go: str, bits: int) -> Callable[[Any], Any]:
    limit = 1 << (bits - 1)

    def read(value: Any) -> Any:
        if value.__class__ is int:
            if -limit <= value < limit:
                return value
            raise Mismatch(value, go, shown=f"number {value}")
        if isinstance(value, float):
            raise Mismatch(value, go, shown=f"number {value!r}")
        raise Mismatch(value, go)

    return read


def _float(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise Mismatch(value, "float64")


def _quantity(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        text = str(value).lower()
    else:
        text = str(value)
    try:
        return canonical(text.strip())
    except QuantityError as error:
        raise Mismatch(value, "", plain=str(error)) from error


def _int_or_string(value: Any) -> Any:
    return value if isinstance(value, str) else _INT32(value)


def _bytes(value: Any) -> Any:
    if isinstance(value, list):  # a list of bytes is as good
        for one in value:
            if not isinstance(one, int) or isinstance(one, bool) or not 0 <= one < 256:
                number = isinstance(one, int | float) and not isinstance(one, bool)
                raise Mismatch(one, "uint8", shown=f"number {one}" if number else "")
        return base64.b64encode(bytes(value)).decode()
    if not isinstance(value, str):
        raise Mismatch(value, "[]uint8")
    text = value.replace("\n", "").replace("\r", "")
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    except (binascii.Error, ValueError) as error:
        wrong = next(
            (i for i, c in enumerate(text) if not (c.isascii() and (c.isalnum() or c in "+/="))), len(text) // 4 * 4
        )
        raise Mismatch(value, "", plain=f"illegal base64 data at input byte {wrong}") from error


_RFC3339 = lazy_re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_MICRO = lazy_re.compile(r"[.,]\d{6}(Z|[+-])")
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"


def _moment(value: str, layout: str) -> datetime:
    found = _RFC3339.fullmatch(value)
    if found:
        try:
            return datetime.fromisoformat(value.replace(",", ".").replace("Z", "+00:00")).astimezone(UTC)
        except ValueError as error:
            raise Mismatch(value, "", plain=f'parsing time "{value}": {_out_of_range(found)} out of range') from error
    rest, wanted = _unparsed(value, layout)
    raise Mismatch(value, "", plain=f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{wanted}"')


def _out_of_range(found: re.Match[str]) -> str:
    for name, group, most in (("month", 2, 12), ("hour", 4, 23), ("minute", 5, 59), ("second", 6, 59)):
        if int(found[group]) > most:
            return name
    return "day"


def _unparsed(value: str, layout: str) -> tuple[str, str]:
    """What is left of the text where it stops following the layout, and what Go wanted there."""
    parts = [
        ("2006", r"\d{4}"),
        ("-", "-"),
        ("01", r"\d\d"),
        ("-", "-"),
        ("02", r"\d\d"),
        ("T", "T"),
        ("15", r"\d\d"),
        (":", ":"),
        ("04", r"\d\d"),
        (":", ":"),
        ("05", r"\d\d"),
    ]
    if layout == _MICRO_LAYOUT:
        parts.append((".000000", r"\.\d{6}"))
    rest = value
    for wanted, pattern in parts:
        found = re.match(pattern, rest, re.ASCII)
        if not found:
            return rest, wanted
        rest = rest[found.end() :]
    return rest, "Z07:00"


@lru_cache(maxsize=1024)
def _canonical_time(value: str) -> str:
    return _moment(value, _LAYOUT).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(value: Any) -> Any:
    if not isinstance(value, str):
        raise Mismatch(value, "string")
    return _canonical_time(value)


def _micro_time(value: Any) -> Any:
    if not isinstance(value, str):
        raise Mismatch(value, "string")
    if _RFC3339.fullmatch(value) and not _MICRO.search(value):
        rest, wanted = _unparsed(value, _MICRO_LAYOUT)
        words = f'parsing time "{value}" as "{_MICRO_LAYOUT}": cannot parse "{rest}" as "{wanted}"'
        raise Mismatch(value, "", plain=words)
    return _moment(value, _MICRO_LAYOUT).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _any(value: Any) -> Any:
    return copy({"": value})[""]


_INT32 = _integer("int32", 32)
_READERS: dict[str, Callable[[Any], Any]] = {
    "string": _string,
    "bool": _bool,
    "int32": _INT32,
    "int64": _integer("int64", 64),
    "float64": _float,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "bytes": _bytes,
    "Time": _time,
    "MicroTime": _micro_time,
    "Duration": _string,
    "any": _any,
}
