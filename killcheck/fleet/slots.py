"""How many drills of a fleet are under way at once: a slot each, and never more, whoever starts them.

A slot is a locked file on one machine, a Lease where pods drill. One whose holder died is not free: what that drill
turned off may be off still. Whoever wants it puts that back first, as ``killcheck restore`` does; where that cannot be
done the slot stays taken.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from killcheck.clock import Loop
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Conflict
from killcheck.kube.objects import Obj
from killcheck.safety.keys import key_path
from killcheck.safety.lease import Busy, Claim, holder_of, lapsed
from killcheck.text.files import own

__all__ = ["FileSlots", "LeaseSlots", "Slot", "Slots"]

#: Puts back what the shard of that key left; whether nothing of it is left, and nobody drills it.
Settle = Callable[[str], bool]


class Slot(Protocol):
    """One that is held. ``inherited``: descriptors that its drill takes over, so that it is held while that lives."""

    @property
    def inherited(self) -> tuple[int, ...]:
        """See above."""

    def release(self, *, settled: bool) -> None:
        """Let go of it; where its drill may have left something it stays taken."""


class Slots(Protocol):
    """The slots of a fleet. ``stuck``: the keys of dead shards that hold one, and could not be put back."""

    stuck: set[str]

    def take(self, key: str) -> Slot | None:
        """One for the shard of that key; None where all are taken. Raises KubeError, OSError, KeyProblem."""


class _LockedFile(Struct):
    descriptor: int

    @property
    def inherited(self) -> tuple[int, ...]:
        return (self.descriptor,)

    def release(self, *, settled: bool) -> None:
        if settled:
            os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)


class FileSlots(Struct):
    """Files of this user's on this machine, outside of every checkout, by the fleet's name."""

    fleet: str
    count: int
    settle: Settle
    stuck: set[str] = field(default_factory=set)

    def take(self, key: str) -> Slot | None:
        """The first that is free, one that a dead drill held last."""
        folder = key_path().parent / "fleets" / self.fleet
        own(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        self.stuck.clear()
        held = [one for one in (self._locked(folder, number) for number in range(self.count)) if one is not None]
        held.sort(key=lambda one: one[1] not in ("", key))
        taken = next((one for one in held if self._free(one[1], key)), None)
        for one in held:
            if one is not taken:
                os.close(one[0])
        if taken is None:
            return None
        os.ftruncate(taken[0], 0)
        os.pwrite(taken[0], key.encode(), 0)
        return _LockedFile(taken[0])

    def _locked(self, folder: Path, number: int) -> tuple[int, str] | None:
        """A slot that no living process holds, and the key that it was held for last; empty: it was let go."""
        file = own(folder / f"slot-{number}")
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor, os.pread(descriptor, 500, 0).decode("utf-8", "replace")

    def _free(self, last: str, key: str) -> bool:
        if last in ("", key) or self.settle(last):  # its own drill puts back first what the dead one left
            return True
        self.stuck.add(last)
        return False


class _SlotClaim(Claim):
    """A Lease that is no run's: what puts back the runs of the dead leaves it alone."""

    def _lease(self, namespace: str, name: str, what: str) -> Obj:
        made = super()._lease(namespace, name, what)
        made["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "killcheck"}
        return made


class _Leased(Struct):
    claim: Claim
    inherited: tuple[int, ...] = ()

    def release(self, *, settled: bool) -> None:
        if settled:
            self.claim.release()
        else:
            self.claim.abandon()


class LeaseSlots(Struct):
    """Leases in a namespace of the cluster that the pods are in; ``loop`` renews them while it runs."""

    fleet: str
    count: int
    settle: Settle
    kube: Kube
    loop: Loop
    namespace: str
    stuck: set[str] = field(default_factory=set)

    def take(self, key: str) -> Slot | None:
        """The first that is free, one that a dead drill held last."""
        self.stuck.clear()
        names = [f"killcheck-fleet-{self.fleet}-{number}" for number in range(self.count)]
        found = {name: self.kube.find(r.LEASES, name, self.namespace) for name in names}
        for name, lease in sorted(found.items(), key=lambda one: one[1] is not None):
            if lease is not None and not self._free(lease, key):
                continue
            # Of this attempt alone: an earlier one of the same shard may not be dead after all.
            holder = f"{key}/{secrets.token_hex(4)}"
            claim = _SlotClaim(self.kube, self.loop, holder, [(self.namespace, name, f"a slot of fleet {self.fleet}")])
            try:
                claim.acquire()
            except (Busy, Conflict):
                continue  # somebody else was faster
            return _Leased(claim)
        return None

    def _free(self, lease: Obj, key: str) -> bool:
        if not lapsed(lease, self.loop.now()):
            return False
        last = holder_of(lease).partition("/")[0]
        if last in ("", key) or self.settle(last):
            return True
        self.stuck.add(last)
        return False
