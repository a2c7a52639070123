"""Create and update: names, uids, versions, defaults, admission, validation, and then the store.

Source: k8s.io/apiserver/pkg/registry/rest/{create,update}.go and registry/generic/registry/store.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from killcheck.embedded.api import status, type_dispatch
from killcheck.embedded.api.body import read_object
from killcheck.embedded.api.bounds import MOST_OBJECTS, too_many
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.conversion import EVENTS_GROUP, converted, to_storage
from killcheck.embedded.api.decoding import check_name, check_namespace, decode_object
from killcheck.embedded.api.deletion import ready_to_go
from killcheck.embedded.api.fieldsets import Fields
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.managedfields import sent_empty
from killcheck.embedded.api.strategy import (
    PARTS,
    TEMPLATE_GENERATION,
    as_read_back,
    prepare_for_create,
    prepare_for_update,
)
from killcheck.kube.objects import Obj, copy, format_time

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core
    from killcheck.embedded.api.crds import CustomResources
    from killcheck.embedded.api.deletion import Deleter

__all__ = ["SAFE", "Writer", "other_uid"]

#: The letters of generated names: no vowels, nothing easily confused.
SAFE = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED = 63 - 5
_NAMESPACES = ("", "namespaces")
_DAEMON_SETS = ("apps", "daemonsets")
_DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
#: Whose status has fields that are filled in where it is written.
_STATUS_FILLED_IN = frozenset({("", "nodes"), ("", "services")})
_CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
#: Types that a PUT creates where they do not exist.
_CREATED_BY_PUT = frozenset(
    {
        ("coordination.k8s.io", "leases"),
        ("", "events"),
        ("", "endpoints"),
        ("", "limitranges"),
        ("", "services"),
        ("rbac.authorization.k8s.io", "roles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
    }
)
#: Types of which controllers write without end, and which nothing rests on.
_PASSING = frozenset({("", "events"), ("events.k8s.io", "events")})
#: Built-in types that want a resourceVersion with every PUT (custom resources do, too).
_CONDITIONAL = frozenset(
    {
        ("coordination.k8s.io", "leases"),
        ("", "endpoints"),
        ("policy", "poddisruptionbudgets"),
        ("node.k8s.io", "runtimeclasses"),
        ("apiregistration.k8s.io", "apiservices"),
        _CRDS,
        *(("admissionregistration.k8s.io", f"{sort}webhookconfigurations") for sort in ("validating", "mutating")),
        *(
            ("admissionregistration.k8s.io", f"{sort}admissionpolic{end}")
            for sort in ("validating", "mutating")
            for end in ("ies", "ybindings")
        ),
    }
)


class Writer:
    """Writes objects on behalf of calls. Every method raises StatusError."""

    def __init__(self, server: Core, deleter: Deleter, custom: CustomResources) -> None:
        self.server = server
        self.deleter = deleter
        self.custom = custom
        self.store = server.store

    # -- create --------------------------------------------------------------------------------------------
    def post(self, call: Call) -> Response:
        """POST on a collection."""
        obj = decode_object(call, read_object(call))
        return Response(201, self.answer(call, self.create(call, obj)))

    def _check_room(self, kind: Kind) -> None:
        """Raises StatusError 501 where there may be no more objects of a type."""
        most = self.server.limits.most.get(kind.table, MOST_OBJECTS)
        if self.store.count(kind.table) >= most and kind.table not in _PASSING:
            plural = kind.resource.plural
            self.server.limits.meet(f"{plural} of this cluster", f"there are {most}, and no more are kept")
            raise too_many(plural, most)

    def create(self, call: Call, obj: Obj, *, operation: str = "Update", applied: Fields | None = None) -> Obj:
        """Create ``obj`` (private, of the call's type); returns it as stored, or as it would be (dry run)."""
        kind, resource, loop = call.kind, call.kind.resource, self.server.loop
        dry_run = call.dry_run
        if not resource.namespaced and call.namespace and call.kind.table != _NAMESPACES:
            raise status.path_not_found()
        check_namespace(call, obj)
        self._check_home(call, str(obj["metadata"].get("name") or ""))
        self._check_definition(call, str(obj["metadata"].get("name") or ""))
        version = str(obj["metadata"].get("resourceVersion") or "")
        generated = not obj["metadata"].get("name")
        self._fill_meta(call, obj)
        name = str(obj["metadata"].get("name") or "")
        if name:
            call.name = name
        now = loop.now()
        type_dispatch.apply_defaults(kind, obj, now)
        if generated:
            obj = copy(obj)  # as there, where another name may have to be tried
        asked = copy(obj)  # who writes manages what he asked for, not what the server and admission add
        if kind.table == _DAEMON_SETS:  # a field of the internal type, which is an annotation in this one
            asked["metadata"]["annotations"] = (asked["metadata"].get("annotations") or {}) | {TEMPLATE_GENERATION: "0"}
        untyped = _is_untyped(call, asked)
        self._dedup_owners(call, obj)
        prepare_for_create(kind, obj, now)
        if kind.table == ("", "services"):
            _check_addresses(call, obj, new=True)
            if call.over_wire:
                self.server.addresses.check(obj, dry_run=dry_run)
            self.server.addresses.assign(obj)
            self.server.node_ports.assign(obj, None, dry_run=dry_run, asked=call.over_wire)
        elif kind.table == _CRDS:
            self.custom.accept(obj)
        obj = self.server.admit(
            call, "CREATE", obj, None, dry_run=dry_run, between=lambda new: self._validate(kind, new, None)
        )
        as_read_back(kind, obj)
        self._warn(call, obj, None)
        key = (call.namespace if resource.namespaced else "", name)
        if not dry_run and call.verb == "create" and version.isdigit() and int(version):
            raise status.StatusError(500, "", "resourceVersion should not be set on objects to be created")
        if (there := self.store.get(kind.table, key)) is not None:
            ending = "deletionTimestamp" in there["metadata"]
            raise status.already_exists(resource.plural, resource.group, name, ending=ending)
        self._check_room(kind)
        asked.pop("status", None)
        if dry_run:
            return self._tried(call, None, asked, obj, operation=operation, applied=applied, untyped=untyped)
        stored = self.store.put(kind.table, key, to_storage(kind, obj))
        if "status" not in kind.subresources:
            asked |= {"status": stored["status"]} if "status" in stored else {}
        asked["metadata"] |= _version_of(stored)
        self.server.managed.record(call, key, None, asked, operation=operation, applied=applied, untyped=untyped)
        return converted(kind, stored)

    def _fill_meta(self, call: Call, obj: Obj) -> None:
        """System fields of a new object."""
        meta = obj["metadata"]
        for field in (
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "managedFields",
            "resourceVersion",
        ):
            meta.pop(field, None)
        if not meta.get("generation"):  # a type that counts its own sets it; on others it stays as it was sent
            meta.pop("generation", None)
        if not meta.get("name") and not meta.get("generateName") and call.kind.table == ("", "limitranges"):
            meta["name"] = self.server.new_uid()
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self._generate(call, str(meta["generateName"]))
        meta["uid"] = self.server.new_uid()
        meta["creationTimestamp"] = format_time(self.server.loop.now())

    def _generate(self, call: Call, base: str) -> str:
        rng = self.server.rng
        namespace = call.namespace if call.kind.resource.namespaced else ""
        while True:
            name = base[:_MAX_GENERATED] + "".join(rng.choice(SAFE) for _ in range(5))
            if self.store.get(call.kind.table, (namespace, name)) is None:
                return name

    def _check_definition(self, call: Call, name: str) -> None:
        """Raises StatusError where the definition of the kind is going away (customresource_handler.go)."""
        crd = call.kind.crd
        found = self.server.store.get(_DEFINITIONS, ("", str(crd["metadata"]["name"]))) if crd is not None else None
        if found is not None and "deletionTimestamp" in found["metadata"]:
            why = "create not allowed while custom resource definition is terminating"
            raise status.forbidden(call.kind.resource.plural, call.kind.resource.group, name, why)

    def _check_home(self, call: Call, name: str) -> None:
        """The namespace of a new object must exist and not be going away."""
        if not call.kind.resource.namespaced:
            return
        namespace = self.store.get(_NAMESPACES, ("", call.namespace))
        if namespace is None:
            raise status.not_found("namespaces", "", call.namespace)
        if namespace["metadata"].get("deletionTimestamp"):
            resource = call.kind.resource
            error = status.forbidden(
                resource.plural,
                resource.group,
                call.name or name,
                f"unable to create new content in namespace {call.namespace} because it is being terminated",
            )
            error.status["details"]["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {call.namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise error

    # -- update --------------------------------------------------------------------------------------------
    def put(self, call: Call) -> Response:
        """PUT on an object, or on its status."""
        obj = decode_object(call, read_object(call))
        check_name(call, obj)
        call.whole = bool(obj["metadata"].get("uid") and obj["metadata"].get("resourceVersion"))
        if self.store.get(call.kind.table, call.key) is None and self._put_creates(call):
            self.server.authorize_create(call)
            if obj["metadata"].get("uid"):
                raise other_uid(call, str(obj["metadata"]["uid"]), "")
            _check_version(str(obj["metadata"].get("resourceVersion") or ""))
            return Response(201, self.answer(call, self.create(call, obj)))
        needs_version = call.kind.crd is not None or call.kind.table in _CONDITIONAL
        if needs_version and (obj["metadata"].get("resourceVersion") or "0") == "0":
            resource = call.kind.resource
            uid, there = obj["metadata"].get("uid"), self.store.get(call.kind.table, call.key)
            if uid and there is not None and uid != there["metadata"]["uid"]:
                raise other_uid(call, str(uid), str(there["metadata"]["uid"]))
            if self.store.get(call.kind.table, call.key) is None:
                raise status.not_found(resource.plural, resource.group, call.name)
            causes = [
                {
                    "reason": "FieldValueInvalid",
                    "message": "Invalid value: 0: must be specified for an update",
                    "field": "metadata.resourceVersion",
                }
            ]
            raise status.invalid(resource.plural, resource.group, call.name, causes)
        return Response(200, self.answer(call, self.update(call, lambda _: obj)))

    def _put_creates(self, call: Call) -> bool:
        return not call.subresource and call.kind.table in _CREATED_BY_PUT

    def update(
        self,
        call: Call,
        change: Callable[[Obj], Obj],
        *,
        operation: str = "Update",
        subresource: str | None = None,
        applied: Fields | None = None,
        admit: bool = True,
        timed: Callable[[], bool] | None = None,
    ) -> Obj:
        """Replace the call's object by ``change(old)``, a private object in the call's version.

        ``old`` is what is stored, in the call's version and read-only. ``admit=False``: admission has been asked
        already, about what the subresource speaks. ``timed``: whether an apply changed anything of its own, asked
        after ``change``. Returns the object as it now is.
        """
        kind, resource = call.kind, call.kind.resource
        subresource = call.subresource if subresource is None else subresource
        stored = self.store.get(kind.table, call.key)
        if stored is None:
            raise status.not_found(resource.plural, resource.group, call.name)
        dry_run = call.dry_run
        old = converted(kind, stored)
        new = change(old)
        untyped = _is_untyped(call, new)
        managers = new["metadata"].get("managedFields")
        new, asked = self._accepted(call, new, old, subresource, admit=admit)
        if managers and not dry_run:
            self.server.managed.replace(kind, call.key, managers)
        changes = timed() if timed is not None else True
        if new == old and (kind.crd is None or _alike(new, old)):
            hollow = bool(sent_empty(call))
            changes = hollow or (changes and timed is not None)
            if dry_run:
                return self._tried(call, stored, stored, old, operation=operation, applied=applied, timed=changes)
            if call.subresource != "scale":
                self.server.managed.settle(kind.table, call.key)
            if asked is not None and subresource in PARTS:  # who manages what he asked for, though it is dropped
                self.server.managed.record(call, call.key, stored, asked, operation=operation)
            elif applied is not None or untyped or hollow:
                self.server.managed.record(
                    call, call.key, stored, stored, operation=operation, applied=applied, timed=changes, untyped=untyped
                )
            return old
        if dry_run:
            return self._tried(
                call,
                old,
                new if asked is None or subresource in PARTS else asked,
                new,
                operation=operation,
                applied=applied,
                timed=changes,
                untyped=untyped,
            )
        if ready_to_go(new) and old["metadata"].get("deletionTimestamp"):
            self.deleter.remove(kind, call.key)
            return new
        result = self.store.put(kind.table, call.key, to_storage(kind, new))
        shown = converted(kind, result)
        written = shown if asked is None else asked | {"metadata": asked["metadata"] | _version_of(result)}
        self.server.managed.record(
            call, call.key, old, written, operation=operation, applied=applied, timed=changes, untyped=untyped
        )
        return shown

    def _accepted(self, call: Call, new: Obj, old: Obj, subresource: str, *, admit: bool) -> tuple[Obj, Obj | None]:
        """What may be stored in place of ``old``, and what was asked for where the subresource takes a part of it."""
        kind, resource = call.kind, call.kind.resource
        self._dedup_owners(call, new)
        if kind.table == ("", "services"):
            _check_addresses(call, new, new=False)
        uid = new["metadata"].get("uid")
        immutable = self._check_meta(call, new, old)
        if subresource in ("", *PARTS) or (subresource == "status" and kind.table in _STATUS_FILLED_IN):
            type_dispatch.apply_defaults(kind, new, self.server.loop.now())
        allocates = kind.table == ("", "services") and not subresource
        asked = copy(new) if subresource in PARTS or (allocates and new != old) else None
        if asked is not None and allocates:
            asked = {k: v for k, v in asked.items() if k != "status"} | {k: v for k, v in old.items() if k == "status"}
        new = prepare_for_update(kind, new, old, subresource)
        if allocates:
            self.server.addresses.assign(new)
            self.server.node_ports.assign(new, old, dry_run=call.dry_run, asked=call.over_wire)
        if kind.table == _CRDS:
            new = copy(new)
            self.custom.accept(new)

        def check(obj: Obj) -> None:
            if immutable:  # whose other fields are compared with what it asks for
                obj = obj | {"metadata": obj["metadata"] | {"uid": uid}}
            same = obj == old and (kind.crd is None or _alike(obj, old))
            if not same and (subresource != "status" or kind.crd is not None or call.over_wire):
                self._validate(kind, obj, old, subresource, before=immutable)
            elif immutable:
                raise status.invalid(resource.kind, resource.group, call.name, immutable)

        if admit:
            new = self.server.admit(
                call, "UPDATE", new, old, dry_run=call.dry_run, subresource=subresource, between=check
            )
        else:
            check(new)
        if not subresource:
            self._warn(call, new, old)
        return new, asked

    def _check_meta(self, call: Call, new: Obj, old: Obj) -> list[Obj]:
        """Optimistic concurrency, and metadata that only the server changes; answers what validation will say of it."""
        resource = call.kind.resource
        meta, before = new["metadata"], old["metadata"]
        version = meta.get("resourceVersion")
        uid, immutable = meta.get("uid"), []
        if uid and uid != before["uid"]:
            if call.verb != "patch":  # whose uid is no precondition
                raise other_uid(call, str(uid), str(before["uid"]))
            message = f'Invalid value: "{uid}": field is immutable'
            immutable = [{"reason": "FieldValueInvalid", "message": message, "field": "metadata.uid"}] * 2
        _check_version(version or "")
        if version and version != "0" and version != before["resourceVersion"]:
            raise status.conflict(resource.plural, resource.group, call.name)
        meta.pop("managedFields", None)
        meta.pop("selfLink", None)
        for field in _SYSTEM:
            if field in before:
                meta[field] = before[field]
            else:
                meta.pop(field, None)
        for field in ("labels", "annotations", "finalizers", "ownerReferences"):
            if field in meta and not meta[field]:
                del meta[field]
        if "deletionTimestamp" in before and call.subresource not in PARTS:  # of those the metadata is dropped
            self._check_finalizers(call, meta, before)
        return immutable

    def _dedup_owners(self, call: Call, obj: Obj) -> None:
        """Take away, in place, owners that are named twice, and warn of them (handlers/helpers.go of apiserver)."""
        owners = obj["metadata"].get("ownerReferences")
        if not isinstance(owners, list) or len(owners) < 2:
            return
        once = [owner for number, owner in enumerate(owners) if owner not in owners[:number]]
        if len(once) == len(owners):
            return
        twice = dict.fromkeys(str(one.get("uid", "")) for n, one in enumerate(owners) if one in owners[:n])
        obj["metadata"]["ownerReferences"] = once
        call.warn(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and "
            "may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
            + ", ".join(twice)
        )

    def _check_finalizers(self, call: Call, meta: Obj, before: Obj) -> None:
        added = [name for name in meta.get("finalizers") or [] if name not in (before.get("finalizers") or [])]
        if added:
            resource = call.kind.resource
            listed = ", ".join(f'"{name}"' for name in added)
            message = (
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}"
            )
            cause = {"reason": "FieldValueForbidden", "message": message, "field": "metadata.finalizers"}
            # Once of what all types have in common, once of the type's own metadata (registry/rest/update.go).
            raise status.invalid(resource.kind, resource.group, call.name, [cause, dict(cause)])

    def _tried(
        self,
        call: Call,
        stored: Obj | None,
        new: Obj,
        shown: Obj,
        *,
        operation: str,
        applied: Fields | None,
        timed: bool = True,
        untyped: bool = False,
    ) -> Obj:
        """What a dry run answers with: over the wire with the managers that there would be."""
        if not call.over_wire:
            return shown
        told = self.server.managed.previewed(
            call, stored, new, operation=operation, applied=applied, timed=timed, untyped=untyped
        )
        entries = told["metadata"].get("managedFields")
        return shown | {"metadata": shown["metadata"] | {"managedFields": entries}} if entries else shown

    # -- shared --------------------------------------------------------------------------------------------
    def _validate(
        self,
        kind: Kind,
        new: Obj,
        old: Obj | None,
        subresource: str = "",
        *,
        before: Sequence[Obj] = (),
    ) -> None:
        causes = [*before, *type_dispatch.validate(kind, new, old, subresource)]
        if causes:
            resource = kind.resource
            group = "" if resource.group == EVENTS_GROUP else resource.group  # told as the core group's
            raise status.invalid(resource.kind, group, str(new["metadata"].get("name", "")), causes)

    def _warn(self, call: Call, new: Obj, old: Obj | None) -> None:
        """Only who comes over the wire reads warnings."""
        if not call.over_wire:
            return
        if call.kind.crd is not None:
            self._warn_of_rules(call)
        else:
            from killcheck.embedded.api.warnings import warnings

            for text in warnings(call.kind, new, old):
                call.warn(text)

    def _warn_of_rules(self, call: Call) -> None:
        from killcheck.embedded.api import celrules, crdschema

        if crdschema.has_rules(call.kind):
            for text in celrules.unread(crdschema.schema_of(call.kind)):
                call.warn(text)

    def answer(self, call: Call, obj: Obj) -> Obj:
        """What the writer is shown, with managedFields where the call shows them (a dry run brings its own)."""
        if "managedFields" in obj["metadata"]:
            return obj
        return self.server.managed.shown(call.kind, call.key, obj) if call.shows_managers else obj


def _check_addresses(call: Call, service: Obj, *, new: bool) -> None:
    """Addresses are read before anything else is looked at (pkg/registry/core/service/storage). Raises StatusError."""
    from killcheck.embedded.api.validation import services

    causes = services.addresses(service.get("spec") or {}, new=new)
    if causes:
        raise status.invalid("Service", "", call.name or str(service["metadata"].get("name") or ""), causes)


def _version_of(obj: Obj) -> Obj:
    return {"resourceVersion": obj["metadata"]["resourceVersion"]}


def _is_untyped(call: Call, obj: Obj) -> bool:
    """Whether a custom resource does not fit its schema's types, so that nobody can manage its fields."""
    if call.kind.crd is None or not call.over_wire:
        return False
    from killcheck.embedded.api import typedpatch

    return bool(typedpatch.misfits(call.kind, None, obj))


def _alike(one: Any, other: Any) -> bool:
    """Equal also in type: in a custom resource ``true`` is another value than 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(type(one) is type(other) and one == other)


#: Where etcd keeps what is not under its plural (pkg/kubeapiserver/default_storage_factory_builder.go).
_PREFIXES = {
    "replicationcontrollers": "controllers",
    "endpoints": "services/endpoints",
    "nodes": "minions",
    "services": "services/specs",
    "ingresses": "ingress",
}


def _check_version(version: str) -> None:
    if version and not version.isdigit():
        raise status.StatusError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')


def other_uid(call: Call, asked: str, there: str) -> status.StatusError:
    """409 of the storage where what is put has another uid than what is there."""
    resource = call.kind.resource
    return status.conflict(
        resource.plural,
        resource.group,
        call.name,
        f"StorageError: invalid object, Code: 4, Key: {_key_shown(call)}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, UID in object meta: {there}",
    )


def _key_shown(call: Call) -> str:
    """A dry run looks beside the prefix."""
    key = storage_key(call.kind, call.key)
    return key.removeprefix("/registry") if call.dry_run else key


def storage_key(kind: Kind, key: tuple[str, str]) -> str:
    """An object's key in etcd, which shows in messages of the storage layer."""
    resource = kind.resource
    prefix = _PREFIXES.get(resource.plural, resource.plural)
    if kind.crd is not None or resource.group == "apiextensions.k8s.io":
        prefix = f"{resource.group}/{resource.plural}"
    return "/".join(part for part in ("/registry", prefix, *key) if part)


#: Metadata that an update takes from the object as it is.
_SYSTEM = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
    "name",
    "resourceVersion",
)
