"""A network plugin that enforces egress NetworkPolicies on executors, as far as they can tell: the API server and DNS.

Policies are matched after destination NAT, as plugins do: the API server is its endpoint's address and port, never the
Service's (KBVE/kbve#14223: an ipBlock of the ClusterIP never matched). What a policy does not allow is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, ClassVar

from killcheck.embedded.controllers.runtime import Controller
from killcheck.embedded.nodes.execution import NetworkPolicy, Reach
from killcheck.embedded.nodes.external_endpoints import METADATA_IP
from killcheck.kube import resources as r
from killcheck.kube import selectors
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, labels_of, namespace_of, uid_of

if TYPE_CHECKING:
    from killcheck.embedded.nodes.kubelets import NodeAgents

__all__ = ["NetworkPolicies"]

#: Where cluster DNS answers: a pod of kube-system, by the labels that kubeadm gives it.
DNS_ADDRESS = "10.244.0.2"
DNS_LABELS = {"k8s-app": "kube-dns"}
DNS_NAMESPACE = {"kubernetes.io/metadata.name": "kube-system"}


@dataclass(eq=False, repr=False)
class NetworkPolicies(Controller):
    """Sets what each pod's packets meet; ``nodes`` are the hollow nodes.

    An API server that publishes no endpoint of its own is at its Service's addresses.
    """

    nodes: NodeAgents

    name: ClassVar[str] = "network-plugin"
    takes: ClassVar[tuple[str, ...]] = ("nodes",)

    def setup(self) -> None:
        """Follow policies, and be asked when a container starts."""
        self._known: dict[str, NetworkPolicy] = {}
        self.policies = self.follow(r.NETWORKPOLICIES, lambda change, old, new: [(namespace_of(new), "")])
        self.pods = self.listen(r.PODS, self._pod_changed)
        self.nodes.network = self._network

    def stop(self) -> None:
        """Without a plugin every packet arrives."""
        super().stop()
        self.nodes.network = lambda _pod: NetworkPolicy()

    def _pod_changed(self, change: Change, _old: Obj | None, pod: Obj) -> None:
        if change == "deleted":
            self._known.pop(uid_of(pod), None)

    def _network(self, pod: Obj) -> NetworkPolicy:
        """What a container's packets meet; the same object as long as the pod lives, so that it can change."""
        network = self._known.setdefault(uid_of(pod), NetworkPolicy())
        network.api, network.dns, network.metadata = self._reach(pod)
        return network

    def reconcile(self, key: tuple[str, str]) -> None:
        """A namespace's policies have changed: bring the network of its running pods up to date."""
        for pod in self.pods.values():
            if namespace_of(pod) == key[0] and uid_of(pod) in self._known:
                self._network(pod)

    def _reach(self, pod: Obj) -> tuple[Reach, Reach, Reach]:
        """What becomes of packets to the API server, to DNS, and to instance metadata."""
        if dig(pod, "spec", "hostNetwork"):
            return "allow", "allow", "allow"
        rules = [policy["spec"] for policy in self.policies.values() if _isolates(policy, pod)]
        if not rules:
            return "allow", "allow", "allow"
        api = any(
            _allows(rule, address, port, "TCP", {}, {})
            for spec in rules
            for rule in spec.get("egress") or ()
            for address, port in self._api()
        )
        dns = any(
            _allows(rule, DNS_ADDRESS, 53, "UDP", DNS_NAMESPACE, DNS_LABELS)
            for spec in rules
            for rule in spec.get("egress") or ()
        )
        metadata = any(
            _allows(rule, METADATA_IP, 80, "TCP", {}, {}) for spec in rules for rule in spec.get("egress") or ()
        )
        return ("allow" if api else "drop"), ("allow" if dns else "drop"), ("allow" if metadata else "drop")

    def _api(self) -> list[tuple[str, int]]:
        slices = self.kube.list(r.ENDPOINTSLICES, "default", labels="kubernetes.io/service-name=kubernetes").items
        found = [
            (address, int(port["port"]))
            for one in slices
            for endpoint in one.get("endpoints") or ()
            for address in endpoint["addresses"]
            for port in one.get("ports") or ()
        ]
        service = {} if found else self.kube.find(r.SERVICES, "kubernetes", "default") or {}
        return found or [(address, 443) for address in dig(service, "spec", "clusterIPs", default=[])]


def _isolates(policy: Obj, pod: Obj) -> bool:
    spec = policy.get("spec") or {}
    types = spec.get("policyTypes") or (["Ingress", "Egress"] if "egress" in spec else ["Ingress"])
    return (
        "Egress" in types
        and namespace_of(policy) == namespace_of(pod)
        and _selects(spec.get("podSelector") or {}, labels_of(pod))
    )


def _selects(selector: Obj, labels: dict[str, str]) -> bool:
    return selectors.from_match_labels(selector).matches(labels)


def _allows(  # noqa: PLR0917 - one packet, told in full
    rule: Obj,
    address: str,
    port: int,
    protocol: str,
    namespace: dict[str, str],
    labels: dict[str, str],
) -> bool:
    ports, peers = rule.get("ports"), rule.get("to")
    if ports and not any(_has_port(entry, port, protocol) for entry in ports):
        return False
    return not peers or any(_is_peer(peer, address, namespace, labels) for peer in peers)


def _has_port(entry: Obj, port: int, protocol: str) -> bool:
    if entry.get("protocol", "TCP") != protocol:
        return False
    first = entry.get("port")
    return first is None or (isinstance(first, int) and first <= port <= int(entry.get("endPort", first)))


def _is_peer(peer: Obj, address: str, namespace: dict[str, str], labels: dict[str, str]) -> bool:
    block = peer.get("ipBlock")
    if block:
        ip = ip_address(address)
        return ip in ip_network(block["cidr"]) and not any(ip in ip_network(one) for one in block.get("except") or ())
    if not labels or "namespaceSelector" not in peer:  # no pod: the API server runs on the host
        return False
    return _selects(peer["namespaceSelector"] or {}, namespace) and _selects(peer.get("podSelector") or {}, labels)
