"""What groups of custom resources are for, where it is known that they turn no GPUs on or off. Data.

A group that is not here is judged by what its objects say. Who applies manifests of others (GitOps) is here, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from killcheck.kube.objects import Obj

__all__ = ["FURNITURE", "GITOPS", "PARTS", "is_gitops"]

#: Groups whose controllers route, watch, report or keep secrets, and neither make pods of others nor scale them.
FURNITURE: Mapping[str, str] = {
    "monitoring.coreos.com": "monitoring reads what it names",
    "operator.victoriametrics.com": "monitoring reads what it names",
    "sloth.slok.dev": "monitoring reads what it names",
    "grafana.integreatly.org": "a dashboard scales nothing",
    "opentelemetry.io": "monitoring reads what it names",
    "gateway.networking.k8s.io": "a route sends requests and scales nothing",
    "gateway.envoyproxy.io": "a route sends requests and scales nothing",
    "getambassador.io": "a route sends requests and scales nothing",
    "configuration.konghq.com": "a route sends requests and scales nothing",
    "inference.networking.k8s.io": "a route sends requests and scales nothing",
    "inference.networking.x-k8s.io": "a route sends requests and scales nothing",
    "networking.istio.io": "a route sends requests and scales nothing",
    "security.istio.io": "it allows or refuses requests and scales nothing",
    "traefik.io": "a route sends requests and scales nothing",
    "traefik.containo.us": "a route sends requests and scales nothing",
    "projectcontour.io": "a route sends requests and scales nothing",
    "networking.gke.io": "a route sends requests and scales nothing",
    "elbv2.k8s.aws": "a route sends requests and scales nothing",
    "externaldns.k8s.io": "a DNS record scales nothing",
    "cert-manager.io": "a certificate scales nothing",
    "acme.cert-manager.io": "a certificate scales nothing",
    "external-secrets.io": "a secret scales nothing",
    "secrets.hashicorp.com": "a secret scales nothing",
    "bitnami.com": "a secret scales nothing",
    "secrets-store.csi.x-k8s.io": "a secret scales nothing",
    "cilium.io": "a network policy scales nothing",
    "crd.projectcalico.org": "a network policy scales nothing",
    "projectcalico.org": "a network policy scales nothing",
    "policy.linkerd.io": "it allows or refuses requests and scales nothing",
    "snapshot.storage.k8s.io": "a snapshot scales nothing",
    "autoscaling.k8s.io": "it changes what pods ask for, never how many there are",
    "wgpolicyk8s.io": "a report scales nothing",
    "aquasecurity.github.io": "a report scales nothing",
    "metrics.k8s.io": "a reading scales nothing",
    "source.toolkit.fluxcd.io": "it fetches, and applies nothing by itself",
    "notification.toolkit.fluxcd.io": "it tells, and applies nothing by itself",
    "kubelet.config.k8s.io": "a configuration file",
    "kustomize.config.k8s.io": "a file for kustomize, which no cluster sees",
    "kind.x-k8s.io": "a file for kind, which no cluster sees",
    "nfd.k8s-sigs.io": "it labels nodes and scales nothing",
    "iam.cnrm.cloud.google.com": "a right in a cloud is none to scale",
    "iam.services.k8s.aws": "a right in a cloud is none to scale",
    "postgresql.cnpg.io": "it is about databases of its own",
    "k8s.mariadb.com": "it is about databases of its own",
    "kafka.strimzi.io": "it is about brokers of its own",
    "killcheck": "killcheck's own",
}
#: ...and kinds of other groups of which the same is true.
PARTS: Mapping[tuple[str, str], str] = {
    ("cloud.google.com", "BackendConfig"): "a route sends requests and scales nothing",
    ("cloud.google.com", "FrontendConfig"): "a route sends requests and scales nothing",
    ("velero.io", "Schedule"): "a backup copies, and puts nothing back by itself",
    ("velero.io", "Backup"): "a backup copies, and puts nothing back by itself",
    ("argoproj.io", "AppProject"): "it bounds Applications and applies nothing by itself",
    ("eks.services.k8s.aws", "PodIdentityAssociation"): "a right in a cloud is none to scale",
}

#: Groups whose objects apply what lies elsewhere: in a repository, in a registry of charts.
GITOPS = frozenset(
    {
        "kustomize.toolkit.fluxcd.io",
        "helm.toolkit.fluxcd.io",
        "fleet.cattle.io",
        "kapp.k14s.io",
        "kappctrl.k14s.io",
        "configsync.gke.io",
        "fluxcd.controlplane.io",
        "packages.eks.amazonaws.com",
        "config.projectsveltos.io",
        "apps.open-cluster-management.io",
    }
)
_ARGO = ("Application", "ApplicationSet")


def is_gitops(obj: Obj) -> bool:
    """Whether an object applies what lies in a repository."""
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    return group in GITOPS or (group == "argoproj.io" and obj.get("kind") in _ARGO)
