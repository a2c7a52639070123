"""What is asked of a pod's containers through the API server: logs that go on, commands, parts of the pod itself."""

from datetime import UTC, datetime, timedelta

import pytest
from api_world import ADMIN, World

from killcheck.embedded.api.http import Request
from killcheck.embedded.containerlog import ContainerLog, LogKeeper
from killcheck.kube import resources as r
from killcheck.kube.errors import Invalid

SPEC = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}


class Kubelet:
    text = "one\ntwo\n"

    def log(self, pod, container, *, previous):
        return ContainerLog(("before\n" if previous else self.text).encode())

    def hollow(self, pod, container):
        return False


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
    world.kube.patch(
        r.PODS,
        "p",
        {
            "status": {
                "containerStatuses": [
                    {"name": "c", "state": now, "ready": True, "restartCount": 0, "image": "i", "imageID": ""}
                ]
            }
        },
        "default",
        subresource="status",
    )


def get(world, path, method="GET", user=None, **headers):
    return world.raw(method, f"/api/v1/namespaces/default/pods/p/{path}", user=user, **headers)


def followed(response):
    frames, ended = [], []
    response.stream.subscribe(frames.append, lambda: ended.append(True))
    return frames, ended


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "one\ntwo\n"),
        ("?tailLines=1", "two\n"),
        ("?tailLines=0", ""),
        ("?limitBytes=3", "one"),
        ("?previous=true", "before\n"),
        ("?container=c&previous=true&follow=true", "before\n"),
    ],
)
def test_as_much_of_a_log_as_is_asked_for(world, query, text):
    assert get(world, f"log{query}").body == text


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("?container=x", 400, "container x is not valid for pod p"),
        (
            "?tailLines=-1",
            422,
            'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0',
        ),
        ("?limitBytes=0", 422, 'PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0'),
        ("?tailLines=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("?stream=Stdout", 422, 'PodLogOptions "p" is invalid: stream: Forbidden: may not be specified'),
        ("?stream=All", 422, 'PodLogOptions "p" is invalid: stream: Forbidden: may not be specified'),
        (
            "?timestamps=true&follow=true",
            501,
            "the times at which this container wrote its log are not known: "
            "sinceSeconds, sinceTime and timestamps cannot be served",
        ),
        (
            "?sinceTime=yesterday",
            400,
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": not a time of RFC 3339',
        ),
        (
            "?sinceSeconds=0",
            422,
            'PodLogOptions "p" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0',
        ),
        (
            "?sinceSeconds=1&sinceTime=2030-01-01T00:00:00Z",
            422,
            'PodLogOptions "p" is invalid: : Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified',
        ),
    ],
)
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


def test_a_silent_log_is_looked_at_seldom_and_its_end_is_seen_at_once(world, kubelet):
    looks = []
    read = kubelet.log
    kubelet.log = lambda *args, **more: looks.append(1) or read(*args, **more)
    frames, ended = followed(get(world, "log?follow=true"))
    world.loop.sleep(12 * 3600)
    assert len(looks) < 2000
    kubelet.text += "last\n"
    state(world, {"terminated": {"exitCode": 0}})
    world.loop.sleep(0)
    assert (frames, ended) == (["one\ntwo\n", "last\n"], [True])


class Writing(Kubelet):
    """Wrote at 10 s, 20 s and 30.5 s before ``now``, the second time in two goes and two lines."""

    def __init__(self, now):
        self.kept = LogKeeper(1000)
        for ago, data in ((30.5, b"one\ntw"), (20, b"o\nthree\n"), (20, "vi\u00e9r\n".encode()), (10, b"five\n")):
            self.kept.add(data, now - timedelta(seconds=ago))

    def log(self, pod, container, *, previous):
        return self.kept.log()


@pytest.fixture
def writing(world):
    now = datetime(2030, 1, 1, tzinfo=UTC)
    world.loop.sleep((now - world.loop.now()).total_seconds())
    world.server.kubelets["n"] = made = Writing(now)
    return made


T1, T2, T3 = (f"2029-12-31T23:59:{s}000000Z " for s in ("29.500", "40.000", "50.000"))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("timestamps=true", f"{T1}one\n{T2}two\n{T2}three\n{T2}vi\u00e9r\n{T3}five\n"),
        ("timestamps=true&tailLines=2", f"{T2}vi\u00e9r\n{T3}five\n"),
        ("timestamps=true&tailLines=1&limitBytes=33", f"{T3}fi"),
        ("sinceSeconds=10", "five\n"),
        ("sinceSeconds=9", ""),
        ("sinceSeconds=20&limitBytes=13", "two\nthree\nvi"),
        ("sinceSeconds=20&tailLines=5", "two\nthree\nvi\u00e9r\nfive\n"),
        ("sinceSeconds=15&tailLines=2", "five\n"),
        ("sinceTime=2029-12-31T23:59:40Z", "two\nthree\nvi\u00e9r\nfive\n"),
        ("sinceTime=2029-12-31T23:59:40.9Z", "two\nthree\nvi\u00e9r\nfive\n"),
        ("sinceTime=2030-01-01T01:59:41%2B02:00", "five\n"),
    ],
)
@pytest.mark.parametrize("follow", ["", "&follow=true"])
def test_lines_have_the_time_at_which_they_were_whole(world, writing, query, text, follow):
    answer = get(world, f"log?{query}{follow}")
    if follow:
        assert followed(answer)[0] == [text] * bool(text)
    else:
        assert answer.body == text


def test_a_followed_log_has_times_and_a_limit(world, writing):
    frames, ended = followed(get(world, "log?follow=true&timestamps=true&tailLines=0&limitBytes=40"))
    writing.kept.add(b"six\nseven\n", world.loop.now())
    world.loop.sleep(1)
    assert frames == ["2030-01-01T00:00:00.000000000Z six\n2030-"]
    assert ended == [True]


def test_a_log_that_forgets_its_beginning_is_followed_on(world, writing):
    frames, _ = followed(get(world, "log?follow=true&tailLines=0"))
    for index in range(500):
        writing.kept.add(f"line {index}\n".encode(), world.loop.now())
        world.loop.sleep(0.5)
    assert writing.kept.log().begin
    assert "".join(frames) == "".join(f"line {index}\n" for index in range(500))


def test_one_run_of_a_container_is_followed(world, kubelet):
    frames, ended = followed(get(world, "log?follow=true&tailLines=0"))
    world.kube.patch(
        r.PODS,
        "p",
        {
            "status": {
                "containerStatuses": [
                    {
                        "name": "c",
                        "state": {"running": {}},
                        "ready": True,
                        "restartCount": 1,
                        "image": "i",
                        "imageID": "",
                    }
                ]
            }
        },
        "default",
        subresource="status",
    )
    kubelet.text = "another run\n"
    world.loop.sleep(1)
    assert ("another run\n" in frames, ended) == (False, [True])


def test_of_a_log_as_much_is_kept_as_was_said():
    kept, begun = LogKeeper(12), datetime(2030, 1, 1, tzinfo=UTC)
    for index in range(100):
        kept.add(f"l {index}\n".encode(), begun + timedelta(seconds=index))
    log = kept.log()
    assert [(line.text, line.when) for line in log.lines()] == [
        ("7\n", begun + timedelta(seconds=97)),
        ("l 98\n", begun + timedelta(seconds=98)),
        ("l 99\n", begun + timedelta(seconds=99)),
    ]
    assert (log.end, log.begin, len(log.marks)) == (490, 478, 3)
    assert [line.text for line in log.lines(log.tail(1))] == ["l 99\n"]


def test_a_line_without_an_end_is_not_whole():
    log = ContainerLog(b"a\nb\nc")
    assert log.whole_lines().text == "a\nb\n"
    assert [log.tail(n) for n in range(5)] == [5, 4, 2, 0, 0]
    assert ContainerLog(b"c").whole_lines().text == ""


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
        (
            [{"name": "d", "image": "i", "resources": {"limits": {"cpu": "1"}}}],
            "resources: Forbidden: cannot be set for an Ephemeral Container",
        ),
    ):
        with pytest.raises(Invalid) as caught:
            part(world, "ephemeralcontainers", {"ephemeralContainers": change})
        assert words in caught.value.message
    with pytest.raises(Invalid):
        world.kube.patch(
            r.PODS, "p", {"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}, "default", kind="strategic"
        )


def test_containers_are_resized_within_their_class(world):
    world.kube.create(
        r.PODS,
        {
            "metadata": {"name": "q"},
            "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
            },
        },
        "default",
    )

    def resize(requests, **more):
        return world.kube.patch(
            r.PODS,
            "q",
            {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}} | more]}},
            "default",
            kind="strategic",
            subresource="resize",
        )

    bigger = resize({"cpu": "2"}, image="other")
    assert bigger["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2", "memory": "1Gi"}}
    assert bigger["spec"]["containers"][0]["image"] == "i"
    assert bigger["metadata"]["generation"] == 2
    for requests, words in (
        ({"cpu": None}, "requests: Forbidden: resource requests cannot be removed"),
        ({"example.com/x": "1"}, "only cpu and memory resources are mutable"),
    ):
        with pytest.raises(Invalid, match=words):
            resize(requests)


def test_the_keys_of_tokens_are_served(world):
    world.server.issuer = type(
        "Issuer", (), {"jwks": lambda self: {"keys": []}, "discovery": lambda self, uri: {"jwks_uri": uri}}
    )()
    keys = world.server.handle(Request("GET", "/openid/v1/jwks", user=ADMIN))
    assert (keys.body, keys.headers["Content-Type"]) == ({"keys": []}, "application/jwk-set+json")
    found = world.server.handle(
        Request("GET", "/.well-known/openid-configuration", headers={"host": "127.0.0.1:1"}, user=ADMIN)
    )
    assert found.body == {"jwks_uri": "https://127.0.0.1:1/openid/v1/jwks"}


def test_the_index_names_what_is_served(world):
    paths = world.raw("GET", "/").body["paths"]
    assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3", "/readyz"} <= set(paths)
    assert paths == sorted(paths)
