"""What custom resources say of accelerators: which fields count pods and devices, and which kinds hold none. Data.

Known kinds are rows here; of any other kind, what *looks* like a request for accelerators is found by its form
(``workloads``), and what only mentions them is told as not understood (:func:`mention`). The fields are those of the
projects' own API types, read in their sources in 2026.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct

from killcheck.kube.gpus import is_device, is_known_device
from killcheck.kube.objects import Obj, dig
from killcheck.text import lazy_re
from killcheck.text.yamlfile import Path, format_path

__all__ = [
    "BY_MACHINE",
    "COUNTS",
    "FACTORS",
    "HOLDS_NOTHING",
    "REFERENCES",
    "STARTERS",
    "TEMPLATES",
    "ByMachine",
    "Reference",
    "is_capacity",
    "is_gpu_machine",
    "machine_of",
    "mention",
    "requested",
]

#: Fields that say how many pods of what is beside or below them there are; the first that is there counts.
COUNTS: tuple[Path, ...] = (
    ("replicas",),
    ("replicaCount",),
    ("instances",),
    ("numNodes",),
    ("minReplicas",),
    ("autoscaling", "minReplicas"),
    ("scaling", "minReplicas"),
)
#: Fields that multiply that number.
FACTORS: tuple[Path, ...] = (("parallelism",), ("numOfHosts",), ("multinode", "nodeCount"))

#: Kinds of which an object is a pattern for others: it holds nothing until one of those is made.
TEMPLATES = frozenset(
    {
        "PodTemplate",
        "ControllerRevision",
        "ClusterTrainingRuntime",
        "TrainingRuntime",
        "ServingRuntime",
        "ClusterServingRuntime",
        "LLMInferenceServiceConfig",
        "WorkflowTemplate",
        "ClusterWorkflowTemplate",
        "NodeFeatureRule",
        "SandboxTemplate",
        "BackendRuntime",
        "OpenModel",
    }
)
#: Kinds that make holders on a schedule.
STARTERS = frozenset({"CronJob", "CronWorkflow", "ScheduledSparkApplication"})
#: Kinds that speak of accelerators and make no pods that hold them: capacity, quota, queues, policy, devices, data.
HOLDS_NOTHING = frozenset(
    {
        "ConfigMap",
        "Secret",
        "CustomResourceDefinition",
        "Node",
        "NodePool",
        "NodeClaim",
        "NodeOverlay",
        "Provisioner",
        "EC2NodeClass",
        "AKSNodeClass",
        "GCENodeClass",
        "ComputeClass",
        "MachineSet",
        "MachineDeployment",
        "MachinePool",
        "Machine",
        "AWSManagedMachinePool",
        "AWSMachinePool",
        "AzureMachinePool",
        "ContainerNodePool",
        "LimitRange",
        "ResourceQuota",
        "ClusterResourceQuota",
        "ClusterQueue",
        "LocalQueue",
        "Cohort",
        "ResourceFlavor",
        "Workload",
        "WorkloadPriorityClass",
        "Topology",
        "PodGroup",
        "Queue",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "DeviceClass",
        "ResourceSlice",
        "ClusterPolicy",
        "NVIDIADriver",
        "DeviceConfig",
        "DevicePlugin",
        "NodeFeature",
        "ComputeDomain",
        "RuntimeClass",
        "PriorityClass",
        "HorizontalPodAutoscaler",
        "ScaledObject",
        "VerticalPodAutoscaler",
        "Namespace",
        "PrometheusRule",
        "ServiceMonitor",
        "PodMonitor",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "MutatingAdmissionPolicy",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "Policy",
        "AdmissionCheck",
        "ProvisioningRequestConfig",
        "KubeSchedulerConfiguration",
        "PodDisruptionBudget",
        "GrafanaDashboard",
        "DynamoModel",
        "ClusterModelSource",
        "ModelSource",
        "NIMCache",
        "Profile",
        "AcceleratorProfile",
        "HardwareProfile",
        "ImageStream",
        "SleepInfo",
        "DRAConfig",
        "ClusterServiceVersion",
        "AlertingRule",
        "ClusterAutoscaler",
        "MachineAutoscaler",
    }
)


#: Kinds of machines, whoever manages them (Crossplane, Config Connector, Cluster API, clouds' operators).
_MACHINE_KINDS = lazy_re.compile(
    r".*(NodeGroup|Nodegroup|NodePool|NodeClass|MachinePool|MachineSet|MachineDeployment|MachineTemplate|AgentPool|LaunchTemplate"
    r"|AutoScalingGroup|AutoscalingGroup|ControlPlane)|ClusterConfig"
)


def is_capacity(kind: str) -> bool:
    """Whether objects of a kind are machines for pods, rather than pods: the fences ask about those."""
    return _MACHINE_KINDS.fullmatch(kind) is not None


def may_hold(obj: Obj) -> bool:
    """Whether an object is of a kind that may make pods by rules of its own: a custom resource that is not known."""
    group, kind = str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj.get("kind"))
    builtin = "." not in group or (group.endswith(".k8s.io") and not group.endswith(".x-k8s.io"))
    if builtin or kind in HOLDS_NOTHING | TEMPLATES | STARTERS or kind.endswith("Quota") or is_capacity(kind):
        return False
    return not (obj.get("metadata") or {}).get("ownerReferences")


class ByMachine(Struct, frozen=True):
    """A kind that names the machine rather than the device: where the machine and the numbers of it are written."""

    kind: str
    machine: Path
    count: Path
    replicas: Path = ()


#: KAITO (kaito.sh): one pod a machine, which has all of its GPUs; at least one is counted.
BY_MACHINE: Mapping[str, ByMachine] = {
    row.kind: row
    for row in (
        ByMachine("Workspace", ("resource", "instanceType"), ("resource", "count")),
        ByMachine("RAGEngine", ("spec", "compute", "instanceType"), ("spec", "compute", "count")),
        ByMachine(
            "InferenceSet",
            ("spec", "template", "resource", "instanceType"),
            ("spec", "template", "resource", "count"),
            ("spec", "replicas"),
        ),
    )
}


class Reference(Struct, frozen=True):
    """A kind that leaves what its pods ask for to a template: where that's name is written, and its possible kinds."""

    kind: str
    name: Path
    kinds: tuple[str, ...]


#: Kubeflow Trainer, KServe, llmaz and Argo Workflows.
REFERENCES: tuple[Reference, ...] = (
    Reference("TrainJob", ("spec", "runtimeRef", "name"), ("ClusterTrainingRuntime", "TrainingRuntime")),
    Reference(
        "InferenceService", ("spec", "predictor", "model", "runtime"), ("ServingRuntime", "ClusterServingRuntime")
    ),
    Reference("LLMInferenceService", ("spec", "baseRefs", 0, "name"), ("LLMInferenceServiceConfig",)),
    Reference("Playground", ("spec", "modelClaim", "modelName"), ("OpenModel",)),
    Reference("Workflow", ("spec", "workflowTemplateRef", "name"), ("WorkflowTemplate", "ClusterWorkflowTemplate")),
)

#: Machine types with accelerators of EC2, GCE and Azure (the catalogue knows each one).
_MACHINES = lazy_re.compile(
    r"(ml\.)?(p\d|g\d|gr\d|trn\d|inf\d|dl\d)\w*(-\w+)?\.\d*\w+|(a2|a3|a4|a4x|g2|g4|ct\d\w*)-\S+|Standard_N[CDGV]\w+"
)
#: Words for accelerators in keys (not in maxOutputTokens), and the models of them in values.
_GPU_KEY = lazy_re.compile(
    r"((^|[^A-Za-z])(?i:gpu|tpu|accelerator)|(?<=[a-z])(GPU|Gpu|TPU|Tpu|Accelerator))s?($|[^a-z])"
)
#: Lists of accelerators: KubeVirt's machines, Tanzu's, Cluster API's.
_GPU_LIST = lazy_re.compile(r"(?i)[vp]?gpus|accelerators|gpu_?devices")
_MODELS = lazy_re.compile(
    r"(?i)\b(nvidia[-_. ]?(tesla[-_. ]?)?)?([ABH]\d00|GH200|GB[23]00|L40S?|L4|T4|V100|MI[23]\d\d[AX]?|tpu-v\d\w*)\b"
)
_DEVICE_NAME = lazy_re.compile(
    r"(?i)\b(nvidia\.com/(gpu|mig-\S+)|amd\.com/gpu|google\.com/tpu|aws\.amazon\.com/neuron\w*"
    r"|habana\.ai/gaudi|gpu\.intel\.com/\w+)"
)
_KEYS = ("gpu", "gpus")
#: Names of maps that count resources, and how a number is written there: also one that something else fills in.
_RESOURCES = lazy_re.compile(r"(?i)(resources?|limits?|requests?|capacity|perNode)$")
_QUANTITY = lazy_re.compile(r"\d+(\.\d+)?[A-Za-z]{0,2}|.*(\$|\{\{|<).*")


def is_gpu_machine(machine_type: str) -> bool:
    """Whether an instance type of EC2, GCE or Azure has accelerators."""
    return _MACHINES.fullmatch(machine_type) is not None


def requested(node: Any) -> dict[str, Any]:
    """The devices that a field like a container's ``resources`` asks for, by their names as resources.

    Beside the API's own form: ``gpu: 1`` in it or in its limits (NVIDIA Dynamo, BentoML, the vLLM production stack;
    with ``gpuType`` where it is another vendor's), and Spark's ``{name: nvidia.com/gpu, quantity: 1}``.
    """
    found: dict[str, Any] = {}
    if not isinstance(node, dict):
        return found
    for part in (node, node.get("requests"), node.get("limits")):
        if isinstance(part, dict):
            found |= {str(key): value for key, value in part.items() if is_device(str(key)) and _some(value)}
            found |= {_named(part): part[key] for key in _KEYS if _some(part.get(key))}
    if is_device(str(node.get("name"))) and _some(node.get("quantity")):
        found[str(node["name"])] = node["quantity"]
    return found


def _named(part: Obj) -> str:
    kind = str(part.get("gpuType", ""))
    return kind if is_device(kind) else "nvidia.com/gpu"


def _some(value: Any) -> bool:
    """Whether a number, also one that is written as text or cannot be read, is not zero."""
    return isinstance(value, int | float | str) and not isinstance(value, bool) and str(value) not in ("", "0")


def mention(obj: Obj, but_for: Collection[str] = ()) -> str | None:
    """The first field of an object that names accelerators, with its value; empty: none does.

    ``but_for``: fields that are not looked into, wherever they are.
    """
    parts = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    return next(_mentions(parts, (), but_for), None)


def _mentions(node: Any, path: Path, but_for: Collection[str]) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in but_for:
                continue
            if _lists(str(key), value):
                yield f"{format_path((*path, key))}: {json.dumps(value)[:60]}"
            elif _says(str(key), value, _counts_resources(path)):
                yield f"{format_path((*path, key))}: {' '.join(str(value).split())[:60]}"
            else:
                yield from _mentions(value, (*path, key), but_for)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from _mentions(value, (*path, i), but_for)
    elif isinstance(node, str):
        found = _DEVICE_NAME.search(node)
        if found or is_gpu_machine(node):
            yield f"{format_path(path)}: {(found[0] if found else node)[:60]}"


def _lists(key: str, value: Any) -> bool:
    """Whether a field has accelerators in it, one by one (KubeVirt's ``gpus``), or their number (Run:ai's)."""
    if isinstance(value, list):
        return _GPU_LIST.fullmatch(key) is not None and any(isinstance(one, dict | str) for one in value)
    if not isinstance(value, dict) or not _GPU_KEY.search(key):
        return False
    counted = any(
        re.fullmatch(r"[1-9]\d*", str(value.get(field))) for field in ("value", "count", "quantity", "number")
    )
    return counted or any(isinstance(one, str) and _MODELS.search(one) for one in value.values())


def _counts_resources(path: Path) -> bool:
    """Whether a map counts resources: in any other one ``domain/name`` is a label or an annotation, not a device."""
    return bool(path) and _RESOURCES.search(str(path[-1])) is not None


def _says(key: str, value: Any, counts_resources: bool) -> bool:
    """Whether a field by itself names accelerators: a device's name with a number, GPU words with a number or model."""
    if isinstance(value, dict | list) or not _some(value):
        return False
    if key == "NVIDIA_VISIBLE_DEVICES" or (key == "runtimeClassName" and "nvidia" in str(value)):
        return str(value) not in ("none", "void")
    if is_known_device(key) or (counts_resources and is_device(key)):
        return _QUANTITY.fullmatch(str(value)) is not None
    if not _GPU_KEY.search(key):
        return False
    text = str(value)
    return bool(re.fullmatch(r"\d+", text) or _MODELS.search(text) or _DEVICE_NAME.search(text) or "$" in text)


def machine_of(obj: Obj) -> tuple[ByMachine, str] | None:
    """The row of a kind that names machines, and the type that an object of it names, where that has accelerators."""
    row = BY_MACHINE.get(str(obj.get("kind")))
    machine = str(dig(obj, *row.machine, default="")) if row else ""
    return (row, machine) if row is not None and is_gpu_machine(machine) else None
