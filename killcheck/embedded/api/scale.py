"""The scale subresource: an ``autoscaling/v1`` Scale as a view of anything that has replicas.

Recording 25 is the yardstick: a zero is sent as ``"spec": {}``, and a spec without replicas scales to zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from killcheck.embedded.api import status
from killcheck.embedded.api.applying import Configuration
from killcheck.embedded.api.body import read_object
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.decoding import check_name, decode_object
from killcheck.embedded.api.fieldsets import applied_fields
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.mergekeys import ApplyLists
from killcheck.embedded.api.patching import APPLY
from killcheck.kube.objects import Obj, copy, dig
from killcheck.kube.selectors import format_selector

if TYPE_CHECKING:
    from killcheck.embedded.api.server import ApiServer

__all__ = ["Scaler", "scale_of"]

SCHEMA = "V1Scale"
API_VERSION = "autoscaling/v1"
_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Scaler:
    """GET, PUT and PATCH of ``.../scale``. Every method raises StatusError."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    def handle(self, call: Call) -> Response:
        """Answer a call on the scale subresource."""
        if call.verb == "get":
            return Response(200, scale_of(call.kind, self.server.reader.find(call)))
        if call.verb == "update":
            return self._put(call)
        content_type = self.server.patcher.content_type(call)
        if content_type == APPLY:
            return self._apply(call)
        patched = self.server.patcher.function(call, content_type)
        return self._write(call, lambda old: patched(old, SCHEMA))

    def _put(self, call: Call) -> Response:
        call.dry_run  # noqa: B018  (refuse a bad value before anything else)
        scale = decode_object(
            call, read_object(call, "Scale"), kind_name="Scale", api_version=API_VERSION, schema=SCHEMA
        )
        check_name(call, scale)
        return self._write(call, lambda _: scale)

    def _write(self, call: Call, change: Any, *, applied: Obj | None = None) -> Response:
        kind, server = call.kind, self.server
        old = server.reader.find(call)
        before = scale_of(kind, old)
        scale = change(before)
        uid = dig(scale, "metadata", "uid")
        if uid and uid != old["metadata"]["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            raise status.conflict(f"{kind.resource.plural}/scale", kind.resource.group, call.name, why)
        version = dig(scale, "metadata", "resourceVersion")
        if version not in (None, "", "0", old["metadata"]["resourceVersion"]):
            raise status.conflict(kind.resource.plural, kind.resource.group, call.name)
        admitted = server.admit(call, "UPDATE", scale, before, dry_run=call.dry_run, subresource="scale")
        replicas = dig(admitted, "spec", "replicas", default=0)
        if replicas < 0 and kind.crd is None:  # a custom resource's own schema says it
            causes = [
                {
                    "reason": "FieldValueInvalid",
                    "field": "spec.replicas",
                    "message": f"Invalid value: {replicas}: must be greater than or equal to 0",
                }
            ]
            raise status.invalid("Scale", "autoscaling", call.name, causes)

        def scaled(obj: Obj) -> Obj:
            new = copy(obj)
            _put_at(new, _path(kind, "specReplicasPath", "spec.replicas"), replicas)
            return new

        operation = "Apply" if applied is not None else "Update"
        fields = applied_fields(applied) if applied is not None else None
        updated = server.writer.update(call, scaled, operation=operation, applied=fields, admit=False)
        if not replicas and not call.dry_run:  # a Scale without replicas says that nobody manages them
            shape: Obj = {}
            _put_at(shape, _path(kind, "specReplicasPath", "spec.replicas"), 0)
            server.managed.release(kind.table, call.key, applied_fields(shape), None)
        return Response(200, scale_of(kind, updated))

    def _apply(self, call: Call) -> Response:
        """Apply: what is zero counts as not set, and so as nobody's."""
        patcher = self.server.patcher
        config = patcher.applied_config(call, schema=SCHEMA, api_version=API_VERSION, kind="Scale").typed
        old = self.server.reader.find(call)
        replicas = dig(config, "spec", "replicas", default=0)
        shape: Obj = {"metadata": {}}
        path = _path(call.kind, "specReplicasPath", "spec.replicas")
        _put_at(shape, path, replicas)
        # A Scale does not show a zero: whoever applies one changes it, whatever there is.
        seen = old if dig(old, *path, default=0) else _without(old, path)
        forced = patcher.applied(
            call, seen, Configuration(shape, shape), applied_fields(shape), ApplyLists(call.kind)
        ).forced

        def change(before: Obj) -> Obj:
            meta = dig(config, "metadata", "resourceVersion")
            spec = before["spec"] | ({"replicas": replicas} if "spec" in config else {})
            extra = {"resourceVersion": meta} if meta else {}
            return before | {"spec": spec, "metadata": before["metadata"] | extra}

        response = self._write(call, change, applied=shape)
        patcher.take(call, forced)
        return response


def scale_of(kind: Kind, obj: Obj) -> Obj:
    """The Scale of an object (of a version that ``kind`` serves)."""
    meta = obj["metadata"]
    replicas = dig(obj, *_path(kind, "specReplicasPath", "spec.replicas"))
    current: Obj = {"replicas": int(dig(obj, *_path(kind, "statusReplicasPath", "status.replicas"), default=0))}
    if kind.crd is None:
        selector = format_selector(dig(obj, "spec", "selector"))
    else:
        path = _path(kind, "labelSelectorPath", "")
        selector = str(dig(obj, *path, default="")) if path else ""
    if selector:
        current["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": API_VERSION,
        "metadata": {name: meta[name] for name in _META if name in meta},
        "spec": {"replicas": int(replicas)} if replicas else {},
        "status": current,
    }


def _path(kind: Kind, name: str, fallback: str) -> list[str]:
    scale = (kind.crd_version.get("subresources") or {}).get("scale") or {}
    text = str(scale.get(name, "")).lstrip(".") if kind.crd else fallback
    return text.split(".") if text else []


def _without(obj: Obj, path: list[str]) -> Obj:
    """The object without one field (a copy of what leads there)."""
    if path[0] not in obj:
        return obj
    if len(path) == 1:
        return {key: value for key, value in obj.items() if key != path[0]}
    return obj | {path[0]: _without(obj[path[0]], path[1:])}


def _put_at(obj: Obj, path: list[str], value: Any) -> None:
    for step in path[:-1]:
        obj = obj.setdefault(step, {})
    obj[path[-1]] = value
