"""The executor's packets do not arrive: no egress, no DNS, no way to the API server.

A NetworkPolicy that selects the drill's own pods alone. Not every network plugin enforces NetworkPolicies: where that
is not known, a probe pod must get through before and be held back afterwards
(:mod:`killcheck.faults.kubernetes.probe_pod`); and the executor itself has to say, in the
network's own words, that it could not get through.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence

from killcheck.executor.refusals import UNREACHED, UNRESOLVED
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.kubernetes import probe_pod
from killcheck.faults.kubernetes.executor import (
    COPY,
    SilencingFault,
    asks_for_no_name,
    cron_job_of,
    identity,
    label_pods,
    log_line,
)
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, dig
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import retry

__all__ = ["ApiUnreachable", "DnsDenied", "EgressDenied", "EgressFault", "all_but"]


#: The API server, as a probe's shell reads it.
_BY_ITS_NAME, _BY_ITS_ADDRESS = "kubernetes.default.svc", "$KUBERNETES_SERVICE_HOST"


#: Such as AWS' VPC CNI in standard mode: a pod may send whatever it wants until the policy has reached its node.
_TOO_LATE = (
    "a probe pod was held back, and nothing was seen to hold the executor back: some network plugins enforce a policy "
    "only some time after a pod has started"
)


class EgressFault(SilencingFault):
    """A NetworkPolicy for the drill's own pods."""

    family = "network"
    rank = 0
    words = UNREACHED
    #: What a probe connects to, as its shell reads it: the API server, by name or by address.
    reaches = _BY_ITS_NAME
    port = probe_pod.API_PORT
    shows = Evidence.EXECUTOR

    @abstractmethod
    def egress(self, stage: Stage) -> list[Obj]:
        """What is still allowed to leave."""

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """A NetworkPolicy of our own, over the drill's own pods."""
        namespace, _ = identity(layer)
        verbs = [
            Permission(v, "networking.k8s.io", "networkpolicies", namespace=namespace)
            for v in ("get", "create", "delete")
        ]
        verbs += [
            Permission("list", "discovery.k8s.io", "endpointslices", namespace="default"),
            Permission("get", "", "services", "", "default", "kubernetes"),
        ]
        changes = [f"a NetworkPolicy in {namespace} that selects the drill's own pods: {self.simulates}"]
        if not probe_pod.known_to_enforce(stage):
            verbs += probe_pod.permissions(namespace)
            changes.append(f"two probe pods like the executor's in {namespace}, one before and one after it")
        return Plan(tuple(changes), namespaces=(namespace,), permissions=tuple(verbs), edits=(f"{COPY}.egress",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Create it, and label the drill's pods for it; see first that it could be seen, then that it is."""
        namespace, _ = identity(layer)
        labels, unknown = label_pods(stage), not probe_pod.known_to_enforce(stage)
        host, done = self.asked_of(layer), []
        if unknown:
            done.append(f"without it: {probe_pod.probe_before(stage, layer, labels, host, self.port)}")
        name = f"killcheck-{self.name}-{stage.run[-6:]}"
        stage.journal.create(
            r.NETWORKPOLICIES,
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "podSelector": {"matchLabels": labels},
                    "policyTypes": ["Egress"],
                    "egress": retry(stage.cluster.loop, lambda: self.egress(stage)),
                },
            },
        )
        done.append(f"created NetworkPolicy {namespace}/{name}")
        if unknown:
            done.append(f"with it: {probe_pod.probe_after(stage, layer, labels, host, self.port)}")
            self._probed = True
        return done

    _probed = False

    def missed(self) -> str | None:
        """A probe pod was held back, so the executor was faster than the plugin, or asks nothing of the network."""
        return _TOO_LATE if self._probed else None

    def asked_of(self, layer: LayerRun) -> str:
        """What a probe connects to: where names do not matter to the executor, they do not to its probe."""
        by_address = asks_for_no_name(layer.layer.name, cron_job_of(layer)) is not None
        return _BY_ITS_ADDRESS if by_address and self.reaches == _BY_ITS_NAME else self.reaches

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """This executor said that it could not get through; or it waits in silence for an answer that never comes."""
        return log_line(stage, self.words) or self.waits(stage)


class EgressDenied(EgressFault):
    """Reproduces row 23: a default-deny policy came, and nobody thought of the kill path."""

    name = "egress-denied"
    simulates = "a NetworkPolicy denies the executor all egress"
    failures = (23,)
    words = f"{UNREACHED}|{UNRESOLVED}"

    def egress(self, stage: Stage) -> list[Obj]:
        """Nothing."""
        return []


class DnsDenied(EgressFault):
    """Reproduces row 25: everything may leave but questions to DNS."""

    name = "dns-denied"
    simulates = "the executor cannot resolve names"
    failures = (25,)
    words = UNRESOLVED

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Only where the executor asks for a name. Raises FaultError where it is seen to ask for none."""
        why = self.unsuited_executor(layer.layer.name, cron_job_of(layer))
        if why:
            raise FaultError(f"{self.name}: {why}")
        return super().plan(stage, layer)

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Not where it is seen to ask for none."""
        return asks_for_no_name(layer_name, cron_job)

    def egress(self, stage: Stage) -> list[Obj]:
        """Every port but 53."""
        return [
            {
                "ports": [
                    {"protocol": protocol, "port": first, "endPort": last}
                    for protocol in ("TCP", "UDP")
                    for first, last in ((1, 52), (54, 65535))
                ]
            }
        ]


class ApiUnreachable(EgressFault):
    """Reproduces rows 23 and 25: DNS works, and the API server's addresses do not answer."""

    name = "api-unreachable"
    simulates = "the executor cannot reach the API server"
    reaches = _BY_ITS_ADDRESS
    failures = (23, 25)

    def egress(self, stage: Stage) -> list[Obj]:
        """Every address but the API server's: those behind its Service, and the Service's own."""
        kube = stage.cluster.kube
        service = kube.find(r.SERVICES, "kubernetes", "default") or {}
        slices = kube.list(r.ENDPOINTSLICES, "default", labels="kubernetes.io/service-name=kubernetes").items
        addresses = {ip for one in slices for endpoint in one.get("endpoints") or () for ip in endpoint["addresses"]}
        addresses |= set(dig(service, "spec", "clusterIPs", default=[]))
        return all_but(addresses)


def all_but(addresses: Collection[str]) -> list[Obj]:
    """Egress rules that allow every address but these."""
    blocks = [
        {"cidr": "0.0.0.0/0", "except": sorted(f"{ip}/32" for ip in addresses if ":" not in ip)},
        {"cidr": "::/0", "except": sorted(f"{ip}/128" for ip in addresses if ":" in ip)},
    ]
    return [{"to": [{"ipBlock": {key: value for key, value in block.items() if value}}]} for block in blocks]
