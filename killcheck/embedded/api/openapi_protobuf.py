"""/openapi/v2 in protobuf, which kubectl up to 1.28 and client-go's discovery ask for and take in no other form.

The message is gnostic's ``openapi.v2.Document`` (github.com/google/gnostic-models, openapiv2/OpenAPIv2.proto), of which
what clients read is written: definitions, and of paths each operation's parameters. Extensions are YAML in it; JSON is.
What may *not* live here: what the document says (:mod:`killcheck.embedded.api.openapi`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from killcheck.kube.objects import Obj

__all__ = ["MEDIA_TYPES", "encode"]

#: As clients name it (client-go discovery, openAPIV2mimePb; kube-openapi handler.go has both).
MEDIA_TYPES = (
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)

#: Field numbers of ``Schema`` that hold a text.
_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4}
_REQUIRED, _ADDITIONAL, _TYPE, _ITEMS, _ALL_OF, _PROPERTIES, _EXTENSION = 19, 21, 22, 23, 24, 25, 31
#: Field numbers of ``PathItem``, by operation.
_OPERATIONS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def encode(document: Obj) -> bytes:
    """A document of version 2 as ``openapi.v2.Document``."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(_field(2, _text(1, path) + _field(2, _path(item))) for path, item in document["paths"].items())
    definitions = _named(document["definitions"])
    return b"".join((_text(1, document["swagger"]), _field(2, info), _field(8, paths), _field(9, definitions)))


def _named(schemas: Obj) -> bytes:
    """``Definitions`` and ``Properties``: pairs of a name and a schema."""
    return b"".join(_field(1, _text(1, name) + _field(2, _schema(schema))) for name, schema in schemas.items())


def _schema(schema: Obj) -> bytes:
    said = [_text(number, schema[name]) for name, number in _TEXTS.items() if schema.get(name)]
    said += [_text(_REQUIRED, name) for name in schema.get("required") or ()]
    more = schema.get("additionalProperties")
    if more is not None:
        said.append(_field(_ADDITIONAL, _bool(2, more) if isinstance(more, bool) else _field(1, _schema(more))))
    if isinstance(schema.get("type"), str):
        said.append(_field(_TYPE, _text(1, schema["type"])))
    if isinstance(schema.get("items"), dict):
        said.append(_field(_ITEMS, _field(1, _schema(schema["items"]))))
    said += [_field(_ALL_OF, _schema(one)) for one in schema.get("allOf") or ()]
    if schema.get("properties"):
        said.append(_field(_PROPERTIES, _named(schema["properties"])))
    return b"".join([*said, *_extensions(_EXTENSION, schema)])


def _path(item: Obj) -> bytes:
    return b"".join(_field(_OPERATIONS[verb], _operation(said)) for verb, said in item.items() if verb in _OPERATIONS)


def _operation(operation: Obj) -> bytes:
    # ParametersItem.parameter, Parameter.non_body_parameter, NonBodyParameter.query_parameter_sub_schema
    queries = (_text(2, one["in"]) + _text(4, one["name"]) for one in operation.get("parameters") or ())
    parameters = [_field(8, _field(1, _field(2, _field(3, query)))) for query in queries]
    return b"".join([*parameters, *_extensions(13, operation)])


def _extensions(number: int, said: Obj) -> Iterable[bytes]:
    """Each ``x-`` as a ``NamedAny`` whose value is YAML."""
    for name, value in said.items():
        if name.startswith("x-"):
            yield _field(number, _text(1, name) + _field(2, _text(2, json.dumps(value) + "\n")))


# -- the wire form (protobuf.dev/programming-guides/encoding) ------------------------------------------------------
def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _text(number: int, text: Any) -> bytes:
    return _field(number, str(text).encode())


def _bool(number: int, value: bool) -> bytes:
    return _varint(number << 3) + _varint(int(value))
