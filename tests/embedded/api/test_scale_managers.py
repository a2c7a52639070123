"""Who manages the replicas after writes of the Scale: as kube-apiserver v1.36.2 showed it, step by step."""

import pytest
from api_world import World

APPS = "/apis/apps/v1/namespaces/default/deployments"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}


@pytest.fixture
def world():
    world = World()
    spec = {"paused": True, "replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    world.raw("POST", f"{APPS}?fieldManager=maker", {"metadata": {"name": "a"}, "spec": spec}, "application/json")
    return world


def scale(world, manager, replicas):
    body = {"spec": {"replicas": replicas}} if replicas is not None else {}
    return world.raw("PATCH", f"{APPS}/a/scale?fieldManager={manager}", body, MERGE)


def apply(world, manager, replicas, force=""):
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": replicas}}
    return world.raw("PATCH", f"{APPS}/a/scale?fieldManager={manager}{force}", body, APPLY)


def claims(world):
    """(manager, operation, subresource, whether it has a time) of each entry with the replicas."""
    entries = world.raw("GET", f"{APPS}/a").body["metadata"]["managedFields"]
    return [
        (one["manager"], one["operation"], one.get("subresource", ""), "time" in one)
        for one in entries
        if "f:replicas" in one["fieldsV1"].get("f:spec", {})
    ]


def test_whoever_scales_takes_them_and_his_entry_has_no_time(world):
    scale(world, "k", 3)
    assert claims(world) == [("k", "Update", "scale", False)]
    scale(world, "other", 4)
    assert claims(world) == [("other", "Update", "scale", False)]


def test_after_a_scale_to_zero_they_are_nobodys_and_stay_so_until_the_object_is_written(world):
    scale(world, "k", 0)
    assert claims(world) == []
    scale(world, "k", 2)
    assert claims(world) == []
    assert world.raw("GET", f"{APPS}/a").body["spec"]["replicas"] == 2
    world.raw("PATCH", f"{APPS}/a?fieldManager=main", {"spec": {"replicas": 5}}, MERGE)
    assert claims(world) == [("main", "Update", "", True)]


def test_a_scale_that_changes_nothing_leaves_a_second_entry_which_the_next_write_drops(world):
    scale(world, "k", None)
    assert claims(world) == [("maker", "Update", "", False)]
    world.raw("PATCH", f"{APPS}/a?fieldManager=main", {"spec": {"minReadySeconds": 4}}, MERGE)
    assert claims(world) == []


def test_an_apply_over_nobodys_replicas_conflicts_with_what_was_before(world):
    scale(world, "k", 0)
    scale(world, "k", 6)
    refused = apply(world, "app", 7)
    assert refused.status == 409
    assert "before-first-apply" in refused.body["message"]
    assert apply(world, "app", 7, "&force=true").status == 200
    assert claims(world) == [("app", "Apply", "scale", False)]
    assert apply(world, "app2", 7).status == 200  # the same value is shared
    assert claims(world) == [("app", "Apply", "scale", False), ("app2", "Apply", "scale", False)]
    assert apply(world, "app2", 0, "&force=true").status == 200
    assert claims(world) == [("app2", "Apply", "scale", False)]
