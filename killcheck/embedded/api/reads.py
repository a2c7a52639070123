"""GET: one object, lists (pages of one consistent snapshot), and the opening of watches."""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right
from typing import TYPE_CHECKING

from killcheck.embedded.api import heartbeats, negotiation, schemas, status
from killcheck.embedded.api.body import GoJSONError, parse_json
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.conversion import converted
from killcheck.embedded.api.fieldlabels import check_fields, value_of
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.store import Key, Store, Table, TooOld
from killcheck.embedded.api.watch import Filter, WatchStream, frame_of
from killcheck.kube.objects import Obj
from killcheck.kube.selectors import EVERYTHING, FieldSelector, SelectorError, parse_fields, parse_labels

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core

__all__ = ["Reader", "Snapshots"]

_NO_FIELDS = FieldSelector()
_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_TOO_LARGE = "Too large resource version"


class Snapshots:
    """A table as it was at a revision, rebuilt from the log of changes; the last few are kept for paging."""

    def __init__(self, store: Store, *, keep: int = 4) -> None:
        self.store = store
        self.keep = keep
        self._kept: dict[tuple[Table, str, int], list[tuple[Key, Obj]]] = {}

    def at(self, table: Table, namespace: str, revision: int) -> list[tuple[Key, Obj]]:
        """Keys and objects in order. Raises TooOld where the changes since then have been forgotten."""
        wanted = (table, namespace, revision)
        kept = self._kept.get(wanted)
        if kept is not None:
            self.store.since(table, revision)  # a compacted revision is gone, whatever is remembered here
            return kept
        rows = dict(self.store.items(table, namespace))
        for change in reversed(self.store.since(table, revision)):
            if namespace and change.key[0] != namespace:
                continue
            if change.old is None:
                rows.pop(change.key, None)
            else:
                rows[change.key] = change.old
        found = sorted(rows.items(), key=lambda row: row[0])
        self._keep(wanted, found)
        return found

    def keep_for(self, table: Table, namespace: str, rows: list[tuple[Key, Obj]], limit: int) -> None:
        """Remember what is there now where one page of ``limit`` will not hold it."""
        if 0 < limit < len(rows):
            self._keep((table, namespace, self.store.revision), rows)

    def _keep(self, wanted: tuple[Table, str, int], rows: list[tuple[Key, Obj]]) -> None:
        self._kept[wanted] = rows
        while len(self._kept) > self.keep:
            del self._kept[next(iter(self._kept))]


class Reader:
    """Answers reads from the store."""

    def __init__(self, server: Core) -> None:
        self.server = server
        self.store = server.store
        self.snapshots = Snapshots(server.store)

    def get(self, call: Call) -> Response:
        """One object. Raises StatusError 404."""
        asked = call.request.param("resourceVersion")
        if asked and _revision(asked) > self.store.revision:
            raise _too_large(int(asked), self.store.revision)
        obj = self.managed(call, self.server.find(call))
        shape = negotiation.shape_of(call)
        if shape is not negotiation.PLAIN:
            meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            return Response(200, negotiation.shaped(shape, call, [obj], meta, self.server.loop.now()))
        return Response(200, obj)

    def managed(self, call: Call, obj: Obj) -> Obj:
        """With managedFields where the call shows them."""
        if not call.shows_managers:
            return obj
        if call.over_wire and call.kind.table == heartbeats.TABLE:
            obj = heartbeats.renewed(obj, self.server.loop.now())
        return self._shown(call.kind, obj)

    def _shown(self, kind: Kind, obj: Obj, *, gone: bool = False) -> Obj:
        meta = obj["metadata"]
        return self.server.managed.shown(kind, (meta.get("namespace", ""), meta["name"]), obj, gone=gone)

    def _finished(self, kind: Kind, obj: Obj, *, gone: bool) -> Obj:
        """What a watch tells, with managedFields: an object, or a table's rows; ``gone``: as it was before."""
        if obj["kind"] != "Table" or not obj["apiVersion"].startswith("meta.k8s.io/"):
            return self._shown(kind, obj, gone=gone)
        rows = [
            row | {"object": self._shown(kind, row["object"], gone=gone)} if row.get("object") else row
            for row in obj["rows"]
        ]
        return obj | {"rows": rows}

    # -- lists ---------------------------------------------------------------------------------------------
    def listing(self, call: Call) -> Response:
        """A list, a page of one, or a Table of either."""
        kind = call.kind
        _number(call.request.param("timeoutSeconds"))  # refused where it is none
        items, meta = self.page(call)
        items = [self.managed(call, converted(kind, obj)) for obj in items]
        shape = negotiation.shape_of(call)
        if shape is not negotiation.PLAIN:
            return Response(200, negotiation.shaped(shape, call, items, meta, self.server.loop.now()))
        if call.over_wire and not kind.crd:
            items = [{k: v for k, v in obj.items() if k not in ("apiVersion", "kind")} for obj in items]
        body = {"kind": kind.list_kind, "apiVersion": kind.resource.api_version, "metadata": meta, "items": items}
        return Response(200, body)

    def page(self, call: Call) -> tuple[list[Obj], Obj]:
        """The objects that a collection request means, or a page of them, as stored; and the list's metadata."""
        _number(call.request.param("limit"))
        where = self._filter(call)
        revision, after = self._from(call)
        rows = self._rows(call, where, revision)
        start = bisect_right(rows, after, key=lambda row: row[0]) if after else 0
        items, last, left = self._page(call, rows, start, where)
        meta: Obj = {"resourceVersion": str(revision)}
        if last is not None:
            meta["continue"] = _token(revision, last)
            if not where.selective:
                meta["remainingItemCount"] = left
        return items, meta

    def _rows(self, call: Call, where: Filter, revision: int) -> list[tuple[Key, Obj]]:
        table = call.kind.table
        name = where.fields.exact("metadata.name")
        if revision == self.store.revision and not call.request.param("continue"):
            if name is not None and (where.namespace or not call.kind.resource.namespaced):
                obj = self.store.get(table, (where.namespace, name))
                return [((where.namespace, name), obj)] if obj else []
            rows = list(self.store.items(table, where.namespace))
            self.snapshots.keep_for(table, where.namespace, rows, _number(call.request.param("limit")))
            return rows
        try:
            return self.snapshots.at(table, where.namespace, revision)
        except TooOld as error:
            if call.request.param("continue"):
                raise _expired_continue(call, self.store.revision) from error
            raise status.gone(revision, error.oldest) from error

    def _page(
        self,
        call: Call,
        rows: list[tuple[Key, Obj]],
        start: int,
        where: Filter,
    ) -> tuple[list[Obj], Key | None, int]:
        """Items, the key of the last one where more follow, and how many rows are left."""
        limit = self._limit(call)
        if not limit and not where.selective:
            return [obj for _, obj in rows[start:]], None, 0
        found: list[Obj] = []
        for i in range(start, len(rows)):
            key, obj = rows[i]
            if where.selective and not where.wants(obj):
                continue
            found.append(obj)
            if limit and len(found) == limit and i + 1 < len(rows):
                rest = rows[i + 1 :]
                if where.selective and not any(where.wants(other) for _, other in rest):
                    break
                return found, key, len(rest)
        return found, None, 0

    def _limit(self, call: Call) -> int:
        """How many a page holds; 0: all, also where the watch cache answers, which knows no pages."""
        cached = call.request.param("resourceVersion") == "0" and not call.request.param("continue")
        return 0 if cached else _number(call.request.param("limit"))

    def _from(self, call: Call) -> tuple[int, Key | None]:
        """The revision to list at, and the key after which to begin."""
        token = call.request.param("continue")
        if token:
            try:
                decoded = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
                revision, key = int(decoded["rv"]), (str(decoded["start"][0]), str(decoded["start"][1]))
            except (ValueError, KeyError, TypeError, IndexError, binascii.Error) as error:
                raise status.bad_request(f"invalid continue token: {_bad_token(token)}") from error
            if call.request.param("resourceVersion") not in ("", "0"):
                raise status.bad_request("specifying resource version is not allowed when using continue")
            return (self.store.revision if revision < 0 else revision), key
        asked = call.request.param("resourceVersion")
        if not asked or asked == "0":
            return self.store.revision, None
        revision = _revision(asked)
        if revision > self.store.revision:
            raise _too_large(revision, self.store.revision)
        exact = call.request.param("resourceVersionMatch") == "Exact"
        return (revision if exact else self.store.revision), None

    def _check_list_options(self, call: Call) -> None:
        request = call.request
        match = request.param("resourceVersionMatch")
        causes = []
        path = "resourceVersionMatch"
        if match:
            version = request.param("resourceVersion")
            if not version:
                causes.append(_forbidden(path, f"{path} is forbidden unless resourceVersion is provided"))
            if request.param("continue"):
                causes.append(_forbidden(path, f"{path} is forbidden when continue is provided"))
            if match not in ("Exact", "NotOlderThan"):
                supported = 'supported values: "Exact", "NotOlderThan", ""'
                message = f'Unsupported value: "{match}": {supported}'
                causes.append({"reason": "FieldValueNotSupported", "message": message, "field": path})
            if match == "Exact" and version == "0":
                causes.append(_forbidden(path, f'{path} "exact" is forbidden for resourceVersion "0"'))
        if request.param("sendInitialEvents"):
            causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
        if causes:
            raise status.invalid("ListOptions", "meta.k8s.io", "", causes)

    # -- watches -------------------------------------------------------------------------------------------
    def watch(self, call: Call) -> Response:
        """Open a watch. An expired resourceVersion is an ERROR frame in a stream, as there."""
        self._check_watch_options(call)
        where = self._filter(call)
        kind = call.kind
        stream = WatchStream(self.server.watches, kind.table, where, negotiation.renderer(call, self.server.loop))
        if call.over_wire:
            stream.finish = lambda obj, gone: self._finished(kind, obj, gone=gone)
        stream.bookmarks = call.request.flag("allowWatchBookmarks")
        if stream.bookmarks and kind.schema:
            stream.empty = schemas.decode(kind.schema, {}).obj
        asked = call.request.param("resourceVersion")
        initial = call.request.param("sendInitialEvents")
        wants_initial = call.request.flag("sendInitialEvents") if initial else asked in ("", "0")
        if wants_initial:
            for _, obj in self.store.items(kind.table, where.namespace):
                if where.wants(obj):
                    stream.push("ADDED", obj)
            if initial and stream.bookmarks:
                stream.push_bookmark(kind.resource.kind, kind.resource.api_version, self.store.revision, initial=True)
        elif asked not in ("", "0"):
            refused = self._replay(stream, kind.table, _revision(asked))
            if refused is not None:
                stream.push_frame({"type": "ERROR", "object": refused.status})
                stream.end()
                return Response(200, None, stream=stream)
        self.server.watches.open(stream)
        if call.over_wire and kind.table == heartbeats.TABLE:
            heartbeats.write_for(self.server, stream)
        timeout = _number(call.request.param("timeoutSeconds"))
        if timeout:
            resource = kind.resource
            bookmark = (resource.kind, resource.api_version) if stream.bookmarks else None
            stream.end_at(timeout, bookmark)
        return Response(200, None, stream=stream)

    def _replay(self, stream: WatchStream, table: Table, revision: int) -> status.StatusError | None:
        """Queue the changes after ``revision``; the error to send where that cannot be done."""
        if revision > self.store.revision:
            return _too_large(revision, self.store.revision)
        if revision == self.store.revision:
            return None
        try:
            changes = self.store.since(table, revision)
        except TooOld as error:
            return status.gone(revision, error.oldest)
        for change in changes:
            stream.change(change, frame_of(change))
        return None

    def _check_watch_options(self, call: Call) -> None:
        request = call.request
        match = request.param("resourceVersionMatch")
        causes = []
        path = "resourceVersionMatch"
        if request.param("sendInitialEvents"):
            if match != "NotOlderThan":
                message = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                causes.append(_forbidden(path, message))
            if not self.server.release.on("WatchList"):
                message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
                causes.append(_forbidden("sendInitialEvents", message))
        elif match:
            causes.append(_forbidden(path, f"{path} is forbidden for watch unless sendInitialEvents is provided"))
            if match != "NotOlderThan":
                message = f'Unsupported value: "{match}": supported values: "NotOlderThan"'
                causes.append({"reason": "FieldValueNotSupported", "message": message, "field": path})
        if causes:
            raise status.invalid("ListOptions", "meta.k8s.io", "", causes)

    def _filter(self, call: Call) -> Filter:
        """The selectors of a request. Raises StatusError 400."""
        request = call.request
        labels, fields = request.param("labelSelector"), request.param("fieldSelector")
        try:
            by_label = parse_labels(labels) if labels else EVERYTHING
            by_field = parse_fields(fields) if fields else _NO_FIELDS
        except SelectorError as error:
            raise status.bad_request(str(error)) from error
        if call.verb == "list":
            self._check_list_options(call)  # after what can be read at all, before what the type knows
        check_fields(call.kind, by_field)
        if call.name:
            named = by_field.exact("metadata.name")
            if by_field.terms and named != call.name:
                raise status.bad_request("fieldSelector metadata.name doesn't match requested name")
            by_field = FieldSelector((*by_field.terms, ("metadata.name", False, call.name)))
        return Filter(call.namespace, by_label, by_field, value_of)


def _token(revision: int, key: Key) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": list(key)}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _bad_token(token: str) -> str:
    """What Go's decoders say of a token that is none."""
    words = "continue key is not valid"
    try:
        data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (ValueError, binascii.Error):
        return f"{words}: illegal base64 data at input byte {max(len(token) - 1, 0)}"
    try:
        parsed = parse_json(data.decode("latin-1")).value
    except GoJSONError as error:
        return f"{words}: {error}"
    version = parsed.get("v", "") if isinstance(parsed, dict) else ""
    if version != "meta.k8s.io/v1":
        return f"unrecognized or invalid encoded version {version}".rstrip()
    return words


def _expired_continue(call: Call, revision: int) -> status.StatusError:
    """410, with a token that goes on with whatever is there now."""
    error = status.expired(_CONTINUE_TOO_OLD)
    token = call.request.param("continue")
    decoded = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    error.status["metadata"] = {
        "continue": _token(-1, (decoded["start"][0], decoded["start"][1])),
        "resourceVersion": str(revision),
    }
    return error


def _number(text: str) -> int:
    if not text:
        return 0
    try:
        return int(text)
    except ValueError as error:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _revision(text: str) -> int:
    if not text.isdigit():
        raise status.bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing '
            f'"{text}": invalid syntax'
        )
    return int(text)


def _too_large(asked: int, newest: int) -> status.StatusError:
    """504, as for a server that has not caught up: the client is to try again in a second."""
    message = f"Timeout: {_TOO_LARGE}: {asked}, current: {newest}"
    details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": _TOO_LARGE}], "retryAfterSeconds": 1}
    return status.StatusError(504, "Timeout", message, details=details)


def _forbidden(field: str, message: str) -> Obj:
    return {"reason": "FieldValueForbidden", "message": f"Forbidden: {message}", "field": field}
