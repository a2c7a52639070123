"""PATCH: from a content type and a body to the object as it should be.

Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go; recording 25.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from killcheck.embedded.api import schemas, status, type_dispatch, typedpatch
from killcheck.embedded.api.applying import (
    KUBECTL,
    LAST_APPLIED,
    Configuration,
    as_spelled,
    of_last_applied,
    with_nulls,
)
from killcheck.embedded.api.body import GoJSONError, Parsed, dumps, parse_json, parse_yaml
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.decoding import SCHEME, registered, say_strict, strict_problems
from killcheck.embedded.api.fieldsets import (
    Fields,
    applied_fields,
    changed,
    intersect,
    paths,
    show_path,
    subtract,
    with_members,
)
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.managedfields import Manager, without_fields
from killcheck.embedded.api.mergekeys import ApplyLists
from killcheck.embedded.api.patch import (
    PatchFailed,
    apply_merge,
    go_map,
    json_patch,
    merge_patch,
    opened,
    remove_fields,
    spent,
    strategic_patch,
)
from killcheck.embedded.api.status import StatusError
from killcheck.embedded.api.strategy import kept_by_status
from killcheck.embedded.api.unstructured import Misfit, restored
from killcheck.kube.objects import Obj, copy, dig

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core
    from killcheck.embedded.api.writes import Writer

__all__ = ["APPLY", "JSON", "MERGE", "STRATEGIC", "Patcher"]

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
#: What a writer of the status changes in place.
_OWN = {"metadata", "status"}
_LONGEST_MANAGER = 128


class Applied(NamedTuple):
    """What an apply made of an object; ``changed``: as the configuration spells it."""

    obj: Obj
    forced: Fields
    changed: bool
    #: Who is said to have managed it before, where nobody did.
    first: dict[Manager, Fields] | None


class Patcher:
    """Patches objects on behalf of calls. Every method raises StatusError."""

    def __init__(self, server: Core, writer: Writer) -> None:
        self.server = server
        self.writer = writer
        self.store = server.store

    def patch(self, call: Call) -> Response:
        """PATCH on an object or its status."""
        content_type = self.content_type(call)
        if content_type == APPLY:
            return self.apply(call)
        self.server.find(call)  # nobody reads a patch of what is not there
        patched = self.function(call, content_type)
        updated = self.writer.update(call, lambda old: patched(old, call.kind.schema))
        return Response(200, self.writer.answer(call, updated))

    def content_type(self, call: Call) -> str:
        """The kind of patch. Raises StatusError 415, 422."""
        content_type = call.content_type()
        call.dry_run  # noqa: B018  (refuse a bad value before anything else)
        supported = (JSON, MERGE, APPLY) if call.kind.crd else (JSON, MERGE, STRATEGIC, APPLY)
        if content_type not in supported:
            if call.kind.crd:
                raise status.unsupported_media_type(
                    "the body of the request was in an unknown format - accepted media types include: "
                    + ", ".join(supported)
                )
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
        manager, force = call.request.param("fieldManager"), call.request.param("force")
        if len(manager) > _LONGEST_MANAGER:
            long = f"Too long: may not be more than {_LONGEST_MANAGER} bytes"
            raise _bad_options("FieldValueTooLong", "fieldManager", long)
        if content_type == APPLY and not manager:
            raise _bad_options("FieldValueRequired", "fieldManager", "Required value: is required for apply patch")
        if content_type != APPLY and force:
            raise _bad_options("FieldValueForbidden", "force", "Forbidden: may not be specified for non-apply patch")
        return content_type

    def function(self, call: Call, content_type: str) -> Callable[[Obj, str | None], Obj]:
        """What turns the present object into the patched one, given its schema (None: the custom resource's)."""
        parsed = self._parse(call, content_type)
        value = parsed.value

        def patched(old: Obj, schema: str | None) -> Obj:
            """The object with the patch applied, decoded again; the old one is left as it is."""
            # Decoding makes a new object of a built-in type; patching itself never changes its target.
            target = copy(old) if schema is None else old
            if _speaks_of_managers(value):
                target = self.server.managed.shown(call.kind, call.key, target)
            try:
                if content_type == JSON:
                    new = json_patch(target, value)
                elif content_type == MERGE:
                    new = merge_patch(target, value)
                else:
                    new = strategic_patch(target, value, schema or "")
            except PatchFailed as error:
                raise _failed(content_type, str(error), error.code) from error
            made = self._decoded(call, old, new, parsed=parsed, schema=schema, content_type=content_type)
            made |= {field: made.get(field) or old[field] for field in ("kind", "apiVersion") if field in old}
            if schema == call.kind.schema:  # whose kind a patch does not change
                made |= {field: old[field] for field in ("kind", "apiVersion") if field in old}
            _check_home(call, made)
            return made

        return patched

    def _parse(self, call: Call, content_type: str) -> Parsed:
        body = call.request.body
        wanted = list if content_type == JSON else dict
        if isinstance(body, wanted):
            return Parsed(copy(body) if isinstance(body, dict) else [dict(op) for op in body], [])
        if isinstance(body, dict | list):
            parsed = Parsed(body, [])
        else:
            try:
                parsed = parse_json(body or b"")
            except GoJSONError as error:
                raise status.bad_request(f"error decoding patch: {error}") from error
        if parsed.value is None and content_type == MERGE:
            raise status.bad_request("Invalid JSON Patch")
        if not isinstance(parsed.value, wanted):
            go = "object" if isinstance(parsed.value, dict) else "array" if isinstance(parsed.value, list) else "value"
            target = "[]handlers.jsonPatchOp" if content_type == JSON else "map[string]interface {}"
            raise status.bad_request(
                f"error decoding patch: json: cannot unmarshal {go} into Go value of type {target}"
            )
        return parsed

    def _decoded(
        self,
        call: Call,
        old: Obj,
        new: Any,
        *,
        parsed: Parsed,
        schema: str | None,
        content_type: str,
    ) -> Obj:
        """The patched object, typed. Raises StatusError 422 with the whole object in it, as there."""
        if not isinstance(new, dict):
            raise _failed(content_type, "")
        # A patch of the status shares with the stored object, decoded long ago, whatever it does not speak of; the rest
        # of the object is taken from there anyway.
        shared = (
            {key: value for key, value in new.items() if value.__class__ is dict and value is old.get(key)}
            if (call.subresource == "status" and schema is not None)
            else {}
        )
        fresh = {key: value for key, value in new.items() if key in _OWN or key not in shared}
        try:
            if content_type == STRATEGIC and schema is not None:
                fresh = _restored(schema, fresh, old)
            elif schema is not None:
                _check_kind(old, new)
            if schema == call.kind.schema and schema and content_type != STRATEGIC and not new.get("apiVersion"):
                clean: Obj = {}  # of no version, it has no fields
                unknown = sorted(set(new) - {"apiVersion", "kind"})
            else:
                clean, unknown = type_dispatch.decode(call.kind, fresh, schema)
            clean |= {key: value for key, value in shared.items() if key not in _OWN}
        except StatusError as error:
            if error.code != 400:
                raise
            raise self._invalid(call, old, parsed, content_type, why=str(error), schema=schema) from error
        problems = strict_problems([] if content_type == JSON else parsed.duplicates, unknown)
        refused = say_strict(call, problems)
        if refused:
            raise self._invalid(call, old, parsed, content_type, why=refused, schema=schema)
        return clean

    def _invalid(
        self,
        call: Call,
        old: Obj,
        parsed: Parsed,
        content_type: str,
        *,
        why: str,
        schema: str | None,
    ) -> StatusError:
        """422 that shows the patch, or the patched object as Go would have written it.

        The decoder reads that from its beginning: of more that does not fit, the first is what it tells.
        """
        if content_type == STRATEGIC:
            shown = go_map(spent(old, parsed.value))
        else:
            own = old.get("kind") == call.kind.resource.kind
            whole = self.server.managed.shown(call.kind, call.key, old) if own else old
            entries = self.server.managed.of_scale(call) if call.subresource == "scale" else []
            if entries:
                whole = old | {"metadata": old["metadata"] | {"managedFields": entries}}
            whole = schemas.in_order(schema, whole) if schema else _by_name(whole)
            new = merge_patch(whole, parsed.value) if content_type == MERGE else json_patch(whole, parsed.value)
            opens = parsed.value if content_type == MERGE else opened(parsed.value)
            written = _as_merged(new, opens)
            why = _first_problem(call, old, written, schema) or why
            shown = _escaped(call, dumps(written), parsed.value)
        shown = shown.replace("\\", "\\\\").replace('"', '\\"')
        causes = [{"reason": "FieldValueInvalid", "message": f'Invalid value: "{shown}": {why}', "field": "patch"}]
        return status.invalid("", "", "", causes)

    # -- server-side apply ---------------------------------------------------------------------------------
    def apply(self, call: Call) -> Response:
        """Server-side apply on an object or its status; creates what is not there."""
        configuration = self.applied_config(call)
        config = configuration.typed
        meta = config["metadata"]
        if meta.get("managedFields"):
            raise status.bad_request("metadata.managedFields must be nil")
        lists = ApplyLists(call.kind)
        applied = applied_fields(config, lists)
        if "status" in call.kind.subresources:  # what the strategy resets, nobody comes to manage
            applied.pop("f:spec" if call.subresource == "status" else "f:status", None)
            if call.subresource == "status":
                applied = _without_meta(applied, kept_by_status(call.kind))
        if self.store.get(call.kind.table, call.key) is None:
            if call.subresource:
                raise status.not_found(call.kind.resource.plural, call.kind.resource.group, call.name)
            if not meta.get("name"):
                raise status.bad_request(
                    f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
                )
            self.server.authorize_create(call)
            if meta.get("uid"):
                resource = call.kind.resource
                why = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
                raise status.conflict(resource.plural, resource.group, call.name, why)
            if configuration.refusal is not None:
                raise configuration.refusal
            created = self.writer.create(call, _typed(call, copy(config)), operation="Apply", applied=applied)
            return Response(201, self.writer.answer(call, created))
        told: list[Applied] = []

        def change(old: Obj) -> Obj:
            told.append(self.applied(call, old, configuration, applied, lists))
            new = told[-1].obj
            return _with_last_applied(new, configuration.sent) if call.manager == KUBECTL else new

        updated = self.writer.update(call, change, operation="Apply", applied=applied, timed=lambda: told[-1].changed)
        self.take(call, told[-1])
        if call.dry_run:  # nothing is noted, and the answer shows who would manage what
            updated = without_fields(updated, told[-1].forced, _applier(call))
        return Response(200, self.writer.answer(call, updated))

    def take(self, call: Call, applied: Applied) -> None:
        """Of an apply that went through: who managed the object before, and what was taken from others by force."""
        managed, table = self.server.managed, call.kind.table
        if call.dry_run:
            return
        if applied.first is not None:
            managed.adopt(table, call.key, applied.first)
        if applied.forced:
            managed.release(table, call.key, applied.forced, _applier(call))

    def applied_config(
        self, call: Call, *, schema: str | None = None, api_version: str = "", kind: str = ""
    ) -> Configuration:
        """The configuration in the body."""
        body = call.request.body
        parsed = Parsed(copy(body), []) if isinstance(body, dict) else self._parse_apply(body)
        config = parsed.value
        api_version = api_version or call.kind.resource.api_version
        kind = kind or call.kind.resource.kind
        if not isinstance(config, dict):
            raise status.bad_request("error decoding YAML: json: cannot unmarshal into Go value")
        if config.get("apiVersion") != api_version or config.get("kind") != kind:
            have = str(config.get("apiVersion", ""))
            have = have if "/" in have else f"/{have}"
            said = config.get("kind")
            raise status.bad_request(f"invalid object type: {have}, Kind={said if isinstance(said, str) else ''}")
        sent = config
        config = dict(config)
        meta = config.get("metadata")
        if meta is None:
            meta = config["metadata"] = {}
        meta = meta if isinstance(meta, dict) else {}
        name, namespace = (
            value if isinstance(value, str) else "" for value in (meta.get("name"), meta.get("namespace"))
        )
        if name and name != call.name:
            raise status.bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({call.name})"
            )
        if namespace and namespace != call.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        said = typedpatch.misfits(call.kind, schema, config)
        if said:
            listed = said[0] if len(said) == 1 else "\n".join(["errors:", *(f"  {line}" for line in said)])
            version = api_version if "/" in api_version else f"/{api_version}"
            message = f"failed to create typed patch object ({namespace}/{name}; {version}, Kind={kind}): {listed}"
            raise StatusError(500, "", message)
        if call.kind.crd is None or schema is not None:
            try:
                config = restored(schema or str(call.kind.schema), config)
            except Misfit as error:
                of = f"{api_version if '/' in api_version else f'/{api_version}'}, Kind={kind}"
                message = f"failed to convert new object ({namespace}/{name}; {of}) to proper version: "
                message += f"unable to convert unstructured object to {of}: {error}"
                return Configuration(config, config, sent, StatusError(500, "", message))
        clean, unknown = type_dispatch.decode(call.kind, config, schema, partial=True)
        if call.kind.crd is not None and schema is None:
            unknown = []  # what its type does not declare was refused above
        refused = say_strict(call, strict_problems(parsed.duplicates, unknown))
        if refused:
            raise status.bad_request(f"error decoding YAML: {refused}")
        typed = with_nulls(copy(clean), config, call.kind, schema)
        return Configuration(typed, as_spelled(typed, config), sent)

    def _parse_apply(self, body: Any) -> Parsed:
        try:
            return parse_yaml(body or b"")
        except GoJSONError as error:
            raise status.bad_request(f"error decoding YAML: {error}") from error

    def applied(
        self,
        call: Call,
        old: Obj,
        config: Configuration,
        applied: Fields,
        lists: ApplyLists,
    ) -> Applied:
        """The object with a configuration applied, the fields taken from others by force, and whether it changed.

        kubectl takes without force what its last applied configuration has. Raises StatusError 409 where others manage
        what it changes.
        """
        managed = self.server.managed
        table, key = call.kind.table, call.key
        me = _applier(call)
        known = dict(managed.sets(table, key))
        for one in [manager for manager in known if manager.is_applier(me)]:
            known[me] = known.pop(one)
        sets = known or managed.first_applied(call.kind, old, lists)
        new = apply_merge(copy(old), copy(config.typed), lists)
        as_asked = new if config.spelled == config.typed else apply_merge(copy(old), copy(config.spelled), lists)
        if call.subresource != "scale" and config.refusal is None:  # a scale speaks of something else than the type
            new = _typed(call, new)
        differs = intersect(changed(old, as_asked, lists), applied)
        conflicts = [
            (manager, hit) for manager, fields in sets.items() if manager != me and (hit := intersect(fields, differs))
        ]
        if conflicts and not call.request.flag("force"):
            own = of_last_applied(old, call.kind.resource.api_version, lists) if call.manager == KUBECTL else {}
            others = [(manager, rest) for manager, hit in conflicts if (rest := subtract(hit, own))]
            if others:
                raise self.conflict(call, others)
        if config.refusal is not None:
            raise config.refusal
        dropped = subtract(sets.get(me, {}), with_members(applied))
        for manager, fields in sets.items():
            if manager != me:
                dropped = subtract(dropped, with_members(fields))
        new = remove_fields(new, dropped, lists) if dropped else new
        for field in ("resourceVersion", "uid"):
            asked = dig(config.typed, "metadata", field)
            new["metadata"][field] = asked or old["metadata"][field]
        left = remove_fields(as_asked, dropped, lists) if dropped else as_asked
        return Applied(new, differs if conflicts else {}, left != old, None if known else sets)

    def conflict(self, call: Call, conflicts: list[tuple[Manager, Fields]]) -> StatusError:
        """409 of an apply that changes what others manage (managedfields/internal/conflict.go)."""
        causes = []
        lines = []
        for manager, fields in sorted(conflicts, key=lambda one: _identifier(one[0])):
            who = _show_manager(manager, "autoscaling/v1" if call.subresource == "scale" else manager.api_version)
            shown = [show_path(path) for path in paths(fields)]
            causes += [
                {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": field} for field in shown
            ]
            lines.append("\n".join([f"conflicts with {who}:", *(f"- {field}" for field in shown)]))
        if len(causes) == 1:
            text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
        else:
            text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
        return StatusError(409, "Conflict", text, details={"causes": causes})


def _without_meta(fields: Fields, names: tuple[str, ...]) -> Fields:
    meta = {key: tree for key, tree in fields.get("f:metadata", {}).items() if key.removeprefix("f:") not in names}
    rest = {key: tree for key, tree in fields.items() if key != "f:metadata"}
    return rest | ({"f:metadata": meta} if meta else {})


def _identifier(manager: Manager) -> str:
    """How managers are told apart there, and sorted: an entry as JSON, an applier's without its version."""
    entry = {"manager": manager.name, "operation": manager.operation}
    entry |= {"apiVersion": manager.api_version} if manager.operation == "Update" else {}
    return dumps(entry | ({"subresource": manager.subresource} if manager.subresource else {}))


def _check_home(call: Call, obj: Obj) -> None:
    """A patch does not move or rename an object. Raises StatusError 400 (apiserver/pkg/registry/rest/update.go)."""
    name = dig(obj, "metadata", "name", default="")
    if not name and call.kind.crd is None:
        raise status.bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name and name != call.name:
        raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if call.kind.resource.namespaced and dig(obj, "metadata", "namespace", default="") not in ("", call.namespace):
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _speaks_of_managers(patch: Any) -> bool:
    if isinstance(patch, dict):
        return isinstance(patch.get("metadata"), dict) and "managedFields" in patch["metadata"]
    return any(str(operation.get("path", "")).startswith("/metadata/managedFields") for operation in patch)


def _typed(call: Call, obj: Obj) -> Obj:
    """A merged configuration as Go's structures have it: a built-in type's empty maps go, its structures come."""
    return obj if call.kind.crd is not None else type_dispatch.decode(call.kind, obj)[0]


def _with_last_applied(new: Obj, config: Obj) -> Obj:
    """kubectl's annotation follows its server-side apply where it is there (managedfields/internal/lastapplied*.go)."""
    annotations = new["metadata"].get("annotations") or {}
    if LAST_APPLIED not in annotations:
        return new
    meta = config.get("metadata")
    if isinstance(meta, dict) and "annotations" in meta:
        own = meta["annotations"]
        rest = {} if own is None else {"annotations": {k: v for k, v in own.items() if k != LAST_APPLIED}}
        config = config | {"metadata": {k: v for k, v in meta.items() if k != "annotations"} | rest}
    said = {LAST_APPLIED: dumps(_by_name(config)) + "\n"}
    return new | {"metadata": new["metadata"] | {"annotations": annotations | said}}


def _applier(call: Call) -> Manager:
    return Manager(call.manager, "Apply", call.kind.resource.api_version, call.subresource)


def _show_manager(manager: Manager, api_version: str) -> str:
    shown = f'"{manager.name}"'
    if manager.subresource:
        shown += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        shown += f" using {api_version}"
    return shown


def _restored(schema: str, obj: Obj, old: Obj) -> Obj:
    """Raises StatusError 400 in the converter's words."""
    try:
        return restored(schema, obj, old)
    except Misfit as error:
        raise status.bad_request(str(error)) from error


def _by_name(value: Any) -> Any:
    """Custom resources are maps, which Go writes by name."""
    if isinstance(value, list):
        return [_by_name(item) for item in value]
    return {key: _by_name(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


def _as_merged(new: Any, touched: Any) -> Any:
    """The object with the keys sorted where a patch touched it, as Go writes what it took apart.

    A list of a merge patch is taken apart to its end (evanphx/json-patch, pruneAryNils).
    """
    if not isinstance(touched, dict):
        return _by_name(new) if isinstance(touched, list) else new
    if isinstance(new, list):
        return [_as_merged(item, touched.get(str(number))) for number, item in enumerate(new)]
    return {key: _as_merged(new[key], touched.get(key)) for key in sorted(new)} if isinstance(new, dict) else new


def _check_kind(old: Obj, new: Obj) -> None:
    """Raises StatusError 400 where a patch makes the object one of a kind that there is not."""
    for field in ("apiVersion", "kind"):
        value = new.get(field)
        if value is not None and not isinstance(value, str):
            found = {bool: "bool", list: "array", dict: "object"}.get(type(value), "number")
            words = f"json: cannot unmarshal {found} into Go struct field .{field} of type string"
            raise status.bad_request(f"couldn't get version/kind; json parse error: {words}")
    kind, version = new.get("kind"), new.get("apiVersion")
    if not kind or not version:
        return
    if (kind, version) != (old.get("kind"), old.get("apiVersion")) and not registered(kind, version):
        raise status.bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme "{SCHEME}"')


def _first_problem(call: Call, old: Obj, written: Any, schema: str | None) -> str | None:
    """What the decoder says of a built-in type's object that does not fit; None: nothing of that sort."""
    if schema is None or not isinstance(written, dict):
        return None
    try:
        _check_kind(old, written)
        type_dispatch.decode(call.kind, written, schema)
    except StatusError as error:
        return str(error) if error.code == 400 else None
    return None


def _escaped(call: Call, shown: str, patch: Any) -> str:
    """Texts of the patch as they were sent: bytes without a letter beyond ASCII have them escaped."""
    body = call.request.body
    if not isinstance(body, bytes) or not body.isascii():
        return shown
    for text in _texts(patch):
        if not text.isascii():
            shown = shown.replace(dumps(text), json.dumps(text))
    return shown


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _failed(content_type: str, why: str, code: int = 400) -> StatusError:
    if content_type == JSON or code == 422:
        message = "the server rejected our request due to an error in our request"
        return StatusError(422, "Invalid", message, details={})
    return status.bad_request(why) if code == 400 else StatusError(code, "", why)


def _bad_options(reason: str, field: str, message: str) -> StatusError:
    causes = [{"reason": reason, "message": message, "field": field}]
    return status.invalid("PatchOptions", "meta.k8s.io", "", causes)
