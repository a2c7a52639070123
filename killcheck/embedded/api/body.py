"""Request bodies: JSON or YAML text, or dicts that were handed over within this process; and duplicate keys in them."""

from __future__ import annotations

import json
import re
from typing import Any

from killcheck.embedded.api.bounds import check_depth, check_yaml_depth, repeats_too_much
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.status import StatusError, bad_request, unsupported_media_type
from killcheck.text import lazy_re

__all__ = [
    "JSON_TYPES",
    "PROTOBUF",
    "GoJSONError",
    "Parsed",
    "dumps",
    "parse_json",
    "parse_yaml",
    "read_object",
    "read_protobuf",
    "unknown_format",
]


class GoJSONError(ValueError):
    """Text that is not JSON; the message is Go's encoding/json's."""


class Parsed:
    """A parsed body: the value, and the paths of keys that occurred twice (the last one won)."""

    __slots__ = ("duplicates", "value")

    def __init__(self, value: Any, duplicates: list[str]) -> None:
        self.value = value
        self.duplicates = duplicates


class _Duplicated(dict[str, Any]):
    """A dict that remembers which of its keys were given more than once."""

    twice: tuple[str, ...] = ()


def parse_json(text: str | bytes) -> Parsed:
    """Parse JSON. Raises GoJSONError; StatusError 501 for what is nested too deep."""
    repeated = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        """One object of the text; the last of what is given twice counts, and that it was is remembered."""
        nonlocal repeated
        plain = dict(items)
        if len(plain) == len(items):
            return plain
        repeated = True
        marked = _Duplicated(plain)
        keys = [key for key, _ in items]
        marked.twice = tuple(key for i, key in enumerate(keys) if key in keys[:i])
        return marked

    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    check_depth(text)
    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        raise GoJSONError(_go_words(text, error)) from error
    if not repeated:
        return Parsed(value, [])
    duplicates: list[str] = []
    return Parsed(_collect(value, "", duplicates), duplicates)


def _collect(value: Any, path: str, found: list[str]) -> Any:
    if isinstance(value, dict):
        if isinstance(value, _Duplicated):
            found.extend(f"{path}.{key}".lstrip(".") for key in value.twice)
        return {key: _collect(inner, f"{path}.{key}", found) for key, inner in value.items()}
    if isinstance(value, list):
        return [_collect(inner, f"{path}[{i}]", found) for i, inner in enumerate(value)]
    return value


def _go_words(text: str, error: json.JSONDecodeError) -> str:
    """What encoding/json says about the same text."""
    rest = text[error.pos :].lstrip() if error.pos < len(text) else ""
    if not rest:
        return "unexpected end of JSON input"
    char = rest[0]
    shown = "'\\''" if char == "'" else f"'{char}'"
    if error.msg.startswith("Extra data"):
        return f"invalid character {shown} after top-level value"
    if error.msg.startswith("Expecting property name"):
        return f"invalid character {shown} looking for beginning of object key string"
    if error.msg.startswith("Expecting ':'"):
        return f"invalid character {shown} after object key"
    if error.msg.startswith("Expecting ',' delimiter"):
        opened = text[: error.pos]
        in_object = opened.count("{") > opened.count("}")
        inside = "object key:value pair" if in_object else "array element"
        return f"invalid character {shown} after {inside}"
    return f"invalid character {shown} looking for beginning of value"


def dumps(value: Any) -> str:
    """JSON as Go writes it: no spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def parse_yaml(text: str | bytes) -> Parsed:
    """Parse YAML as go-yaml does for Kubernetes: YAML 1.1's booleans (``off``, ``y``), no sexagesimal numbers.

    Text that begins with a brace is JSON. Raises GoJSONError whose message begins with ``yaml:`` or Go's JSON words.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if text.lstrip()[:1] == "{":
        return parse_json(text)
    check_yaml_depth(text)
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        value = _yaml_loader().load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise GoJSONError(f"yaml: line {line}: {_yaml_words(error, text)}") from error
    except YAMLError as error:
        raise GoJSONError(f"yaml: {error}") from error
    if "*" in text and repeats_too_much(value):
        raise GoJSONError("yaml: document contains excessive aliasing")
    return Parsed(value, [])


def _text_key(key: Any) -> str:
    """A key as JSON has it: what YAML reads as a truth or a number is a text (sigs.k8s.io/yaml)."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return f"{key:g}" if isinstance(key, float) else str(key)
    raise GoJSONError("unsupported map key: expected a text, a number or a truth")


def _yaml_words(error: Any, text: str) -> str:
    lines = text.splitlines()
    mark = error.problem_mark
    if mark is not None and mark.line < len(lines) and lines[mark.line].lstrip(" ")[:1] == "\t":
        return "found a tab character that violates indentation"
    return str(error.problem or error.context or "could not parse")


#: go-yaml's resolution of plain scalars (v2, which sigs.k8s.io/yaml carries on).
_BOOLS = lazy_re.compile(r"^(?:y|Y|yes|Yes|YES|on|On|ON|true|True|TRUE|n|N|no|No|NO|off|Off|OFF|false|False|FALSE)$")
_INTS = lazy_re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)$")
_FLOATS = lazy_re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")
_NULLS = lazy_re.compile(r"^(?:~|null|Null|NULL|)$")
_TRUE = frozenset({"y", "yes", "on", "true"})


def _yaml_loader() -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import SafeConstructor
    from ruamel.yaml.nodes import ScalarNode
    from ruamel.yaml.resolver import BaseResolver

    class Resolver(BaseResolver):
        processing_version = (1, 2)

        def __init__(self, version: Any = None, loader: Any = None, loadumper: Any = None) -> None:
            super().__init__(loader if loadumper is None else loadumper)

    class Constructor(SafeConstructor):
        def construct_yaml_bool(self, node: Any) -> bool:
            return node.value.lower() in _TRUE

        def construct_yaml_int(self, node: Any) -> int:
            digits = node.value.replace("_", "")
            octal = re.fullmatch(r"([-+]?)0([0-7]+)", digits)
            return int(f"{octal[1]}0o{octal[2]}" if octal else digits, 0)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            for number, (key, value) in enumerate(node.value):
                text = _text_key(self.construct_object(key) if isinstance(key, ScalarNode) else None)
                node.value[number] = ScalarNode(_TEXT, text, key.start_mark, key.end_mark), value
            return super().construct_mapping(node, deep)

    for tag, pattern in (("bool", _BOOLS), ("int", _INTS), ("float", _FLOATS), ("null", _NULLS)):
        Resolver.add_implicit_resolver_base(f"tag:yaml.org,2002:{tag}", pattern, None)
    for tag in ("bool", "int"):
        Constructor.add_constructor(f"tag:yaml.org,2002:{tag}", getattr(Constructor, f"construct_yaml_{tag}"))
    yaml = YAML(typ="safe", pure=True)
    yaml.Resolver = Resolver
    yaml.Constructor = Constructor
    return yaml


_TEXT = "tag:yaml.org,2002:str"

PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_TYPES = frozenset({"application/json", "text/json", "", "*/*"})


def unknown_format() -> StatusError:
    """415 of a body that says that it is something else."""
    return unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: application/json, "
        "application/yaml, application/vnd.kubernetes.protobuf"
    )


def read_object(call: Call, kind: str = "") -> Parsed:
    """The object in a POST or PUT, of the call's kind or of the one named. Raises StatusError 400 or 415."""
    body = call.request.body
    if isinstance(body, dict):
        return Parsed(body, [])
    kind = kind or call.kind.resource.kind
    content_type = call.content_type()
    if content_type == PROTOBUF:
        return read_protobuf(body, kind)
    if content_type == "application/yaml":
        parse = parse_yaml
    elif content_type in JSON_TYPES:
        parse = parse_json
    else:
        raise unknown_format()
    raw = body or b""
    try:
        parsed = parse(raw)
    except GoJSONError as error:
        why = (
            str(error)
            if content_type == "application/yaml"
            else (f"couldn't get version/kind; json parse error: {error}")
        )
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): {why} ({_summary(raw)})"
        ) from error
    if not isinstance(parsed.value, dict):
        raise _not_an_object(call, parsed.value)
    for name in ("apiVersion", "kind"):
        given = parsed.value.get(name)
        if not isinstance(given, str | None):
            why = f"json: cannot unmarshal {_go_kind(given)} into Go struct field .{name} of type string"
            raise bad_request(
                f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse "
                f"error: {why} ({_summary(raw)})"
            )
    return parsed


def _summary(raw: bytes | str, most: int = 30) -> str:
    """What is shown of a body that could not be read: text where it begins like JSON, else hexadecimal."""
    data = raw if isinstance(raw, bytes) else raw.encode()
    if not data:
        return "<empty>"
    shown = data[:most].decode("utf-8", "replace") if data[:1] == b"{" else data[:most].hex()
    return shown + " ..." * (len(data) > most)


def read_protobuf(body: Any, kind: str) -> Parsed:
    """The object in a protobuf body. Raises StatusError 400."""
    from killcheck.embedded.api import protobuf

    try:
        return Parsed(protobuf.decode(body or b""), [])
    except protobuf.ProtobufError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {error}") from error


def _go_kind(value: Any) -> str:
    """What encoding/json calls a value's kind."""
    kinds = {list: "array", str: "string", bool: "bool", int: "number", float: "number", dict: "object"}
    return kinds.get(type(value), "null")


def _not_an_object(call: Call, value: Any) -> StatusError:
    resource = call.kind.resource
    go = _go_kind(value)
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        f"json: cannot unmarshal {go} into Go value of type {resource.kind}"
    )
