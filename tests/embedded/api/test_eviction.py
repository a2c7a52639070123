"""Evictions and disruption budgets (recordings 23, 23b, 23c); there is no disruption controller here."""

import json
from pathlib import Path

import pytest
from api_world import World, pod

from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, BadRequest, Conflict, NotFound, TooManyRequests

RECORDINGS = Path(__file__).parents[2] / "conformance" / "recordings"


def recorded(name, status, note=""):
    """The body of the first recorded eviction with that status (and note)."""
    exchanges = json.loads((RECORDINGS / f"{name}.json").read_text())["http"]
    return next(
        e["body"]
        for e in exchanges
        if e["status"] == status and "/eviction" in e["request"] and note in e.get("note", "")
    )


def told(error, name, uid=""):
    """A Status with our names in place of the recorded ones."""
    return json.loads(json.dumps(error.status).replace(name, "POD").replace(uid or "\0", "UID"))


@pytest.fixture
def world():
    world = World()
    world.kube.create(r.PODS, pod("victim", node="gpu-1", labels={"app": "victim"}))
    running(world, ready=True)
    return world


def running(world, *, ready):
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    world.kube.patch(
        r.PODS, "victim", {"status": {"phase": "Running", "conditions": conditions}}, "default", subresource="status"
    )


def budget(world, name="one", *, allowed=0, healthy=1, desired=1, observed=1, spec=None, conditions=None):
    selector = {"matchLabels": {"app": "victim"}}
    world.kube.create(
        r.PDBS,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": selector} | (spec or {}),
        },
    )
    state = {
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": 1,
        "observedGeneration": observed,
    } | ({"conditions": conditions} if conditions else {})
    world.kube.patch(r.PDBS, name, {"status": state}, "default", subresource="status")


def test_without_a_budget_the_pod_goes(world):
    world.kube.evict("victim", "default")
    meta, status = (world.kube.get(r.PODS, "victim", "default")[k] for k in ("metadata", "status"))
    assert meta["deletionGracePeriodSeconds"] == 30
    target = status["conditions"][-1]
    assert (target["type"], target["reason"], target["message"]) == (
        "DisruptionTarget",
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )


def test_the_answer_is_the_recorded_one(world):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "victim", "namespace": "default"}}
    answer = world.raw("POST", "/api/v1/namespaces/default/pods/victim/eviction", body)
    assert (answer.status, answer.body) == (201, recorded("23-eviction", 201))


def test_a_spent_budget_refuses(world):
    budget(world)
    with pytest.raises(TooManyRequests) as caught:
        world.kube.evict("victim", "default")
    assert caught.value.status == recorded("23-eviction", 429, "disruptionsAllowed 0")
    assert caught.value.retry_after_s is None
    with pytest.raises(TooManyRequests):
        world.kube.evict("victim", "default", dry_run=True)
    assert "deletionTimestamp" not in world.kube.get(r.PODS, "victim", "default")["metadata"]


def test_a_budget_that_the_controller_has_not_seen_yet(world):
    budget(world, allowed=1, observed=0)
    with pytest.raises(TooManyRequests) as caught:
        world.kube.evict("victim", "default")
    assert caught.value.causes[0]["message"] == "The disruption budget one is still being processed by the server."
    assert caught.value.retry_after_s == 10


def test_two_budgets_are_an_error(world):
    budget(world, "one", allowed=1)
    budget(world, "two", allowed=1)
    with pytest.raises(ApiError) as caught:
        world.kube.evict("victim", "default")
    assert caught.value.status == recorded("23-eviction", 500)


def test_an_eviction_spends_the_budget_once(world):
    condition = {"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": ""}
    budget(world, allowed=1, conditions=[condition])
    world.kube.evict("victim", "default", dry_run=True)
    world.kube.evict("victim", "default")
    world.kube.evict("victim", "default")  # it is terminating already: allowed, and costs nothing
    status = world.kube.get(r.PDBS, "one", "default")["status"]
    assert (status["disruptionsAllowed"], status["disruptedPods"]) == (0, {"victim": "2026-11-21T02:01:06Z"})
    assert (status["conditions"][0]["status"], status["conditions"][0]["reason"]) == ("False", "InsufficientPods")


def test_an_eviction_that_fails_spends_the_budget_too(world):
    budget(world, allowed=1, desired=0)
    uid = world.kube.get(r.PODS, "victim", "default")["metadata"]["uid"]
    body = {
        "metadata": {"name": "victim"},
        "deleteOptions": {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}},
    }
    with pytest.raises(Conflict) as caught:
        world.kube.call("POST", r.PODS.path("default", "victim", "eviction"), body=body)
    expected = recorded("23c-failed-eviction-spends-budget", 409)
    name = expected["details"]["name"]
    theirs = expected["message"].split("record (")[1].split(")")[0]
    assert told(caught.value, "victim", uid) == json.loads(
        json.dumps(expected).replace(name, "POD").replace(theirs, "UID")
    )
    with pytest.raises(TooManyRequests):
        world.kube.evict("victim", "default")


@pytest.mark.parametrize(
    ("spec", "healthy", "evicted"),
    [
        ({}, 0, False),
        ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 0, True),
        ({}, 1, True),
        ({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, 0, False),
    ],
)
def test_pods_that_are_not_ready(world, spec, healthy, evicted):
    budget(world, healthy=healthy, desired=1, spec=spec)
    running(world, ready=False)
    if evicted:
        world.kube.evict("victim", "default")
        assert world.kube.get(r.PDBS, "one", "default")["status"]["disruptionsAllowed"] == 0
    else:
        with pytest.raises(TooManyRequests) as caught:
            world.kube.evict("victim", "default")
        theirs = recorded("23b-eviction-not-ready-pods", 429)["details"]["causes"][0]["message"]
        assert caught.value.causes[0]["message"] == theirs.replace("sick", "one")


def test_a_pending_pod_goes_whatever_the_budget(world):
    budget(world)
    before = world.kube.get(r.PDBS, "one", "default")["status"]
    assert before["disruptionsAllowed"] == 0
    world.kube.patch(r.PODS, "victim", {"status": {"phase": "Pending"}}, "default", subresource="status")
    world.kube.evict("victim", "default")
    left = world.kube.find(r.PODS, "victim", "default")
    assert left is None or "deletionTimestamp" in left["metadata"]
    assert world.kube.get(r.PDBS, "one", "default")["status"] == before, "the budget is not asked, and not charged"


def test_grace_and_names(world):
    body = {"metadata": {"name": "victim"}, "deleteOptions": {"gracePeriodSeconds": 1}}
    world.kube.call("POST", r.PODS.path("default", "victim", "eviction"), body=body)
    assert world.kube.get(r.PODS, "victim", "default")["metadata"]["deletionGracePeriodSeconds"] == 1
    with pytest.raises(BadRequest, match="name in URL does not match name in Eviction object"):
        world.kube.call("POST", r.PODS.path("default", "victim", "eviction"), body={"metadata": {"name": "x"}})
    with pytest.raises(NotFound, match='pods "no-such-pod" not found'):
        world.kube.evict("no-such-pod", "default")
