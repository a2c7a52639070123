"""Commands in containers that really run, clients attached to them, connections to their ports."""

import errno
import textwrap
import threading
from pathlib import Path

import pytest
from host_world import MODES, Host
from node_world import pod

from killcheck.clock import wall_seconds
from killcheck.embedded.nodes.execution import NotRun
from killcheck.kube import resources as r

LIMIT_S = 120.0


class Talk:
    """What a command says, until it has ended."""

    def __init__(self, world, execution):
        self.world, self.execution = world, execution
        self.heard = {1: b"", 2: b""}
        self.outcome = None
        self._said = threading.Event()
        with world.loop.entered():
            execution.start(self._on_said, self._on_end)

    def _on_said(self, number, data):
        self.heard[number] += data
        self._said.set()

    def _on_end(self, outcome):
        self.outcome = outcome

    def until(self, what):
        end = wall_seconds() + LIMIT_S
        while not what():
            assert wall_seconds() < end, (self.heard, self.outcome)
            self.world.loop.run_until(lambda: what() or self._said.is_set(), 0.5)
            self._said.clear()
        return self

    def end(self):
        return self.until(lambda: self.outcome is not None)


@pytest.fixture
def running(host):
    host.add(
        pod(
            "w",
            policy="Never",
            image="bash:5.2",
            main={
                "command": ["bash", "-c", "while read line; do echo heard $line; done; echo over; exit 5"],
                "stdin": True,
                "stdinOnce": True,
                "env": [{"name": "GREETING", "value": "hello"}],
            },
        )
    )
    host.run(5)
    return next(iter(host.host.processes.values()))


def test_a_command_has_the_containers_variables_and_streams_of_its_own(host, running):
    talk = Talk(host, running.command(["bash", "-c", "echo $GREETING; echo no >&2; exit 3"])).end()
    assert (talk.heard, talk.outcome) == ({1: b"hello\n", 2: b"no\n"}, 3)


def test_a_command_hears_what_it_is_told_and_that_it_was_all(host, running):
    talk = Talk(host, running.command(["bash", "-c", "cat; echo end"], stdin=True))
    sent = b"".join(b"%d " % n for n in range(60_000))  # far more than a pipe holds
    talk.execution.feed(sent)
    talk.execution.end_input()
    talk.end()
    assert (talk.heard[1] == sent + b"end\n", talk.outcome) == (True, 0)


def test_a_command_without_input_finds_none(host, running):
    assert Talk(host, running.command(["bash", "-c", "cat; echo end"])).end().heard[1] == b"end\n"


def test_a_terminal_has_a_size_and_echoes(host, running):
    script = "read x; shopt -s checkwinsize; (:); echo $LINES $COLUMNS"
    talk = Talk(host, running.command(["bash", "-c", script], tty=True))
    talk.execution.resize(90, 33)
    talk.execution.feed(b"typed\r")
    talk.end()
    assert talk.heard[2] == b""
    assert talk.heard[1].startswith(b"typed\r\n")
    assert b"33 90" in talk.heard[1]


def test_a_command_waits_for_a_client_that_is_slow(host, running):
    heard = []
    execution = running.command(["bash", "-c", "while :; do echo 0123456789012345678901234567890123456789; done"])
    with host.loop.entered():
        execution.start(lambda _, data: heard.append(len(data)) or sum(heard) < 200_000, lambda _: None)
    before = -1
    while sum(heard) != before or not before:
        before = sum(heard)
        host.loop.run_until(lambda: False, 3)
    assert before < 400_000
    execution.resume()
    end = wall_seconds() + LIMIT_S
    while sum(heard) == before and wall_seconds() < end:
        host.loop.run_until(lambda: False, 1)
    assert sum(heard) > before
    with host.loop.entered():
        execution.leave()


def test_a_command_that_is_not_there(host, running):
    assert 'exec: "nope": executable file not found in $PATH' in Talk(host, running.command(["nope"])).end().outcome


def is_over(pid):
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # also one that goes while it is being read
        return True


def test_a_command_ends_with_whoever_asked_for_it(host, running):
    talk = Talk(host, running.command(["bash", "-c", "echo $$; sleep 600"]))
    talk.until(lambda: talk.heard[1])
    pid = talk.execution.pid
    with host.loop.entered():
        talk.execution.leave()
    talk.until(lambda: is_over(pid))
    assert talk.outcome is None
    assert running.commands == set()


def test_a_command_ends_with_its_container(host, running):
    talk = Talk(host, running.command(["bash", "-c", "echo began; sleep 600"]))
    talk.until(lambda: talk.heard[1])
    pid = talk.execution.pid
    host.kube.delete(r.PODS, "w", "team", grace_s=1)
    host.run(10)
    talk.until(lambda: not Path(f"/proc/{pid}").exists())  # killed with the others; its turn to end may come later
    assert running.commands == set()


def test_the_containers_own_process_is_talked_to(host, running):
    first, second = Talk(host, running.attach(stdin=True)), Talk(host, running.attach(stdin=False))
    first.execution.feed(b"one\n")
    first.until(lambda: b"heard one\n" in first.heard[1])
    second.execution.feed(b"two\n")  # nobody listens to that
    second.execution.leave()
    with host.loop.entered():
        first.execution.end_input()  # stdinOnce
    first.end()
    assert (first.heard[1], first.outcome) == (b"heard one\nover\n", 0)
    assert second.heard[1] == b"heard one\n"
    assert host.run_until_over("w")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
    assert Talk(host, running.attach(stdin=True)).end().outcome == 0  # it is too late


def test_time_stands_still_while_a_command_works(host, running):
    begun = host.loop.monotonic()
    Talk(host, running.command(["bash", "-c", "for ((i = 0; i < 50000; i++)); do :; done; sleep 2"])).end()
    assert 2 <= host.loop.monotonic() - begun < 30


def test_a_port_is_that_of_the_container_alone():
    if MODES[0].marks[0].args[0]:
        pytest.skip("no user namespaces here")
    with Host("namespaces") as host:
        script = "import socket as s; l = s.create_server(('', 8080)); l.accept()[0].sendall(b'hi'); l.accept()"
        host.add(pod("w", policy="Never", image="python:3.12-slim", main={"command": ["python3", "-c", script]}))
        host.run(10)
        running = next(iter(host.host.processes.values()))
        with running.connect("127.0.0.1", 8080) as sock:
            assert sock.recv(9) == b"hi"
        with pytest.raises(OSError, match="refused") as caught:
            running.connect("127.0.0.1", 8081)
        assert caught.value.errno == errno.ECONNREFUSED


def test_without_a_network_of_its_own_no_port_is_a_containers():
    with Host("unisolated") as host:
        host.add(pod("w", policy="Never", main={"command": ["sh", "-c", textwrap.dedent("sleep 600")]}))
        host.run(5)
        with pytest.raises(NotRun, match="no network of their own"):
            next(iter(host.host.processes.values())).connect("127.0.0.1", 8080)
