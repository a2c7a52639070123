"""Kill paths as strangers have them, one for each class that was judged wrongly or not at all; their truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.verdict import DrillResult

Obj = dict[str, Any]
API = "rbac.authorization.k8s.io"
SCALE = "kubectl -n inf scale deploy/llm --replicas=0"
ARM = """kubectl -n inf patch cronjob off -p '{"spec":{"suspend":false}}'"""
FLOOR = """kubectl -n inf patch so llm --type merge -p '{"spec":{"minReplicaCount":0}}'; """
PATCH = """kubectl -n inf patch deploy llm --type merge -p '{"spec":{"replicas":0}}'"""

LISTED = "while read name; do kubectl -n inf scale deploy/$name --replicas=0; done < /names/all"
FROM_LIST = {"volumes": [{"name": "names", "configMap": {"name": "names"}}]}
AT_LIST = {"volumeMounts": [{"name": "names", "mountPath": "/names"}]}


def target(replicas: int = 1) -> Obj:
    """A model server."""
    container = {"name": "a", "image": "registry.example.net/llm:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llm", "namespace": "inf", "labels": {"app": "llm"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "llm"}},
            "template": {
                "metadata": {"labels": {"app": "llm"}},
                "spec": {"terminationGracePeriodSeconds": 5, "containers": [container]},
            },
        },
    }


def switch(script: str, name: str = "off", schedule: str = "0 22 * * *", *, pod: Obj | None = None, **more: Any) -> Obj:
    """A CronJob, whose container has ``more``."""
    container = {"name": "a", "image": "alpine/k8s:1.31.3", "command": ["/bin/sh", "-ec", script], **more}
    spec = {"serviceAccountName": "off", "restartPolicy": "Never", "containers": [container], **(pod or {})}
    job = {"spec": {"backoffLimit": 1, "activeDeadlineSeconds": 600, "template": {"spec": spec}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": "inf"},
        "spec": {"schedule": schedule, "concurrencyPolicy": "Forbid", "jobTemplate": job},
    }


def loop(script: str) -> Obj:
    """A Deployment that does it again and again."""
    made = switch(f"while true; do {script}; done")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    template = {"metadata": {"labels": {"app": "keeper"}}, "spec": {**made, "restartPolicy": "Always"}}
    spec = {"selector": {"matchLabels": {"app": "keeper"}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "keeper", "namespace": "inf"},
        "spec": spec,
    }


def rights() -> list[Obj]:
    """The account that may do all that these switches do."""
    meta = {"name": "off", "namespace": "inf"}
    rules = [{"apiGroups": ["", "apps", "batch", "keda.sh"], "resources": ["*"], "verbs": ["*"]}]
    ref = {"apiGroup": API, "kind": "Role", "name": "off"}
    subjects = [{"kind": "ServiceAccount", **meta}]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{API}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {"apiVersion": f"{API}/v1", "kind": "RoleBinding", "metadata": meta, "roleRef": ref, "subjects": subjects},
    ]


def webhook() -> Obj:
    """One that is asked about Deployments, and whose Service lives elsewhere."""
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}
    hook = {
        "name": "guard.example.net",
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "guard", "namespace": "guard"}},
        "rules": [rule | {"operations": ["UPDATE"]}],
    }
    api = "admissionregistration.k8s.io/v1"
    return {"apiVersion": api, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "g"}, "webhooks": [hook]}


def gke_pool() -> Obj:
    """Machines that GKE taints, and whose taint it lets pods with GPUs tolerate."""
    node = {"machineType": "g2-standard-8", "guestAccelerator": [{"type": "nvidia-l4", "count": 1}]}
    return {
        "apiVersion": "container.cnrm.cloud.google.com/v1beta1",
        "kind": "ContainerNodePool",
        "metadata": {"name": "l4", "namespace": "inf"},
        "spec": {"location": "us-west1", "autoscaling": {"minNodeCount": 0, "maxNodeCount": 1}, "nodeConfig": node},
    }


def scaler(start: str = "0 8 * * *", end: str = "0 9 * * *") -> Obj:
    """KEDA's, which keeps one, and wants one from ``start`` to ``end``."""
    spec = {
        "scaleTargetRef": {"name": "llm"},
        "minReplicaCount": 1,
        "triggers": [{"type": "cron", "metadata": {"start": start, "end": end, "desiredReplicas": "1"}}],
    }
    spec["triggers"][0]["metadata"]["timezone"] = "Etc/UTC"
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "llm", "namespace": "inf"},
        "spec": spec,
    }


def unbounded(obj: Obj) -> Obj:
    """The same without a time limit."""
    del obj["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"]
    return obj


def another() -> Obj:
    """A second target of another name."""
    obj = target()
    obj["metadata"]["name"] = obj["metadata"]["labels"]["app"] = "list"
    obj["spec"]["selector"]["matchLabels"]["app"] = obj["spec"]["template"]["metadata"]["labels"]["app"] = "list"
    return obj


def names(text: str) -> Obj:
    """What a switch goes by."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "names", "namespace": "inf"},
        "data": {"all": text},
    }


def daemons() -> Obj:
    """GPUs on each node of a kind, by a DaemonSet."""
    made = target()
    made["kind"], made["metadata"]["name"] = "DaemonSet", "probe"
    del made["spec"]["replicas"]
    made["spec"]["template"]["spec"] |= {
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    }
    return made


def everywhere() -> Obj:
    """The same for whatever node there is: on most of them its pods find no room."""
    made = daemons()
    for field in ("nodeSelector", "tolerations"):
        del made["spec"]["template"]["spec"][field]
    return made


def suspended(obj: Obj) -> Obj:
    """The same, suspended."""
    obj["spec"]["suspend"] = True
    return obj


def drilled(tmp_path: Path, *objects: Obj) -> DrillResult:
    """The drill of the layer ``off``."""
    every = [*rights(), *objects]
    if not any(obj["kind"] == "DaemonSet" or obj["spec"] == target(2)["spec"] for obj in objects if "spec" in obj):
        every.append(target())
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(every))
    result = Run(
        Session(manifests=[tmp_path / "all.yaml"], exec_mode="host"), [PlannedDrill("off")], folder=tmp_path / "runs"
    ).execute()
    return result.drills[0]


@pytest.mark.parametrize(
    "objects",
    [
        [
            switch("kubectl -n inf set resources deploy/llm --limits=nvidia.com/gpu=0"),
            switch("kubectl -n inf set resources deploy/llm --limits=nvidia.com/gpu=1", "on", "0 7 * * *"),
        ],
        [scaler(), switch(f"kubectl -n inf annotate so llm autoscaling.keda.sh/paused=true --overwrite; {SCALE}")],
        [scaler(), switch(FLOOR + SCALE)],
        [webhook(), switch(SCALE)],
        [gke_pool(), switch(SCALE)],
        [suspended(switch(SCALE)), switch(ARM, "arm", "0 20 * * *")],
        [
            daemons(),
            switch(
                "kubectl -n inf patch ds probe --type merge "
                """-p '{"spec":{"template":{"spec":{"nodeSelector":{"gpu-off":"yes"}}}}}'"""
            ),
        ],
        [
            everywhere(),
            switch(
                "kubectl -n inf patch ds probe --type merge "
                """-p '{"spec":{"template":{"spec":{"nodeSelector":{"gpu-off":"yes"}}}}}'"""
            ),
        ],
        [everywhere(), switch("kubectl -n inf delete ds probe")],
    ],
    ids=[
        "limits taken out and put back",
        "KEDA paused, then scaled",
        "KEDA's floor lowered, then scaled",
        "a webhook about other writes",
        "a taint that GKE lets its pods tolerate",
        "armed before it fires",
        "a DaemonSet that selects no node any more",
        "the same of one that selected none before",
        "a DaemonSet that is deleted",
    ],
)
@pytest.mark.one_in(2)
def test_what_goes_off_and_stays_off_survives(objects: list[Obj], tmp_path: Path) -> None:
    result = drilled(tmp_path, *objects)
    assert str(result.verdict) == "survived", result.why


def test_limits_put_back_in_the_night_are_an_exposure(tmp_path: Path) -> None:
    on = switch("kubectl -n inf set resources deploy/llm --limits=nvidia.com/gpu=1", "on", "0 1 * * *")
    result = drilled(tmp_path, switch("kubectl -n inf set resources deploy/llm --limits=nvidia.com/gpu=0"), on)
    assert str(result.verdict) == "exposed", result.why
    assert "lit again" in result.cause


def test_webhook_whose_service_is_elsewhere_is_our_own_limit(tmp_path: Path) -> None:
    """What it would say nobody here knows; and what nobody changed needs no writing back."""
    result = drilled(tmp_path, webhook(), switch(PATCH))
    assert str(result.verdict) == "inconclusive", result.why
    assert "webhook guard.example.net is asked, and its Service guard is in no manifest" in result.why
    assert not result.problems


def test_image_that_is_never_pulled_may_be_there(tmp_path: Path) -> None:
    result = drilled(tmp_path, switch(SCALE, imagePullPolicy="Never"))
    assert str(result.verdict) == "inconclusive", result.why
    assert "(imagePullPolicy: Never) is not known: no manifest describes the node" in result.why


OPS = {"nodeSelector": {"example.net/role": "ops", "kubernetes.io/os": "linux"}, "schedulerName": "batch"}


def test_node_label_and_scheduler_that_the_switch_alone_names_are_open(tmp_path: Path) -> None:
    """It may be a slip, and then nothing turns the GPUs off, any night."""
    result = drilled(tmp_path, switch(SCALE, pod=OPS))
    assert str(result.verdict) == "inconclusive", result.why
    assert "node label example.net/role=ops" in result.why
    assert "alone selects it, and nothing in the manifests gives it to a node" in result.why
    assert "scheduler batch" in [entry.object for entry in result.ledger.open]


def test_node_label_that_somebody_else_selects_too_is_named(tmp_path: Path) -> None:
    other = switch("true", "tidy", "0 4 * * *", pod=OPS)
    result = drilled(tmp_path, switch(SCALE, pod=OPS), other)
    assert str(result.verdict) == "survived", result.why
    (told,) = [entry for entry in result.ledger.telling if entry.object.startswith("node label")]
    assert told.object == "node label example.net/role=ops"
    assert "without one they stay Pending" in told.because


def test_two_mornings_at_one_hour_are_told_apart(tmp_path: Path) -> None:
    """Of two schedules that fire together the one that starts the target is the start."""
    on = switch("kubectl -n inf scale deploy/llm --replicas=1", "on", "0 7 * * *")
    other = switch("kubectl -n web scale deploy/shop --replicas=2 || true", "shop", "0 7 * * *")
    result = drilled(tmp_path, switch(SCALE), on, other)
    assert str(result.verdict) == "survived", result.why


@pytest.mark.parametrize(
    ("objects", "cause"),
    [
        ([daemons(), switch("kubectl -n inf delete pod -l app=llm")], "others were made"),
        ([scaler("0 20 * * *", "0 23 * * *"), switch(FLOOR + SCALE)], "KEDA"),
        ([scaler(), switch(FLOOR.replace("0}}", "1}}") + SCALE)], "scaled back: KEDA"),
        ([target(2), switch(SCALE.replace("=0", "=1"))], "it set Deployment/inf/llm to 1, not to 0"),
        ([switch(f"{SCALE} --dry-run=server")], "it asked for a dry run"),
        pytest.param(
            [switch(SCALE), loop(f"sleep 300; {SCALE.replace('=0', '=1')}")],
            "scaled back: Deployment inf/keeper set Deployment llm to 1 replica(s)",
            marks=pytest.mark.weekly,  # it comes again and again, all night
        ),
        ([everywhere(), switch("kubectl -n inf scale ds probe --replicas=0 || true")], "false green"),
        ([switch("since=$(date -d '8 hours ago' +%s); " + SCALE)], "invalid date '8 hours ago'"),
        ([suspended(switch(SCALE)), switch(SCALE.replace("scale", "get"), "arm", "0 20 * * *")], "is suspended"),
        ([switch("kubectl -n inf scale deploy -l tier=GPU --replicas=0")], "no objects passed to scale"),
        ([switch(SCALE.replace("llm", "lm"))], '404 Not Found: deployments.apps "lm" not found'),
        ([switch("kubectl -n inf delete pod -l app=llm; sleep 3600")], "others were made"),
        ([another(), names("llm\nlist"), switch(LISTED, pod=FROM_LIST, **AT_LIST)], "Deployment/inf/list is on"),
        (
            [switch(SCALE), loop("sleep 7200; " + SCALE.replace("=0", "=1"))],
            "Deployment inf/keeper set Deployment llm to 1 replica(s)",
        ),
        ([unbounded(switch("echo waits for the queue; sleep 36000"))], "log: waits for the queue"),
    ],
    ids=[
        "a DaemonSet makes its pods again",
        "KEDA's floor lowered while its trigger is active",
        "KEDA's floor written as it is",
        "a minimum that is not zero",
        "a dry run that was left in",
        "a loop that comes at once is named, too",
        "a DaemonSet has no scale",
        "a date that busybox cannot read",
        "nobody arms it",
        "a selector of another case",
        "a name that is nobody's",
        "whoever deleted the pods goes on",
        "a list whose last line has no end",
        "a loop is named by its own requests",
        "one that hangs has said what for",
    ],
)
def test_what_stays_on_is_exposed(objects: list[Obj], cause: str, tmp_path: Path) -> None:
    result = drilled(tmp_path, *objects)
    assert str(result.verdict) == "exposed", result.why
    assert cause in f"{result.cause} {' '.join(result.evidence)}"


def test_job_that_waits_and_is_let_go_at_night_is_left_as_the_night_left_it(tmp_path: Path) -> None:
    """It was suspended before the drill: there is nothing of it to put back."""
    waiting = {"restartPolicy": "Never", **target()["spec"]["template"]["spec"]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "burst", "namespace": "inf"},
        "spec": {"suspend": True, "template": {"spec": waiting}},
    }
    go = switch("""kubectl -n inf patch job burst -p '{"spec":{"suspend":false}}'""", "go", "0 1 * * *")
    result = drilled(tmp_path, target(), switch(SCALE), job, go)
    assert str(result.verdict) == "exposed", result.why
    assert "Job/inf/burst" in str(result.cause)
    assert result.problems == ()
