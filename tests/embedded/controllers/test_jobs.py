"""Jobs: orders, texts and times against the recordings of a v1.36 cluster."""

from __future__ import annotations

from typing import Any

from controller_world import World, template

from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, annotations_of, condition, dig, labels_of, name_of

DRILL = "gpu-off-drill"


def story(_change: str, job: Obj) -> Any:
    """What the recorder's timeline says of a Job's status."""
    status = job.get("status") or {}
    counts = {key: status[key] for key in ("active", "ready", "terminating", "succeeded", "failed") if key in status}
    uncounted = {key: len(uids) for key, uids in (status.get("uncountedTerminatedPods") or {}).items()}
    conditions = [(c["type"], c["reason"]) for c in status.get("conditions") or []]
    return counts, uncounted, conditions


def created(world: World) -> list[float]:
    """When each pod was created."""
    seen = world.watch(r.PODS, lambda change, pod: name_of(pod) if change == "added" else None)
    return seen  # type: ignore[return-value]


def test_a_job_ends_in_the_recorded_order(world: World) -> None:
    """01: SuccessCriteriaMet and the uncounted pod first, then the finalizer, then Complete; a second's lag each."""
    world.kubelet.outcomes[DRILL] = (0.9, 0)
    seen = world.watch(r.JOBS, story)
    finalizers = world.watch(r.PODS, lambda _, pod: tuple(pod["metadata"].get("finalizers") or ()))
    world.job()
    world.run(10)

    done = ("SuccessCriteriaMet", "CompletionsReached")
    assert seen[1:] == [
        (0.0, ({"active": 1, "ready": 0, "terminating": 0}, {}, [])),
        (1.0, ({"active": 1, "ready": 1, "terminating": 0}, {}, [])),
        (2.0, ({"active": 1, "ready": 0, "terminating": 0}, {}, [])),
        (3.0, ({"ready": 0, "terminating": 0}, {"succeeded": 1}, [done])),
        (3.01, ({"ready": 0, "terminating": 0, "succeeded": 1}, {}, [done, ("Complete", "CompletionsReached")])),
    ]
    assert finalizers == [(0.0, ("batch.kubernetes.io/job-tracking",)), (3.01, ())]
    assert world.said(about=DRILL) == [
        f"Normal SuccessfulCreate: Created pod: {name_of(world.pods()[0])}",
        "Normal Completed: Job completed",
    ]
    job = world.get(r.JOBS, DRILL)
    assert job["status"]["completionTime"] == "2026-11-21T01:45:01Z"
    assert dig(condition(job, "Complete"), "message") == "Reached expected number of succeeded pods"


def test_failed_pods_are_replaced_after_10_20_40_80_seconds(world: World) -> None:
    """28: that long after the whole second in which the last one ended (here one second after its creation)."""
    world.kubelet.outcomes[DRILL] = (0.5, 1)
    seen = created(world)
    world.job(backoffLimit=4)
    world.run(200)

    assert [t for t, _ in seen] == [0, 11, 32, 73, 154]
    job = world.get(r.JOBS, DRILL)
    assert job["status"]["failed"] == 5
    assert [c["type"] for c in job["status"]["conditions"]] == ["FailureTarget", "Failed"]
    assert world.said(about=DRILL)[-1] == ("Warning BackoffLimitExceeded: Job has reached the specified backoff limit")


def test_a_pod_that_is_refused_is_tried_again_after_1_2_4_8_seconds(world: World) -> None:
    """11: one event that counts up, an empty status, no condition, never Failed."""
    spec = template("executor", restart="Never", serviceAccountName="gpu-off-deleted")
    seen = world.watch(r.EVENTS, lambda _, event: event["count"] if event["reason"] == "FailedCreate" else None)
    world.job(template=spec)
    world.run(70)

    assert seen == [(0.0, 1), (1.0, 2), (3.0, 3), (7.0, 4), (15.0, 5), (31.0, 6), (63.0, 7)]
    (event,) = world.events("FailedCreate")
    assert event["message"] == (
        'Error creating: pods "gpu-off-drill-" is forbidden: error looking up service account ns/gpu-off-deleted: '
        'serviceaccount "gpu-off-deleted" not found'
    )
    status = world.get(r.JOBS, DRILL)["status"]
    assert {key: status[key] for key in status if key != "startTime"} == {
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }


def test_a_quota_refuses_with_an_event_for_every_try(world: World) -> None:
    """12: the text names a fresh pod each time, so that nothing is counted up."""
    world.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": "ns"},
            "spec": {"hard": {"pods": "0"}},
        }
    )
    world.job()
    world.run(8)

    events = world.events("FailedCreate")
    assert [event["count"] for event in events] == [1, 1, 1, 1]
    assert len({event["message"] for event in events}) == 4
    assert all(
        "exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0" in event["message"] for event in events
    )


def test_a_deadline_fails_the_job_when_its_pod_is_gone(world: World) -> None:
    """20: FailureTarget at the deadline (reckoned from the whole second), Failed when the pod has gone."""
    seen = world.watch(r.JOBS, story)
    world.job(activeDeadlineSeconds=10)
    world.run(30)

    why = "DeadlineExceeded"
    assert [entry for entry in seen if entry[0] >= 10] == [
        (10.0, ({"ready": 0, "terminating": 1}, {"failed": 1}, [("FailureTarget", why)])),
        (10.01, ({"ready": 0, "terminating": 1, "failed": 1}, {}, [("FailureTarget", why)])),
        (16.0, ({"ready": 0, "terminating": 0, "failed": 1}, {}, [("FailureTarget", why)])),
        (16.01, ({"ready": 0, "terminating": 0, "failed": 1}, {}, [("FailureTarget", why), ("Failed", why)])),
    ]
    assert world.said(about=DRILL)[1:] == [
        f"Normal SuccessfulDelete: Deleted pod: {world.events('SuccessfulDelete')[0]['message'].split()[-1]}",
        "Warning DeadlineExceeded: Job was active longer than specified deadline",
    ]
    assert world.pods() == []


def test_a_deadline_ends_a_job_whose_pod_never_started(world: World) -> None:
    """20b: the only limit that does."""
    world.kubelet.stuck.add(DRILL)
    world.job(activeDeadlineSeconds=20)
    world.run(60)

    failed = condition(world.get(r.JOBS, DRILL), "Failed")
    assert dig(failed, "reason") == "DeadlineExceeded"


def test_a_pod_failure_policy_fails_the_job_at_once(world: World) -> None:
    """28d: no retry on exit 22."""
    world.kubelet.outcomes[DRILL] = (0.5, 22)
    world.job(
        backoffLimit=3,
        podFailurePolicy={
            "rules": [
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [22]}},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
    )
    world.run(60)

    job = world.get(r.JOBS, DRILL)
    assert [(c["type"], c["reason"]) for c in job["status"]["conditions"]] == [
        ("FailureTarget", "PodFailurePolicy"),
        ("Failed", "PodFailurePolicy"),
    ]
    (pod,) = world.pods()
    text = f"Container executor for pod ns/{name_of(pod)} failed with exit code 22 matching FailJob rule at index 0"
    assert world.said(about=DRILL)[-1] == f"Warning PodFailurePolicy: {text}"


def test_an_ignored_failure_does_not_count(world: World) -> None:
    world.kubelet.outcomes[DRILL] = (0.5, 7)
    world.job(
        backoffLimit=0,
        podFailurePolicy={"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}}]},
    )
    world.run(15)

    job = world.get(r.JOBS, DRILL)
    assert "conditions" not in job["status"]
    assert "failed" not in job["status"]
    assert len(world.pods()) == 2


def test_restarts_in_place_count_under_on_failure(world: World) -> None:
    world.job(backoffLimit=2, template=template("executor", restart="OnFailure"))
    world.run(2)
    (pod,) = world.pods()
    statuses = [dict(dig(pod, "status", "containerStatuses")[0], restartCount=2)]
    world.kube.patch(r.PODS, name_of(pod), {"status": {"containerStatuses": statuses}}, "ns", subresource="status")
    world.run(20)

    assert dig(condition(world.get(r.JOBS, DRILL), "Failed"), "reason") == "BackoffLimitExceeded"
    assert world.pods() == []


def test_suspending_deletes_the_pods_and_resuming_starts_the_clock_anew(world: World) -> None:
    world.job(activeDeadlineSeconds=60)
    world.run(5)
    world.kube.patch(r.JOBS, DRILL, {"spec": {"suspend": True}}, "ns")
    world.run(30)
    job = world.get(r.JOBS, DRILL)
    assert dig(condition(job, "Suspended"), "status") == "True"
    assert "startTime" not in job["status"]
    assert world.pods() == []

    world.kube.patch(r.JOBS, DRILL, {"spec": {"suspend": False}}, "ns")
    world.run(1)
    job = world.get(r.JOBS, DRILL)
    assert dig(condition(job, "Suspended"), "reason") == "JobResumed"
    assert job["status"]["startTime"] == "2026-11-21T01:45:33Z"
    assert [entry for entry in world.said(about=DRILL) if "Job " in entry] == [
        "Normal Suspended: Job suspended",
        "Normal Resumed: Job resumed",
    ]
    assert len(world.pods()) == 1


def test_parallel_pods_until_enough_have_succeeded(world: World) -> None:
    world.kubelet.outcomes[DRILL] = (1.0, 0)
    seen = world.watch(r.JOBS, lambda _, job: dig(job, "status", "active"))
    world.job(parallelism=2, completions=5)
    world.run(60)

    assert dig(world.get(r.JOBS, DRILL), "status", "succeeded") == 5
    assert max(active or 0 for _, active in seen) == 2
    assert len(world.pods()) == 5


def test_indexed_pods_know_their_index(world: World) -> None:
    world.kubelet.outcomes[DRILL] = (1.0, 0)
    world.job(completionMode="Indexed", completions=4, parallelism=4)
    world.run(1)
    pods = world.pods()
    key = "batch.kubernetes.io/job-completion-index"
    assert sorted(annotations_of(pod)[key] for pod in pods) == ["0", "1", "2", "3"]
    assert all(labels_of(pod)[key] == annotations_of(pod)[key] for pod in pods)
    assert all(name_of(pod).startswith(f"{DRILL}-{labels_of(pod)[key]}-") for pod in pods)
    assert pods[0]["spec"]["hostname"] == f"{DRILL}-{labels_of(pods[0])[key]}"
    assert {"name", "valueFrom"} <= set(pods[0]["spec"]["containers"][0]["env"][0])

    world.run(20)
    job = world.get(r.JOBS, DRILL)
    assert job["status"]["completedIndexes"] == "0-3"
    assert job["status"]["succeeded"] == 4
    assert condition(job, "Complete")


def test_an_index_has_a_limit_of_its_own(world: World) -> None:
    world.kubelet.outcomes[DRILL] = (0.5, 1)
    world.job(completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=1)
    world.run(60)

    job = world.get(r.JOBS, DRILL)
    assert job["status"]["failedIndexes"] == "0,1"
    assert job["status"]["failed"] == 4
    assert dig(condition(job, "Failed"), "reason") == "FailedIndexes"


def test_a_finished_job_goes_when_its_time_is_up(world: World) -> None:
    world.kubelet.outcomes[DRILL] = (0.9, 0)
    world.job(ttlSecondsAfterFinished=30)
    world.run_to(32.5)
    assert world.kube.find(r.JOBS, DRILL, "ns") is not None
    world.run_to(34)
    assert world.kube.find(r.JOBS, DRILL, "ns") is None
    assert world.pods() == []


def test_a_quiet_job_costs_nothing(world: World) -> None:
    """A hung Job is looked at again only when something changes."""
    world.job()
    world.run(10)
    before = world.store.revision
    world.run(24 * 3600)
    assert world.store.revision == before
