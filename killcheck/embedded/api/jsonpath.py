"""The simple JSONPath of ``additionalPrinterColumns``: ``.status.conditions[?(@.type=="Ready")].status``.

Source: k8s.io/client-go/util/jsonpath, as far as CustomResourceDefinitions may use it: fields (with ``\\.`` for a dot
in a name, or ``['name']``), indexes, ``[*]`` and filters that compare one field with a constant.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from killcheck.text import lazy_re

__all__ = ["find"]

_TOKEN = lazy_re.compile(
    r"""\.\.(?P<deep>[\w-]+)
      | \.(?P<field>(?:\\.|[^.\[\]\\])+)
      | \[\?\(\s*@(?P<left>(?:\.(?:\\.|[^.\[\]\\=!<>\s)])+)+)\s*
        (?:(?P<operator>==|!=)\s*(?P<right>"[^"]*"|'[^']*'|[^\s)]+)\s*)?\)\]
      | \[(?P<quote>['"])(?P<name>.*?)(?P=quote)\]
      | \[(?P<index>-?\d+)\]
      | \[(?P<all>\*)\]
      | (?P<star>\.\*)""",
    re.VERBOSE,
)


class _Step(NamedTuple):
    kind: str
    name: str = ""
    path: tuple[str, ...] = ()
    operator: str = ""
    value: Any = None


def find(data: Any, path: str) -> list[Any]:
    """Everything that ``path`` leads to; empty where a key is missing, or where the path is none."""
    found = [data]
    for step in _parse(path):
        found = [result for value in found for result in _follow(value, step)]
    return found


@lru_cache(maxsize=512)
def _parse(path: str) -> tuple[_Step, ...]:
    path = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if path and not path.startswith((".", "[")):
        path = "." + path
    steps: list[_Step] = []
    at = 0
    while at < len(path):
        token = _TOKEN.match(path, at)
        if token is None:
            return (_Step("nothing"),)
        steps.append(_step(token))
        at = token.end()
    return tuple(steps)


def _step(token: re.Match[str]) -> _Step:
    if token["deep"]:
        return _Step("deep", token["deep"])
    if token["field"]:
        return _Step("all") if token["field"] == "*" else _Step("field", _unescape(token["field"]))
    if token["left"]:
        names = tuple(_unescape(part) for part in re.split(r"(?<!\\)\.", token["left"][1:]))
        return _Step("filter", "", names, token["operator"] or "", _constant(token["right"]))
    if token["quote"]:
        return _Step("field", _unescape(token["name"]))
    if token["index"]:
        return _Step("index", token["index"])
    return _Step("all")


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _constant(text: str | None) -> Any:
    if text is None:
        return None
    if text[:1] in "\"'":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text


def _follow(value: Any, step: _Step) -> list[Any]:
    if step.kind == "field":
        return [value[step.name]] if isinstance(value, dict) and step.name in value else []
    if step.kind == "index":
        index = int(step.name)
        return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
    if step.kind == "all":
        return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
    if step.kind == "filter":
        return [item for item in value if _passes(item, step)] if isinstance(value, list) else []
    return _deep(value, step.name) if step.kind == "deep" else []


def _passes(item: Any, step: _Step) -> bool:
    for name in step.path:
        if not isinstance(item, dict) or name not in item:
            return False
        item = item[name]
    if not step.operator:
        return True
    return bool(item == step.value) is (step.operator == "==")


def _deep(value: Any, name: str) -> list[Any]:
    found: list[Any] = []
    if isinstance(value, dict):
        found += [value[name]] if name in value else []
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            found += _deep(inner, name)
    return found
