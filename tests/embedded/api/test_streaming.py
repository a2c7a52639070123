"""Requests that become conversations: exec, attach and port-forward over WebSockets and SPDY, to the byte."""

import json
import struct
import zlib

import pytest
from api_world import World
from hypothesis import given
from hypothesis import strategies as st

from killcheck.embedded.api.http import Finished, Heard, Opened, User
from killcheck.embedded.api.status import StatusError
from killcheck.embedded.spdy import DICTIONARY, Spdy, SpdyError
from killcheck.embedded.websocket import Tunnel, WebSocket, accept_key, wire_of
from killcheck.kube import resources as r

V5 = {"connection": "Upgrade", "upgrade": "websocket", "sec_websocket_protocol": "v5.channel.k8s.io,v4.channel.k8s.io"}
SPDY = {"connection": "Upgrade", "upgrade": "SPDY/3.1"}
TUNNEL = {"connection": "Upgrade", "upgrade": "websocket", "sec_websocket_protocol": "SPDY/3.1+portforward.k8s.io"}


class Process:
    """What a kubelet runs, as far as the API server sees it."""

    def __init__(self):
        self.heard, self.started, self.left, self.size, self.over = b"", False, False, None, False

    def start(self, said, ended):
        self.started, self.said, self.ended = True, said, ended

    def feed(self, data):
        self.heard += data

    def end_input(self):
        self.over = True

    def resize(self, width, height):
        self.size = (width, height)

    def resume(self):
        self.resumed = True

    def leave(self):
        self.left = True


class Kubelet:
    def __init__(self):
        self.process, self.ports = Process(), {}

    def execute(self, pod, container, command, *, stdin, tty):
        if command == ["no"]:
            raise StatusError(501, "NotImplemented", "hollow", details={})
        self.asked = (pod["metadata"]["name"], container, command, stdin, tty)
        return self.process

    def attach(self, pod, container, *, stdin):
        self.asked = (pod["metadata"]["name"], container, stdin)
        return self.process

    def forward(self, pod):
        return lambda port: self.ports.setdefault(port, Process())


@pytest.fixture
def world():
    made = World()
    made.kube.create(
        r.PODS,
        {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}},
        "default",
    )
    made.server.kubelets["n"] = Kubelet()
    return made


@pytest.fixture
def process(world):
    return world.server.kubelets["n"].process


def ask(world, path, user=None, method="GET", **headers):
    return world.raw(method, f"/api/v1/namespaces/default/pods/p/{path}", user=user, **headers)


def begin(answer):
    assert answer.status == 101, answer.body
    frames, ended = [], []
    answer.conversation.subscribe(frames.append, lambda: ended.append(True))
    return answer.conversation, frames, ended


# -- exec and attach -----------------------------------------------------------------------------------------
def test_a_command_hears_and_says_on_its_channels(world, process):
    answer = ask(world, "exec?command=echo&command=hi&stdin=true&stdout=true&stderr=true", **V5)
    assert answer.headers == {"Upgrade": "websocket", "Sec-WebSocket-Protocol": "v5.channel.k8s.io"}
    assert world.server.kubelets["n"].asked == ("p", "c", ["echo", "hi"], True, False)
    assert not process.started
    talk, frames, ended = begin(answer)
    assert process.started
    assert frames == [(1, b"")]
    talk.told(Heard(0, b"in"))
    talk.told(Finished(0))
    process.said(1, b"out")
    process.said(2, b"err")
    assert (process.heard, process.over, frames[1:], ended) == (b"in", True, [(1, b"out"), (2, b"err")], [])
    process.ended(3)
    outcome = json.loads(frames[3][1])
    assert (frames[3][0], outcome["reason"]) == (3, "NonZeroExitCode")
    # streamtranslator.go: the API server tells what the kubelet told it.
    assert outcome["message"] == "command terminated with non-zero exit code: command terminated with exit code 3"
    assert outcome["details"] == {"causes": [{"reason": "ExitCode", "message": "3"}]}
    assert ended == [True]


def test_what_nobody_asked_for_is_not_said(world, process):
    talk, frames, _ = begin(ask(world, "exec?command=x&stderr=1", **V5))
    talk.told(Heard(0, b"in"))
    process.said(1, b"out")
    process.said(2, b"err")
    assert (process.heard, frames) == (b"", [(2, b""), (2, b"err")])
    process.ended(0)
    assert json.loads(frames[2][1]) == {"metadata": {}, "status": "Success"}


def test_a_terminal_has_a_size_and_one_output(world, process):
    talk, frames, _ = begin(ask(world, "exec?command=sh&stdin=1&stdout=1&stderr=1&tty=1", **V5))
    talk.told(Heard(4, b'{"Width":80,"Height":24}{"Wid'))
    assert process.size == (80, 24)
    talk.told(Heard(4, b'th":100,"Height":30}\n'))
    assert process.size == (100, 30)
    process.said(2, b"err")
    assert frames == [(1, b"")]


def test_a_command_that_never_began_says_why(world, process):
    _, frames, _ = begin(ask(world, "exec?command=x&stdout=1", **V5))
    process.ended("error executing command in container: failed to exec in container")
    assert json.loads(frames[1][1])["message"] == (
        "Internal error occurred: Internal error occurred: error executing command in container: failed to exec in "
        "container"
    )


def test_before_v5_the_kubelets_own_report_is_told(world, process):
    headers = V5 | {"sec_websocket_protocol": "v4.channel.k8s.io"}
    _, frames, _ = begin(ask(world, "exec?command=sh&command=-c&stdout=1", **headers))
    process.ended(3)
    assert json.loads(frames[1][1])["message"] == (
        "command terminated with non-zero exit code: error executing command [sh -c], exit code 3"
    )
    _, frames, _ = begin(ask(world, "exec?command=sh&stdout=1", **headers))
    process.ended("error executing command in container: failed")
    assert json.loads(frames[1][1])["message"] == (
        "Internal error occurred: error executing command in container: failed"
    )


def test_a_client_that_goes_takes_its_command_with_it(world, process):
    talk, frames, ended = begin(ask(world, "exec?command=x&stdout=1", **V5))
    talk.close()
    process.said(1, b"late")
    assert (process.left, frames, ended) == (True, [(1, b"")], [])


def test_a_container_is_attached_to(world, process):
    talk, frames, ended = begin(ask(world, "attach?stdin=1&stdout=1", **V5))
    assert world.server.kubelets["n"].asked == ("p", "c", True)
    talk.told(Heard(0, b"in"))
    process.said(1, b"out")
    process.ended(0)
    assert (process.heard, frames[1], ended) == (b"in", (1, b"out"), [True])


def test_over_spdy_a_command_begins_when_all_its_streams_are_there(world, process):
    answer = ask(
        world,
        "exec?command=x&stdin=1&stdout=1",
        method="POST",
        **SPDY,
        x_stream_protocol_version="v5.channel.k8s.io, v4.channel.k8s.io",
    )
    assert answer.headers == {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}
    talk, frames, _ = begin(answer)
    for channel, kind in ((1, "error"), (3, "stdin")):
        talk.told(Opened(channel, {"streamtype": kind}))
        assert not process.started
    talk.told(Opened(5, {"streamtype": "stdout"}))
    assert process.started
    talk.told(Heard(3, b"in"))
    process.said(1, b"out")
    process.ended(0)
    assert process.heard == b"in"
    assert [frames[0], *frames[2:]] == [(5, b"out"), (1, None), (5, None)]
    assert frames[1][0] == 1


@pytest.mark.parametrize(
    ("path", "headers", "code", "words"),
    [
        ("exec?command=x&stdout=1", {}, 400, "Upgrade request required"),
        ("exec?command=x&stdout=1", V5 | {"sec_websocket_protocol": "mqtt"}, 400, "not mqtt"),
        ("exec?command=x&stdout=1", SPDY, 400, "header X-Stream-Protocol-Version does not exist"),
        (
            "exec?command=x&stdout=1",
            SPDY | {"x_stream_protocol_version": "v1.channel.k8s.io"},
            403,
            "unable to negotiate protocol: client supports [v1.channel.k8s.io], server accepts [v4.channel.k8s.io]",
        ),
        ("exec?command=x", V5, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("exec?stdout=1", V5, 400, "you must specify at least 1 command for the container"),
        ("exec?command=no&stdout=1", V5, 501, "hollow"),
        ("exec?command=x&container=y", V5, 400, "container y is not valid for pod p"),
        ("portforward", V5, 400, 'query parameter "port" is required'),
        ("portforward?ports=x", V5, 400, 'cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax'),
        ("portforward?ports=80,70000", V5, 400, 'parsing "70000": value out of range'),
        ("portforward?ports=0", V5, 400, 'port "0" must be > 0'),
    ],
)
def test_what_is_refused_is_refused_before_the_upgrade(world, path, headers, code, words):
    if path.startswith("portforward"):
        headers = headers | {"sec_websocket_protocol": "v4.channel.k8s.io"}
    answer = ask(world, path, method="POST", **headers)
    assert answer.status == code
    assert words in answer.body["message"]


def test_a_pod_that_has_ended_takes_no_command(world):
    world.kube.patch(r.PODS, "p", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    assert ask(world, "exec?command=x&stdout=1", **V5).body["message"] == (
        "cannot exec into a container in a completed pod; current phase is Succeeded"
    )


@pytest.mark.parametrize("subresource", ["exec?command=x&stdout=1", "attach?stdout=1", "portforward"])
def test_who_may_only_get_may_not_connect(world, subresource):
    """pkg/registry/core/pod/rest/authorize.go, AuthorizePodWebsocketUpgradeCreatePermission (on since v1.35)."""

    class OnlyGet:
        allowed_verbs = ("get",)

        def decide(self, user, wanted):
            return type("Decision", (), {"allowed": wanted.verb in self.allowed_verbs, "reason": "not bound"})()

    world.server.authorizer = OnlyGet()
    user = User("reader", ("system:authenticated",))
    answer = ask(world, subresource, user=user, **(TUNNEL if subresource == "portforward" else V5))
    assert (answer.status, answer.body["message"]) == (403, 'pods "p" is forbidden: not bound')
    OnlyGet.allowed_verbs = ("get", "create")
    assert ask(world, subresource, user=user, **(TUNNEL if subresource == "portforward" else V5)).status == 101


# -- port-forward --------------------------------------------------------------------------------------------
def stream(channel, kind, port="80", request="0"):
    return Opened(channel, {"streamtype": kind, "port": port, "requestid": request})


def test_each_connection_is_a_pair_of_streams(world):
    answer = ask(world, "portforward", **TUNNEL)
    assert answer.headers["Sec-WebSocket-Protocol"] == "SPDY/3.1+portforward.k8s.io"
    talk, frames, ended = begin(answer)
    talk.told(stream(1, "error"))
    talk.told(Finished(1))  # kubectl says nothing on it
    assert world.server.kubelets["n"].ports == {}
    talk.told(stream(3, "data"))
    port = world.server.kubelets["n"].ports[80]
    assert port.started
    talk.told(Heard(3, b"GET /"))
    talk.told(Finished(3))
    port.said(b"200")
    port.ended("")
    assert (port.heard, port.over) == (b"GET /", True)
    assert frames == [(3, b"200"), (1, None), (3, None)]
    talk.told(stream(5, "error", "81", "1"))
    talk.told(stream(7, "data", "81", "1"))
    world.server.kubelets["n"].ports[81].ended("error forwarding port 81")
    assert frames[3:] == [(5, b"error forwarding port 81"), (5, None), (7, None)]
    assert ended == []
    talk.told(stream(9, "error", "0", "2"))
    assert frames[6:] == [(9, None)]


def test_a_client_that_goes_ends_its_connections(world):
    talk, _, _ = begin(ask(world, "portforward", **TUNNEL))
    talk.told(stream(1, "error"))
    talk.told(stream(3, "data"))
    talk.close()
    assert world.server.kubelets["n"].ports[80].left


def test_two_channels_a_port_as_the_python_client_has_them(world):
    talk, frames, ended = begin(
        ask(world, "portforward?ports=80,81", **V5 | {"sec_websocket_protocol": "v4.channel.k8s.io"})
    )
    assert frames == [(0, b"\x50\0"), (1, b"\x50\0"), (2, b"\x51\0"), (3, b"\x51\0")]
    ports = world.server.kubelets["n"].ports
    talk.told(Heard(2, b"x"))
    assert (ports[80].heard, ports[81].heard) == (b"", b"x")
    ports[80].ended("")
    assert ended == []
    ports[81].ended("")
    assert ended == [True]


# -- bytes ---------------------------------------------------------------------------------------------------
class SpdyClient:
    """The client's side, as github.com/moby/spdystream writes it."""

    def __init__(self):
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def syn(self, channel, headers, flags=0):
        words = b"".join(struct.pack("!I", len(word)) + word.encode() for pair in headers.items() for word in pair)
        block = struct.pack("!I", len(headers)) + words
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack("!IIBB", channel, 0, 0, 0) + packed
        return struct.pack("!HHI", 0x8003, 1, flags << 24 | len(body)) + body

    @staticmethod
    def data(channel, data, flags=0):
        return struct.pack("!II", channel, flags << 24 | len(data)) + data


def conversation():
    client = SpdyClient()
    said = (
        client.syn(1, {"streamtype": "error", "port": "80"}, 1)
        + client.syn(3, {"streamtype": "data", "port": "80"})
        + client.data(3, b"hello")
        + struct.pack("!HHII", 0x8003, 6, 4, 7)
        + client.data(3, b"", 1)
        + struct.pack("!HHIII", 0x8003, 3, 8, 1, 5)
        + struct.pack("!HHIII", 0x8003, 7, 8, 3, 0)
    )
    told = [
        Opened(1, {"streamtype": "error", "port": "80"}),
        Finished(1),
        Opened(3, {"streamtype": "data", "port": "80"}),
        Heard(3, b"hello"),
        Finished(3),
        Finished(1),
    ]
    return said, told


@given(st.lists(st.integers(1, 120), max_size=5))
def test_spdy_is_understood_however_it_is_cut(cuts):
    said, told = conversation()
    spdy, events = Spdy(), []
    for cut in (*cuts, len(said)):
        events += list(spdy.received(said[:cut]))
        said = said[cut:]
    assert [event for event in events if not isinstance(event, bytes)] == told
    replies = [event for event in events if isinstance(event, bytes)]
    assert [reply[:4] for reply in replies] == [b"\x80\x03\0\x02", b"\x80\x03\0\x02", b"\x80\x03\0\x06"]
    assert replies[2][8:] == struct.pack("!I", 7)
    assert spdy.closed


def test_spdy_says_data_in_frames_and_nothing_after_the_end():
    spdy = Spdy()
    list(spdy.received(SpdyClient().syn(1, {"a": "b"})))
    frames = spdy.message(1, b"x" * 70000)
    assert frames[:8] == struct.pack("!II", 1, 65536)
    assert frames[8 + 65536 : 16 + 65536] == struct.pack("!II", 1, 70000 - 65536)
    assert spdy.message(1, None) == struct.pack("!II", 1, 1 << 24)
    assert spdy.message(1, b"late") == b""
    assert spdy.close() == struct.pack("!HHIII", 0x8003, 7, 8, 1, 0)


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n" + bytes(1 << 20),
        struct.pack("!HHI", 0x8002, 6, 0),
        struct.pack("!HHI", 0x8003, 1, 12) + bytes(12),
    ],
)
def test_what_is_no_spdy_is_refused_or_waited_for(said):
    spdy = Spdy()
    if said.startswith(b"GET"):  # a data frame of 2 MB, as far as anybody can tell
        assert list(spdy.received(said)) == []
    else:
        with pytest.raises(SpdyError):
            list(spdy.received(said))


def masked(opcode, payload, final=True):
    head = bytes([(0x80 if final else 0) | opcode, 0x80 | len(payload)]) + b"\1\2\3\4"
    return head + bytes(byte ^ (1 + at % 4) for at, byte in enumerate(payload))


def test_websocket_messages_are_channels_closes_and_parts():
    wire = WebSocket()
    said = (
        masked(2, b"\0he", final=False)
        + masked(0, b"llo")
        + masked(1, b"\0text")
        + masked(2, b"\xff\0")
        + masked(9, b"ping")
        + masked(8, b"\x03\xe8")
    )
    events = list(wire.received(said))
    assert events == [Heard(0, b"hello"), Heard(0, b"text"), Finished(0), b"\x8a\x04ping", b"\x88\x02\x03\xe8"]
    assert wire.closed
    assert wire.message(1, b"late") == b""
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # RFC 6455, 1.3


def test_before_v5_no_channel_can_be_closed_and_base64_is_text():
    wire = wire_of("websocket", "v4.channel.k8s.io")
    assert list(wire.received(masked(2, b"\xff\0"))) == [Heard(255, b"\0")]
    wire = wire_of("websocket", "v4.base64.channel.k8s.io")
    assert wire.message(1, b"hi") == b"\x81\x051aGk="
    assert list(wire.received(masked(1, b"0aGk=") + masked(1, b"0%"))) == [Heard(0, b"hi")]


def test_spdy_inside_a_websocket():
    said, told = conversation()
    wire = wire_of("websocket", "SPDY/3.1+portforward.k8s.io")
    assert isinstance(wire, Tunnel)
    events = []
    while said:
        part, said = said[:100], said[100:]
        events += list(wire.received(masked(2, part)))
    assert [event for event in events if not isinstance(event, bytes)] == told
    assert wire.closed
    assert isinstance(wire_of("SPDY/3.1", ""), Spdy)
