"""From maps to Go's structures, in the words of the converter, and proxies that are located and not followed."""

import pytest
from api_world import World

from killcheck.embedded.api.unstructured import Misfit, restored


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"replicas": 1.5}, "cannot convert float64 to int32"),
        ({"replicas": "1"}, "unrecognized type: int32"),
        ({"paused": 1}, "unrecognized type: bool"),
        ({"selector": 1}, "cannot restore struct from: int64"),
        ({"selector": {"matchLabels": []}}, "cannot restore map from slice"),
        ({"template": {"spec": {"containers": {}}}}, "cannot restore slice from map"),
        ({"template": {"metadata": {"uid": 0}}}, "cannot convert int64 to types.UID"),
    ],
)
def test_what_does_not_fit_is_refused(spec, words):
    with pytest.raises(Misfit) as caught:
        restored("V1Deployment", {"spec": spec})
    assert str(caught.value) == words


def test_whole_numbers_and_nulls_are_taken():
    obj = {"spec": {"replicas": 2.0, "paused": None, "unknown": {}}}
    assert restored("V1Deployment", obj) == {"spec": {"replicas": 2, "paused": None, "unknown": {}}}


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("pods/ftp:p:80/proxy/", 400, 'invalid pod request "ftp:p:80"'),
        ("pods/p/proxy/metrics", 404, 'pods "p" not found'),
        ("services/s:81/proxy/", 503, 'no service port 81 found for service "s"'),
        ("services/s:80/proxy/", 503, 'no endpoints available for service "s"'),
    ],
)
def test_a_proxy_that_leads_nowhere(path, code, words):
    world = World()
    service = {"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}
    world.raw("POST", "/api/v1/namespaces/default/services", service)
    endpoints = {"metadata": {"name": "s"}}
    world.raw("POST", "/api/v1/namespaces/default/endpoints", endpoints)
    answer = world.raw("GET", f"/api/v1/namespaces/default/{path}")
    assert (answer.status, answer.body["message"]) == (code, words)


def test_what_a_proxy_would_answer_is_said_to_be_nobodys():
    world = World()
    world.raw("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    answer = world.raw("GET", "/api/v1/nodes/n/proxy/stats/summary")
    assert answer.status == 501
    assert "nothing answers nodes" in answer.body["message"]
