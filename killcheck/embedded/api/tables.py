"""Tables (meta.k8s.io/v1), which ``kubectl get`` prints: columns by type, cells by object.

Source: k8s.io/apiserver/pkg/registry/rest/table.go and, for custom resources, apiextensions' tableconvertor.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from killcheck.embedded.api import tablerows
from killcheck.embedded.api.jsonpath import find
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.tablecolumns import WORDS, Ages, Column
from killcheck.kube.objects import Obj, parse_time

__all__ = ["Wanted", "of_nothing", "render"]

_NAME = Column("Name", "string", "name", WORDS["Name"])
_AGE: Obj = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


class Wanted(NamedTuple):
    """``include_object``: what each row carries, Metadata, Object or None."""

    include_object: str = "Metadata"
    api_version: str = "meta.k8s.io/v1"


#: What kubectl asks for.
METADATA = Wanted()


def render(kind: Kind, items: list[Obj], now: datetime, list_meta: Obj, wanted: Wanted = METADATA) -> Obj:
    """A Table of ``items``."""
    include_object, api_version = wanted
    ages = Ages(now)
    if kind.crd is not None:
        columns, rows = _custom(kind, items, ages)
    else:
        columns, rows = _builtin(kind, items, ages)
    for row, item in zip(rows, items, strict=True):
        if include_object == "Object":
            row["object"] = item
        elif include_object != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": api_version,
                "metadata": item["metadata"],
            }
        else:
            row["object"] = None
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": list_meta,
        "columnDefinitions": [column.definition() for column in columns],
        "rows": rows or _no_rows(kind),
    }


def _no_rows(kind: Kind) -> list[Obj] | None:
    """What a Table has for rows where there are none: null where no printer makes it (``defaultTableConvertor``)."""
    return None if kind.crd is None and tablerows.is_default(kind) else []


def of_nothing(kind: Kind, blank: Obj, list_meta: Obj, api_version: str) -> Obj:
    """The Table of a bookmark: one row of an object in which nothing is set."""
    columns = list(tablerows.printer(kind).columns) if kind.crd is None else _custom(kind, [], Ages(datetime.min))[0]
    shown = {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": blank["metadata"]}
    row = {"cells": [_blank(column) for column in columns], "object": shown}
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": list_meta,
        "columnDefinitions": [column.definition() for column in columns],
        "rows": [row],
    }


def _blank(column: Column) -> Any:
    if column.name in _BLANK:
        return _BLANK[column.name]
    return {"integer": 0, "number": 0, "boolean": False}.get(column.type, "")


#: What is printed of a time that is not there, and of what is counted in a column of text.
_BLANK: dict[str, Any] = {"Age": "<unknown>", "Created At": "0001-01-01T00:00:00Z", "Data": 0}


def _builtin(kind: Kind, items: list[Obj], ages: Ages) -> tuple[list[Column], list[Obj]]:
    printer = tablerows.printer(kind)
    rows: list[Obj] = []
    for item in items:
        row: Obj = {"cells": printer.cells(item, ages)}
        conditions = printer.conditions(item)
        if conditions:
            row["conditions"] = conditions
        rows.append(row)
    return list(printer.columns), rows


def _custom(kind: Kind, items: list[Obj], ages: Ages) -> tuple[list[Column], list[Obj]]:
    """A custom resource's own columns, else its age."""
    given: list[Obj] = kind.crd_version.get("additionalPrinterColumns") or [_AGE]
    columns = [_NAME]
    for one in given:
        words = one.get("description") or (
            f"Custom resource definition column (in JSONPath format): {one.get('jsonPath', '')}"
        )
        columns.append(
            Column(one["name"], one.get("type", "string"), one.get("format", ""), words, one.get("priority", 0))
        )
    rows: list[Obj] = [
        {"cells": [item["metadata"]["name"], *(_custom_cell(item, one, ages) for one in given)]} for item in items
    ]
    return columns, rows


def _custom_cell(item: Obj, column: Obj, ages: Ages) -> Any:
    found = find(item, column.get("jsonPath", ""))
    if not found:
        return None
    value, kind = found[0], column.get("type")
    if kind == "string":
        return value if isinstance(value, str) else _printed(value)
    if kind == "date":
        return _date(value, ages)
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else float(value)


def _printed(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else str(value)


def _date(value: Any, ages: Ages) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        parse_time(value)
    except ValueError:
        return "<invalid>"
    return ages.since(value)
