"""Writes ``schemas.json`` and ``descriptions.json`` from the models of the installed ``kubernetes`` package.

    python -m killcheck.embedded.api.schemas_generate

The package knows every type's fields, which are required, and their descriptions. It does not know what Go's types
add, and the API server's answers depend on it: sizes of integers, quantities, named strings, and what is written even
when it is empty. ``go_types.json`` holds these facts where they differ from what is usual (read from the ``types.go``
of k8s.io/api v0.36). A field's code in ``schemas.json``:

    ["*"] ("[]" | "{}")* TYPE ["/" GO_NAME] ["!" | "?"]

``*`` a pointer: kept as it is given, zero or not. ``[]`` a list, ``{}`` a map with free keys. TYPE: another type of the
file, or string, bool, int32, int64, float64, bytes, Quantity, IntOrString, Time, MicroTime, Duration, any. ``!``
always written, also when empty. ``?`` a structure that is left out when empty.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

__all__ = ["generate", "main"]

_HERE = Path(__file__).parent
_SCALARS = {"str": "string", "int": "int32", "bool": "bool", "float": "float64", "datetime": "Time", "object": "any"}
_SPECIAL = frozenset({"Quantity", "IntOrString", "Time", "MicroTime", "Duration"})
#: What is served beside the kinds of the registry: bodies of subresources and requests, and discovery.
_EXTRA = (
    "V1Scale",
    "V1Eviction",
    "V1Binding",
    "AuthenticationV1TokenRequest",
    "V1DeleteOptions",
    "V1Status",
    "V1APIResourceList",
    "V1APIGroupList",
    "V1APIVersions",
)
Types = dict[str, dict[str, str]]


def generate() -> tuple[Types, dict[str, dict[str, str]]]:
    """(type -> field -> code), (type -> field -> description; the type's own under the empty name)."""
    from kubernetes.client import models

    from killcheck.embedded.api.kinds import builtin

    names = [kind.schema for kind in builtin() if kind.schema]
    wanted = [*names, *(name + "List" for name in names), *_EXTRA]
    facts: Types = json.loads((_HERE / "go_types.json").read_text("utf-8"))
    types: Types = {}
    words: dict[str, dict[str, str]] = {}
    while wanted:
        name = wanted.pop()
        model = getattr(models, name, None)
        if model is None or name in types:
            continue
        types[name] = _fields(model) | facts.get(name, {})
        words[name] = _descriptions(model)
        wanted += [ref for code in types[name].values() if (ref := referred(code))]
    return dict(sorted(_in_go_order(types).items())), dict(sorted(words.items()))


def _in_go_order(types: Types) -> Types:
    """Fields as Go's structures list them, which the package does not know: the present file does.

    A field that the file does not have yet comes last, until somebody looks into ``types.go``.
    """
    present: Types = json.loads((_HERE / "schemas.json").read_text("utf-8"))
    return {
        name: {field: codes[field] for field in (*(f for f in present.get(name, ()) if f in codes), *codes)}
        for name, codes in types.items()
    }


def referred(code: str) -> str:
    """The type of the file that a field's code names; empty for scalars."""
    base = code.lstrip("*[]{}").rstrip("!?").partition("/")[0]
    return base if base[:1].isupper() and base not in _SPECIAL else ""


def _fields(model: Any) -> dict[str, str]:
    return {
        json_name: _code(json_name, model.openapi_types[name], _required(model, name))
        for name, json_name in sorted(model.attribute_map.items(), key=lambda item: item[1])
    }


def _code(json_name: str, python_type: str, required: bool) -> str:
    """What is usual: required means always written; optional numbers, booleans and structures are pointers."""
    base = _base(python_type)
    many = base.startswith(("[]", "{}"))
    scalar = base in _SCALARS.values()
    if json_name in ("metadata", "status") and not scalar and not many:
        return base
    if many or base in ("string", "any"):
        return base + ("!" if required else "")
    if required:
        return base + ("!" if scalar else "")
    return "*" + base


def _base(python_type: str) -> str:
    if python_type.startswith("list["):
        return "[]" + _base(python_type[5:-1])
    if python_type.startswith("dict(str, ") or python_type.startswith("dict[str, "):
        return "{}" + _base(python_type[10:-1])
    return _SCALARS.get(python_type, python_type)


def _required(model: Any, name: str) -> bool:
    return "must not be `None`" in inspect.getsource(getattr(model, name).fset)


def _descriptions(model: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, json_name in sorted(model.attribute_map.items(), key=lambda item: item[1]):
        text = _description(getattr(model, name).fget.__doc__ or "")
        if text:
            found[json_name] = text
    return found


def _description(doc: str) -> str:
    """The text between a getter's first line and its ``:return:``."""
    _, _, rest = doc.partition("\n")
    return re.sub(r"\s+", " ", rest.partition(":return:")[0].replace("# noqa: E501", " ")).strip()


def text_of(data: dict[str, Any]) -> str:
    """JSON with one type a line, so that a change shows in a diff."""
    lines = [f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in data.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Write both files beside this module."""
    types, words = generate()
    (_HERE / "schemas.json").write_text(text_of(types), "utf-8")
    (_HERE / "descriptions.json").write_text(text_of(words), "utf-8")


if __name__ == "__main__":
    main()
