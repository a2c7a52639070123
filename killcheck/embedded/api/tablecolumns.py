"""What a table is made of: columns, ages, and how one type is printed.

Source: pkg/printers/internalversion/printers.go and duration.HumanDuration of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct

from killcheck.kube.objects import Obj, parse_time

__all__ = ["UNKNOWN", "WORDS", "Ages", "Column", "Printer", "columns", "human_duration"]

UNKNOWN = "<unknown>"


class Column(NamedTuple):
    """One column; ``priority`` 1 shows with ``-o wide`` only."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> Obj:
        """As a Table has it."""
        return self._asdict()


def human_duration(seconds: float) -> str:
    """A duration with two or three digits that matter: ``5m10s``, ``3h20m``, ``2d``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(0, whole)}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 24 * 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8 and days % 365:
        return f"{days // 365}y{days % 365}d"
    return f"{days // 365}y"


class Ages:
    """How long ago things were, at one moment."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def since(self, time: str | None) -> str:
        """``<unknown>`` where there is no time."""
        return human_duration((self.now - parse_time(time)).total_seconds()) if time else UNKNOWN

    def of(self, obj: Obj) -> str:
        """An object's age."""
        return self.since(obj["metadata"].get("creationTimestamp"))


class Printer(Struct, frozen=True):
    """How one type is printed."""

    columns: tuple[Column, ...]
    cells: Callable[[Obj, Ages], list[Any]]
    conditions: Callable[[Obj], list[Obj]] = lambda _: []


def columns(text: str) -> tuple[Column, ...]:
    """``Name|Ready|Age|IP*``: names, ``*`` for wide, ``#`` for integers, ``?`` for booleans."""
    made = []
    for name in text.split("|"):
        bare = name.rstrip("*#?")
        kind = "integer" if "#" in name else "boolean" if name.endswith("?") else "string"
        made.append(Column(bare, kind, "name" if bare == "Name" else "", WORDS.get(bare, ""), 1 if "*" in name else 0))
    return tuple(made)


WORDS = {
    "Name": (
        "Name must be unique within a namespace. Is required when creating resources, although some resources may "
        "allow a client to request the generation of an appropriate name automatically. Name is primarily intended for "
        "creation idempotence and configuration definition. Cannot be updated. More info: "
        "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
    ),
    "Age": (
        "CreationTimestamp is a timestamp representing the server time when this object was created. It is not "
        "guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It "
        "is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. "
        "More info: "
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
    ),
    "Ready": "The aggregate readiness state of this pod for accepting traffic.",
    "Status": "The aggregate status of the containers in this pod.",
    "Containers": "Names of each container in the template.",
    "Images": "Images referenced by each container in the template.",
}


# -- shared cells ----------------------------------------------------------------------------------------------
