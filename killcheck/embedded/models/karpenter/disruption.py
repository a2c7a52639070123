"""What ends a node that nobody asked to end: emptiness (consolidation of empty nodes) and expiry.

Source: sigs.k8s.io/karpenter pkg/controllers/disruption, pkg/controllers/nodeclaim/{podevents,disruption,expiration},
v1.14. Karpenter looks for candidates every ten seconds; here a look is taken at the next such moment after something
changed. Left out: drift, and consolidation of nodes that still hold pods.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta

from killcheck.embedded.models.karpenter import names as n
from killcheck.embedded.models.karpenter.conditions import clear, is_true, put
from killcheck.embedded.models.karpenter.pods import (
    do_not_disrupt_until,
    is_active,
    is_daemon,
    is_empty_cost,
    is_reschedulable,
    is_terminal,
    is_terminating,
)
from killcheck.embedded.models.karpenter.pool import Pool
from killcheck.embedded.models.karpenter.state import Part, State
from killcheck.kube import resources as r
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    condition,
    copy,
    dig,
    format_time,
    labels_of,
    name_of,
    parse_time,
    uid_of,
)
from killcheck.text.durations import parse_duration

__all__ = ["Emptiness", "Expiration", "PodEvents"]

#: Pod events nearer together than this are written once.
POD_EVENT_S = 10.0
#: How often Karpenter looks for nodes to disrupt, and how long a decision must stay true before it acts.
POLL_S = 10.0
VALIDATION_S = 15.0
#: How long an unconsolidatable node's event is not repeated.
UNCONSOLIDATABLE_S = 900.0
#: The moments at which a pool whose budgets depend on the time of day is looked at again.
BUDGET_POLL_S = 60.0

_LOOK = ("", "look")
_ACT = ("", "act")


class PodEvents(Part):
    """Writes ``status.lastPodEventTime``, and from it the Consolidatable condition."""

    def setup(self) -> None:
        """Follow pods and claims."""
        self.follow(r.PODS, self._claim_of)
        self.follow(r.NODECLAIMS, optional=True)
        self.follow(r.NODEPOOLS, self._claims_of, optional=True)

    @property
    def _state(self) -> State:
        assert self.state is not None
        return self.state

    def _claim_of(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        node = dig(new, "spec", "nodeName")
        if not node or is_daemon(new) or change == "deleted":
            return []
        bound = old is None or not dig(old, "spec", "nodeName")
        ended = old is not None and (is_terminal(new) > is_terminal(old) or is_terminating(new) > is_terminating(old))
        if not bound and not ended:
            return []
        claim = self.state.claim_of(self.state.nodes.get(node) or {})
        if claim is None:
            return []
        last = dig(claim, "status", "lastPodEventTime")
        now = self.loop.now()
        if last is None or (now - parse_time(last)).total_seconds() >= POD_EVENT_S:
            self.kube.patch(
                r.NODECLAIMS, name_of(claim), {"status": {"lastPodEventTime": format_time(now)}}, subresource="status"
            )
        return []

    def _claims_of(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        return [("", name_of(claim)) for claim in self.state.claims_in(name_of(new))]

    def reconcile(self, key: tuple[str, str]) -> None:
        """Set or clear Consolidatable on one claim."""
        found = self.state.claims.get(key[1])
        if found is None or dig(found, "metadata", "deletionTimestamp"):
            return
        claim = copy(found)
        pool = self.state.pool(labels_of(claim).get(n.NODEPOOL, ""))
        if pool is None:
            return
        left_s = self._window(pool, claim)
        if left_s == 0:
            changed = put(claim, "Consolidatable", "True", self.state.now)
        else:
            changed = clear(claim, "Consolidatable")
            if left_s > 0:
                self.queue.add(key, left_s)
        if changed:
            self.state.write_status(r.NODECLAIMS, claim)

    def _window(self, pool: Pool, claim: Obj) -> float:
        """Seconds until the claim may be consolidated; 0: now; negative: never."""
        after = pool.consolidate_after_s
        if after is None or not is_true(claim, "Initialized"):
            return -1.0
        initialized = condition(claim, "Initialized")
        since = dig(claim, "status", "lastPodEventTime", default=dig(initialized, "lastTransitionTime"))
        left_s = after - (self.loop.now() - parse_time(since)).total_seconds()
        return left_s if left_s > 0 else 0.0


class Emptiness(Part):
    """Deletes the NodeClaims of empty nodes, within their pools' budgets."""

    def setup(self) -> None:
        """Follow what can make a node a candidate, or stop it being one."""
        self._proposed: list[str] = []
        self.follow(r.PODS, self._pod)
        self.follow(r.NODECLAIMS, self._any, optional=True)
        self.follow(r.NODEPOOLS, self._any, optional=True)
        self.follow(r.NODES, self._node)

    @property
    def _state(self) -> State:
        assert self.state is not None
        return self.state

    def _any(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        if change == "deleted":
            self.state.disrupting.discard(name_of(new))
            self.state.nominated.pop(name_of(new), None)
        self._look_soon()
        return []

    def _pod(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        if dig(new, "spec", "nodeName") and (
            change != "modified"
            or old is None
            or is_active(old) != is_active(new)
            or annotations_of(old) != annotations_of(new)
            or not dig(old, "spec", "nodeName")
        ):
            self._look_soon()
        return []

    def _node(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        if (
            change != "modified"
            or old is None
            or is_true(old, "Ready") != is_true(new, "Ready")
            or annotations_of(old) != annotations_of(new)
        ):
            self._look_soon()
        return []

    def _look_soon(self) -> None:
        """Look at the next of Karpenter's ten-second turns."""
        if any(is_true(claim, "Consolidatable") for claim in self.state.claims.values()):
            now = self.loop.monotonic()
            self.queue.add(_LOOK, (math.floor(now / POLL_S) + 1) * POLL_S - now)

    def reconcile(self, key: tuple[str, str]) -> None:
        """Look for candidates, or act on those found a validation period ago."""
        if key == _ACT:
            self._act()
        elif not self._proposed:
            chosen = self._within_budgets(self._candidates())
            if chosen:
                self._proposed = [name_of(claim) for claim in chosen]
                self.queue.add(_ACT, VALIDATION_S)

    def _act(self) -> None:
        proposed, self._proposed = self._proposed, []
        chosen = [claim for claim in self._within_budgets(self._candidates()) if name_of(claim) in proposed]
        for claim in chosen:
            self._disrupt(claim)
        self._look_soon()

    def _disrupt(self, claim: Obj) -> None:
        state = self.state
        node = state.node_of(claim)
        if node is None:
            return
        state.disrupting.add(name_of(claim))
        taints = [*dig(node, "spec", "taints", default=()), n.DISRUPTED_TAINT]
        self.kube.patch(
            r.NODES,
            name_of(node),
            {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": taints}},
        )
        marked = copy(claim)
        put(marked, "DisruptionReason", "True", state.now, reason="Empty", message="Empty")
        state.write_status(r.NODECLAIMS, marked)
        state.delete_claim(claim)
        for about, word in ((node, "Node"), (claim, "NodeClaim")):
            state.events.publish(
                about, "Normal", "DisruptionTerminating", f"Disrupting {word}: Empty", uid_of(about), "Empty"
            )

    # -- candidates ----------------------------------------------------------------------------------------
    def _candidates(self) -> list[Obj]:
        """Consolidatable claims whose nodes are empty and may be disrupted, dearest first."""
        found = []
        for claim in self.state.claims.values():
            node = self.state.node_of(claim)
            if node is not None and self._disruptable(claim, node) and self._empty(claim, node):
                found.append(claim)
        return sorted(found, key=lambda claim: (-self._price(claim), name_of(claim)))

    def _disruptable(self, claim: Obj, node: Obj) -> bool:
        """Whether Karpenter would consider it at all; says why not as Karpenter does."""
        state, now = self.state, self.loop.now()
        if (
            not is_true(claim, "Initialized")
            or dig(claim, "metadata", "deletionTimestamp")
            or name_of(claim) in state.disrupting
        ):
            return False
        if state.is_nominated(name_of(claim)):
            self.queue.add(_LOOK, POLL_S)  # a nomination lapses without an event
            return False
        blocked = ""
        if annotations_of(node).get(n.DO_NOT_DISRUPT) == "true":
            blocked = 'Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation'
        for pod in state.pods_on(name_of(node)):
            protected = do_not_disrupt_until(pod) if is_active(pod) else None
            if protected is not None and protected > now:
                blocked = (
                    f'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod={pod["metadata"]["namespace"]}/'
                    f"{name_of(pod)})"
                )
        for about in (node, claim) if blocked else ():
            state.events.publish(about, "Normal", "DisruptionBlocked", blocked)
        return not blocked

    def _empty(self, claim: Obj, node: Obj) -> bool:
        state = self.state
        pool = state.pool(labels_of(claim).get(n.NODEPOOL, ""))
        if pool is None or pool.replicas is not None:
            return False
        says = ""
        empty = is_empty_cost(pod for pod in state.pods_on(name_of(node)) if is_reschedulable(pod))
        if pool.consolidate_after_s is None:
            says = f'NodePool "{pool.name}" has consolidation disabled'
        elif not empty and pool.policy == "WhenEmpty":
            says = f'NodePool "{pool.name}" has consolidation policy WhenEmpty, but node is not empty'
        for about in (node, claim) if says else ():
            state.events.publish(about, "Normal", "Unconsolidatable", says, timeout_s=UNCONSOLIDATABLE_S)
        return empty and not says and is_true(claim, "Consolidatable")

    def _price(self, claim: Obj) -> float:
        instance = self.state.cloud.by_provider_id(dig(claim, "status", "providerID", default=""))
        return (instance.usd_per_hour or 0.0) if instance else 0.0

    # -- budgets -------------------------------------------------------------------------------------------
    def _within_budgets(self, candidates: list[Obj]) -> list[Obj]:
        """As many of the candidates as their pools' budgets let go at once."""
        left: dict[str, int] = {}
        chosen = []
        for claim in candidates:
            name = labels_of(claim)[n.NODEPOOL]
            pool = self.state.pool(name)
            if pool is None:
                continue
            if name not in left:
                left[name] = self._allowed(pool)
            if left[name] > 0:
                left[name] -= 1
                chosen.append(claim)
            elif pool.scheduled_budgets:
                self.queue.add(_LOOK, BUDGET_POLL_S)
        return chosen

    def _allowed(self, pool: Pool) -> int:
        """What the budgets allow, less the nodes that are not ready or already going."""
        state = self.state
        count: Counter[str] = Counter()
        for claim in state.claims_in(pool.name):
            node = state.node_of(claim)
            if node is None or not is_true(claim, "Initialized") or is_true(claim, "InstanceTerminating"):
                continue
            count["nodes"] += 1
            going = dig(claim, "metadata", "deletionTimestamp") or name_of(claim) in state.disrupting
            count["disrupting"] += bool(going) or not is_true(node, "Ready")
        allowed = pool.allowed("Empty", count["nodes"], self.loop.now())
        if count["nodes"] and allowed == 0:
            state.events.publish(
                pool.obj,
                "Normal",
                "DisruptionBlocked",
                "No allowed disruptions for disruption reason Empty due to blocking budget",
                pool.uid,
                "Empty",
                timeout_s=60,
            )
        return max(0, allowed - count["disrupting"])


class Expiration(Part):
    """Deletes NodeClaims that are older than their ``expireAfter``; no budget holds it up."""

    def setup(self) -> None:
        """Follow claims."""
        self.follow(r.NODECLAIMS, optional=True)

    def reconcile(self, key: tuple[str, str]) -> None:
        """Delete one claim if its time has come."""
        assert self.state is not None
        claim = self.state.claims.get(key[1])
        after = dig(claim, "spec", "expireAfter", default="Never")
        if claim is None or dig(claim, "metadata", "deletionTimestamp") or after == "Never":
            return
        expires = parse_time(claim["metadata"]["creationTimestamp"]) + timedelta(seconds=parse_duration(after))
        left_s = (expires - self.loop.now()).total_seconds()
        if left_s > 0:
            self.queue.add(key, left_s)
        else:
            self.state.delete_claim(claim)
