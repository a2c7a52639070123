"""A live copy of one resource: list, then watch, resuming over closed streams and 410 - and saying when it cannot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal

from killcheck.clock import Loop, Timer
from killcheck.kube.client import Closer, Kube, WatchEvent
from killcheck.kube.errors import Expired, Forbidden, KubeError, NotFound
from killcheck.kube.objects import Obj, dig, key_of
from killcheck.kube.resources import Resource

__all__ = ["Change", "Informer"]

Change = Literal["added", "modified", "deleted"]

#: Seconds between attempts to re-establish a broken watch, the last one repeated.
BACKOFF_S = (0.1, 0.5, 1.0, 2.0, 5.0)
#: A watch that lasted this long (seconds) worked, also if it had nothing to say: its end is no failure.
SETTLED_S = 5.0


class Informer:
    """Objects by (namespace, name), kept current on ``loop``.

    ``on_change(change, old, new)`` is called for every difference, also those found by a re-list: ``old`` is None for
    ``added``; for ``deleted`` ``new`` is the last state known. ``broken`` holds the error for as long as what
    is here may be stale (and ``on_broken`` was called with it): nothing may be concluded from absence meanwhile.
    """

    def __init__(
        self,
        kube: Kube,
        loop: Loop,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        on_change: Callable[[Change, Obj | None, Obj], None] | None = None,
        on_broken: Callable[[KubeError | None], None] | None = None,
        optional: bool = False,
    ) -> None:
        self.kube = kube
        self.loop = loop
        self.resource = resource
        self.namespace = namespace
        self.labels = labels
        self.fields = fields
        self.objects: dict[tuple[str, str], Obj] = {}
        self.handlers: list[Callable[[Change, Obj | None, Obj], None]] = [on_change] if on_change else []
        self.on_broken = on_broken
        #: An optional resource that the server does not serve (a CRD not installed) counts as empty.
        self.optional = optional
        self.absent = False
        self.broken: KubeError | None = None
        self.synced = False
        #: Since when every change was seen: what came and went before the last list is not known.
        self.followed_since: datetime | None = None
        self.resource_version = ""
        self._close: Closer | None = None
        self._retry: Timer | None = None
        self._failures = 0
        self._opened = 0.0
        self._stopped = False

    def start(self) -> Informer:
        """List now (raises KubeError if that fails), then watch."""
        try:
            self._list()
        except (NotFound, Forbidden) as error:
            # Rights are asked about before what is served: who has none to what is not there is told 403, not 404.
            if not self.optional or (isinstance(error, Forbidden) and self.kube.serves(self.resource)):
                raise
            self.absent = True
            self.synced = True
            return self
        self._watch()
        return self

    def stop(self) -> None:
        """Close the watch; idempotent."""
        self._stopped = True
        if self._retry:
            self._retry.cancel()
        if self._close:
            self._close()
            self._close = None

    def get(self, name: str, namespace: str = "") -> Obj | None:
        """The object as last seen."""
        return self.objects.get((namespace, name))

    def values(self) -> list[Obj]:
        """All objects as last seen."""
        return list(self.objects.values())

    # -- inside --------------------------------------------------------------------------------------------
    def _list(self) -> None:
        listing = self.kube.list(self.resource, self.namespace, labels=self.labels, fields=self.fields)
        self.resource_version = listing.resource_version
        fresh = {key_of(obj): obj for obj in listing.items}
        for key in [key for key in self.objects if key not in fresh]:
            self._apply("deleted", self.objects.pop(key), None)
        for key, obj in fresh.items():
            old = self.objects.get(key)
            self.objects[key] = obj
            if old is None:
                self._apply("added", None, obj)
            elif dig(old, "metadata", "uid") != dig(obj, "metadata", "uid"):
                self._apply("deleted", old, None)
                self._apply("added", None, obj)
            elif dig(old, "metadata", "resourceVersion") != dig(obj, "metadata", "resourceVersion"):
                self._apply("modified", old, obj)
        self.followed_since = self.loop.now()
        self.synced = True

    def _watch(self) -> None:
        self._opened = self.loop.monotonic()
        self._close = self.kube.watch(
            self.resource,
            self._event,
            self._ended,
            namespace=self.namespace,
            since=self.resource_version,
            labels=self.labels,
            fields=self.fields,
        )

    def _event(self, event: WatchEvent) -> None:
        if self._stopped:
            return
        self._failures = 0
        obj = event.object
        self.resource_version = dig(obj, "metadata", "resourceVersion", default=self.resource_version)
        if event.type == "BOOKMARK":
            return
        key = key_of(obj)
        old = self.objects.get(key)
        if event.type == "DELETED":
            self.objects.pop(key, None)
            self._apply("deleted", obj if old is None else old, obj)
        else:
            self.objects[key] = obj
            self._apply("added" if old is None else "modified", old, obj)

    def _apply(self, change: Change, old: Obj | None, new: Obj | None) -> None:
        for handler in self.handlers:
            handler(change, None if change == "added" else old, new if new is not None else old)  # type: ignore[arg-type]

    def _ended(self, error: KubeError | None) -> None:
        if self._stopped:
            return
        self._close = None
        if self.loop.monotonic() - self._opened >= SETTLED_S:
            self._failures = 0
        if error is not None and not isinstance(error, Expired):
            self._break(error)
        delay = 0.0 if error is None and not self._failures else BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        self._retry = self.loop.call_later(delay, self._resume, isinstance(error, Expired))

    def _resume(self, relist: bool) -> None:
        try:
            if relist or self.broken:
                self._list()
            self._watch()
        except KubeError as error:
            self._break(error)
            delay = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
            self._failures += 1
            self._retry = self.loop.call_later(delay, self._resume, True)
            return
        if self.broken:
            self.broken = None
            if self.on_broken:
                self.on_broken(None)

    def _break(self, error: KubeError) -> None:
        first = self.broken is None
        self.broken = error
        if first and self.on_broken:
            self.on_broken(error)
