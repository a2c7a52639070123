"""Built-in types: strict decoding as Go does it, from ``schemas.json``.

An object that passes through Go's structures comes out changed: unknown fields and nulls are gone, empty optional
values too, quantities and times are in canonical form, and what is always written is there (``resources: {}``). So
it does here. Source: sigs.k8s.io/json and the types of k8s.io/api; recordings 19, 25, 31.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from killcheck.embedded.api import scalars
from killcheck.embedded.api.scalars import OMIT, Mismatch
from killcheck.embedded.api.status import bad_request
from killcheck.kube.objects import Obj, copy

__all__ = [
    "Decoded",
    "Field",
    "decode",
    "field",
    "fields",
    "go_name",
    "in_order",
    "load",
    "structure",
]

Reader = Callable[[Any, list[str]], Any]


class Decoded(Struct, frozen=True):
    """``obj``: a new object (leaves that have no schema are shared with the input); ``unknown``: paths of fields
    that its type does not have, as ``spec.template.spec.containers[0].imagePullPolice``."""

    obj: Obj
    unknown: list[str]


class Field(Struct, frozen=True):
    """A field's code taken apart; see ``schemas_generate``. ``shape`` is a run of ``[]`` and ``{}``."""

    pointer: bool
    shape: str
    base: str
    go: str
    always: bool
    omit_empty_struct: bool

    @property
    def go_type(self) -> str:
        """What Go's error messages call the type: ``[]v1.Container``, ``map[string]string``, ``v1.PullPolicy``."""
        if self.go in ("v1.ResourceList", "v1.Verbs", "v1.JSONSchemaDefinitions", "v1.ValidationRules"):
            return self.go
        base = self.go or _GO_SCALARS.get(self.base) or go_name(self.base)
        return self.shape.replace("{}", "map[string]") + base


_GO_SCALARS = {
    "string": "string",
    "bool": "bool",
    "int32": "int32",
    "int64": "int64",
    "float64": "float64",
    "bytes": "[]uint8",
    "Quantity": "resource.Quantity",
    "IntOrString": "intstr.IntOrString",
    "Time": "v1.Time",
    "MicroTime": "v1.MicroTime",
    "Duration": "v1.Duration",
    "any": "runtime.RawExtension",
}


@cache
def load() -> dict[str, dict[str, str]]:
    """type -> field -> code."""
    found: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("schemas.json").read_text("utf-8"))
    return found


@cache
def field(code: str) -> Field:
    """A code of ``schemas.json`` taken apart."""
    rest = code.removeprefix("*")
    always, omit = rest.endswith("!"), rest.endswith("?")
    rest, _, go = rest.rstrip("!?").partition("/")
    base = rest.lstrip("[]{}")
    return Field(code.startswith("*"), rest[: len(rest) - len(base)], base, go, always, omit)


@cache
def fields(schema: str) -> dict[str, Field]:
    """The fields of a type. Raises KeyError for an unknown type."""
    return {name: field(code) for name, code in load()[schema].items()}


@cache
def structure(schema: str, name: str) -> str:
    """The type of a field, or of its items, where it is a structure; "" otherwise, and for what is not known."""
    code = load().get(schema, {}).get(name)
    base = "" if code is None else field(code).base
    return base if base in load() else ""


@cache
def go_name(schema: str) -> str:
    """``V1PodSpec`` is ``v1.PodSpec``, ``CoreV1Event`` is ``v1.Event``."""
    package, name = _split(schema)
    return f"{package}.{name}"


def _split(schema: str) -> tuple[str, str]:
    digit = next((i for i, c in enumerate(schema) if c.isdigit() and schema[i - 1] == "V"), 0)
    end = next((i for i in range(digit, len(schema)) if schema[i].isupper()), len(schema))
    return schema[digit - 1 : end].lower(), schema[end:]


def decode(schema: str, obj: Obj, *, partial: bool = False) -> Decoded:
    """Read an object of a built-in type. ``partial``: an applied configuration, to which nothing is added.

    Raises StatusError 400 in Go's words: ``json: cannot unmarshal bool into Go struct field
    Container.spec.template.spec.containers.name of type string``.
    """
    stray: list[str] = []
    try:
        clean = _struct(schema, partial).read(obj, stray)
    except Mismatch as error:
        said = error if error.plain else next(_broken(schema, obj), error)
        raise bad_request(said.words()) from error
    return Decoded(clean, _unknown(schema, obj) if stray else [])


def _broken(schema: str, value: Any) -> Iterator[Mismatch]:
    """What types that read themselves refuse: that ends the decoding, and so is said before any other mismatch."""
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        code = load()[schema].get(name)
        if code is None or inner is None:
            continue
        spec = field(code)
        yield from (error for leaf in _leaves(inner, spec.shape) for error in _of_leaf(spec, leaf))


def _leaves(value: Any, shape: str) -> Iterator[Any]:
    if not shape:
        yield value
    elif isinstance(value, list if shape[:2] == "[]" else dict):
        for inner in value if isinstance(value, list) else value.values():
            yield from _leaves(inner, shape[2:])


def _of_leaf(spec: Field, value: Any) -> Iterator[Mismatch]:
    if spec.base in load():
        yield from _broken(spec.base, value)
    elif spec.base in ("Quantity", "Time", "MicroTime") and value is not None:
        try:
            scalars.reader(spec.base, spec.go)(value)
        except Mismatch as error:
            if error.plain:
                yield error


def in_order(schema: str, obj: Any) -> Any:
    """A copy with its keys as Go writes them: in the order of its structures' fields, maps by name."""
    if isinstance(obj, list):
        return [in_order(schema, item) for item in obj]
    if not isinstance(obj, dict):
        return obj
    if schema.startswith("{}") or schema not in load():
        return {key: in_order(schema[2:], obj[key]) for key in sorted(obj)}
    structs = _struct_fields(schema)
    known = [key for key in load()[schema] if key in obj]
    return {key: in_order(structs.get(key, ""), obj[key]) for key in known}


#: What a structure embeds: its fields are the structure's own in JSON, and told behind its name where one is wrong.
_EMBEDS = {
    "Volume": ("VolumeSource", frozenset({"name"})),
    "PersistentVolumeSpec": (
        "PersistentVolumeSource",
        frozenset(
            "capacity accessModes claimRef persistentVolumeReclaimPolicy storageClassName mountOptions volumeMode "
            "nodeAffinity volumeAttributesClassName".split()
        ),
    ),
    "EphemeralContainer": ("EphemeralContainerCommon", frozenset({"targetContainerName"})),
    "Probe": (
        "ProbeHandler",
        frozenset(
            "initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold "
            "terminationGracePeriodSeconds".split()
        ),
    ),
    "RuleWithOperations": ("Rule", frozenset({"operations"})),
    "NamedRuleWithOperations": ("RuleWithOperations.Rule", frozenset({"resourceNames", "operations"})),
    "IngressRule": ("IngressRuleValue", frozenset({"host"})),
    "DeviceClaimConfiguration": ("DeviceConfiguration", frozenset({"requests"})),
    "DeviceAllocationConfiguration": ("DeviceConfiguration", frozenset({"requests", "source"})),
    "DeviceClassConfiguration": ("DeviceConfiguration", frozenset()),
} | dict.fromkeys(
    (
        *("ConfigMapKeySelector", "SecretKeySelector", "ConfigMapEnvSource", "SecretEnvSource"),
        *("ConfigMapProjection", "SecretProjection", "ConfigMapVolumeSource"),
    ),
    ("LocalObjectReference", frozenset({"key", "optional", "items", "defaultMode"})),
)


def _embedded(struct: str, key: str) -> str:
    """``VolumeSource.`` for a Volume's ``secret``; "" for a field of its own."""
    name, own = _EMBEDS.get(struct, ("", frozenset()))
    if struct == "NamedRuleWithOperations" and key == "operations":
        name, own = "RuleWithOperations", frozenset()
    return f"{name}." if name and key not in own else ""


# -- readers ---------------------------------------------------------------------------------------------------
class _Struct:
    """Reads one structure. Its fields are told apart by what is quickest: strings are taken as they are, other
    scalars have a reader, and what has structures inside passes ``stray`` (where unknown keys are noted) on."""

    __slots__ = ("_filled", "_partial", "_schema", "_struct", "always", "inner", "leaves", "strings")

    def __init__(self, schema: str, partial: bool) -> None:
        self._schema = schema
        self._struct = _split(schema)[1]
        self._partial = partial
        self._filled = False
        self.strings: dict[str, bool] = {}
        self.leaves: dict[str, Callable[[Any], Any]] = {}
        self.inner: dict[str, Reader] = {}
        self.always: list[tuple[str, Callable[[], Any]]] = []

    def read(self, source: Any, stray: list[str]) -> Any:
        """A new object. Raises Mismatch."""
        if not self._filled:
            self._fill()
        if source.__class__ is not dict:
            raise Mismatch(source, go_name(self._schema))
        strings, leaves, inner = self.strings, self.leaves, self.inner
        result: Obj = {}
        key = ""
        try:
            for key, value in source.items():
                if value is None:
                    if key not in leaves and key not in inner:
                        stray.append(key)
                    continue
                if value.__class__ is str and key in strings:
                    if value or strings[key]:
                        result[key] = value
                    continue
                leaf = leaves.get(key)
                if leaf is not None:
                    value = leaf(value)
                elif (nested := inner.get(key)) is not None:
                    value = nested(value, stray)
                else:
                    stray.append(key)
                    continue
                if value is not OMIT:
                    result[key] = value
        except Mismatch as error:
            error.inside(self._struct, _embedded(self._struct, key) + key)
            raise
        for name, make in self.always:
            if name not in result:
                result[name] = make()
        return result

    def _fill(self) -> None:
        for name, code in load()[self._schema].items():
            spec = field(code)
            if _is_struct(spec):
                self.inner[name] = _inner_reader(spec, self._partial)
            else:
                self.leaves[name] = _leaf_reader(spec, self._partial)
                if spec.base == "string" and not spec.shape:
                    self.strings[name] = self._partial or spec.pointer or spec.always
            if not self._partial:
                self._add_always(name, spec)
        self._filled = True

    def _add_always(self, name: str, spec: Field) -> None:
        if _is_struct(spec) and not spec.pointer and not spec.shape and not spec.omit_empty_struct:
            empty = _struct(spec.base, False).read({}, [])
            self.always.append((name, _copies(empty) if empty else dict))
        elif spec.always:
            self.always.append((name, _constant(_zero(spec))))


@cache
def _struct(schema: str, partial: bool) -> _Struct:
    return _Struct(schema, partial)


def _copies(value: Obj) -> Callable[[], Obj]:
    """A function that makes fresh copies of ``value``."""
    return lambda: copy(value)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _is_struct(spec: Field) -> bool:
    return spec.base in load()


def _zero(spec: Field) -> Any:
    """What Go writes for a value that was never set."""
    if spec.pointer or spec.shape or spec.base in ("Time", "MicroTime", "bytes", "any"):
        return None
    return {"bool": False, "string": "", "Quantity": "0"}.get(spec.base, 0)


def _leaf_reader(spec: Field, partial: bool) -> Callable[[Any], Any]:
    read = scalars.reader(spec.base, spec.go)
    keeps_empty = partial or spec.pointer or spec.always
    if spec.shape and spec.always and not partial:
        many = _many(spec, spec.shape, read, _constant(None))
        return lambda value: many(value) or None
    if spec.shape:
        read = _many(spec, spec.shape, read, _constant(_zero(Field(False, "", spec.base, "", True, False))))
    elif spec.base in scalars.NEVER_EMPTY:
        return read
    return read if keeps_empty else _without_empty(read)


def _in_json(schema: str) -> bool:
    """Definitions of custom resources are stored in JSON; all else in protobuf, which knows no empty list."""
    return schema.startswith(("V1CustomResource", "V1JSONSchema"))


def _without_empty(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def reading(value: Any) -> Any:
        return read(value) or OMIT

    return reading


def _many(
    spec: Field,
    shape: str,
    read: Callable[[Any], Any],
    null: Callable[[], Any],
) -> Callable[[Any], Any]:
    """Lists and maps of scalars, one level at a time."""
    if not shape:
        return read
    inner = _many(spec, shape[2:], read, null)
    empty = _constant(None) if shape[2:] else null
    go = _go_type_from(spec, shape)

    def read_list(value: Any) -> Any:
        if value.__class__ is not list:
            raise Mismatch(value, go)
        return [empty() if item is None else inner(item) for item in value]

    def read_map(value: Any) -> Any:
        if value.__class__ is not dict:
            raise Mismatch(value, go)
        return {key: empty() if item is None else inner(item) for key, item in value.items()}

    return read_list if shape[:2] == "[]" else read_map


def _inner_reader(spec: Field, partial: bool) -> Reader:
    struct = _struct(spec.base, partial)
    read = _many_structs(spec, spec.shape, struct)
    omits = spec.omit_empty_struct or (spec.shape and not spec.pointer and not spec.always)
    if partial:
        return read
    if spec.shape and spec.always and not _in_json(spec.base):
        return lambda value, stray: read(value, stray) or None
    if not omits:
        return read

    def reading(value: Any, stray: list[str]) -> Any:
        return read(value, stray) or OMIT

    return reading


def _many_structs(spec: Field, shape: str, struct: _Struct) -> Reader:
    if not shape:
        return struct.read
    inner = _many_structs(spec, shape[2:], struct)
    go = _go_type_from(spec, shape)
    nothing: Any = None if shape[2:] else {}

    def read_list(value: Any, stray: list[str]) -> Any:
        if value.__class__ is not list:
            raise Mismatch(value, go)
        return [inner(nothing if item is None else item, stray) for item in value]

    def read_map(value: Any, stray: list[str]) -> Any:
        if value.__class__ is not dict:
            raise Mismatch(value, go)
        return {key: inner(nothing if item is None else item, stray) for key, item in value.items()}

    return read_list if shape[:2] == "[]" else read_map


def _go_type_from(spec: Field, shape: str) -> str:
    """The Go type of a field, or of what is inside it when some of its shape is gone."""
    if shape == spec.shape:
        return spec.go_type
    gone = spec.shape[: len(spec.shape) - len(shape)]
    return spec.go_type[len(gone.replace("{}", "map[string]")) :]


# -- unknown fields --------------------------------------------------------------------------------------------
def _unknown(schema: str, obj: Obj) -> list[str]:
    """Paths of fields that the type does not have, in the order in which they are met."""
    found: list[str] = []
    _collect(schema, obj, "", found)
    return found


@cache
def _struct_fields(schema: str) -> dict[str, str]:
    """The fields that hold structures: name -> type, with ``{}`` in front where it is a map of them."""
    return {name: spec.shape.replace("[]", "") + spec.base for name, spec in fields(schema).items() if _is_struct(spec)}


def _collect(schema: str, value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, list):
        for i, item in enumerate(value):
            _collect(schema, item, f"{path}[{i}]", found)
    elif isinstance(value, dict):
        known, structs = load().get(schema, {}), _struct_fields(schema) if schema in load() else {}
        for key, item in value.items():
            at = f"{path}.{key}" if path else key
            if schema.startswith("{}"):
                _collect(schema[2:], item, at, found)
            elif key not in known:
                found.append(at)
            elif key in structs:
                _collect(structs[key], item, at, found)
