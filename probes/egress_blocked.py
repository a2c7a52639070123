"""Network policies between the executor and the API server."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from killcheck.probes import cilium
from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import calls_by_name, command_path
from killcheck.probes.world import Executor, World, selected

from killcheck.kube.objects import Obj, dig, namespace_of, ref_of

__all__ = ["EgressBlocked"]


class EgressBlocked(Probe):
    """A policy is applied after the Service address was translated: 10.96.0.1/32 never matches the API server."""

    id = "egress-blocked"
    claim = "The executor's pod may reach the API server, and DNS where it uses a name."
    remedy = "Allow egress to the API server's own addresses and port (EndpointSlice default/kubernetes), and port 53."
    failures = (23, 25)
    sources = ("KBVE/kbve#14223", "kubernetes.io/docs: network policies, ipBlock")
    needs = ("NetworkPolicy",)

    def ask(self, world: World) -> Iterable[Finding]:
        """The egress policies that select the executor's pod, taken together."""
        for one in world.layer_executors:
            labels = dig(one.template.metadata, "labels", default={})
            policies = [
                policy
                for policy in world.in_namespace("NetworkPolicy", one.namespace)
                if "Egress" in _types(policy) and selected(dig(policy, "spec", "podSelector"), labels)
            ]
            if policies and one.reading.calls:
                yield from self._judge(world, one, policies)
            if one.reading.calls:
                yield from self._others(world, one, labels)

    def _others(self, world: World, one: Executor, labels: Mapping[str, str]) -> Iterable[Finding]:
        """Cilium's policies, and those of CNIs that are not read here."""
        found = cilium.egress(world, one.namespace, labels)
        if found.policy is not None and found.reaches_api is False:
            message = f"lets no packet of {ref_of(one.owner)} reach the API server"
            yield self.finding(
                world,
                found.policy,
                found.path,
                message,
                also=[(one.owner, command_path(one))],
                remedy="Add an egress rule with toEntities: [kube-apiserver].",
            )
        elif found.policy is not None and found.reaches_api is None:
            yield self.unproven(
                world, found.policy, f"whether what it allows is the API server that {ref_of(one.owner)} calls"
            )
        for policy in world.of(*_UNREAD):
            if namespace_of(policy) in ("", one.namespace):
                yield self.unproven(
                    world,
                    policy,
                    f"whether it lets {ref_of(one.owner)} reach the API server: such policies are not read here",
                )
                break

    def _judge(self, world: World, one: Executor, policies: list[Obj]) -> Iterable[Finding]:
        rules = [rule for policy in policies for rule in dig(policy, "spec", "egress", default=[])]
        addresses = _api_addresses(world)
        verdict = [_reaches(rule, addresses) for rule in rules]
        first, path = policies[0], ("spec", "egress")
        if not any(answer is not False for answer in verdict):
            message = f"lets no packet of {ref_of(one.owner)} reach the API server{_why(rules)}"
            yield self.finding(world, first, path, message, also=[(one.owner, command_path(one))])
        elif not any(verdict):
            yield self.unproven(
                world,
                first,
                "whether what it allows is the API server (EndpointSlice default/kubernetes) that "
                f"{ref_of(one.owner)} calls",
            )
        if not any(_opens(rule, 53) for rule in rules) and calls_by_name(one):
            message = f"blocks DNS, and {ref_of(one.owner)} calls the API server by name"
            yield self.finding(
                world,
                first,
                path,
                message,
                remedy="Allow UDP and TCP 53 to kube-dns, or use $KUBERNETES_SERVICE_HOST, which is an address.",
            )


def _types(policy: Obj) -> list[str]:
    said = dig(policy, "spec", "policyTypes")
    return said or (["Ingress", "Egress"] if "egress" in dig(policy, "spec", default={}) else ["Ingress"])


def _api_addresses(world: World) -> list[tuple[str, int]]:
    """(address, port) of the API server, as the EndpointSlice of the Service ``kubernetes`` has them."""
    return [
        (address, int(port.get("port", 6443)))
        for found in world.in_namespace("EndpointSlice", "default")
        if dig(found, "metadata", "labels", "kubernetes.io/service-name") == "kubernetes"
        for endpoint in found.get("endpoints") or ()
        for address in endpoint.get("addresses", ())
        for port in dig(found, "ports", default=[{}])
    ]


def _reaches(rule: Obj, addresses: list[tuple[str, int]]) -> bool | None:
    """Whether a rule lets packets through to the API server; None: nobody can tell from here."""
    peers = rule.get("to") or []
    if addresses:
        return any(
            _opens(rule, port) and (not peers or any(_in(peer, address) for peer in peers))
            for address, port in addresses
        )
    if not (_opens(rule, 6443) or _opens(rule, 443)):
        return False
    if not peers or any(dig(peer, "ipBlock", "cidr") in ("0.0.0.0/0", "::/0") for peer in peers):
        return True if _opens(rule, 6443) else None
    blocks = [str(dig(peer, "ipBlock", "cidr")) for peer in peers if peer.get("ipBlock")]
    return None if any(block not in _SERVICE_ADDRESSES for block in blocks) else False


def _in(peer: Obj, address: str) -> bool:
    block = peer.get("ipBlock")
    if not block:
        return False  # selectors match pods; the API server is none, or uses its host's address
    where = ipaddress.ip_address(address)
    inside = where in ipaddress.ip_network(block["cidr"], strict=False)
    return inside and not any(where in ipaddress.ip_network(e, strict=False) for e in block.get("except") or ())


def _opens(rule: Obj, port: int) -> bool:
    ports = rule.get("ports")
    if not ports:
        return True
    return any(
        entry.get("port") is None
        or entry.get("port") == port
        or (isinstance(entry.get("port"), int) and entry["port"] <= port <= entry.get("endPort", entry["port"]))
        for entry in ports
    )


def _why(rules: list[Obj]) -> str | None:
    if not rules:
        return ": nothing is allowed"
    blocks = [
        str(dig(peer, "ipBlock", "cidr")) for rule in rules for peer in rule.get("to") or () if peer.get("ipBlock")
    ]
    if any(block in _SERVICE_ADDRESSES for block in blocks):
        return ": the address of the Service is translated before the policy sees it"
    return ": selectors match pods, and the API server is none" if rules else None


#: Policies of Calico's, Antrea's and of the Gateway's own kinds that can deny egress too.
_UNREAD = ("GlobalNetworkPolicy", "AdminNetworkPolicy", "BaselineAdminNetworkPolicy", "ClusterNetworkPolicy")
#: Where distributions put the Service ``kubernetes``: kubeadm, kind, EKS, k3s, AKS, OpenShift.
_SERVICE_ADDRESSES = frozenset(
    {"10.96.0.1/32", "10.100.0.1/32", "172.20.0.1/32", "10.43.0.1/32", "10.0.0.1/32", "172.30.0.1/32"}
)
