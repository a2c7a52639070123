"""Events as client-go writes them: the legacy recorder with its correlator, and the scheduler's newer series.

Source: k8s.io/client-go/tools/record/{event.go,events_cache.go} and tools/events/event_broadcaster.go; recordings 12,
16 and 28b (bursts, silent back-offs, counts that jump).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from zlib import crc32

from msgspec import Struct, field

from killcheck.clock import Loop
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Conflict, KubeError, NotFound
from killcheck.kube.objects import Obj, format_time, name_of, namespace_of, uid_of

__all__ = ["EventRecorder", "SeriesRecorder"]

#: So many different messages of one reason within the interval (seconds) are told apart, later ones are combined.
MAX_SIMILAR = 10
SIMILAR_INTERVAL_S = 600.0
#: Events about one object that may follow each other at once, and then one in so many seconds.
BURST = 25
REFILL_S = 300.0
_COMBINED = "(combined from similar events): "


class _Similar(Struct):
    """The messages of one reason about one object that were seen of late."""

    last_s: float
    messages: set[str] = field(default_factory=set)


class _Seen(Struct):
    """An event as last written; ``stored`` is false while only counted (the spam filter held it back)."""

    name: str
    count: int
    first: str
    message: str


class _Bucket(Struct):
    """What the spam filter still lets through for one object."""

    tokens: float
    at_s: float


class _Names:
    """Names of events: the object's, and a number that no two events of a cluster share."""

    def __init__(self, loop: Loop, who: str) -> None:
        self.loop = loop
        self.who = crc32(who.encode()) % 1000
        self.made = 0

    def next(self, name: str) -> str:
        """A name for an event about ``name``, as client-go's recorder makes it: the object's name and a time in hex."""
        self.made += 1
        micros = int(self.loop.now().timestamp() * 1e6)
        return f"{name}.{(micros + self.made) * 1000 + self.who:x}"


class EventRecorder:
    """Events in the legacy core/v1 form, counted up where text and object are the same (client-go's correlator)."""

    def __init__(self, kube: Kube, loop: Loop, component: str, *, host: str = "") -> None:
        self.kube = kube
        self.loop = loop
        self.component = component
        self.host = host
        self._seen: dict[tuple[str, ...], _Seen] = {}
        self._similar: dict[tuple[str, ...], _Similar] = {}
        self._buckets: dict[tuple[str, ...], _Bucket] = {}
        self._names = _Names(loop, f"{component}/{host}")

    def emit(
        self,
        about: Obj,
        kind: str,
        reason: str,
        message: str,
        *,
        field_path: str = "",
        api_version: str = "",
        object_kind: str = "",
    ) -> None:
        """``kind`` is Normal or Warning; ``about`` the object it is about. A refused event is dropped, as there."""
        regarding = _regarding(about, field_path, api_version, object_kind)
        where = tuple(regarding.values())
        message, key = self._aggregate((*where, kind, reason), message)
        seen = self._seen.get(key)
        passes = self._may_pass((*where[:-1], kind))  # normal ones and warnings apart: recording 28b
        now = format_time(self.loop.now())
        if seen is None:
            seen = self._seen[key] = _Seen(self._names.next(regarding["name"]), 0, now, message)
        seen.count += 1
        changed = {"message": message} if message != seen.message else {}
        seen.message = message
        if passes:
            self._write(regarding, kind, reason, seen, changed | {"count": seen.count, "lastTimestamp": now})

    def silent_s(self, about: Obj, kinds: Iterable[str], **named: str) -> float:
        """For how many seconds no event of these ``kinds`` about an object would be written; infinite for no kind.

        ``named``: as :meth:`emit` takes them.
        """
        where = tuple(_regarding(about, **named).values())[:-1]
        now, waits = self.loop.monotonic(), [math.inf]
        for kind in kinds:
            bucket = self._buckets.get((*where, kind))
            waits.append((1 - bucket.tokens) * REFILL_S - (now - bucket.at_s) if bucket is not None else 0.0)
        return max(0.0, min(waits))

    def passed_over(self, times: int, about: Obj, kind: str, reason: str, message: str, **named: str) -> None:
        """An event was meant so many ``times`` while none of its kind would have been written: it is counted.

        ``named``: as :meth:`emit` takes them.
        """
        where = tuple(_regarding(about, **named).values())
        _, key = self._aggregate((*where, kind, reason), message)
        seen = self._seen.get(key)
        if seen is not None:
            seen.count += times

    def _write(self, regarding: Obj, kind: str, reason: str, seen: _Seen, patch: Obj) -> None:
        namespace = regarding["namespace"] or "default"
        try:
            if seen.count > 1:
                try:
                    self.kube.patch(r.EVENTS, seen.name, patch, namespace, kind="strategic")
                    return
                except NotFound:
                    pass  # expired, or held back so far: written anew, with its count
            self._create(
                namespace,
                {
                    "involvedObject": {k: v for k, v in regarding.items() if v},
                    "reason": reason,
                    "message": seen.message,
                    "type": kind,
                    "firstTimestamp": seen.first,
                    "eventTime": None,
                    "source": {"component": self.component} | ({"host": self.host} if self.host else {}),
                    "reportingComponent": self.component,
                    "reportingInstance": self.host,
                    "count": seen.count,
                    "lastTimestamp": patch["lastTimestamp"],
                },
                seen,
            )
        except KubeError:
            return

    def _create(self, namespace: str, event: Obj, seen: _Seen) -> None:
        body = {"apiVersion": "v1", "kind": "Event"} | event
        try:
            self.kube.create(r.EVENTS, body | {"metadata": {"name": seen.name, "namespace": namespace}})
        except Conflict:  # somebody else's event has that name
            seen.name = self._names.next(event["involvedObject"]["name"])
            self.kube.create(r.EVENTS, body | {"metadata": {"name": seen.name, "namespace": namespace}})

    def _aggregate(self, group: tuple[str, ...], message: str) -> tuple[str, tuple[str, ...]]:
        """The message as it is to be written, and the key under which it is counted."""
        now = self.loop.monotonic()
        similar = self._similar.get(group)
        if similar is None or now - similar.last_s > SIMILAR_INTERVAL_S:
            similar = self._similar[group] = _Similar(now)
        similar.last_s = now
        similar.messages.add(message)
        if len(similar.messages) < MAX_SIMILAR:
            return message, (*group, message)
        similar.messages.discard(next(m for m in similar.messages if m != message))
        return _COMBINED + message, group

    def _may_pass(self, about: tuple[str, ...]) -> bool:
        now = self.loop.monotonic()
        bucket = self._buckets.get(about)
        if bucket is None:
            bucket = self._buckets[about] = _Bucket(BURST, now)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at_s) / REFILL_S)
        bucket.at_s = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


def _regarding(about: Obj, field_path: str = "", api_version: str = "", object_kind: str = "") -> Obj:
    return {
        "kind": object_kind or about.get("kind", ""),
        "namespace": namespace_of(about),
        "name": name_of(about),
        "uid": uid_of(about),
        "apiVersion": api_version or about.get("apiVersion", ""),
        "fieldPath": field_path,
    }


class SeriesRecorder:
    """Events in the form of events.k8s.io (``eventTime``, ``action``, ``series``), as the scheduler writes them.

    What is the same but for its note belongs to one series: the first repetition is written, later ones are not.
    """

    def __init__(self, kube: Kube, loop: Loop, component: str, *, host: str) -> None:
        self.kube = kube
        self.loop = loop
        self.component = component
        self.instance = f"{component}-{host}"
        self._seen: dict[tuple[str, ...], tuple[str, int]] = {}
        self._names = _Names(loop, self.instance)

    def emit(self, about: Obj, kind: str, reason: str, action: str, note: str) -> None:
        """``kind`` is Normal or Warning; ``action`` what was tried (Binding, Scheduling, Preempting)."""
        namespace = namespace_of(about) or "default"
        regarding = {
            "kind": about.get("kind", ""),
            "namespace": namespace_of(about),
            "name": name_of(about),
            "uid": uid_of(about),
            "apiVersion": about.get("apiVersion", ""),
            "resourceVersion": about["metadata"].get("resourceVersion", ""),
        }
        key = (*regarding.values(), kind, reason, action)
        now = format_time(self.loop.now(), micro=True)
        try:
            if key in self._seen:
                name, count = self._seen[key]
                self._seen[key] = (name, count + 1)
                if count == 1:
                    series = {"series": {"count": 2, "lastObservedTime": now}}
                    self.kube.patch(r.EVENTS, name, series, namespace, kind="strategic")
                return
            name = self._names.next(regarding["name"])
            self._seen[key] = (name, 1)
            self.kube.create(
                r.EVENTS,
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": name, "namespace": namespace},
                    "involvedObject": {k: v for k, v in regarding.items() if v},
                    "reason": reason,
                    "action": action,
                    "message": note[:1024],
                    "type": kind,
                    "source": {},
                    "firstTimestamp": None,
                    "lastTimestamp": None,
                    "eventTime": now,
                    "reportingComponent": self.component,
                    "reportingInstance": self.instance,
                },
            )
        except KubeError:
            return
