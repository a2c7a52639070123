"""One request of a drawn sequence, and what draws them have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

from vocabulary import SORTS


class Step(NamedTuple):
    """One request; ``headers`` are those beside the client's own."""

    do: str
    body: Any = None
    headers: dict[str, str] = {}


class Sequence(NamedTuple):
    """``settled``: every write is followed by a wait, so that what controllers write is compared as well."""

    area: str
    steps: list[Step]
    settled: bool = False


#: What makes an answer a table.
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def content(kind: str) -> dict[str, str]:
    return {"Content-Type": kind}


def create(sort: str, obj: dict, query: str = "") -> Step:
    return Step(f"POST {SORTS[sort].url}{query}", obj)
