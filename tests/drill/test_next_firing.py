"""What an executor leaves behind is met by its next firing: everything is put on again, and the schedule is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from killcheck.drill.sequence import Options
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.verdict import DrillResult

NAMESPACE = "speech"
OFF = f"kubectl -n {NAMESPACE} scale deployment whisper --replicas=0"
LOCK = f"kubectl -n {NAMESPACE} create configmap night-lock"
MARKED = (
    f"kubectl -n {NAMESPACE} get deployment -l tier!=slept -o name | while read one; do "
    f"kubectl -n {NAMESPACE} scale $one --replicas=0; kubectl -n {NAMESPACE} label $one tier=slept; done"
)
#: What an executor does, and the verdict: at night it turns everything off whichever it is.
EXECUTORS = {
    "a lock that it releases": (f"{LOCK}; {OFF}; kubectl -n {NAMESPACE} delete configmap night-lock", "survived", ""),
    "a lock that nobody releases": (f"{LOCK} || exit 0; {OFF}", "exposed", "came and left on"),
    "marks that it passes over": (MARKED, "exposed", "came and left on"),
    "rights that it takes from itself": (
        f"{OFF}; kubectl -n {NAMESPACE} delete rolebinding night",
        "exposed",
        "came and left on",
    ),
    "a schedule that it deletes": (
        f"{OFF}; kubectl -n {NAMESPACE} delete cronjobs --all",
        "exposed",
        "CronJob night is gone",
    ),
    "a target that it deletes": (f"kubectl -n {NAMESPACE} delete deployment whisper", "survived", ""),
}


def _path(folder: Path, script: str, night: dict[str, object] | None = None) -> Path:
    """A Deployment with GPUs and a CronJob that runs ``script`` each night at nine."""
    api = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    container = {"name": "off", "image": "alpine/k8s:1.32.0", "command": ["/bin/sh", "-c", script]}
    pod = {"serviceAccountName": "night", "restartPolicy": "Never", "containers": [container]}
    server = {
        "name": "server",
        "image": "registry.example.net/speech/server:3",
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    meta = {"name": "night", "namespace": NAMESPACE}
    objects = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "whisper", "namespace": NAMESPACE},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "whisper"}},
                "template": {"metadata": {"labels": {"app": "whisper"}}, "spec": {"containers": [server]}},
            },
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": "night"},
            "subjects": [{"kind": "ServiceAccount", **meta}],
        },
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": meta,
            "spec": {
                "schedule": "0 21 * * *",
                "jobTemplate": {"spec": {"activeDeadlineSeconds": 300, "template": {"spec": pod}}},
            }
            | (night or {}),
        },
    ]
    folder.mkdir(exist_ok=True)
    (folder / "all.yaml").write_text(yaml.safe_dump_all(objects))
    return folder


def _drilled(folder: Path) -> DrillResult:
    session = Session(manifests=[folder / "all.yaml"], exec_mode="host")
    options = Options(horizon_s=1800.0)
    (layer,) = session.kill_path.layers
    return Run(session, [PlannedDrill(layer.name, options=options)], folder=folder / "runs").execute().drills[0]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_switch_that_works_once_is_exposed(executor: str, tmp_path: Path) -> None:
    script, verdict, cause = EXECUTORS[executor]
    result = _drilled(_path(tmp_path / "path", script))
    assert str(result.verdict) == verdict, result.why
    assert cause in result.cause
    assert result.problems == ()
    assert bool(result.evidence) == (cause == "came and left on")


def test_what_is_tried_after_the_proof_is_neither_billed_nor_counted(tmp_path: Path) -> None:
    """The second night is no part of the first one's dollars, nor of what it left on."""
    script = EXECUTORS["a lock that it releases"][0]
    daily = _drilled(_path(tmp_path / "daily", script))
    # A firing that is further away than a drill plays is not tried.
    yearly = _drilled(_path(tmp_path / "yearly", script, {"schedule": "0 21 24 12 *"}))
    assert (daily.bill, daily.usd, daily.gpu_pods) == (yearly.bill, yearly.usd, yearly.gpu_pods)
    assert daily.gpu_pods == ()
