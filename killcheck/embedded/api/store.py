"""The store behind the API server: objects, resourceVersions, a log of changes, and who listens to it.

Only the API server touches it. Objects in it are never changed in place: a write puts a new dict.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from msgspec import Struct

from killcheck.kube.objects import Obj

__all__ = ["Change", "Key", "Store", "TooOld"]

#: group and plural of a resource: the version under which it is served does not matter to what is stored.
Table = tuple[str, str]
#: (namespace, name); the namespace is empty for cluster-scoped objects.
Key = tuple[str, str]


class Change(Struct, frozen=True):
    """One write: ``old`` is None for a creation, ``new`` is None for a removal."""

    revision: int
    table: Table
    key: Key
    old: Obj | None
    new: Obj | None


class TooOld(Exception):
    """The revision asked for has been compacted; ``oldest`` is the first that is still there."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"revision compacted; oldest is {oldest}")
        self.oldest = oldest


class Store:
    """A small etcd: one revision counter over all tables; every change is kept until :meth:`compact`."""

    def __init__(self, *, keep: int = 50_000) -> None:
        self.revision = 1
        self.keep = keep
        self._tables: dict[Table, dict[Key, Obj]] = {}
        self._log: list[Change] = []
        self._revisions: list[int] = []
        self._compacted = 0
        self._listeners: dict[Table, list[Callable[[Change], None]]] = {}

    def get(self, table: Table, key: Key) -> Obj | None:
        """The object as it is now."""
        rows = self._tables.get(table)
        return rows.get(key) if rows else None

    def count(self, table: Table) -> int:
        """How many objects a table holds."""
        return len(self._tables.get(table, ()))

    def sizes(self) -> list[tuple[Table, int]]:
        """How many objects each table holds."""
        return sorted((table, len(rows)) for table, rows in self._tables.items())

    def items(self, table: Table, namespace: str = "") -> Iterator[tuple[Key, Obj]]:
        """All objects of a table in key order, of one namespace if given."""
        rows = self._tables.get(table, {})
        for key in sorted(key for key in rows if not namespace or key[0] == namespace):
            yield key, rows[key]

    def values(self, table: Table, namespace: str = "") -> Iterator[Obj]:
        """As :meth:`items`, without the keys and in no order."""
        for key, obj in list(self._tables.get(table, {}).items()):
            if not namespace or key[0] == namespace:
                yield obj

    def holds(self, table: Table) -> bool:
        """Whether a table holds anything."""
        return bool(self._tables.get(table))

    def tables(self) -> list[Table]:
        """Every table that holds something."""
        return [table for table, rows in self._tables.items() if rows]

    def put(self, table: Table, key: Key, obj: Obj) -> Obj:
        """Write ``obj`` (a dict nobody else will change) and stamp its resourceVersion."""
        self.revision += 1
        obj.setdefault("metadata", {})["resourceVersion"] = str(self.revision)
        rows = self._tables.setdefault(table, {})
        old = rows.get(key)
        rows[key] = obj
        self._record(Change(self.revision, table, key, old, obj))
        return obj

    def remove(self, table: Table, key: Key) -> Obj:
        """Delete an object; returns its last state. Raises KeyError."""
        old = self._tables[table].pop(key)
        self.revision += 1
        self._record(Change(self.revision, table, key, old, None))
        return old

    def listen(self, table: Table, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call ``listener`` at every later change of a table, within the write; returns how to stop."""
        listeners = self._listeners.setdefault(table, [])
        listeners.append(listener)

        def stop() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return stop

    def since(self, table: Table, revision: int) -> list[Change]:
        """The changes of a table after ``revision``. Raises TooOld."""
        if revision < self._compacted:
            raise TooOld(self._compacted)
        start = bisect_right(self._revisions, revision)
        return [change for change in self._log[start:] if change.table == table]

    def compact(self, revision: int | None = None) -> None:
        """Forget the changes up to ``revision`` (default: all)."""
        upto = self.revision if revision is None else revision
        cut = bisect_right(self._revisions, upto)
        del self._log[:cut], self._revisions[:cut]
        self._compacted = max(self._compacted, upto)

    def _record(self, change: Change) -> None:
        self._log.append(change)
        self._revisions.append(change.revision)
        if len(self._log) > 2 * self.keep:
            self.compact(self._revisions[self.keep])
        for listener in list(self._listeners.get(change.table, ())):
            listener(change)
