"""The executor's packets do not arrive: no egress, no DNS, no way to the API server.

A NetworkPolicy that selects the drill's own pods alone. Not every network plugin enforces NetworkPolicies: that this
one does is shown by the executor itself, whose connections fail in the network's own words.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from killcheck.faults.base import Plan
from killcheck.faults.executor import ExecutorFault, identity, label_pods, log_line
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, dig
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.undo import insist

__all__ = ["ApiUnreachable", "DnsDenied", "EgressDenied"]

#: How programs say that a connection could not be made (curl 6, 7, 28, 35; Go's net; Python's socket and requests).
UNREACHED = (
    r"timed out|timeout|connection refused|could ?n.t connect|failed to connect|network is unreachable|no route to host"
    r"|connection reset|max retries exceeded|unable to connect")
UNRESOLVED = (
    r"could not resolve|resolving timed out"
    r"|name or service not known|no such host|temporary failure in name resolution|bad address"
    r"|name resolution|i/o timeout")


class _EgressFault(ExecutorFault):
    """A NetworkPolicy for the drill's own pods."""

    family = "network"
    words = UNREACHED

    @abstractmethod
    def egress(self, stage: Stage) -> list[Obj]:
        """What is still allowed to leave."""

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """A NetworkPolicy of our own, over the drill's own pods."""
        namespace, _ = identity(layer)
        verbs = [Permission(v, "networking.k8s.io", "networkpolicies", namespace=namespace)
                 for v in ("get", "create", "delete")]
        verbs += [Permission("list", "discovery.k8s.io", "endpointslices", namespace="default"),
                  Permission("get", "", "services", "", "default", "kubernetes")]
        return Plan((f"a NetworkPolicy in {namespace} that selects the drill's own pods: {self.simulates}",),
                    permissions=tuple(verbs))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Create it, and label the drill's pods for it."""
        namespace, _ = identity(layer)
        name = f"killcheck-{self.name}-{stage.run[-6:]}"
        stage.journal.create(r.NETWORKPOLICIES, {
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"podSelector": {"matchLabels": label_pods(stage)}, "policyTypes": ["Egress"],
                     "egress": insist(stage.cluster.loop, lambda: self.egress(stage))}})
        return [f"created NetworkPolicy {namespace}/{name}"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str:
        """This executor said that it could not get through."""
        return log_line(stage, self.words)


class EgressDenied(_EgressFault):
    """Reproduces row 23: a default-deny policy came, and nobody thought of the kill switch."""

    name = "egress-denied"
    simulates = "a NetworkPolicy denies the executor all egress"
    failures = (23,)
    words = f"{UNREACHED}|{UNRESOLVED}"

    def egress(self, stage: Stage) -> list[Obj]:
        """Nothing."""
        return []


class DnsDenied(_EgressFault):
    """Reproduces row 25: everything may leave but questions to DNS."""

    name = "dns-denied"
    simulates = "the executor cannot resolve names"
    failures = (25,)
    words = UNRESOLVED

    def egress(self, stage: Stage) -> list[Obj]:
        """Every port but 53."""
        return [{"ports": [{"protocol": protocol, "port": first, "endPort": last}
                           for protocol in ("TCP", "UDP") for first, last in ((1, 52), (54, 65535))]}]


class ApiUnreachable(_EgressFault):
    """Reproduces rows 23 and 25: DNS works, and the API server's addresses do not answer."""

    name = "api-unreachable"
    simulates = "the executor cannot reach the API server"
    failures = (23, 25)

    def egress(self, stage: Stage) -> list[Obj]:
        """Every address but the API server's: those behind its Service, and the Service's own."""
        kube = stage.cluster.kube
        service = kube.find(r.SERVICES, "kubernetes", "default") or {}
        slices = kube.list(r.ENDPOINTSLICES, "default", labels="kubernetes.io/service-name=kubernetes").items
        addresses = {ip for one in slices for endpoint in one.get("endpoints") or () for ip in endpoint["addresses"]}
        addresses |= set(dig(service, "spec", "clusterIPs", default=[]))
        blocks = [{"cidr": "0.0.0.0/0", "except": sorted(f"{ip}/32" for ip in addresses if ":" not in ip)},
                  {"cidr": "::/0", "except": sorted(f"{ip}/128" for ip in addresses if ":" in ip)}]
        return [{"to": [{"ipBlock": {key: value for key, value in block.items() if value}}]} for block in blocks]
