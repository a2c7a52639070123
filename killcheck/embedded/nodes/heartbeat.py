"""A node's sign of life: its conditions and its Lease.

On the wall's clock, and so on a real control plane, the Lease is renewed every ten seconds and the conditions are
reported every five minutes. In virtual time that would be all that happens in a quiet night: there the Lease carries
the annotation ``killcheck.dev/heartbeat: until-stopped`` instead, and the embedded cluster's node controller takes it
as renewed for as long as it says so. Where that one does not run (a real one may), Leases are renewed all the same. A
kubelet that stops writes the renewal that was its last, on its ten-second grid, and takes the annotation away.
Source: pkg/kubelet/nodestatus/setters.go, pkg/kubelet/kubelet.go (nodeStatusReportFrequency),
k8s.io/component-helpers/apimachinery/lease of v1.36; recording 24.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from killcheck.clock import Timer, VirtualLoop
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, KubeError, NotFound
from killcheck.kube.objects import Obj, annotations_of, dig, format_time, labels_of, uid_of

if TYPE_CHECKING:
    from killcheck.embedded.nodes.node_agent import NodeAgent

__all__ = ["HEARTBEAT", "LEASES", "NOT_READY", "READY_AFTER", "Heartbeat"]

HEARTBEAT = "killcheck.dev/heartbeat"
#: On a Node: seconds from its kubelet's start to Ready (the network plugin's time).
READY_AFTER = "killcheck.dev/ready-after-s"
LEASES = "kube-node-lease"
LEASE_DURATION_S = 40
RENEWAL_S = 10.0
#: Renewals are spread by up to this share of the pause between them, so that nodes do not beat together.
JITTER = 0.04
#: How often conditions are reported where nothing has changed.
REPORT_S = 300.0
RETRY_S = 7.0
#: Where kubelets listen, unless their Node says another port.
PORT = 10250

_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_READY = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
#: The reason of a Ready condition that is not True.
NOT_READY = "KubeletNotReady"
_NOT_READY = (
    "Ready",
    "False",
    NOT_READY,
    "container runtime network not ready: NetworkReady=false "
    "reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized",
)


class Heartbeat:
    """What a kubelet says of its node."""

    def __init__(self, kubelet: NodeAgent) -> None:
        self.kubelet = kubelet
        self.started: datetime | None = None
        self._gone = False
        self._next: Timer | None = None
        self._reported = 0.0

    @property
    def _vouches(self) -> bool:
        """In virtual time the Lease says that it is renewed, to a node controller that believes it; else it is."""
        return self.kubelet.vouched and isinstance(self.kubelet.loop, VirtualLoop)

    def start(self) -> None:
        """Register, now and again as long as the API server refuses."""
        if self.kubelet.stopped or self._gone:
            return
        self.started = self.kubelet.loop.now()
        delay = float(annotations_of(self.kubelet.node).get(READY_AFTER, 0))
        try:
            self._show(_NOT_READY if delay else _READY)
            self._renew(alive=True)
        except NotFound:
            return  # the Node has gone; its kubelet goes with it
        except KubeError:
            self.kubelet.loop.call_later(RETRY_S, self.start)
            return
        if delay:
            self.kubelet.loop.call_later(delay, self._ready)
        if not self._vouches:
            self._wait()

    def stop(self) -> None:
        """The last renewal was the last; nobody says so but the Lease."""
        self._silence()
        if self._gone or not self._vouches:
            return
        try:
            self._renew(alive=False)
        except KubeError:
            return

    def forget(self) -> None:
        """The node is gone: say nothing any more."""
        self._gone = True
        self._silence()

    def say(self, ready: tuple[str, str, str, str]) -> None:
        """Report another Ready condition: (type, status, reason, message). An API server that refuses hears it not."""
        try:
            self._show(ready)
        except KubeError:
            return

    # -- inside --------------------------------------------------------------------------------------------
    def _wait(self) -> None:
        self._silence()
        pause = RENEWAL_S * (1.0 + JITTER * self.kubelet.rng.random())
        self._next = self.kubelet.loop.call_later(pause, self._beat)

    def _silence(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _beat(self) -> None:
        if self.kubelet.stopped or self._gone:
            return
        try:
            self._renew(alive=True)
            if self.kubelet.loop.monotonic() - self._reported >= REPORT_S:
                self._show(_READY)
        except NotFound:
            return  # the Node has gone; its kubelet goes with it
        except KubeError:
            pass  # the next one may get through; until then the node controller's patience runs out, as it must
        self._wait()

    def _ready(self) -> None:
        if not self.kubelet.stopped and not self._gone:
            try:
                self._show(_READY)
            except KubeError:
                self.kubelet.loop.call_later(RETRY_S, self._ready)

    def _show(self, ready: tuple[str, str, str, str]) -> None:
        now = format_time(self.kubelet.loop.now())
        current = {c["type"]: c for c in dig(self.kubelet.node, "status", "conditions", default=[])}
        conditions = []
        for kind, value, reason, message in (*_CONDITIONS, ready):
            same = current.get(kind, {}).get("status") == value
            conditions.append(
                {
                    "type": kind,
                    "status": value,
                    "reason": reason,
                    "message": message,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": current[kind]["lastTransitionTime"] if same else now,
                }
            )
        body: Obj = {"conditions": conditions}
        node = self.kubelet.node
        if not dig(node, "status", "addresses"):
            body["addresses"] = [
                {"type": "InternalIP", "address": self.kubelet.host_ip},
                {"type": "Hostname", "address": self.kubelet.name},
            ]
        if not dig(node, "status", "nodeInfo", "kubeletVersion"):
            body["nodeInfo"] = self._info()
        capacity = dig(node, "status", "capacity")
        if capacity and not dig(node, "status", "allocatable"):
            body["allocatable"] = capacity
        port = dig(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port")
        body["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port or PORT}}
        answer = self.kubelet.kube.patch(
            r.NODES, self.kubelet.name, {"status": body}, kind="strategic", subresource="status"
        )
        self.kubelet.node = answer
        self._reported = self.kubelet.loop.monotonic()

    def _info(self) -> Obj:
        arch = labels_of(self.kubelet.node).get("kubernetes.io/arch", "amd64")
        return {
            "machineID": uid_of(self.kubelet.node).replace("-", ""),
            "systemUUID": uid_of(self.kubelet.node),
            "bootID": uid_of(self.kubelet.node),
            "kernelVersion": "6.12.0",
            "osImage": "killcheck hollow node",
            "containerRuntimeVersion": "containerd://2.1.0",
            "kubeletVersion": self.kubelet.version,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": arch,
        }

    def _renew(self, *, alive: bool) -> None:
        now = self.kubelet.loop.now()
        if alive:
            renewed = now
        else:
            since = self.started or now
            beats = int((now - since).total_seconds() // RENEWAL_S)
            renewed = since + timedelta(seconds=beats * RENEWAL_S)
        name, kube = self.kubelet.name, self.kubelet.kube
        body: Obj = {
            "metadata": {"annotations": {HEARTBEAT: "until-stopped" if alive else None}} if self._vouches else {},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": LEASE_DURATION_S,
                "renewTime": format_time(renewed, micro=True),
            },
        }
        try:
            kube.patch(r.LEASES, name, body, LEASES)
        except NotFound:
            if alive:
                self._create(body)

    def _create(self, body: Obj) -> None:
        node = self.kubelet.node
        meta = body["metadata"] | {
            "name": self.kubelet.name,
            "namespace": LEASES,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": self.kubelet.name, "uid": uid_of(node)}],
        }
        lease = {"apiVersion": r.LEASES.api_version, "kind": "Lease"} | body | {"metadata": meta}
        try:
            self.kubelet.kube.create(r.LEASES, lease)
        except Conflict:
            return
