"""CronJobs: firings, skips and events against the recordings of a v1.36 cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from controller_world import World, template

from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, annotations_of, dig, name_of, owners

NIGHTLY = "gpu-nightly-off"


def jobs_made(world: World) -> list[tuple[float, Any]]:
    return world.watch(r.JOBS, lambda change, job: name_of(job) if change == "added" else None)


def status(world: World) -> Obj:
    return world.get(r.CRONJOBS, NIGHTLY)["status"]  # type: ignore[no-any-return]


def test_a_firing_comes_a_tenth_of_a_second_after_its_slot(world: World) -> None:
    """01c: the Job's name is the slot in minutes since the epoch; the CronJob sees it complete."""
    seen = jobs_made(world)
    world.cron_job()
    world.run_to(10)

    assert seen == [(2.1, "gpu-nightly-off-29920425")]
    job = world.get(r.JOBS, "gpu-nightly-off-29920425")
    assert annotations_of(job)["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-11-21T01:45:00Z"
    (owner,) = owners(job)
    assert (owner["kind"], owner["controller"], owner["blockOwnerDeletion"]) == ("CronJob", True, True)
    assert status(world)["lastScheduleTime"] == "2026-11-21T01:45:00Z"
    assert [ref["name"] for ref in status(world)["active"]] == ["gpu-nightly-off-29920425"]
    assert world.said(about=NIGHTLY) == ["Normal SuccessfulCreate: Created job gpu-nightly-off-29920425"]


def test_a_completed_job_is_seen(world: World) -> None:
    """01c."""
    world.kubelet.outcomes["gpu-nightly-off-29920425"] = (0.9, 0)
    world.cron_job()
    world.run_to(10)

    assert world.said(about=NIGHTLY)[1:] == [
        "Normal SawCompletedJob: Saw completed job: gpu-nightly-off-29920425, condition: Complete"
    ]
    assert status(world) == {"lastScheduleTime": "2026-11-21T01:45:00Z", "lastSuccessfulTime": "2026-11-21T01:45:03Z"}


def test_a_job_made_by_hand_makes_a_dead_schedule_look_healthy(world: World) -> None:
    """01b, 18b: UnexpectedJob five times, and lastSuccessfulTime although the CronJob is suspended."""
    world.kubelet.outcomes["by-hand"] = (0.9, 0)
    cron_job = world.cron_job(suspend=True)
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": NIGHTLY,
        "uid": cron_job["metadata"]["uid"],
        "controller": True,
    }
    world.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "by-hand", "namespace": "ns", "ownerReferences": [owner]},
            "spec": {"template": template("executor", restart="Never")},
        }
    )
    world.run(10)

    (event,) = world.events("UnexpectedJob")
    assert (event["type"], event["count"]) == ("Warning", 5)
    assert event["message"] == "Saw a job that the controller did not create or forgot: by-hand"
    assert status(world) == {"lastSuccessfulTime": "2026-11-21T01:45:01Z"}


def test_forbid_skips_every_slot_of_a_hung_job_and_replace_acts_on_the_last_at_once(world: World) -> None:
    """17: a Normal event each minute; patched to Replace, the skipped slot runs now."""
    seen = jobs_made(world)
    world.cron_job(concurrencyPolicy="Forbid")
    world.run_to(185)
    (event,) = world.events("JobAlreadyActive")
    assert (event["type"], event["count"]) == ("Normal", 3)
    assert event["message"] == ("Not starting job because prior execution is running and concurrency policy is Forbid")
    assert status(world)["lastScheduleTime"] == "2026-11-21T01:45:00Z"

    world.run_to(197)
    world.kube.patch(r.CRONJOBS, NIGHTLY, {"spec": {"concurrencyPolicy": "Replace"}}, "ns")
    world.run_to(305)
    assert seen == [
        (2.1, f"{NIGHTLY}-29920425"),
        (197.0, f"{NIGHTLY}-29920428"),
        (242.1, f"{NIGHTLY}-29920429"),
        (302.1, f"{NIGHTLY}-29920430"),
    ]
    assert world.said(about=NIGHTLY)[2:4] == [
        f"Normal SuccessfulDelete: Deleted job {NIGHTLY}-29920425",
        f"Normal SuccessfulCreate: Created job {NIGHTLY}-29920428",
    ]
    assert [ref["name"] for ref in status(world)["active"]] == [f"{NIGHTLY}-29920430"]
    assert world.kube.find(r.JOBS, f"{NIGHTLY}-29920425", "ns") is None


def test_a_repaired_template_is_still_skipped_until_the_broken_job_is_deleted(world: World) -> None:
    """17b: MissingJob, the last skipped slot at once, the next on time."""
    seen = jobs_made(world)
    world.cron_job(concurrencyPolicy="Forbid")
    world.run_to(150)
    world.kube.delete(r.JOBS, f"{NIGHTLY}-29920425", "ns", propagation="Background")
    world.run_to(183)

    assert seen == [(2.1, f"{NIGHTLY}-29920425"), (150.0, f"{NIGHTLY}-29920427")]
    (event,) = world.events("MissingJob")
    assert (event["type"], event["message"]) == ("Normal", f"Active job went missing: {NIGHTLY}-29920425")


def test_a_suspended_cronjob_says_nothing_and_runs_the_missed_slot_on_resume(world: World) -> None:
    """18."""
    seen = jobs_made(world)
    world.cron_job(suspend=True)
    world.run_to(92)
    assert seen == []
    assert world.said(about=NIGHTLY) == []
    assert status(world) == {}

    world.kube.patch(r.CRONJOBS, NIGHTLY, {"spec": {"suspend": False}}, "ns")
    world.run_to(125)
    assert seen == [(92.0, f"{NIGHTLY}-29920426"), (122.1, f"{NIGHTLY}-29920427")]


@pytest.mark.parametrize(("deadline", "runs"), [(None, True), (60, True), (10, False)])
def test_resumed_after_the_deadline_the_missed_slot_is_dropped_in_silence(
    world: World,
    deadline: int | None,
    runs: bool,
) -> None:
    """18c."""
    seen = jobs_made(world)
    spec = {} if deadline is None else {"startingDeadlineSeconds": deadline}
    world.cron_job(suspend=True, **spec)
    world.run_to(32)
    world.kube.patch(r.CRONJOBS, NIGHTLY, {"spec": {"suspend": False}}, "ns")
    world.run_to(40)
    assert seen == ([(32.0, f"{NIGHTLY}-29920425")] if runs else [])
    assert all("SuccessfulCreate" in entry for entry in world.said(about=NIGHTLY))


@pytest.mark.parametrize("deadline", [1, 5, 9, 20])
def test_a_small_starting_deadline_still_fires(world: World, deadline: int) -> None:
    """19b."""
    seen = jobs_made(world)
    world.cron_job(startingDeadlineSeconds=deadline)
    world.run_to(125)
    assert [t for t, _ in seen] == [2.1, 62.1, 122.1]


def test_too_many_missed_slots_are_a_warning_and_the_last_still_runs(make_world: Callable[..., World]) -> None:
    """FACTS: more than 100 missed starts."""
    world = make_world()
    world.cron_job(suspend=True)
    world.run(3 * 3600)
    world.kube.patch(r.CRONJOBS, NIGHTLY, {"spec": {"suspend": False}}, "ns")
    world.run(1)
    assert world.said(about=NIGHTLY) == [
        "Warning TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or "
        "check clock skew",
        f"Normal SuccessfulCreate: Created job {NIGHTLY}-29920604",
    ]


def test_finished_jobs_are_kept_up_to_the_limits(world: World) -> None:
    for minute in range(5):
        world.kubelet.outcomes[f"{NIGHTLY}-{29920425 + minute}"] = (0.5, 0)
    world.cron_job(successfulJobsHistoryLimit=1)
    world.run_to(250)
    assert [name_of(job) for job in world.kube.list(r.JOBS, "ns").items] == [f"{NIGHTLY}-29920429"]
    assert [name_of(pod).rpartition("-")[0] for pod in world.pods()] == [f"{NIGHTLY}-29920429"]


def test_a_time_zone_moves_the_firing(make_world: Callable[..., World]) -> None:
    world = make_world(start=datetime(2026, 3, 29, 0, 59, 58, tzinfo=UTC))
    seen = jobs_made(world)
    world.cron_job(schedule="0 3 * * *", timeZone="Europe/Berlin")
    world.run(3600)
    assert [t for t, _ in seen] == [2.1]  # 03:00 summer time begins at 01:00 UTC
    (job,) = world.kube.list(r.JOBS, "ns").items
    assert annotations_of(job)["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-03-29T03:00:00+02:00"


def test_a_schedule_changed_takes_effect(world: World) -> None:
    seen = jobs_made(world)
    world.cron_job(schedule="0 12 * * *")
    world.run_to(30)
    world.kube.patch(r.CRONJOBS, NIGHTLY, {"spec": {"schedule": "* * * * *"}}, "ns")
    world.run_to(65)
    assert [t for t, _ in seen] == [62.1]


def test_a_job_that_cannot_be_made_is_reported(world: World) -> None:
    world.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "jobs", "namespace": "ns"},
            "spec": {"hard": {"count/jobs.batch": "0"}},
        }
    )
    world.cron_job()
    world.run_to(4)
    event = world.events("FailedCreate", about=NIGHTLY)[0]
    assert event["message"].startswith(f'Error creating job: jobs.batch "{NIGHTLY}-29920425" is forbidden: exceeded')


def test_a_night_of_an_hourly_schedule_is_an_hour_of_nothing(world: World) -> None:
    world.cron_job(schedule="0 * * * *", suspend=True)
    world.run(1)
    before = world.store.revision
    world.run(24 * 3600)
    assert world.store.revision == before
    assert dig(world.get(r.CRONJOBS, NIGHTLY), "status", default={}) == {}
