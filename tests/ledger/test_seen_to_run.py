"""What is asked to run has run where its containers were seen to: a pod that waits for its image has shown nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from composed import Composition, Obj, account, workload

from killcheck.capabilities.ran import Ran
from killcheck.ledger.conditions import unmet
from killcheck.ledger.stakes import Stakes
from killcheck.spec import specfile

MAY_SCALE = [{"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"]}]
IMAGE = "alpine/k8s:1.32.0"
LATER = "sleep 36000; kubectl -n serving scale deployment $WHAT --replicas=1"


def _loop(image: str, line: str = "sleep 100000", **notes: str) -> list[Obj]:
    """A keeper that may scale, and waits."""
    made = workload("keeper", "ops", "keeper", image=image, command=["sh", "-c", line])
    made["spec"]["template"]["metadata"]["annotations"] = {"killcheck.dev/execute": "true"}
    made["metadata"]["annotations"] = notes
    return [*account("keeper", "ops", MAY_SCALE, cluster=True), made]


def _hourly(line: str, **container: Any) -> list[Obj]:
    main = {"name": "main", "image": IMAGE, "command": ["sh", "-ec", line]} | container
    pod = {"serviceAccountName": "keeper", "restartPolicy": "Never", "containers": [main]}
    spec = {"schedule": "40 * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    meta = {"name": "keeper", "namespace": "ops"}
    cron: Obj = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec}
    return [*account("keeper", "ops", MAY_SCALE, cluster=True), cron]


def _once(line: str) -> list[Obj]:
    *rights, cron = _hourly(line)
    job = cron["spec"]["jobTemplate"]["spec"]
    return [*rights, {"apiVersion": "batch/v1", "kind": "Job", "metadata": cron["metadata"], "spec": job}]


def _bare() -> list[Obj]:
    *rights, cron = _hourly(LATER, envFrom=[{"configMapRef": {"name": "made-by-hand"}}])
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return [*rights, {"apiVersion": "v1", "kind": "Pod", "metadata": cron["metadata"], "spec": pod}]


def _schedules_another() -> list[Obj]:
    """A CronJob that makes a CronJob: what that does comes once a year."""
    *_, made = _hourly("kubectl -n serving scale deployment llama --replicas=1")
    made |= {"metadata": {"name": "yearly", "namespace": "ops"}, "spec": made["spec"] | {"schedule": "0 3 1 8 *"}}
    may = [{"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": ["get", "create", "patch"]}]
    _, _, _, cron = _hourly(f"kubectl apply -f - <<'X'\n{json.dumps(made)}\nX")
    return [*account("keeper", "ops", MAY_SCALE + may, cluster=True), cron]


#: What stands beside a switch that works, and what keeps it from being proven.
SEEN = {
    "a loop that ran": (_loop(IMAGE), ""),
    "one whose image is gone, and that says of itself that it ran": (
        _loop("docker.io/bitnami/kubectl:1.33", **{"killcheck.dev/ran": "true"}),
        "was not run in this drill",
    ),
    "a pod that waits for a ConfigMap": (_bare(), "nothing of it ever began"),
    "a CronJob that waits for a ConfigMap": (
        _hourly(LATER, envFrom=[{"configMapRef": {"name": "made-by-hand"}}]),
        "nothing of it ever began",
    ),
    "a loop whose round is longer than a night": (
        _loop(IMAGE, line="while true; do sleep 90000; kubectl -n serving scale deployment llama --replicas=1; done"),
        "waits for 25 h in each round",
    ),
    "a Job that waits for the next night": (
        _once("sleep 93600; kubectl -n serving scale deployment llama --replicas=1"),
        "had not ended when the drill was over",
    ),
    "a schedule that another one makes": (_schedules_another(), "CronJob/ops/yearly"),
    "a plan from outside": (
        _hourly("n=$(curl -fs https://plan.example.com/n); kubectl -n serving scale deployment llama --replicas=$n"),
        "an answer that it did not get here",
    ),
}


@pytest.mark.parametrize("beside", SEEN)
@pytest.mark.one_in(4)
def test_what_did_not_run_or_got_no_answer_was_not_seen(beside: str, tmp_path: Path) -> None:
    objects, why = SEEN[beside]
    result = Composition(rivals=tuple(objects)).drill(tmp_path / "path")
    assert str(result.verdict) == ("inconclusive" if why else "survived"), result.why
    assert why in result.why


@pytest.mark.parametrize("declared", [False, True])
def test_a_job_of_its_own_is_no_firing_of_a_cronjob_whose_name_it_resembles(declared: bool) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "warm-29423700", "uid": "1", "controller": True}
    pod = {"metadata": {"name": "warm-29423700-x2x4z", "namespace": "lab", "ownerReferences": [owner]}}
    held = {("Job", "lab", "warm-29423700")} if declared else set()
    assert (("CronJob", "lab", "warm") in Ran(pod).makers(held)) is not declared


_LATER: Obj = {"kubectl": "kubectl -n serving scale deploy/llama --replicas=$(cat /given/n)", "file": "sh /given/run"}


@pytest.mark.parametrize(
    ("says", "volume", "why"),
    [
        ("kubectl", {"emptyDir": {}}, "did not do so"),
        ("file", {"emptyDir": {}}, ""),
        ("file", {"persistentVolumeClaim": {"claimName": "data"}}, "(persistentVolumeClaim), which is not known"),
        ("file", {"secret": {"secretName": "by-hand", "optional": True}}, "secret ops/by-hand, which is not among"),
        (
            "file",
            {"projected": {"sources": [{"secret": {"name": "made", "optional": True}}]}},
            "secret ops/made, which is",
        ),
        ("file", {"configMap": {"name": "kube-root-ca.crt"}}, ""),
        ("file", {"configMap": {"name": "plan"}}, "configmaps ops/plan, which Deployment/web/x may write"),
        ("file", {"configMap": {"name": "fixed"}}, ""),
    ],
)
def test_what_a_program_goes_by_that_ran_and_lit_nothing_may_be_another(says: str, volume: Obj, why: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["plan"], "verbs": ["patch"]}]
    maps: list[Obj] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ops"}}
        for name in ("plan", "fixed")
    ]
    container = {"name": "a", "image": "alpine/k8s:1.32.3", "command": ["sh", "-c", _LATER[says]]}
    pod = {"containers": [container], "volumes": [{"name": "given", **volume}]}
    spec = {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    meta = {"name": "hourly", "namespace": "ops"}
    cron: Obj = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec}
    writer = [*account("x", "web", rules, cluster=True), workload("x", "web", "x")]
    one = Composition(rivals=(*maps, *writer, cron))
    path = specfile.loads(json.dumps(one.spec))
    said = unmet(cron, Stakes(one.objects, path, path.layers[0])) or ""
    assert (why in said) if why else not said
