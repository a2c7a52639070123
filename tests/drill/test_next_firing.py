"""What an executor leaves behind is met by its next firing: everything is put on again, and the schedule is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from killcheck.drill import left_behind
from killcheck.drill.sequence import Options
from killcheck.embedded import Cluster
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.verdict import DrillResult

NAMESPACE = "speech"
OFF = f"kubectl -n {NAMESPACE} scale deployment whisper --replicas=0"
LOCK = f"kubectl -n {NAMESPACE} create configmap night-lock"
#: By the evening there may be more of it: an executor that goes by the number of the manifests leaves them on.
GROWS: dict[str, object] = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "whisper", "namespace": NAMESPACE},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "whisper"},
        "minReplicas": 2,
        "maxReplicas": 4,
    },
}
#: What an executor does, and the verdict: at night it turns everything off whichever it is.
EXECUTORS = {
    "a lock that it releases": (f"{LOCK}; {OFF}; kubectl -n {NAMESPACE} delete configmap night-lock", "survived", ""),
    "a lock that nobody releases": (f"{LOCK} || exit 0; {OFF}", "exposed", "came and left on"),
    "a number that it expects": (f"{OFF} --current-replicas=2", "exposed", "came and left on"),
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


def _path(
    folder: Path,
    script: str,
    night: dict[str, object] | None = None,
    volume: dict[str, object] | None = None,
    beside: list[dict[str, object]] | None = None,
) -> Path:
    """A Deployment with GPUs and a CronJob that runs ``script`` each night at nine; ``volume`` is at /state."""
    api = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    container: dict[str, object] = {"name": "off", "image": "alpine/k8s:1.32.0", "command": ["/bin/sh", "-c", script]}
    pod: dict[str, object] = {"serviceAccountName": "night", "restartPolicy": "Never", "containers": [container]}
    if volume is not None:
        pod["volumes"] = [{"name": "state", **volume}]
        container["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
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
        *(beside or ()),
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
@pytest.mark.one_in(2)
def test_switch_that_works_once_is_exposed(executor: str, tmp_path: Path) -> None:
    script, verdict, cause = EXECUTORS[executor]
    result = _drilled(_path(tmp_path / "path", script, beside=[GROWS]))
    assert str(result.verdict) == verdict, result.why
    assert cause in result.cause
    assert result.problems == ()
    assert bool(result.evidence) == (cause == "came and left on")


#: What leaves out one kind of night, and the night on which that shows.
GUARDS = {
    '[ "$(date +%u)" -ge 6 ] && exit 0; ': "Saturday, 2026-01-17",
    'kubectl -n speech get configmap feasts -o jsonpath={.data.days} | grep -q "$(date +%m-%d)" && exit 0; ': "Wednesday, 2026-05-13",
    "exec 3>&1; [ $(date +%H) -eq 20 ] || exit 0; ": "Monday, 2026-03-30",
    '[ "$(date +%d)" -eq 23 ] && exit 0; ': "Friday, 2026-01-23",
}


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.one_in(2)
def test_switch_that_leaves_out_a_kind_of_night_is_exposed(guard: str, tmp_path: Path) -> None:
    """Whatever it goes by: the weekday, a date that somebody named, the hour once the clocks were changed."""
    feasts: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "feasts", "namespace": NAMESPACE},
        "data": {"days": "05-13\n"},
    }
    zoned: dict[str, object] = {"schedule": "0 21 * * *", "timeZone": "Europe/Berlin"}
    result = _drilled(_path(tmp_path / "path", guard + OFF, zoned, beside=[feasts]))
    assert (str(result.verdict), result.stuck_at) == ("exposed", "scale_written"), result.why
    assert f"its firing on {GUARDS[guard]}" in result.cause
    assert result.usd_until_next_chance - result.usd <= 26 * result.usd_per_hour  # that night's, and no year's
    assert not result.problems


def test_what_is_tried_after_the_proof_is_neither_billed_nor_counted(tmp_path: Path) -> None:
    """The second night is no part of the first one's dollars, nor of what it left on."""
    script = EXECUTORS["a lock that it releases"][0]
    daily = _drilled(_path(tmp_path / "daily", script))
    # A firing that is further away than a drill plays is not tried.
    yearly = _drilled(_path(tmp_path / "yearly", script, {"schedule": "0 21 24 12 *"}))
    assert (daily.bill, daily.usd, daily.gpu_pods) == (yearly.bill, yearly.usd, yearly.gpu_pods)
    assert daily.gpu_pods == ()


CLAIM = {"persistentVolumeClaim": {"claimName": "state"}}


@pytest.mark.parametrize(
    ("script", "volume", "verdict"),
    [
        (f"[ -f /state/done ] && exit 0; {OFF}", CLAIM, "inconclusive"),
        (f"[ -f /state/done ] && exit 0; {OFF}", {"emptyDir": {}}, "survived"),
        (f"{OFF} >> /state/night.log", CLAIM, "survived"),
    ],
)
@pytest.mark.one_in(3)
def test_what_lies_on_a_volume_that_outlives_the_pods_was_not_seen(
    script: str, volume: dict[str, object], verdict: str, tmp_path: Path
) -> None:
    claim: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "state", "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    result = _drilled(_path(tmp_path / "path", script, volume=volume, beside=[claim]))
    assert str(result.verdict) == verdict, result.why
    assert ("it looks at /state" in result.why) == (verdict == "inconclusive")


HELD = (
    f"kubectl -n {NAMESPACE} create quota none --hard=requests.nvidia.com/gpu=0; sleep 3; "
    f"kubectl -n {NAMESPACE} delete pods -l app=whisper --wait=false"
)


@pytest.mark.parametrize(("declared", "verdict"), [(True, "survived"), (False, "exposed")])
@pytest.mark.one_in(2)
def test_what_a_quota_holds_off_is_off_until_its_declared_end(declared: bool, verdict: str, tmp_path: Path) -> None:
    """No replicas were written: who takes the quota away is the start, though the pods come a while after it."""
    path = _path(tmp_path / "path", HELD)
    night = next(o for o in yaml.safe_load_all((path / "all.yaml").read_text()) if o["kind"] == "CronJob")
    night["metadata"]["name"] = "morning"
    night["spec"]["schedule"] = "0 7 * * *"
    (container,) = night["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    container["command"][-1] = f"kubectl -n {NAMESPACE} delete quota none"
    (path / "morning.yaml").write_text(yaml.safe_dump(night))
    ref = {"namespace": NAMESPACE, "name": "night"}
    spec: dict[str, object] = {
        "apiVersion": "killcheck/v1",
        "name": "held",
        "targets": [{"name": "whisper", "kind": "Deployment", "namespace": NAMESPACE, "object": "whisper"}],
        "layers": [{"name": "night", "type": "dead-man", "covers": ["whisper"], "cronJob": ref}],
        "proof": ["P1", "P4"],
    }
    if declared:
        spec["starts"] = [{"kind": "CronJob", "namespace": NAMESPACE, "name": "morning"}]
    (path / "killcheck.yaml").write_text(yaml.safe_dump(spec))
    session = Session(spec=path / "killcheck.yaml", exec_mode="host")
    planned = PlannedDrill("night", options=Options(horizon_s=1800.0))
    result = Run(session, [planned], folder=tmp_path / "runs").execute().drills[0]
    assert str(result.verdict) == verdict, result.why


@pytest.mark.parametrize("executor", ["a lock that it releases", "a lock that nobody releases"])
@pytest.mark.one_in(2)
def test_what_fires_often_is_tried_as_well(executor: str, tmp_path: Path) -> None:
    script, verdict, cause = EXECUTORS[executor]
    result = _drilled(_path(tmp_path / "path", script, {"schedule": "*/15 * * * *"}))
    assert (str(result.verdict), cause in result.cause) == (verdict, True), result.why


@pytest.mark.parametrize(("kept", "verdict"), [(0, "survived"), (3, "exposed")])
def test_the_drills_own_job_is_in_nobodys_way(kept: int, verdict: str, tmp_path: Path) -> None:
    """It is not the schedule's, whose history would take its own away; what that keeps fills the quota."""
    meta = {"name": "jobs", "namespace": NAMESPACE}
    quota: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": meta,
        "spec": {"hard": {"count/jobs.batch": "1"}},
    }
    result = _drilled(_path(tmp_path / "path", OFF, {"successfulJobsHistoryLimit": kept}, beside=[quota]))
    assert str(result.verdict) == verdict, result.why


def test_the_night_before_the_longest_pause_is_drilled(tmp_path: Path) -> None:
    """A switch of the weekdays leaves the weekend to itself, and what starts on a Saturday."""
    container = {"name": "train", "image": "registry.example.net/t:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    saturday: dict[str, object] = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "weekend", "namespace": NAMESPACE},
        "spec": {"schedule": "0 14 * * 6", "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }
    result = _drilled(_path(tmp_path / "path", OFF, {"schedule": "0 21 * * 1-5"}, beside=[saturday]))
    assert str(result.verdict) == "exposed", result.why
    assert "CronJob speech/weekend put a pod on 1 GPU(s) itself" in result.cause


def test_nights_without_a_firing_are_told_with_their_dollars(tmp_path: Path) -> None:
    result = _drilled(_path(tmp_path / "path", OFF, {"schedule": "0 21 * * 5"}))
    assert str(result.verdict) == "survived", result.why
    assert any(
        note.startswith("up to 168 h pass between two firings") and note.endswith("at this drill's rate")
        for note in result.notes
    )


def test_where_no_next_firing_can_be_seen_what_one_made_by_a_fixed_name_and_left_is_open(tmp_path: Path) -> None:
    """On a real cluster the next night is not played."""
    night = next(o for o in yaml.safe_load_all((_path(tmp_path / "p", OFF) / "all.yaml").read_text()) if _is_night(o))
    container = night["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    lock = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "night-lock", "namespace": NAMESPACE}}
    told = []
    with Cluster(exec_mode="none") as cluster:
        cluster.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, lock])
        for script in (f"{LOCK}; {OFF}", f"{LOCK}-$(date +%s); {OFF}", OFF):
            container["command"][-1] = script
            told.append([entry.because for entry in left_behind.made(night, cluster.kube)])
    said = f"it makes ConfigMap/{NAMESPACE}/night-lock by that name, which is there still: its next firing was not seen"
    assert told == [[said], [], []]


def _is_night(obj: dict[str, object]) -> bool:
    return obj["kind"] == "CronJob"
