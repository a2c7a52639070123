"""The scale subresource: an ``autoscaling/v1`` Scale as a view of anything that has replicas.

Recording 25 is the yardstick: a zero is sent as ``"spec": {}``, and a spec without replicas scales to zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from killcheck.embedded.api import status
from killcheck.embedded.api.body import read_object
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.decoding import check_name, decode_object
from killcheck.embedded.api.fieldsets import applied_fields, subtract
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.managedfields import Manager
from killcheck.embedded.api.patching import APPLY
from killcheck.embedded.api.scalepaths import path_of, put_at, replicas_fields
from killcheck.embedded.api.writes import other_uid
from killcheck.kube.objects import Obj, copy, dig
from killcheck.kube.selectors import format_selector

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core
    from killcheck.embedded.api.patching import Patcher
    from killcheck.embedded.api.writes import Writer

__all__ = ["Scaler", "scale_of"]

SCHEMA = "V1Scale"
API_VERSION = "autoscaling/v1"
_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Scaler:
    """GET, PUT and PATCH of ``.../scale``. Every method raises StatusError."""

    def __init__(self, server: Core, writer: Writer, patcher: Patcher) -> None:
        self.server = server
        self.writer = writer
        self.patcher = patcher

    def handle(self, call: Call) -> Response:
        """Answer a call on the scale subresource."""
        if call.verb == "get":
            return Response(200, scale_of(call.kind, self.server.find(call)))
        if call.verb == "update":
            return self._put(call)
        content_type = self.patcher.content_type(call)
        if content_type == APPLY:
            return self._apply(call)
        patched = self.patcher.function(call, content_type)
        return self._write(call, lambda old: patched(old, SCHEMA))

    def _put(self, call: Call) -> Response:
        call.dry_run  # noqa: B018  (refuse a bad value before anything else)
        scale = decode_object(
            call, read_object(call, "Scale"), kind_name="Scale", api_version=API_VERSION, schema=SCHEMA
        )
        check_name(call, scale)
        return self._write(call, lambda _: scale)

    def _write(self, call: Call, change: Callable[[Obj], Obj], *, applied: Obj | None = None) -> Response:
        """Write what ``change`` makes of the Scale; ``applied``: the configuration that it comes from."""
        kind, server = call.kind, self.server
        old = server.find(call)
        before = scale_of(kind, old)
        scale = change(before)
        _check_preconditions(call, scale, old)
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
            put_at(new, path_of(kind, "specReplicasPath", "spec.replicas"), replicas)
            return new

        updated = self.writer.update(call, scaled, admit=False)
        if not call.dry_run:
            server.managed.scaled(
                call,
                before=dig(before, "spec", "replicas", default=0),
                after=replicas if applied is None else _said(applied),
                applied=applied is not None,
                since=int(updated["metadata"]["resourceVersion"]),
            )
        return Response(200, scale_of(kind, updated))

    def _apply(self, call: Call) -> Response:
        """Apply. Raises StatusError 409 where others manage the replicas that it changes."""
        config = self.patcher.applied_config(call, schema=SCHEMA, api_version=API_VERSION, kind="Scale").typed
        old = self.server.find(call)
        asked = dig(config, "spec", "replicas")
        current = dig(scale_of(call.kind, old), "spec", "replicas", default=0)
        if asked is not None and (asked != current or not asked):  # a Scale does not show a zero: it would be new
            self._refuse_of_others(call, current)

        def change(before: Obj) -> Obj:
            meta = dig(config, "metadata", "resourceVersion")
            spec = before["spec"] | ({"replicas": asked or 0} if "spec" in config else {})
            extra = {"resourceVersion": meta} if meta else {}
            return before | {"spec": spec, "metadata": before["metadata"] | extra}

        return self._write(call, change, applied=config)

    def _refuse_of_others(self, call: Call, current: int) -> None:
        """Where nobody manages the replicas, whoever set them did so before the first apply (skipnonapplied.go)."""
        path, kind = replicas_fields(call.kind), call.kind
        sets = self.server.managed.sets(kind.table, call.key)
        claims = [manager for manager, fields in sets.items() if not subtract(path, fields)]
        if not claims and current:
            claims = [Manager("before-first-apply", "Update", API_VERSION, "scale")]
        me = Manager(call.manager, "Apply", kind.resource.api_version, "scale")
        others = [(manager, applied_fields({"spec": {"replicas": 0}})) for manager in claims if manager != me]
        if others and not call.request.flag("force"):
            raise self.patcher.conflict(call, others)


def _said(configuration: Obj) -> int | None:
    """The replicas that a configuration has: a null is a zero, and what is left out is nothing."""
    spec = configuration.get("spec") or {}
    return int(spec["replicas"] or 0) if "replicas" in spec else None


def _check_preconditions(call: Call, scale: Obj, old: Obj) -> None:
    """Raises StatusError 409 where the Scale is one of another object, or of another state of it."""
    kind, meta = call.kind, old["metadata"]
    uid, version = dig(scale, "metadata", "uid"), dig(scale, "metadata", "resourceVersion")
    if uid and uid != meta["uid"]:
        if call.verb == "update":
            raise other_uid(call, uid, meta["uid"])
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}"
        raise status.conflict(f"{kind.resource.plural}/scale", kind.resource.group, call.name, why)
    if version not in (None, "", "0", meta["resourceVersion"]):
        raise status.conflict(kind.resource.plural, kind.resource.group, call.name)


def scale_of(kind: Kind, obj: Obj) -> Obj:
    """The Scale of an object (of a version that ``kind`` serves)."""
    meta = obj["metadata"]
    replicas = dig(obj, *path_of(kind, "specReplicasPath", "spec.replicas"))
    current: Obj = {"replicas": int(dig(obj, *path_of(kind, "statusReplicasPath", "status.replicas"), default=0))}
    if kind.crd is None:
        selector = format_selector(dig(obj, "spec", "selector"))
    else:
        path = path_of(kind, "labelSelectorPath", "")
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
