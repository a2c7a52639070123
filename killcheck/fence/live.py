"""Fences on a live cluster: a canary that must stay Pending.

The canary is one pod that asks for more devices than may ever be launched. It is deleted at the first sign that
something launches for it, with the NodeClaim that was made for it, and in any case at its deadline. What may *not* live
here: consent, Leases and the rest of a run (:mod:`killcheck.fence.flight`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol

from msgspec import Struct

from killcheck.clock import Loop
from killcheck.fence.inside import Ask
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Forbidden, KubeError, NotFound
from killcheck.kube.informer import Change, Informer
from killcheck.kube.objects import Obj, dig, labels_of, name_of, uid_of
from killcheck.kube.resources import Resource
from killcheck.safety.changes import Undo
from killcheck.text.values import replace

__all__ = ["Canary", "CanaryRefused", "CanaryResult", "Ledger"]

#: How long Karpenter has to say for whom a NodeClaim is, and a NodeClaim to go once it is deleted, in seconds.
ATTRIBUTION_S = 10.0
LEAVING_S = 600.0


class CanaryRefused(Exception):
    """The canary was not sent out: it would launch something, or nobody can say that it would not."""

    def __init__(self, message: str, expected: Ask) -> None:
        self.expected = expected
        super().__init__(message)


class CanaryResult(Struct, frozen=True):
    """``held``: it stayed Pending, nothing launched. ``refused``: it was not even admitted, which holds as well.

    ``launched``: something launched for it; the evidence says what. ``unproven``: it could not be watched. ``left``
    says what could not be taken back, which makes the run dirty.
    """

    outcome: Literal["held", "refused", "launched", "unproven"]
    evidence: tuple[str, ...] = ()
    waited_s: float = 0.0
    left: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        """Whether the fence held."""
        return self.outcome in ("held", "refused")


class Ledger(Protocol):
    """What writes go through (:class:`killcheck.safety.journal.Journal`): noted before they happen, undone always."""

    def create(self, resource: Resource, obj: Obj, what: str = "") -> Obj:
        """Create an object, on record."""

    def change(self, what: str, undo: Undo) -> AbstractContextManager[object]:
        """Note how something is taken back."""

    def undo_all(self) -> tuple[list[str], list[str]]:
        """Put everything back; (what was undone, what could not be)."""


class Canary(Struct):
    """``devices`` of ``resource`` are asked for in ``namespace``, for at most ``deadline_s`` seconds.

    ``instances``, where given, answers how many machines the cloud bills: one more of them is a sign, too.
    """

    kube: Kube
    loop: Loop
    namespace: str
    devices: int
    resource: str = "nvidia.com/gpu"
    deadline_s: float = 120.0
    image: str = "registry.k8s.io/pause:3.10"
    instances: Callable[[], int] | None = None
    name: str = "killcheck-canary"

    def manifest(self) -> Obj:
        """The pod: it tolerates every taint, so that only the fence keeps it Pending."""
        count = {self.resource: str(self.devices)}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {"app.kubernetes.io/managed-by": "killcheck", "killcheck.dev/canary": "true"},
            },
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "enableServiceLinks": False,
                "automountServiceAccountToken": False,
                "tolerations": [{"operator": "Exists"}],
                "activeDeadlineSeconds": int(self.deadline_s) + 60,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65535,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "pause",
                        "image": self.image,
                        "resources": {
                            "limits": {"cpu": "10m", "memory": "16Mi", **count},
                            "requests": {"cpu": "10m", "memory": "16Mi", **count},
                        },
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    }
                ],
            },
        }

    def fly(self, expected: Ask, ledger: Ledger) -> CanaryResult:
        """Send it out and watch.

        Raises CanaryRefused where ``expected`` says that it would launch, or cannot say that it would not; KubeError
        where the cluster could not be asked before the pod was made.
        """
        self.admit(expected)
        billed = self.instances() if self.instances else 0
        left: list[str] = []
        with self._watching() as watch:
            try:
                result = self._watch(ledger, billed, watch)
                if result.outcome == "launched":
                    left += self._call_back(ledger, watch)
                    if not watch.signs.get(watch.uid):  # whatever it was, nobody says that it was for the canary
                        result = replace(
                            result,
                            outcome="unproven",
                            evidence=(
                                *result.evidence,
                                "it may be for another pod: try again while nothing else is scaling",
                            ),
                        )
            finally:
                try:
                    self._adopt(ledger, watch)
                finally:
                    left += ledger.undo_all()[1]
        return replace(result, left=tuple(left))

    def admit(self, expected: Ask) -> None:
        """Raise CanaryRefused where it may not be sent out."""
        if expected.outcome == "launches":
            raise CanaryRefused(f"the evaluation says that it would launch: {expected.by}", expected)
        if expected.outcome == "unproven":
            said = "; ".join([expected.by, *expected.reasons])
            raise CanaryRefused(f"whether it would launch something is unproven: {said}", expected)

    # -- inside --------------------------------------------------------------------------------------------
    def _watch(self, ledger: Ledger, billed: int, watch: _Watch) -> CanaryResult:
        try:
            pod = ledger.create(r.PODS, self.manifest(), f"canary that asks for {self.devices} x {self.resource}")
        except Forbidden as error:
            return CanaryResult("refused", (error.message,))
        watch.uid = uid_of(pod)
        began = self.loop.monotonic()
        self.loop.run_until(lambda: bool(self._signs_of(pod, billed, watch)) or watch.broken, self.deadline_s)
        return self._result(pod, billed, watch, self.loop.monotonic() - began)

    def _result(self, pod: Obj, billed: int, watch: _Watch, waited_s: float) -> CanaryResult:
        signs = self._signs_of(pod, billed, watch)
        if signs:
            return CanaryResult("launched", tuple(signs), waited_s)
        if watch.broken:
            return CanaryResult("unproven", (f"the watch broke: {watch.broken_by}",), waited_s)
        if uid_of(pod) not in watch.unschedulable:
            return CanaryResult("unproven", ("the scheduler never said that the pod fits nowhere",), waited_s)
        return CanaryResult("held", (f"Pending for {waited_s:.0f} s, no NodeClaim, no node",), waited_s)

    def _signs_of(self, pod: Obj, billed: int, watch: _Watch) -> list[str]:
        found = (
            list(watch.signs.get(uid_of(pod), ())) + [f"NodeClaim/{name} appeared" for name in watch.claims] + watch.new
        )
        if self.instances and self.instances() > billed:
            found.append("the cloud bills one machine more")
        return found

    def _call_back(self, ledger: Ledger, watch: _Watch) -> list[str]:
        """Delete the pod at once, then what was made for it; says which NodeClaims may be its and are left alone."""
        try:
            self.kube.delete(r.PODS, self.name, self.namespace, uid=watch.uid)
        except NotFound:
            pass
        except KubeError:
            pass  # undoing insists on it
        # Karpenter says whom a NodeClaim is for in an event that comes after the NodeClaim.
        self.loop.run_until(lambda: set(watch.claims) <= set(watch.nominees), ATTRIBUTION_S)
        self._adopt(ledger, watch)
        for name in watch.mine():
            try:
                self.kube.delete(r.NODECLAIMS, name, uid=watch.claims.get(name, ""))
            except NotFound:
                continue
            except KubeError:
                continue  # undoing insists on it
        self.loop.run_until(lambda: not set(watch.mine()) & watch.standing, LEAVING_S)
        asked = {name for name, asked in watch.asked.items() if asked == str(self.devices)}
        return [
            f"NodeClaim/{name} asks for just what the canary did, and nobody says for which pod: look at it"
            for name in watch.claims
            if name in asked and name not in watch.nominees and name in watch.standing
        ]

    def _adopt(self, ledger: Ledger, watch: _Watch) -> None:
        """Put the NodeClaims that were made for the canary on record: they launch whether it is there or not."""
        for name in watch.mine():
            if name in watch.adopted:
                continue
            watch.adopted.add(name)
            if not watch.claims.get(name):
                found = self.kube.find(r.NODECLAIMS, name)
                if found is None:
                    continue
                watch.claims[name] = uid_of(found)
            undo = Undo(
                "delete",
                r.NODECLAIMS.path(None, name),
                uid=watch.claims[name],
                manual=f"kubectl delete nodeclaim {name}",
            )
            with ledger.change(f"NodeClaim {name}, which Karpenter made for the canary", undo):
                pass

    @contextmanager
    def _watching(self) -> Iterator[_Watch]:
        watch = _Watch(self)
        try:
            yield watch
        finally:
            watch.stop()


class _Watch:
    """The canary's pod and events, and NodeClaims and nodes that appear."""

    def __init__(self, canary: Canary) -> None:
        self.resource = canary.resource
        self.signs: dict[str, list[str]] = {}
        self.unschedulable: set[str] = set()
        self.new: list[str] = []
        #: NodeClaims that appeared: uid, and how many devices they ask for, by name; those that are still there.
        self.claims: dict[str, str] = {}
        self.asked: dict[str, str] = {}
        self.standing: set[str] = set()
        #: The uid of the pod that Karpenter says a NodeClaim is for, by its name; and the canary's own uid.
        self.nominees: dict[str, str] = {}
        self.uid = ""
        self.adopted: set[str] = set()
        self.broken = False
        self.broken_by = ""
        self._ready = False
        kube, loop, namespace = canary.kube, canary.loop, canary.namespace
        self._informers = [
            Informer(
                kube,
                loop,
                r.PODS,
                namespace=namespace,
                fields=f"metadata.name={canary.name}",
                on_change=self._pod,
                on_broken=self._broke,
            ),
            Informer(
                kube,
                loop,
                r.EVENTS,
                namespace=namespace,
                fields=f"involvedObject.name={canary.name}",
                on_change=self._event,
                on_broken=self._broke,
            ),
            Informer(kube, loop, r.NODECLAIMS, optional=True, on_change=self._claim, on_broken=self._broke),
            Informer(kube, loop, r.NODES, on_change=self._node, on_broken=self._broke),
        ]
        for informer in self._informers:
            informer.start()
        self._ready = True

    def stop(self) -> None:
        """Close the watches."""
        for informer in self._informers:
            informer.stop()

    def mine(self) -> list[str]:
        """The NodeClaims that Karpenter made for the canary."""
        return [name for name, uid in self.nominees.items() if uid == self.uid and uid]

    def _broke(self, error: KubeError | None) -> None:
        if error is not None:
            self.broken, self.broken_by = True, str(error)

    def _sign(self, uid: str, text: str) -> None:
        if text not in self.signs.setdefault(uid, []):
            self.signs[uid].append(text)

    def _pod(self, change: Change, _old: Obj | None, new: Obj) -> None:
        if change == "deleted":
            return
        if dig(new, "spec", "nodeName"):
            self._sign(uid_of(new), f"it was scheduled to {new['spec']['nodeName']}")
        for entry in dig(new, "status", "conditions", default=()):
            if entry.get("type") == "PodScheduled" and entry.get("reason") == "Unschedulable":
                self.unschedulable.add(uid_of(new))

    def _event(self, _change: Change, _old: Obj | None, new: Obj) -> None:
        uid, reason = str(dig(new, "involvedObject", "uid", default="")), new.get("reason")
        message = str(new.get("message", ""))
        if reason == "TriggeredScaleUp":
            self._sign(uid, message)
        if reason == "Nominated" and "nodeclaim/" in message:
            self._sign(uid, message)
            self.nominees[message.rpartition("nodeclaim/")[2].split(",")[0].strip()] = uid

    def _claim(self, change: Change, _old: Obj | None, new: Obj) -> None:
        if change == "deleted":
            self.standing.discard(name_of(new))
        elif change == "added" and self._ready and "karpenter.sh/nodepool" in labels_of(new):
            self.claims[name_of(new)] = uid_of(new)
            self.asked[name_of(new)] = str(dig(new, "spec", "resources", "requests", self.resource, default=""))
            self.standing.add(name_of(new))

    def _node(self, change: Change, _old: Obj | None, new: Obj) -> None:
        if change == "added" and self._ready:
            self.new.append(f"Node/{name_of(new)} appeared")
