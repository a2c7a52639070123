"""What shape an answer should have: as it is, as a Table, or metadata alone (``Accept: ...;as=Table``)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from killcheck.clock import Loop
from killcheck.embedded.api import status
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.conversion import converted
from killcheck.kube.objects import Obj

__all__ = ["PLAIN", "SERVED", "Shape", "check_document", "renderer", "shape_of", "shaped"]

_JSON = frozenset({"application/json", "*/*", "application/*", "application/yaml"})


class Shape(NamedTuple):
    """``as_kind`` is empty, Table, PartialObjectMetadata or PartialObjectMetadataList."""

    as_kind: str = ""
    version: str = ""


PLAIN = Shape()


def shape_of(call: Call) -> Shape:
    """The first media type in Accept that can be served. Raises StatusError 406 where none can."""
    accept = call.request.headers.get("accept", "")
    if not accept or accept in _JSON:
        return PLAIN
    check_route(call)
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        if media not in _JSON:
            continue
        given = dict(part.split("=", 1) for part in parameters if "=" in part)
        as_kind = given.get("as", "")
        if not as_kind:
            return PLAIN
        if given.get("g") == "meta.k8s.io" and given.get("v") in ("v1", "v1beta1") and as_kind in _SHAPES:
            return Shape(as_kind, given["v"])
    raise status.not_acceptable(f"only the following media types are accepted: {', '.join(SERVED)}")


def check_route(call: Call) -> None:
    """What is asked before the route's own handler is. Raises StatusError 406."""
    accept = call.request.headers.get("accept", "")
    if accept and accept not in _JSON:
        check_media(accept, STREAMED if call.verb in ("list", "watch") else SERVED)


def check_media(accept: str, served: tuple[str, ...]) -> None:
    """What go-restful asks of the route before anybody looks closer. Raises StatusError 406 where nothing is served."""
    asked = {clause.partition(";")[0].strip() for clause in accept.split(",")}
    if not asked & {*served, "*/*", "application/*"}:
        known = f"406: Not Acceptable\n\nAvailable representations: {', '.join(served)}"
        raise status.StatusError(406, "NotAcceptable", known, details={})


def check_document(accept: str, served: tuple[str, ...], *, routed: bool = True) -> None:
    """As :meth:`check_media`, of a document that has one shape. Raises StatusError 406."""
    if not accept:
        return
    if routed:
        check_media(accept, served)
    asked = {clause.strip() for clause in accept.split(",")}
    if not routed and not asked & {*served, "*/*", "application/*"}:
        raise status.not_acceptable(f"only the following media types are accepted: {', '.join(SERVED)}")
    if served == SERVED and all("as=" in clause for clause in accept.split(",")):
        raise status.not_acceptable(f"only the following media types are accepted: {', '.join(SERVED)}")


#: The media types of an object or of discovery, and those of what may be watched.
SERVED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
STREAMED = (*SERVED, "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
_SHAPES = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})


def shaped(shape: Shape, call: Call, items: list[Obj], list_meta: Obj, now: datetime) -> Obj:
    """Objects in the shape asked for."""
    api_version = f"meta.k8s.io/{shape.version}"
    if shape.as_kind == "Table":
        include = call.request.param("includeObject") or "Metadata"
        from killcheck.embedded.api import tables

        return tables.render(call.kind, items, now, list_meta, tables.Wanted(include, api_version))
    if shape.as_kind == "PartialObjectMetadata" and call.name:
        return _partial(items[0], api_version)
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": api_version,
        "metadata": list_meta,
        "items": [_partial(item, api_version) for item in items] or None,
    }


def renderer(call: Call, loop: Loop) -> Callable[[Obj], Obj] | None:
    """How a watch's objects are to be shown; None: as they are stored."""
    kind = call.kind
    shape = shape_of(call)
    if shape is PLAIN:
        needs = kind.crd is not None or kind.stored_as is not None or kind.resource.group == "autoscaling"
        return (lambda obj: converted(kind, obj)) if needs else None
    if shape.as_kind != "Table":
        return lambda obj: _partial(converted(kind, obj), f"meta.k8s.io/{shape.version}")
    first = [True]

    def as_table(obj: Obj) -> Obj:
        meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        if "name" in obj["metadata"]:
            table = shaped(shape, call, [converted(kind, obj)], meta, loop.now())
        else:  # a bookmark
            from killcheck.embedded.api import tables

            table = tables.of_nothing(kind, obj, meta, f"meta.k8s.io/{shape.version}")
        if not first[0]:  # columns are told once
            table["columnDefinitions"] = None
        first[0] = False
        return table

    return as_table


def _partial(obj: Obj, api_version: str) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": obj["metadata"]}
