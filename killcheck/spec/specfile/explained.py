"""The spec's shape as pydantic models, made of msgspec's: they say all that does not fit, and make the JSON Schema.

Only where a spec does not fit, or its schema is wanted: pydantic and its validators take a quarter of the time in which
a cluster is up.
"""

from __future__ import annotations

from functools import cache
from inspect import isclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo, fields
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model
from pydantic.alias_generators import to_camel

from killcheck.spec.specfile.models import Made

__all__ = ["as_pydantic"]

#: What both call the same.
_BOUNDS = ("min_length", "max_length", "ge", "gt", "le")


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, alias_generator=to_camel, defer_build=True
    )


@cache
def as_pydantic(model: type[Struct]) -> type[BaseModel]:
    """The same fields, types, bounds, defaults and descriptions."""
    hints = get_type_hints(model, include_extras=True)
    made: dict[str, Any] = {one.name: (_type(hints[one.name]), _default(one)) for one in fields(model)}
    return create_model(model.__name__, __base__=_Model, __doc__=model.__doc__, **made)


def _default(field: FieldInfo) -> Any:
    if field.default_factory is not NODEFAULT:
        return Field(default_factory=field.default_factory)
    return ... if field.default is NODEFAULT else field.default


def _type(hint: Any) -> Any:
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(_type(inside[0]), *(_field(meta) for meta in inside[1:]))]
    if origin in (Union, UnionType):
        return Union[tuple(map(_type, inside))]  # noqa: UP007 - made of what is known only here
    if origin in (list, dict):
        return origin[tuple(map(_type, inside))]
    if isinstance(hint, Made):
        return Annotated[hint.made, BeforeValidator(hint.read), WithJsonSchema(hint.schema)]
    return as_pydantic(hint) if isclass(hint) and issubclass(hint, Struct) else hint


def _field(meta: Meta) -> Any:
    said = {name: value for name in _BOUNDS if (value := getattr(meta, name)) is not None}
    pattern = None if meta.pattern is None else meta.pattern.replace(r"\Z", "$")
    return Field(pattern=pattern, description=meta.description, json_schema_extra=meta.extra_json_schema, **said)
