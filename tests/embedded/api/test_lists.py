"""Lists: selectors, pages of one snapshot, versions of the past."""

import pytest
from api_world import World, configmap, pod

from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, BadRequest, Expired, Invalid

PATH = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def world():
    world = World()
    for i in range(7):
        world.kube.create(r.CONFIGMAPS, configmap(f"c{i}", labels={"odd": str(i % 2)}))
    return world


def names(body):
    return [item["metadata"]["name"] for item in body["items"]]


def page(world, query):
    return world.kube.call("GET", PATH, query=query).body


def test_a_list_is_in_order_and_says_what_it_is_true_for(world):
    body = page(world, {})
    assert (body["kind"], body["apiVersion"], names(body)) == ("ConfigMapList", "v1", [f"c{i}" for i in range(7)])
    assert body["metadata"] == {"resourceVersion": str(world.store.revision)}


def test_pages_are_one_snapshot(world):
    first = page(world, {"limit": "3"})
    assert first["metadata"]["remainingItemCount"] == 4
    world.kube.delete(r.CONFIGMAPS, "c4", "default")
    world.kube.create(r.CONFIGMAPS, configmap("c3a"))
    second = page(world, {"limit": "3", "continue": first["metadata"]["continue"]})
    third = page(world, {"limit": "3", "continue": second["metadata"]["continue"]})
    assert names(first) + names(second) + names(third) == [f"c{i}" for i in range(7)]
    assert {p["metadata"]["resourceVersion"] for p in (first, second, third)} == {first["metadata"]["resourceVersion"]}
    assert "continue" not in third["metadata"]


def test_an_old_continue_token_expires_and_offers_to_go_on(world):
    token = page(world, {"limit": "3"})["metadata"]["continue"]
    world.kube.delete(r.CONFIGMAPS, "c4", "default")
    world.store.compact()
    with pytest.raises(Expired, match="The provided continue parameter is too old to display a consistent") as caught:
        page(world, {"limit": "3", "continue": token})
    onward = caught.value.status["metadata"]["continue"]
    assert names(page(world, {"limit": "9", "continue": onward})) == ["c3", "c5", "c6"]
    with pytest.raises(BadRequest, match="continue key is not valid"):
        page(world, {"continue": "nonsense"})


def test_selectors_and_pages(world):
    assert names(page(world, {"labelSelector": "odd=1"})) == ["c1", "c3", "c5"]
    first = page(world, {"labelSelector": "odd=1", "limit": "2"})
    assert "remainingItemCount" not in first["metadata"]
    rest = page(world, {"labelSelector": "odd=1", "limit": "2", "continue": first["metadata"]["continue"]})
    assert names(first) + names(rest) == ["c1", "c3", "c5"]
    assert names(page(world, {"fieldSelector": "metadata.name=c2"})) == ["c2"]
    assert names(page(world, {"fieldSelector": "metadata.name!=c2", "labelSelector": "odd=0"})) == ["c0", "c4", "c6"]


def test_no_continue_token_where_nothing_more_matches(world):
    assert "continue" not in page(world, {"labelSelector": "odd=1", "limit": "3"})["metadata"]


def test_a_list_of_the_past(world):
    then = str(world.store.revision)
    world.kube.delete(r.CONFIGMAPS, "c0", "default")
    world.kube.patch(r.CONFIGMAPS, "c1", {"data": {"x": "y"}}, "default")
    past = page(world, {"resourceVersion": then, "resourceVersionMatch": "Exact"})
    assert names(past)[:2] == ["c0", "c1"]
    assert "x" not in past["items"][1].get("data", {})
    assert names(page(world, {"resourceVersion": then}))[0] == "c1"
    world.store.compact()
    with pytest.raises(Expired, match="too old resource version"):
        page(world, {"resourceVersion": then, "resourceVersionMatch": "Exact"})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"labelSelector": "a b"}, "unable to parse requirement: found 'b', expected: in, notin"),
        ({"fieldSelector": "data.x=1"}, '"data.x" is not a known field selector: only "metadata.name"'),
        ({"limit": "many"}, "invalid syntax"),
    ],
)
def test_queries_that_do_not_parse(world, query, message):
    with pytest.raises(BadRequest, match=message):
        page(world, query)


def test_options_that_do_not_fit(world):
    with pytest.raises(Invalid, match="resourceVersionMatch is forbidden unless resourceVersion is provided"):
        page(world, {"resourceVersionMatch": "Exact"})
    with pytest.raises(ApiError, match="Too large resource version") as caught:
        page(world, {"resourceVersion": "99999"})
    assert caught.value.code == 504


def test_pods_can_be_selected_by_where_they_run(world):
    world.kube.create(r.PODS, pod("a", node="gpu-1"))
    world.kube.create(r.PODS, pod("b"))
    found = world.kube.list(r.PODS, fields="spec.nodeName=gpu-1,status.phase=Pending").items
    assert [item["metadata"]["name"] for item in found] == ["a"]
    with pytest.raises(BadRequest, match=r"field label not supported: spec\.image"):
        world.kube.list(r.PODS, fields="spec.image=x")


def test_over_the_wire_items_leave_out_their_type(world):
    items = world.raw("GET", PATH).body["items"]
    assert all("kind" not in item and "apiVersion" not in item for item in items)
    assert world.raw("GET", PATH + "/c1").body["kind"] == "ConfigMap"


def test_metadata_alone(world):
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    body = world.raw("GET", PATH, accept=accept).body
    assert body["kind"] == "PartialObjectMetadataList"
    assert body["items"][0].keys() == {"kind", "apiVersion", "metadata"}
    assert world.raw("GET", PATH, accept="text/html").status == 406
