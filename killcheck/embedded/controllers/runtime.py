"""What every controller of the embedded cluster is made of: informers, indexes, a work queue, events.

Controllers are clients of the API like any other: nothing here knows of the store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from killcheck.clock import Loop, Timer
from killcheck.embedded.controllers.events import EventRecorder
from killcheck.entries import Assumption, Doubt
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.informer import Change, Informer
from killcheck.kube.objects import Obj, controller_of, key_of, name_of, namespace_of
from killcheck.kube.releases import DEFAULT, Release
from killcheck.kube.resources import Resource

__all__ = ["MANY", "Component", "Controller", "EventRecorder", "Index", "Informers", "Key", "WorkQueue"]

#: (namespace, name).
Key = tuple[str, str]
#: From so many objects on, a pass over all of them waits until everything of one moment has happened.
MANY = 50
#: After so many passes over one key at one moment somebody writes it as often as a controller does: the passes that
#: follow are so many seconds apart. Really each round takes time; here a drill would never come to its end.
FOUGHT_OVER, APART_S = 5000, 1.0
#: What an index files an object under: any number of values.
Terms = Callable[[Obj], list[str]]


class Index:
    """The objects of an informer by something other than their name (an owner's uid, a node).

    Kept current by the informer itself, before any handler of a controller that asked for it later is called.
    """

    def __init__(self, informer: Informer, terms: Terms) -> None:
        self.terms = terms
        self._by: dict[str, dict[Key, Obj]] = {}
        informer.handlers.insert(0, self._changed)
        for obj in informer.values():
            self._changed("added", None, obj)

    def get(self, term: str) -> list[Obj]:
        """Every object filed under ``term``, in the order in which they came."""
        return list(self._by.get(term, {}).values())

    def count(self, term: str) -> int:
        """How many there are."""
        return len(self._by.get(term, ()))

    def _changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        before = self.terms(old) if old is not None else []
        after = self.terms(new) if change != "deleted" else []
        key = key_of(new)
        for term in before:
            if term not in after:
                rows = self._by.get(term, {})
                rows.pop(key, None)
                if not rows:
                    self._by.pop(term, None)
        for term in after:
            self._by.setdefault(term, {})[key] = new


class Informers:
    """One shared informer a resource, as client-go's factories have it, and the indexes over them."""

    def __init__(self, kube: Kube, loop: Loop, release: Release = DEFAULT) -> None:
        self.kube = kube
        self.loop = loop
        #: The Kubernetes whose controllers these are.
        self.release = release
        self._by_resource: dict[Resource, Informer] = {}
        self._indexes: dict[tuple[Resource, str], Index] = {}

    def of(self, resource: Resource, *, optional: bool = False) -> Informer:
        """The informer, started at first use."""
        informer = self._by_resource.get(resource)
        if informer is None:
            informer = Informer(self.kube, self.loop, resource, optional=optional)
            self._by_resource[resource] = informer
            informer.start()
        return informer

    def index(self, resource: Resource, name: str, terms: Terms) -> Index:
        """The index ``name`` over a resource; ``terms`` counts only where there is none yet."""
        index = self._indexes.get((resource, name))
        if index is None:
            index = self._indexes[resource, name] = Index(self.of(resource), terms)
        return index

    def by_controller(self, resource: Resource) -> Index:
        """Objects by the uid of the controller that owns them; ``NAMESPACE/`` holds those that nobody owns."""

        def terms(obj: Obj) -> list[str]:
            owner = controller_of(obj)
            return [owner["uid"]] if owner else [f"{namespace_of(obj)}/"]

        return self.index(resource, "controller", terms)

    def drop(self, resource: Resource) -> None:
        """Close the watch of a resource that is no longer served."""
        informer = self._by_resource.pop(resource, None)
        if informer is not None:
            informer.stop()

    def stop(self) -> None:
        """Close every watch."""
        for informer in self._by_resource.values():
            informer.stop()
        self._by_resource.clear()
        self._indexes.clear()


class WorkQueue:
    """Keys to reconcile, as client-go's rate-limiting queue: each at most once at a time, some of them later.

    ``base_s`` and ``max_s`` bound the back-off after failures (client-go's defaults are 5 ms and 1000 s). A key that is
    due later stays due although it is reconciled earlier for another reason.
    """

    def __init__(
        self,
        loop: Loop,
        work: Callable[[Hashable], None],
        *,
        base_s: float = 0.005,
        max_s: float = 1000.0,
    ) -> None:
        self.loop = loop
        self.work = work
        self.base_s = base_s
        self.max_s = max_s
        self.stopped = False
        self._ready: dict[Hashable, Timer] = {}
        self._later: dict[Hashable, Timer] = {}
        self._failures: dict[Hashable, int] = {}
        self._moment = -1.0
        #: How often each key was reconciled at this moment; when one that is fought over was last.
        self._passes: dict[Hashable, int] = {}
        self._fought_over: dict[Hashable, float] = {}

    def add(self, key: Hashable, after_s: float = 0.0, *, together: bool = False) -> None:
        """Reconcile ``key`` now, or in ``after_s`` seconds unless it is already due before that.

        ``together``: not before all that is due now has happened, so that a thousand events of one moment are one pass.
        """
        if self.stopped:
            return
        if after_s <= 0 and not together:
            if key not in self._ready:
                self._ready[key] = self.loop.call_soon(self._run, key)
            return
        when = self.loop.monotonic() + after_s
        pending = self._later.get(key)
        if pending is not None:
            if pending.when <= when:
                return
            pending.cancel()
        self._later[key] = self.loop.call_later(after_s, self._fall_due, key)

    def cancel(self, key: Hashable) -> None:
        """What was due later is no longer."""
        pending = self._later.pop(key, None)
        if pending is not None:
            pending.cancel()

    def backoff(self, key: Hashable) -> float:
        """Count a failure of ``key`` and answer how long to wait before the next try, in seconds."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        return float(min(self.max_s, self.base_s * 2.0 ** min(count, 64)))

    def retry(self, key: Hashable) -> None:
        """Reconcile ``key`` again after its back-off."""
        self.add(key, self.backoff(key))

    def forget(self, key: Hashable) -> None:
        """``key`` succeeded: its back-off starts anew."""
        self._failures.pop(key, None)

    def stop(self) -> None:
        """Drop everything that is due."""
        self.stopped = True
        for timer in (*self._ready.values(), *self._later.values()):
            timer.cancel()
        self._ready.clear()
        self._later.clear()

    def _fall_due(self, key: Hashable) -> None:
        # Not run at once: what has been written at this moment reaches the informers first.
        self._later.pop(key, None)
        self.add(key)

    def _run(self, key: Hashable) -> None:
        self._ready.pop(key, None)
        if self.stopped:
            return
        wait_s = self._apart_s(key)
        if wait_s > 0:
            self.add(key, wait_s)
        else:
            self.work(key)

    def _apart_s(self, key: Hashable) -> float:
        """How long a pass over a key has to wait: some are made without an end, at one moment."""
        now = self.loop.monotonic()
        if now != self._moment:
            self._moment = now
            self._passes.clear()
        made = self._passes[key] = self._passes.get(key, 0) + 1
        if made <= FOUGHT_OVER and key not in self._fought_over:
            return 0.0
        wait_s = self._fought_over.setdefault(key, now) + APART_S - now
        if wait_s > APART_S / 1000:  # a moment, and not what rounding leaves
            return wait_s
        self._fought_over[key] = now
        return 0.0


@dataclass(eq=False, repr=False)
class Component(ABC):
    """Something that runs beside the API server, and sees what happens there, until it is stopped.

    Subclasses set ``name`` and subscribe in :meth:`setup`. ``kube`` should carry the component's own identity.
    ``assumed``: what its work rests on; ``unproven``: what it does not know of objects. The cluster tells both.
    """

    kube: Kube
    loop: Loop
    informers: Informers
    events: EventRecorder = field(init=False)
    assumed: list[Assumption] = field(init=False, default_factory=list)
    unproven: list[Doubt] = field(init=False, default_factory=list)

    #: What kube-controller-manager's ``--controllers`` calls it.
    name: ClassVar[str] = "component"
    #: How it signs its events, where that is not ``name``.
    component: ClassVar[str] = ""
    #: What of the cluster it is given besides the API, by the names of its fields: ``cloud``, ``nodes``, ``git``...
    takes: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self.events = EventRecorder(self.kube, self.loop, self.component or self.name)
        self._unfollow: list[Callable[[], None]] = []

    @abstractmethod
    def setup(self) -> None:
        """Subscribe to informers; called once by :meth:`start`."""

    def listen(
        self,
        resource: Resource,
        changed: Callable[[Change, Obj | None, Obj], None],
        *,
        optional: bool = False,
    ) -> Informer:
        """Call ``changed`` for every object that is there, and at every change, until :meth:`stop`."""
        informer = self.informers.of(resource, optional=optional)
        informer.handlers.append(changed)
        self._unfollow.append(lambda: informer.handlers.remove(changed))
        for obj in informer.values():
            changed("added", None, obj)
        return informer

    def rests_on(self, said: str, about: str) -> None:
        """Note once what its work rests on, and of what that is said."""
        if said not in self.assumed:
            self.assumed.append(Assumption(said, about))

    def doubts(self) -> Sequence[Doubt]:
        """What it does not know of objects as they are now."""
        return self.unproven

    def start(self) -> None:
        """Begin to work."""
        self.setup()

    def stop(self) -> None:
        """Stop working, as when its Deployment is scaled to zero; :meth:`start` on a fresh instance begins again."""
        for unfollow in self._unfollow:
            unfollow()
        self._unfollow.clear()


@dataclass(eq=False, repr=False)
class Controller(Component):
    """A controller: :meth:`follow` what concerns it, ``reconcile(key)`` what changed, key = (namespace, name)."""

    queue: WorkQueue = field(init=False)

    #: First and longest pause after a failure, seconds.
    backoff_s: ClassVar[tuple[float, float]] = (0.005, 1000.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        base_s, max_s = self.backoff_s
        self.queue = WorkQueue(self.loop, self._work, base_s=base_s, max_s=max_s)

    # -- for subclasses ------------------------------------------------------------------------------------
    @abstractmethod
    def reconcile(self, key: Key) -> None:
        """Bring one object to where it should be. Raise ApiError to be retried with back-off."""

    def follow(
        self,
        resource: Resource,
        keys: Callable[[Change, Obj | None, Obj], list[Key]] | None = None,
        *,
        optional: bool = False,
        together: Callable[[Key], bool] = lambda _: False,
    ) -> Informer:
        """Reconcile at every change of ``resource``; ``keys`` maps a change to keys (default: the object's own).

        ``together``: whether a change waits for everything else that is due at its moment, as where a pass over many
        objects would follow each of them.
        """

        def changed(change: Change, old: Obj | None, new: Obj) -> None:
            for key in keys(change, old, new) if keys else [(namespace_of(new), name_of(new))]:
                self.queue.add(key, together=together(key))

        return self.listen(resource, changed, optional=optional)

    def owned_by(self, kind: str) -> Callable[[Change, Obj | None, Obj], list[Key]]:
        """For :meth:`follow`: the controlling owners of ``kind``, before and after."""

        def keys(_change: Change, old: Obj | None, new: Obj) -> list[Key]:
            found = []
            for obj in (old, new):
                owner = controller_of(obj) if obj else None
                if obj and owner and owner.get("kind") == kind and (namespace_of(obj), owner["name"]) not in found:
                    found.append((namespace_of(obj), owner["name"]))
            return found

        return keys

    # -- life ----------------------------------------------------------------------------------------------
    def stop(self) -> None:
        """Drop what is due as well."""
        self.queue.stop()
        super().stop()

    def _work(self, key: Hashable) -> None:
        try:
            self.reconcile(key)  # type: ignore[arg-type]
        except KubeError:
            self.queue.retry(key)
        else:
            self.queue.forget(key)
