"""The end of a node: taint, drain in order, volumes, instance, finalizer - and the queue that evicts.

Source: sigs.k8s.io/karpenter pkg/controllers/node/termination and its terminator, v1.14. Karpenter looks again every
second; here a node is looked at again when one of its pods, budgets or attachments changed or a time is due.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from killcheck.embedded.models.cloud_errors import NoSuchInstance
from killcheck.embedded.models.karpenter import names as n
from killcheck.embedded.models.karpenter.conditions import is_true, put
from killcheck.embedded.models.karpenter.lifecycle import TERMINATION_POLL_S, terminate
from killcheck.embedded.models.karpenter.pods import (
    FOREVER,
    do_not_disrupt_until,
    is_active,
    is_critical,
    is_daemon,
    is_drainable,
    is_mirror,
    is_terminal,
    is_terminating,
)
from killcheck.embedded.models.karpenter.state import Part, State
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Conflict, NotFound, TooManyRequests
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    condition,
    copy,
    dig,
    labels_of,
    name_of,
    namespace_of,
    parse_time,
    uid_of,
)

__all__ = ["Evictions", "Termination"]

#: A drain takes at least this long, so that pods which the scheduler still put there are drained, too.
MIN_DRAIN_S = 5.0
#: How long an eviction that was refused waits before the next try: doubling between these two.
EVICTION_BASE_S, EVICTION_MAX_S = 0.1, 10.0
#: A pod that is still there this long after its grace period ended is not waited for any more.
STUCK_S = 60.0

_MULTIPLE_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class Evictions(Part):
    """Evicts what the terminator hands it, respecting disruption budgets, or deletes what would outlive its node."""

    backoff_s: ClassVar[tuple[float, float]] = (EVICTION_BASE_S, EVICTION_MAX_S)

    def setup(self) -> None:
        """Follow pods and budgets: what was refused is tried again when they change."""
        self._wanted: dict[tuple[str, str], tuple[str, datetime | None]] = {}
        self._held: dict[tuple[str, str], float] = {}
        self.follow(r.PODS, self._pod)
        self.follow(r.PDBS, self._budget)

    def want(self, pods: Iterable[Obj], deadline: datetime | None) -> None:
        """Have these pods gone; of two deadlines the earlier counts."""
        for pod in pods:
            key = (namespace_of(pod), name_of(pod))
            uid, earlier = self._wanted.get(key, ("", None))
            if uid != uid_of(pod):
                self._wanted[key] = (uid_of(pod), deadline)
                self.queue.forget(key)
                self.queue.add(key)
            elif deadline is not None and (earlier is None or deadline < earlier):
                self._wanted[key] = (uid, deadline)
                self.queue.add(key)

    def reconcile(self, key: tuple[str, str]) -> None:
        """Evict or delete one pod."""
        assert self.state is not None
        uid, deadline = self._wanted.get(key, ("", None))
        pod = self.state.pods.get(key[1], key[0])
        if not uid or pod is None or uid_of(pod) != uid:
            self._done(key)
            return
        now = self.loop.now()
        if must_delete(pod, deadline, now):
            self._delete(key, pod, deadline)
        elif not is_active(pod):
            self._done(key)
        elif is_evictable(pod, now):
            self._evict(key, pod)
        self._wake_for(key, pod, deadline)

    # -- inside --------------------------------------------------------------------------------------------
    def _evict(self, key: tuple[str, str], pod: Obj) -> None:
        assert self.state is not None
        try:
            self.kube.evict(name_of(pod), namespace_of(pod))
        except (NotFound, Conflict):
            self._done(key)
            return
        except ApiError as error:
            several = error.message == _MULTIPLE_BUDGETS
            if not several and not isinstance(error, TooManyRequests):
                raise
            node = self.state.nodes.get(dig(pod, "spec", "nodeName"))
            why = "eviction does not support multiple PDBs" if several else "evicting pod violates a PDB"
            if node is not None:
                # Karpenter dedupes this with 'pods are waiting to be evicted'; over some minutes both get written.
                self.state.events.publish(
                    node,
                    "Warning",
                    "FailedDraining",
                    f"Failed to drain node, {why} (Pod={namespace_of(pod)}/{name_of(pod)})",
                    name_of(node),
                    uid_of(pod),
                )
            self._refused(key)
            return
        self.state.events.publish(pod, "Normal", "Evicted", f"Evicted pod: {self._reason(pod)}", name_of(pod))
        self._done(key)

    def _refused(self, key: tuple[str, str]) -> None:
        """Try again after the back-off; once that no longer grows, when something changed."""
        wait_s = self.queue.backoff(key)
        if wait_s < EVICTION_MAX_S:
            self.queue.add(key, wait_s)
        else:
            self._held[key] = self.loop.monotonic()

    def _delete(self, key: tuple[str, str], pod: Obj, deadline: datetime | None) -> None:
        assert self.state is not None and deadline is not None  # noqa: PT018 - must_delete() looked
        left_s = max(int((deadline - self.loop.now()).total_seconds()), 1)
        grace_s = dig(pod, "spec", "terminationGracePeriodSeconds", default=30)
        self.state.events.publish(
            pod,
            "Normal",
            "Disrupted",
            f"Deleting the pod to accommodate the terminationTime {deadline:%Y-%m-%d %H:%M:%S +0000 UTC} of the node. "
            f"The pod was granted {left_s} seconds of grace-period of its {grace_s} terminationGracePeriodSeconds. "
            "This bypasses the PDB of the pod and the do-not-disrupt annotation.",
            name_of(pod),
        )
        try:
            self.kube.delete(r.PODS, name_of(pod), namespace_of(pod), uid=uid_of(pod), grace_s=left_s)
        except (NotFound, Conflict):
            pass
        finally:
            self._done(key)

    def _wake_for(self, key: tuple[str, str], pod: Obj, deadline: datetime | None) -> None:
        """Come back when the annotation lapses, or when it is time to delete."""
        if key not in self._wanted:
            return
        protected = do_not_disrupt_until(pod)
        due = [protected] if protected is not None and protected != FOREVER else []
        if deadline is not None:
            grace_s = dig(pod, "spec", "terminationGracePeriodSeconds", default=30)
            due.append(deadline - timedelta(seconds=grace_s - 0.001))
        for when in due:
            wait_s = (when - self.loop.now()).total_seconds()
            if wait_s > 0:
                self.queue.add(key, wait_s)

    def _reason(self, pod: Obj) -> str:
        assert self.state is not None
        node = self.state.nodes.get(dig(pod, "spec", "nodeName"))
        claim = self.state.claim_of(node) if node else None
        if node is None or claim is None:
            return ""
        found = condition(claim, "DisruptionReason")
        return str(found["reason"]) if found and found["status"] == "True" else "Forceful Termination"

    def _done(self, key: tuple[str, str]) -> None:
        self._wanted.pop(key, None)
        self._held.pop(key, None)
        self.queue.forget(key)

    def _pod(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        key = (namespace_of(new), name_of(new))
        if change == "deleted":
            self._done(key)
        elif (
            key in self._wanted
            and old is not None
            and (is_active(old) != is_active(new) or annotations_of(old) != annotations_of(new))
        ):
            return [key]
        return []

    def _budget(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        """What is held is tried at its next turn, as if it had been tried every ten seconds all along."""
        for key, since in list(self._held.items()):
            if key[0] == namespace_of(new):
                del self._held[key]
                passed = self.loop.monotonic() - since
                self.queue.add(key, EVICTION_MAX_S - passed % EVICTION_MAX_S)
        return []


def is_evictable(pod: Obj, now: datetime) -> bool:
    """Whether Karpenter would evict it: active, not mirror, not tolerating the taint, not protected."""
    protected = do_not_disrupt_until(pod)
    return is_active(pod) and is_drainable(pod, now) and not is_mirror(pod) and (protected is None or protected <= now)


def must_delete(pod: Obj, deadline: datetime | None, now: datetime) -> bool:
    """Whether its grace period would outlast the node's deadline."""
    if deadline is None:
        return False
    if is_terminating(pod):
        return parse_time(pod["metadata"]["deletionTimestamp"]) > deadline
    grace_s = dig(pod, "spec", "terminationGracePeriodSeconds")
    return grace_s is not None and now > deadline - timedelta(seconds=grace_s)


@dataclass(eq=False, repr=False)
class Termination(Part):
    """Finalizes Nodes that carry Karpenter's finalizer."""

    evictions: Evictions

    backoff_s: ClassVar[tuple[float, float]] = (1.0, 60.0)

    def setup(self) -> None:
        """Follow nodes, and what keeps them from ending."""
        self.follow(r.NODES)
        self.follow(r.PODS, self._node_of_pod)
        self._attachments = self.follow(r.VOLUMEATTACHMENTS, self._node_of_attachment, optional=True)

    @property
    def _state(self) -> State:
        assert self.state is not None
        return self.state

    def _node_of_pod(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        node = self.state.nodes.get(dig(new, "spec", "nodeName", default=""))
        return [("", name_of(node))] if node and dig(node, "metadata", "deletionTimestamp") else []

    def _node_of_attachment(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        node = self.state.nodes.get(dig(new, "spec", "nodeName", default=""))
        return [("", name_of(node))] if node and dig(node, "metadata", "deletionTimestamp") else []

    def reconcile(self, key: tuple[str, str]) -> None:
        """Take one terminating node as far as it can go now."""
        state = self.state
        node = state.nodes.get(key[1])
        if (
            node is None
            or not dig(node, "metadata", "deletionTimestamp")
            or n.FINALIZER not in dig(node, "metadata", "finalizers", default=())
        ):
            return
        found = state.claim_of(node)
        if found is not None and not dig(found, "metadata", "deletionTimestamp"):
            state.delete_claim(found)
        if not is_true(node, "Ready") and self._instance_lost(node):
            self._release(node)
            return
        node = self._taint(node)
        claim = copy(found) if found is not None else None
        before = copy(claim.get("status", {})) if claim else {}
        ended = self._drained(node, claim) and self._detached(node, claim) and self._terminated(node, claim)
        if claim is not None and claim.get("status", {}) != before:
            current = state.claims.get(name_of(claim))
            if current is not None:
                claim["metadata"] = current["metadata"]
                state.write_status(r.NODECLAIMS, claim)
        if ended:
            self._release(node)

    # -- the steps -----------------------------------------------------------------------------------------
    def _instance_lost(self, node: Obj) -> bool:
        try:
            self.state.cloud.describe(dig(node, "spec", "providerID", default="").rpartition("/")[2])
        except NoSuchInstance:
            return True
        return False

    def _taint(self, node: Obj) -> Obj:
        key = n.DISRUPTED_TAINT["key"]
        taints = list(dig(node, "spec", "taints", default=()))
        tainted = any(t["key"] == key and t["effect"] == "NoSchedule" for t in taints)
        if tainted and labels_of(node).get(n.EXCLUDE_BALANCERS) == "karpenter":
            return node
        if not tainted:
            taints = [t for t in taints if t["key"] != key] + [n.DISRUPTED_TAINT]
        return self.kube.patch(
            r.NODES,
            name_of(node),
            {
                "metadata": {
                    "resourceVersion": node["metadata"]["resourceVersion"],
                    "labels": {n.EXCLUDE_BALANCERS: "karpenter"},
                },
                "spec": {"taints": taints},
            },
        )

    def _drained(self, node: Obj, claim: Obj | None) -> bool:
        state, now = self.state, self.loop.now()
        if claim is not None and condition(claim, "Drained") is None:
            put(claim, "Drained", "Unknown", state.now, reason="Draining", message="Draining")
        deadline = _deadline(claim)
        waiting = [p for p in state.pods_on(name_of(node)) if not is_terminal(p) and is_drainable(p, now)]
        due = [pod for pod in waiting if must_delete(pod, deadline, now)]
        assert self.evictions is not None
        self.evictions.want(due, deadline)
        for group in _in_order(pod for pod in waiting if pod not in due):
            if group:
                self.evictions.want(group, deadline)
                break
        if waiting:
            state.events.publish(
                node,
                "Warning",
                "FailedDraining",
                f"Failed to drain node, {len(waiting)} pods are waiting to be evicted",
                name_of(node),
            )
            self._wake(node, waiting, deadline)
            return False
        if claim is None:
            return True
        found = condition(claim, "Drained")
        if found is not None and found["status"] == "Unknown":
            left_s = MIN_DRAIN_S - (now - parse_time(found["lastTransitionTime"])).total_seconds()
            if left_s > 0:
                self.queue.add(("", name_of(node)), left_s)
                return False
        put(claim, "Drained", "True", state.now)
        return True

    def _wake(self, node: Obj, waiting: Iterable[Obj], deadline: datetime | None) -> None:
        """Look again when a pod will no longer be waited for, or must be deleted."""
        now = self.loop.now()
        due = []
        for pod in waiting:
            deleted = dig(pod, "metadata", "deletionTimestamp")
            if deleted:
                due.append(parse_time(deleted) + timedelta(seconds=STUCK_S + 1))
            if deadline is not None:
                grace_s = dig(pod, "spec", "terminationGracePeriodSeconds", default=30)
                due.append(deadline - timedelta(seconds=grace_s - 1))
        ahead = [when for when in due if when > now]
        if ahead:
            self.queue.add(("", name_of(node)), (min(ahead) - now).total_seconds())

    def _detached(self, node: Obj, claim: Obj | None) -> bool:
        state = self.state
        pending = self._pending_volumes(node)
        if not pending:
            if claim is not None:
                put(claim, "VolumesDetached", "True", state.now)
            return True
        deadline = _deadline(claim)
        if deadline is not None and self.loop.now() > deadline:
            if claim is not None:
                put(
                    claim,
                    "VolumesDetached",
                    "False",
                    state.now,
                    reason="TerminationGracePeriodElapsed",
                    message="TerminationGracePeriodElapsed",
                )
            return True
        shown = ", ".join(pending[:5]) + (f" and {len(pending) - 5} other(s)" if len(pending) > 5 else "")
        state.events.publish(
            node,
            "Normal",
            "AwaitingVolumeDetachment",
            f"Awaiting deletion of bound volumeattachments ({shown})",
            name_of(node),
        )
        if claim is not None:
            put(
                claim,
                "VolumesDetached",
                "Unknown",
                state.now,
                reason="AwaitingVolumeDetachment",
                message="AwaitingVolumeDetachment",
            )
        if deadline is not None:
            self.queue.add(("", name_of(node)), (deadline - self.loop.now()).total_seconds() + 1)
        return False

    def _pending_volumes(self, node: Obj) -> list[str]:
        """Attachments of this node whose pods would be drained; those of pods that stay do not count."""
        now = self.loop.now()
        staying = set()
        claims = self.informers.of(r.PERSISTENTVOLUMECLAIMS)
        for pod in self.state.pods_on(name_of(node)):
            if is_drainable(pod, now):
                continue
            for volume in dig(pod, "spec", "volumes", default=()):
                name = dig(volume, "persistentVolumeClaim", "claimName", default="")
                staying.add(dig(claims.get(name, namespace_of(pod)), "spec", "volumeName"))
        return sorted(
            name_of(one)
            for one in self._attachments.values()
            if dig(one, "spec", "nodeName") == name_of(node)
            and dig(one, "spec", "source", "persistentVolumeName") not in (None, *staying)
        )

    def _terminated(self, node: Obj, claim: Obj | None) -> bool:
        if claim is None:
            return True
        gone = terminate(self.state, claim)
        put(claim, "InstanceTerminating", "True", self.state.now)
        if not gone:
            self.queue.add(("", name_of(node)), TERMINATION_POLL_S)
        return gone

    def _release(self, node: Obj) -> None:
        current = self.state.nodes.get(name_of(node))
        if current is None:
            return
        kept = [one for one in dig(current, "metadata", "finalizers", default=()) if one != n.FINALIZER]
        try:
            self.kube.patch(
                r.NODES,
                name_of(node),
                {"metadata": {"finalizers": kept or None, "resourceVersion": current["metadata"]["resourceVersion"]}},
            )
        except NotFound:
            return


def _deadline(claim: Obj | None) -> datetime | None:
    when = annotations_of(claim).get(n.TERMINATION_TIME) if claim else None
    return parse_time(when) if when else None


def _in_order(pods: Iterable[Obj]) -> list[list[Obj]]:
    """Non-critical pods, their daemons, critical pods, their daemons: one group after the other."""
    groups: list[list[Obj]] = [[], [], [], []]
    for pod in pods:
        groups[2 * is_critical(pod) + is_daemon(pod)].append(pod)
    return groups
