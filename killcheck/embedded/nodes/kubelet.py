"""One node's kubelet: its pods, its images, its heartbeat.

Source: pkg/kubelet/kubelet.go, kubelet_node_status.go and pkg/kubelet/nodestatus of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from killcheck.clock import Loop
from killcheck.embedded.api import status
from killcheck.embedded.containerlog import ContainerLog
from killcheck.embedded.nodes import shutdown
from killcheck.embedded.nodes.container_access import Connection
from killcheck.embedded.nodes.execution import Enterable
from killcheck.embedded.nodes.heartbeat import NOT_READY, Heartbeat
from killcheck.embedded.nodes.node_agent import Dependencies, NodeAgent
from killcheck.embedded.nodes.podlife import PodLife
from killcheck.kube import node_shutdown
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, uid_of
from killcheck.kube.pod_annotations import EXECUTE

if TYPE_CHECKING:
    from killcheck.embedded.api.kubelet_endpoint import Carried, Execution

__all__ = ["Kubelet"]

#: Pull progress of a waiting container in the words of a log request (pkg/kubelet/kubelet_pods.go).
_WAITING = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}


class Kubelet(NodeAgent):
    """Runs the pods bound to one Node."""

    def __init__(self, node: Obj, kube: Kube, loop: Loop, shared: Dependencies, index: int) -> None:
        super().__init__(node, kube, loop, shared, index)
        self.pods: dict[str, PodLife] = {}
        #: Whether its machine is about to go (graceful node shutdown).
        self.shutting_down = False
        self.heartbeat = Heartbeat(self)

    # -- life ----------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Register: Lease, conditions, images."""
        self.heartbeat.start()

    def stop(self) -> None:
        """The kubelet's process dies; containers run on."""
        if not self.stopped:
            self.stopped = True
            self.heartbeat.stop()

    def resume(self, pods: list[Obj]) -> None:
        """The kubelet's process is back; ``pods`` are those bound to its node now."""
        if not self.stopped or self.powered_off:
            return
        self.stopped = False
        self.heartbeat.start()
        bound = {uid_of(pod): pod for pod in pods}
        for uid, life in list(self.pods.items()):
            if uid in bound:
                life.resume(bound[uid])
            else:
                life.removed()
        for uid, pod in bound.items():
            if uid not in self.pods:
                self.seen(pod)

    def power_off(self) -> None:
        """The machine ends: no more heartbeats, no containers; its pods' objects stay as they are."""
        self.powered_off = True
        self.stop()
        for life in self.pods.values():
            life.vanish()

    def shut_down(self) -> None:
        """The machine is about to go: say so, and end what runs; critical pods last."""
        if self.stopped or self.shutting_down:
            return
        self.shutting_down = True
        self.heartbeat.say(("Ready", "False", NOT_READY, node_shutdown.MESSAGE))
        shutdown.end(list(self.pods.values()), critical=False)
        self.loop.call_later(shutdown.OTHERS_S, self._end_critical)

    def _end_critical(self) -> None:
        if not self.stopped:
            shutdown.end(list(self.pods.values()), critical=True)

    def vanish(self) -> None:
        """The machine and its Node are gone: everything on it ends without a word."""
        self.stopped = True
        for life in list(self.pods.values()):
            life.vanish()
            self.runtime.release(life.uid)
        self.pods.clear()
        self.heartbeat.forget()

    # -- pods ----------------------------------------------------------------------------------------------
    def seen(self, pod: Obj) -> None:
        """A pod of this node was added or has changed."""
        if self.stopped:
            return
        life = self.pods.get(uid_of(pod))
        if life is not None:
            life.update(pod)
        elif self.shutting_down:
            shutdown.reject(self, pod)
        elif dig(pod, "status", "phase") not in ("Succeeded", "Failed") or pod["metadata"].get("deletionTimestamp"):
            life = self.pods[uid_of(pod)] = PodLife(self, pod)
            life.begin()

    def removed(self, pod: Obj) -> None:
        """A pod's object is gone."""
        life = self.pods.get(uid_of(pod))
        if life is not None and not self.stopped:
            life.pod = pod
            life.removed()

    def others(self, uid: str) -> list[Obj]:
        """The pods of this node that are not over, but for one."""
        return [life.pod for life in self.pods.values() if life.uid != uid and not life.final]

    def stir(self, namespace: str | None = None) -> None:
        """As its protocol says."""
        for life in self.pods.values():
            if namespace in (None, life.key[0]):
                life.stir()

    def dropped(self, uid: str) -> None:
        """Nothing is left of a pod."""
        self.pods.pop(uid, None)
        self.image_backoff.forget(uid)
        self.crash_backoff.forget(uid)
        self.runtime.release(uid)

    def holding(self) -> list[PodLife]:
        """Pods with a container that runs on this node, whatever the API says of them."""
        return [life for life in self.pods.values() if any(c.alive for c in life.everything)]

    # -- what is asked of containers that run, for the API server --------------------------------------------
    def execute(self, pod: Obj, container: str, command: list[str], *, stdin: bool, tty: bool) -> Execution:
        """A command where a container's own runs, not begun yet. Raises StatusError."""
        return self._entered(pod, container, f'container not found ("{container}")').command(
            command, stdin=stdin, tty=tty
        )

    def attach(self, pod: Obj, container: str, *, stdin: bool) -> Execution:
        """A client at a container's own process. Raises StatusError."""
        full = f"{name_of(pod)}_{namespace_of(pod)}"
        return self._entered(pod, container, f"container {container} not found in pod {full}").attach(stdin=stdin)

    def forward(self, pod: Obj) -> Callable[[int], Carried]:
        """What connects to the pod's ports. Raises StatusError."""
        life = self.pods.get(uid_of(pod))
        if self.stopped or life is None or not life.sandbox:
            raise status.StatusError(500, "", f'pod not found ("{name_of(pod)}_{namespace_of(pod)}")')
        from killcheck.embedded.nodes.process import HostProcess

        runs = [c.running for c in life.everything if c.alive and isinstance(c.running, HostProcess)]
        if not runs:
            raise self._hollow(pod, "nothing listens in it")
        if not any(running.isolated for running in runs):
            raise status.StatusError(
                501,
                "NotImplemented",
                "this host gives containers no network of their own: their ports cannot be told from its own",
                details={},
            )
        return lambda port: Connection(runs, port, life.sandbox_id)

    def _entered(self, pod: Obj, container: str, missing: str) -> Enterable:
        life = self.pods.get(uid_of(pod))
        found = next((c for c in life.everything if c.name == container), None) if life else None
        if self.stopped or found is None or not found.alive:
            raise status.StatusError(500, "", missing)
        if found.running is not None and not isinstance(found.running, Enterable):
            raise status.StatusError(
                501,
                "NotImplemented",
                f"container {container} of pod {name_of(pod)} runs where nothing can be run "
                "beside it from here: that takes --exec host",
                details={},
            )
        if not isinstance(found.running, Enterable):
            why = f": {found.unknown}" if found.unknown else ""
            raise self._hollow(pod, f"no process of container {container} runs here{why}")
        return found.running

    def _hollow(self, pod: Obj, why: str) -> status.StatusError:
        return status.StatusError(
            501,
            "NotImplemented",
            f'pod {name_of(pod)} is hollow: {why} (the annotation {EXECUTE}: "true" lets its containers really run)',
            details={},
        )

    # -- logs ----------------------------------------------------------------------------------------------
    def hollow(self, pod: Obj, container: str) -> bool:
        """Whether nothing runs, and nothing has run, in a container that should."""
        life = self.pods.get(uid_of(pod))
        found = next((c for c in life.everything if c.name == container), None) if life else None
        return found is not None and found.alive and found.running is None

    def log(self, pod: Obj, container: str, *, previous: bool = False) -> ContainerLog:
        """A container's log, for the API server. Raises StatusError as the kubelet's own endpoint answers."""
        life = self.pods.get(uid_of(pod))
        if self.stopped:
            raise status.internal(
                f'Get "https://{self.host_ip}:10250/containerLogs/{namespace_of(pod)}/{name_of(pod)}/{container}": '
                f"dial tcp {self.host_ip}:10250: connect: connection refused"
            )
        found = next((c for c in life.everything if c.name == container), None) if life else None
        if found is None:
            raise status.not_found("pods", "", name_of(pod))
        where = f'container "{container}" in pod "{name_of(pod)}"'
        if previous:
            if not found.restarts:
                raise status.bad_request(f"previous terminated {where} not found")
            return found.previous_log
        if found.state == "none" and life is not None:
            reason = life.shown_reason(found)
            raise status.bad_request(f"{where} is waiting to start: {_WAITING.get(reason, reason)}")
        return found.running.log().whole_lines() if found.running is not None else found.log
