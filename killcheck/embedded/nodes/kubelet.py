"""One node's kubelet: its pods, its images, its heartbeat.

Source: pkg/kubelet/kubelet.go, kubelet_node_status.go and pkg/kubelet/nodestatus of Kubernetes v1.36.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from killcheck.clock import Loop
from killcheck.embedded.api import status
from killcheck.embedded.containerlog import ContainerLog
from killcheck.embedded.controllers.events import EventRecorder
from killcheck.embedded.nodes import commands
from killcheck.embedded.nodes.backoff import Backoff
from killcheck.embedded.nodes.container_access import Connection
from killcheck.embedded.nodes.execution import ASSUMED, RUN, Enterable, Launch, NetworkPolicy, Runtime
from killcheck.embedded.nodes.heartbeat import Heartbeat
from killcheck.embedded.nodes.podlife import PodLife
from killcheck.embedded.nodes.registry import Cache, Cached, Registry, credentials
from killcheck.kube import releases
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.machineless import HOLLOW
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from killcheck.embedded.api.podexec import Execution
    from killcheck.embedded.api.portforward import Carried
    from killcheck.embedded.nodes.registry import Credentials

__all__ = ["Kubelet"]

#: Names in ``node.status.images``: the kubelet's ``--node-status-max-images``.
MAX_IMAGES = 50
#: Pull progress of a waiting container in the words of a log request (pkg/kubelet/kubelet_pods.go).
_WAITING = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}


class Kubelet:
    """Runs the pods bound to one Node. ``index`` tells its pods' addresses from other nodes'."""

    def __init__(
        self,
        node: Obj,
        kube: Kube,
        loop: Loop,
        *,
        registry: Registry,
        runtime: Runtime,
        rng: random.Random,
        index: int,
        runs: Callable[[Obj], bool],
        network: Callable[[Obj], NetworkPolicy],
        unknown: Callable[[Obj, str], None],
        lacks: Callable[[Obj, str], None],
        ran: Callable[[Launch], None],
    ) -> None:
        self.node = node
        self.name = name_of(node)
        self.kube = kube
        self.loop = loop
        self.registry = registry
        self.runtime = runtime
        self.rng = rng
        self.index = index
        self.runs = runs
        self.network = network
        self.ran = ran
        self._unknown = unknown
        self.lacks = lacks
        self.version = releases.DEFAULT.version
        #: Whether the node controller here takes a Lease's word for it that it is renewed; a real one does not.
        self.vouched = True
        self.stopped = False
        #: The machine itself has ended, and not only its kubelet.
        self.powered_off = False
        self.events = EventRecorder(kube, loop, "kubelet", host=self.name)
        self.image_backoff = Backoff()
        self.crash_backoff = Backoff()
        self.pulls_free_at = 0.0
        self.pods: dict[str, PodLife] = {}
        self.heartbeat = Heartbeat(self)
        self._addresses = 0
        self._images_due = False

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
        elif dig(pod, "status", "phase") not in ("Succeeded", "Failed") or pod["metadata"].get("deletionTimestamp"):
            life = self.pods[uid_of(pod)] = PodLife(self, pod)
            life.begin()

    def removed(self, pod: Obj) -> None:
        """A pod's object is gone."""
        life = self.pods.get(uid_of(pod))
        if life is not None and not self.stopped:
            life.pod = pod
            life.removed()

    def dropped(self, life: PodLife) -> None:
        """A pod worker has nothing left to do."""
        self.pods.pop(life.uid, None)
        self.image_backoff.forget(life.uid)
        self.crash_backoff.forget(life.uid)
        self.runtime.release(life.uid)

    def holding(self) -> list[PodLife]:
        """Pods with a container that runs on this node, whatever the API says of them."""
        return [life for life in self.pods.values() if any(c.alive for c in life.everything)]

    # -- for pod workers -----------------------------------------------------------------------------------
    @property
    def images(self) -> Cache:
        """The images on this node."""
        return self.registry.cache(self.name)

    @property
    def host_ip(self) -> str:
        """The node's own address."""
        addresses = {a["type"]: a["address"] for a in dig(self.node, "status", "addresses", default=[])}
        return addresses.get("InternalIP") or f"10.0.{self.index // 250}.{self.index % 250 + 4}"

    def next_pod_ip(self, life: PodLife) -> str:
        """A fresh address for a pod; the node's own for one on the host's network.

        On a cluster that is somebody's it is one of RFC 2544, which are routed nowhere: no Service of theirs may send
        to a pod of theirs that happens to have the same.
        """
        if life.pod["spec"].get("hostNetwork"):
            return self.host_ip
        self._addresses += 1
        if HOLLOW in labels_of(self.node):
            return f"198.{18 + self.index // 256 % 2}.{self.index % 256}.{self._addresses % 254 + 1}"
        return f"10.244.{self.index % 256}.{self._addresses % 254 + 1}"

    def hex_id(self) -> str:
        """A container's id."""
        return f"{self.rng.getrandbits(256):064x}"

    def pull_secrets(self, pod: Obj) -> Credentials:
        """The logins in the pod's imagePullSecrets; one that is not there is an event, and no more."""
        found: list[Obj] = []
        missing: list[str] = []
        for ref in pod["spec"].get("imagePullSecrets") or ():
            try:
                secret = self.kube.find(r.SECRETS, ref.get("name", ""), namespace_of(pod))
            except KubeError:
                secret = None
            if secret is None:
                missing.append(ref.get("name", ""))
            else:
                found.append(secret)
        if missing:
            self.events.emit(
                pod,
                "Warning",
                "FailedToRetrieveImagePullSecret",
                f"Unable to retrieve some image pull secrets ({', '.join(missing)}); attempting to pull the image may "
                "not succeed.",
                api_version="v1",
                object_kind="Pod",
            )
        return credentials(found)

    def image_arrived(self, cached: Cached) -> None:
        """An image was pulled: the node's status says so a little later."""
        self.images.put(cached)
        if not self._images_due:
            self._images_due = True
            self.loop.call_later(1.0, self.show_images)

    def show_images(self) -> None:
        """Write ``status.images``, largest first."""
        self._images_due = False
        if self.stopped:
            return
        images = sorted(self.images.images.values(), key=lambda c: (-c.size, c.image))[:MAX_IMAGES]
        listed = [
            {"names": [c.image_id, c.image] if c.image != c.image_id else [c.image], "sizeBytes": c.size}
            for c in images
        ]
        try:
            self.kube.patch(r.NODES, self.name, {"status": {"images": listed}}, subresource="status")
        except KubeError:
            return

    def services(self) -> dict[str, str]:
        """``name.namespace`` of every Service with a cluster IP, and the IP."""
        listed = self.kube.list(r.SERVICES).items
        addresses = {f"{name_of(s)}.{namespace_of(s)}": dig(s, "spec", "clusterIP", default="") for s in listed}
        return {name: ip for name, ip in addresses.items() if ip and ip != "None"}

    def check_command(self, launch: Launch) -> None:
        """Raises StartError where the modelled image has no such program."""
        commands.check(launch)

    @property
    def described(self) -> bool:
        """Whether somebody described the node: what is on one that was made here nobody knows."""
        return ASSUMED not in labels_of(self.node)

    def unknown(self, life: PodLife, why: str) -> None:
        """A container's outcome is unknown."""
        self._unknown(life.pod, why)

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
            f'pod {name_of(pod)} is hollow: {why} (the annotation {RUN}: "true" lets its containers really run)',
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
