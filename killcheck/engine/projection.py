"""What a Docker Engine says, as Kubernetes objects: a container as a Pod and as what asks for it, the host as a Node.

Pure functions of what ``docker inspect`` and ``docker info`` answer. A container is on while the engine says so: paused
and restarting ones hold their GPUs too. What is in doubt counts as a GPU.

Facts about the engine's answers: docs.docker.com/reference/api/engine (v1.41), and engines 20.10 as tried.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime
from typing import Any

from killcheck.kube.objects import Obj, dig
from killcheck.kube.resources import Resource
from killcheck.text import lazy_re
from killcheck.text.numbers import whole

__all__ = [
    "CONSENT",
    "CONTAINERS",
    "GROUP",
    "IMAGES",
    "JOB_LABEL",
    "NAMESPACE",
    "SCHEDULE",
    "SPARE",
    "TAGS",
    "container_of",
    "creation",
    "cron_job_of",
    "devices",
    "image_of",
    "is_on",
    "moment",
    "name_in",
    "node_of",
    "pod_of",
    "seconds",
    "versioned",
]

#: The one namespace of an engine: a container's name is its own all over the engine.
NAMESPACE = "docker"
GROUP = "docker.killcheck.dev"
CONTAINERS = Resource(GROUP, "v1", "containers", "Container")
IMAGES = Resource(GROUP, "v1", "images", "Image", False)
TAGS = Resource(GROUP, "v1", "tags", "Tag", False)
#: A container consents by this label with the value "true".
CONSENT = "killcheck.dev/consent"
#: A container's own word for how many GPUs it holds, where the engine cannot tell.
GPUS = "killcheck.dev/gpus"
#: The firing that a container of ours belongs to.
JOB_LABEL = "killcheck.dev/job"
#: On a template: the container it was made from, and whether a firing runs inside that container.
SOURCE = "killcheck.dev/container"
HOW = "killcheck.dev/how"
SCHEDULE = "killcheck.dev/schedule"
#: On a container that must be there again: the one, never started, that it is then made from.
SPARE = "killcheck.dev/spare"
#: The extended resource that a container's GPUs are counted as.
RESOURCE = f"{GROUP}/gpu"

#: Runtimes that hand out devices to whoever sets the variable (the vendors' container toolkits, 2026).
_RUNTIMES = {"nvidia": "NVIDIA_VISIBLE_DEVICES", "amd": "AMD_VISIBLE_DEVICES", "habana": "HABANA_VISIBLE_DEVICES"}
_DEVICE = lazy_re.compile(r"/dev/(nvidia\d+|dri/(card|renderD)\d+|kfd|accel\d*|neuron\d+|vfio/\d+|dxg|davinci\d+)")
_NOTHING = ("", "none", "void", "NoDevFiles")
_NEVER = "0001-01-01T00:00:00Z"


def name_in(inspect: Obj) -> str:
    """A container's name without the engine's slash."""
    return str(inspect.get("Name", "")).lstrip("/")


def moment(text: str | None) -> str:
    """An engine's time with at most microseconds; empty for 'never'."""
    if not text or text.startswith("0001-"):
        return ""
    return re.sub(r"(\.\d{6})\d+", r"\1", text)


def seconds(rfc3339: str) -> str:
    """An engine's time, in whatever zone it tells it, as its events' ``since`` takes it: seconds.nanoseconds."""
    whole, fraction, zone = re.fullmatch(r"(.{19})(?:\.(\d+))?(.*)", rfc3339).groups()  # type: ignore[union-attr]
    offset = "+00:00" if zone in ("", "Z") else zone
    return f"{int(datetime.fromisoformat(whole + offset).timestamp())}.{(fraction or '0').ljust(9, '0')[:9]}"


def versioned(obj: Obj) -> Obj:
    """The object with a resourceVersion that changes exactly when it does."""
    meta = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    text = json.dumps({**obj, "metadata": meta}, sort_keys=True, default=str)
    obj["metadata"]["resourceVersion"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return obj


# -- GPUs --------------------------------------------------------------------------------------------------
def devices(inspect: Obj) -> int:
    """How many accelerators a container holds while it is on; 'all of them' is at least one."""
    return max(_labelled(inspect), _requested(inspect), _by_runtime(inspect), _mapped(inspect))


def _labelled(inspect: Obj) -> int:
    value = (dig(inspect, "Config", "Labels", default={}) or {}).get(GPUS)
    if value is None:
        return 0
    number = whole(value)
    return 1 if number is None else number


def _requested(inspect: Obj) -> int:
    total = 0
    for request in dig(inspect, "HostConfig", "DeviceRequests", default=[]) or []:
        wanted = {word for words in request.get("Capabilities") or [] for word in words}
        if wanted and "gpu" not in wanted and request.get("Driver") not in ("nvidia", "cdi", "amd"):
            continue
        ids = request.get("DeviceIDs") or []
        count = int(request.get("Count") or 0)
        total += len(ids) or (count if count > 0 else 1)
    return total


def _by_runtime(inspect: Obj) -> int:
    variable = _RUNTIMES.get(str(dig(inspect, "HostConfig", "Runtime", default="")))
    if variable is None:
        return 0
    env = dict(entry.partition("=")[::2] for entry in dig(inspect, "Config", "Env", default=[]) or [])
    value = env.get(variable, "")
    return 0 if value in _NOTHING else len(value.split(","))


def _mapped(inspect: Obj) -> int:
    paths = {str(d.get("PathOnHost", "")) for d in dig(inspect, "HostConfig", "Devices", default=[]) or []}
    paths |= {str(m.get("Source", "")) for m in inspect.get("Mounts") or []}
    found = {match[1] for path in paths if (match := _DEVICE.match(path))}
    cards = {name for name in found if name.startswith("nvidia")}
    return len(cards) or int(bool(found))


# -- containers --------------------------------------------------------------------------------------------
def is_on(inspect: Obj) -> bool:
    """Whether a container holds what it was given: it runs, or will go on."""
    state = inspect.get("State") or {}
    return bool(state.get("Running") or state.get("Paused") or state.get("Restarting"))


def _meta(inspect: Obj, **more: Any) -> Obj:
    return {
        "name": name_in(inspect),
        "namespace": NAMESPACE,
        "uid": inspect["Id"],
        "creationTimestamp": moment(inspect.get("Created")),
        "labels": dict(dig(inspect, "Config", "Labels", default={}) or {}),
        **more,
    }


def container_of(inspect: Obj) -> Obj:
    """The container as what is asked for: on or off, paused, its networks. Writing these fields changes it."""
    state = inspect.get("State") or {}
    turned = moment(state.get("StartedAt") if is_on(inspect) else state.get("FinishedAt"))
    written = {
        "manager": "docker",
        "operation": "Update",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }
    meta = _meta(inspect)
    if turned:
        meta["managedFields"] = [{**written, "time": turned}]
    networks = dig(inspect, "NetworkSettings", "Networks", default={}) or {}
    return versioned(
        {
            "apiVersion": CONTAINERS.api_version,
            "kind": CONTAINERS.kind,
            "metadata": meta,
            "spec": {
                "replicas": int(is_on(inspect)),
                "paused": bool(state.get("Paused")),
                "networks": {name: _endpoint(inspect, network) for name, network in networks.items()},
                "restart": str(dig(inspect, "HostConfig", "RestartPolicy", "Name", default="")) or "no",
            },
            "status": {"replicas": int(is_on(inspect)), "state": str(state.get("Status", ""))},
        }
    )


def _endpoint(inspect: Obj, network: Obj) -> Obj:
    """What was asked for of a connection: aliases and a fixed address. What the engine chose is not that."""
    own = {inspect["Id"][:12], name_in(inspect)}
    aliases = sorted(alias for alias in network.get("Aliases") or [] if alias not in own)
    fixed = {key: value for key, value in (network.get("IPAMConfig") or {}).items() if value}
    return {**({"aliases": aliases} if aliases else {}), **({"ipam": fixed} if fixed else {}), "connected": True}


def pod_of(inspect: Obj, node: str, *, terminating_since: str = "") -> Obj:
    """The container as a Pod on the engine's node, controlled by the container that is asked for."""
    labels = dict(dig(inspect, "Config", "Labels", default={}) or {})
    owner = {"apiVersion": CONTAINERS.api_version, "kind": "Container", "name": name_in(inspect), "uid": inspect["Id"]}
    meta = _meta(inspect, ownerReferences=[{**owner, "controller": True}])
    on = is_on(inspect)
    if terminating_since and on:
        meta["deletionTimestamp"] = terminating_since
    meta["labels"] = labels
    count = devices(inspect)
    resources = {"limits": {RESOURCE: str(count)}} if count else {}
    state = inspect.get("State") or {}
    begun = moment(state.get("StartedAt"))
    spec = {
        "nodeName": node if on or begun else "",
        "containers": [
            {"name": "container", "image": dig(inspect, "Config", "Image", default=""), "resources": resources}
        ],
    }
    return versioned(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": spec,
            "status": {"phase": _phase(inspect), "containerStatuses": [_status(inspect)]},
        }
    )


def _phase(inspect: Obj) -> str:
    state = inspect.get("State") or {}
    if is_on(inspect):
        return "Running"
    if state.get("Status") == "created":
        return "Pending"
    return "Failed" if state.get("ExitCode") else "Succeeded"


def _status(inspect: Obj) -> Obj:
    state = inspect.get("State") or {}
    begun, ended = moment(state.get("StartedAt")), moment(state.get("FinishedAt"))
    terminated = {
        "terminated": {
            "exitCode": int(state.get("ExitCode") or 0),
            "startedAt": begun,
            "finishedAt": ended,
            "reason": "OOMKilled" if state.get("OOMKilled") else ("Error" if state.get("ExitCode") else "Completed"),
            **({"message": state["Error"]} if state.get("Error") else {}),
        }
    }
    restarts = int(inspect.get("RestartCount") or 0)
    status: Obj = {
        "name": "container",
        "image": dig(inspect, "Config", "Image", default=""),
        "containerID": f"docker://{inspect['Id']}",
        "restartCount": restarts,
        "ready": is_on(inspect),
    }
    if state.get("Restarting"):  # between two runs: its last end is known, the next start is the engine's
        status |= {"state": {"running": {"startedAt": begun}}, "lastState": terminated}
    elif is_on(inspect):
        status["state"] = {"running": {"startedAt": begun}}
        if ended and restarts:
            code = int(state.get("ExitCode") or 0)
            status["lastState"] = {"terminated": {"exitCode": code, "startedAt": ended, "finishedAt": ended}}
    elif begun and ended:
        status["state"] = terminated
    else:
        status["state"] = {"waiting": {"reason": "Created"}}
    return status


# -- the host, images --------------------------------------------------------------------------------------
def node_of(info: Obj, gpus: int, instance_type: str = "") -> Obj:
    """The engine's host. ``gpus``: what its containers ask for, at least one."""
    labels = dict(text.partition("=")[::2] for text in info.get("Labels") or [])
    if instance_type:
        labels.setdefault("node.kubernetes.io/instance-type", instance_type)
    capacity = {RESOURCE: str(max(1, gpus)), "cpu": str(info.get("NCPU", 1))}
    return versioned(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": str(info.get("Name") or "docker"),
                "uid": str(info.get("ID") or "docker"),
                "labels": labels,
                "creationTimestamp": "1970-01-01T00:00:00Z",
            },
            "spec": {},
            "status": {
                "capacity": capacity,
                "allocatable": capacity,
                "nodeInfo": {"containerRuntimeVersion": f"docker://{info.get('ServerVersion', '')}"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )


def image_of(inspect: Obj) -> Obj:
    """An image by its id, with its tags as a map, so that a merge patch can take one away and give it back."""
    return versioned(
        {
            "apiVersion": IMAGES.api_version,
            "kind": IMAGES.kind,
            "metadata": {
                "name": inspect["Id"],
                "uid": inspect["Id"],
                "creationTimestamp": moment(inspect.get("Created")),
            },
            "spec": {"tags": dict.fromkeys(inspect.get("RepoTags") or [], True)},
        }
    )


# -- what fires --------------------------------------------------------------------------------------------
def cron_job_of(inspect: Obj, name: str, argv: tuple[str, ...], schedule: str, zone: str) -> Obj:
    """A layer's container as a CronJob: each firing runs ``argv`` inside it, or, without, a new one made from it."""
    labels = dig(inspect, "Config", "Labels", default={}) or {}
    own = [*(dig(inspect, "Config", "Entrypoint") or []), *(dig(inspect, "Config", "Cmd") or [])]
    template = {
        "metadata": {"annotations": {SOURCE: name_in(inspect), HOW: "exec" if argv else "run"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "executor",
                    "image": dig(inspect, "Config", "Image", default=""),
                    "command": list(argv) or own,
                    "volumeMounts": [{"mountPath": one["Destination"]} for one in inspect.get("Mounts") or []],
                    "imagePullPolicy": "Always" if labels.get("killcheck.dev/pull") == "always" else "IfNotPresent",
                }
            ],
        },
    }
    asleep = bool(argv) and (not is_on(inspect) or bool(dig(inspect, "State", "Paused")))
    return versioned(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"{inspect['Id']}-cron",
                "creationTimestamp": moment(inspect.get("Created")),
            },
            "spec": {
                "schedule": schedule or labels.get(SCHEDULE, ""),
                "timeZone": zone or None,
                "suspend": asleep,
                "concurrencyPolicy": "Allow",
                "jobTemplate": {"spec": {"backoffLimit": 0, "template": template}},
            },
            "status": {},
        }
    )


def creation(inspect: Obj) -> Obj:
    """What to ask the engine for so that a container like this one is made (``POST /containers/create``).

    ``networks`` beside the engine's own fields: all of them, since older engines take one at creation.
    """
    config = dict(inspect.get("Config") or {})
    if config.get("Hostname") == inspect["Id"][:12]:
        config.pop("Hostname")  # the engine's own choice
    host = {key: value for key, value in (inspect.get("HostConfig") or {}).items() if value not in (None, "", [], {})}
    networks = dig(inspect, "NetworkSettings", "Networks", default={}) or {}
    return {
        "config": {**config, "HostConfig": host},
        "networks": {name: _endpoint(inspect, network) for name, network in networks.items()},
    }
