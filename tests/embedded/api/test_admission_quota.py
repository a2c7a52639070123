"""ResourceQuota and LimitRange, in the words of recordings 12, 12b and 13."""

import pytest
from access_world import executor, world

from killcheck.embedded.api.admission.resourcequota import usage
from killcheck.embedded.api.quota_status import QuotaStatus
from killcheck.embedded.api.status import StatusError


def quota(w, hard, **spec):
    return w.put(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": hard, **spec}}
    )


def limits(w, *entries):
    w.put({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": list(entries)}})


def running(w, name, resources=None, phase="Running", **spec):
    return w.put(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "status": {"phase": phase},
            "spec": {"containers": [{"name": "c", "resources": resources or {}}], **spec},
        }
    )


def asking(requests=None, limits=None, name="executor"):
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}}


def refusal(w, *, dry_run=False, **spec):
    with pytest.raises(StatusError) as refused:
        w.admit("CREATE", executor(**spec), dry_run=dry_run)
    assert refused.value.code == 403
    return str(refused.value)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_quota_of_pods_that_is_used_up(dry_run):
    w = world()
    quota(w, {"pods": "1"})
    running(w, "vllm")
    assert refusal(w, dry_run=dry_run) == (
        'pods "gpu-off-drill-gf697" is forbidden: exceeded quota: team, requested: pods=1, used: pods=1, limited: '
        "pods=1"
    )


def test_a_quota_of_cpu_refuses_pods_that_do_not_ask_for_any():
    w = world()
    quota(w, {"requests.cpu": "4", "limits.memory": "8Gi"})
    assert refusal(w) == (
        'pods "gpu-off-drill-gf697" is forbidden: failed quota: team: must specify limits.memory for: executor; '
        "requests.cpu for: executor"
    )


def test_all_containers_that_do_not_say_are_listed():
    w = world()
    quota(w, {"cpu": "4"})
    text = refusal(w, containers=[{"name": "b"}, {"name": "a"}], initContainers=[{"name": "init"}])
    assert text.endswith("must specify cpu for: a,b,init")


def test_gpus_are_limited_by_their_requests():
    w = world()
    quota(w, {"requests.nvidia.com/gpu": "8"})
    running(w, "vllm", {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}})
    gpu = {"nvidia.com/gpu": "1"}
    assert refusal(w, containers=[asking(gpu, gpu)]).endswith(
        "exceeded quota: team, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=8, limited: "
        "requests.nvidia.com/gpu=8"
    )
    w.admit("CREATE", executor())


def test_everything_that_is_exceeded_is_listed_in_canonical_quantities():
    w = world()
    quota(w, {"requests.cpu": "2", "requests.memory": "1024Mi", "pods": "10"})
    running(w, "vllm", {"requests": {"cpu": "1500m", "memory": "512Mi"}})
    running(w, "sglang", {"requests": {"cpu": "0.25", "memory": "0.5Gi"}})
    assert refusal(w, containers=[asking({"cpu": "500m", "memory": "2048Ki"})]).endswith(
        "exceeded quota: team, requested: requests.cpu=500m,requests.memory=2Mi, used: "
        "requests.cpu=1750m,requests.memory=1Gi, limited: requests.cpu=2,requests.memory=1Gi"
    )


def test_what_fits_exactly_is_admitted():
    w = world()
    quota(w, {"requests.cpu": "2"})
    running(w, "vllm", {"requests": {"cpu": "1500m"}})
    admitted, _ = w.admit("CREATE", executor(containers=[asking({"cpu": "500m"})]))
    assert admitted["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m"}
    assert "requested: requests.cpu=501m, used: requests.cpu=1500m, limited: requests.cpu=2" in refusal(
        w, containers=[asking({"cpu": "501m"})]
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_are_not_charged(phase):
    w = world()
    quota(w, {"pods": "1"})
    running(w, "done", phase=phase)
    w.admit("CREATE", executor())
    quota(w, {"count/pods": "1"})
    assert "used: count/pods=1" in refusal(w)


def test_a_terminating_pod_is_charged_until_its_grace_has_run_out():
    w = world()
    quota(w, {"pods": "1"})
    pod = running(w, "vllm")
    w.put(
        pod
        | {
            "metadata": pod["metadata"]
            | {"deletionTimestamp": "2026-11-21T02:01:34Z", "deletionGracePeriodSeconds": 30}
        }
    )
    w.loop.sleep(60)
    assert "used: pods=1" in refusal(w)
    w.loop.sleep(1)
    w.admit("CREATE", executor())


def test_another_namespace_is_another_matter():
    w = world()
    w.put(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q", "namespace": "default"},
            "spec": {"hard": {"pods": "0"}},
        }
    )
    theirs = executor(serviceAccountName="default")
    theirs["metadata"]["namespace"] = "default"
    with pytest.raises(StatusError, match="exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"):
        w.admit("CREATE", theirs)
    admitted, warnings = w.admit("CREATE", executor())
    assert (admitted["metadata"]["namespace"], warnings) == ("team", [])


@pytest.mark.parametrize(
    ("spec", "pod", "refused"),
    [
        ({"scopes": ["Terminating"]}, {}, False),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 60}, True),
        ({"scopes": ["NotTerminating"]}, {}, True),
        ({"scopes": ["BestEffort"]}, {}, True),
        ({"scopes": ["NotBestEffort"]}, {}, False),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
                    ]
                }
            },
            {},
            False,
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
                    ]
                }
            },
            {"priorityClassName": "system-node-critical"},
            True,
        ),
    ],
)
def test_scopes(spec, pod, refused):
    w = world()
    quota(w, {"pods": "0"}, **spec)
    if refused:
        assert "exceeded quota" in refusal(w, **pod)
    else:
        w.admit("CREATE", executor(**pod))


def test_sidecars_add_up_and_init_containers_count_where_they_need_more():
    w = world()
    quota(w, {"requests.cpu": "1"})
    sidecar = asking({"cpu": "100m"}, name="proxy") | {"restartPolicy": "Always"}
    init = asking({"cpu": "900m"}, name="init")
    w.admit("CREATE", executor(initContainers=[sidecar, init], containers=[asking({"cpu": "500m"})]))
    heavier = asking({"cpu": "901m"}, name="init")
    assert "requested: requests.cpu=1001m" in refusal(
        w, initContainers=[sidecar, heavier], containers=[asking({"cpu": "500m"})]
    )


@pytest.mark.parametrize(
    ("hard", "obj"),
    [
        ({"count/jobs.batch": "0"}, {"apiVersion": "batch/v1", "kind": "Job"}),
        ({"configmaps": "0"}, {"apiVersion": "v1", "kind": "ConfigMap"}),
        ({"services.loadbalancers": "0"}, {"apiVersion": "v1", "kind": "Service", "spec": {"type": "LoadBalancer"}}),
        (
            {"requests.storage": "1Gi"},
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "spec": {"resources": {"requests": {"storage": "2Gi"}}},
            },
        ),
    ],
)
def test_other_things_can_be_limited_too(hard, obj):
    w = world()
    quota(w, hard)
    with pytest.raises(StatusError, match="exceeded quota: team, requested: "):
        w.admit("CREATE", obj | {"metadata": {"name": "x", "namespace": "team"}})


def test_usage_is_what_the_status_shows():
    w = world()
    found = quota(w, {"pods": "5", "requests.cpu": "4", "limits.memory": "8Gi", "requests.nvidia.com/gpu": "8"})
    assert usage(w.store, found, w.loop.now()) == {
        "limits.memory": "0",
        "pods": "0",
        "requests.cpu": "0",
        "requests.nvidia.com/gpu": "0",
    }
    running(w, "vllm", {"requests": {"nvidia.com/gpu": "8", "cpu": "1"}, "limits": {"memory": "16Gi"}})
    assert usage(w.store, found, w.loop.now()) == {
        "limits.memory": "16Gi",
        "pods": "1",
        "requests.cpu": "1",
        "requests.nvidia.com/gpu": "8",
    }


def test_a_limit_range_refuses_what_is_out_of_bounds():
    w = world()
    limits(w, {"type": "Container", "max": {"cpu": "100m"}, "min": {"memory": "64Mi"}})
    both = {"cpu": "200m", "memory": "16Mi"}
    assert refusal(w, containers=[asking(both, both)]) == (
        'pods "gpu-off-drill-gf697" is forbidden: [minimum memory usage per Container is 64Mi, but request is 16Mi, '
        "maximum cpu usage per Container is 100m, but limit is 200m]"
    )


@pytest.mark.parametrize(
    ("limit", "container", "message"),
    [
        (
            {"max": {"cpu": "1"}},
            asking({"cpu": "2"}, {"cpu": "1"}),
            ("maximum cpu usage per Container is 1, but request is 2"),
        ),
        (
            {"min": {"cpu": "1"}},
            asking({"cpu": "1"}, {"cpu": "500m"}),
            ("minimum cpu usage per Container is 1, but limit is 500m"),
        ),
        (
            {"maxLimitRequestRatio": {"memory": "2"}},
            asking({"memory": "1Gi"}, {"memory": "3Gi"}),
            ("memory max limit to request ratio per Container is 2, but provided ratio is 3.000000"),
        ),
        (
            {"maxLimitRequestRatio": {"memory": "2"}},
            asking(),
            ("memory max limit to request ratio per Container is 2, but no request is specified or request is 0"),
        ),
    ],
)
def test_the_bounds_one_by_one(limit, container, message):
    w = world()
    limits(w, {"type": "Container", **limit})
    assert refusal(w, containers=[container]) == f'pods "gpu-off-drill-gf697" is forbidden: {message}'


def test_the_bounds_of_whole_pods():
    w = world()
    limits(w, {"type": "Pod", "max": {"cpu": "1"}})
    assert refusal(w).endswith("maximum cpu usage per Pod is 1.  No limit is specified")
    half = {"cpu": "600m"}
    assert refusal(w, containers=[asking(half, half), asking(half, half, "b")]).endswith(
        "maximum cpu usage per Pod is 1, but limit is 1200m"
    )


def test_a_limit_range_fills_in_what_is_left_open():
    w = world()
    limits(
        w,
        {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "min": {"memory": "64Mi"}},
    )
    pod = w.admit("CREATE", executor())[0]
    assert pod["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "100m", "memory": "64Mi"},
        "limits": {"cpu": "500m"},
    }
    assert pod["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": (
            "LimitRanger plugin set: cpu, memory request for container executor; cpu limit for container executor"
        )
    }


def test_its_defaults_satisfy_a_quota():
    w = world()
    quota(w, {"requests.cpu": "1"})
    limits(w, {"type": "Container", "max": {"cpu": "1"}})
    assert w.admit("CREATE", executor())[0]["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1"},
        "limits": {"cpu": "1"},
    }


def status_of(w):
    return w.store.get(("", "resourcequotas"), ("team", "team"))["status"]


def test_the_status_follows_what_is_used():
    w = world()
    QuotaStatus(w.store, w.loop)
    quota(w, {"pods": "1", "requests.cpu": "4000m"})
    w.loop.sleep(0)
    assert status_of(w) == {"hard": {"pods": "1", "requests.cpu": "4"}, "used": {"pods": "0", "requests.cpu": "0"}}
    running(w, "vllm", {"requests": {"cpu": "500m"}})
    w.loop.sleep(0)
    assert status_of(w)["used"] == {"pods": "1", "requests.cpu": "500m"}
    w.remove("pods", "vllm")
    w.loop.sleep(0)
    assert status_of(w)["used"] == {"pods": "0", "requests.cpu": "0"}


def test_nothing_is_written_where_nothing_changes():
    w = world()
    QuotaStatus(w.store, w.loop)
    quota(w, {"pods": "5"})
    running(w, "vllm")
    w.loop.sleep(0)
    before = w.store.revision
    running(w, "vllm")
    w.loop.sleep(0)
    assert w.store.revision == before + 1
