"""Answers in protobuf: refusals and the documents of discovery, to whoever names protobuf first.

Objects are answered in JSON, which such clients accept beside it. Every field that is no pointer is written, also where
it is empty, as gogo's generated code does. Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf and
pkg/apis/meta/v1/generated.proto; answers of a v1.36.2 API server.
"""

from __future__ import annotations

from typing import Any

from killcheck.embedded.api import protobuf, schemas
from killcheck.embedded.api.http import Request, Response
from killcheck.embedded.api.schemas import Field
from killcheck.kube.objects import Obj

__all__ = ["in_protobuf"]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_SCHEMAS = {kind: f"V1{kind}" for kind in ("Status", "APIGroup", "APIGroupList", "APIResourceList", "APIVersions")}


def in_protobuf(request: Request, response: Response) -> Response:
    """The answer as it was, or in protobuf where that is asked for before anything else that is served."""
    body = response.body
    first = request.headers.get("accept", "").partition(",")[0]
    if not first.startswith(MEDIA_TYPE) or "as=" in first or not isinstance(body, dict):
        return response
    schema = _SCHEMAS.get(str(body.get("kind")))
    if schema is None or body.get("apiVersion", "v1") != "v1":
        return response
    return Response(response.status, encode(schema, body), response.headers | {"Content-Type": MEDIA_TYPE})


def encode(schema: str, obj: Obj) -> bytes:
    """``runtime.Unknown`` around an object of a type that has a schema, behind the four bytes that say so."""
    of = _text(1, str(obj.get("apiVersion", ""))) + _text(2, str(obj["kind"]))
    return b"k8s\x00" + _field(1, of) + _field(2, _message(schema, obj)) + _text(3, "") + _text(4, "")


def _message(schema: str, obj: Obj) -> bytes:
    known, said = schemas.fields(schema), []
    for number, name in sorted(protobuf.numbers()[schema].items(), key=lambda pair: int(pair[0])):
        if isinstance(name, str) and name in known:
            said.append(_member(int(number), known[name], obj.get(name)))
    return b"".join(said)


def _member(number: int, spec: Field, value: Any) -> bytes:
    if spec.shape == "[]":
        items = b"".join(_single(1 if _is_wrapped(spec) else number, spec, item) for item in value or ())
        return _field(number, items) if _is_wrapped(spec) and value else items
    if spec.shape or (value is None and spec.pointer):
        return b""
    return _single(number, spec, value)


def _is_wrapped(spec: Field) -> bool:
    """A list with a name of its own is a message."""
    return spec.go == "v1.Verbs"


def _single(number: int, spec: Field, value: Any) -> bytes:
    if spec.base in schemas.load():
        return _field(number, _message(spec.base, value or {}))
    if spec.base == "string":
        return _text(number, str(value or ""))
    return _varint(number << 3) + _varint(int(value or 0))


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value %= 1 << 64
    said = bytearray()
    while value > 0x7F:
        said.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*said, value])
