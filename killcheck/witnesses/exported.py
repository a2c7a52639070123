"""What the exporters would say of what a drill saw: series of kube-state-metrics and of dcgm-exporter.

Sources: kube-state-metrics docs/metrics and internal/store (names, labels; without `--metric-labels-allowlist` there
are no `kube_*_labels` at all), dcgm-exporter etc/default-counters.csv and internal/pkg/rendermetrics (labels). The
label `node` of DCGM's series, and `exported_*`, are the scrape's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from killcheck.alerting.monitors import Scrape
from killcheck.kube import gpus
from killcheck.kube.objects import Obj, controller_of, dig, labels_of, name_of, namespace_of, parse_time
from killcheck.text import lazy_re

__all__ = [
    "ABOUT_GPUS",
    "BUSY",
    "DONE",
    "GPU_METRICS",
    "KNOWN",
    "Exporters",
    "Sample",
    "allowed_labels",
    "samples",
]

#: A metric, its labels, its value.
Sample = tuple[str, dict[str, str], float]
#: What is nothing on an idle GPU.
GPU_METRICS = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_SM_ACTIVE",
)
#: What a series is worth while the GPUs are busy: percent; of the others a share.
BUSY: Mapping[str, float] = {"DCGM_FI_DEV_GPU_UTIL": 100.0, "DCGM_FI_DEV_MEM_COPY_UTIL": 100.0}
#: Labels that an exporter and its scrape both have.
_OF_TARGETS = ("namespace", "pod", "container")
_OF_RESOURCE = lazy_re.compile(r"(\w+)=\[([^\]]*)\]")
_NOT_IN_A_LABEL = lazy_re.compile(r"[^a-zA-Z0-9_]")


class Exporters(Struct, frozen=True):
    """How they are set up. ``labels``: which labels kube-state-metrics exports, by resource in its plural; None: every
    one, as nobody saw its arguments. ``discovered``: nodes have the labels that GPU feature discovery gives them
    (otherwise the least of them is taken to be there). ``scrapes``: how each exporter is scraped; of one that is not
    there nobody saw it: cards have the labels of their pods in both spellings, and one of their node, and of
    kube-state-metrics its own labels are kept.
    """

    labels: Mapping[str, frozenset[str]] | None = None
    discovered: bool = False
    scrapes: Mapping[str, Scrape] = field(default_factory=dict)

    def scraped(self, exporter: str, labels: dict[str, str]) -> dict[str, str]:
        """What the scrape calls labels that the exporter gives itself (``honorLabels``, by default false)."""
        both = {name: value for name, value in labels.items() if name in _OF_TARGETS}
        renamed = {f"exported_{name}": value for name, value in both.items()}
        one = self.scrapes.get(exporter)
        if one is None:
            return labels | renamed if exporter == "dcgm-exporter" else labels
        own = {} if exporter == "kube-state-metrics" or one.node else {"node": ""}
        kept = {name: value for name, value in labels.items() if own.get(name) != ""}
        if one.honours:
            return kept
        target = {"namespace": one.namespace, "pod": f"{exporter}-0", "container": exporter}
        return {**kept, **target, **renamed}

    def exports(self, resource: str, label: str) -> bool:
        """Whether a label of such objects is exported."""
        if self.labels is None:
            return True
        allowed = self.labels.get(resource, frozenset())
        return label in allowed or "*" in allowed


def allowed_labels(workloads: Iterable[Obj]) -> dict[str, frozenset[str]] | None:
    """What the kube-state-metrics among some Deployments exports of labels; None where none of them is that."""
    found: dict[str, frozenset[str]] | None = None
    for obj in workloads:
        for container in dig(obj, "spec", "template", "spec", "containers", default=[]):
            if "kube-state-metrics" not in str(container.get("image", "")).partition("@")[0].rpartition("/")[2]:
                continue
            found = found or {}
            words = map(str, [*(container.get("command") or ()), *(container.get("args") or ())])
            for said in re.findall(r"--metric-labels-allowlist[= ](\S+)", " ".join(words)):
                for resource, names in _OF_RESOURCE.findall(said):
                    found[resource] = frozenset(name.strip() for name in names.split(","))
    return found


def samples(
    pods: Iterable[Obj],
    nodes: Iterable[Obj],
    jobs: Iterable[Obj],
    targets: Iterable[Obj],
    exporters: Exporters | None = None,
) -> Iterator[Sample]:
    """What the exporters would say of these objects, and what the scrape of each adds."""
    exporters = exporters or Exporters()
    for metric, labels, value in _said(pods, nodes, jobs, targets, exporters):
        exporter = "dcgm-exporter" if metric.startswith("DCGM_") else "kube-state-metrics"
        yield metric, exporters.scraped(exporter, labels) | _scraped(metric, labels), value


def _scraped(metric: str, labels: Mapping[str, str]) -> dict[str, str]:
    """``job`` and ``instance``: of dcgm-exporter one a node. Made up: no matcher may rest on one."""
    if metric.startswith("DCGM_"):
        return {"job": "dcgm-exporter", "instance": f"{labels['Hostname']}:9400"}
    return {"job": "kube-state-metrics", "instance": "kube-state-metrics:8080"}


def _said(
    pods: Iterable[Obj], nodes: Iterable[Obj], jobs: Iterable[Obj], targets: Iterable[Obj], exporters: Exporters
) -> Iterator[Sample]:
    for pod in pods:
        if gpus.devices(pod) and dig(pod, "spec", "nodeName"):
            yield from _of_pod(pod, exporters)
            yield from _of_cards(pod)
    for node in nodes:
        yield from _of_node(node, exporters)
    for job in jobs:
        yield from _of_job(job)
    for obj in targets:
        yield from _of_target(obj, exporters)


def _of_pod(pod: Obj, exporters: Exporters) -> Iterator[Sample]:
    """kube-state-metrics of a pod that holds GPUs on a node."""
    node, names = str(dig(pod, "spec", "nodeName")), {"namespace": namespace_of(pod), "pod": name_of(pod)}
    owner = controller_of(pod) or {}
    by = {"created_by_kind": str(owner.get("kind", "<none>")), "created_by_name": str(owner.get("name", "<none>"))}
    yield "kube_pod_info", names | by | {"node": node}, 1.0
    for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
        yield "kube_pod_status_phase", names | {"phase": phase}, float(dig(pod, "status", "phase") == phase)
    yield from _moment("kube_pod_created", names, dig(pod, "metadata", "creationTimestamp"))
    yield from _moment("kube_pod_start_time", names, dig(pod, "status", "startTime"))
    yield from _labels("kube_pod_labels", "pods", names, pod, exporters)
    container = str(dig(pod, "spec", "containers", 0, "name", default=""))
    asked = names | {"container": container, "node": node, "resource": "nvidia_com_gpu", "unit": "integer"}
    for metric in ("kube_pod_container_resource_requests", "kube_pod_container_resource_limits"):
        yield metric, asked, float(gpus.devices(pod))


def _of_cards(pod: Obj) -> Iterator[Sample]:
    """dcgm-exporter of the cards that a pod holds."""
    node, container = str(dig(pod, "spec", "nodeName")), str(dig(pod, "spec", "containers", 0, "name", default=""))
    held = {"namespace": namespace_of(pod), "pod": name_of(pod), "container": container}
    for gpu in range(gpus.devices(pod)):
        card = {"gpu": str(gpu), "device": f"nvidia{gpu}", "UUID": f"GPU-{node}-{gpu}", "Hostname": node, "node": node}
        for metric in GPU_METRICS:
            yield metric, card | held, 0.0


def _of_node(node: Obj, exporters: Exporters) -> Iterator[Sample]:
    name, count = {"node": name_of(node)}, gpus.node_devices(node)
    yield "kube_node_info", name, 1.0
    yield from _moment("kube_node_created", name, dig(node, "metadata", "creationTimestamp"))
    yield "kube_node_spec_unschedulable", name, float(bool(dig(node, "spec", "unschedulable")))
    for metric in ("kube_node_status_capacity", "kube_node_status_allocatable"):
        yield metric, name | {"resource": "nvidia_com_gpu", "unit": "integer"}, float(count)
    for found in dig(node, "status", "conditions", default=[]):
        for status in ("true", "false", "unknown"):
            labels = name | {"condition": str(found.get("type")), "status": status}
            yield "kube_node_status_condition", labels, float(str(found.get("status")).lower() == status)
    labelled = node
    if count and not exporters.discovered and not any(one.startswith("nvidia.com/") for one in labels_of(node)):
        metadata = {**node["metadata"], "labels": {**labels_of(node), "nvidia.com/gpu.present": "true"}}
        labelled = {**node, "metadata": metadata}
    yield from _labels("kube_node_labels", "nodes", name, labelled, exporters)


def _of_job(job: Obj) -> Iterator[Sample]:
    labels = {"namespace": namespace_of(job), "job_name": name_of(job)}
    yield "kube_job_info", labels, 1.0
    yield from _moment("kube_job_created", labels, dig(job, "metadata", "creationTimestamp"))
    yield from _moment("kube_job_status_start_time", labels, dig(job, "status", "startTime"))
    yield from _moment("kube_job_status_completion_time", labels, dig(job, "status", "completionTime"))
    for metric, name in _SPEC_OF_JOBS.items():
        if dig(job, "spec", name) is not None:
            yield metric, labels, float(job["spec"][name])
    for key in ("active", "succeeded", "ready"):
        yield f"kube_job_status_{key}", labels, float(dig(job, "status", key, default=0) or 0)
    yield from _failures(job, labels)
    states = {str(one.get("type")): str(one.get("status")) for one in dig(job, "status", "conditions", default=[])}
    for metric, kind in (("kube_job_failed", "Failed"), ("kube_job_complete", "Complete")):
        if kind in states:
            for status in ("true", "false", "unknown"):
                yield metric, labels | {"condition": status}, float(states[kind].lower() == status)


def _failures(job: Obj, labels: dict[str, str]) -> Iterator[Sample]:
    """How many pods failed; of a Job that failed by a known reason, whether by this one, and not how many."""
    failed, known = float(dig(job, "status", "failed", default=0) or 0), False
    for one in dig(job, "status", "conditions", default=[]) if failed else ():
        for reason in _REASONS if one.get("type") == "Failed" else ():
            known = known or one.get("reason") == reason
            yield "kube_job_status_failed", labels | {"reason": reason}, float(one.get("reason") == reason)
    if not known:
        yield "kube_job_status_failed", labels, failed


def _of_target(obj: Obj, exporters: Exporters) -> Iterator[Sample]:
    kind = str(obj.get("kind", "")).lower()
    if kind not in ("deployment", "statefulset"):
        return
    labels = {"namespace": namespace_of(obj), kind: name_of(obj)}
    spec = "kube_deployment_spec_replicas" if kind == "deployment" else "kube_statefulset_replicas"
    yield spec, labels, float(dig(obj, "spec", "replicas", default=0) or 0)
    yield f"kube_{kind}_status_replicas", labels, float(dig(obj, "status", "replicas", default=0) or 0)
    ready = float(dig(obj, "status", "readyReplicas", default=0) or 0)
    yield f"kube_{kind}_status_replicas_ready", labels, ready
    yield (
        f"kube_{kind}_status_replicas_available",
        labels,
        float(dig(obj, "status", "availableReplicas", default=0) or 0),
    )
    yield from _labels(f"kube_{kind}_labels", f"{kind}s", labels, obj, exporters)


def _moment(metric: str, labels: dict[str, str], at: object) -> Iterator[Sample]:
    if at:
        yield metric, labels, parse_time(str(at)).timestamp()


def _labels(metric: str, resource: str, names: dict[str, str], obj: Obj, exporters: Exporters) -> Iterator[Sample]:
    """One series with each label that is exported; none where none is."""
    if exporters.labels is not None and not exporters.labels.get(resource):
        return
    found = {
        f"label_{_NOT_IN_A_LABEL.sub('_', label)}": str(value)
        for label, value in labels_of(obj).items()
        if exporters.exports(resource, label)
    }
    yield metric, names | found, 1.0


#: Metrics of what costs money: in the night that an alarm is for, they stay.
ABOUT_GPUS = frozenset(
    {
        *GPU_METRICS,
        "kube_pod_info",
        "kube_pod_status_phase",
        "kube_pod_created",
        "kube_pod_start_time",
        "kube_pod_labels",
        "kube_pod_container_resource_requests",
        "kube_pod_container_resource_limits",
        "kube_node_info",
        "kube_node_created",
        "kube_node_labels",
        "kube_node_spec_unschedulable",
        "kube_node_status_capacity",
        "kube_node_status_allocatable",
        "kube_node_status_condition",
        *(
            f"kube_{kind}_{what}"
            for kind in ("deployment", "statefulset")
            for what in ("status_replicas", "status_replicas_ready", "status_replicas_available", "labels")
        ),
        "kube_deployment_spec_replicas",
        "kube_statefulset_replicas",
    }
)
#: Why a Job fails, of the reasons that kube-state-metrics knows (internal/store/job.go).
_REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "Evicted")
_SPEC_OF_JOBS = {
    "kube_job_spec_parallelism": "parallelism",
    "kube_job_spec_completions": "completions",
    "kube_job_spec_active_deadline_seconds": "activeDeadlineSeconds",
}
_JOBS = (
    *("kube_job_info", "kube_job_created", "kube_job_failed", "kube_job_complete", *_SPEC_OF_JOBS),
    *(
        f"kube_job_status_{what}"
        for what in ("active", "succeeded", "failed", "ready", "start_time", "completion_time")
    ),
)
#: What a Job says that did its work: in a night on which the GPUs stay on, none did.
DONE = frozenset({"kube_job_complete", "kube_job_status_succeeded", "kube_job_status_completion_time"})
#: Every metric of which :func:`samples` says something.
KNOWN = ABOUT_GPUS | {*_JOBS}
