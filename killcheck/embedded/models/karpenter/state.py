"""What Karpenter's controllers share: their view of the cluster and the cloud, events without repetition, writes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import ClassVar

from killcheck.clock import Loop
from killcheck.embedded.controllers.runtime import Controller, EventRecorder, Informers
from killcheck.embedded.models.cloud import Cloud
from killcheck.embedded.models.cloud_errors import CloudError
from killcheck.embedded.models.karpenter import names as n
from killcheck.embedded.models.karpenter.pods import (
    do_not_disrupt_until,
    is_active,
    is_provisionable,
    is_reschedulable,
)
from killcheck.embedded.models.karpenter.pool import Pool, PoolError, read_pool
from killcheck.embedded.models.karpenter.shortage import Shortage
from killcheck.instances.amounts import amounts, total
from killcheck.instances.launchable import Launchable, launchable
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, dig, format_time, labels_of, name_of, namespace_of, uid_of
from killcheck.kube.resources import Resource
from killcheck.kube.selectors import from_match_labels

__all__ = ["Events", "Part", "State"]

#: Karpenter does not repeat an event within this time unless the event says otherwise.
DEDUPE_S = 120.0
#: A type without capacity is not asked for again for this long (karpenter-provider-aws pkg/cache).
UNAVAILABLE_S = 180.0


class Events:
    """Karpenter's recorder: one event a (reason, values) within its time-out."""

    def __init__(self, kube: Kube, loop: Loop) -> None:
        self.loop = loop
        self.recorder = EventRecorder(kube, loop, "karpenter")
        self._until: dict[tuple[str, ...], datetime] = {}

    def publish(
        self,
        about: Obj,
        kind: str,
        reason: str,
        message: str,
        *values: str,
        timeout_s: float = DEDUPE_S,
    ) -> None:
        """``values`` are what tells one event from another besides its reason (default: the object's uid)."""
        key = (reason, *(values or (uid_of(about),)))
        now = self.loop.now()
        if self._until.get(key, now) > now:
            return
        self._until[key] = now + timedelta(seconds=timeout_s)
        self.recorder.emit(about, kind, reason, message)


@dataclass
class State:
    """Informers and indexes; pools as read; which claims are being disrupted; which types are without capacity."""

    kube: Kube
    loop: Loop
    informers: Informers
    cloud: Cloud
    rng: Random
    events: Events = field(init=False)
    #: Names of NodeClaims that the disruption controller is about to delete.
    disrupting: set[str] = field(default_factory=set)
    #: The pods (by uid) that a NodeClaim's node is expected to get, and until when at least, by the claim's name.
    nominated: dict[str, tuple[datetime, frozenset[str]]] = field(default_factory=dict)
    _unavailable: dict[tuple[str, str, str], datetime] = field(default_factory=dict)
    _pools: dict[tuple[str, str], Pool | PoolError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.events = Events(self.kube, self.loop)
        self.pods = self.informers.of(r.PODS)
        self.nodes = self.informers.of(r.NODES)
        self.claims = self.informers.of(r.NODECLAIMS, optional=True)
        self.pools = self.informers.of(r.NODEPOOLS, optional=True)
        self.classes = self.informers.of(r.EC2NODECLASSES, optional=True)
        self.daemonsets = self.informers.of(r.DAEMONSETS)
        self.budgets = self.informers.of(r.PDBS)
        self._pods_by_node = self.informers.index(r.PODS, "spec.nodeName", _node_name)
        self._pods_by_uid = self.informers.index(r.PODS, "metadata.uid", lambda pod: [uid_of(pod)])
        self._claims_by_node = self.informers.index(r.NODECLAIMS, "status.nodeName", _claim_node)
        self._nodes_by_id = self.informers.index(r.NODES, "spec.providerID", _node_id)
        self._claims_by_id = self.informers.index(r.NODECLAIMS, "status.providerID", _claim_id)

    @property
    def types(self) -> Launchable:
        """What the clouds offer; a pool's prefix chooses."""
        return launchable(self.cloud.catalogue, "aws", "azure")

    @property
    def now(self) -> str:
        """The time as objects spell it."""
        return format_time(self.loop.now())

    # -- looking things up ---------------------------------------------------------------------------------
    def pool(self, name: str) -> Pool | None:
        """A pool that can be used; None where it is gone or cannot be read."""
        obj = self.pools.get(name)
        if obj is None:
            return None
        key = (name, str(dig(obj, "metadata", "resourceVersion")))
        if key not in self._pools:
            for old in [one for one in self._pools if one[0] == name]:
                del self._pools[old]
            try:
                self._pools[key] = read_pool(obj)
            except PoolError as error:
                self._pools[key] = error
        found = self._pools[key]
        return found if isinstance(found, Pool) else None

    def pods_on(self, node: str) -> list[Obj]:
        """The pods bound to a node."""
        return self._pods_by_node.get(node)

    def node_of(self, claim: Obj) -> Obj | None:
        """The Node with the claim's provider id."""
        provider_id = dig(claim, "status", "providerID")
        if not provider_id:
            return None
        return next(iter(self._nodes_by_id.get(provider_id)), None)

    def claim_of(self, node: Obj) -> Obj | None:
        """The NodeClaim with the node's provider id."""
        provider_id = dig(node, "spec", "providerID")
        if not provider_id:
            return None
        return next(iter(self._claims_by_id.get(provider_id)), None)

    def claims_in(self, pool: str) -> list[Obj]:
        """A pool's NodeClaims."""
        return [one for one in self.claims.values() if labels_of(one).get(n.NODEPOOL) == pool]

    def is_nominated(self, claim: str) -> bool:
        """Whether pods that are still on their way are expected on the claim's node."""
        until, uids = self.nominated.get(claim, (self.loop.now(), frozenset()))
        return until > self.loop.now() or any(
            self._is_homeless(pod) for uid in uids for pod in self._pods_by_uid.get(uid)
        )

    def _is_homeless(self, pod: Obj) -> bool:
        """Whether one pod is among :meth:`homeless`."""
        claims = self._claims_by_node.get(_node_name(pod)[0]) if _node_name(pod) else ()
        return is_provisionable(pod) or (any(map(self._is_going, claims)) and self._is_movable(pod))

    def _is_going(self, claim: Obj) -> bool:
        return bool(dig(claim, "metadata", "deletionTimestamp")) or name_of(claim) in self.disrupting

    def _is_movable(self, pod: Obj) -> bool:
        return (
            is_reschedulable(pod)
            and is_active(pod)
            and do_not_disrupt_until(pod) is None
            and not any(_forbids(budget, pod) for budget in self.budgets.values())
        )

    def homeless(self) -> list[Obj]:
        """Pods to find room for: pending ones that fit nowhere, and movable ones on nodes that are going."""
        found = [pod for pod in self.pods.values() if is_provisionable(pod)]
        for claim in self.claims.values():
            if self._is_going(claim):
                node = str(dig(claim, "status", "nodeName", default=""))
                found += [pod for pod in self.pods_on(node) if self._is_movable(pod)]
        return found

    def used(self, pool: str, *, leaving: bool = True) -> dict[str, float]:
        """What a pool's launched NodeClaims hold; without those on their way out unless ``leaving``."""
        counted = [one for one in self.claims_in(pool) if leaving or not self._is_going(one)]
        held = total(amounts(dig(one, "status", "capacity")) for one in counted)
        held["nodes"] = float(len(counted))
        return held

    def without_capacity(self) -> Shortage:
        """The types that had no capacity lately."""
        now = self.loop.now()
        self._unavailable = {key: until for key, until in self._unavailable.items() if until > now}
        marked = ((self.types.bits.get(name, 0), kind, zone) for name, kind, zone in self._unavailable)
        return Shortage.of(self.cloud.zones, marked)

    def mark_unavailable(self, name: str, capacity_type: str, zone: str) -> None:
        """Do not ask for this type there for a while."""
        self._unavailable[name, capacity_type, zone] = self.loop.now() + timedelta(seconds=UNAVAILABLE_S)

    # -- writing -------------------------------------------------------------------------------------------
    def write_status(self, resource: Resource, obj: Obj) -> None:
        """Put the ``status`` of a changed copy, on condition that nobody wrote meanwhile. Raises Conflict."""
        self.kube.patch(
            resource,
            name_of(obj),
            {"metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]}, "status": obj["status"]},
            subresource="status",
        )

    def delete_claim(self, claim: Obj) -> None:
        """Delete a NodeClaim; that it is gone already is no error."""
        try:
            self.kube.delete(r.NODECLAIMS, name_of(claim))
        except NotFound:
            return


def _forbids(budget: Obj, pod: Obj) -> bool:
    """Whether a disruption budget never lets this pod go (Karpenter does not look for a place for it then)."""
    spec = budget.get("spec", {})
    never = spec.get("maxUnavailable") in (0, "0%") or spec.get("minAvailable") == "100%"
    return (
        never
        and namespace_of(budget) == namespace_of(pod)
        and from_match_labels(spec.get("selector") or {}).matches(labels_of(pod))
    )


def _node_name(pod: Obj) -> list[str]:
    name = dig(pod, "spec", "nodeName")
    return [name] if name else []


def _claim_node(claim: Obj) -> list[str]:
    name = dig(claim, "status", "nodeName")
    return [name] if name else []


def _node_id(node: Obj) -> list[str]:
    provider_id = dig(node, "spec", "providerID")
    return [provider_id] if provider_id else []


def _claim_id(claim: Obj) -> list[str]:
    provider_id = dig(claim, "status", "providerID")
    return [provider_id] if provider_id else []


@dataclass(eq=False, repr=False)
class Part(Controller):
    """One of Karpenter's controllers. What the cloud refuses is tried again, as what the API refuses."""

    state: State

    name: ClassVar[str] = "karpenter"

    def _work(self, key: Hashable) -> None:
        try:
            super()._work(key)
        except CloudError:
            self.queue.retry(key)
