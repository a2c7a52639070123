"""Bodies in protobuf, which kubectl's typed commands (``create job``, ``drain``) and other Go clients send.

The wire form is read with the schemas that are there anyway; ``protobuf_numbers.json`` has the field numbers (from the
``protobuf`` tags of the types of k8s.io/api v0.36; a nested table is a structure that JSON has inlined). Objects are
answered in JSON, which such clients accept, too. Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from killcheck.embedded.api import schemas
from killcheck.embedded.api.kinds import builtin
from killcheck.embedded.api.schemas import Field
from killcheck.kube.objects import Obj, format_time

__all__ = ["ProtobufError", "decode", "numbers"]

_MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST = 1 << 64
#: Bodies that are no resource's own.
_OTHERS = {
    ("policy/v1", "Eviction"): "V1Eviction",
    ("authentication.k8s.io/v1", "TokenRequest"): "AuthenticationV1TokenRequest",
    ("autoscaling/v1", "Scale"): "V1Scale",
    ("v1", "Binding"): "V1Binding",
}
_NUMERIC = frozenset({"bool", "int32", "int64"})


class ProtobufError(ValueError):
    """The bytes are no object of a known type."""


def decode(data: bytes) -> Obj:
    """The object in a body of ``application/vnd.kubernetes.protobuf``, as JSON would have it. Raises ProtobufError."""
    if not data.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = {number: value for number, _, value in _fields(data[len(_MAGIC) :])}
    type_meta = {number: value for number, _, value in _fields(_message(envelope.get(1, b"")))}
    api_version, kind = (_message(type_meta.get(number, b"")).decode() for number in (1, 2))
    obj: Obj = {"apiVersion": api_version, "kind": kind}
    return obj | _struct(_schema(api_version, kind), _message(envelope.get(2, b"")))


def _schema(api_version: str, kind: str) -> str:
    if kind == "DeleteOptions":  # every group has them
        return "V1DeleteOptions"
    found = _types().get((api_version, kind))
    if found is None:
        raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')
    return found


@cache
def _types() -> dict[tuple[str, str], str]:
    own = {(kind.resource.api_version, kind.resource.kind): kind.schema for kind in builtin() if kind.schema}
    return own | _OTHERS


@cache
def numbers() -> dict[str, dict[str, Any]]:
    """type -> number -> the name of the field, or a table of those that JSON has inlined."""
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("protobuf_numbers.json").read_text("utf-8"))
    return found


# -- the wire --------------------------------------------------------------------------------------------------
def _fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(number, wire type, value) of a message. Raises ProtobufError where it ends too early."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if at + size > len(data):
            raise ProtobufError("unexpected EOF")
        yield number, wire, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ProtobufError("unexpected EOF")


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("proto: wrong wireType")
    return value


def _signed(value: int) -> int:
    value %= _MOST
    return value - _MOST if value >= _MOST >> 1 else value


# -- objects ---------------------------------------------------------------------------------------------------
def _struct(schema: str, data: bytes) -> Obj:
    result: Obj = {}
    _fill(result, schema, numbers()[schema], data)
    return result


def _fill(result: Obj, schema: str, numbers: dict[str, Any], data: bytes) -> None:
    known = schemas.fields(schema)
    for number, wire, value in _fields(data):
        name = numbers.get(str(number))
        if isinstance(name, dict):
            _fill(result, schema, name, _message(value))
        elif name in known:
            _put(result, name, known[name], wire, value)


def _put(result: Obj, name: str, spec: Field, wire: int, value: int | bytes) -> None:
    if spec.shape.startswith("{}"):
        entry = {number: (kind, inner) for number, kind, inner in _fields(_message(value))}
        key = _message(entry.get(1, (2, b""))[1]).decode()
        result.setdefault(name, {})[key] = _map_value(spec, *entry.get(2, (2, b"")))
    elif spec.shape == "[]":
        items = result.setdefault(name, [])
        packed = wire == 2 and spec.base in _NUMERIC
        items += (
            [_single(spec.base, 0, number) for number in _packed(_message(value))]
            if packed
            else [_single(spec.base, wire, value)]
        )
    else:
        result[name] = _single(spec.base, wire, value)


def _packed(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _map_value(spec: Field, wire: int, value: int | bytes) -> Any:
    """A list inside a map is a message of its own: ExtraValue."""
    if spec.shape != "{}[]":
        return _single(spec.base, wire, value)
    return [_single(spec.base, kind, item) for number, kind, item in _fields(_message(value)) if number == 1]


def _single(base: str, wire: int, value: int | bytes) -> Any:
    if base in schemas.load():
        return _struct(base, _message(value))
    if isinstance(value, int):
        return bool(value) if base == "bool" else _signed(value)
    if base == "string":
        return value.decode("utf-8", "replace")
    if base == "float64":
        return struct.unpack("<d" if wire == 1 else "<f", value)[0]
    if base == "bytes":
        return base64.b64encode(value).decode()
    return _special(base, {number: inner for number, _, inner in _fields(value)})


def _special(base: str, parts: dict[int, int | bytes]) -> Any:
    if base == "Quantity":
        return _message(parts.get(1, b"0")).decode()
    if base == "IntOrString":
        if parts.get(1, 0):
            return _message(parts.get(3, b"")).decode()
        number = parts.get(2, 0)
        return _signed(number) if isinstance(number, int) else 0
    if base in ("Time", "MicroTime"):
        return _moment(parts, micro=base == "MicroTime")
    if base == "any":
        try:
            return json.loads(_message(parts.get(1, b"null")))
        except ValueError as error:
            raise ProtobufError(f"invalid JSON in a raw extension: {error}") from error
    raise ProtobufError(f"proto: {base} cannot be read here")


def _moment(parts: dict[int, int | bytes], *, micro: bool) -> str | None:
    if not parts:  # the zero time is written as nothing; 1970 is a time like any other (a StartError's startedAt)
        return None
    seconds, nanos = (_signed(value) if isinstance(value := parts.get(number, 0), int) else 0 for number in (1, 2))
    try:
        return format_time(_EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000), micro=micro)
    except OverflowError as error:
        raise ProtobufError("a time out of range") from error
