"""Whose image a container runs, as its name and its program say: a controller that is modelled, furniture, a bystander.

An image is known by the end of its repository's name, its publisher's part included, whatever registry mirrors it. A
container that is told to run a shell, or a program of another name, is none of them: what it does is its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import basename

from killcheck.kube.objects import Obj, dig
from killcheck.kube.workloads import PodTemplate
from killcheck.text import lazy_re

__all__ = ["acting", "controller_of_image", "is_bystander", "is_furniture", "modelled_by", "repository_of"]

#: Repositories of images whose controllers are modelled on the embedded cluster, by the ends of their names.
_CONTROLLERS = {
    "karpenter/controller": "karpenter",
    "kedacore/keda": "keda-operator",
    "kedacore/keda-metrics-apiserver": "keda-operator",
    "kedacore/keda-admission-webhooks": "keda-operator",
    "kedacore/http-add-on-operator": "keda-http-add-on-operator",
    "argoproj/argocd": "argocd-application-controller",
    "argoproj/argo-rollouts": "argo-rollouts",
    "fluxcd/kustomize-controller": "kustomize-controller",
    "fluxcd/helm-controller": "helm-controller",
    "notebook-controller": "notebook-controller",
    "kueue/kueue": "kueue",
    "kube-green/kube-green": "kube-green",
    "kubeflow/training-operator": "pytorchjob-controller",
    "mpioperator/mpi-operator": "mpi-operator",
    "volcanosh/vc-controller-manager": "vc-controller-manager",
    "trainer/trainer-controller-manager": "trainer-controller-manager",
    "kuberay/operator": "kuberay-operator",
    "lws/lws": "lws-controller-manager",
    "openkruise/kruise-manager": "kruise-manager",
    "cloud-native/k8s-nim-operator": "k8s-nim-operator",
    "jobset/jobset": "jobset-controller",
    "kserve/kserve-controller": "kserve-controller-manager",
    "serving/cmd/controller": "knative-serving",
    "serving/cmd/autoscaler": "knative-serving",
    "autoscaling/cluster-autoscaler": "cluster-autoscaler",
    "aws-ec2/aws-node-termination-handler": "aws-node-termination-handler",
}
#: ...of which these stand beside the controller: it does its work without them.
_BESIDE_IT = ("kedacore/keda-metrics-apiserver", "kedacore/keda-admission-webhooks")
#: The program that is the controller, where one image has several.
_ONE_OF_MANY = {"argocd-application-controller": "application-controller"}
#: Images of cluster furniture that creates pods or workloads for its own kinds alone, none with GPUs.
_FURNITURE = (
    "jetstack/cert-manager-controller",
    "jetstack/cert-manager-cainjector",
    "jetstack/cert-manager-webhook",
    "prometheus-operator/prometheus-operator",
    "grafana/grafana-operator",
    "external-dns/external-dns",
    "bitnami/external-dns",
    "metrics-server/metrics-server",
    "coredns/coredns",
    "rancher/mirrored-coredns-coredns",
    "ingress-nginx/controller",
    "registry.k8s.io/kube-proxy",
    "sig-storage/csi-provisioner",
    "sig-storage/csi-attacher",
    "eks/aws-load-balancer-controller",
    "amazon/aws-load-balancer-controller",
    "external-secrets/external-secrets",
    "opentelemetry-operator/opentelemetry-operator",
    "fluent/fluent-operator/fluent-operator",
    "kubesphere/fluent-operator",
    "cloudnative-pg/cloudnative-pg",
    "nvidia/gpu-operator",
    "rancher/local-path-provisioner",
    "rabbitmqoperator/cluster-operator",
    "strimzi/operator",
    "mariadb-operator/mariadb-operator",
    "victoriametrics/operator",
)
#: Repositories of images, by the ends of their names, that stand beside a program in its pod and act on nothing:
#: proxies, agents that fetch secrets, shippers of logs and figures.
_BYSTANDERS = (
    "envoyproxy/envoy",
    "istio/proxyv2",
    "linkerd/proxy",
    "consul-dataplane",
    "cloud-sql-connectors/cloud-sql-proxy",
    "oauth2-proxy/oauth2-proxy",
    "hashicorp/vault",
    "fluent/fluent-bit",
    "fluent/fluentd",
    "grafana/promtail",
    "grafana/alloy",
    "timberio/vector",
    "opentelemetry-collector",
    "opentelemetry-collector-contrib",
    "datadog/agent",
    "kube-rbac-proxy",
)
#: The programs of all those images, beside those that are called as their image is.
_PROGRAMS = lazy_re.compile(
    r"cp|manager|controller|operator|autoscaler|karpenter|keda(-\w+)*|cluster-autoscaler|argocd-[a-z-]+|kuberay-operator"
    r"|nginx-ingress-controller|cluster_operator_run\.sh|webhook|cert-?controller|cainjector|cloud[-_]sql[-_]proxy"
)
#: First words that such a program is given where its image says which one it is.
_SUBCOMMANDS = frozenset({"agent", "proxy", "run", "serve", "server", "start"})


def modelled_by(container: Obj) -> str | None:
    """The model of a controller's image; None: there is none, or the image is given a program that is not its own."""
    image = repository_of(str(container.get("image", "")))
    model = next((model for end, model in _CONTROLLERS.items() if _is_called(image, end)), None)
    return model if _runs_its_own(container) else None


def controller_of_image(container: Obj) -> str | None:
    """The model whose whole work ends with a container: a controller's own program; None: of none."""
    model, image = modelled_by(container), repository_of(str(container.get("image", "")))
    told = " ".join(str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ())))
    if model is None or any(_is_called(image, end) for end in _BESIDE_IT) or _ONE_OF_MANY.get(model, "") not in told:
        return None
    return model


def is_furniture(template: PodTemplate) -> bool:
    """Whether all that acts in a pod is furniture's own program."""
    return bool(acts := list(acting(template))) and all(_is_of(one, _FURNITURE) for one in acts)


def acting(template: PodTemplate) -> Iterator[Obj]:
    """Its containers, apart from those that stand beside the others and act on nothing."""
    for kind in ("initContainers", "containers"):
        yield from (one for one in dig(template.spec, kind, default=[]) if not _is_of(one, _BYSTANDERS))


def is_bystander(image: str) -> bool:
    """Whether an image is one of those that stand beside a program and act on nothing."""
    return any(_is_called(repository_of(image), end) for end in _BYSTANDERS)


def repository_of(image: str) -> str:
    """An image's name without tag and digest."""
    head, slash, last = image.partition("@")[0].rpartition("/")
    return head + slash + last.partition(":")[0]


def _is_of(container: Obj, ends: tuple[str, ...]) -> bool:
    """Whether a container runs the own program of one of these images."""
    image = repository_of(str(container.get("image", "")))
    return any(_is_called(image, end) for end in ends) and _runs_its_own(container)


def _runs_its_own(container: Obj) -> bool:
    """Whether what a container is told to run is its image's own program, as far as names tell."""
    command = [str(word) for word in container.get("command") or ()]
    told = command or [str(word) for word in container.get("args") or ()]
    if not told or told[0].startswith("-") or (not command and told[0] in _SUBCOMMANDS):
        return True
    program, image = basename(told[0]), basename(repository_of(str(container.get("image", ""))))
    return program == image or _PROGRAMS.fullmatch(program) is not None


def _is_called(repository: str, end: str) -> bool:
    """Whether an image has this name, whatever registry and folders it is in."""
    return f"/{repository}".endswith(f"/{end}")
