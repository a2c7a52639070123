"""The provisioner: pending pods in, NodeClaims out; and static pools, which keep a number of nodes whatever pods want.

Source: sigs.k8s.io/karpenter pkg/controllers/provisioning and pkg/controllers/static, v1.14. Rounds happen when
something changed, not every ten seconds: nothing else could make one come out differently.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from killcheck.embedded.models.karpenter import names as n
from killcheck.embedded.models.karpenter.claim import claim_for, static_claim
from killcheck.embedded.models.karpenter.conditions import is_true
from killcheck.embedded.models.karpenter.packing import Existing, Fresh, Packing, daemon_specs
from killcheck.embedded.models.karpenter.pods import (
    do_not_disrupt_until,
    is_daemon,
    is_empty_cost,
    is_provisionable,
    is_terminal,
    requests,
)
from killcheck.embedded.models.karpenter.pool import Pool
from killcheck.embedded.models.karpenter.state import UNAVAILABLE_S, Part
from killcheck.instances.amounts import amounts, total
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, labels_of, name_of, uid_of

__all__ = ["Provisioning", "StaticPools"]

#: A batch ends this long after the last new pod, and at the latest this long after the first (Karpenter's defaults).
BATCH_IDLE_S = 1.0
BATCH_MAX_S = 10.0
#: A pod that was placed and still waits is looked at again after so long (PodController.Reconcile: each ten seconds);
#: here each time after twice as long, up to the most.
AGAIN_S = 10.0
AGAIN_MAX_S = 320.0
#: A node that a pod was nominated for is not disrupted for this long.
NOMINATION_S = 20.0
#: The one key of the batch.
_BATCH = ("", "batch")


class Provisioning(Part):
    """Batches pending pods and creates NodeClaims for those that fit nowhere."""

    def setup(self) -> None:
        """Follow pods and whatever can make room for them."""
        self._first: float | None = None
        self._known: set[str] = set()
        self._again_s = AGAIN_S
        self.follow(r.PODS, self._pod)
        self.follow(r.NODEPOOLS, self._room, optional=True)
        self.follow(r.NODECLAIMS, self._room, optional=True)
        self.follow(r.NODES, self._node)

    def reconcile(self, key: tuple[str, str]) -> None:
        """One round."""
        self._first = None
        state = self.state
        if any(unresolved(claim) for claim in state.claims.values()):
            self.queue.add(key, BATCH_IDLE_S)  # its state of the cluster is not synced until every launch is known
            return
        if not self._pools():
            return
        packing = self._packing()
        for pool in packing.barren:
            state.events.publish(
                pool.obj,
                "Warning",
                "NoCompatibleInstanceTypes",
                "NodePool requirements filtered out all compatible available instance types",
                timeout_s=60,
            )
        failed = placed = False
        for pod in self._pending():
            why = packing.place(pod)
            placed = placed or not why
            if why:
                failed = True
                state.events.publish(
                    pod, "Warning", "FailedScheduling", f"Failed to schedule pod, {why}", timeout_s=300
                )
        self._nominate(packing.existing)
        for fresh in packing.fresh:
            self._create(fresh)
        if failed and state.without_capacity():
            self.queue.add(key, UNAVAILABLE_S)
        if placed:  # the scheduler may give its place to another
            self.queue.add(key, self._again_s)
            self._again_s = min(2 * self._again_s, AGAIN_MAX_S)

    # -- what starts a round -------------------------------------------------------------------------------
    def _pod(self, change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        uid = uid_of(new)
        if change == "deleted" or not is_provisionable(new):
            self._known.discard(uid)
        elif uid not in self._known:
            self._known.add(uid)
            self._trigger()
        return []

    def _room(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        spec_changed = old is None or old.get("spec") != new.get("spec")
        ready_changed = old is not None and is_true(old, "Ready") != is_true(new, "Ready")
        leaving = (
            old is not None
            and not dig(old, "metadata", "deletionTimestamp")
            and bool(dig(new, "metadata", "deletionTimestamp"))
        )
        if change == "deleted" or leaving or (new.get("kind") == "NodePool" and (spec_changed or ready_changed)):
            self._trigger()
        return []

    def _node(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        disrupted = any(taint["key"] == n.DISRUPTED_TAINT["key"] for taint in dig(new, "spec", "taints", default=()))
        before = old is not None and any(
            taint["key"] == n.DISRUPTED_TAINT["key"] for taint in dig(old, "spec", "taints", default=())
        )
        if change == "deleted" or (disrupted and not before):
            self._trigger()
        return []

    def _trigger(self) -> None:
        now = self.loop.monotonic()
        self._again_s = AGAIN_S
        if self._first is None:
            self._first = now
        self.queue.cancel(_BATCH)
        self.queue.add(_BATCH, min(BATCH_IDLE_S, max(0.0, self._first + BATCH_MAX_S - now)))

    # -- a round -------------------------------------------------------------------------------------------
    def _pools(self) -> list[Pool]:
        """The pools that may launch, heaviest first; of equals the last by name (nodepoolutils.OrderByWeight)."""
        state = self.state
        ready = [
            obj
            for obj in state.pools.values()
            if is_true(obj, "Ready") and not dig(obj, "metadata", "deletionTimestamp")
        ]
        found = [pool for obj in ready if (pool := state.pool(name_of(obj))) and pool.replicas is None]
        found.sort(key=lambda pool: pool.name, reverse=True)
        found.sort(key=lambda pool: -pool.weight)
        return found

    def _pending(self) -> list[Obj]:
        """Pods to find room for, largest first: pending ones, and those on nodes that are going."""
        return sorted(self.state.homeless(), key=_largest_first)

    def _packing(self) -> Packing:
        state, pools = self.state, self._pools()
        remaining = {}
        for pool in pools:
            used = state.used(pool.name, leaving=False)
            remaining[pool.name] = {name: most - used.get(name, 0.0) for name, most in pool.limits.items()}
        return Packing(
            state.types,
            pools,
            remaining=remaining,
            existing=list(self._existing()),
            daemons=daemon_specs(state.daemonsets.values()),
            unavailable=state.without_capacity(),
        )

    def _existing(self) -> Iterable[Existing]:
        """Room on nodes and on NodeClaims that have launched or are about to."""
        state = self.state
        claimed: set[str] = set()
        for claim in state.claims.values():
            node = state.node_of(claim)
            if node is not None:
                claimed.add(name_of(node))
            if dig(claim, "metadata", "deletionTimestamp") or name_of(claim) in state.disrupting:
                continue
            yield self._room_of(claim, node)
        for node in state.nodes.values():
            if name_of(node) in claimed or dig(node, "spec", "unschedulable") or not is_true(node, "Ready"):
                continue
            yield Existing(
                f"node/{name_of(node)}",
                labels_of(node),
                dig(node, "spec", "taints", default=()),
                self._free(node, amounts(dig(node, "status", "allocatable"))),
            )

    def _room_of(self, claim: Obj, node: Obj | None) -> Existing:
        allocatable = amounts(dig(claim, "status", "allocatable"))
        labels = labels_of(claim)
        taints = list(dig(claim, "spec", "taints", default=()))
        if node is not None and is_true(claim, "Initialized"):
            labels, taints = labels_of(node), dig(node, "spec", "taints", default=[])
            allocatable = amounts(dig(node, "status", "allocatable"))
        return Existing(f"nodeclaim/{name_of(claim)}", labels, taints, self._free(node, allocatable))

    def _free(self, node: Obj | None, allocatable: dict[str, float]) -> dict[str, float]:
        bound = [pod for pod in self.state.pods_on(name_of(node)) if not is_terminal(pod)] if node else []
        used = total(requests(pod["spec"]) for pod in bound)
        return {name: value - used.get(name, 0.0) for name, value in allocatable.items()}

    def _nominate(self, existing: Iterable[Existing]) -> None:
        until = self.loop.now() + timedelta(seconds=NOMINATION_S)
        for one in existing:
            kind, _, name = one.name.partition("/")
            if one.pods and kind == "nodeclaim":
                self.state.nominated[name] = (until, frozenset(uid_of(pod) for pod in one.pods))

    def _create(self, fresh: Fresh) -> None:
        state = self.state
        used = state.used(fresh.pool.name)
        if any(used.get(name, 0.0) > most for name, most in fresh.pool.limits.items()):
            return
        claim = self.kube.create(r.NODECLAIMS, claim_for(fresh, state.types))
        until = self.loop.now() + timedelta(seconds=NOMINATION_S)
        state.nominated[name_of(claim)] = (until, frozenset(uid_of(pod) for pod in fresh.pods))
        for pod in fresh.pods:
            state.events.publish(
                pod, "Normal", "Nominated", f"Pod should schedule on: nodeclaim/{name_of(claim)}", uid_of(pod)
            )


def unresolved(claim: Obj) -> bool:
    """A NodeClaim whose instance is not known yet."""
    return not dig(claim, "status", "providerID") and not dig(claim, "metadata", "deletionTimestamp")


def _largest_first(pod: Obj) -> tuple[float, float, str, str]:
    needs = requests(pod["spec"])
    created = dig(pod, "metadata", "creationTimestamp", default="")
    return -needs.get("cpu", 0.0), -needs.get("memory", 0.0), created, uid_of(pod)


class StaticPools(Part):
    """Keeps ``spec.replicas`` NodeClaims of every static pool: zero pods frees no node."""

    def setup(self) -> None:
        """Follow pools, and their claims as they come and go."""
        self.follow(r.NODEPOOLS, optional=True)
        self.follow(r.NODECLAIMS, self._pool_of, optional=True)

    def _pool_of(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        leaving = (
            old is not None
            and not dig(old, "metadata", "deletionTimestamp")
            and bool(dig(new, "metadata", "deletionTimestamp"))
        )
        if change == "modified" and not leaving:
            return []
        pool = labels_of(new).get(n.NODEPOOL)
        return [("", pool)] if pool else []

    def reconcile(self, key: tuple[str, str]) -> None:
        """Create or delete what is missing or too much."""
        assert self.state is not None
        pool = self.state.pool(key[1])
        if pool is None or pool.replicas is None or dig(pool.obj, "metadata", "deletionTimestamp"):
            return
        claims = [c for c in self.state.claims_in(pool.name) if not dig(c, "metadata", "deletionTimestamp")]
        if len(claims) < pool.replicas and is_true(pool.obj, "Ready"):
            most = int(pool.limits.get("nodes", float(pool.replicas)))
            counted = len(self.state.claims_in(pool.name))
            for _ in range(min(pool.replicas - len(claims), max(0, most - counted))):
                self.kube.create(r.NODECLAIMS, static_claim(pool))
        for claim in sorted(claims, key=self._cheapest_to_lose)[: max(0, len(claims) - pool.replicas)]:
            try:
                self.kube.delete(r.NODECLAIMS, name_of(claim))
            except NotFound:
                continue

    def _cheapest_to_lose(self, claim: Obj) -> tuple[bool, bool, int, str]:
        """Claims that never launched first, then empty nodes, then those with the fewest pods, protected ones last."""
        assert self.state is not None
        pods = [p for p in self.state.pods_on(dig(claim, "status", "nodeName", default="")) if not is_daemon(p)]
        protected = any(do_not_disrupt_until(pod) is not None for pod in pods)
        launched = bool(dig(claim, "status", "providerID"))
        return protected, launched and not is_empty_cost(pods), len(pods), name_of(claim)
