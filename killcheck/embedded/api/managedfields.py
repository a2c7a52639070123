"""Who manages which field (``metadata.managedFields``), computed only when somebody looks.

Each write leaves a note (who, and the objects before and after); the notes are folded into field sets when an
object is read over the wire, when server-side apply needs them, or when many have gathered.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Struct, field

from killcheck.clock import Loop
from killcheck.embedded.api import hpaversions, schemas
from killcheck.embedded.api.body import parse_json
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.fieldsets import Fields, changed, emptied, fields_of, merged, readable, subtract
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.mergekeys import ApplyLists
from killcheck.embedded.api.scalepaths import replicas_fields
from killcheck.embedded.api.store import Key, Table
from killcheck.kube.objects import Obj, format_time

__all__ = ["ManagedFields", "Manager", "without_fields"]

#: Notes about one object that may gather before they are folded.
MAX_NOTES = 16
#: Of how many objects that are gone their managers are still known, for answers and watches that tell of the end.
MAX_GONE = 256
#: What entries of a Scale say of their version.
_SCALE = "autoscaling/v1"
#: Who is said to have written what nobody manages.
_BEFORE = "before-first-apply"
#: What two versions say in different words.
_IN_TWO_VERSIONS = "HorizontalPodAutoscaler"


class Manager(NamedTuple):
    """One entry of managedFields is told from another by these."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""
    #: A second entry of the same manager, which a write of the Scale leaves; the next write of anything drops it.
    again: bool = False

    def is_applier(self, other: Manager) -> bool:
        """Whether both are one applier in two versions: he is the same whichever he applies (internal/fieldmanager)."""
        return self.operation == other.operation == "Apply" and self != other and self[0::3] == other[0::3]


class _Note(NamedTuple):
    manager: Manager
    old: Obj | None
    new: Obj
    time: str
    applied: Fields | None
    #: The revision that it began at.
    since: int = 0
    untyped: bool = False
    #: What the writer manages beside what is not as it was.
    also: Fields | None = None


class _Moment(NamedTuple):
    since: int
    sets: dict[Manager, Fields]
    times: dict[Manager, str]


class _Record(Struct):
    lists: ApplyLists
    sets: dict[Manager, Fields] = field(default_factory=dict)
    times: dict[Manager, str] = field(default_factory=dict)
    notes: list[_Note] = field(default_factory=list)
    #: How it was after each of the latest writes, for watches that begin in the past.
    trail: list[_Moment] = field(default_factory=list)
    #: The revision at which its object was made: who is told of an earlier one of that name asks for that one's.
    since: int = 0


class ManagedFields:
    """The field managers of every object."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._records: dict[tuple[Table, Key], _Record] = {}
        self._gone: dict[tuple[Table, Key], _Record] = {}

    def record(
        self,
        call: Call,
        key: Key,
        old: Obj | None,
        new: Obj,
        *,
        operation: str = "Update",
        applied: Fields | None = None,
        timed: bool = True,
        untyped: bool = False,
    ) -> None:
        """Note a write. ``applied``: the fields of an apply's own configuration.

        An apply that changes nothing but who manages what has no time of its own (managedfieldsupdater.go), which is
        what ``timed=False`` says. ``untyped``: what was sent does not fit the type.
        """
        if call.subresource == "scale":  # whose writer says it: :meth:`scaled`
            return
        manager = Manager(call.manager, operation, call.kind.resource.api_version, call.subresource)
        also = sent_empty(call) if applied is None and old is not None else {}
        self.note(
            call.kind,
            key,
            manager,
            new,
            old=old,
            applied=applied,
            timed=timed,
            untyped=untyped,
            apart=call.over_wire,
            also=also,
        )

    def note(
        self,
        kind: Kind,
        key: Key,
        manager: Manager,
        new: Obj,
        *,
        old: Obj | None = None,
        applied: Fields | None = None,
        timed: bool = True,
        untyped: bool = False,
        apart: bool = False,
        also: Fields | None = None,
    ) -> None:
        """As :meth:`record`, of a manager by name; ``apart``: not as one with his write before.

        ``also``: what he manages beside what is not as it was.
        """
        record = self._records.get((kind.table, key))
        if record is None:
            record = self._records[kind.table, key] = _Record(ApplyLists(kind), since=_revision(new))
        notes = record.notes
        time = format_time(self.loop.now()) if timed else ""
        again = notes and notes[-1].manager == manager and not untyped and not notes[-1].untyped
        if again and not apart and applied is None and notes[-1].old is not None:
            notes[-1] = notes[-1]._replace(new=new, time=time)  # the same writer again: one note for both
            return
        notes.append(_Note(manager, old, new, time, applied, _revision(new), untyped, also))
        if len(notes) > MAX_NOTES:
            _fold(record)

    def scaled(self, call: Call, *, before: int, after: int | None, applied: bool, since: int) -> None:
        """Note a write of the Scale from ``before`` replicas to ``after`` (None: applied without any).

        A Scale shows managers of these alone, and a zero as nothing: what
        nobody manages nobody comes to manage by an update. Entries that come back from it have no time.
        Source: apimachinery/pkg/util/managedfields/scalehandler.go; fields of a manager are told apart by version.
        """
        record = self._records.get((call.kind.table, call.key))
        if record is None:
            return
        _fold(record)
        _drop_seconds(record)
        path = replicas_fields(call.kind)
        operation, version = ("Apply" if applied else "Update"), call.kind.resource.api_version
        me = Manager(call.manager, operation, version if applied else _SCALE, call.subresource)
        claims = [manager for manager, fields in record.sets.items() if not subtract(path, fields)]
        left = {one if one.operation == "Apply" else one._replace(api_version=_SCALE) for one in claims}
        if applied and not claims and before:  # whoever set them did so before (skipnonapplied.go)
            left.add(Manager(_BEFORE, "Update", _SCALE, call.subresource))
        if applied:
            left = {me} if after is not None and (after != before or not after) else left | {me}
            left -= {me} if after is None else set()
        elif left and before != after:
            left = {me} if after else set()
        for manager in claims:
            if manager in left:
                left.discard(manager)
            else:
                _assign(record, manager, subtract(record.sets[manager], path))
        for manager in left:
            mine = manager._replace(api_version=version)
            _assign(record, mine._replace(again=mine in record.sets), path)
        _mark(record, since)

    def of_scale(self, call: Call) -> list[Obj]:
        """The managedFields of the Scale, which it shows in refusals alone."""
        record = self._records.get((call.kind.table, call.key))
        if record is None:
            return []
        path = replicas_fields(call.kind)
        shown: Fields = {"f:spec": {"f:replicas": {}}}
        sets = self.sets(call.kind.table, call.key)
        return [
            _entry(manager._replace(api_version=_SCALE), shown, record.times[manager])
            for manager in _ordered(sets, record.times)
            if not subtract(path, sets[manager])
        ]

    def previewed(
        self,
        call: Call,
        old: Obj | None,
        new: Obj,
        *,
        operation: str = "Update",
        applied: Fields | None = None,
        timed: bool = True,
        untyped: bool = False,
    ) -> Obj:
        """The object as a dry run shows it: with the managedFields that it would have; nothing is noted."""
        place = (call.kind.table, call.key)
        before = self._records.get(place)
        if before is not None:
            _fold(before)
            self._records[place] = _Record(before.lists, dict(before.sets), dict(before.times))
        self.record(call, call.key, old, new, operation=operation, applied=applied, timed=timed, untyped=untyped)
        try:
            return self.shown(call.kind, call.key, new)
        finally:
            if before is None:
                del self._records[place]
            else:
                self._records[place] = before

    def forget(self, table: Table, key: Key) -> None:
        """The object is gone; who is told so soon after still sees who managed it."""
        record = self._records.pop((table, key), None)
        if record is not None:
            self._gone.pop((table, key), None)
            self._gone[table, key] = record
            while len(self._gone) > MAX_GONE:
                del self._gone[next(iter(self._gone))]

    def sets(self, table: Table, key: Key) -> dict[Manager, Fields]:
        """Every manager's fields now (read-only)."""
        record = self._records.get((table, key))
        if record is None:
            return {}
        _fold(record)
        return {manager: fields for manager, fields in record.sets.items() if not manager.again}

    def settle(self, table: Table, key: Key) -> None:
        """A write that changes nothing was read and written all the same: of two entries that are one, one is left.

        Source: apimachinery/pkg/util/managedfields/internal/managedfields.go, where entries are keys of a map.
        """
        record = self._records.get((table, key))
        if record is not None and any(one.again for one in record.sets):
            _drop_seconds(record)
            _mark(record)

    def first_applied(self, kind: Kind, live: Obj, lists: ApplyLists) -> dict[Manager, Fields]:
        """The sets of an object that nobody manages and somebody applies: all that is there is of before.

        Source: apimachinery/pkg/util/managedfields/internal/skipnonapplied.go.
        """
        return {Manager(_BEFORE, "Update", kind.resource.api_version): fields_of(live, lists)}

    def disown(self, table: Table, key: Key) -> None:
        """Nobody manages the object: its maker leaves no trace of itself."""
        self._records.pop((table, key), None)

    def adopt(self, table: Table, key: Key, sets: dict[Manager, Fields]) -> None:
        """Put in place what :meth:`first_applied` said."""
        record = self._records.get((table, key))
        if record is not None:
            record.sets, record.times = dict(sets), dict.fromkeys(sets, format_time(self.loop.now()))
            _mark(record)

    def replace(self, kind: Kind, key: Key, entries: list[Obj]) -> None:
        """What a writer says of who manages what: ``[{}]`` means nobody; what cannot be read is left as it was."""
        if not entries:
            return
        record = self._records.setdefault((kind.table, key), _Record(ApplyLists(kind)))
        _fold(record)
        if entries == [{}]:
            record.sets, record.times = {}, {}
            _mark(record)
            return
        sets: dict[Manager, Fields] = {}
        times: dict[Manager, str] = {}
        for entry in entries:
            fields = entry.get("fieldsV1") or {}
            if not (entry.get("manager") or entry.get("operation")) or not readable(fields):
                return
            manager = _manager_of(entry)
            sets[manager] = merged(sets.get(manager, {}), fields)
            times[manager] = str(entry.get("time") or "")
        record.sets, record.times = sets, times
        _mark(record)

    def release(self, table: Table, key: Key, fields: Fields, keep: Manager | None) -> None:
        """Take fields away from every manager but ``keep``, as a forced apply does."""
        record = self._records.get((table, key))
        if record is None:
            return
        _fold(record)
        for manager in list(record.sets):
            if manager != keep:
                _assign(record, manager, subtract(record.sets[manager], fields))
        _mark(record)

    def of_new(self, manager: Manager, asked: Obj, schema: str) -> list[Obj]:
        """The managedFields of what is answered and not kept: a review, a token."""
        fields = changed(schemas.decode(schema, {}).obj, asked)
        return [_entry(manager, fields, format_time(self.loop.now()))] if fields else []

    def shown(self, kind: Kind, key: Key, obj: Obj, *, gone: bool = False) -> Obj:
        """The object with its managedFields (a shallow copy), also just after it is gone.

        ``gone``: from where a watch looks, at the object's revision, which it has from what took it away.
        """
        record, revision = self._records.get((kind.table, key)), _revision(obj) - gone
        if record is None or 0 < revision < record.since:
            record = self._gone.get((kind.table, key)) or record
        if record is None:
            return obj
        _fold(record)
        sets, times = _as_of(record, revision)
        entries = [_entry(manager, sets[manager], times[manager]) for manager in _ordered(sets, times)]
        return obj | {"metadata": obj["metadata"] | {"managedFields": entries}} if entries else obj


#: An empty list in JSON, and in YAML's own style.
_EMPTY = re.compile(rb"\[\s*\]")


def sent_empty(call: Call) -> Fields:
    """What a built-in type's writer comes to manage though nothing of it is stored: see :func:`fieldsets.emptied`."""
    body = call.request.body
    if call.kind.crd is not None or not isinstance(body, bytes) or not _EMPTY.search(body):
        return {}
    sent = parse_json(body).value if call.content_type().endswith("json") else None
    return emptied(sent, ApplyLists(call.kind), call.kind.schema or "") if isinstance(sent, dict) else {}


def _revision(obj: Obj) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)


def _ordered(sets: dict[Manager, Fields], times: dict[Manager, str]) -> list[Manager]:
    return sorted(sets, key=lambda manager: (manager.operation, times[manager], *manager))


def _entry(manager: Manager, fields: Fields, time: str) -> Obj:
    entry: Obj = {"manager": manager.name, "operation": manager.operation, "apiVersion": manager.api_version}
    entry |= {"time": time} if time else {}
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": _sorted(fields)}
    return entry | ({"subresource": manager.subresource} if manager.subresource else {})


def _manager_of(entry: Obj) -> Manager:
    name, operation, version, subresource = (
        str(entry.get(field) or "") for field in ("manager", "operation", "apiVersion", "subresource")
    )
    return Manager(name, operation, version, subresource)


def without_fields(obj: Obj, fields: Fields, keep: Manager | None) -> Obj:
    """An object with its managedFields, of which every manager but ``keep`` has lost ``fields``."""
    left = []
    for entry in obj["metadata"].get("managedFields") or ():
        manager = _manager_of(entry)
        rest = entry["fieldsV1"] if manager == keep else subtract(entry["fieldsV1"], fields)
        left += [entry | {"fieldsV1": rest}] if rest else []
    return obj | {"metadata": obj["metadata"] | {"managedFields": left}} if left else obj


def _sorted(fields: Fields) -> Fields:
    return {element: _sorted(fields[element]) for element in sorted(fields)}


def _fold(record: _Record) -> None:
    """Work the notes into the sets."""
    notes, record.notes = record.notes, []
    if notes:
        _drop_seconds(record)
    for note in notes:
        touched = changed(record.lists.empty if note.old is None else note.old, note.new, record.lists)
        touched = merged(touched, note.also or {})
        gone: Fields = {}
        if note.old is not None:
            gone = subtract(fields_of(note.old, record.lists), fields_of(note.new, record.lists))
        applied = note.applied
        if note.untyped:  # what does not fit its type has no fields that anybody could manage (fieldmanager.go)
            record.sets, record.times = {}, {}
            _mark(record, note.since)
            continue
        for manager in list(record.sets):
            others = manager != note.manager and applied is None
            lost = merged(gone, touched) if others else gone
            if manager.api_version != note.manager.api_version and note.new.get("kind") == _IN_TWO_VERSIONS:
                lost = _lost_in(manager.api_version, note, record.lists)
            _assign(record, manager, subtract(record.sets[manager], lost))
        for manager in [one for one in record.sets if applied is not None and one.is_applier(note.manager)]:
            _assign(record, manager, {})
        mine = merged(record.sets.get(note.manager, {}), touched) if applied is None else applied
        _assign(record, note.manager, mine, note.time)
        _mark(record, note.since)


def _lost_in(version: str, note: _Note, lists: ApplyLists) -> Fields:
    """What a manager of another version loses: it is compared in his (structured-merge-diff, Updater.update)."""
    to = hpaversions.to_v1 if version == _SCALE else hpaversions.to_v2
    old, new = ({} if one is None else to(one) for one in (note.old, note.new))
    return merged(subtract(fields_of(old, lists), fields_of(new, lists)), changed(old, new, lists))


def _drop_seconds(record: _Record) -> None:
    for manager in [one for one in record.sets if one.again]:
        _assign(record, manager, {})


def _mark(record: _Record, since: int | None = None) -> None:
    """Note how the record is: after a write at a revision, or of the last one anew."""
    if since is None and record.trail:
        since = record.trail.pop().since
    record.trail.append(_Moment(since or 0, dict(record.sets), dict(record.times)))
    del record.trail[:-MAX_NOTES]


def _as_of(record: _Record, revision: int) -> tuple[dict[Manager, Fields], dict[Manager, str]]:
    """The sets and times at a revision; those now where nobody knows better."""
    if record.trail and 0 < revision < record.trail[-1].since:
        found = next((moment for moment in reversed(record.trail) if moment.since <= revision), record.trail[0])
        return found.sets, found.times
    return record.sets, record.times


def _assign(record: _Record, manager: Manager, fields: Fields, time: str | None = None) -> None:
    if not fields:
        record.sets.pop(manager, None)
        record.times.pop(manager, None)
        return
    if time or manager not in record.times:
        record.times[manager] = time or ""
    record.sets[manager] = fields
