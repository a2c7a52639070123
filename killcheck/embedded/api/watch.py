"""Watches: changes of the store as frames, each made once and handed to every stream that wants it.

Frames are delivered in batches from the loop, so that a write never runs a reader's code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from killcheck.clock import Loop, Timer
from killcheck.embedded.api.store import Change, Store, Table
from killcheck.kube.objects import Obj
from killcheck.kube.selectors import FieldSelector, LabelSelector

__all__ = ["Filter", "WatchStream", "Watches", "as_of"]

#: Marks the bookmark that ends the synthetic ADDED frames of ``sendInitialEvents``.
INITIAL_END = "k8s.io/initial-events-end"


def as_of(obj: Obj, revision: int) -> Obj:
    """An object's last state with the resourceVersion of the change that ended it."""
    return obj | {"metadata": obj["metadata"] | {"resourceVersion": str(revision)}}


class Filter(Struct, frozen=True):
    """Which objects a list or a watch is about. ``value_of`` reads a field selector's field of an object."""

    namespace: str
    labels: LabelSelector
    fields: FieldSelector
    value_of: Callable[[Obj, str], str]

    @property
    def selective(self) -> bool:
        """Whether it looks at more than the namespace."""
        return bool(self.labels.requirements or self.fields.terms)

    def wants(self, obj: Obj) -> bool:
        """Whether an object (of the right namespace) is meant."""
        if self.labels.requirements and not self.labels.matches(obj["metadata"].get("labels")):
            return False
        return not self.fields.terms or self.fields.matches(lambda name: self.value_of(obj, name))


class WatchStream:
    """One watch; a ``http.Stream`` whose frames are ``{"type": ..., "object": ...}``.

    ``render`` makes a frame's object what this reader asked for (another version, a Table); None leaves it.
    """

    def __init__(self, watches: Watches, table: Table, where: Filter, render: Callable[[Obj], Obj] | None) -> None:
        self.watches = watches
        self.table = table
        self.where = where
        self.render = render
        #: What a reader outside this process sees beside what is stored; done when a frame is delivered.
        self.finish: Callable[[Obj, bool], Obj] | None = None
        self.bookmarks = False
        #: An object of the type in which nothing is set: what a bookmark shows.
        self.empty: Obj = {}
        self.revision = 0
        self._frames: deque[Obj] = deque()
        self._on_frame: Callable[[Obj], None] | None = None
        self._on_end: Callable[[], None] | None = None
        self._over = False
        self._closed = False
        self._deadline: Timer | None = None

    @property
    def over(self) -> bool:
        """Whether nobody reads it any more, or nothing will come."""
        return self._over or self._closed

    # -- for the reader ------------------------------------------------------------------------------------
    def subscribe(self, on_frame: Callable[[Obj], None], on_end: Callable[[], None]) -> None:
        """Deliver what is there and what comes, on the loop."""
        self._on_frame, self._on_end = on_frame, on_end
        if self._frames or self._over:
            self.watches.wake(self)

    def close(self) -> None:
        """The reader has gone."""
        self._closed = True
        self._frames.clear()
        self._stop()

    # -- for the server ------------------------------------------------------------------------------------
    def push(self, kind: str, obj: Obj) -> None:
        """Queue a frame of an object as stored."""
        self.push_frame({"type": kind, "object": obj if self.render is None else self.render(obj)})

    def push_frame(self, frame: Obj) -> None:
        """Queue a frame as it is."""
        self._frames.append(frame)
        if self._on_frame is not None:
            self.watches.wake(self)

    def push_bookmark(self, kind: str, api_version: str, revision: int, *, initial: bool = False) -> None:
        """Tell the reader how far it is."""
        meta: Obj = {"resourceVersion": str(revision)}
        if initial:
            meta["annotations"] = {INITIAL_END: "true"}
        blank = {"kind": kind, "apiVersion": api_version} | self.empty | {"metadata": meta}
        shown = blank if self.render is None else self.render(blank)
        self.push_frame({"type": "BOOKMARK", "object": shown})

    def end(self) -> None:
        """The server closes the stream, after the frames that are queued."""
        if not self._over:
            self._over = True
            self._stop()
            if self._on_end is not None:
                self.watches.wake(self)

    def end_at(self, seconds: float, bookmark: tuple[str, str] | None) -> None:
        """Close after ``seconds``; ``bookmark`` (kind, apiVersion) is sent just before."""

        def expire() -> None:
            if bookmark and not self._over:
                self.push_bookmark(*bookmark, self.watches.store.revision)
            self.end()

        self._deadline = self.watches.loop.call_later(seconds, expire)

    def change(self, change: Change, frame: Obj) -> None:
        """Judge one change; ``frame`` is how a reader without selectors sees it."""
        where = self.where
        if where.namespace and change.key[0] != where.namespace:
            return
        if where.selective:
            before = change.old is not None and where.wants(change.old)
            after = change.new is not None and where.wants(change.new)
            if not before and not after:
                return
            if not (before and after):
                kind = "ADDED" if after else "DELETED"
                shown = change.new if after else as_of(change.old or {}, change.revision)
                self.push(kind, shown or {})
                return
        if self.render is None:
            self.push_frame(frame)
        else:
            self.push(frame["type"], frame["object"])

    def deliver(self) -> None:
        """Hand over what is queued."""
        on_frame = self._on_frame
        while self._frames and on_frame is not None and not self._closed:
            on_frame(self._finished(self._frames.popleft()))
        if self._over and not self._closed and self._on_end is not None:
            self._closed = True
            self._on_end()

    def _finished(self, frame: Obj) -> Obj:
        if self.finish is None or frame["type"] in ("BOOKMARK", "ERROR"):
            return frame
        return {"type": frame["type"], "object": self.finish(frame["object"], frame["type"] == "DELETED")}

    def _stop(self) -> None:
        self.watches.drop(self)
        if self._deadline is not None:
            self._deadline.cancel()


class Watches:
    """All open watches: one listener of the store a table, one batch of deliveries a moment."""

    def __init__(self, store: Store, loop: Loop) -> None:
        self.store = store
        self.loop = loop
        self._streams: dict[Table, dict[WatchStream, None]] = {}
        self._unlisten: dict[Table, Callable[[], None]] = {}
        self._awake: dict[WatchStream, None] = {}
        self._scheduled = False

    def open(self, stream: WatchStream) -> None:
        """Feed a stream with every later change of its table."""
        table = stream.table
        streams = self._streams.setdefault(table, {})
        streams[stream] = None
        if table not in self._unlisten:
            self._unlisten[table] = self.store.listen(table, self._changed)

    def drop(self, stream: WatchStream) -> None:
        """Feed it no longer; idempotent."""
        self._streams.get(stream.table, {}).pop(stream, None)

    def close_table(self, table: Table, keep: Callable[[WatchStream], bool] = lambda _: False) -> None:
        """End the watches of a resource that is no longer served."""
        for stream in list(self._streams.get(table, {})):
            if not keep(stream):
                stream.end()

    def close_all(self) -> None:
        """End every watch, as when the server goes down."""
        for table in list(self._streams):
            self.close_table(table)

    @property
    def count(self) -> int:
        """How many watches are open."""
        return sum(len(streams) for streams in self._streams.values())

    def wake(self, stream: WatchStream) -> None:
        """Deliver a stream's frames at this same moment, after what is being done now."""
        self._awake[stream] = None
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        awake, self._awake = self._awake, {}
        pending = list(awake)
        try:
            while pending:
                pending.pop(0).deliver()
        finally:
            for stream in pending:  # a reader that raised must not cost the others their frames
                self.wake(stream)

    def _changed(self, change: Change) -> None:
        streams = self._streams.get(change.table)
        if not streams:
            return
        frame = frame_of(change)
        for stream in list(streams):
            stream.change(change, frame)


def frame_of(change: Change) -> Obj:
    """A change as a reader without selectors sees it."""
    if change.new is None:
        return {"type": "DELETED", "object": as_of(change.old or {}, change.revision)}
    return {"type": "ADDED" if change.old is None else "MODIFIED", "object": change.new}
