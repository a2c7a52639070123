"""A kubelet for every Node of the cluster."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from killcheck.clock import Loop
from killcheck.embedded.api.http import User
from killcheck.embedded.limits import DRILL_IT
from killcheck.embedded.nodes.execution import Exit, Launch, NetworkPolicy, NotRun, Running, Runtime
from killcheck.embedded.nodes.kubelet import Kubelet
from killcheck.embedded.nodes.node_agent import Dependencies
from killcheck.embedded.nodes.registry import Registry
from killcheck.entries import Assumption
from killcheck.images.contents import Contents
from killcheck.kube import gpus, releases
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.informer import Change, Informer
from killcheck.kube.machineless import HOLLOW
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    controller_of,
    dig,
    labels_of,
    name_of,
    namespace_of,
    ref_of,
    uid_of,
)
from killcheck.kube.pod_annotations import EXECUTE
from killcheck.kube.secret_text import secrets_of, unread
from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.embedded.nodes.host_runtime import Isolation

__all__ = ["NoRuntime", "NodeAgents", "has_own_kubelet", "runs"]


class Endpoints(Protocol):
    """Where kubelets are registered, so that the API server finds them (``ApiServer``)."""

    kubelets: dict[str, Any]


#: How a kubelet says that a Secret is not there, and that it has not the key (recording 33).
_NO_SECRET = lazy_re.compile(r'secret "([^"]+)" not found$')
_NO_KEY = lazy_re.compile(r"(?:couldn't find key (?=\S+ in Secret)|references non-existent secret key: )(\S+)")


def runs(pod: Obj) -> bool:
    """Whether a pod's containers are really run: executors are, servers and whatever holds GPUs are not."""
    said = annotations_of(pod).get(EXECUTE)
    if said is not None:
        return said == "true"
    if gpus.devices(pod):
        return False
    owner = controller_of(pod)
    if owner is not None:
        return bool(owner.get("kind") == "Job")
    return dig(pod, "spec", "restartPolicy", default="Always") in ("Never", "OnFailure")


def has_own_kubelet(node: Obj) -> bool:
    """Whether a kubelet that is elsewhere registered this Node: a hollow one of another process, or a real one."""
    return HOLLOW in labels_of(node) or any(
        one.get("manager") == "kubelet" for one in dig(node, "metadata", "managedFields", default=[])
    )


class NoRuntime(Runtime):
    """Runs nothing: what would have run is said to be unknown."""

    def __init__(self, why: str) -> None:
        self.why = why

    def start(
        self,
        launch: Launch,
        on_exit: Callable[[Exit], None],
        on_unknown: Callable[[str], None],
    ) -> Running:
        """Raises NotRun."""
        raise NotRun(self.why)

    def release(self, pod_uid: str) -> None:
        """Nothing to release."""

    def pod_gone(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing to close."""


class NodeAgents:
    """Watches Nodes and pods and runs a :class:`Kubelet` for each Node, from the moment it is made until :meth:`stop`.

    ``kube_for`` gives a client with a user's identity. ``exec_mode``: ``host`` runs executors as processes on this host
    (``wire`` is then the TLS server they reach), ``model`` makes the API calls that reading finds in them, ``none``
    runs nothing. ``runtime`` overrides all. ``labels`` selects the Nodes: of others nothing is seen, and nothing done.
    """

    def __init__(
        self,
        kube_for: Callable[[User], Kube],
        loop: Loop,
        registry: Registry,
        *,
        exec_mode: str = "none",
        rng: random.Random | None = None,
        wire: Any = None,
        server: Endpoints | None = None,
        runtime: Runtime | None = None,
        labels: str = "",
        version: str = releases.DEFAULT.version,
    ) -> None:
        self.version = version
        #: See :class:`~killcheck.embedded.nodes.node_agent.Dependencies`.
        self.vouched = True
        self.kube_for = kube_for
        self.loop = loop
        self.registry = registry
        self.rng = rng or random.Random(1)  # noqa: S311 - jitter and names
        self.server = server
        self.runtime = runtime or self._modelled(exec_mode) or _runtime(exec_mode, loop, wire)
        self.kubelets: dict[str, Kubelet] = {}
        #: Pods whose outcome is unknown, each a sentence that says why.
        self.unknown: list[str] = []
        #: The same, with the pods themselves.
        self.not_run: list[tuple[Obj, str]] = []
        #: Told each of these sentences once, when it becomes true.
        self.on_unknown: Callable[[str], None] = lambda _said: None
        self.runs: Callable[[Obj], bool] = runs
        #: Nodes that have a kubelet; asked when one appears.
        self.tends: Callable[[Obj], bool] = lambda _node: True
        #: What a pod's packets meet; asked whenever one of its containers starts.
        self.network: Callable[[Obj], NetworkPolicy] = lambda _pod: NetworkPolicy()
        self._made = 0
        self._stopped = False
        self._ran: dict[str, Contents] = {}
        #: Containers that were really started, by their pod's UID, and the pods.
        self._began: dict[str, tuple[Obj, set[str]]] = {}
        kube = kube_for(User("killcheck:hollow-nodes", ("system:masters", "system:authenticated")))
        #: Of what pods refer to; begun when the first of them rests for want of it.
        self._references: list[Informer] = []
        self._nodes = Informer(kube, loop, r.NODES, labels=labels, on_change=self._node_changed)
        self._pods = Informer(kube, loop, r.PODS, on_change=self._pod_changed)
        self._pods.start()
        self._nodes.start()

    @property
    def assumptions(self) -> list[Assumption]:
        """What is assumed about the images that were pulled and the programs that ran, a sentence each."""
        real = self.runtime.images  # those that were really run are no assumption
        told = [
            Assumption(
                f"nothing is known of image {image}: assumed that it exists"
                + (" and contains what this host has" if image in self._ran else ""),
                f"image {image}",
            )
            for image in self.registry.assumed
            if image not in real
        ]
        told += [
            Assumption(f"what image {image} contains is assumed, not looked up", f"image {image}")
            for image, contents in self._ran.items()
            if contents.known and contents.assumed and image not in real
        ]
        return told + list(self.runtime.assumptions)

    @property
    def ran(self) -> list[Obj]:
        """The pods of which every container was really started."""
        return [pod for pod, names in self._began.values() if {c["name"] for c in pod["spec"]["containers"]} <= names]

    def _modelled(self, exec_mode: str) -> Runtime | None:
        from killcheck.embedded.api.server import ApiServer

        if exec_mode != "model" or not isinstance(self.server, ApiServer):
            return None
        from killcheck.embedded.nodes.modelled_executor import ModelledRuntime

        return ModelledRuntime(
            self.kube_for(User("killcheck:modelled", ("system:masters", "system:authenticated"))),
            self.server,
            self.loop,
        )

    def pods(self) -> list[Obj]:
        """The pods that are bound to its nodes, as last seen."""
        return [pod for pod in self._pods.values() if pod["spec"].get("nodeName") in self.kubelets]

    # -- what is done to it -----------------------------------------------------------------------------
    def kubelet(self, node: str) -> Kubelet:
        """A node's kubelet. Raises KeyError."""
        return self.kubelets[node]

    def stop(self, node: str | None = None) -> None:
        """Stop one node's kubelet (its containers run on), or without a name all of them, with everything they ran."""
        if node is not None:
            self.kubelets[node].stop()
            return
        if self._stopped:
            return
        self._stopped = True
        for informer in (self._nodes, self._pods, *self._references):
            informer.stop()
        for kubelet in self.kubelets.values():
            kubelet.vanish()
        self.kubelets.clear()
        self.runtime.close()

    pause = stop

    def start(self, node: str) -> None:
        """Start a stopped node's kubelet again."""
        self.kubelets[node].resume(self._bound(node))

    def power_off(self, node: str) -> None:
        """The machine stops: its kubelet and every container on it; the API is told nothing. Unknown nodes: nothing."""
        kubelet = self.kubelets.get(node)
        if kubelet is not None:
            kubelet.power_off()

    def shut_down(self, node: str) -> None:
        """The machine is about to go, and its kubelet hears of it. Unknown nodes: nothing."""
        kubelet = self.kubelets.get(node)
        if kubelet is not None:
            kubelet.shut_down()

    # -- watching ------------------------------------------------------------------------------------------
    def _node_changed(self, change: Change, _old: Obj | None, node: Obj) -> None:
        name = name_of(node)
        if change == "deleted":
            kubelet = self.kubelets.pop(name, None)
            if kubelet is not None:
                kubelet.vanish()
            if self.server is not None:
                self.server.kubelets.pop(name, None)
            return
        kubelet = self.kubelets.get(name)
        if kubelet is not None:
            kubelet.node = node
            return
        if self.tends(node):
            self._add(name, node)

    def _add(self, name: str, node: Obj) -> None:
        identity = User(f"system:node:{name}", ("system:nodes", "system:authenticated"))
        shared = Dependencies(
            registry=self.registry,
            runtime=self.runtime,
            rng=self.rng,
            runs=self._runs,
            network=self._network,
            unknown=self._is_unknown,
            lacks=self._lacks,
            ran=self._has_run,
            references=self._follow_references,
            version=self.version,
            vouched=self.vouched,
        )
        kubelet = Kubelet(node, self.kube_for(identity), self.loop, shared, index=self._made)
        self._made += 1
        self.kubelets[name] = kubelet
        if self.server is not None:
            self.server.kubelets[name] = kubelet
        kubelet.start()
        for pod in self._bound(name):
            kubelet.seen(pod)

    def _pod_changed(self, change: Change, _old: Obj | None, pod: Obj) -> None:
        if change == "deleted":
            self.runtime.pod_gone()
        kubelet = self.kubelets.get(pod["spec"].get("nodeName") or "")
        if kubelet is None:
            return
        if change == "deleted":
            kubelet.removed(pod)
        else:
            kubelet.seen(pod)

    def _follow_references(self) -> bool:
        """Not on a cluster that is somebody's: its Secrets are none of ours."""
        if self.server is None:
            return False
        if not self._references:
            kube = self._nodes.kube
            for resource in (r.CONFIGMAPS, r.SECRETS):
                informer = Informer(kube, self.loop, resource, on_change=self._reference_changed)
                self._references.append(informer)
            for informer in self._references:
                informer.start()
        return True

    def _reference_changed(self, _change: Change, _old: Obj | None, new: Obj) -> None:
        for kubelet in self.kubelets.values():
            kubelet.stir(namespace_of(new))

    def _bound(self, node: str) -> list[Obj]:
        return [pod for pod in self._pods.values() if pod["spec"].get("nodeName") == node]

    def _runs(self, pod: Obj) -> bool:
        return self.runs(pod)

    def _has_run(self, launch: Launch) -> None:
        self._ran[launch.image] = launch.contents
        self._began.setdefault(uid_of(launch.pod), (launch.pod, set()))[1].add(launch.container)

    def _network(self, pod: Obj) -> NetworkPolicy:
        return self.network(pod)

    def _lacks(self, pod: Obj, message: str) -> None:
        """A pod cannot start. Secrets are seldom among manifests: on the embedded cluster a missing one says nothing.

        Nor does a missing key of one whose content is elsewhere. Told of Jobs' pods alone, which somebody waits for.
        """
        owner = controller_of(pod) or {}
        if self.server is None or owner.get("kind") != "Job":
            return
        found, key = _NO_SECRET.search(message), _NO_KEY.search(message)
        if found:
            needed = f"it needs Secret {namespace_of(pod)}/{found[1]}, which is not among the manifests"
            self._is_unknown(pod, f"{needed}: add one like it, or {DRILL_IT}")
        kube = self.kubelets[pod["spec"]["nodeName"]].kube
        for name in dict.fromkeys(secrets_of(pod["spec"])) if key else ():
            how = unread(kube.find(r.SECRETS, name, namespace_of(pod)) or {"metadata": {}}) if name else None
            if how is not None and key:
                needed = f"it needs the key {key[1]} of Secret {namespace_of(pod)}/{name}, which is {how}"
                self._is_unknown(pod, f"{needed}: add one like it, or {DRILL_IT}")

    def _is_unknown(self, pod: Obj, why: str) -> None:
        told = f"{ref_of({'kind': 'Pod'} | pod)}: {why}"
        if told not in self.unknown:
            self.unknown.append(told)
            self.not_run.append((pod, why))
            self.on_unknown(told)


#: ``--exec`` on this host: what keeps strangers in, or nothing. ``shipped`` is for killcheck's own manifests alone.
_ON_HOST: dict[str, Isolation] = {"host": "sandbox", "shipped": "shipped", "unisolated": "unisolated"}


def _runtime(exec_mode: str, loop: Loop, wire: Any) -> Runtime:
    if exec_mode in _ON_HOST and wire is not None:
        from killcheck.embedded.nodes.host_runtime import HostRuntime

        return HostRuntime(loop, wire, isolation=_ON_HOST[exec_mode])
    if exec_mode == "auto" and wire is not None:
        return _strongest(loop, wire)
    if exec_mode == "docker" and wire is not None:
        from killcheck.embedded.nodes.in_containers import ContainerRuntime

        return ContainerRuntime(loop, wire)
    return NoRuntime("its command was not run: nobody allowed it to run on this host (--exec host)")


def _strongest(loop: Loop, wire: Any) -> Runtime:
    """A sandbox of this host, else containers of its Docker Engine. Raises NoSandbox where there is neither."""
    from killcheck.embedded.nodes.host_runtime import HostRuntime
    from killcheck.embedded.nodes.in_containers import ContainerRuntime
    from killcheck.embedded.nodes.spawnerclient import NoSandbox

    runtime = HostRuntime(loop, wire)
    try:
        runtime.settle()
        return runtime
    except NoSandbox as error:
        runtime.close()
        try:
            return ContainerRuntime(loop, wire)
        except KubeError as none:
            raise NoSandbox(f"{error} (docker: {none})") from None
