"""One run at a time per target: a Lease in the target's namespace that its holder keeps renewing.

A Lease that was not renewed for its whole duration has lapsed: its run is an orphan, and what that run left is put
back before anything new is changed (:mod:`killcheck.safety.orphans`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from killcheck.clock import Loop, Timer
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Conflict, KubeError, NotFound
from killcheck.kube.objects import Obj, copy, dig, format_time, labels_of, name_of, namespace_of, parse_time
from killcheck.kube.permissions import Permission
from killcheck.safety.changes import LABEL
from killcheck.safety.journal import JournalError
from killcheck.safety.undo import retry
from killcheck.spec.killpath import KillPath, Layer

__all__ = [
    "LEASE_LABEL",
    "Busy",
    "Claim",
    "holder_of",
    "lapsed",
    "left_s",
    "permissions",
    "run_of",
    "take_over",
    "wanted",
]

#: Label of the Leases that are killcheck's.
LEASE_LABEL = "killcheck.dev/lease"
#: Seconds without renewal after which a run counts as dead, and between two renewals.
DURATION_S = 60
RENEW_S = 15.0
#: What a run's Leases are held as while somebody puts back what it left.
TAKEN = "restore-"
#: No Lease of ours lasts longer, in seconds.
LONGEST_S = 3600


class Busy(Exception):
    """Another run holds a target; one sentence for a person. Nothing was changed."""


def wanted(kill_path: KillPath, layer: Layer, home: str) -> list[tuple[str, str, str]]:
    """(namespace, Lease name, what it stands for) of each target of a layer; those without a namespace are in ``home``.

    Sorted, so that two runs that want several take them in the same order.
    """
    found = set()
    for target in kill_path.covered_by(layer):
        namespace = target.namespace or home
        what = f"{target.kind or 'target'} {namespace}/{target.object or target.selector or target.name}"
        found.add((namespace, "killcheck-" + hashlib.sha256(what.encode()).hexdigest()[:12], what))
    return sorted(found)


def permissions(namespaces: Iterable[str]) -> list[Permission]:
    """What holding Leases in these namespaces needs."""
    return [
        Permission(verb, "coordination.k8s.io", "leases", namespace=namespace)
        for namespace in sorted(set(namespaces))
        for verb in ("get", "list", "create", "update", "delete")
    ]


def holder_of(lease: Obj) -> str:
    """Who holds a Lease: a run, or whoever puts back what it left."""
    return str(dig(lease, "spec", "holderIdentity", default=""))


def run_of(lease: Obj) -> str:
    """The run that a Lease is of, also once somebody who puts back what it left has taken it over, and died of it."""
    return holder_of(lease).removeprefix(TAKEN)


def lapsed(lease: Obj, now: datetime) -> bool:
    """Whether nobody has renewed a Lease for as long as it lasts; one that does not say when nobody holds.

    Anybody may have written it: it lasts for :data:`LONGEST_S` at most, and nothing of the future holds it for longer.
    """
    return left_s(lease, now) < 0


def left_s(lease: Obj, now: datetime) -> float:
    """Seconds until a Lease that nobody renews has lapsed; negative: it has."""
    told = dig(lease, "spec", "leaseDurationSeconds", default=DURATION_S)
    seconds = min(max(told, 0), LONGEST_S) if isinstance(told, int) else DURATION_S
    try:
        renewed = parse_time(str(dig(lease, "spec", "renewTime") or dig(lease, "metadata", "creationTimestamp")))
    except (ValueError, OverflowError):
        return -1.0
    return seconds - abs(now - renewed).total_seconds()


class Claim:
    """The Leases of one run, renewed on its loop until they are released."""

    def __init__(self, kube: Kube, loop: Loop, run: str, leases: Sequence[tuple[str, str, str]]) -> None:
        self.kube = kube
        self.loop = loop
        self.run = run
        self.leases = list(leases)
        self.lost = ""
        self._held: list[tuple[str, str]] = []
        self._taken_from: Obj | None = None
        self._timer: Timer | None = None
        self._renewed = loop.now()

    def acquire(self) -> None:
        """Take every Lease, or none. Raises Busy where another run holds one, KubeError."""
        try:
            for namespace, name, what in self.leases:
                self._held.append((namespace, name))  # before it is: an interrupt, or a lost answer, may come between
                retry(self.loop, lambda ns=namespace, n=name, w=what: self._take(ns, n, w))  # type: ignore[misc]
        except BaseException:
            self.release()
            raise
        self._renewed = self.loop.now()
        self._timer = self.loop.call_later(RENEW_S, self._renew)

    def check(self) -> None:
        """Raise JournalError where the Leases are not ours any more: nothing more may be changed, nothing concluded."""
        if not self.lost and self._held and self.loop.now() > self._renewed + timedelta(seconds=DURATION_S):
            self.lost = f"the Lease could not be renewed for {DURATION_S} s"
        if self.lost:
            raise JournalError(self.lost)

    def abandon(self) -> None:
        """Renew no more: something is left, and whoever comes next finds an orphan once the Leases have lapsed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release(self) -> None:
        """Delete what is ours; idempotent. What cannot be deleted lapses."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, []
        for namespace, name in held:
            try:
                retry(self.loop, lambda ns=namespace, n=name: self._drop(ns, n))  # type: ignore[misc]
            except KubeError:
                continue  # the next start finds it lapsed

    def give_back(self) -> None:
        """Leave a Lease that was taken over as it was found: its run is dead still, and what it left still there."""
        found, self._held = self._taken_from, []
        if found is None:
            return
        with suppress(KubeError):  # it lapses, and says then what it said before

            def once() -> None:
                now = copy(self.kube.get(r.LEASES, name_of(found), namespace_of(found)))
                if holder_of(now) == self.run:
                    now["metadata"]["labels"], now["spec"] = labels_of(found), found["spec"]
                    self.kube.replace(r.LEASES, now)

            retry(self.loop, once)

    def _take(self, namespace: str, name: str, what: str) -> None:
        """Raises Busy, and Conflict where its holder let it go while it was looked at: it can be had now."""
        try:
            self.kube.create(r.LEASES, self._lease(namespace, name, what))
        except Conflict as error:
            try:
                self._take_from(self.kube.get(r.LEASES, name, namespace), what)
            except NotFound:
                raise error from None

    def _take_from(self, found: Obj, what: str) -> None:
        if holder_of(found) == self.run:
            return
        if not lapsed(found, self.loop.now()):
            raise Busy(
                f"run {holder_of(found)} is drilling {what} (Lease {namespace_of(found)}/{name_of(found)}, renewed "
                f"{dig(found, 'spec', 'renewTime')}): wait for it, or end it and say killcheck restore --run "
                f"{run_of(found)}"
            )
        self.kube.replace(r.LEASES, self._taken(found))

    def _lease(self, namespace: str, name: str, what: str) -> Obj:
        now = format_time(self.loop.now(), micro=True)
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {LABEL: self.run, LEASE_LABEL: "true"},
                "annotations": {"killcheck.dev/target": what},
            },
            "spec": {
                "holderIdentity": self.run,
                "leaseDurationSeconds": DURATION_S,
                "acquireTime": now,
                "renewTime": now,
            },
        }

    def _taken(self, found: Obj) -> Obj:
        mine = copy(found)
        fresh = self._lease(namespace_of(found), name_of(found), "")
        mine["metadata"]["labels"] = {**labels_of(found), **fresh["metadata"]["labels"]}
        mine["spec"] = {**fresh["spec"], "leaseTransitions": int(dig(found, "spec", "leaseTransitions", default=0)) + 1}
        return mine

    def _renew(self) -> None:
        self._timer = self.loop.call_later(RENEW_S, self._renew)
        started = self.loop.now()
        try:
            for namespace, name in self._held:
                self._renew_one(namespace, name)
        except (NotFound, JournalError):
            self.lost = f"the Lease of run {self.run} was taken away: somebody else is putting back what it changed"
            return
        except KubeError:
            return  # tried again in a moment; `check` knows how old the last success is
        self._renewed = started

    def _renew_one(self, namespace: str, name: str) -> None:
        found = copy(self.kube.get(r.LEASES, name, namespace))
        if holder_of(found) != self.run:
            raise JournalError("taken")
        found["spec"]["renewTime"] = format_time(self.loop.now(), micro=True)
        self.kube.replace(r.LEASES, found)

    def _drop(self, namespace: str, name: str) -> None:
        found = self.kube.find(r.LEASES, name, namespace)
        if found is not None and holder_of(found) == self.run:
            try:
                self.kube.delete(
                    r.LEASES,
                    name,
                    namespace,
                    uid=found["metadata"]["uid"],
                    resource_version=found["metadata"]["resourceVersion"],
                )
            except NotFound:
                return


def take_over(kube: Kube, loop: Loop, run: str, lease: Obj) -> Claim:
    """Take the Lease of the dead ``run``, so that a process that is not dead after all finds out.

    Raises Conflict where it moved meanwhile: its holder is alive, or somebody else is faster.
    """
    claim = Claim(kube, loop, TAKEN + run, [])
    kube.replace(r.LEASES, claim._taken(lease))
    claim._held.append((namespace_of(lease), name_of(lease)))
    claim._taken_from = lease
    return claim
