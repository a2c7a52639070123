"""What controllers are made of: queues, events, starting and stopping."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from controller_world import World

from killcheck.clock import VirtualLoop
from killcheck.embedded.controllers import ALL, runtime
from killcheck.embedded.controllers.cronjob import CronJobController
from killcheck.embedded.controllers.events import EventRecorder, SeriesRecorder
from killcheck.embedded.controllers.revisions import scaled, template_hash
from killcheck.embedded.controllers.runtime import WorkQueue
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, name_of


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop(datetime(2026, 1, 1, tzinfo=UTC))


def test_a_key_waits_for_the_earliest_of_its_times_and_keeps_a_later_one(loop: VirtualLoop) -> None:
    done: list[float] = []
    queue = WorkQueue(loop, lambda _: done.append(loop.monotonic()))
    queue.add("k", 5)
    queue.add("k", 9)
    queue.add("k", 3)
    queue.add("k")
    queue.add("k")
    loop.sleep(20)
    assert done == [0, 3]


def test_failures_double_the_pause_until_one_succeeds(loop: VirtualLoop) -> None:
    done: list[float] = []
    queue = WorkQueue(loop, lambda key: (done.append(loop.monotonic()), queue.retry(key)), base_s=1, max_s=4)
    queue.add("k")
    loop.sleep(15)
    assert done == [0, 1, 3, 7, 11, 15]
    queue.forget("k")
    assert queue.backoff("k") == 1


def test_a_stopped_queue_does_nothing(loop: VirtualLoop) -> None:
    done: list[str] = []
    queue = WorkQueue(loop, lambda key: done.append(str(key)))
    queue.add("now")
    queue.add("later", 5)
    queue.stop()
    queue.add("after")
    loop.sleep(10)
    assert done == []


def test_a_key_that_somebody_else_writes_as_often_holds_time_up_no_longer(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that fight over an object at one moment: a drill goes on to its last deadline."""
    monkeypatch.setattr(runtime, "FOUGHT_OVER", 20)
    done: list[float] = []
    queue = WorkQueue(loop, lambda key: (done.append(loop.monotonic()), queue.add(key)))
    queue.add("k")
    loop.sleep(3.5)
    assert done == [0.0] * 20 + [1.0, 2.0, 3.0]


# -- events ------------------------------------------------------------------------------------------------
@pytest.fixture
def about(world: World) -> Obj:
    return world.get(r.CONFIGMAPS, "kube-root-ca.crt")


def test_the_same_text_is_counted_up(world: World, about: Obj) -> None:
    recorder = EventRecorder(world.kube, world.loop, "tester")
    for _ in range(3):
        recorder.emit(about, "Normal", "Seen", "hello")
        world.run(60)
    (event,) = world.events("Seen")
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
        3,
        "2026-11-21T01:44:58Z",
        "2026-11-21T01:46:58Z",
    )
    assert event["source"] == {"component": "tester"}
    assert event["involvedObject"]["kind"] == "ConfigMap"


def test_the_tenth_similar_text_is_combined_with_those_that_follow(world: World, about: Obj) -> None:
    recorder = EventRecorder(world.kube, world.loop, "tester")
    for number in range(12):
        recorder.emit(about, "Warning", "FailedCreate", f"pod-{number}")
    events = sorted(world.events("FailedCreate"), key=lambda e: int(e["metadata"]["resourceVersion"]))
    assert len(events) == 10
    assert events[-1]["message"] == "(combined from similar events): pod-11"
    assert events[-1]["count"] == 3


def test_after_25_events_about_an_object_there_is_one_in_five_minutes(world: World, about: Obj) -> None:
    """28b: later back-offs are silent, and counts jump."""
    recorder = EventRecorder(world.kube, world.loop, "kubelet", host="node-0")
    for _ in range(40):
        recorder.emit(about, "Normal", "BackOff", "Back-off pulling image")
    assert world.events("BackOff")[0]["count"] == 25
    world.run(301)
    recorder.emit(about, "Normal", "BackOff", "Back-off pulling image")
    assert world.events("BackOff")[0]["count"] == 41


def test_an_event_that_has_gone_is_written_again_with_its_count(world: World, about: Obj) -> None:
    recorder = EventRecorder(world.kube, world.loop, "tester")
    recorder.emit(about, "Normal", "Seen", "hello")
    world.kube.delete(r.EVENTS, name_of(world.events("Seen")[0]), "ns")
    recorder.emit(about, "Normal", "Seen", "hello")
    assert [event["count"] for event in world.events("Seen")] == [2]


def test_of_a_series_only_the_first_repetition_is_written(world: World, about: Obj) -> None:
    """16b: one event, then count 2, and no more."""
    recorder = SeriesRecorder(world.kube, world.loop, "tester", host="here")
    for _ in range(4):
        recorder.emit(about, "Warning", "FailedScheduling", "Scheduling", "no room")
        world.run(1)
    (event,) = world.events("FailedScheduling")
    assert event["series"]["count"] == 2
    assert event["reportingInstance"] == "tester-here"


def test_two_recorders_at_one_moment_do_not_take_each_others_names(world: World, about: Obj) -> None:
    for component in ("one", "two", "three"):
        EventRecorder(world.kube, world.loop, component).emit(about, "Normal", "Seen", "hello")
    assert len(world.events("Seen")) == 3


# -- controllers as a whole --------------------------------------------------------------------------------
def test_names_are_those_of_the_controller_manager() -> None:
    names = [controller.name for controller in ALL]
    assert len(set(names)) == len(names)
    assert {"job-controller", "cronjob-controller", "garbage-collector-controller", "default-scheduler"} <= set(names)


def test_a_controller_can_be_left_out(make_world: Callable[..., World]) -> None:
    world = make_world(disabled={"job-controller"})
    assert "job-controller" not in world.controllers
    world.job()
    world.run(30)
    assert world.pods() == []


def test_a_schedule_missed_while_its_controller_was_down_runs_when_it_is_back(world: World) -> None:
    world.cron_job()
    world.run_to(1)
    world.controllers.pop("cronjob-controller").stop()
    world.run_to(30)
    assert world.kube.list(r.JOBS, "ns").items == []
    again = CronJobController(world.kube, world.loop, world.informers)
    again.start()
    world.controllers[again.name] = again
    world.run(0)
    assert [name_of(job) for job in world.kube.list(r.JOBS, "ns").items] == ["gpu-nightly-off-29920425"]


def test_the_same_seed_tells_the_same_story(make_world: Callable[..., World]) -> None:
    stories = []
    for _ in range(2):
        world = make_world()
        world.deployment(replicas=3)
        world.run(5)
        stories.append(world.said())
    assert stories[0] == stories[1]


@pytest.mark.parametrize(
    ("value", "total", "up", "expected"),
    [
        ("25%", 10, True, 3),
        ("25%", 10, False, 2),
        (4, 10, True, 4),
        (None, 10, True, 0),
        ("100%", 3, False, 3),
    ],
)
def test_shares(value: object, total: int, up: bool, expected: int) -> None:
    assert scaled(value, total, up=up) == expected


def test_a_template_hash_ignores_what_is_empty() -> None:
    one = template_hash({"spec": {"containers": [{"name": "c"}]}})
    assert one == template_hash({"spec": {"containers": [{"name": "c", "env": [], "resources": {}}]}, "metadata": None})
    assert one != template_hash({"spec": {"containers": [{"name": "d"}]}})
    assert one != template_hash({"spec": {"containers": [{"name": "c"}]}}, 1)
