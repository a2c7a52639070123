"""What a container's own network leads to - the API server, names, the world outside - and the one that a pod's share.

The containers of one pod have one network, as there: they meet on localhost, and a port is taken for all of them. A
process that does nothing else (``pause`` there, too) keeps it from the first init container to the pod's end.
"""

from __future__ import annotations

import contextlib
import signal
import socket
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

from killcheck.clock import wall_seconds
from killcheck.embedded.connection import Client
from killcheck.embedded.limits import DRILL_IT
from killcheck.embedded.nodes import dns
from killcheck.embedded.nodes.execution import Launch
from killcheck.embedded.nodes.external_endpoints import App, ExternalConnections
from killcheck.embedded.nodes.spawnerclient import SpawnerClient
from killcheck.embedded.pki import SERVICE_IP
from killcheck.entries import Assumption
from killcheck.executor.proxies import API_NAMES
from killcheck.kube.objects import Obj, ref_of

if TYPE_CHECKING:
    from killcheck.embedded.nodes.host_side import HostSide

__all__ = ["AGENT_PORT", "DNS_IP", "Network", "known_silent", "shared"]

#: Addresses of a private network: cluster DNS as kubeadm gives it, and where shims ask.
DNS_IP = "10.96.0.10"
AGENT_PORT = 47113
#: How long a resolver waits for an answer, in the cluster's time; it asks twice (resolv.conf: timeout, attempts).
DNS_TIMEOUT_S = 5.0
#: Wall seconds that a program may take to notice that its look-up has failed: curl asks its thread that often.
DNS_NEWS_S = 0.25


def shared(pod: Obj) -> bool:
    """Whether a pod has several containers, which then share a network."""
    return len(pod["spec"].get("initContainers") or ()) + len(pod["spec"]["containers"]) > 1


def known_silent(address: str) -> bool:
    """Whether nobody answers there anywhere: a link's own addresses, and those of examples (RFC 5737, TEST-NET-1)."""
    found = ip_address(address)
    return found.is_link_local or found in _EXAMPLES


_EXAMPLES = ip_network("192.0.2.0/24")


class Network:
    """The far end of one network: of a container, or of a pod.

    ``client``: whose requests the API server's answers are; ``pending``: listening sockets at which somebody may wait.
    """

    def __init__(self, runtime: HostSide, launch: Launch, name: str) -> None:
        self.runtime = runtime
        self.launch = launch
        self.name = name
        self.client = Client(name)
        self.external = ExternalConnections(runtime.external.seen_by(launch), launch.network)
        self.pending: list[socket.socket] = []
        #: Until when (wall seconds) a program may not have noticed yet what it has just been told.
        self.news_until = 0.0
        #: The process that keeps a shared network; 0: it is its only container's.
        self.keeper = 0
        #: The containers that are in a shared one now.
        self.members: set[str] = set()
        self._sockets: list[socket.socket] = []
        for alias, address in launch.hosts.items():
            if alias in API_NAMES and address != self.service_ip and not known_silent(address):
                runtime.limits.meet(self.who, f"its host aliases say that {alias} is {address}, which is not modelled")

    @property
    def service_ip(self) -> str:
        """Where the API server is, seen from inside: its Service's address, whatever the container's variables say."""
        return self.launch.services.get("kubernetes.default") or SERVICE_IP

    def inside(self) -> Obj:
        """What there is to listen at in it, and its addresses: a part of the job that makes it."""
        endpoints = self.external.endpoints
        listen: list[list[Any]] = [["tcp", "127.0.0.1", AGENT_PORT], ["udp", DNS_IP, 53]]
        if self.launch.network.api != "refuse":
            listen.append(["tcp", self.service_ip, 443])
        listen += [["tcp", place.address, place.port] for place in endpoints.places]
        addresses = (self.service_ip, DNS_IP, self.launch.pod_ip, *endpoints.addresses())
        return {"listen": listen, "addresses": list(dict.fromkeys(filter(None, addresses)))}

    def keep(self, spawner: SpawnerClient) -> None:
        """Make a network that containers join one by one. Raises SetUpError."""
        job = {
            "do": "spawn",
            "id": self.name,
            "argv": ["pause"],
            "env": {},
            "stdio": [],
            "isolated": True,
            "pause": True,
        } | self.inside()
        self.keeper, sockets = spawner.spawn(job, [])
        self.serve(spawner, sockets)

    def serve(self, spawner: SpawnerClient, sockets: list[socket.socket]) -> None:
        """Answer at the sockets that :meth:`inside` asked for."""
        endpoints = self.external.endpoints
        places = [sockets.pop() for _ in endpoints.places][::-1]
        for sock, place in zip(places, endpoints.places, strict=True):
            self._lead_out(spawner, sock, place.target)
        agent, names, *api = sockets
        spawner.agent.serve(agent)
        names.setblocking(False)
        spawner.io.add(names, lambda: self._look_up(names))
        self._sockets += [agent, names]
        self.pending += [agent, names]
        for listener in api:
            self.lead_to_api(listener)

    def lead_to_api(self, listener: socket.socket) -> None:
        """Let the API server accept there, or nobody, as the network has it."""
        if self.launch.network.api == "allow":
            self.pending.append(listener)
            self.runtime.wire.adopt(listener, self.client)
        elif self.launch.network.api == "drop":
            self._sockets.append(listener)
        else:
            listener.close()

    def way_out(self, spawner: SpawnerClient, target: int | App) -> int:
        """A port of this host that leads to another, seen to be used."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._lead_out(spawner, listener, target)
        return int(listener.getsockname()[1])

    def fits(self, launch: Launch) -> bool:
        """Whether a container finds in it what it should; while others are in it, it does."""
        theirs, ours = launch.network, self.launch.network
        return bool(self.members) or (theirs.api, theirs.dns, theirs.metadata) == (ours.api, ours.dns, ours.metadata)

    def close(self) -> None:
        """Nobody is in it any more; idempotent."""
        self.runtime.wire.drop(self.client)
        spawner = self.runtime.spawner
        if spawner is not None:
            if self.keeper:
                spawner.send({"do": "signal", "id": self.name, "signal": int(signal.SIGKILL)})
            for sock in self._sockets:
                spawner.io.remove(sock)
        self.keeper = 0
        self._sockets, self.pending = [], []

    def resolved_outside(self, name: str) -> None:
        """Somebody looked for a name beyond the cluster."""
        namespace = f".{self.launch.pod['metadata']['namespace']}.svc.cluster.local"
        if name.endswith((".svc", ".svc.cluster.local", namespace)) or name in API_NAMES:
            return
        if name not in self.runtime.looked_for:
            self.runtime.looked_for.append(name)
        self.runtime.assume(
            Assumption(f"{self.who} looked for {name}: nothing outside the cluster exists here", self.who)
        )
        self.runtime.limits.meet(self.who, f"it looked for {name}, and nothing outside the cluster exists here")

    def service(self, name: str, address: str | None) -> None:
        """Somebody looked for a Service, or connects to its address: what is behind it is in another pod."""
        if name.partition(".")[0] == "kubernetes" or self.launch.network.dns != "allow":
            return
        if address is None:
            self.runtime.limits.meet(
                self.who,
                f"it looked for Service {name}, which is not among the manifests",
                f"add what serves it to the manifests, or {DRILL_IT}",
            )
        else:
            self.runtime.limits.meet(
                self.who, f"it asked Service {name}: pods here are hollow, and nothing answers behind it"
            )

    @property
    def who(self) -> str:
        """The pod, in words."""
        return ref_of({"kind": "Pod"} | self.launch.pod)

    # -- inside --------------------------------------------------------------------------------------------
    def _lead_out(self, spawner: SpawnerClient, listener: socket.socket, target: int | App) -> None:
        listener.setblocking(False)
        self._sockets.append(listener)
        self.pending.append(listener)
        spawner.io.add(listener, lambda: self.external.accept(listener, target))

    def _look_up(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            query, peer = sock.recvfrom(4096)
            policy = self.launch.network.dns
            self.news_until = 0.0
            reply = dns.answer(query, self._address_of, working=policy == "allow", given_up=policy == "drop")
            if reply is None:
                return
            late_s = DNS_TIMEOUT_S if policy == "drop" else self._slowed_s(query)
            spawner = self.runtime.spawner
            if not late_s:
                sock.sendto(reply, peer)
            elif spawner is not None:
                with spawner.io.entered():
                    self.runtime.loop.call_later(late_s, self._reply_late, sock, reply, peer)

    def _slowed_s(self, query: bytes) -> float:
        """How long its answer takes where DNS works: no time, unless somebody says otherwise."""
        slow = self.runtime.wire.names
        return slow(dns.name_of_query(query)[0]) if slow is not None else 0.0

    def _reply_late(self, sock: socket.socket, reply: bytes, peer: tuple[Any, ...]) -> None:
        """A look-up that nobody answered has taken the resolver's patience, or its answer was slow to come."""
        self.news_until = wall_seconds() + DNS_NEWS_S
        with contextlib.suppress(OSError):
            sock.sendto(reply, peer)

    def asks_its_own(self, name: str) -> None:
        """Somebody looked for the API server, and not at the cluster's DNS."""
        if self.launch.name_servers and name in API_NAMES:
            asked = ", ".join(self.launch.name_servers)
            self.runtime.limits.meet(self.who, f"it asks {asked} for {name}: what is known there is not modelled")

    def _address_of(self, name: str) -> str | None:
        self.asks_its_own(name)
        if self.launch.cluster_dns:
            if name == "kubernetes.default.svc.cluster.local":
                return self.service_ip
            service = name.removesuffix(".svc.cluster.local")
            if service != name:
                if service.count(".") == 1 and service not in self.runtime.services_asked:
                    self.runtime.services_asked.append(service)
                found = self.launch.services.get(service)
                if found or service.count(".") == 1:
                    self.service(service, found)
                return found
        if not name.endswith(".cluster.local") and "." in name:
            self.resolved_outside(name)
        return None
