"""The five seeds' setups as manifests: loaded, watched at work, and off by their own layers, with nobody drilling them.

Seed 3 is a machine outside Kubernetes (``single-controller``): tests/zoo and the drills have it. Seed 4's queue is in
test_kueue.
"""

from datetime import UTC, datetime

import pytest
from cluster_world import cluster, events, gpu_nodes, named, pods, running, until

from killcheck import fixtures
from killcheck.kube import manifests
from killcheck.kube import resources as r
from killcheck.kube.objects import condition, dig, name_of

EVENING = datetime(2026, 1, 14, 22, 0, 0, tzinfo=UTC)
HOUR = 3600.0


def of(path, **settings):
    return cluster(*manifests.load(fixtures.path(path)).objects, exec_mode="host", start=EVENING, **settings)


def replicas(made, name, namespace):
    return dig(made.kube.get(r.DEPLOYMENTS, name, namespace), "spec", "replicas")


# -- seed 0: the dead-man's switch -------------------------------------------------------------------------
def test_the_nightly_switch_turns_the_model_server_off_at_three_and_the_nodes_go():
    with of("dead-man") as made:
        until(made, running(made, 1, app="vllm"))
        (node,) = gpu_nodes(made)
        assert int(node["status"]["allocatable"]["nvidia.com/gpu"]) == 8
        made.loop.sleep(4 * HOUR)
        assert len(made.cloud.billed()) == 1, "it serves until somebody turns it off"
        until(made, lambda: not pods(made, app="vllm"), 2 * HOUR)
        assert f"{made.loop.now():%H:%M}" == "03:00"
        until(made, lambda: not made.cloud.billed(), 1800)
        made.loop.sleep(5 * HOUR)
        assert (replicas(made, "vllm", "inference"), made.cloud.billed(), gpu_nodes(made)) == (0, [], [])
        assert dig(made.kube.get(r.CRONJOBS, "gpu-nightly-off", "inference"), "status", "lastSuccessfulTime")


@pytest.mark.parametrize(
    ("path", "why"),
    [("dead-man-image-gone", "ImagePullBackOff"), ("dead-man-no-curl", "Error"), ("dead-man-false-green", "Complete")],
)
def test_its_sabotaged_sisters_leave_the_gpus_on_till_morning(path, why):
    with of(path) as made:
        made.registry.delete_tag("docker.io/bitnami/kubectl:1.31.4")
        until(made, running(made, 1, app="vllm"))
        made.loop.sleep(11 * HOUR)
        assert len(made.cloud.billed()) == 1
        assert replicas(made, "vllm", "inference") == 1
        jobs = made.kube.list(r.JOBS, "inference").items
        if why == "Complete":
            assert {c["type"] for job in jobs for c in job["status"]["conditions"]} >= {"Complete"}
        else:
            said = str([event["message"] for event in made.kube.list(r.EVENTS, "inference").items]) + str(jobs)
            assert {"ImagePullBackOff": "bitnami/kubectl", "Error": "BackoffLimitExceeded"}[why] in said


def test_the_second_switch_covers_for_the_first():
    with of("two-switches") as made:
        until(made, running(made, 1, app="vllm"))
        made.kube.patch(r.CRONJOBS, "gpu-nightly-off", {"spec": {"suspend": True}}, "inference")
        until(made, lambda: not pods(made, app="vllm"), 6 * HOUR)
        assert f"{made.loop.now():%H:%M}" == "03:04"


# -- seed 1: workers that end themselves, and a monitor for the day that they do not ----------------------
def test_workers_without_items_end_themselves_and_their_machines_follow():
    with of("self-terminating") as made:
        until(made, running(made, 2, app="embed-worker"))
        assert {made.cloud.of(p["spec"]["nodeName"]).capacity_type for p in pods(made, app="embed-worker")}
        begun = made.loop.monotonic()
        until(made, lambda: condition(named(made, r.JOBS, "embed-worker", "batch"), "Complete"), HOUR)
        assert 600 <= made.loop.monotonic() - begun <= 720
        until(made, lambda: not made.cloud.billed(), 1800)


def test_the_monitor_deletes_the_job_of_workers_that_do_not_end():
    objects = manifests.load(fixtures.path("self-terminating")).objects
    for obj in objects:
        if obj["kind"] == "Job":
            obj["spec"]["template"]["metadata"]["annotations"] = {}  # hollow: it works for ever
    with cluster(*objects, exec_mode="host", start=EVENING) as made:
        until(made, running(made, 2, app="embed-worker"))
        begun = made.loop.monotonic()
        until(made, lambda: named(made, r.JOBS, "embed-worker", "batch") is None, HOUR)
        assert 900 <= made.loop.monotonic() - begun + 60 <= 1260, "fifteen idle minutes, a look every five"
        until(made, lambda: not pods(made, app="embed-worker"), 120)
        until(made, lambda: not made.cloud.billed(), 1800)


# -- seed 2: scale from zero, cards by claim ---------------------------------------------------------------
def test_idle_render_engines_give_their_cards_back_and_are_woken_with_the_right_ones():
    with of("scale-to-zero") as made:
        until(made, running(made, 1, app="render-ui"))
        until(made, running(made, 1, app="video"))
        assert cards(made) == {"render-ui": 1, "video": 4}
        idle(made, "video")
        until(made, lambda: not pods(made, app="video"), 0.5 * HOUR)
        assert cards(made) == {"render-ui": 1}
        until(made, lambda: not made.kube.list(r.RESOURCECLAIMS, "render", labels=None).items[1:], 60)
        idle(made, "render-ui", r.HTTPSCALEDOBJECTS)
        assert 1800 <= until(made, lambda: not pods(made, app="render-ui"), HOUR) + 120 <= 2200
        assert cards(made) == {}
        made.kube.patch(
            r.SCALEDOBJECTS, "video", {"metadata": {"annotations": {"killcheck.dev/trigger-value": "1"}}}, "render"
        )
        until(made, running(made, 1, app="video"), 120)
        assert set(devices(made, "video")) == {"gpu-1", "gpu-2", "gpu-3", "gpu-4"}, "the coherent set on wide links"


def idle(made, name, resource=r.SCALEDOBJECTS):
    made.kube.patch(resource, name, {"metadata": {"annotations": {"killcheck.dev/trigger-value": "0"}}}, "render")


def devices(made, app):
    """The devices that the claims of a workload's pods were given."""
    found = []
    for claim in made.kube.list(r.RESOURCECLAIMS, "render").items:
        if claim["metadata"]["ownerReferences"][0]["name"].startswith(f"{app}-"):
            found += [one["device"] for one in dig(claim, "status", "allocation", "devices", "results", default=[])]
    return found


def cards(made):
    """How many devices each workload holds; nobody shares one."""
    held = {app: devices(made, app) for app in ("render-ui", "video")}
    every = [device for app in held.values() for device in app]
    assert len(every) == len(set(every))
    return {app: len(found) for app, found in held.items() if found}


def test_a_selector_that_fits_no_set_leaves_the_pod_pending_and_says_so():
    objects = manifests.load(fixtures.path("scale-to-zero")).objects
    for obj in objects:
        if name_of(obj) == "tp4-coherent-x16":
            exactly = obj["spec"]["spec"]["devices"]["requests"][0]["exactly"]
            exactly["selectors"] = [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].pcieLinkWidth == 32"}}]
    with cluster(*objects, exec_mode="none", start=EVENING) as made:
        until(made, running(made, 1, app="render-ui"))
        made.loop.sleep(60)
        (pod,) = pods(made, app="video")
        assert condition(pod, "PodScheduled")["reason"] == "Unschedulable"
        assert any("cannot allocate all claims" in text for text in events(made, "FailedScheduling"))
