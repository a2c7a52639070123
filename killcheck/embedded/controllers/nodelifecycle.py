"""The node lifecycle controller: nodes that no longer report, the taints that say so, and their pods' readiness.

Source: pkg/controller/nodelifecycle of Kubernetes v1.36; recording 24. The original looks at every node every five
seconds; here a timer looks at the moment (on that grid) at which a heartbeat would be missed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from math import floor

from killcheck.embedded.controllers import pods as podset
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, annotations_of, condition, dig, format_time, labels_of, name_of, parse_time

__all__ = ["HEARTBEAT", "NodeLifecycleController"]

#: On a Lease: its holder renews it every ten seconds, unseen, for as long as this is there.
HEARTBEAT = "killcheck.dev/heartbeat"
#: A node that has not been heard of for so long is Unknown, seconds.
GRACE_S = 50.0
#: The same for one that never reported.
STARTUP_GRACE_S = 60.0
#: How often the original looks, seconds.
PERIOD_S = 5.0
#: After a node turned Unknown its NoExecute taint takes so long; then one node of a zone every ten seconds.
TAINT_DELAY_S = 0.1
EVICTION_INTERVAL_S = 10.0
#: From this share of a zone's nodes on (and more than two) the zone is in trouble, and evictions slow down.
UNHEALTHY_SHARE = 0.55
LARGE_ZONE = 50
_LEASES = "kube-node-lease"
_TAINT = "node.kubernetes.io/"
_KINDS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_BY_CONDITION = (
    ("Ready", "False", "not-ready"),
    ("Ready", "Unknown", "unreachable"),
    ("MemoryPressure", "True", "memory-pressure"),
    ("DiskPressure", "True", "disk-pressure"),
    ("NetworkUnavailable", "True", "network-unavailable"),
    ("PIDPressure", "True", "pid-pressure"),
)
_MANAGED = frozenset(_TAINT + key for _, _, key in _BY_CONDITION) | {_TAINT + "unschedulable"}
#: Labels that were renamed: the new one is the source of truth, and the old one is kept beside it.
_BETA = (("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch"))
_NO_EXECUTE = {"False": _TAINT + "not-ready", "Unknown": _TAINT + "unreachable"}


class NodeLifecycleController(Controller):
    """Watches over nodes."""

    name = "node-lifecycle-controller"
    component = "node-controller"

    def setup(self) -> None:
        """Follow nodes and their Leases."""
        self.leases = self.informers.of(r.LEASES)
        self.by_node = podset.by_node(self.informers)
        self._evicted_at: dict[str, float] = {}
        self._since: dict[str, float] = {}
        #: What each kubelet said of its last moment, and when that was seen: its own clock may go wrong.
        self._heard: dict[str, tuple[list[str], datetime]] = {}
        self.nodes = self.informers.of(r.NODES)
        self.listen(r.NODES, self._node_changed)
        self.follow(r.LEASES, self._holder)

    def _holder(self, _change: Change, _old: Obj | None, new: Obj) -> list[Key]:
        return [("", name_of(new))] if new["metadata"]["namespace"] == _LEASES else []

    def _node_changed(self, change: Change, _old: Obj | None, new: Obj) -> None:
        name = name_of(new)
        if change == "deleted":
            self.queue.cancel(("", name))
            self._heard.pop(name, None)
            self._since.pop(name, None)
            self._tell(new, "RemovingNode", f"Node {name} event: Removing Node {name} from Controller")
        elif change == "added":
            self._tell(new, "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller")
        self.queue.add(("", name))

    def _tell(self, node: Obj, reason: str, text: str) -> None:
        self.events.emit(node, "Normal", reason, text)

    # -- one node ------------------------------------------------------------------------------------------
    def reconcile(self, key: Key) -> None:
        """Is it alive? Which taints does it have to have?"""
        node = self.nodes.get(key[1])
        if node is None:
            return
        node = self._label(node)
        deadline = self._deadline(node)
        if deadline is not None and deadline < self.loop.now():
            node = self._give_up(node)
        elif deadline is not None:
            self.queue.add(key, self._on_grid(deadline))
        self._taint(key, node)

    def _label(self, node: Obj) -> Obj:
        labels = labels_of(node)
        stale = {old: labels[new] for new, old in _BETA if new in labels and labels.get(old) != labels[new]}
        return (
            self.kube.patch(r.NODES, name_of(node), {"metadata": {"labels": stale}}, kind="strategic")
            if stale
            else node
        )

    def _deadline(self, node: Obj) -> datetime | None:
        """When the node counts as lost; None: its kubelet vouches for it, or it is lost already."""
        if dig(condition(node, "Ready"), "status") == "Unknown":
            return None
        lease = self.leases.get(name_of(node), _LEASES)
        if lease is not None and HEARTBEAT in annotations_of(lease):
            return None
        stamps = [dig(lease, "spec", "renewTime"), dig(condition(node, "Ready"), "lastHeartbeatTime")]
        said = [str(stamp) for stamp in stamps if stamp]
        if said:
            known = self._heard.get(name_of(node))
            if known is None or known[0] != said:
                self._heard[name_of(node)] = known = (said, self.loop.now())
            return known[1] + timedelta(seconds=GRACE_S)
        return parse_time(node["metadata"]["creationTimestamp"]) + timedelta(seconds=STARTUP_GRACE_S)

    def _on_grid(self, deadline: datetime) -> float:
        """Seconds to the first regular look after the deadline."""
        now = self.loop.monotonic()
        due = now + (deadline - self.loop.now()).total_seconds()
        return (floor(due / PERIOD_S) + 1) * PERIOD_S - now

    def _give_up(self, node: Obj) -> Obj:
        """Mark every condition Unknown, and the node's pods not ready."""
        now = format_time(self.loop.now())
        conditions = list(dig(node, "status", "conditions", default=[]))
        known = {c["type"]: number for number, c in enumerate(conditions)}
        for kind in _KINDS:
            if kind not in known:
                never = {
                    "type": kind,
                    "status": "Unknown",
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                    "lastHeartbeatTime": None,
                    "lastTransitionTime": now,
                }
                conditions.append(never)
            elif conditions[known[kind]]["status"] != "Unknown":
                conditions[known[kind]] = conditions[known[kind]] | {
                    "status": "Unknown",
                    "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status.",
                    "lastTransitionTime": now,
                }
        status = (node.get("status") or {}) | {"conditions": conditions}
        written = self.kube.replace(r.NODES, node | {"status": status}, subresource="status")
        self._tell(node, "NodeNotReady", f"Node {name_of(node)} status is now: NodeNotReady")
        for pod in self.by_node.get(name_of(node)):
            self._unready(pod)
        return written

    def _unready(self, pod: Obj) -> None:
        ready = condition(pod, "Ready")
        if ready is None or ready.get("status") != "True":
            return
        changed = {"type": "Ready", "status": "False", "lastTransitionTime": format_time(self.loop.now())}
        meta = pod["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "status": {"conditions": [changed]}}
        try:
            self.kube.patch(r.PODS, meta["name"], patch, meta["namespace"], kind="strategic", subresource="status")
        except NotFound:
            return
        self.events.emit(pod, "Warning", "NodeNotReady", "Node is not ready")

    # -- taints --------------------------------------------------------------------------------------------
    def _taint(self, key: Key, node: Obj) -> None:
        name = name_of(node)
        before = dig(node, "spec", "taints", default=[])
        now = format_time(self.loop.now())
        wanted = self._no_schedule(node)
        taints = [t for t in before if t["effect"] != "NoSchedule" or t["key"] not in _MANAGED or t["key"] in wanted]
        present = {t["key"] for t in taints if t["effect"] == "NoSchedule"}
        taints += [{"key": k, "effect": "NoSchedule", "timeAdded": now} for k in wanted if k not in present]
        state = dig(condition(node, "Ready"), "status")
        evicting = _NO_EXECUTE.get(state, "") if state else ""
        taints = [t for t in taints if t["effect"] != "NoExecute" or t["key"] in (evicting, *self._foreign(t))]
        if not evicting or self._halted():
            self._since.pop(name, None)
            taints = [t for t in taints if t["effect"] != "NoExecute" or t["key"] not in _NO_EXECUTE.values()]
        elif not any(t["effect"] == "NoExecute" and t["key"] == evicting for t in taints):
            wait = self._until_eviction(node)
            if wait > 0:
                self.queue.add(key, wait)
            else:
                self._evicted_at[_zone(node)] = self.loop.monotonic()
                taints = [*taints, {"key": evicting, "effect": "NoExecute", "timeAdded": now}]
        if taints != before:
            spec = {k: v for k, v in (node.get("spec") or {}).items() if k != "taints"}
            self.kube.replace(r.NODES, node | {"spec": spec | ({"taints": taints} if taints else {})})

    def _foreign(self, taint: Obj) -> Iterable[str]:
        return () if taint["key"] in _NO_EXECUTE.values() else (taint["key"],)

    def _no_schedule(self, node: Obj) -> list[str]:
        wanted = []
        for kind, state, key in _BY_CONDITION:
            found = condition(node, kind)
            if found is not None and found.get("status") == state:
                wanted.append(_TAINT + key)
        if dig(node, "spec", "unschedulable"):
            wanted.append(_TAINT + "unschedulable")
        return wanted

    def _until_eviction(self, node: Obj) -> float:
        """Seconds until a node's NoExecute taint is due: a moment, and its turn among the nodes of its zone."""
        now, zone = self.loop.monotonic(), _zone(node)
        since = self._since.setdefault(name_of(node), now)
        due = since + TAINT_DELAY_S
        last = self._evicted_at.get(zone)
        if last is not None:
            due = max(due, last + EVICTION_INTERVAL_S)
        if self._crippled(zone):
            return EVICTION_INTERVAL_S
        return due - now if due - now > 1e-6 else 0.0

    def _zone_nodes(self, zone: str) -> tuple[int, int]:
        """(ready, not ready)."""
        states = [dig(condition(node, "Ready"), "status") for node in self.nodes.values() if _zone(node) == zone]
        ready = sum(state == "True" for state in states)
        return ready, len(states) - ready

    def _crippled(self, zone: str) -> bool:
        """In a small zone most of whose nodes are lost (but not all) nothing is evicted."""
        ready, lost = self._zone_nodes(zone)
        return ready > 0 and lost > 2 and lost / (ready + lost) >= UNHEALTHY_SHARE and ready + lost <= LARGE_ZONE

    def _halted(self) -> bool:
        """Where every node of every zone is lost, the fault is rather the control plane's: nothing is evicted."""
        return all(self._zone_nodes(zone)[0] == 0 for zone in {_zone(node) for node in self.nodes.values()})


def _zone(node: Obj) -> str:
    labels = labels_of(node)
    return f"{labels.get('topology.kubernetes.io/region', '')}/{labels.get('topology.kubernetes.io/zone', '')}"
