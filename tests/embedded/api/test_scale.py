"""The scale subresource against what a real API server answered (recording 25)."""

import json
import re
from pathlib import Path

import pytest
from api_world import World

from killcheck.embedded.api.http import User
from killcheck.embedded.api.rbac import Authorizer
from killcheck.embedded.api.store import Store
from killcheck.kube import resources as r
from killcheck.kube.objects import copy, dig

RECORDINGS = Path(__file__).parents[2] / "conformance" / "recordings"
RECORDING = json.loads((RECORDINGS / "25-scale-subresource.json").read_text())
EXECUTOR = User(
    "system:serviceaccount:rec-25:gpu-off",
    ("system:serviceaccounts", "system:serviceaccounts:rec-25", "system:authenticated"),
)
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
#: Before these the recorder scaled up again, without telling.
SCALED_UP_BEFORE = ("empty object", "JSON patch replace on a missing path")
PATH = "/apis/apps/v1/namespaces/rec-25/deployments/vllm/scale"


def recorded_world():
    store = Store()
    world = World(store=store, authorizer=Authorizer(store))
    for obj in RECORDING["setup"]:
        world.kube.create(world.kube.resource_for(obj["apiVersion"], obj["kind"]), obj)
    return world


def who(exchange):
    text = exchange.get("as", "")
    return EXECUTOR if text.startswith("serviceaccount") else ANONYMOUS if "anonymous" in text else None


def ask(world, exchange):
    """Send a recorded request; a resourceVersion 'just read' is the present one."""
    body = exchange.get("request_body")
    if isinstance(body, dict) and dig(body, "metadata", "uid"):
        body = copy(body)
        body["metadata"].pop("uid")
        if "resourceVersion" in body["metadata"] and "stale" not in exchange["note"]:
            body["metadata"]["resourceVersion"] = current(world)
    method, url = exchange["request"].split(" ", 1)
    return world.raw(method, url, body, exchange.get("request_content_type", ""), who(exchange))


def current(world):
    return world.raw("GET", PATH).body["metadata"]["resourceVersion"]


def comparable(body):
    """What of an answer does not depend on uids, versions or how far controllers are."""
    if body.get("kind") == "Scale":
        return {"metadata": sorted(body["metadata"]), "spec": body["spec"], "selector": body["status"]["selector"]}
    if body.get("kind") == "Deployment":
        return {"spec": body["spec"]["replicas"]}
    changing = r"(uid\W+)[0-9a-f-]{36}|(resourceVersion\W+)\d+|(status\W+replicas\W+)\d"
    return json.loads(re.sub(changing, r"\1\2\3", json.dumps(body)))


def test_every_recorded_exchange():
    world = recorded_world()
    for exchange in RECORDING["http"]:
        if exchange.get("note", "").startswith(SCALED_UP_BEFORE):
            world.raw("PATCH", PATH, {"spec": {"replicas": 1}}, "application/merge-patch+json")
        answer = ask(world, exchange)
        what = (exchange["request"], exchange.get("note"), answer.body)
        assert answer.status == exchange["status"], what
        assert answer.headers.get("Warning") == exchange["headers"].get("Warning"), what
        assert comparable(answer.body) == comparable(exchange["body"]), what


@pytest.fixture
def world():
    return recorded_world()


@pytest.mark.parametrize(
    ("resource", "spec"),
    [
        (r.REPLICASETS, {"selector": {"matchLabels": {"a": "b"}}}),
        (r.STATEFULSETS, {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s"}),
        (r.REPLICATIONCONTROLLERS, {"selector": {"a": "b"}}),
    ],
)
def test_whatever_has_replicas_can_be_scaled(world, resource, spec):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    obj = {"metadata": {"name": "x", "namespace": "rec-25"}, "spec": spec | {"replicas": 2, "template": template}}
    world.kube.create(resource, obj)
    after = world.kube.patch(resource, "x", {"spec": {"replicas": 5}}, "rec-25", subresource="scale")
    assert (after["spec"], after["status"]) == ({"replicas": 5}, {"replicas": 0, "selector": "a=b"})
    found = world.kube.get(resource, "x", "rec-25")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (5, 2)


def test_apply_on_scale_conflicts_with_whoever_set_another_number(world):
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "vllm"}, "spec": {"replicas": 3}}
    refused = world.raw("PATCH", f"{PATH}?fieldManager=hpa", body, "application/apply-patch+yaml")
    assert (refused.status, refused.body["details"]["causes"][0]["field"]) == (409, ".spec.replicas")
    forced = world.raw("PATCH", f"{PATH}?fieldManager=hpa&force=true", body, "application/apply-patch+yaml")
    assert (forced.status, forced.body["spec"]) == (200, {"replicas": 3})
    entries = world.raw("GET", PATH.removesuffix("/scale")).body["metadata"]["managedFields"]
    owners = [(e["manager"], e["subresource"]) for e in entries if "f:replicas" in e["fieldsV1"].get("f:spec", {})]
    assert owners == [("hpa", "scale")]
