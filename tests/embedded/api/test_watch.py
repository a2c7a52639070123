"""Watches: from where, what, in which order, until when; and a copy that is kept by one always equals a list."""

import threading

import pytest
from api_world import World, configmap, pod
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from killcheck.kube import resources as r
from killcheck.kube.errors import Expired, KubeError, NotFound
from killcheck.kube.informer import Informer
from killcheck.kube.objects import copy

PATH = "/api/v1/namespaces/default/configmaps?watch=true"


@pytest.fixture
def world():
    return World()


def seen(frames):
    return [(frame["type"], frame["object"]["metadata"]["name"]) for frame in frames if frame]


def label(world, name, **labels):
    world.kube.patch(r.CONFIGMAPS, name, {"metadata": {"labels": labels}}, "default")


def test_a_watch_without_a_version_begins_with_what_is_there(world):
    world.kube.create(r.CONFIGMAPS, configmap("a"))
    frames = world.watch(PATH)
    world.kube.create(r.CONFIGMAPS, configmap("b"))
    label(world, "a", x="1")
    world.kube.delete(r.CONFIGMAPS, "b", "default")
    world.settle()
    assert seen(frames) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


def test_a_deletion_carries_its_own_resource_version(world):
    frames = world.watch(PATH)
    made = world.kube.create(r.CONFIGMAPS, configmap("a"))
    world.kube.delete(r.CONFIGMAPS, "a", "default")
    world.settle()
    assert int(frames[1]["object"]["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def test_a_watch_from_a_version_gets_what_came_after(world):
    first = world.kube.create(r.CONFIGMAPS, configmap("a"))["metadata"]["resourceVersion"]
    world.kube.create(r.CONFIGMAPS, configmap("b"))
    frames = world.watch(f"{PATH}&resourceVersion={first}")
    world.kube.create(r.CONFIGMAPS, configmap("c"))
    world.settle()
    assert seen(frames) == [("ADDED", "b"), ("ADDED", "c")]


def test_a_version_that_is_gone_is_an_error_frame(world):
    world.kube.create(r.CONFIGMAPS, configmap("a"))
    world.store.compact()
    frames = world.watch(f"{PATH}&resourceVersion=1")
    assert frames[1] is None
    assert frames[0]["type"] == "ERROR"
    assert frames[0]["object"]["code"] == 410
    assert frames[0]["object"]["reason"] == "Expired"
    assert frames[0]["object"]["message"] == f"too old resource version: 1 ({world.store.revision})"


def test_what_begins_or_ends_to_match_is_added_or_deleted(world):
    world.kube.create(r.CONFIGMAPS, configmap("a"))
    frames = world.watch(f"{PATH}&labelSelector=on%3Dyes")
    label(world, "a", on="yes")
    label(world, "a", on="yes", other="1")
    label(world, "a", on="no")
    label(world, "a", on="never")
    world.settle()
    assert seen(frames) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    gone = frames[2]["object"]["metadata"]
    assert gone["labels"]["on"] == "yes"  # the last state that matched,
    assert int(gone["resourceVersion"]) == world.store.revision - 1  # at the version of the change that ended it


def test_fields_and_namespaces_narrow_a_watch(world):
    world.kube.create(r.NAMESPACES, {"metadata": {"name": "team"}})
    frames = world.watch("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dgpu-1")
    narrow = world.watch("/api/v1/namespaces/team/pods?watch=1")
    world.kube.create(r.PODS, pod("a", node="gpu-1"))
    world.kube.create(r.PODS, pod("b", node="gpu-2"))
    world.settle()
    assert (seen(frames), narrow) == ([("ADDED", "a")], [])


def test_one_object_can_be_watched_by_name(world):
    world.kube.create(r.CONFIGMAPS, configmap("a"))
    frames = world.watch("/api/v1/watch/namespaces/default/configmaps/a")
    world.kube.create(r.CONFIGMAPS, configmap("b"))
    world.settle()
    assert seen(frames) == [("ADDED", "a")]


def test_a_watch_that_is_asked_of_one_object_is_a_read(world):
    """The verb of a path with a name is get (requestinfo.go); as kube-apiserver v1.36.2 answers."""
    world.kube.create(r.CONFIGMAPS, configmap("a"))
    url = "/api/v1/namespaces/default/configmaps/{}?watch=true"
    assert world.raw("GET", url.format("a")).body["kind"] == "ConfigMap"
    assert world.raw("GET", url.format("b")).status == 404


def test_initial_events_end_with_a_bookmark(world):
    world.kube.create(r.CONFIGMAPS, configmap("a"))
    frames = world.watch(f"{PATH}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
    assert [frame["type"] for frame in frames] == ["ADDED", "BOOKMARK"]
    meta = frames[1]["object"]["metadata"]
    assert meta["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert meta["resourceVersion"] == str(world.store.revision)
    assert world.raw("GET", f"{PATH}&sendInitialEvents=true").status == 422


def test_a_watch_with_a_timeout_ends_after_a_bookmark(world):
    frames = world.watch(f"{PATH}&resourceVersion={world.store.revision}&timeoutSeconds=30&allowWatchBookmarks=true")
    world.loop.sleep(29)
    assert frames == []
    world.loop.sleep(2)
    assert [frame and frame["type"] for frame in frames] == ["BOOKMARK", None]
    assert world.server.watches.count == 0


def test_a_closed_watch_hears_nothing_more(world):
    heard, ended = [], []
    close = world.kube.watch(r.CONFIGMAPS, heard.append, ended.append)
    world.kube.create(r.CONFIGMAPS, configmap("a"))
    close()
    world.settle()
    assert (heard, ended, world.server.watches.count) == ([], [], 0)


def test_a_reader_that_fails_costs_the_others_nothing(world):
    heard = []

    def fail(_event):
        raise RuntimeError("a reader's own mistake")

    world.kube.watch(r.CONFIGMAPS, fail, lambda _: None)
    world.kube.watch(r.CONFIGMAPS, heard.append, lambda _: None)
    world.kube.create(r.CONFIGMAPS, configmap("a"))
    with pytest.raises(RuntimeError):
        world.settle()
    world.settle()
    assert [event.object["metadata"]["name"] for event in heard] == ["a"]


def test_another_thread_may_ask_while_the_loop_runs(world):
    answers = []
    hold = world.loop.hold()

    def ask():
        answers.append(world.kube.create(r.CONFIGMAPS, configmap("a")))
        hold.release()

    thread = threading.Thread(target=ask)
    thread.start()
    world.loop.run_until(lambda: bool(answers), 60)
    thread.join()
    assert answers[0]["metadata"]["creationTimestamp"] == "2026-11-21T02:01:06Z"  # no virtual time had passed


def test_refusals_reach_a_client_through_the_end_of_the_watch(world):
    ended = []
    absent = r.Resource("example.com", "v1", "things", "Thing")
    world.kube.watch(absent, lambda _: None, ended.append)
    world.kube.create(r.CONFIGMAPS, configmap("a"))
    world.store.compact()
    world.kube.watch(r.CONFIGMAPS, lambda _: None, ended.append, since="1")
    world.settle()
    assert [type(error) for error in ended] == [NotFound, Expired]


def test_an_informer_survives_compaction_and_a_server_that_closes_its_watches(world):
    informer = Informer(world.kube, world.loop, r.CONFIGMAPS).start()
    world.kube.create(r.CONFIGMAPS, configmap("a"))
    world.settle()
    world.server.watches.close_all()
    world.kube.create(r.CONFIGMAPS, configmap("b"))
    world.store.compact()
    world.loop.sleep(10)
    assert {name for _, name in informer.objects} == {"a", "b"}
    assert informer.broken is None


class CopyEqualsList(RuleBasedStateMachine):
    """Whatever is written, an informer's copy is what a list says, with and without a selector."""

    def __init__(self):
        super().__init__()
        self.world = World()
        self.all = Informer(self.world.kube, self.world.loop, r.CONFIGMAPS).start()
        self.some = Informer(self.world.kube, self.world.loop, r.CONFIGMAPS, labels="on=yes").start()

    names = st.sampled_from(["a", "b", "c"])
    states = st.sampled_from(["yes", "no"])

    @rule(name=names, on=states)
    def create(self, name, on):
        self.attempt(lambda: self.world.kube.create(r.CONFIGMAPS, configmap(name, labels={"on": on})))

    @rule(name=names, on=states, finalizer=st.booleans())
    def change(self, name, on, finalizer):
        patch = {"metadata": {"labels": {"on": on}, "finalizers": ["x/y"] if finalizer else None}}
        self.attempt(lambda: self.world.kube.patch(r.CONFIGMAPS, name, patch, "default"))

    @rule(name=names)
    def delete(self, name):
        self.attempt(lambda: self.world.kube.delete(r.CONFIGMAPS, name, "default"))

    @rule()
    def forget_the_past(self):
        self.world.store.compact()

    @rule()
    def close_watches(self):
        self.world.server.watches.close_all()

    @rule()
    def let_time_pass(self):
        self.world.loop.sleep(20)

    def attempt(self, write):
        try:
            write()
        except KubeError:
            return

    @invariant()
    def copies_equal_lists(self):
        self.world.loop.sleep(20)
        for informer, labels in ((self.all, ""), (self.some, "on=yes")):
            listed = self.world.kube.list(r.CONFIGMAPS, labels=labels).items
            assert sorted(map(str, informer.values())) == sorted(map(str, copy({"items": listed})["items"]))


CopyEqualsList.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestCopyEqualsList = CopyEqualsList.TestCase
