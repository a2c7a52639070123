"""What is asked of a pod's containers through the API server: logs that go on, commands, parts of the pod itself."""

import json

import pytest
from api_world import ADMIN, World

from killcheck.embedded.api.http import Request
from killcheck.embedded.api.status import StatusError
from killcheck.kube import resources as r
from killcheck.kube.errors import Invalid

SPEC = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}


class Execution:
    def __init__(self, kubelet):
        self.kubelet = kubelet

    def start(self):
        self.kubelet.started = True

    def look(self):
        return self.kubelet.output, self.kubelet.ended

    def kill(self):
        self.kubelet.killed = True


class Kubelet:
    text, output, ended, started, killed = "one\ntwo\n", "", None, False, False

    def log(self, pod, container, *, previous):
        return "before\n" if previous else self.text

    def execute(self, pod, container, command):
        self.command = command
        if command == ["no"]:
            raise StatusError(501, "NotImplemented", "hollow", details={})
        return Execution(self)


@pytest.fixture
def kubelet():
    return Kubelet()


@pytest.fixture
def world(kubelet):
    made = World()
    made.kube.create(r.PODS, {"metadata": {"name": "p"}, "spec": SPEC}, "default")
    made.server.kubelets["n"] = kubelet
    state(made, {"running": {}})
    return made


def state(world, now):
    world.kube.patch(r.PODS, "p", {"status": {"containerStatuses": [{
        "name": "c", "state": now, "ready": True, "restartCount": 0, "image": "i", "imageID": ""}]}}, "default",
        subresource="status")


def get(world, path, method="GET", user=None, **headers):
    return world.raw(method, f"/api/v1/namespaces/default/pods/p/{path}", user=user, **headers)


def followed(response):
    frames, ended = [], []
    response.stream.subscribe(frames.append, lambda: ended.append(True))
    return frames, ended


@pytest.mark.parametrize(("query", "text"), [
    ("", "one\ntwo\n"), ("?tailLines=1", "two\n"), ("?tailLines=0", ""), ("?limitBytes=3", "one"),
    ("?previous=true", "before\n"), ("?container=c&previous=true&follow=true", "before\n"),
])
def test_as_much_of_a_log_as_is_asked_for(world, query, text):
    assert get(world, f"log{query}").body == text


@pytest.mark.parametrize(("query", "code", "words"), [
    ("?container=x", 400, "container x is not valid for pod p"),
    ("?tailLines=-1", 422,
     'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0'),
    ("?limitBytes=0", 422, 'PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0'),
    ("?tailLines=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ("?stream=Some", 422, 'PodLogOptions "p" is invalid: stream: Unsupported value: "Some": supported values: "All", '
     '"Stdout", "Stderr"'),
    ("?timestamps=true", 501, "the embedded cluster keeps a container's log as one text without times: sinceSeconds, "
     "sinceTime, timestamps and a single stream cannot be served"),
])
def test_what_cannot_be_answered_of_a_log(world, query, code, words):
    answer = get(world, f"log{query}")
    assert (answer.status, answer.body["message"]) == (code, words)


def test_a_log_is_followed_until_its_container_ends(world, kubelet):
    frames, ended = followed(get(world, "log?follow=true&tailLines=1"))
    assert (frames, ended) == (["two\n"], [])
    kubelet.text += "three\n"
    world.loop.sleep(1)
    assert (frames, ended) == (["two\n", "three\n"], [])
    kubelet.text += "four\n"
    state(world, {"terminated": {"exitCode": 0}})
    world.loop.sleep(1)
    assert (frames, ended) == (["two\n", "three\n", "four\n"], [True])


def test_who_stops_reading_hears_no_more(world, kubelet):
    response = get(world, "log?follow=true")
    frames, ended = followed(response)
    response.stream.close()
    kubelet.text += "three\n"
    world.loop.sleep(5)
    assert (frames, ended) == (["one\ntwo\n"], [])


def test_a_followed_pod_that_goes_ends_its_log(world):
    _, ended = followed(get(world, "log?follow=true"))
    world.kube.delete(r.PODS, "p", "default", grace_s=0)
    world.loop.sleep(1)
    assert ended == [True]


WEBSOCKET = {"upgrade": "websocket", "sec_websocket_protocol": "v5.channel.k8s.io"}


def test_a_command_writes_and_ends(world, kubelet):
    answer = get(world, "exec?command=echo&command=hi&stdout=true", **WEBSOCKET)
    assert (answer.status, answer.headers["Sec-WebSocket-Protocol"]) == (101, "v5.channel.k8s.io")
    assert kubelet.command == ["echo", "hi"]
    assert not kubelet.started
    frames, ended = followed(answer)
    assert kubelet.started
    kubelet.output = "hi\n"
    world.loop.sleep(1)
    kubelet.ended = 3
    world.loop.sleep(1)
    assert frames[:2] == [(1, b""), (1, b"hi\n")]
    assert frames[2][0] == 3
    assert json.loads(frames[2][1])["details"] == {"causes": [{"reason": "ExitCode", "message": "3"}]}
    assert ended == [True]


def test_a_command_that_never_began_says_so(world, kubelet):
    kubelet.ended = "failed to exec in container"
    frames, _ = followed(get(world, "exec?command=x", **WEBSOCKET))
    assert json.loads(frames[-1][1])["message"] == (
        "Internal error occurred: error executing command in container: failed to exec in container")


def test_a_command_is_killed_with_its_connection(world, kubelet):
    answer = get(world, "exec?command=x", **WEBSOCKET)
    followed(answer)
    answer.stream.close()
    assert kubelet.killed


@pytest.mark.parametrize(("query", "headers", "code", "words"), [
    ("?command=x", {}, 400, "Upgrade request required"),
    ("?command=x", {"upgrade": "SPDY/3.1"}, 400, "unable to upgrade: the embedded cluster speaks WebSocket"),
    ("", WEBSOCKET, 400, "you must specify at least 1 command for the container"),
    ("?command=x&stdin=true", WEBSOCKET, 501, "without standard input"),
    ("?command=no", {"upgrade": "SPDY/3.1"}, 501, "hollow"),
    ("?command=x&container=y", WEBSOCKET, 400, "container y is not valid for pod p"),
])
def test_commands_that_are_refused(world, query, headers, code, words):
    answer = get(world, f"exec{query}", method="POST", **headers)
    assert answer.status == code
    assert words in answer.body["message"]


def test_a_pod_that_has_ended_takes_no_command(world):
    world.kube.patch(r.PODS, "p", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    assert get(world, "exec?command=x").body["message"] == (
        "cannot exec into a container in a completed pod; current phase is Succeeded")


def part(world, subresource, patch):
    return world.kube.patch(r.PODS, "p", {"spec": patch}, "default", kind="strategic", subresource=subresource)


def test_ephemeral_containers_are_added_and_never_changed(world):
    debug = {"name": "debug", "image": "busybox:1"}
    made = part(world, "ephemeralcontainers", {"ephemeralContainers": [debug], "hostNetwork": True})
    assert [c["name"] for c in made["spec"]["ephemeralContainers"]] == ["debug"]
    assert made["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert "hostNetwork" not in made["spec"]
    for change, words in (
            ([debug | {"image": "other:1"}], 'existing ephemeral containers "debug" may not be changed'),
            ([{"name": "debug", "$patch": "delete"}], 'existing ephemeral containers "debug" may not be removed'),
            ([{"name": "c", "image": "i"}], 'spec.ephemeralContainers[0].name: Duplicate value: "c"'),
            ([{"name": "d", "image": "i", "targetContainerName": "x"}], 'targetContainerName: Not found: "x"'),
            ([{"name": "d", "image": "i", "resources": {"limits": {"cpu": "1"}}}],
             "resources: Forbidden: cannot be set for an Ephemeral Container")):
        with pytest.raises(Invalid) as caught:
            part(world, "ephemeralcontainers", {"ephemeralContainers": change})
        assert words in caught.value.message
    with pytest.raises(Invalid):
        world.kube.patch(r.PODS, "p", {"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}, "default",
                         kind="strategic")


def test_containers_are_resized_within_their_class(world):
    world.kube.create(r.PODS, {"metadata": {"name": "q"}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}, "default")

    def resize(requests, **more):
        return world.kube.patch(r.PODS, "q", {"spec": {"containers": [
            {"name": "c", "resources": {"requests": requests}} | more]}}, "default", kind="strategic",
            subresource="resize")

    bigger = resize({"cpu": "2"}, image="other")
    assert bigger["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2", "memory": "1Gi"}}
    assert bigger["spec"]["containers"][0]["image"] == "i"
    assert bigger["metadata"]["generation"] == 2
    for requests, words in (({"cpu": None}, "requests: Forbidden: resource requests cannot be removed"),
                            ({"example.com/x": "1"}, "only cpu and memory resources are mutable")):
        with pytest.raises(Invalid, match=words):
            resize(requests)


def test_the_keys_of_tokens_are_served(world):
    world.server.issuer = type("Issuer", (), {
        "jwks": lambda self: {"keys": []}, "discovery": lambda self, uri: {"jwks_uri": uri}})()
    keys = world.server.handle(Request("GET", "/openid/v1/jwks", user=ADMIN))
    assert (keys.body, keys.headers["Content-Type"]) == ({"keys": []}, "application/jwk-set+json")
    found = world.server.handle(Request(
        "GET", "/.well-known/openid-configuration", headers={"host": "127.0.0.1:1"}, user=ADMIN))
    assert found.body == {"jwks_uri": "https://127.0.0.1:1/openid/v1/jwks"}


def test_the_index_names_what_is_served(world):
    paths = world.raw("GET", "/").body["paths"]
    assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3", "/readyz"} <= set(paths)
    assert paths == sorted(paths)
