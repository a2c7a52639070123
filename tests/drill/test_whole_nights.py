"""After zero the night goes on: what lights the targets again, who did it, and which starts are meant."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from gitops_objects import HEAL, NS, RESPECT, app, entry, flux

from killcheck import discover
from killcheck.drill.sequence import Options
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec.killpath import Ref
from killcheck.text.values import replace

ZERO = "kubectl -n studio scale deployment painter --replicas=0"
LIT = "kubectl -n studio scale deployment painter --replicas=3"


def role(name):
    rules = [
        {
            "apiGroups": ["apps"],
            "resources": ["deployments", "deployments/scale"],
            "verbs": ["get", "list", "watch", "patch", "update"],
        }
    ]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, **NS}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name, **NS},
            "rules": rules,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name, **NS},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, **NS}],
        },
    ]


def cron(name, schedule, script, *, gpus=0, **spec):
    container = {"name": "run", "image": "alpine/k8s:1.31.2", "command": ["/bin/sh", "-c", script]}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    pod = {
        "serviceAccountName": name,
        "restartPolicy": "Never",
        "containers": [container],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}] if gpus else [],
    }
    return [
        *role(name),
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": name, **NS},
            "spec": {
                "schedule": schedule,
                "timeZone": "America/Denver",
                **spec,
                "jobTemplate": {"spec": {"template": {"spec": pod}}},
            },
        },
    ]


def painter(**annotations):
    server = {"name": "server", "image": "ghcr.io/comfyui/comfyui:1", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    pod = {"containers": [server], "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "painter", **NS, "annotations": annotations},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "painter"}},
            "template": {"metadata": {"labels": {"app": "painter"}}, "spec": pod},
        },
    }


POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "cards"},
    "spec": {
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]},
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "cards"},
                "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.12xlarge"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
            }
        },
    },
}


@pytest.fixture
def night(tmp_path):
    """Drill a switch at half past ten, with what else there is; answers the one result."""

    def run(*more, switch=ZERO, target=None, starts=(), layer="off"):
        folder = tmp_path / "deploy"
        folder.mkdir()
        objects = [target or painter(), POOL, *(cron("off", "30 22 * * *", switch) if switch else []), *more]
        (folder / "all.yaml").write_text(yaml.safe_dump_all(objects))
        session = Session(manifests=[Path(folder)], exec_mode="host")
        if starts:
            session._kill_path = replace(session.kill_path, starts=tuple(starts))
        (result,) = Run(session, [PlannedDrill(layer)], folder=tmp_path / "state").execute().drills
        return result

    return run


def told(result):
    return f"{result.cause or result.why} {' '.join(result.notes)}"


@pytest.mark.parametrize(
    ("schedule", "at", "verdict"),
    [
        ("30 1 * * *", "08:30", "exposed"),
        ("0 5 * * *", "12:00", "exposed"),
        ("0 8 * * 1-5", "15:00", "survived"),
        ("0 7,11 * * *", "14:00", "exposed"),
        ("30 18 * * *", "01:30", "exposed"),
    ],
)
@pytest.mark.one_in(2)
def test_another_schedule_that_lights_it_again_is_a_failure_but_for_a_morning(night, schedule, at, verdict):
    result = night(*cron("refresh", schedule, LIT))
    assert str(result.verdict) == verdict, result.why
    assert "CronJob studio/refresh set Deployment painter to 3 replica(s)" in told(result)
    assert f"{at} UTC" in told(result)
    assert (result.stuck_at == "held") is (verdict == "exposed")


def test_a_layer_beside_it_that_lights_what_is_off_is_seen_on_its_next_night(night):
    """Drilled by itself it turns the target off, for that was on."""
    asked = "kubectl -n studio get deployment painter -o jsonpath={.spec.replicas}"
    toggle = f"n=$({asked} | jq '3-.'); kubectl -n studio get deployment painter -o json | jq .spec.replicas=$n"
    result = night(*cron("weekly-off", "30 23 * * 6", f"{toggle} | kubectl replace -f -"))
    assert str(result.verdict) == "exposed", result.why
    assert "CronJob studio/weekly-off set Deployment painter to 3 replica(s)" in result.cause


def test_a_start_that_the_spec_declares_is_meant_at_any_hour(night):
    start = Ref("batch/v1", "CronJob", "studio", "refresh")
    result = night(*cron("refresh", "30 1 * * *", LIT), starts=[start])
    assert str(result.verdict) == "survived", result.why
    assert any("it held for" in note and "the spec declares this start" in note for note in result.notes)
    assert result.gpu_pods == ()


def test_an_executor_that_goes_on_and_lights_what_it_turned_off(night):
    result = night(switch=f"{ZERO}\nsleep 3600\n{LIT}")
    assert str(result.verdict) == "exposed"
    assert "the executor of off itself" in result.cause


def test_a_schedule_that_asks_for_gpus_itself(night):
    result = night(*cron("tune", "0 2 * * *", "sleep 7200", gpus=1))
    assert str(result.verdict) == "exposed"
    assert "lit again at 2026-01-16 09:00 UTC: CronJob studio/tune" in result.cause


@pytest.mark.parametrize(
    ("ends_s", "schedule", "verdict"),
    [(7200, "0 2 * * *", "survived"), (50400, "0 2 * * *", "exposed"), (3000, "0 * * * *", "exposed")],
    ids=["two hours a night", "all night", "most of every hour"],
)
@pytest.mark.one_in(3)
def test_work_of_its_own_that_is_ended_soon_is_told(night, ends_s, schedule, verdict):
    made = cron("tune", schedule, "sleep 36000", gpus=1)
    made[-1]["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] = ends_s
    result = night(*made)
    assert str(result.verdict) == verdict, result.cause or result.why
    told = "work of its own, ended after 2.0 h at the latest" in str(result.to_json())
    assert told is (verdict == "survived")


DELETED = "kubectl -n studio delete deployment painter"
MAY_DELETE = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "deleting", **NS},
        "rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch", "delete"]}],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "deleting", **NS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deleting"},
        "subjects": [{"kind": "ServiceAccount", "name": "off", **NS}],
    },
]


def test_a_switch_that_deletes_its_target_is_judged_and_the_target_made_again(night):
    result = night(*MAY_DELETE, switch=DELETED)
    assert (str(result.verdict), result.problems) == ("survived", ())
    assert any("re-created" in said for said in result.healed)


def test_a_switch_that_deletes_the_whole_namespace_is_judged(night):
    may = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch", "delete"]}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "razing"}
    who = [{"kind": "ServiceAccount", "name": "off", **NS}]
    rights = [
        {**rbac, "kind": "ClusterRole", "metadata": {"name": "razing"}, "rules": [may]},
        {**rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "razing"}, "roleRef": ref, "subjects": who},
    ]
    result = night(*rights, switch="kubectl delete namespace studio --wait=false")
    assert result.problems == ()
    assert str(result.verdict) in ("survived", "inconclusive"), result.why


def test_a_nightly_restart_is_no_switch():
    fresh = cron("fresh", "0 1 * * *", "kubectl -n studio rollout restart deployment painter")
    found = discover.from_objects([painter(), *cron("off", "30 22 * * *", ZERO), *fresh])
    assert [layer.name for layer in found.kill_path.layers] == ["off"]


def test_a_switch_that_deletes_what_git_makes_again_is_exposed(night):
    result = night(*MAY_DELETE, app({"selfHeal": True}), switch=DELETED)
    assert (str(result.verdict), result.problems) == ("exposed", ())


def test_a_target_that_no_layer_covers_stays_on(night):
    other = painter()
    other["metadata"] = {"name": "tracer", **NS}
    other["spec"]["selector"]["matchLabels"] = other["spec"]["template"]["metadata"]["labels"] = {"app": "tracer"}
    result = night(other)
    assert str(result.verdict) == "exposed"
    assert "Deployment/studio/tracer holds GPUs still: no layer of the kill path turns it off" in result.cause
    assert result.usd_until_next_chance is not None, "what it costs until then counts"


def test_a_quiet_night_holds_to_the_next_firing(night):
    result = night()
    assert str(result.verdict) == "survived"
    assert result.watched_s < 3600, "what is proven is told of, not the night after it"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"startingDeadlineSeconds": 0}, "every firing is too late"),
        ({"schedule": "0 3 31 2 *"}, "no such date"),
        ({"schedule": "0 3 29 2 *"}, "does not come within a year: the next is at 20"),
        ({"suspend": True}, "is suspended"),
    ],
)
@pytest.mark.one_in(2)
def test_a_schedule_that_never_fires_is_exposed(night, spec, why):
    spec = {"schedule": "30 22 * * *", **spec}
    result = night(*cron("never", spec.pop("schedule"), ZERO, **spec), switch="", layer="never")
    assert str(result.verdict) == "exposed"
    assert why in result.cause


def pausing(verbs):
    """Who may write to CronJobs: the account of ``freeze`` may."""
    may = {"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": verbs}
    frozen = [dict(obj) for obj in role("freeze")]
    return [*frozen[:1], {**frozen[1], "metadata": {"name": "pause", **NS}, "rules": [may]}, frozen[2] | _PAUSES]


_PAUSES = {
    "metadata": {"name": "pause", **NS},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pause"},
}


def test_a_switch_that_something_suspends_before_its_next_firing_is_exposed(night):
    """It went off once; who stops the stop before the next night leaves the GPUs on from then."""
    stop = 'kubectl -n studio patch cronjob off --type merge -p \'{"spec":{"suspend":true}}\''
    result = night(*cron("freeze", "0 9 * * *", stop), *pausing(["get", "patch"]))
    assert (str(result.verdict), result.stuck_at) == ("exposed", "triggered"), result.why
    assert "did not come: CronJob off was suspended in the meantime" in result.cause


def test_who_may_stop_the_switch_and_was_not_run_leaves_nothing_proven(night):
    guard = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "guard", **NS},
        "spec": {
            "selector": {"matchLabels": {"app": "guard"}},
            "template": {
                "metadata": {"labels": {"app": "guard"}},
                "spec": {"serviceAccountName": "freeze", "containers": [{"name": "main", "image": "example.net/g:1"}]},
            },
        },
    }
    result = night(guard, *pausing(["delete"]))
    assert str(result.verdict) == "inconclusive"
    assert "Deployment/studio/guard: ServiceAccount studio/freeze may delete CronJob/studio/off" in result.why


@pytest.mark.weekly
def test_a_switch_whose_job_never_ends_holds_up_its_next_firing(night):
    result = night(*cron("hangs", "30 22 * * *", f"{ZERO}; sleep infinity", concurrencyPolicy="Forbid"), layer="hangs")
    assert str(result.verdict) == "exposed"
    assert "concurrencyPolicy Forbid: the Job of the firing before, hangs-killcheck-" in result.cause


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1.0, "the watch ended after 1s, before 'GPU pods gone' could be told: --watch 5m is long enough"),
        (200.0, "the watch ended after 3m20s, before 'stayed off' could be told: --watch "),
    ],
)
def test_a_watch_that_was_cut_short_proves_nothing(drill, seconds, said):
    """What had not come when it ended is not late: how long it takes to tell is said."""
    result = drill(options=Options(horizon_s=seconds)).only
    assert str(result.verdict) == "inconclusive"
    assert result.why.startswith(said)


# -- KEDA --------------------------------------------------------------------------------------------------
def scaled(*triggers, notes=None, **spec):
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "painter", **NS, "annotations": notes or {}},
        "spec": {
            "scaleTargetRef": {"name": "painter"},
            "minReplicaCount": 0,
            "maxReplicaCount": 5,
            **spec,
            "triggers": list(triggers),
        },
    }


def window(start, end):
    return {
        "type": "cron",
        "metadata": {"timezone": "America/Denver", "start": start, "end": end, "desiredReplicas": "3"},
    }


LIVE = {"type": "kafka", "metadata": {"topic": "jobs", "lagThreshold": "5"}}


@pytest.mark.parametrize(
    ("triggers", "layer", "verdict", "words"),
    [
        ([window("0 6 * * *", "0 20 * * *")], "painter-to-zero", "survived", "waited for the cron window"),
        ([window("0 20 * * *", "0 23 * * *")], "off", "exposed", "scaled back"),
        ([window("0 1 * * *", "0 2 * * *")], "painter-to-zero", "exposed", "ScaledObject studio/painter"),
        (
            [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}],
            "painter-to-zero",
            "exposed",
            "cpu or memory triggers alone",
        ),
        ([LIVE], "painter-to-zero", "survived", "assumed active"),
        ([LIVE], "off", "inconclusive", "kafka trigger is assumed active"),
    ],
)
@pytest.mark.one_in(2)
def test_triggers_count_by_their_type(night, triggers, layer, verdict, words):
    result = night(scaled(*triggers), layer=layer)
    assert (str(result.verdict), words in told(result)) == (verdict, True), told(result)
    assert not result.problems


def test_a_pause_at_a_count_comes_back_with_the_resync(night):
    result = night(scaled(LIVE, notes={"autoscaling.keda.sh/paused-replicas": "2"}))
    assert str(result.verdict) == "exposed"
    assert "ScaledObject studio/painter set Deployment painter to 2 replica(s)" in result.cause


def test_what_a_scaler_was_made_to_read_goes_with_it(night):
    """A switch of the same night deletes the scaler: nothing is left to put back (it was dirty, exit code 5)."""
    objects = cron("ends", "15 22 * * *", "kubectl delete scaledobject painter -n studio")
    objects[1]["rules"].append({"apiGroups": ["keda.sh"], "resources": ["scaledobjects"], "verbs": ["get", "delete"]})
    result = night(scaled(LIVE), *objects, layer="painter-to-zero")
    assert result.problems == ()
    assert any("gone with its object" in said for said in result.healed)


# -- GitOps ------------------------------------------------------------------------------------------------
def project(name, **window):
    window = {"kind": "deny", "schedule": "0 19 * * *", "duration": "12h", **window}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": name, "namespace": "argocd"},
        "spec": {"syncWindows": [window]},
    }


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        (project("default", applications=["s*"]), "inconclusive"),
        (project("default", namespaces=["studio"]), "inconclusive"),
        (project("default", namespaces="studio", applications=7), "inconclusive"),  # no schema of it is known here
        (project("default", applications=["web-*"]), "exposed"),
        (project("other", applications=["*"]), "exposed"),
    ],
)
@pytest.mark.one_in(2)
def test_a_heal_that_a_sync_window_may_prevent_proves_nothing(night, bounds, verdict):
    result = night(app({"selfHeal": True}), bounds)
    assert str(result.verdict) == verdict, told(result)
    assert ("the sync windows of AppProject default are not modelled" in told(result)) is (verdict == "inconclusive")


@pytest.mark.parametrize(("field", "value"), [("parallelism", 0), ("suspend", True)])
def test_a_job_that_asks_for_no_pod_is_told_so(night, field, value):
    account, *rest = cron("off", "30 22 * * *", ZERO)
    switch = next(one for one in (account, *rest) if one["kind"] == "CronJob")
    switch["spec"]["jobTemplate"]["spec"][field] = value
    result = night(account, *rest, switch=None)
    assert f"asks for no pod ({field}: {str(value).lower()})" in result.cause


# What is put back, and what is left alone, row by row: tests/embedded/models/test_gitops.py.
@pytest.mark.parametrize(
    ("application", "verdict"),
    [
        (app(HEAL), "exposed"),
        (app(HEAL, RESPECT, ignore=[entry(jsonPointers=["/spec/replicas"])]), "survived"),
        # Who scales to 0 comes to manage nothing: a Scale of 0 has no replicas (seen on a real v1.36.2 server).
        (app(HEAL, RESPECT, ignore=[entry(managedFieldsManagers=["kubectl"])]), "exposed"),
        (app(HEAL, RESPECT, ignore=[entry(jqPathExpressions=["to_entries[]"])]), "inconclusive"),
    ],
)
@pytest.mark.one_in(2)
def test_argo_heals_what_it_may_and_nothing_else(night, application, verdict):
    result = night(application)
    assert str(result.verdict) == verdict, told(result)


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        (flux("Kustomization", interval="10m", path="."), "exposed"),
        (flux("HelmRelease", interval="30m", driftDetection={"mode": "enabled"}), "exposed"),
        (flux("HelmRelease", interval="30m"), "survived"),
    ],
)
@pytest.mark.one_in(2)
def test_flux_corrects_at_its_interval(night, source, verdict):
    result = night(source)
    assert str(result.verdict) == verdict, told(result)
    if verdict == "exposed":
        assert f"{source['kind']} studio/st" in result.cause or "Flux (" in result.cause
