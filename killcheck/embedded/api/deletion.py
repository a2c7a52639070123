"""DELETE: preconditions, grace, finalizers, propagation, and the removal itself.

Source: k8s.io/apiserver/pkg/registry/rest/delete.go, registry/generic/registry/store.go and each type's strategy;
recordings 21, 22 and 30b.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from killcheck.embedded.api import schemas, status
from killcheck.embedded.api.body import (
    JSON_TYPES,
    PROTOBUF,
    GoJSONError,
    parse_json,
    parse_yaml,
    read_protobuf,
    unknown_format,
)
from killcheck.embedded.api.call import Call, bad_dry_run
from killcheck.embedded.api.conversion import converted
from killcheck.embedded.api.decoding import SCHEME
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.store import Key
from killcheck.kube.objects import Obj, dig, format_time, parse_time

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core
    from killcheck.embedded.api.reads import Reader

__all__ = ["DeleteOptions", "Deleter", "ready_to_go"]

_PODS = ("", "pods")
_CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
_NAMESPACES = ("", "namespaces")
_JOBS = ("batch", "jobs")
_EVENTS = ("", "events")
ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
#: Types that answer a DELETE with the object itself.
_RETURNS_OBJECT = frozenset(
    {
        _PODS,
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("", "serviceaccounts"),
        ("", "podtemplates"),
        ("", "resourcequotas"),
        ("", "services"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "volumeattachments"),
        ("storage.k8s.io", "csidrivers"),
        ("apps", "controllerrevisions"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourceclaimtemplates"),
        ("resource.k8s.io", "deviceclasses"),
        ("resource.k8s.io", "resourceslices"),
    }
)
_JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


class DeleteOptions(Struct):
    """``meta/v1`` DeleteOptions as they matter here; ``grace_s`` in seconds."""

    grace_s: int | None = None
    propagation: str = ""
    orphan: bool | None = None
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


def ready_to_go(obj: Obj) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    meta = obj["metadata"]
    if obj.get("kind") == "Namespace" and dig(obj, "spec", "finalizers"):
        return False
    return (
        bool(meta.get("deletionTimestamp"))
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
    )


class Deleter:
    """Deletes objects on behalf of calls. Every method raises StatusError."""

    def __init__(self, server: Core, reader: Reader) -> None:
        self.server = server
        self.reader = reader
        self.store = server.store

    def delete(self, call: Call) -> Response:
        """DELETE of one object."""
        options = self._options(call)
        self._warn(call, options)
        kind = call.kind
        obj = self.store.get(kind.table, call.key)
        if obj is None:
            raise status.not_found(kind.resource.plural, kind.resource.group, call.name)
        result, gone = self.delete_object(call, obj, options)
        if result["kind"] != "Status":
            result = self.reader.managed(call, result)
        code = 202 if not gone and options.orphan is False else 200
        return Response(code, result)

    def delete_collection(self, call: Call) -> Response:
        """DELETE of all that a collection request selects; answers with the list of what it met."""
        options = self._options(call)
        kind = call.kind
        met, meta_of_list = self.reader.page(call)
        self._warn(call, options)
        items = [self.reader.managed(call, converted(kind, obj)) for obj in met]
        for obj in met:
            meta = obj["metadata"]
            call.name = meta["name"]
            call.namespace = meta.get("namespace", "")
            if self.store.get(kind.table, call.key) is not None:
                self.delete_object(call, obj, options, named=False)
        call.name = ""
        if call.over_wire and not kind.crd:
            items = [{k: v for k, v in obj.items() if k not in ("apiVersion", "kind")} for obj in items]
        body: Obj = {
            "kind": kind.list_kind,
            "apiVersion": kind.resource.api_version,
            "metadata": meta_of_list,
            "items": items,
        }
        return Response(200, body)

    def delete_object(self, call: Call, obj: Obj, options: DeleteOptions, *, named: bool = True) -> tuple[Obj, bool]:
        """Delete as far as grace and finalizers allow: what the caller is told, and whether the object is gone."""
        kind = call.kind
        self.server.admit(call, "DELETE", None, obj, dry_run=options.dry_run, named=named)
        self._check_preconditions(call, obj, options)
        if kind.table == _NAMESPACES:
            return self._delete_namespace(call, obj, options)
        if kind.table == _CRDS and not obj["metadata"].get("deletionTimestamp"):
            return self._mark_definition(call, obj, options)
        graceful, pending, meta = self._grace(call, obj, options)
        if pending:
            return converted(kind, obj), False
        finalizers = _finalizers(kind, meta, options)
        if finalizers:
            meta["finalizers"] = finalizers
        else:
            meta.pop("finalizers", None)
        if not graceful and finalizers:
            self._mark(meta)
        if graceful or finalizers:
            updated = obj | {"metadata": meta}
            if options.dry_run:
                return converted(kind, updated), False
            if meta != obj["metadata"]:
                obj = self.store.put(kind.table, call.key, updated)
            if finalizers or meta.get("deletionGracePeriodSeconds"):
                return converted(kind, obj), False
        if not options.dry_run:
            obj = self.remove(kind, call.key)
        return self._gone(kind, obj), True

    def remove(self, kind: Kind, key: Key) -> Obj:
        """Take an object out of the store; returns its last state."""
        obj = self.store.remove(kind.table, key)
        self.server.managed.forget(kind.table, key)
        return obj

    def _gone(self, kind: Kind, obj: Obj) -> Obj:
        resource = kind.resource
        if kind.table in _RETURNS_OBJECT:
            return converted(kind, obj)
        meta = obj["metadata"]
        return status.success(resource.plural, resource.group, meta["name"], meta["uid"])

    # -- grace ---------------------------------------------------------------------------------------------
    def _grace(self, call: Call, obj: Obj, options: DeleteOptions) -> tuple[bool, bool, Obj]:
        """Whether the deletion is graceful, whether it is already under way, and the metadata it leads to."""
        meta = dict(obj["metadata"])
        if options.grace_s is not None and options.grace_s < 0:
            options.grace_s = 1
        if call.kind.table != _PODS:
            return False, False, meta
        if meta.get("deletionTimestamp"):
            return self._shorten(meta, options)
        period = options.grace_s
        if period is None:
            period = int(dig(obj, "spec", "terminationGracePeriodSeconds", default=0))
        scheduled = dig(obj, "spec", "nodeName", default="")
        if not scheduled or dig(obj, "status", "phase") in ("Succeeded", "Failed"):
            period = 0
        period = max(period, 0) if period >= 0 else 1
        meta["deletionTimestamp"] = format_time(self.server.loop.now() + timedelta(seconds=period))
        meta["deletionGracePeriodSeconds"] = period
        meta["generation"] = int(meta.get("generation", 0)) + 1
        return True, False, meta

    def _shorten(self, meta: Obj, options: DeleteOptions) -> tuple[bool, bool, Obj]:
        """A later delete can only shorten the grace of an earlier one."""
        current = int(meta.get("deletionGracePeriodSeconds") or 0)
        if current == 0:
            return False, False, meta
        if options.grace_s is None or options.grace_s >= current:
            return False, True, meta
        period = options.grace_s
        now = self.server.loop.now().replace(microsecond=0)
        when = parse_time(meta["deletionTimestamp"]) + timedelta(seconds=period - current)
        if when < now:
            when = now
            period = 1 if period else 0
        meta["deletionTimestamp"] = format_time(when)
        meta["deletionGracePeriodSeconds"] = period
        return True, False, meta

    def _mark(self, meta: Obj) -> None:
        """Begin the deletion of an object that waits for finalizers only."""
        now = format_time(self.server.loop.now())
        if not meta.get("deletionTimestamp"):
            if "generation" in meta:
                meta["generation"] = int(meta["generation"]) + 1
            meta["deletionTimestamp"] = now
        elif meta["deletionTimestamp"] > now:
            meta["deletionTimestamp"] = now
        meta["deletionGracePeriodSeconds"] = 0

    def _delete_namespace(self, call: Call, obj: Obj, options: DeleteOptions) -> tuple[Obj, bool]:
        """A namespace first turns Terminating; the namespace controller empties it and finalizes it."""
        meta = obj["metadata"]
        if not meta.get("deletionTimestamp"):
            meta = meta | {"deletionTimestamp": format_time(self.server.loop.now())}
            phase = (obj.get("status") or {}) | {"phase": "Terminating"}
            obj = obj | {"metadata": meta, "status": phase}
            if options.dry_run:
                return obj, False
            obj = self.store.put(call.kind.table, call.key, obj)
        if dig(obj, "spec", "finalizers", default=[]) or meta.get("finalizers"):
            return obj, False
        if not options.dry_run:
            obj = self.remove(call.kind, call.key)
        return status.success("namespaces", "", call.name, meta["uid"]), True

    def _mark_definition(self, call: Call, obj: Obj, options: DeleteOptions) -> tuple[Obj, bool]:
        """A definition first turns Terminating; its objects go before it does (customresourcedefinition/etcd.go)."""
        now = format_time(self.server.loop.now())
        state = obj.get("status") or {}
        going = {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }
        conditions = [*(state.get("conditions") or []), going]
        marked = obj | {
            "metadata": obj["metadata"] | {"deletionTimestamp": now},
            "status": state | {"conditions": conditions},
        }
        if options.dry_run:
            return marked, False
        return self.store.put(call.kind.table, call.key, marked), False

    # -- options -------------------------------------------------------------------------------------------
    def _check_preconditions(self, call: Call, obj: Obj, options: DeleteOptions) -> None:
        resource, meta = call.kind.resource, obj["metadata"]
        if options.uid and options.uid != meta["uid"]:
            raise status.conflict(
                resource.kind,
                resource.group,
                meta["name"],
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). The "
                "object might have been deleted and then recreated",
            )
        version = options.resource_version
        if version and version != meta["resourceVersion"]:
            raise status.conflict(
                resource.kind,
                resource.group,
                meta["name"],
                f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
                f"({meta['resourceVersion']}). The object might have been modified",
            )

    def _warn(self, call: Call, options: DeleteOptions) -> None:
        if call.kind.table == _JOBS and not options.propagation and options.orphan is None:
            call.warn(_JOB_WARNING)

    def _options(self, call: Call) -> DeleteOptions:
        """From the body, or from the query where there is no body."""
        request = call.request
        raw = request.body
        if raw and call.content_type() == PROTOBUF:
            raw = read_protobuf(raw, "DeleteOptions").value
        elif isinstance(raw, bytes | str) and raw:
            if call.content_type() not in (*JSON_TYPES, "application/yaml"):  # curl's own of ``-d`` is one
                raise unknown_format()
            try:
                raw = (parse_yaml if call.content_type() == "application/yaml" else parse_json)(raw).value
            except GoJSONError as error:
                raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from error
        if isinstance(raw, dict):
            kind, version = str(raw.get("kind") or "DeleteOptions"), str(raw.get("apiVersion") or "v1")
            if kind != "DeleteOptions":
                raise status.bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme "{SCHEME}"')
            return options_from(schemas.decode("V1DeleteOptions", raw, partial=True).obj, call)
        body: Obj = {"dryRun": request.query.get("dryRun") or []}
        for name in ("gracePeriodSeconds", "propagationPolicy", "orphanDependents"):
            value = request.param(name)
            if value:
                body[name] = value
        if "gracePeriodSeconds" in body:
            body["gracePeriodSeconds"] = _seconds(body["gracePeriodSeconds"])
        if "orphanDependents" in body:
            body["orphanDependents"] = body["orphanDependents"].lower() in ("1", "true")
        return options_from(body, call)


def _seconds(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def options_from(body: Obj, call: Call, *, checked: bool = True) -> DeleteOptions:
    """DeleteOptions from their JSON; an eviction's are looked at later (``checked``). Raises StatusError 422."""
    dry_run = body.get("dryRun") or []
    if checked:
        if any(value != "All" for value in dry_run):
            raise bad_dry_run("DeleteOptions", dry_run)
        check_propagation(body.get("propagationPolicy") or "", body.get("orphanDependents"))
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds")
    return DeleteOptions(
        None if grace is None else int(grace),
        body.get("propagationPolicy") or "",
        body.get("orphanDependents"),
        str(preconditions.get("uid") or ""),
        str(preconditions.get("resourceVersion") or ""),
        bool(dry_run) or (not checked and call.dry_run),
    )


def check_propagation(propagation: str, orphan: bool | None) -> None:
    """Raises StatusError 422."""
    if propagation not in ("", "Background", "Foreground", "Orphan"):
        message = f'Unsupported value: "{propagation}": supported values: "Foreground", "Background", "Orphan", "nil"'
        cause = {"reason": "FieldValueNotSupported", "message": message, "field": "propagationPolicy"}
        raise status.invalid("DeleteOptions", "meta.k8s.io", "", [cause])
    if orphan is not None and propagation:
        message = f'Invalid value: "{propagation}": orphanDependents and deletionPropagation cannot be both set'
        cause = {"reason": "FieldValueInvalid", "message": message, "field": "propagationPolicy"}
        raise status.invalid("DeleteOptions", "meta.k8s.io", "", [cause])


def _finalizers(kind: Kind, meta: Obj, options: DeleteOptions) -> list[str]:
    """The object's finalizers with the garbage collector's own, as options and defaults ask for; events have none."""
    current = list(meta.get("finalizers") or [])
    kept = [name for name in current if name not in (ORPHAN, FOREGROUND)]
    if kind.table == _EVENTS:  # whose strategy says that it supports none (registry/core/event)
        return kept
    orphan = foreground = False
    if options.orphan is not None:
        orphan = options.orphan
    elif options.propagation:
        orphan, foreground = options.propagation == "Orphan", options.propagation == "Foreground"
    elif ORPHAN in current or FOREGROUND in current:
        first = next(name for name in current if name in (ORPHAN, FOREGROUND))
        orphan, foreground = first == ORPHAN, first == FOREGROUND
    else:
        orphan = kind.table == _JOBS
    return kept + [ORPHAN] * orphan + [FOREGROUND] * foreground
