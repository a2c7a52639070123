"""Names of the cluster, asked of somebody who does not know them."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import calls_by_name, command_path
from killcheck.probes.world import World

from killcheck.executor.proxies import API_NAMES
from killcheck.kube import lookups
from killcheck.kube.objects import dig

__all__ = ["NodeDns"]


class NodeDns(Probe):
    """A pod in its host's network asks the node's resolver, whatever ClusterFirst says; that knows no Service."""

    id = "node-dns"
    claim = "An executor that calls the API server by name asks somebody who knows it."
    remedy = "Set dnsPolicy: ClusterFirstWithHostNet, or call $KUBERNETES_SERVICE_HOST, which is an address."
    severity = "error"
    failures = (25,)
    sources = ("kubernetes/kubernetes pkg/kubelet/network/dns/dns.go: getPodDNSType",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Executors that call by name: their dnsPolicy, their host's network, their host aliases."""
        for one in world.layer_executors:
            if not calls_by_name(one):
                continue
            aliases = dig(one.spec, "hostAliases", default=[])
            index = next((i for i, a in enumerate(aliases) if set(API_NAMES) & set(a.get("hostnames") or ())), None)
            own = ", ".join(lookups.own_servers(one.spec))
            if index is not None:
                message = f"{aliases[index].get('ip')} is said to be the API server, and nobody keeps that up to date"
                remedy = "Take the alias out: the cluster's DNS knows the API server."
                path = (*one.path, "hostAliases", index)
                yield self.finding(world, one.owner, path, message, severity="warning", remedy=remedy)
            elif own:
                yield self.unproven(world, one.owner, f"whether {own}, which its pod asks, know the API server's name")
            elif not lookups.by_cluster(one.spec):
                field = "dnsPolicy" if one.spec.get("dnsPolicy") else "hostNetwork"
                message = "calls the API server by name, and its pod does not ask the cluster's DNS"
                also = [(one.owner, command_path(one))]
                yield self.finding(world, one.owner, (*one.path, field), message, also=also)
