"""Values by their fields, whatever made their class.

Most values here are ``msgspec.Struct``: making a class of that kind takes a twentieth of the time that a dataclass
takes, and a drill imports four hundred of them. Where one field is compared or shown differently it is a dataclass.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, cast

from msgspec import Struct, structs

__all__ = ["given", "replace"]

T = TypeVar("T")


def given(value: object) -> dict[str, Any] | None:
    """What a value was made of, by field; None for what has no fields."""
    if isinstance(value, Struct):
        return structs.asdict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return None


def replace(value: T, /, **changes: Any) -> T:
    """``copy.replace`` of Python 3.13: the same value but for ``changes``. Raises TypeError for a field it has not."""
    if isinstance(value, Struct):
        return structs.replace(value, **changes)
    return cast(T, dataclasses.replace(cast(Any, value), **changes))
