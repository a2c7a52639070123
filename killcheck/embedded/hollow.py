"""The kubelets of the embedded cluster as clients of an API server that is elsewhere, in real time.

They are the same kubelets: what differs is the client that they are given, and that containers that really run are led
to that server. Each asks in the name of its own node where the server lets us, so that the server itself (Node
authorizer, NodeRestriction) keeps it to its node and its node's pods.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from killcheck.clock import Loop
from killcheck.embedded.api.http import User
from killcheck.embedded.controllers.runtime import Informers
from killcheck.embedded.models.networkpolicies import NetworkPolicies
from killcheck.embedded.nodes.host_runtime import HostRuntime
from killcheck.embedded.nodes.kubelet import Kubelet
from killcheck.embedded.nodes.kubelet_api import KubeletApi, Trust
from killcheck.embedded.nodes.kubelets import NodeAgents, NoRuntime
from killcheck.embedded.nodes.passage import Passage
from killcheck.embedded.nodes.registry import Registry
from killcheck.kube.acting_as import acting_as
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj

__all__ = ["HollowKubelets", "facing"]

_NODE = "system:node:"


def facing(url: str) -> str:
    """The address of this machine that an API server's answers go to: where it can reach us, if anywhere.

    Nothing is sent. The loopback where no route leads there.
    """
    parts = urlsplit(url)
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            parts.hostname,
            parts.port or 443,
            type=socket.SOCK_DGRAM,  # a route is chosen, and no packet sent
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


class HollowKubelets:
    """A kubelet for each Node that ``labels`` selects, from :meth:`start` to :meth:`stop`.

    ``url``: the API server's; ``authority``: its CA, PEM. ``impersonating``: whether each may ask as its node.
    ``exec_mode``: ``host`` runs executors as processes of this host, in a sandbox; ``none`` runs nothing.
    ``enforcing``: whether NetworkPolicies hold for what runs here, as under a network plugin that enforces them.
    """

    def __init__(
        self,
        kube: Kube,
        loop: Loop,
        *,
        labels: str,
        url: str,
        authority: str = "",
        exec_mode: str = "none",
        impersonating: bool = False,
        enforcing: bool = False,
    ) -> None:
        self.kube = kube
        self.loop = loop
        self.labels = labels
        self.exec_mode = exec_mode
        self.impersonating = impersonating
        self.enforcing = enforcing
        self._plugin: NetworkPolicies | None = None
        self.registry = Registry()
        self.agents: NodeAgents | None = None
        #: Told of each pod whose command is not run, a sentence.
        self.told: Callable[[str], None] = lambda _said: None
        self.address = facing(url)
        self._authority = authority
        self._kubelets: KubeletApi | None = None
        parts = urlsplit(url)
        self._passage = Passage((parts.hostname or "", parts.port or 443))

    def listen(self) -> int:
        """Serve the kubelets' part of the API, and answer its port: Nodes say it. Raises OSError."""
        near = ipaddress.ip_address(self.address).is_loopback
        trust = None if near else Trust(self._authority, self._may)
        self._kubelets = KubeletApi(self._all, self.loop, self.address, trust)
        return self._kubelets.start()

    def start(self) -> None:
        """Tend the Nodes that are there, and those that come. Raises KubeError."""
        runtime = (
            HostRuntime(self.loop, self._passage)
            if self.exec_mode == "host"
            else NoRuntime("its command was not run: nobody allowed it to run on this host (--exec host)")
        )
        self.agents = NodeAgents(self._kube_for, self.loop, self.registry, runtime=runtime, labels=self.labels)
        self.agents.on_unknown = self.told
        if self.enforcing and self.exec_mode == "host":  # their network is ours: no plugin of the cluster's has it
            self._plugin = NetworkPolicies(self.kube, self.loop, Informers(self.kube, self.loop), self.agents)
            self._plugin.start()

    def stop(self) -> None:
        """End all that runs here; idempotent. The API is told nothing."""
        if self._kubelets is not None:
            self._kubelets.stop()
            self._kubelets = None
        if self._plugin is not None:
            self._plugin.stop()
            self._plugin.informers.stop()
            self._plugin = None
        if self.agents is not None:
            self.agents.stop()
        self._passage.close()

    @property
    def pods(self) -> list[Obj]:
        """The pods on these nodes, as last seen."""
        return [] if self.agents is None else self.agents.pods()

    # -- inside --------------------------------------------------------------------------------------------
    def _all(self) -> list[Kubelet]:
        return [] if self.agents is None else list(self.agents.kubelets.values())

    def _may(self, asker: User, node: str) -> bool:
        if not asker.name:  # a review without a user asks about ourselves
            return False
        return self.kube.may("get", "nodes", subresource="proxy", name=node, user=asker.name, groups=asker.groups)

    def _kube_for(self, user: User) -> Kube:
        if self.impersonating and user.name.startswith(_NODE):
            return acting_as(self.kube, user.name, "system:nodes")
        return self.kube
