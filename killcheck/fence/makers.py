"""What may launch machines, or widen a pool, and is not evaluated: said of everything that is not known to launch none.

A closed vocabulary. Objects of Kubernetes' own groups launch no machine, and those of the groups below do not; of any
other group nobody here knows what acts on it. Programs of pods that write Karpenter's objects, or that make pools by a
cloud's command line, are told by what they call.

Sources: the API groups of the projects named, 2026; Crossplane's provider families and ACK name a group a service.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from killcheck.entries import Becomes, leaves
from killcheck.executor import ApiCall, Reading, read
from killcheck.kube.furniture import FURNITURE, PARTS, is_gitops
from killcheck.kube.launch_lines import made_by_lines
from killcheck.kube.machine_texts import brings_nodes, called, holds_a_pool
from killcheck.kube.objects import Obj, dig, items, mappings, name_of, namespace_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.text import lazy_re

__all__ = ["launches_nothing", "unevaluated"]

#: Groups, and those below them, whose objects become pods, rules, readings or data, and never a machine.
_NO_MACHINES = (
    *("argoproj.io", "tekton.dev", "ray.io", "kubeflow.org", "knative.dev", "kserve.io", "volcano.sh", "keda.sh"),
    *("sparkoperator.k8s.io", "flink.apache.org", "nvidia.com", "amd.com", "intel.com"),
    *("kueue.x-k8s.io", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "scheduling.x-k8s.io", "autoscaling.x-k8s.io"),
    *("kyverno.io", "gatekeeper.sh", "openshift.io", "operators.coreos.com", "k8s.cni.cncf.io", "metallb.io"),
    *("elastic.co", "rabbitmq.com", "opstreelabs.in", "mongodb.com", "zalan.do", "min.io", "percona.com", "rook.io"),
    *("longhorn.io", "velero.io", "chaos-mesh.org", "litmuschaos.io", "flagger.app", "grafana.com", "grafana.net"),
    *("image.toolkit.fluxcd.io", "vpcresources.k8s.aws", "crd.k8s.amazonaws.com", "openebs.io", "crd.antrea.io"),
    *(
        "datadoghq.com",
        "falco.org",
        "dapr.io",
        "nats.io",
        "kube-green.com",
        "agones.dev",
        "temporal.io",
        "kubecost.com",
        "kruise.io",
    ),
    *("auto.gke.io", "internal.autoscaling.gke.io", "nodemanagement.gke.io", "warden.gke.io", "hub.gke.io"),
    *("monitoring.googleapis.com", "networking.k8s.aws", "acn.azure.com"),  # what GKE, EKS and AKS bring themselves
    *("kubernetes-client.io", "secrets-store.csi.x-k8s.io", "pkg.crossplane.io", "jaegertracing.io", "sigstore.dev"),
    # judged here, each by its own reader
    *("karpenter.sh", "karpenter.k8s.aws", "karpenter.azure.com", "eks.amazonaws.com", "eksctl.io"),
)
#: Kubernetes' own groups, and those of its projects that route, store, measure or size pods: others end so too.
_KUBERNETES = frozenset(
    f"{name}.k8s.io"
    for name in (
        *("admissionregistration", "apiextensions", "apiregistration", "auditregistration", "authentication"),
        *("authorization", "certificates", "coordination", "discovery", "events", "flowcontrol.apiserver"),
        *("internal.apiserver", "networking", "node", "rbac.authorization", "resource", "scheduling", "settings"),
        *("storage", "storagemigration", "snapshot.storage", "groupsnapshot.storage", "gateway.networking"),
        *("policy.networking", "metrics", "custom.metrics", "external.metrics", "autoscaling", "imagepolicy"),
        *("kubelet.config", "kubeadm", "kubeproxy.config", "kubescheduler.config", "kustomize.config", "audit"),
        *("apiserver.config", "cloudprovider", "client.authentication", "node.dra", "topology.node"),
    )
)
#: ...but these; the first is what machines were called before Cluster API had a group of its own (KubeOne has it).
_MACHINES = (
    *("cluster.k8s.io", "machine.openshift.io", "autoscaling.openshift.io"),
    *("hive.openshift.io", "hypershift.openshift.io"),
)
#: Services of clouds without any machine of one's own, as Crossplane, ACK and Config Connector call their groups.
_SERVICES = lazy_re.compile(
    r"(s3|iam|kms|sqs|sns|rds|route53\w*|dynamodb|secretsmanager|ecr\w*|cloudwatch\w*|elasticache|acm|efs|lambda|ssm"
    r"|eventbridge|apigateway\w*|cloudtrail|storage|pubsub|dns|sql|secretmanager|logging|monitoring|artifactregistry"
    r"|bigquery|serviceusage|resourcemanager|cloudplatform|keyvault|managedidentity|authorization|insights)"
    r"(\.\w+)*\.(upbound\.io|crossplane\.io|services\.k8s\.aws|cnrm\.cloud\.google\.com|azure\.com)"
)
#: Groups of clouds, and kinds in them that launch nothing beside others that do: networks, rights, configuration.
_CLOUDS = (
    ".upbound.io",
    ".crossplane.io",
    ".services.k8s.aws",
    ".cnrm.cloud.google.com",
    ".azure.com",
    "cluster.x-k8s.io",
)
_KINDS = lazy_re.compile(
    r"VPC\w*|Subnet\w*|SecurityGroup\w*|RouteTable\w*|Route|InternetGateway|N[Aa][Tt]Gateway|Elastic[Ii][Pp]\w*|\w*Network"
    r"|Addon|AccessEntry|PodIdentityAssociation|FargateProfile|IdentityProviderConfig|\w*ProviderConfig(Usage)?"
    r"|CompositeResourceDefinition|EnvironmentConfig|Function|ResourceGroup|ComputeAddress|ComputeFirewall|ComputeDisk"
)
#: What Karpenter, Cluster API and OpenShift launch by.
_POOLS = frozenset(
    {"nodepools", "nodeclaims", "nodeoverlays", "ec2nodeclasses", "aksnodeclasses", "nodeclasses", "gcenodeclasses"}
    | {"machinedeployments", "machinepools", "machinesets", "machines", "machineautoscalers", "awsmanagedmachinepools"}
)
#: Images whose program is a cloud's command line.
_CLIS = lazy_re.compile(
    r"(?:^|/)(?:[\w-]+-)?(aws|gcloud|az|doctl|kubectl|helm|eksctl|terraform|pulumi|oci|scw|hcloud|kops)"
    r"(?:-cli|-slim|-builder)?(?:[:@]|$)"
)
#: Groups whose objects are programs, and hold them in ways of their own.
_FIRED = ("argoproj.io", "tekton.dev")


def launches_nothing(obj: Obj) -> bool:
    """Whether it is known that what acts on an object launches no machine for it, or that it is judged elsewhere."""
    group, kind = str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj.get("kind"))
    if group.endswith(_MACHINES):
        return False
    if "." not in group or group in _KUBERNETES:
        return True
    if group in FURNITURE or (group, kind) in PARTS or group.startswith("killcheck"):
        return True
    below = any(group == one or group.endswith(f".{one}") for one in _NO_MACHINES)
    return (
        below
        or _SERVICES.fullmatch(group) is not None
        or (group.endswith(_CLOUDS) and _KINDS.fullmatch(kind) is not None)
    )


@leaves("fences", "custom resources of groups that are not known, charts and folders from elsewhere", Becomes.UNPROVEN)
@leaves("fences", "templates of clouds, programs and scripts that make machines", Becomes.UNPROVEN)
def unevaluated(objects: Sequence[Obj], judged: Iterable[int]) -> Iterator[str]:
    """A sentence each: objects of groups that nobody here knows, one of each kind, and programs that widen pools.

    ``judged``: the ``id()`` of objects that a pool was made of. What applies manifests from elsewhere is told by who
    knows what was read.
    """
    done, unknown = frozenset(judged), dict[str, dict[str, list[str]]]()
    for obj in objects:
        if id(obj) not in done and not is_gitops(obj) and not launches_nothing(obj):
            kinds = unknown.setdefault(str(obj.get("apiVersion")).rpartition("/")[0], {})
            kinds.setdefault(str(obj.get("kind")), []).append(name_of(obj))
    for group, kinds in sorted(unknown.items()):
        named = [f"{kind}/{names[0]}" for kind, names in sorted(kinds.items())]
        rest = sum(map(len, kinds.values())) - len(named)
        told = ", ".join(named) + (f" and {rest} more" if rest else "")
        yield f"{told}: what acts on {group} is not known, and may launch machines"
    yield from _scaled(objects)
    yield from _programs(objects)


def _scaled(objects: Sequence[Obj]) -> Iterator[str]:
    """What scales, by its kind, an object of which it is not known that it launches no machine."""
    for obj in objects:
        target = dig(obj, "spec", "scaleTargetRef", default=None)
        if isinstance(target, dict) and (not launches_nothing(target) or _is_karpenters(target)):
            yield f"{ref_of(obj)} scales {target.get('kind')}/{target.get('name')}, and what that launches is not known"


def _is_karpenters(target: Obj) -> bool:
    return str(target.get("apiVersion", "")).partition("/")[0].startswith("karpenter.")


def _programs(objects: Sequence[Obj]) -> Iterator[str]:
    """What pods run that writes pools, or makes them by a cloud's command line."""
    maps = {(namespace_of(one), name_of(one)): one for one in objects if one.get("kind") == "ConfigMap"}
    for obj in objects:
        read_of = (read(template.spec, namespace_of(obj), maps) for template in templates(obj))
        found = next((said for reading in read_of for said in _widens(reading)), None) or next(_steps(obj), None)
        found = found or next((said for text in _texts(obj) for said in called(text)), None)
        image = next((image for template in templates(obj) for image in _images(template.spec)), None)
        if image is not None:
            yield f"{ref_of(obj)} brings nodes of its own, or sizes groups ({image}), and is not evaluated"
        if found is not None:
            yield f"{ref_of(obj)} may widen a pool ({found}), and what it makes of it is not evaluated"


def _images(spec: Obj) -> Iterator[str]:
    """The images of a pod that bring nodes of their own."""
    images = (str(one.get("image", "")) for one in mappings(spec.get("containers")))
    yield from (image for image in images if brings_nodes(image))


def _texts(obj: Obj) -> Iterator[str]:
    """What programs may be written in: the words of containers, and the files of ConfigMaps."""
    for template in templates(obj):
        for one in mappings(template.spec.get("containers")):
            yield from (word for word in (*items(one.get("command")), *items(one.get("args"))) if isinstance(word, str))
    for data in mappings(obj.get("data")) if obj.get("kind") == "ConfigMap" else ():
        yield from (text for text in data.values() if isinstance(text, str))


def _steps(obj: Obj) -> Iterator[str]:
    """The lines of workflows and pipelines that make pools, wherever in them these are."""
    fired = str(obj.get("apiVersion", "")).partition("/")[0].endswith(_FIRED) and not is_gitops(obj)
    waiting, seen = [obj.get("spec")] if fired else [], set[int]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            yield from made_by_lines(node)
            yield from holds_a_pool(node)
        elif isinstance(node, (dict, list)) and id(node) not in seen:
            seen.add(id(node))
            waiting += node.values() if isinstance(node, dict) else [*node, " ".join(map(str, node))]
            waiting += [_of_image(node)] if isinstance(node, dict) and "image" in node else []


def _of_image(step: Obj) -> str:
    """The line of a step that gives its image's own program nothing but arguments; empty where it names a program."""
    program = _CLIS.search(str(step.get("image")))
    return "" if program is None or step.get("command") else " ".join((program[1], *map(str, items(step.get("args")))))


def _widens(reading: Reading) -> Iterator[str]:
    yield from (str(call) for call in reading.writes if _widens_a_pool(call))
    for words in reading.commands:
        yield from islice(made_by_lines(" ".join(words)), 1)


def _widens_a_pool(call: ApiCall) -> bool:
    pools = call.resource in _POOLS and not call.verb.startswith("delete") and not call.marks
    return pools and not (call.subresource == "scale" and call.replicas == 0) and not _lets_nothing_through(call.body)


def _lets_nothing_through(body: str) -> bool:
    """Whether a patch sets limits or replicas to zero, and nothing else: a kill path's own."""
    try:
        patch = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if isinstance(patch, list):
        paths = [str(one.get("path")) if isinstance(one, dict) else "" for one in patch]
        limits = [one.get("value") for one in patch if isinstance(one, dict)]
        return bool(paths) and all(path.startswith("/spec/limits") for path in paths) and all(map(_zero, limits))
    spec = patch.get("spec") if isinstance(patch, dict) and set(patch) == {"spec"} else None
    return isinstance(spec, dict) and set(spec) <= {"limits", "replicas"} and _zero(spec)


def _zero(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(map(_zero, value.values()))
    return str(value) == "0"
