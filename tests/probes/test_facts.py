"""Facts across objects, and commands judged by their argument vectors."""

from __future__ import annotations

import copy
from datetime import UTC, datetime

import pytest
import yaml

from killcheck import fixtures
from killcheck.discover import starters
from killcheck.lint import asking
from killcheck.spec.killpath import Target

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture
def objects():
    folder = fixtures.path("dead-man")
    return [
        obj
        for name in ("inference.yaml", "gpu-nightly-off.yaml", "nodepool.yaml")
        for obj in yaml.safe_load_all((folder / name).read_text())
    ]


def _cron_job(objects):
    return next(obj for obj in objects if obj["kind"] == "CronJob")


def _container(objects):
    return _cron_job(objects)["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]


def _found(objects, probe):
    world, _ = asking.world_of(objects, NOW)
    return [finding for finding in asking.lint(world).findings if finding.probe == probe]


def _runs(objects, *words):
    """The executor with a kubectl command besides, as a script of its own line."""
    _container(objects)["args"][0] += "\nkubectl " + " ".join(words) + "\n"
    return objects


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["drain", "gpu-1", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=10m"], ""),
        (
            ["--context=x", "drain", "gpu-1", "--timeout", "5m", "--delete-emptydir-data", "--ignore-daemonsets=true"],
            "",
        ),
        (["drain", "gpu-1", "--ignore-daemonsets", "--timeout=10m"], "without --delete-emptydir-data"),
        (
            ["drain", "gpu-1", "--ignore-daemonsets=false", "--delete-emptydir-data", "--timeout=1m"],
            "--ignore-daemonsets",
        ),
        (["drain", "gpu-1", "--ignore-daemonsets", "--delete-emptydir-data"], "without --timeout"),
        (["get", "pods", "-l", "app=drain"], ""),
    ],
)
def test_a_drain_is_judged_by_its_flags(objects, words, message):
    found = _found(_runs(objects, *words), "drain-flags")
    assert [message in finding.message for finding in found] == ([True] if message else [])


@pytest.mark.parametrize(
    ("words", "forced"),
    [
        (["delete", "pod", "x", "--force"], True),
        (["delete", "pod", "x", "--force=true", "--grace-period=0"], True),
        (["delete", "pod", "x", "--force=false"], False),
        (["delete", "pod", "x", "--wait"], False),
        (["drain", "x", "--force", "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=1m"], False),
    ],
)
def test_a_deletion_is_forced_where_its_flags_say_so(objects, words, forced):
    assert bool(_found(_runs(objects, *words), "force-delete")) is forced


def test_a_list_of_words_in_python_is_an_argument_vector(objects):
    script = "import subprocess\nsubprocess.run(['kubectl', 'delete', 'pod', 'x',\n    '--force'], check=True)\n"
    _container(objects).update(image="python:3.12", command=["python3", "-c"], args=[script])
    world, _ = asking.world_of(objects, NOW)
    (executor,) = [one for one in world.executors if one.owner["kind"] == "CronJob"] or [None]
    assert executor is not None
    assert ("kubectl", "delete", "pod", "x", "--force") in executor.reading.commands


@pytest.mark.parametrize(
    ("hard", "refused"),
    [
        ({"pods": "1"}, True),
        ({"pods": "2"}, False),
        ({"count/pods": "1"}, True),
        ({"requests.nvidia.com/gpu": "8"}, False),
        ({"requests.memory": "384Gi"}, True),
    ],
)
def test_a_quota_has_room_beside_the_declared_replicas(objects, hard, refused):
    objects.append(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": "inference"},
            "spec": {"hard": hard},
        }
    )
    assert bool(_found(objects, "pod-refused")) is refused


@pytest.mark.parametrize(
    ("zone", "said"),
    [("Etc/GMT+2", "Etc/GMT+2 is UTC-2"), ("Etc/GMT-5", "Etc/GMT-5 is UTC+5"), ("Etc/UTC", ""), ("Etc/GMT", "")],
)
def test_the_signs_of_etc_gmt_are_told(objects, zone, said):
    _cron_job(objects)["spec"]["timeZone"] = zone
    found = _found(objects, "schedule-trap")
    assert [(finding.severity, said in finding.message) for finding in found] == ([("note", True)] if said else [])


def test_a_suspended_switch_beside_a_living_one_is_a_note(objects):
    other = copy.deepcopy(_cron_job(objects))
    other["metadata"]["name"] = "gpu-nightly-off-old"
    other["spec"]["suspend"] = True
    (found,) = _found([*objects, other], "suspended")
    assert (found.severity, "gpu-nightly-off turns off what it would" in found.message) == ("note", True)
    _cron_job(objects)["spec"]["suspend"] = True
    assert {finding.severity for finding in _found([*objects, other], "suspended")} == {"error"}


@pytest.mark.parametrize(("labels", "found"), [({}, ["error"]), ({"kueue.x-k8s.io/queue-name": "q"}, [])])
def test_jobs_that_begin_suspended_never_run_unless_kueue_lets_them(objects, labels, found):
    job = _cron_job(objects)["spec"]["jobTemplate"]
    job["spec"]["suspend"], job["metadata"] = True, {"labels": labels}
    assert [f.severity for f in _found(objects, "suspended")] == found


def _of_arch(operator, *values, anywhere=False):
    wanted = {"key": "kubernetes.io/arch", "operator": operator, "values": list(values)}
    other = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}, *([other] if anywhere else [])]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


@pytest.mark.parametrize(
    ("beside", "found"),
    [
        ([], 0),  # nobody knows: Secrets are seldom among manifests
        ([{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson"}], 1),
        ([{"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret"}], 1),
        ([{"apiVersion": "v1", "kind": "Secret", "type": "Opaque"}], 0),
    ],
)
def test_a_pull_secret_that_is_not_among_the_others(objects, beside, found):
    job = _cron_job(objects)
    job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["imagePullSecrets"] = [{"name": "regcred"}]
    there = [{**obj, "metadata": {"name": "regcreds", "namespace": job["metadata"]["namespace"]}} for obj in beside]
    said = [f.message for f in _found([*objects, *there], "pull-secret-absent")]
    assert ["did you mean regcreds?" in message for message in said] == [True] * found


@pytest.mark.parametrize(
    ("marks", "beside", "found"),
    [
        ({}, [], 1),
        ({"annotations": {"reflector.v1.k8s.emberstack.com/reflection-allowed": "true"}}, [], 0),
        ({}, [{"kind": "ClusterExternalSecret", "metadata": {"name": "regcred"}}], 0),
        ({}, [{"kind": "ClusterPolicy", "spec": {"rules": [{"generate": {"clone": {"name": "regcred"}}}]}}], 0),
    ],
)
def test_a_pull_secret_of_another_namespace(objects, marks, beside, found):
    _cron_job(objects)["spec"]["jobTemplate"]["spec"]["template"]["spec"]["imagePullSecrets"] = [{"name": "regcred"}]
    meta = {"name": "regcred", "namespace": "elsewhere", **marks}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "metadata": meta}
    said = [one.message for one in _found([*objects, secret, *beside], "pull-secret-absent")]
    assert ["which is in namespace elsewhere" in message for message in said] == [True] * found


@pytest.mark.parametrize(
    ("image", "there", "found"),
    [
        ("arm64v8/python:3.12", {"nodeSelector": {"kubernetes.io/arch": "amd64"}}, 1),
        ("ghcr.io/o/ops:1.2-arm64", {"affinity": {"nodeAffinity": _of_arch("NotIn", "arm64")}}, 1),
        ("ghcr.io/o/ops-arm64:1.2", {"affinity": {"nodeAffinity": _of_arch("In", "arm64", "amd64")}}, 0),
        ("ghcr.io/o/ops-amd64:1.2", {"affinity": {"nodeAffinity": _of_arch("In", "arm64")}}, 1),
        ("ghcr.io/o/ops-amd64:1.2", {"affinity": {"nodeAffinity": _of_arch("In", "arm64", anywhere=True)}}, 0),
        ("arm64v8/python:3.12", {"nodeSelector": None}, 0),  # nobody says what its nodes are
        ("ghcr.io/o/harm64:1.2", {"nodeSelector": {"kubernetes.io/arch": "amd64"}}, 0),
        ("ghcr.io/arm64v8/ops:1", {"nodeSelector": {"kubernetes.io/arch": "amd64"}}, 0),  # of Docker Hub alone
    ],
)
def test_an_image_whose_name_says_another_architecture(objects, image, there, found):
    pod = _cron_job(objects)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    del pod["nodeSelector"]
    pod |= there
    pod["containers"][0]["image"] = image
    said = [f.message for f in _found(objects, "command-missing")]
    assert sum("exec format error" in message for message in said) == found


@pytest.mark.parametrize(("limit_s", "severity"), [(5, "warning"), (59, "warning"), (60, "note"), (300, "note")])
def test_a_late_firing_is_a_warning_where_a_failover_makes_it_late(objects, limit_s, severity):
    _cron_job(objects)["spec"]["startingDeadlineSeconds"] = limit_s
    assert [f.severity for f in _found(objects, "schedule-trap")] == [severity]


@pytest.mark.parametrize(
    ("schedule", "hours", "severity"),
    [("0 20 * * *", 0, None), ("0 20 * * 1-5", 72, "note"), ("0 20 * * 5", 168, "warning"), ("0 */6 * * *", 0, None)],
)
def test_nights_without_a_firing_are_told(objects, schedule, hours, severity):
    _cron_job(objects)["spec"] |= {"schedule": schedule, "timeZone": "Etc/UTC"}
    found = _found(objects, "schedule-trap")
    assert [(f.severity, f"up to {hours} h pass" in f.message) for f in found] == ([(severity, True)] if hours else [])
    nightly = copy.deepcopy(_cron_job(objects))
    nightly["metadata"]["name"], nightly["spec"]["schedule"] = "gpu-night-guard", "30 23 * * *"
    assert not _found([*objects, nightly], "schedule-trap")


def test_a_role_that_is_not_there_is_the_remedy(objects):
    binding = next(obj for obj in objects if obj["kind"] == "RoleBinding")
    binding["roleRef"]["name"] = "gpu-off"
    (found, *_) = _found(objects, "rbac-missing")
    assert found.remedy.startswith("Let the roleRef of RoleBinding gpu-nightly-off name a Role that is there")


def test_a_subject_in_another_namespace_is_the_remedy(objects):
    binding = next(obj for obj in objects if obj["kind"] == "RoleBinding")
    binding["subjects"][0]["namespace"] = "infra"
    (found, *_) = _found(objects, "rbac-missing")
    assert found.remedy == "Let RoleBinding gpu-nightly-off name the subject ServiceAccount inference/gpu-nightly-off."


def test_a_failure_that_is_remembered_is_not_swallowed(objects):
    _container(objects)["args"][0] = "rc=0\nkubectl -n inference scale deploy/vllm --replicas=0 || rc=$?\nexit $rc\n"
    assert _found(objects, "false-green") == []


def test_a_script_beside_the_working_directory_is_read(objects):
    objects.append(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "scripts", "namespace": "inference"},
            "data": {"off.sh": "set -e\nkubectl -n inference scale deploy/vllm --replicas=0\n"},
        }
    )
    pod = _cron_job(objects)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "scripts", "configMap": {"name": "scripts"}}]
    _container(objects).update(
        command=["sh", "off.sh"],
        args=[],
        workingDir="/opt/off",
        volumeMounts=[{"name": "scripts", "mountPath": "/opt/off"}],
    )
    world, _ = asking.world_of(objects, NOW)
    (executor,) = world.layer_executors
    assert [(call.resource, call.subresource, call.name) for call in executor.reading.writes] == [
        ("deployments", "scale", "vllm")
    ]


@pytest.mark.parametrize(
    ("listed", "refused"), [(("ServiceAccount",), True), ((), False)], ids=["accounts-listed", "bindings-alone"]
)
def test_of_a_cluster_only_what_was_listed_can_be_missing(objects, listed, refused):
    """A drill's own listing has bindings to accounts, and no accounts."""
    seen = [obj for obj in objects if obj["kind"] != "ServiceAccount"]
    kill_path = asking.world_of(objects, NOW)[0].kill_path
    world, _ = asking.world_of(seen, NOW, kill_path=kill_path, live=True, listed=listed)
    assert (
        any("ServiceAccount" in f.message for f in asking.lint(world).findings if f.probe == "pod-refused") is refused
    )


@pytest.mark.parametrize(
    ("zone", "severity"), [("America/New_York", "warning"), ("Asia/Karachi", "note"), ("", "note")]
)
def test_the_sign_of_etc_gmt_against_a_place_beside_it(objects, zone, severity):
    other = copy.deepcopy(_cron_job(objects))
    other["metadata"]["name"] = "gpu-morning-on"
    other["spec"]["timeZone"] = zone or None
    _cron_job(objects)["spec"]["timeZone"] = "Etc/GMT-5"
    found = [f for f in _found([*objects, other], "schedule-trap") if "turned round" in f.message]
    assert [f.severity for f in found] == [severity]


_LINUX = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}


def _selects(objects, labels, taints, tolerations=()):
    """A pool of its own for the executor, with labels and taints, and what it selects of it."""
    pool = copy.deepcopy(next(obj for obj in objects if obj["kind"] == "NodePool"))
    pool["metadata"]["name"] = "ops"
    template = {"metadata": {"labels": {"team": "ops"}}, "spec": {"taints": taints, "requirements": [_LINUX]}}
    pool["spec"]["template"] = template
    pod = _cron_job(objects)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod |= {"nodeSelector": labels, "tolerations": list(tolerations)}
    return [*objects, pool]


_OPS = {"key": "dedicated", "value": "ops", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("labels", "taints", "tolerations", "found"),
    [
        ({"team": "ops"}, [_OPS], [], 1),
        ({"karpenter.sh/nodepool": "ops"}, [_OPS], [], 1),
        ({"team": "ops"}, [_OPS], [{"key": "dedicated", "operator": "Exists"}], 0),
        ({"team": "ops"}, [{**_OPS, "effect": "PreferNoSchedule"}], [], 0),
        ({"team": "ops"}, [], [], 0),
        ({"team": "platform"}, [_OPS], [], 0),  # of nodes that are not among the manifests
        ({"kubernetes.io/os": "linux"}, [_OPS], [], 0),
        ({}, [_OPS], [], 0),
    ],
)
def test_the_taint_of_the_pool_that_is_selected(objects, labels, taints, tolerations, found):
    assert len(_found(_selects(objects, labels, taints, tolerations), "unschedulable")) == found


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ({"name": "night", "key": "TARGET"}, 1),
        ({"name": "night", "key": "TARGET", "optional": True}, 0),
        ({"name": "night", "key": "TARGET_NAME"}, 0),
        ({"name": "night", "key": "logo"}, 0),
    ],
)
def test_a_key_that_a_config_map_has_not(objects, reference, found):
    night = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "night", "namespace": "inference"}}
    night |= {"data": {"TARGET_NAME": "vllm"}, "binaryData": {"logo": "AAAA"}}
    _container(objects)["env"] = [{"name": "TARGET", "valueFrom": {"configMapKeyRef": reference}}]
    said = [f.message for f in _found([*objects, night], "config-missing")]
    assert ["did you mean TARGET_NAME?" in message for message in said] == [True] * found


@pytest.mark.parametrize(
    ("command", "more", "end", "found"),
    [
        (["./off.sh"], {}, "\n", "permission denied"),
        (["/opt/off/off.sh"], {}, "\n", "permission denied"),
        (["./off.sh"], {"defaultMode": 0o755}, "\n", ""),
        (["./off.sh"], {"defaultMode": 0o755}, "\r\n", "no interpreter is called that"),
        (["./off.sh"], {"items": [{"key": "off.sh", "path": "off.sh", "mode": 0o555}]}, "\n", ""),
        (["sh", "./off.sh"], {}, "\r\n", ""),
        (["/usr/bin/env"], {}, "\n", ""),
    ],
)
def test_a_script_of_a_volume_that_is_no_program(objects, command, more, end, found):
    script = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "off", "namespace": "inference"}}
    script["data"] = {"off.sh": f"#!/bin/sh{end}kubectl -n inference scale deploy vllm --replicas=0\n"}
    pod = _cron_job(objects)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "off", "configMap": {"name": "off", **more}}]
    mounts = [{"name": "off", "mountPath": "/opt/off"}]
    _container(objects).update(command=command, args=[], workingDir="/opt/off", volumeMounts=mounts)
    said = [f.message for f in _found([*objects, script], "command-missing")]
    told = [message for message in said if "permission denied" in message or "interpreter" in message]
    assert [found in message for message in told] == ([True] if found else [])


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("kubectl scale deploy vllm --replicas=0", ("error", "kubectl")),
        ("curl -fs $URL | kubectl scale deploy vllm --replicas=0", ("error", "curl, kubectl")),
        (
            "wget -qO /bin/kubectl https://dl.k8s.io/v1/kubectl; kubectl scale deploy vllm --replicas=0",
            ("warning", "kubectl"),
        ),
        ("apk add --no-cache jq kubectl && kubectl scale deploy vllm --replicas=0", ("warning", "kubectl")),
    ],
)
def test_a_command_that_the_script_itself_fetches(objects, script, told):
    _container(objects).update(image="alpine:3.20", command=["sh", "-c", script], args=[])
    [finding] = [f for f in _found(objects, "command-missing") if "alpine:3.20" in f.message]
    assert (finding.severity, f"has no {told[1]}" in finding.message) == (told[0], True)


@pytest.mark.parametrize(("bound", "severity"), [(None, "warning"), ("10m", "note")])
def test_a_budget_in_the_way_of_a_drain_that_the_pool_bounds(objects, bound, severity):
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "vllm"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec}
    budget["metadata"] = {"name": "b", "namespace": "inference"}
    for pool in (obj for obj in objects if obj["kind"] == "NodePool"):
        pool["spec"]["template"]["spec"]["terminationGracePeriod"] = bound
    (finding,) = _found([*objects, budget], "pdb-blocks-drain")
    assert (finding.severity, "waits for ever" in finding.message) == (severity, bound is None)


_ZETA = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "z", "namespace": "inference"}}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["annotate", "scaledobject/z", "-n", "inference", "--overwrite", "autoscaling.keda.sh/paused-replicas=0"], 0),
        (["delete", "scaledobject", "z", "-n", "inference"], 0),
        (["annotate", "scaledobject/other", "-n", "inference", "autoscaling.keda.sh/paused-replicas=0"], 1),
        (["get", "scaledobject", "z", "-n", "inference"], 1),
    ],
)
def test_a_floor_is_none_for_a_switch_that_stops_the_scaler_too(objects, words, found):
    trigger = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}
    spec = {"scaleTargetRef": {"name": "vllm"}, "minReplicaCount": 1, "triggers": [trigger]}
    assert len(_found([*_runs(objects, *words), {**_ZETA, "spec": spec}], "keda-floor")) == found


_KSM = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "kube-state-metrics", "namespace": "monitoring"},
    "spec": {
        "selector": {"matchLabels": {"app": "ksm"}},
        "template": {
            "metadata": {"labels": {"app": "ksm"}},
            "spec": {
                "containers": [
                    {"name": "ksm", "image": "registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.17.0"}
                ]
            },
        },
    },
}


@pytest.mark.parametrize(
    ("expr", "says"),
    [
        ("DCGM_FI_DEV_GPU_UTIL < 5", ""),
        ("DCGM_FI_DEV_GPU_USAGE < 5", "dcgm-exporter makes no DCGM_FI_DEV_GPU_USAGE"),
        (
            'histogram_quantile(0.9, rate(kueue_admission_wait_time_seconds_bucket{cluster_queue="gpu"}[1h])) > 3600',
            "what waits still",
        ),
        (
            'count(kube_node_info{node=~"gpu-spot.*"}) / count(kube_node_info) < 0.4',
            "says nothing where no node is spot",
        ),
        ('(count(kube_node_info{node=~"gpu-spot.*"}) or vector(0)) / count(kube_node_info) < 0.4', ""),
        ("max(kueue_admission_wait_time_seconds) > 60 and on() DCGM_FI_DEV_GPU_UTIL < 5", "is a histogram of kueue"),
        ("(DCGM_FI_DEV_GPU_UTIL < 5) * on(node) group_left() kube_node_labels", "without --metric-labels-allowlist"),
        ('DCGM_FI_DEV_GPU_UTIL{namespace="inference"} < 5', "calls namespace exported_namespace: ServiceMonitor dcgm"),
        ('DCGM_FI_DEV_GPU_UTIL{exported_namespace="inference"} < 5', ""),
        ('DCGM_FI_DEV_GPU_UTIL{namespace!="kube-system",pod=~".+"} < 5', ""),
    ],
)
def test_an_alert_on_what_nobody_exports_can_never_fire(objects, expr, says):
    group = {"name": "gpus", "rules": [{"alert": "Idle", "expr": expr}]}
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "gpus", "namespace": "inference"},
        "spec": {"groups": [group]},
    }
    scrape = {"spec": {"selector": {}, "endpoints": [{"port": "metrics"}]}}
    monitor = {"kind": "ServiceMonitor", "metadata": {"name": "dcgm", "namespace": "monitoring"}, **scrape}
    told = [finding.message for finding in _found([*objects, rule, _KSM, monitor], "no-alarm")]
    assert [says in message for message in told] == ([True] if says else [])


def test_an_alert_that_nobody_sends_is_heard_of_by_nobody(objects):
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "gpus", "namespace": "inference"},
        "spec": {"groups": [{"name": "gpus", "rules": [{"alert": "Idle", "expr": "DCGM_FI_DEV_GPU_UTIL < 5"}]}]},
    }
    server = {"kind": "Prometheus", "metadata": {"name": "k8s", "namespace": "inference"}, "spec": {"ruleSelector": {}}}
    (told,) = _found([*objects, rule, server], "no-alarm")
    assert "nobody hears of Idle: Prometheus/inference/k8s sends its alerts to no Alertmanager" in told.message


@pytest.mark.parametrize(
    ("schedule", "zone", "message"),
    [
        ("0 7 * * *", "America/New_York", ""),
        ("0 20 * * *", "Europe/Berlin", "the next stop comes 24 h later, on 2026-10-25 for one"),
        ("0 8 * * *", "Asia/Tokyo", ""),
        ("0 5 * * *", "Asia/Tokyo", "the next stop comes 22 h later"),
        ("0 23 * * 0", "Etc/UTC", "the next stop comes 20 h later"),
        ("0 23 1 * *", "Etc/UTC", "the next stop comes 20 h later"),
        (
            "0 4 * * *",
            None,
            "the next stop comes 22 h later (it has no timeZone, so its hours are UTC's, and the stop's are "
            "America/Los_Angeles's)",
        ),
    ],
)
def test_start_is_looked_at_on_each_day_of_the_year(objects, schedule, zone, message):
    """Clocks that change on different days drift apart; what comes once a month comes in some night as well."""
    stop = _cron_job(objects)
    stop["spec"] |= {"schedule": "30 18 * * *", "timeZone": "Etc/UTC" if zone else "America/Los_Angeles"}
    start = copy.deepcopy(stop)
    start["metadata"]["name"] = "dawn"
    start["spec"] |= {"schedule": schedule, "timeZone": zone}
    _container([start])["args"][0] = "kubectl -n inference scale deployment vllm --replicas=1"
    found = [f.message for f in _found([*objects, start], "second-starter")]
    assert [message] == [f.partition(": ")[2] for f in found] if message else not found


@pytest.mark.parametrize(
    ("stop", "start", "hours"),
    [("0 20 * * 5", "0 6 * * 1", 0), ("0 20 * * 5", "0 6 * * 1-5", 110), ("0 20 * * 1-5", "0 7 * * *", 61)],
)
def test_week_that_begins_after_days_off_is_no_second_start(objects, stop, start, hours):
    """Where one start comes between two stops; where more do, the nights between them are on."""
    switch = _cron_job(objects)
    switch["spec"] |= {"schedule": stop, "timeZone": "Etc/UTC"}
    dawn = copy.deepcopy(switch)
    dawn["metadata"]["name"] = "dawn"
    dawn["spec"]["schedule"] = start
    _container([dawn])["args"][0] = "kubectl -n inference scale deployment vllm --replicas=1"
    found = [finding.message for finding in _found([*objects, dawn], "second-starter")]
    assert [f"the next stop comes {hours} h later" in message for message in found] == ([True] if hours else [])


@pytest.mark.parametrize(("steps", "told"), [((1, 0), False), ((1,), True), ((0, 1), True), ((3, 0), True)])
def test_step_on_the_way_to_zero_is_no_start(objects, steps, told):
    _cron_job(objects)["spec"]["schedule"] = "30 18 * * *"
    (target,) = [obj for obj in objects if obj["kind"] == "Deployment" and obj["metadata"]["name"] == "vllm"]
    target["spec"]["replicas"] = 3
    lines = [f"kubectl -n inference scale deployment vllm --replicas={number}" for number in steps]
    _container(objects)["args"][0] = "; sleep 60; ".join(lines)
    assert bool(_found(objects, "second-starter")) is told


def _with_quota(objects, hard, **spec):
    cron = _cron_job(objects)
    cron["spec"] |= {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1} | spec
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "objects"}, "spec": {"hard": hard}}
    quota["metadata"]["namespace"] = cron["metadata"]["namespace"]
    return [*objects, quota]


@pytest.mark.parametrize(
    ("hard", "spec", "severity"),
    [
        ({"count/jobs.batch": "3"}, {}, "error"),  # after three good nights it is full for good
        ({"count/pods": "3"}, {}, "error"),
        ({"count/jobs.batch": "4"}, {}, "warning"),  # once one has failed
        ({"count/jobs.batch": "5"}, {}, None),
        ({"count/jobs.batch": "3"}, {"successfulJobsHistoryLimit": 0}, None),
        ({"pods": "1"}, {}, None),  # counts no pod that has ended
    ],
)
def test_a_quota_that_the_kept_jobs_fill(objects, hard, spec, severity):
    found = _found(_with_quota(objects, hard, **spec), "quota-history")
    assert [one.severity for one in found] == ([severity] if severity else [])


def test_jobs_that_go_by_themselves_fill_no_quota(objects):
    _cron_job(objects)["spec"]["jobTemplate"]["spec"]["ttlSecondsAfterFinished"] = 600
    assert _found(_with_quota(objects, {"count/jobs.batch": "1"}), "quota-history") == []


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["sh", "-c", "aws s3 sync --only-show-errors s3://w/large /m && serve"], True),
        (["sh", "-c", "huggingface-cli download --quiet acme/large; serve"], True),
        (["sh", "-c", "serve; aws s3 cp /out s3://results/"], False),
    ],
)
def test_a_model_that_each_start_fetches_anew(objects, command, found):
    target = next(obj for obj in objects if obj["kind"] == "Deployment")
    spec = target["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "m", "emptyDir": {}}]
    spec["containers"][0]["command"] = command
    assert bool(_found(objects, "downloads-anew")) is found


@pytest.mark.parametrize(("family", "told"), [("NC", True), ("N", False)])
def test_a_family_of_azures_is_one_letter(objects, family, told):
    inner = next(obj for obj in objects if obj["kind"] == "NodePool")["spec"]["template"]["spec"]
    inner["nodeClassRef"] = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "gpu"}
    inner["requirements"] = [{"key": "karpenter.azure.com/sku-family", "operator": "In", "values": [family]}]
    found = [finding.message for finding in _found(objects, "open-fence")]
    assert any("is the first letter" in message for message in found) is told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ('patch clusterqueue gpu-cluster-queue --type=merge -p \'{"spec":{"stopPolicy":"HoldAndDrain"}}\'', None),
        ('patch lq ml-research-queue --type=merge -p \'{"spec":{"stopPolicy":"HoldAndDrain"}}\'', None),
        ('patch cq other --type=merge -p \'{"spec":{"stopPolicy":"HoldAndDrain"}}\'', "stops other, and Job"),
        ('patch cq gpu-cluster-queue --type=merge -p \'{"spec":{"nominalQuota":0}}\'', "lowers a quota"),
        ('patch job training-run-82 -p \'{"spec":{"suspend":true}}\'', "starts it again"),
        ("delete job training-run-82", None),
        ("delete workloads --all", "makes each anew"),
        ('patch cq gpu-cluster-queue -p \'{"spec":{"nominalQuota":0}}\' && kubectl delete jobs --all', None),
        ('patch cq gpu-cluster-queue -p \'{"spec":{"stopPolicy":"Hold"}}\' && kubectl delete workloads --all', None),
        ('patch wl training -p \'{"spec":{"active":false}}\' --type=merge', None),
    ],
)
def test_what_leaves_on_what_kueue_has_admitted(words, told):
    objects = [
        obj
        for file in sorted(fixtures.path("kueue-quota").glob("*.yaml"))
        for obj in yaml.safe_load_all(file.read_text())
        if obj["kind"] != "KillPath"
    ]
    _container(objects)["args"] = [f"kubectl {words}"]
    found = [finding.message for finding in _found(objects, "queue-not-drained")]
    assert len(found) == (told is not None)
    assert all(told in message for message in found)


@pytest.mark.parametrize(
    ("timeouts", "env", "delay_s", "told"),
    [
        ({"conditionWait": "20s"}, [], 30, "gives up after 20 s (timeouts.conditionWait)"),
        ({"conditionWait": "0s"}, [{"name": "KEDA_CONDITION_WAIT_TIMEOUT", "value": "20s"}], 30, None),
        (
            {},
            [{"name": "KEDA_HTTP_READINESS_TIMEOUT", "value": "25s"}],
            30,
            "KEDA_HTTP_READINESS_TIMEOUT of Deployment",
        ),
        ({}, [{"name": "KEDA_HTTP_READINESS_TIMEOUT", "value": "25s"}], 20, None),
        ({}, [], 300, None),
    ],
)
def test_an_interceptor_that_gives_up_before_the_model_is_there(timeouts, env, delay_s, told):
    folder = fixtures.path("scale-to-zero")
    objects = [
        obj for name in ("render.yaml", "scalers.yaml") for obj in yaml.safe_load_all((folder / name).read_text())
    ]
    for obj in objects:
        if obj["kind"] == "HTTPScaledObject":
            obj["spec"]["timeouts"] = timeouts
        elif obj["metadata"]["name"] == "render-ui" and obj["kind"] == "Deployment":
            obj["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["initialDelaySeconds"] = delay_s
    container = {"name": "interceptor", "image": "ghcr.io/kedacore/http-add-on-interceptor:0.12.2", "env": env}
    interceptor = copy.deepcopy(next(obj for obj in objects if obj["kind"] == "Deployment"))
    interceptor["metadata"] = {"name": "keda-add-ons-http-interceptor", "namespace": "keda"}
    interceptor["spec"]["template"]["spec"] = {"containers": [container]}
    found = [f.message for f in _found([*objects, interceptor], "unanswered") if f.severity == "error"]
    assert len(found) == (told is not None), found
    assert all(told in message for message in found)


@pytest.mark.parametrize(
    ("entry", "respects", "severity"),
    [
        ({}, True, "error"),
        ({"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/replicas"]}, True, None),
        ({"group": "*", "kind": "*", "jqPathExpressions": [".spec.replicas"]}, True, None),
        ({"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/replicas"]}, False, "warning"),
        ({"group": "apps", "kind": "StatefulSet", "jsonPointers": ["/spec/replicas"]}, True, "error"),
        ({"group": "apps", "kind": "Deployment", "name": "vllm-2", "jsonPointers": ["/spec/replicas"]}, True, "error"),
        ({"group": "apps", "kind": "Deployment", "managedFieldsManagers": ["kubectl"]}, True, None),
    ],
)
def test_self_heal_is_said_of_what_nobody_told_argo_to_ignore(objects, entry, respects, severity):
    spec = {
        "destination": {"namespace": "inference"},
        "ignoreDifferences": [entry],
        "syncPolicy": {
            "automated": {"selfHeal": True},
            "syncOptions": ["RespectIgnoreDifferences=true"] if respects else [],
        },
    }
    app = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "all", "namespace": "argocd"},
    }
    found = [one.severity for one in _found([*objects, {**app, "spec": spec}], "argo-self-heal")]
    assert found == ([severity] if severity else [])


def _sleeper(**spec):
    asleep = {"weekdays": "*", "sleepAt": "20:00", "wakeUpAt": "08:00", **spec}
    meta = {"name": "hours", "namespace": "inference"}
    return {"apiVersion": "kube-green.com/v1alpha1", "kind": "SleepInfo", "metadata": meta, "spec": asleep}


def _flux(**spec):
    meta = {"name": "fleet", "namespace": "flux-system"}
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": meta,
        "spec": {"interval": "5m", **spec},
    }


def test_what_a_sleeper_leaves_out_is_covered_by_nobody(objects):
    objects = [obj for obj in objects if obj["kind"] != "CronJob"]
    left_out = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"}
    assert not _found([*objects, _sleeper()], "coverage-gap")
    (found,) = _found([*objects, _sleeper(excludeRef=[left_out])], "coverage-gap")
    assert "SleepInfo/inference/hours leaves it out" in found.message


@pytest.mark.parametrize(
    ("source", "how"),
    [
        (_sleeper(), "wakes it at 08:00"),
        (_sleeper(wakeUpAt=""), ""),
        (_flux(targetNamespace="inference"), "every 5m"),
        (_flux(path="./apps/inference"), "every 5m"),
        (_flux(path="./apps/infer"), ""),
        (_flux(path="./apps/inference", suspend=True), ""),
    ],
)
def test_who_starts_a_target_again_is_named(objects, source, how):
    (target,) = [obj for obj in objects if obj["kind"] == "Deployment" and obj["metadata"]["name"] == "vllm"]
    targets = [Target("vllm", kind="Deployment", namespace="inference", object="vllm")]
    file = "apps/inference/vllm.yaml"
    said = list(starters.named([*objects, source], targets, {"vllm": target}, lambda _: file))
    assert [how in one for one in said] == ([True] if how else [])


def test_start_that_a_program_stops_by_a_clock_of_its_own_is_no_second_one(objects):
    """When a workload without a schedule acts is seen in drills, and not read."""
    start = copy.deepcopy(_cron_job(objects))
    start["metadata"]["name"] = "dawn"
    start["spec"] |= {"schedule": "0 1 * * *", "timeZone": "Etc/UTC"}
    _container([start])["args"][0] = "kubectl -n inference scale deployment vllm --replicas=1"
    pod = copy.deepcopy(_cron_job(objects)["spec"]["jobTemplate"]["spec"]["template"])
    pod["metadata"] = {"labels": {"app": "off"}}
    pod["spec"]["restartPolicy"] = "Always"
    pod["spec"]["containers"][0]["args"][0] = (
        'while sleep 600; do [ "$(date +%H)" != 03 ] || kubectl -n inference scale deployment vllm --replicas=0; done'
    )
    loop = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "off", "namespace": "inference"},
        "spec": {"selector": {"matchLabels": {"app": "off"}}, "template": pod},
    }
    others = [obj for obj in objects if obj["kind"] != "CronJob"]
    assert _found([*others, start], "second-starter")
    assert not _found([*others, start, loop], "second-starter")
