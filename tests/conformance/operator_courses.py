"""Courses that KEDA and Kueue take: what is made, what is done when, and for how long somebody watches.

Each is played where the operator itself runs, and on the embedded cluster with its model (``operators.py``). Periods are
short, so that a real clock can be waited for. ``{ns}`` is the course's namespace, and in what has none a part of names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

SPACE = "{ns}"


class Act(NamedTuple):
    """A request at a moment, seconds after what is made was made; ``patch``: a merge patch, else a POST or a DELETE."""

    at_s: float
    do: str
    body: Any = None


class Course(NamedTuple):
    """``operator``: whose it is. ``name`` tells it from others. Watched until ``end_s``."""

    operator: str
    name: str
    objects: list[dict]
    acts: list[Act]
    end_s: float


def _object(api: str, kind: str, name: str, spec: dict | None = None, *, namespaced: bool = True, **meta: Any) -> dict:
    where = {"namespace": SPACE} if namespaced else {}
    made = {"apiVersion": api, "kind": kind, "metadata": {"name": name} | where | meta}
    return made if spec is None else made | {"spec": spec}


# -- KEDA ----------------------------------------------------------------------------------------------------------
_APPS = "/apis/apps/v1/namespaces/{ns}/deployments"
_SCALED = "/apis/keda.sh/v1alpha1/namespaces/{ns}/scaledobjects"
_SCALED_JOBS = "/apis/keda.sh/v1alpha1/namespaces/{ns}/scaledjobs"
_NOTE = "autoscaling.keda.sh"
NOBODY = {"type": "kubernetes-workload", "metadata": {"podSelector": "app=nobody", "value": "1"}}
FRONT = {"type": "kubernetes-workload", "metadata": {"podSelector": "app=front", "value": "2"}}
BROKEN = {"type": "external", "metadata": {"scalerAddress": "127.0.0.1:9"}}
#: What tells our model that it cannot be read.
_UNREAD = {"killcheck.dev/trigger-value": "error"}
OPEN = {
    "type": "cron",
    "metadata": {"timezone": "UTC", "start": "0 0 1 1 *", "end": "59 23 31 12 *", "desiredReplicas": "2"},
}
SHUT = {
    "type": "cron",
    "metadata": {"timezone": "UTC", "start": "0 0 29 2 *", "end": "1 0 29 2 *", "desiredReplicas": "2"},
}
CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}


def deployment(name: str, replicas: int, **meta: Any) -> dict:
    container = {"name": "c", "image": "registry.example.net/c:1", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return _object("apps/v1", "Deployment", name, spec, **meta)


def scaled(*triggers: dict, notes: dict | None = None, **spec: Any) -> dict:
    meta = {"annotations": notes} if notes else {}
    said = {"scaleTargetRef": {"name": "encoder"}, "pollingInterval": 5, "cooldownPeriod": 12} | spec
    return _object("keda.sh/v1alpha1", "ScaledObject", "encoder", said | {"triggers": list(triggers)}, **meta)


def _to(at_s: float, name: str, replicas: int) -> Act:
    return Act(at_s, f"PATCH {_APPS}/{name}/scale", {"spec": {"replicas": replicas}})


def _note(at_s: float, note: str, value: str | None) -> Act:
    return Act(at_s, f"PATCH {_SCALED}/encoder", {"metadata": {"annotations": {f"{_NOTE}/{note}": value}}})


def _keda(name: str, objects: list[dict], *acts: Act, end_s: float = 20) -> Course:
    return Course("keda", name, objects, list(acts), end_s)


_ENCODER, _ASLEEP, _FRONT, _NO_FRONT = (
    deployment("encoder", 1),
    deployment("encoder", 0),
    deployment("front", 1),
    deployment("front", 0),
)
_JOB = {
    "template": {
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "registry.example.net/c:1"}],
        }
    }
}


def scaled_job(*triggers: dict, **spec: Any) -> dict:
    said = {"jobTargetRef": _JOB, "pollingInterval": 5, "triggers": list(triggers)}
    return _object("keda.sh/v1alpha1", "ScaledJob", "batch", said | spec)


KEDA = [
    _keda("never-active", [_ENCODER, scaled(NOBODY)], end_s=12),
    _keda("initial-cooldown", [_ENCODER, scaled(NOBODY, initialCooldownPeriod=12)], end_s=25),
    _keda("woken-and-idle", [_ASLEEP, _NO_FRONT, scaled(FRONT)], _to(6, "front", 1), _to(16, "front", 0), end_s=45),
    _keda("more-work", [_ASLEEP, _FRONT, scaled(FRONT)], _to(8, "front", 5), end_s=45),
    _keda("held-on-by-work", [_ENCODER, _FRONT, scaled(FRONT)], _to(8, "encoder", 0), end_s=20),
    _keda("cron-open", [_ASLEEP, scaled(OPEN)], _to(20, "encoder", 0), end_s=36),
    _keda("cron-shut", [_ENCODER, scaled(SHUT)], _to(10, "encoder", 1), end_s=22),
    _keda("least-of-one", [_ENCODER, scaled(NOBODY, minReplicaCount=1)], _to(8, "encoder", 0), end_s=20),
    _keda("idle-count", [deployment("encoder", 3), scaled(NOBODY, minReplicaCount=2, idleReplicaCount=0)], end_s=20),
    _keda(
        "paused-at-zero",
        [_ENCODER, _FRONT, scaled(FRONT)],
        _note(8, "paused-replicas", "0"),
        _to(14, "encoder", 1),
        _note(22, "paused-replicas", None),
        end_s=35,
    ),
    _keda(
        "paused-as-it-is",
        [_ENCODER, _FRONT, scaled(FRONT)],
        _note(8, "paused", "true"),
        _to(12, "encoder", 0),
        _note(24, "paused", None),
        end_s=36,
    ),
    _keda("paused-from-birth", [_ENCODER, scaled(NOBODY, notes={f"{_NOTE}/paused": "true"})], end_s=12),
    _keda("paused-no", [_ENCODER, scaled(NOBODY, notes={f"{_NOTE}/paused": "false"})], end_s=12),
    _keda(
        "paused-in",
        [_ENCODER, scaled(NOBODY, notes={f"{_NOTE}/paused-scale-in": "true"})],
        _note(12, "paused-scale-in", None),
        end_s=22,
    ),
    _keda(
        "paused-out",
        [_ASLEEP, _FRONT, scaled(FRONT, notes={f"{_NOTE}/paused-scale-out": "true"})],
        _note(12, "paused-scale-out", None),
        end_s=22,
    ),
    _keda(
        "forced",
        [_ASLEEP, scaled(NOBODY, notes={f"{_NOTE}/force-activation": "true"})],
        _note(12, "force-activation", None),
        end_s=36,
    ),
    _keda("unreadable", [_ENCODER, scaled(BROKEN, notes=_UNREAD)], _to(10, "encoder", 0), end_s=24),
    _keda(
        "unreadable-fallback",
        [_ENCODER, scaled(BROKEN, notes=_UNREAD, fallback={"failureThreshold": 1, "replicas": 3})],
        _to(20, "encoder", 0),
        end_s=34,
    ),
    _keda("unreadable-least", [_ASLEEP, scaled(BROKEN, notes=_UNREAD, minReplicaCount=1)], end_s=16),
    _keda("by-cpu-alone", [_ENCODER, scaled(CPU)], _to(10, "encoder", 0), end_s=24),
    _keda("cpu-and-work", [_ENCODER, scaled(CPU, NOBODY)], end_s=20),
    _keda("without-target", [scaled(NOBODY)], Act(8, f"POST {_APPS}", _ENCODER), end_s=28),
    _keda(
        "deleted-restores",
        [deployment("encoder", 2), scaled(NOBODY, advanced={"restoreToOriginalReplicaCount": True})],
        Act(10, f"DELETE {_SCALED}/encoder"),
        end_s=18,
    ),
    _keda("idle-without-least", [_ENCODER, scaled(NOBODY, idleReplicaCount=0)], end_s=16),
    _keda("names-twice", [_ENCODER, scaled(NOBODY | {"name": "x"}, FRONT | {"name": "x"})], end_s=16),
    _keda(
        "refused-later",
        [_ENCODER, scaled(NOBODY, minReplicaCount=1)],
        Act(8, f"PATCH {_SCALED}/encoder", {"spec": {"minReplicaCount": 3, "maxReplicaCount": 2}}),
        end_s=24,
    ),
    _keda(
        "least-raised",
        [_ENCODER, scaled(NOBODY)],
        Act(8, f"PATCH {_SCALED}/encoder", {"spec": {"minReplicaCount": 2}}),
        end_s=24,
    ),
    _keda("deleted", [deployment("encoder", 2), scaled(NOBODY)], Act(10, f"DELETE {_SCALED}/encoder"), end_s=18),
    _keda(
        "two-over-one",
        [_ENCODER, scaled(NOBODY), scaled(NOBODY) | {"metadata": {"name": "other", "namespace": SPACE}}],
        end_s=16,
    ),
    _keda("jobs", [_NO_FRONT, scaled_job(FRONT, maxReplicaCount=3)], _to(7, "front", 3), _to(18, "front", 0), end_s=30),
    _keda("jobs-least", [scaled_job(NOBODY, minReplicaCount=1)], end_s=16),
    _keda(
        "jobs-paused",
        [_FRONT, scaled_job(FRONT)],
        Act(9, f"PATCH {_SCALED_JOBS}/batch", {"metadata": {"annotations": {f"{_NOTE}/paused": "true"}}}),
        Act(12, "DELETE /apis/batch/v1/namespaces/{ns}/jobs?propagationPolicy=Background"),
        Act(24, f"PATCH {_SCALED_JOBS}/batch", {"metadata": {"annotations": {f"{_NOTE}/paused": None}}}),
        end_s=34,
    ),
]

# -- Kueue ---------------------------------------------------------------------------------------------------------
_KUEUE = "kueue.x-k8s.io/v1beta2"
_QUEUE_NAME = "kueue.x-k8s.io/queue-name"
_CLUSTER_QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
_LOCAL_QUEUES = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{ns}/localqueues"
_WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{ns}/workloads"
_FLAVORS = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
_JOBS = "/apis/batch/v1/namespaces/{ns}/jobs"
NODE = "gpu-{ns}"


def node() -> dict:
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "16"}
    return _object("v1", "Node", NODE, {}, namespaced=False, labels={"capacity": "spot-{ns}"}) | {
        "status": {"capacity": capacity, "allocatable": capacity}
    }


def flavor() -> dict:
    made = _object(_KUEUE, "ResourceFlavor", "spot-{ns}", namespaced=False)
    return made | {"spec": {"nodeLabels": {"capacity": "spot-{ns}"}}}


def queue(quota: int = 4, name: str = "gpus-{ns}", **spec: Any) -> dict:
    own = spec.pop("quotas", {})
    resources = [{"name": "cpu", "nominalQuota": 64}, {"name": "nvidia.com/gpu", "nominalQuota": quota} | own]
    group = {"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": [{"name": "spot-{ns}", "resources": resources}]}
    said = {"namespaceSelector": {}, "resourceGroups": [group]}
    return _object(_KUEUE, "ClusterQueue", name, said | spec, namespaced=False)


def local(name: str = "team", of: str = "gpus-{ns}") -> dict:
    return _object(_KUEUE, "LocalQueue", name, {"clusterQueue": of})


def _pod(gpus: int, **spec: Any) -> dict:
    asked = {"requests": {"cpu": "1", "nvidia.com/gpu": str(gpus)}, "limits": {"nvidia.com/gpu": str(gpus)}}
    container = {"name": "c", "image": "registry.example.net/train:1", "resources": asked}
    return {"terminationGracePeriodSeconds": 1, "containers": [container]} | spec


def job(name: str = "train", gpus: int = 2, count: int = 2, of: str | None = "team", **spec: Any) -> dict:
    priority = spec.pop("priority", None)
    labels = ({_QUEUE_NAME: of} if of else {}) | ({"kueue.x-k8s.io/priority-class": priority} if priority else {})
    said = {
        "suspend": bool(of),
        "parallelism": count,
        "completions": count,
        "template": {"spec": _pod(gpus, restartPolicy="Never")},
    }
    return _object("batch/v1", "Job", name, said | spec, labels=labels)


def _class(name: str, value: int) -> dict:
    made = _object(_KUEUE, "WorkloadPriorityClass", name, namespaced=False)
    return made | {"value": value, "description": "x"}


def _stop(at_s: float, policy: str, path: str = f"{_CLUSTER_QUEUES}/gpus-{SPACE}") -> Act:
    return Act(at_s, f"PATCH {path}", {"spec": {"stopPolicy": policy}})


def _kueue(name: str, objects: list[dict], *acts: Act, end_s: float = 14) -> Course:
    return Course("kueue", name, [node(), flavor(), *objects], list(acts), end_s)


_CHECKS = "/apis/kueue.x-k8s.io/v1beta2/admissionchecks"
_CHECK = _object(_KUEUE, "AdmissionCheck", "capacity-{ns}", {"controllerName": "example.com/x"}, namespaced=False)
_AT = {"lastTransitionTime": "2026-11-27T12:00:00Z"}
_ACTIVE = {"type": "Active", "status": "True", "reason": "Active", "message": "x"} | _AT


KUEUE = [
    _kueue("admitted", [queue(), local(), job()]),
    _kueue("no-label", [queue(quota=0), local(), job(of=None)]),
    _kueue(
        "waits-for-another",
        [queue(), local(), job("first")],
        Act(4, f"POST {_JOBS}", job("second")),
        Act(9, f"DELETE {_JOBS}/first?propagationPolicy=Background"),
        end_s=20,
    ),
    _kueue("too-big", [queue(), local(), job(gpus=8, count=1)]),
    _kueue(
        "hold",
        [queue(quota=8), local(), job()],
        _stop(5, "Hold"),
        Act(8, f"POST {_JOBS}", job("second")),
        _stop(12, "None"),
        end_s=20,
    ),
    _kueue("hold-and-drain", [queue(), local(), job()], _stop(5, "HoldAndDrain"), _stop(14, "None"), end_s=24),
    _kueue(
        "local-hold-and-drain",
        [queue(), local(), job()],
        _stop(5, "HoldAndDrain", f"{_LOCAL_QUEUES}/team"),
        _stop(14, "None", f"{_LOCAL_QUEUES}/team"),
        end_s=24,
    ),
    _kueue("local-hold", [queue(), local(), job()], _stop(5, "Hold", f"{_LOCAL_QUEUES}/team"), end_s=12),
    _kueue(
        "preempted",
        [
            queue(preemption={"withinClusterQueue": "LowerPriority"}),
            local(),
            _class("low-{ns}", 1),
            _class("high-{ns}", 9),
            job("first", priority="low-{ns}"),
        ],
        Act(6, f"POST {_JOBS}", job("second", priority="high-{ns}")),
        end_s=18,
    ),
    _kueue(
        "borrowed-and-reclaimed",
        [
            queue(quota=2, cohortName="c-{ns}"),
            queue(quota=2, name="other-{ns}", cohortName="c-{ns}", preemption={"reclaimWithinCohort": "Any"}),
            local(),
            local("rest", "other-{ns}"),
            job("first"),
        ],
        Act(6, f"POST {_JOBS}", job("second", gpus=2, count=1, of="rest")),
        end_s=20,
    ),
    _kueue("job-deleted", [queue(), local(), job()], Act(6, f"DELETE {_JOBS}/train?propagationPolicy=Background")),
    _kueue(
        "job-suspended-by-hand", [queue(), local(), job()], Act(6, f"PATCH {_JOBS}/train", {"spec": {"suspend": True}})
    ),
    _kueue("queue-deleted", [queue(), local(), job()], Act(6, f"DELETE {_CLUSTER_QUEUES}/gpus-{{ns}}"), end_s=16),
    _kueue(
        "queue-and-job-deleted",
        [queue(), local(), job()],
        Act(5, f"DELETE {_CLUSTER_QUEUES}/gpus-{{ns}}"),
        Act(7, f"DELETE {_FLAVORS}/spot-{{ns}}"),
        Act(9, f"DELETE {_JOBS}/train?propagationPolicy=Background"),
        Act(14, f"POST {_JOBS}", job("second")),
        end_s=18,
    ),
    _kueue(
        "another-queue",
        [queue(), local(), local("rest"), job()],
        Act(5, f"PATCH {_JOBS}/train", {"metadata": {"labels": {_QUEUE_NAME: None}}}),
        Act(6, f"PATCH {_JOBS}/train", {"metadata": {"labels": {_QUEUE_NAME: "rest"}}}),
        end_s=12,
    ),
    _kueue(
        "deployment-unqueued",
        [queue(), local(), deployment("web", 1, labels={_QUEUE_NAME: "team"})],
        Act(8, f"PATCH {_APPS}/web", {"metadata": {"labels": {_QUEUE_NAME: None}}}),
        _to(10, "web", 0),
        end_s=18,
    ),
    _kueue("local-deleted", [queue(), local(), job()], Act(6, f"DELETE {_LOCAL_QUEUES}/team"), end_s=16),
    _kueue(
        "no-queue",
        [job()],
        Act(6, f"POST {_LOCAL_QUEUES}", local()),
        Act(10, f"POST {_CLUSTER_QUEUES}", queue()),
        end_s=18,
    ),
    _kueue("not-of-the-namespace", [queue(namespaceSelector={"matchLabels": {"a": "b"}}), local(), job()]),
    _kueue(
        "check-asked",
        [
            queue(admissionChecksStrategy={"admissionChecks": [{"name": "capacity-{ns}"}]}),
            _object(_KUEUE, "AdmissionCheck", "capacity-{ns}", {"controllerName": "example.com/x"}, namespaced=False),
            local(),
            job(),
        ],
    ),
    *(
        _kueue(
            f"check-{state.lower()}",
            [queue(admissionChecksStrategy={"admissionChecks": [{"name": "capacity-{ns}"}]}), _CHECK, local(), job()],
            Act(2, f"PATCH {_CHECKS}/capacity-{{ns}}/status", {"status": {"conditions": [_ACTIVE]}}),
            Act(
                8,
                f"PATCH {_WORKLOADS}/{{workload}}/status",
                {"status": {"admissionChecks": [{"name": "capacity-{ns}", "state": state, "message": "said", **_AT}]}},
            ),
            end_s=20,
        )
        for state in ("Ready", "Retry", "Rejected")
    ),
    _kueue(
        "deactivated",
        [queue(), local(), job()],
        Act(6, f"PATCH {_WORKLOADS}/{{workload}}", {"spec": {"active": False}}),
        Act(14, f"PATCH {_WORKLOADS}/{{workload}}", {"spec": {"active": True}}),
        end_s=22,
    ),
    _kueue(
        "strict-order",
        [queue(queueingStrategy="StrictFIFO"), local(), job("big", gpus=8, count=1)],
        Act(4, f"POST {_JOBS}", job("small", gpus=1, count=1)),
        end_s=10,
    ),
    _kueue(
        "quota-lowered",
        [queue(), local(), job()],
        Act(
            6,
            f"PATCH {_CLUSTER_QUEUES}/gpus-{{ns}}",
            {"spec": {"resourceGroups": queue(quota=2)["spec"]["resourceGroups"]}},
        ),
        end_s=14,
    ),
]
COURSES = {f"{one.operator}-{one.name}": one for one in (*KEDA, *KUEUE)}
