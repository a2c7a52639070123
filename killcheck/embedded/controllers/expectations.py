"""What a controller has asked for and not yet seen: until its watch shows it, nothing more is created or deleted.

Without it a controller whose watch lags behind its writes, as on any real API server, would make pods twice.
Source: ControllerExpectations in pkg/controller/controller_utils.go of Kubernetes v1.36.
"""

from __future__ import annotations

from msgspec import Struct, field

from killcheck.clock import Loop
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, controller_of, namespace_of, uid_of

__all__ = ["Expectations"]

#: What was not seen for so long will not be: the controller looks again (ExpectationsTimeout), seconds.
TIMEOUT_S = 300.0

Key = tuple[str, str]


class _Expected(Struct):
    since: float
    adds: int = 0
    deletes: set[str] = field(default_factory=set)


class Expectations:
    """Of one controller, whose objects are of ``kind``; keys are (namespace, name) of these."""

    def __init__(self, loop: Loop, kind: str) -> None:
        self.loop = loop
        self.kind = kind
        self._expected: dict[Key, _Expected] = {}

    def creation(self, key: Key) -> None:
        """A pod is about to be created."""
        self._of(key).adds += 1

    def deletion(self, key: Key, uid: str) -> None:
        """A pod is about to be deleted."""
        self._of(key).deletes.add(uid)

    def created(self, key: Key) -> None:
        """A pod was seen, or will not come: its creation failed."""
        found = self._expected.get(key)
        if found is not None:
            found.adds = max(0, found.adds - 1)
            self._settle(key, found)

    def deleted(self, key: Key, uid: str) -> None:
        """A pod was seen to go, or will not go: its deletion failed."""
        found = self._expected.get(key)
        if found is not None:
            found.deletes.discard(uid)
            self._settle(key, found)

    def satisfied(self, key: Key) -> bool:
        """Whether everything was seen; what has been waited for too long counts as seen."""
        found = self._expected.get(key)
        if found is not None and self.loop.monotonic() - found.since >= TIMEOUT_S:
            del self._expected[key]
            return True
        return found is None

    def forget(self, key: Key) -> None:
        """The object has gone."""
        self._expected.pop(key, None)

    def saw(self, change: Change, old: Obj | None, new: Obj) -> None:
        """An event of the controller's own watch of pods."""
        owner = controller_of(new)
        if owner is None or owner.get("kind") != self.kind:
            return
        key = (namespace_of(new), str(owner["name"]))
        if change == "added":
            self.created(key)
        going = change == "deleted" or "deletionTimestamp" in new["metadata"]
        if going and (change != "modified" or old is None or "deletionTimestamp" not in old["metadata"]):
            self.deleted(key, uid_of(new))

    def _of(self, key: Key) -> _Expected:
        found = self._expected.get(key)
        if found is None:
            found = self._expected[key] = _Expected(self.loop.monotonic())
        return found

    def _settle(self, key: Key, found: _Expected) -> None:
        if not found.adds and not found.deletes:
            self._expected.pop(key, None)
