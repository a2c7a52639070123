"""What every controller of the embedded cluster is made of: informers, a work queue with back-off, events.

Controllers are clients of the API like any other: nothing here knows of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from killcheck.clock import Loop, Timer
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.informer import Change, Informer
from killcheck.kube.objects import Obj, controller_of, format_time, name_of, namespace_of, uid_of
from killcheck.kube.resources import Resource

__all__ = ["Controller", "EventRecorder", "Informers", "WorkQueue"]


class Informers:
    """One shared informer a resource, as client-go's factories have it."""

    def __init__(self, kube: Kube, loop: Loop) -> None:
        self.kube = kube
        self.loop = loop
        self._by_resource: dict[Resource, Informer] = {}

    def of(self, resource: Resource, *, optional: bool = False) -> Informer:
        """The informer, started at first use."""
        informer = self._by_resource.get(resource)
        if informer is None:
            informer = Informer(self.kube, self.loop, resource, optional=optional)
            self._by_resource[resource] = informer
            informer.start()
        return informer

    def stop(self) -> None:
        """Close every watch."""
        for informer in self._by_resource.values():
            informer.stop()
        self._by_resource.clear()


class WorkQueue:
    """Keys to reconcile: each at most once at a time, retried with exponential back-off when the work fails.

    ``base_s`` and ``max_s`` bound the back-off (client-go's defaults are 5 ms and 1000 s).
    """

    def __init__(
        self, loop: Loop, work: Callable[[Hashable], None], *, base_s: float = 0.005, max_s: float = 1000.0,
    ) -> None:
        self.loop = loop
        self.work = work
        self.base_s = base_s
        self.max_s = max_s
        self.stopped = False
        self._pending: dict[Hashable, Timer] = {}
        self._failures: dict[Hashable, int] = {}

    def add(self, key: Hashable, after_s: float = 0.0) -> None:
        """Reconcile ``key`` in ``after_s`` seconds, or earlier if it is already due earlier."""
        if self.stopped:
            return
        when = self.loop.monotonic() + after_s
        pending = self._pending.get(key)
        if pending is not None:
            if pending.when <= when:
                return
            pending.cancel()
        call = self.loop.call_soon if after_s <= 0 else lambda fn, k: self.loop.call_later(after_s, fn, k)
        self._pending[key] = call(self._run, key)

    def backoff(self, key: Hashable) -> float:
        """Count a failure of ``key`` and answer how long to wait before the next try, in seconds."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        return float(min(self.max_s, self.base_s * 2.0**count))

    def retry(self, key: Hashable) -> None:
        """Reconcile ``key`` again after its back-off."""
        self.add(key, self.backoff(key))

    def forget(self, key: Hashable) -> None:
        """``key`` succeeded: its back-off starts anew."""
        self._failures.pop(key, None)

    def stop(self) -> None:
        """Drop everything that is due."""
        self.stopped = True
        for timer in self._pending.values():
            timer.cancel()
        self._pending.clear()

    def _run(self, key: Hashable) -> None:
        self._pending.pop(key, None)
        if not self.stopped:
            self.work(key)


class EventRecorder:
    """Events in the legacy core/v1 form, counted up where text and object are the same (client-go's correlator)."""

    def __init__(self, kube: Kube, loop: Loop, component: str, *, host: str = "") -> None:
        self.kube = kube
        self.loop = loop
        self.component = component
        self.host = host
        self._seen: dict[tuple[str, ...], tuple[str, str, int]] = {}

    def emit(
        self, about: Obj, kind: str, reason: str, message: str, *, field_path: str = "", api_version: str = "",
        object_kind: str = "",
    ) -> None:
        """``kind`` is Normal or Warning; ``about`` the object it is about. A refused event is dropped, as there."""
        namespace = namespace_of(about) or "default"
        regarding = {
            "kind": object_kind or about.get("kind", ""), "namespace": namespace_of(about), "name": name_of(about),
            "uid": uid_of(about), "apiVersion": api_version or about.get("apiVersion", ""),
            "fieldPath": field_path,
        }
        key = (*regarding.values(), namespace, kind, reason, message)
        now = format_time(self.loop.now())
        try:
            if key in self._seen:
                name, _, count = self._seen[key]
                self._seen[key] = (name, now, count + 1)
                self.kube.patch(r.EVENTS, name, {"count": count + 1, "lastTimestamp": now}, namespace, kind="strategic")
                return
            name = f"{regarding['name']}.{int(self.loop.now().timestamp() * 1e9) + len(self._seen):016x}"
            self.kube.create(r.EVENTS, {
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
                "involvedObject": {k: v for k, v in regarding.items() if v}, "reason": reason, "message": message, "type": kind, "count": 1,
                "firstTimestamp": now, "lastTimestamp": now, "eventTime": None,
                "source": {"component": self.component} | ({"host": self.host} if self.host else {}),
                "reportingComponent": self.component, "reportingInstance": self.host,
            })
            self._seen[key] = (name, now, 1)
        except NotFound:
            self._seen.pop(key, None)
        except KubeError:
            return


@dataclass
class Controller:
    """A controller: ``watch`` what concerns it, ``reconcile(key)`` what changed.

    Subclasses set ``name``, call :meth:`follow` in :meth:`setup`, and implement :meth:`reconcile` with
    key = (namespace, name). ``kube`` should carry the controller's own identity.
    """

    kube: Kube
    loop: Loop
    informers: Informers
    name: str = "controller"
    queue: WorkQueue = field(init=False)
    events: EventRecorder = field(init=False)

    def __post_init__(self) -> None:
        self.queue = WorkQueue(self.loop, self._work)
        self.events = EventRecorder(self.kube, self.loop, self.name)
        self._unfollow: list[Callable[[], None]] = []

    # -- for subclasses ------------------------------------------------------------------------------------
    def setup(self) -> None:
        """Subscribe to informers; called once by :meth:`start`."""
        raise NotImplementedError

    def reconcile(self, key: tuple[str, str]) -> None:
        """Bring one object to where it should be. Raise ApiError to be retried with back-off."""
        raise NotImplementedError

    def follow(
        self, resource: Resource, keys: Callable[[Change, Obj | None, Obj], list[tuple[str, str]]] | None = None,
        *, optional: bool = False,
    ) -> Informer:
        """Reconcile at every change of ``resource``; ``keys`` maps a change to keys (default: the object's own)."""
        informer = self.informers.of(resource, optional=optional)

        def changed(change: Change, old: Obj | None, new: Obj) -> None:
            for key in keys(change, old, new) if keys else [(namespace_of(new), name_of(new))]:
                self.queue.add(key)

        informer.handlers.append(changed)
        self._unfollow.append(lambda: informer.handlers.remove(changed))
        for obj in informer.values():
            changed("added", None, obj)
        return informer

    def owned_by(self, kind: str) -> Callable[[Change, Obj | None, Obj], list[tuple[str, str]]]:
        """For :meth:`follow`: the controlling owners of ``kind``, before and after."""

        def keys(_change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
            found = []
            for obj in (old, new):
                owner = controller_of(obj) if obj else None
                if obj and owner and owner.get("kind") == kind and (namespace_of(obj), owner["name"]) not in found:
                    found.append((namespace_of(obj), owner["name"]))
            return found

        return keys

    # -- life ----------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Begin to work."""
        self.setup()

    def stop(self) -> None:
        """Stop working, as when its Deployment is scaled to zero; :meth:`start` on a fresh instance begins again."""
        self.queue.stop()
        for unfollow in self._unfollow:
            unfollow()
        self._unfollow.clear()

    def _work(self, key: Hashable) -> None:
        try:
            self.reconcile(key)  # type: ignore[arg-type]
        except KubeError:
            self.queue.retry(key)
        else:
            self.queue.forget(key)
