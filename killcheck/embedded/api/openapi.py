"""OpenAPI documents: what kubectl asks before it validates, applies or explains. Built when first asked for.

/openapi/v3 lists a document for each group and version; each has its types' schemas and, for every kind, the paths
from which kubectl learns that the server validates fields itself. /openapi/v2 is one document, in JSON or in protobuf.
Source: k8s.io/kube-openapi; what kubectl v1.32 and v1.36 read from it.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from killcheck.embedded.api import openapi_protobuf, schemas
from killcheck.embedded.api.http import Request, Response
from killcheck.embedded.api.kinds import Kind, Registry, builtin
from killcheck.embedded.api.mergekeys import merge_key, merges_primitives, replaces, retains_keys
from killcheck.embedded.api.schemas import Field
from killcheck.embedded.api.status import not_acceptable
from killcheck.kube.objects import Obj, copy, dig

__all__ = ["paths", "respond"]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_SPECIAL: dict[str, tuple[str, Obj]] = {
    "Quantity": ("io.k8s.apimachinery.pkg.api.resource.Quantity", {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "IntOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "Time": (f"{_META}.Time", {"type": "string", "format": "date-time"}),
    "MicroTime": (f"{_META}.MicroTime", {"type": "string", "format": "date-time"}),
    "any": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
}
_SCALARS: dict[str, Obj] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "Duration": {"type": "string"},
}
#: Types of meta/v1, which every group uses.
_META_TYPES = frozenset(
    {
        "V1ObjectMeta",
        "V1ListMeta",
        "V1OwnerReference",
        "V1ManagedFieldsEntry",
        "V1LabelSelector",
        "V1LabelSelectorRequirement",
        "V1Condition",
        "V1DeleteOptions",
        "V1Preconditions",
        "V1Status",
        "V1StatusDetails",
        "V1StatusCause",
        "V1FieldSelectorRequirement",
    }
)
#: What the parent of a field is called where the field's merge key depends on it.
_CACHED = {"Cache-Control": "public, immutable", "Expires": "Fri, 31 Dec 2100 23:59:59 GMT", "Vary": "Accept"}


def respond(registry: Registry, request: Request) -> Response | None:
    """The document at a path below /openapi; None: there is none. Raises StatusError 406."""
    parts = [part for part in request.path.split("/") if part][1:]
    accept = request.headers.get("accept", "")
    binary = any(media in accept for media in openapi_protobuf.MEDIA_TYPES)
    if parts == ["v2"] and binary:
        return Response(
            200, _v2_protobuf(registry), {"Content-Type": openapi_protobuf.MEDIA_TYPES[0], "Vary": "Accept"}
        )
    if accept and not any(media in accept for media in ("json", "*/*", "application/*")):
        raise not_acceptable("only the following media types are accepted: application/json")
    if parts == ["v2"]:
        return Response(200, _v2(registry), {"Content-Type": "application/json", "Vary": "Accept"})
    if parts[:1] != ["v3"]:
        return None
    if len(parts) == 1:
        return Response(200, {"paths": _index(registry)})
    group_version = _group_version(parts[1:])
    kinds = [] if group_version is None else _kinds(registry, *group_version)
    if not kinds:
        return None
    tag = _tag(kinds)
    if tag in request.headers.get("if-none-match", ""):
        return Response(304, None, {"Etag": f'"{tag}"', "Vary": "Accept"})
    headers = {"Content-Type": "application/json", "Etag": f'"{tag}"'}
    return Response(200, _v3(kinds), headers | (_CACHED if request.param("hash") else {"Vary": "Accept"}))


def paths(registry: Registry) -> list[str]:
    """Every path that is served and is no resource: the index at ``/``."""
    roots = {f"/{_root(kind)}" for kind in registry.all()}
    groups = {root.rpartition("/")[0] for root in roots if root.startswith("/apis")}
    return sorted(
        {
            *roots,
            *groups,
            "/.well-known/openid-configuration",
            "/api",
            "/apis",
            "/apis/",
            "/healthz",
            "/healthz/ping",
            "/livez",
            "/livez/ping",
            "/openapi/v2",
            "/openapi/v3",
            "/openapi/v3/",
            "/openid/v1/jwks",
            "/readyz",
            "/readyz/ping",
            "/version",
        }
    )


def _group_version(parts: list[str]) -> tuple[str, str] | None:
    if len(parts) == 2 and parts[0] == "api":
        return "", parts[1]
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == "apis" else None


def _kinds(registry: Registry, group: str, version: str) -> list[Kind]:
    return [kind for kind in registry.all() if (kind.resource.group, kind.resource.version) == (group, version)]


def _root(kind: Kind) -> str:
    resource = kind.resource
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _index(registry: Registry) -> Obj:
    by_root: dict[str, list[Kind]] = {}
    for kind in registry.all():
        by_root.setdefault(_root(kind), []).append(kind)
    return {
        root: {"serverRelativeURL": f"/openapi/v3/{root}?hash={_tag(kinds)}"} for root, kinds in sorted(by_root.items())
    }


@cache
def _builtin_hash() -> bytes:
    return hashlib.sha256(Path(schemas.__file__).with_name("schemas.json").read_bytes()).digest()


def _tag(kinds: list[Kind]) -> str:
    """Changes whenever a document would."""
    digest = hashlib.sha256(_builtin_hash())
    for kind in kinds:
        digest.update(repr((kind.resource, sorted(kind.subresources))).encode())
        if kind.crd is not None:
            digest.update(json.dumps(kind.crd.get("spec"), sort_keys=True).encode())
    return digest.hexdigest()[:32].upper()


# -- documents -------------------------------------------------------------------------------------------------
def _v3(kinds: list[Kind]) -> Obj:
    components: dict[str, Obj] = {}
    paths: Obj = {}
    for kind in kinds:
        _add_kind(components, kind, "#/components/schemas/")
        paths |= _paths(kind)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": dict(sorted(components.items()))},
    }


def _v2(registry: Registry) -> Obj:
    definitions: dict[str, Obj] = {}
    paths: Obj = {}
    for kind in registry.all():
        _add_kind(definitions, kind, "#/definitions/")
        paths |= _paths(kind)
    for name, body in _SPECIAL.values():
        if name in definitions:
            definitions[name] = {"type": "string"} | {k: v for k, v in body.items() if k != "oneOf"}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "definitions": dict(sorted(definitions.items())),
    }


_LAST: list[tuple[str, bytes]] = []


def _v2_protobuf(registry: Registry) -> bytes:
    """The document in protobuf; kubectl asks for it at each call, and it changes with the registry alone."""
    tag = _tag(list(registry.all()))
    if not _LAST or _LAST[0][0] != tag:
        _LAST[:] = [(tag, openapi_protobuf.encode(_v2(registry)))]
    return _LAST[0][1]


def _gvk(kind: Kind) -> Obj:
    resource = kind.resource
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


_QUERY = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")


def _paths(kind: Kind) -> Obj:
    """The paths of a kind: enough to find its kind by its resource, and which options a PATCH takes."""
    resource, gvk = kind.resource, _gvk(kind)
    root = f"/{_root(kind)}/" + ("namespaces/{namespace}/" if resource.namespaced else "") + resource.plural
    options = [
        {"name": name, "in": "query", "schema": {"type": "boolean" if name == "force" else "string"}} for name in _QUERY
    ]

    def operation(action: str, *, parameters: bool = False) -> Obj:
        body: Obj = {"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk}
        return body | ({"parameters": options} if parameters else {}) | {"responses": {"200": {"description": "OK"}}}

    collection: Obj = {"post": operation("post", parameters=True)} if "create" in kind.verbs else {}
    if "list" in kind.verbs:
        collection["get"] = operation("list")
    paths: Obj = {root: collection}
    if "get" in kind.verbs:
        paths[root + "/{name}"] = {
            "get": operation("get"),
            "put": operation("put", parameters=True),
            "patch": operation("patch", parameters=True),
            "delete": operation("delete"),
        }
    return paths


def _add_kind(components: dict[str, Obj], kind: Kind, prefix: str) -> None:
    if kind.crd is not None:
        _add_custom(components, kind, prefix)
    elif kind.schema is not None:
        _add(components, kind.schema, prefix)
        known = components[_definition_name(kind.schema)].setdefault("x-kubernetes-group-version-kind", [])
        if _gvk(kind) not in known:
            known.append(_gvk(kind))


# -- built-in types --------------------------------------------------------------------------------------------
@cache
def _homes() -> dict[str, str]:
    """type -> package: that of the first group, in the order of the registry, which uses it."""
    homes = {name: _META for name in schemas.load() if name in _META_TYPES}
    for kind in builtin():
        wanted = [kind.schema or ""]
        package = _package(kind)
        while wanted:
            name = wanted.pop()
            if name in schemas.load() and name not in homes:
                homes[name] = package
                wanted += [spec.base for spec in schemas.fields(name).values()]
    return homes


def _package(kind: Kind) -> str:
    group, version = kind.resource.group.partition(".")[0] or "core", kind.resource.version
    if group == "apiextensions":
        return f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}"
    return f"io.k8s.api.{group}.{version}"


@cache
def _definition_name(schema: str) -> str:
    return f"{_homes().get(schema, _META)}.{schemas.go_name(schema).partition('.')[2]}"


@cache
def _words() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(
        Path(schemas.__file__).with_name("descriptions.json").read_text("utf-8")
    )
    return found


def _add(components: dict[str, Obj], schema: str, prefix: str) -> None:
    """A type and everything it refers to."""
    name = _definition_name(schema)
    if name in components:
        return
    components[name] = {}
    words, properties = _words().get(schema, {}), {}
    fields = schemas.fields(schema)
    for field, spec in fields.items():
        properties[field] = _property(components, schema, field, spec, prefix)
        if field in words:
            properties[field]["description"] = words[field]
    body: Obj = {"type": "object", "properties": properties}
    required = [
        field for field, spec in fields.items() if spec.always and not spec.pointer and spec.base not in _SPECIAL
    ]
    if required:
        body["required"] = required
    components[name] = body


def _property(components: dict[str, Obj], schema: str, field: str, spec: Field, prefix: str) -> Obj:
    body = _base(components, spec, prefix)
    for level in reversed([spec.shape[i : i + 2] for i in range(0, len(spec.shape), 2)]):
        body = {"type": "array", "items": body} if level == "[]" else {"type": "object", "additionalProperties": body}
    strategies = ["retainKeys"] if retains_keys(schema, field) else []
    merged = merge_key(schema, field)
    if merged:
        body["x-kubernetes-patch-merge-key"] = merged
    if merged or merges_primitives(schema, field):
        strategies.insert(0, "merge")
    if replaces(schema, field):
        strategies = ["replace"]
    if strategies:
        body["x-kubernetes-patch-strategy"] = ",".join(strategies)
    return body


def _base(components: dict[str, Obj], spec: Field, prefix: str) -> Obj:
    if spec.base in _SPECIAL:
        name, body = _SPECIAL[spec.base]
        components.setdefault(name, dict(body))
        return _reference(prefix, name, spec)
    if spec.base in schemas.load():
        _add(components, spec.base, prefix)
        return _reference(prefix, _definition_name(spec.base), spec)
    return dict(_SCALARS[spec.base])


def _reference(prefix: str, name: str, spec: Field) -> Obj:
    """In version 3 a reference stands alone in an ``allOf`` where something is said beside it."""
    reference: Obj = {"$ref": prefix + name}
    return reference if spec.shape or prefix == "#/definitions/" else {"allOf": [reference]}


# -- custom resources ------------------------------------------------------------------------------------------
def _add_custom(components: dict[str, Obj], kind: Kind, prefix: str) -> None:
    resource = kind.resource
    schema: Any = dig(kind.crd_version, "schema", "openAPIV3Schema", default={})
    body: Obj = copy(schema)
    properties = body.setdefault("properties", {})
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    _add(components, "V1ObjectMeta", prefix)
    reference = {"$ref": prefix + _definition_name("V1ObjectMeta")}
    properties["metadata"] = reference if prefix == "#/definitions/" else {"allOf": [reference]}
    body.setdefault("type", "object")
    body["x-kubernetes-group-version-kind"] = [_gvk(kind)]
    reversed_group = ".".join(reversed(resource.group.split(".")))
    components[f"{reversed_group}.{resource.version}.{resource.kind}"] = body
