"""Tables: the words and columns that kubectl prints, as it does against a real server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from killcheck.embedded.api import tables
from killcheck.embedded.api.jsonpath import find
from killcheck.embedded.api.kinds import Registry, from_crd
from killcheck.embedded.api.tablecolumns import human_duration
from killcheck.kube.objects import Obj

NOW = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
REGISTRY = Registry()


def shown(group: str, kind: str, obj: Obj, *, wide: bool = False, version: str = "") -> dict[str, Any]:
    """Column -> cell, as ``kubectl get`` shows them (``wide``: with ``-o wide``)."""
    meta = {"name": "x", "namespace": "gpu", "creationTimestamp": "2026-11-21T01:58:00Z"} | obj.get("metadata", {})
    found = REGISTRY.by_kind(group, kind, version)
    assert found is not None
    table = tables.render(found, [obj | {"metadata": meta}], NOW, {"resourceVersion": "7"})
    [row] = table["rows"]
    assert len(row["cells"]) == len(table["columnDefinitions"])
    return {
        column["name"]: cell
        for column, cell in zip(table["columnDefinitions"], row["cells"], strict=True)
        if wide or column["priority"] == 0
    }


def pod(status: Obj, *, init: list[Obj] | None = None, containers: int = 1, **meta: Any) -> dict[str, Any]:
    spec: Obj = {"containers": [{"name": f"c{i}"} for i in range(containers)]}
    if init:
        spec["initContainers"] = init
    return shown("", "Pod", {"metadata": meta, "spec": spec, "status": status})


def state(kind: str, **fields: Any) -> Obj:
    return {"name": "c0", "state": {kind: fields}}


def ended(code: int, reason: str = "") -> Obj:
    return state("terminated", exitCode=code, **({"reason": reason} if reason else {}))


RUNNING = {"name": "c0", "ready": True, "state": {"running": {}}}
READY = [{"type": "Ready", "status": "True"}]
GOING = {"deletionTimestamp": "2026-11-21T01:59:58Z"}


@pytest.mark.parametrize(
    ("status", "meta", "word", "ready"),
    [
        ({"phase": "Pending"}, {}, "Pending", "0/1"),
        ({"phase": "Running", "conditions": READY, "containerStatuses": [RUNNING]}, {}, "Running", "1/1"),
        ({"phase": "Running", "containerStatuses": [RUNNING]}, GOING, "Terminating", "1/1"),
        (
            {"phase": "Pending", "containerStatuses": [state("waiting", reason="ImagePullBackOff")]},
            {},
            "ImagePullBackOff",
            "0/1",
        ),
        (
            {"phase": "Pending", "containerStatuses": [state("waiting", reason="ContainerCreating")]},
            {},
            "ContainerCreating",
            "0/1",
        ),
        (
            {"phase": "Running", "containerStatuses": [state("waiting", reason="CrashLoopBackOff")]},
            {},
            "CrashLoopBackOff",
            "0/1",
        ),
        ({"phase": "Succeeded", "containerStatuses": [ended(0, "Completed")]}, {}, "Completed", "0/1"),
        ({"phase": "Failed", "containerStatuses": [ended(1, "Error")]}, {}, "Error", "0/1"),
        ({"phase": "Failed", "containerStatuses": [ended(137, "OOMKilled")]}, {}, "OOMKilled", "0/1"),
        ({"phase": "Failed", "containerStatuses": [ended(3)]}, {}, "ExitCode:3", "0/1"),
        # A pod that has ended and is held by a finalizer is not called Terminating (recording 22).
        ({"phase": "Failed", "containerStatuses": [ended(137, "Error")]}, GOING, "Error", "0/1"),
        ({"phase": "Failed", "reason": "Evicted"}, {}, "Evicted", "0/1"),
        ({"phase": "Running", "reason": "NodeLost", "containerStatuses": [RUNNING]}, GOING, "Unknown", "1/1"),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            },
            {},
            "SchedulingGated",
            "0/1",
        ),
    ],
)
def test_the_word_for_a_pods_state(status: Obj, meta: Obj, word: str, ready: str) -> None:
    cells = pod(status, **meta)
    assert (cells["Status"], cells["Ready"]) == (word, ready)


@pytest.mark.parametrize(
    ("first", "word"),
    [
        (state("running"), "Init:0/2"),
        (state("waiting", reason="PodInitializing"), "Init:0/2"),
        (state("waiting", reason="ErrImagePull"), "Init:ErrImagePull"),
        (ended(1, "Error"), "Init:Error"),
        (ended(2), "Init:ExitCode:2"),
    ],
)
def test_a_pod_that_is_being_initialized(first: Obj, word: str) -> None:
    init = [{"name": "c0"}, {"name": "i1"}]
    status = {"phase": "Pending", "initContainerStatuses": [first, {"name": "i1", "state": {"waiting": {}}}]}
    assert pod(status, init=init)["Status"] == word


def test_sidecars_count_among_the_containers() -> None:
    status = {
        "phase": "Running",
        "conditions": [{"type": "Initialized", "status": "True"}, *READY],
        "initContainerStatuses": [{"name": "s", "ready": True, "started": True, "state": {"running": {}}}],
        "containerStatuses": [RUNNING],
    }
    assert pod(status, init=[{"name": "s", "restartPolicy": "Always"}])["Ready"] == "2/2"


def test_a_pod_with_one_container_done_and_another_failed_shows_the_failure() -> None:
    done = {"name": "c1", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    cells = pod({"phase": "Failed", "containerStatuses": [ended(0, "Completed"), done]}, containers=2)
    assert cells["Status"] == "Completed"
    failed = {"name": "c1", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    cells = pod({"phase": "Failed", "containerStatuses": [ended(0, "Completed"), failed]}, containers=2)
    assert cells["Status"] == "Error"


def test_restarts_tell_when_the_last_was() -> None:
    status = {
        "phase": "Running",
        "containerStatuses": [
            RUNNING | {"restartCount": 3, "lastState": {"terminated": {"finishedAt": "2026-11-21T01:59:30Z"}}}
        ],
    }
    assert pod(status)["Restarts"] == "3 (30s ago)"
    assert pod({"phase": "Running", "containerStatuses": [RUNNING]})["Restarts"] == "0"


def test_wide_columns_of_a_pod() -> None:
    cells = shown(
        "",
        "Pod",
        {"spec": {"nodeName": "gpu-1", "containers": []}, "status": {"podIPs": [{"ip": "10.1.2.3"}]}},
        wide=True,
    )
    assert cells["IP"] == "10.1.2.3"
    assert cells["Node"] == "gpu-1"
    assert cells["Nominated Node"] == cells["Readiness Gates"] == "<none>"


def test_rows_say_that_a_pod_has_ended_and_carry_what_was_asked_for() -> None:
    kind = REGISTRY.by_kind("", "Pod")
    assert kind is not None
    done: Obj = {"metadata": {"name": "x"}, "spec": {}, "status": {"phase": "Succeeded"}}
    table = tables.render(kind, [done], NOW, {})
    assert table["rows"][0]["conditions"][0]["reason"] == "Succeeded"
    assert table["rows"][0]["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "x"},
    }
    assert tables.render(kind, [done], NOW, {}, tables.Wanted("Object"))["rows"][0]["object"] is done
    assert tables.render(kind, [done], NOW, {}, tables.Wanted("None"))["rows"][0]["object"] is None


TEMPLATE = {"spec": {"containers": [{"name": "vllm", "image": "vllm:1"}, {"name": "log", "image": "log:2"}]}}


@pytest.mark.parametrize(
    ("group", "kind", "obj", "expected"),
    [
        (
            "apps",
            "Deployment",
            {
                "spec": {"replicas": 2, "template": TEMPLATE, "selector": {"matchLabels": {"app": "v"}}},
                "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
            },
            {
                "Ready": "1/2",
                "Up-to-date": 2,
                "Available": 1,
                "Age": "2m",
                "Containers": "vllm,log",
                "Images": "vllm:1,log:2",
                "Selector": "app=v",
            },
        ),
        ("apps", "Deployment", {"spec": {"replicas": 0}}, {"Ready": "0/0", "Available": 0}),
        (
            "apps",
            "ReplicaSet",
            {"spec": {"replicas": 2}, "status": {"replicas": 1}},
            {"Desired": 2, "Current": 1, "Ready": 0},
        ),
        ("apps", "StatefulSet", {"spec": {"replicas": 2}, "status": {"readyReplicas": 2}}, {"Ready": "2/2"}),
        (
            "apps",
            "DaemonSet",
            {"status": {"desiredNumberScheduled": 3, "numberReady": 2}},
            {"Desired": 3, "Ready": 2, "Node Selector": "<none>"},
        ),
        (
            "batch",
            "Job",
            {
                "spec": {"completions": 1},
                "status": {
                    "succeeded": 1,
                    "startTime": "2026-11-21T01:58:00Z",
                    "completionTime": "2026-11-21T01:58:03Z",
                    "conditions": [{"type": "Complete", "status": "True"}],
                },
            },
            {"Status": "Complete", "Completions": "1/1", "Duration": "3s", "Age": "2m"},
        ),
        (
            "batch",
            "Job",
            {"spec": {"completions": 1}, "status": {"startTime": "2026-11-21T01:58:00Z"}},
            {"Status": "Running", "Completions": "0/1", "Duration": "2m"},
        ),
        (
            "batch",
            "Job",
            {"spec": {"completions": 1}, "status": {"conditions": [{"type": "FailureTarget", "status": "True"}]}},
            {"Status": "FailureTarget", "Duration": ""},
        ),
        (
            "batch",
            "CronJob",
            {"spec": {"schedule": "* * * * *", "suspend": True}},
            {"Schedule": "* * * * *", "Timezone": "<none>", "Suspend": "True", "Active": 0, "Last Schedule": "<none>"},
        ),
        (
            "batch",
            "CronJob",
            {
                "spec": {"schedule": "0 3 * * *", "timeZone": "Europe/Berlin", "suspend": False},
                "status": {"lastScheduleTime": "2026-11-21T01:59:10Z", "active": [{}]},
            },
            {"Timezone": "Europe/Berlin", "Suspend": "False", "Active": 1, "Last Schedule": "50s"},
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            {
                "spec": {
                    "scaleTargetRef": {"kind": "Deployment", "name": "vllm"},
                    "minReplicas": 1,
                    "maxReplicas": 4,
                    "metrics": [
                        {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}
                    ],
                }
            },
            {
                "Reference": "Deployment/vllm",
                "Targets": "cpu: <unknown>/80%",
                "MinPods": "1",
                "MaxPods": 4,
                "Replicas": 0,
            },
        ),
        (
            "policy",
            "PodDisruptionBudget",
            {"spec": {"minAvailable": "50%"}},
            {"Min Available": "50%", "Max Unavailable": "N/A", "Allowed Disruptions": 0},
        ),
        (
            "",
            "Node",
            {
                "spec": {"unschedulable": True},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "nodeInfo": {"kubeletVersion": "v1.36.2"},
                },
                "metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}},
            },
            {"Status": "Ready,SchedulingDisabled", "Roles": "control-plane", "Version": "v1.36.2"},
        ),
        (
            "",
            "Node",
            {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
            {"Status": "NotReady", "Roles": "<none>"},
        ),
        (
            "",
            "Service",
            {
                "spec": {
                    "type": "NodePort",
                    "clusterIP": "10.96.0.9",
                    "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}],
                }
            },
            {"Cluster-IP": "10.96.0.9", "External-IP": "<none>", "Port(s)": "80:30080/TCP"},
        ),
        (
            "",
            "Event",
            {
                "type": "Warning",
                "reason": "Failed",
                "message": " no ",
                "count": 3,
                "involvedObject": {"kind": "Pod", "name": "p"},
                "lastTimestamp": "2026-11-21T01:59:00Z",
            },
            {"Last Seen": "60s", "Object": "pod/p", "Message": "no", "Count": 3},
        ),
        (
            "events.k8s.io",
            "Event",
            {
                "type": "Normal",
                "reason": "Scheduled",
                "note": "done",
                "eventTime": "2026-11-21T01:59:00.000000Z",
                "regarding": {"kind": "Pod", "name": "p"},
            },
            {"Last Seen": "60s", "Object": "pod/p", "Message": "done", "Count": 1},
        ),
        ("", "Namespace", {"status": {"phase": "Active"}}, {"Status": "Active", "Age": "2m"}),
        ("", "Secret", {"type": "Opaque", "data": {"a": "b"}}, {"Type": "Opaque", "Data": 1}),
        ("", "ConfigMap", {"data": {"a": "b"}, "binaryData": {"c": "d"}}, {"Data": 2}),
        (
            "",
            "ResourceQuota",
            {"status": {"hard": {"pods": "1", "limits.cpu": "2"}, "used": {"pods": "1"}}},
            {"Request": "pods: 1/1", "Limit": "limits.cpu: 0/2"},
        ),
        ("", "LimitRange", {}, {"Created At": "2026-11-21T01:58:00Z"}),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
            },
            {"Role": "Role/r", "ServiceAccounts": "n/s", "Users": ""},
        ),
        ("rbac.authorization.k8s.io", "Role", {}, {"Created At": "2026-11-21T01:58:00Z"}),
        ("coordination.k8s.io", "Lease", {"spec": {"holderIdentity": "me"}}, {"Holder": "me"}),
        ("scheduling.k8s.io", "PriorityClass", {"value": 7}, {"Value": 7, "Global-Default": False}),
        (
            "",
            "PersistentVolumeClaim",
            {"spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"}},
            {"Status": "Pending", "Capacity": "", "Access Modes": ""},
        ),
        ("resource.k8s.io", "ResourceClaim", {}, {"State": "pending"}),
        (
            "resource.k8s.io",
            "ResourceClaim",
            {"status": {"allocation": {}, "reservedFor": [{}]}},
            {"State": "allocated,reserved"},
        ),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", {"webhooks": [{}, {}]}, {"Webhooks": 2}),
    ],
)
def test_cells_of_other_types(group: str, kind: str, obj: Obj, expected: dict[str, Any]) -> None:
    cells = shown(group, kind, obj, wide=True)
    assert {name: cells[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (130, "2m10s"),
        (599, "9m59s"),
        (600, "10m"),
        (179 * 60, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 + 60, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (730 * 86400, "2y"),
        (3000 * 86400, "8y"),
    ],
)
def test_how_ages_are_written(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


# -- custom resources ------------------------------------------------------------------------------------------
def custom(columns: list[Obj], obj: Obj) -> tuple[list[str], list[Any]]:
    crd = {
        "spec": {
            "group": "karpenter.sh",
            "scope": "Cluster",
            "names": {"plural": "nodepools", "kind": "NodePool"},
            "versions": [{"name": "v1", "served": True, "storage": True, "additionalPrinterColumns": columns}],
        }
    }
    [kind] = from_crd(crd)
    meta = {"name": "x", "creationTimestamp": "2026-11-21T01:58:00Z"}
    table = tables.render(kind, [{"metadata": meta} | obj], NOW, {})
    return [column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"]


def test_columns_that_a_definition_asks_for() -> None:
    columns: list[Obj] = [
        {"name": "NodeClass", "type": "string", "jsonPath": ".spec.template.spec.nodeClassRef.name"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Nodes", "type": "integer", "jsonPath": ".status.nodes"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.nothing"},
        {"name": "Limits", "type": "string", "jsonPath": ".spec.limits"},
    ]
    names, cells = custom(
        columns,
        {
            "spec": {"template": {"spec": {"nodeClassRef": {"name": "gpu"}}}, "limits": {"nvidia.com/gpu": "8"}},
            "status": {
                "nodes": 2,
                "conditions": [{"type": "X", "status": "False"}, {"type": "Ready", "status": "True"}],
            },
        },
    )
    assert names == ["Name", "NodeClass", "Ready", "Nodes", "Age", "Missing", "Limits"]
    assert cells == ["x", "gpu", "True", 2, "2m", None, '{"nvidia.com/gpu":"8"}']


def test_a_definition_without_columns_shows_the_age() -> None:
    assert custom([], {}) == (["Name", "Age"], ["x", "2m"])


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (r".metadata.labels.karpenter\.sh/nodepool", ["p"]),
        (".metadata.labels['karpenter.sh/nodepool']", ["p"]),
        (".items[1]", [20]),
        (".items[-1]", [30]),
        (".items[9]", []),
        (".items[*]", [10, 20, 30]),
        ("{.items[0]}", [10]),
        ('.conditions[?(@.status!="True")].type', ["B"]),
        (".conditions[?(@.extra.deep==3)].type", ["A"]),
        (".nothing.at.all", []),
        (".items[", []),
        ("..type", ["A", "B"]),
    ],
)
def test_json_paths(path: str, found: list[Any]) -> None:
    data = {
        "metadata": {"labels": {"karpenter.sh/nodepool": "p"}},
        "items": [10, 20, 30],
        "conditions": [{"type": "A", "status": "True", "extra": {"deep": 3}}, {"type": "B", "status": "False"}],
    }
    assert find(data, path) == found
