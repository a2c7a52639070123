"""Who holds GPUs, and how many: extended resources of every vendor, DRA claims, nodes' capacity.

'GPU' stands for every accelerator rented by the hour: MIG slices, time slices, TPUs, Neuron and Gaudi devices too.
The names are those that the vendors' device plugins and DRA drivers register (their documentation, 2026). What is in
doubt counts as a GPU: a holder too many is a question, one too few a false pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache

from killcheck.kube.objects import Obj, controller_of, dig, namespace_of
from killcheck.kube.selectors import node_terms
from killcheck.text import lazy_re

__all__ = [
    "Claims",
    "Hold",
    "as_said",
    "claims_of",
    "devices",
    "fraction",
    "hold",
    "is_daemon",
    "is_device",
    "is_known_device",
    "node_devices",
    "requests",
    "shared",
    "spec_devices",
    "unaccounted",
    "waived",
]

#: ResourceClaims and ResourceClaimTemplates by (kind, namespace, name).
Claims = Mapping[tuple[str, str, str], Obj]

#: Extended resources that are accelerators, by vendor: each count is one device, slice or share of one.
_DEVICES = lazy_re.compile(
    r"nvidia\.com/.+|amd\.com/.+|gpu\.intel\.com/.+|aws\.amazon\.com/neuron.*|google\.com/tpu|cloud-tpus\.google\.com/.+"
    r"|habana\.ai/.+|.*qualcomm\.com/.+|huawei\.com/.+|cambricon\.com/.+|hygon\.com/.+|iluvatar\.(ai|com)/.+"
    r"|mthreads\.com/.+|metax-tech\.com/.+|enflame\.com/.+|kunlunxin\.com/.+|rebellions\.ai/.+|furiosa\.ai/.+"
    r"|alibabacloud\.com/gpu|tenstorrent\.com/.+|graphcore\.ai/.+|k8s\.amazonaws\.com/vgpu|volcano\.sh/vgpu-number"
    r"|deviceclass\.resource\.kubernetes\.io/.+"
    r"|[^/]+/(.*[^a-z])?(v|s)?(gpu|npu|tpu|mig|accelerator)s?([^a-z].*)?",
    re.IGNORECASE,
)
#: Amounts *of* a device (memory, cores): beside a device they say nothing new; alone they mean that one is held.
_PORTIONS = lazy_re.compile(r".*(mem(ory)?(\.max|-percentage)?|cores?|millicores|percentage|tiles|priority|ratio)")
#: What is registered beside accelerators: network cards, read-only monitoring, the kernel's own devices.
_OTHERS = lazy_re.compile(
    r".*(nics?|hostdev|rdma.*|.*_monitoring|roce.*|sriov.*|hca.*|mlnx.*|fabric.*)|(vfio-?)?(kvm|tun|fuse|vhost-net)"
    r"|(pod-)?eni(-ip)?|efa|erdma|nitro_enclaves|private-?ipv4address|qat.*|dsa.*|sgx.*|epc|provision|enclave"
    r"|(batch|mid)-(cpu|memory)|.*(tty|serial|video|camera|snd|usb|tpm|rtc|input|gpio|i2c|spi)[-_]?\w*",
    re.IGNORECASE,
)
#: Domains under which no accelerator is registered: networks, kernel devices, Kubernetes' own and its schedulers'.
_OTHER_DOMAINS = lazy_re.compile(
    r"rdma|vpc\.amazonaws\.com|devices\.kubevirt\.io|(.*\.)?network\.kubevirt\.io|smarter-devices|squat\.ai"
    r"|generic-device-plugin|networking\.gke\.io.*|(.*\.)?kubernetes\.io|mellanox\.com|openshift\.io|akri\.sh"
    r"|(sgx|qat|dsa|iaa|dlb|cmk|power)\.intel\.com|aliyun|tke\.cloud\.tencent\.com|scheduling\.k8s\.io|aws\.ec2\.nitro|github\.com"
)
#: DRA device classes that are no accelerators. Any other class counts as one.
_OTHER_CLASSES = lazy_re.compile(r".*(nic|net|rdma|cpu|memory|dranet|sriov|infiniband|roce|imex|channel|domain).*")
#: Annotations (or labels, of old) by which KAI and run:ai's scheduler hand out parts of a GPU, KAI's source:
#: pkg/common/constants. HAMi's shares are extended resources.
_FRACTIONS = ("gpu-fraction", "gpu-memory", "runai/gpu-fraction", "run.ai/gpu-fraction", "runai-gpu-fraction")
#: ...and those by which run:ai asks for a MIG instance, with its number.
_MIG = "nvidia.com/mig-"
_COUNT = lazy_re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi)?")
_SCALE = {"m": 0.001, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


#: A label by which nodes with accelerators are chosen.
_GPU_LABEL = lazy_re.compile(
    r"(?i)(?<![a-z])(gpu|npu|tpu|accelerator|nvidia|neuron|gaudi)(?![a-z]|[^=]*=(false|none|0)$)"
)


class Hold(StrEnum):
    """Whether a pod holds what it asks for, as far as its object tells."""

    WAITING = "waiting"  #: on no node yet
    RUNNING = "running"
    TERMINATING = "terminating"  #: being deleted: it holds until its object is gone, and no less than before
    FINISHED = "finished"  #: every container is dead, and nothing is left to wait for


def hold(pod: Obj) -> Hold:
    """What a pod's object says. An object that is *gone* says nothing: one deleted by force may leave its processes."""
    if "deletionTimestamp" in pod.get("metadata", {}):
        return Hold.TERMINATING if dig(pod, "spec", "nodeName") else Hold.FINISHED
    if dig(pod, "status", "phase") in ("Succeeded", "Failed") and not _any_running(pod):
        return Hold.FINISHED
    return Hold.RUNNING if dig(pod, "spec", "nodeName") else Hold.WAITING


def _any_running(pod: Obj) -> bool:
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    statuses = [status for kind in kinds for status in dig(pod, "status", kind, default=[])]
    return any("running" in (status.get("state") or {}) for status in statuses)


#: What the spec at work says of extended resources (shell patterns), before all that is known here.
_said: dict[str, bool] = {}


@contextmanager
def as_said(said: Mapping[str, bool]) -> Iterator[None]:
    """While a spec is at work: what it says is an accelerator, or is none. Device classes are named as the scheduler
    names their resources (``deviceclass.resource.kubernetes.io/NAME``).
    """
    global _said  # noqa: PLW0603 - a process works on one spec at a time, its threads on the same one
    before, _said = _said, dict(said)
    is_device.cache_clear()
    try:
        yield
    finally:
        _said = before
        is_device.cache_clear()


def _says(resource: str) -> bool | None:
    """What the spec at work says of a resource; None: nothing."""
    return next((is_one for pattern, is_one in _said.items() if fnmatchcase(resource, pattern)), None)


@cache
def is_device(resource: str) -> bool:
    """Whether an extended resource is an accelerator, or an amount of one.

    One that nobody here has heard of is: what a vendor registers tomorrow is rented by the hour too. What a spec says
    (:func:`as_said`) goes before.
    """
    said = _says(resource)
    return _taken_for_one(resource) if said is None else said


def waived(spec: Obj) -> list[str]:
    """The resources that a pod spec asks for, that count as accelerators, and of which the spec at work says no."""
    containers = (*dig(spec, "initContainers", default=[]), *dig(spec, "containers", default=[]))
    asked = {
        name
        for one in containers
        for part in ("limits", "requests")
        for name in dig(one, "resources", part, default={})
    }
    return sorted(name for name in asked if _says(name) is False and _taken_for_one(name))


@cache
def _taken_for_one(resource: str) -> bool:
    domain, _, name = resource.partition("/")
    if not name or _OTHERS.fullmatch(name):
        return False
    return is_known_device(resource) or not _OTHER_DOMAINS.fullmatch(domain)


@cache
def is_known_device(resource: str) -> bool:
    """Whether an extended resource, or a key of a taint, is an accelerator's by a vendor's name or a word for one."""
    return "/" in resource and bool(_DEVICES.fullmatch(resource)) and not _OTHERS.fullmatch(resource.partition("/")[2])


@cache
def _is_portion(resource: str) -> bool:
    return bool(_PORTIONS.fullmatch(resource.rpartition("/")[2]))


def requests(spec: Obj) -> dict[str, int]:
    """What a pod spec asks for of each accelerator resource, as the scheduler adds it up.

    The larger of all containers with the sidecars (init containers that restart always), and of each init container
    with the sidecars started before it (KEP-753); pod-level resources where they say more (KEP-2837).
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in dig(spec, "initContainers", default=()):
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            _add(running, asked)
        else:
            _raise(peak, asked, running)
    for container in dig(spec, "containers", default=[]):
        _add(running, _asked(container))
    _raise(peak, running, {})
    _raise(peak, _asked(spec), {})
    return {name: count for name, count in peak.items() if count}


def _asked(container: Obj) -> dict[str, int]:
    found: dict[str, int] = {}
    resources = dig(container, "resources")
    if not resources:
        return found
    for part in ("limits", "requests"):  # equal for extended resources; a manifest may give the limit alone
        for name, quantity in dig(resources, part, default={}).items():
            if is_device(name):
                found[name] = max(found.get(name, 0), _count(quantity))
    return found


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _raise(peak: dict[str, int], asked: Mapping[str, int], beside: Mapping[str, int]) -> None:
    for name in {*asked, *beside}:
        peak[name] = max(peak.get(name, 0), asked.get(name, 0) + beside.get(name, 0))


def _count(quantity: object) -> int:
    """A quantity as a whole number, rounded up: what cannot be read is one device, never none."""
    match = _COUNT.fullmatch(str(quantity))
    if not match:
        return 1
    amount = float(match[1]) * _SCALE.get(match[2] or "", 1.0)
    return int(-(-amount // 1))


def _total(asked: Mapping[str, int]) -> int:
    # Neuron's plugin offers the same devices under two names, and their cores under a third.
    again = {"aws.amazon.com/neurondevice"} if asked.get("aws.amazon.com/neuron") else set()
    whole = sum(count for name, count in asked.items() if not _is_portion(name) and name not in again)
    return whole or int(any(asked.values()))


def devices(pod: Obj, claims: Claims | None = None) -> int:
    """How many accelerators a pod asks for, whether or not it has them already; see :func:`hold`.

    ``claims`` are the ResourceClaims and templates that are known; a claim that is not among them counts one device.
    """
    return spec_devices(dig(pod, "spec", default={}), namespace_of(pod), claims, pod)


def spec_devices(
    spec: Obj,
    namespace: str = "",
    claims: Claims | None = None,
    pod: Obj | None = None,
    metadata: Obj | None = None,
) -> int:
    """The same for a pod spec, as in a template of a workload in ``namespace``; ``metadata`` is the template's."""
    found = _total(requests(spec))
    for entry in dig(spec, "resourceClaims", default=[]):
        found += _claim_devices(_claim(entry, namespace, claims or {}, pod))
    return found or fraction(metadata or (pod or {}).get("metadata") or {})


def fraction(metadata: Obj) -> int:
    """How many devices a pod shares by annotation alone, at least one for any part; 0: it asks for none that way."""
    notes = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    parts = [key for key in notes if key in _FRACTIONS or key.startswith(_MIG)]
    if not any(str(notes[key] or "0") not in ("0", "0.0", "") for key in parts):
        return 0
    return max(1, _count(notes.get("gpu-fraction-num-devices") or 1))


def shared(metadata: Obj) -> str | None:
    """The annotation by which a pod seems to ask for a part of a GPU, of a sharer that nobody here knows; None: none.

    A key with a word for accelerators, and a share or an amount: ``gpu.example.net/share: "0.5"``.
    """
    notes = metadata.get("annotations") or {}
    short = {key: str(value) for key, value in notes.items() if len(str(value)) <= _LONGEST_SHARE}
    return next((key for key, value in short.items() if _SHARER.search(key) and _SHARE.fullmatch(value)), None)


#: So long is a share or an amount at most, in characters: an annotation may have a quarter of a megabyte.
_LONGEST_SHARE = 24
#: A key that speaks of accelerators, and of no port, hour or version of what watches them; a value that is a part.
_SHARER = lazy_re.compile(
    r"(?i)(?<![a-z])v?(gpu|npu|tpu|mig|accelerator)s?(?![a-z])"
    r"(?!.*(port|interval|timeout|scrape|metric|version|revision|driver|priority|cost|price|checksum|updated|seconds))"
)
_SHARE = lazy_re.compile(r"(0?\.\d*[1-9]\d*|[1-9]\d{0,5}(\.\d+)?)\s*(%|[kKMGT]i?B?)?")


def claims_of(objects: Iterable[Obj]) -> dict[tuple[str, str, str], Obj]:
    """The ResourceClaims and ResourceClaimTemplates among ``objects``, as :func:`devices` takes them."""
    return {
        (str(obj["kind"]), namespace_of(obj), str(dig(obj, "metadata", "name"))): obj
        for obj in objects
        if obj.get("kind") in ("ResourceClaim", "ResourceClaimTemplate")
    }


def _claim(entry: Obj, namespace: str, claims: Claims, pod: Obj | None) -> Obj | None:
    """The claim (or what will be one) behind an entry of ``spec.resourceClaims``."""
    statuses = dig(pod or {}, "status", "resourceClaimStatuses", default=[])
    made = next((s.get("resourceClaimName") for s in statuses if s.get("name") == entry.get("name")), None)
    name = entry.get("resourceClaimName") or made
    found = claims.get(("ResourceClaim", namespace, str(name))) if name else None
    if found is None and entry.get("resourceClaimTemplateName"):
        template = claims.get(("ResourceClaimTemplate", namespace, str(entry["resourceClaimTemplateName"])))
        found = dig(template, "spec") if template else None
    return found


def _claim_devices(claim: Obj | None) -> int:
    if claim is None:
        return 1
    results = dig(claim, "status", "allocation", "devices", "results")
    asked = dig(claim, "spec", "devices", "requests", default=[])
    classes = {request.get("name"): _classes(request) for request in asked}
    if results is not None:
        return sum(
            1
            for result in results
            if not result.get("adminAccess") and _any_accelerator(classes.get(result["request"].partition("/")[0], []))
        )
    return sum(_request_devices(request) for request in asked)


def _request_devices(request: Obj) -> int:
    """How many devices a request of a claim wants (v1 wraps in ``exactly``, v1beta1 does not); 'All' is at least 1."""
    choices = request.get("firstAvailable") or [request.get("exactly") or request]
    wanted = [
        int(choice.get("count") or 1)
        for choice in choices
        if not choice.get("adminAccess") and _any_accelerator([str(choice.get("deviceClassName", ""))])
    ]
    return max(wanted, default=0)


def _classes(request: Obj) -> list[str]:
    choices = request.get("firstAvailable") or [request.get("exactly") or request]
    return [str(choice.get("deviceClassName", "")) for choice in choices]


def _any_accelerator(classes: Iterable[str]) -> bool:
    names = list(classes)
    return not names or any(map(_is_class_of_devices, names))


def _is_class_of_devices(name: str) -> bool:
    said = _says(f"deviceclass.resource.kubernetes.io/{name}")
    return ("gpu" in name or not _OTHER_CLASSES.fullmatch(name)) if said is None else said


def unaccounted(spec: Obj) -> str | None:
    """How a pod spec reaches GPUs that it does not ask for, in a phrase; None if it does not.

    The NVIDIA runtime hands devices to whoever sets NVIDIA_VISIBLE_DEVICES where it is allowed to, a host path under
    /dev is a device without any accounting, and a privileged container on a node with GPUs sees them all.
    """
    if _total(requests(spec)) or spec.get("resourceClaims"):
        return None
    containers = (*dig(spec, "initContainers", default=[]), *dig(spec, "containers", default=[]))
    for container in containers:
        for entry in container.get("env") or []:
            if entry.get("name") == "NVIDIA_VISIBLE_DEVICES" and entry.get("value") not in (None, "", "none", "void"):
                return f"container {container.get('name')} sets NVIDIA_VISIBLE_DEVICES={entry['value']}"
    for volume in spec.get("volumes") or []:
        path = str(dig(volume, "hostPath", "path", default=""))
        if re.match(r"/dev/(nvidia|dri|kfd|neuron|accel|vfio)", path):
            return f"volume {volume.get('name')} mounts {path} from the host"
    privileged = next((c for c in containers if dig(c, "securityContext", "privileged") is True), None)
    where = _wants_gpu_node(spec)
    if privileged is None or not where:
        return None
    return f"container {privileged.get('name')} is privileged on nodes with GPUs ({where})"


def _wants_gpu_node(spec: Obj) -> str | None:
    """The label or taint of GPU nodes that a pod spec goes by; None: none."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        if _GPU_LABEL.search(f"{key}={value}"):
            return f"nodeSelector {key}={value}"
    for expression in (e for term in node_terms(spec) for e in term.get("matchExpressions") or ()):
        said = f"{expression.get('key')}={','.join(map(str, expression.get('values') or ()))}"
        if expression.get("operator") in ("In", "Exists", "Gt") and _GPU_LABEL.search(said):
            return f"node affinity {said}"
    return None


def is_daemon(pod: Obj) -> bool:
    """Whether a pod belongs to its node (a DaemonSet's, or a static one): it goes when the node goes."""
    owner = controller_of(pod)
    return owner is not None and owner.get("kind") in ("DaemonSet", "Node")


def node_devices(node: Obj) -> int:
    """How many accelerators a node has, by its capacity (not what is free, or healthy)."""
    capacity = dig(node, "status", "capacity", default={})
    return _total({name: _count(quantity) for name, quantity in capacity.items() if is_device(name)})
