"""Executors really run: containers' commands as processes on this host, in the cluster's time.

A process holds the loop: virtual time stands still while it works and moves while it only waits - in a shim that asked
to be woken, on an open watch, or asleep for whatever reason with nothing under way at the API server.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from killcheck.clock import wall_seconds
from killcheck.embedded.containerlog import ContainerLog, LogKeeper
from killcheck.embedded.limits import DRILL_IT
from killcheck.embedded.nodes import beyond, commands, proctree, quiescence, sandbox
from killcheck.embedded.nodes.container_access import Attached, ExecCommand
from killcheck.embedded.nodes.execution import Exit, Launch, NotRun
from killcheck.embedded.nodes.host_container import HostContainer
from killcheck.embedded.nodes.hostfiles import HIDDEN
from killcheck.embedded.nodes.hostprograms import CLOUD_CLIS, INSTALLERS, python
from killcheck.embedded.nodes.network import AGENT_PORT, DNS_IP, Network, known_silent
from killcheck.embedded.nodes.sandbox import Plan, Scratch
from killcheck.embedded.nodes.shims import Wiring
from killcheck.embedded.nodes.spawnerclient import SetUpError, SpawnerClient
from killcheck.embedded.nodes.streams import OUTPUT_LIMIT, Streams
from killcheck.embedded.pki import SERVICE_IP
from killcheck.entries import Assumption
from killcheck.executor import proxies
from killcheck.executor.proxies import API_NAMES
from killcheck.kube.objects import Obj, dig, ref_of, uid_of
from killcheck.kube.quantities import parse

if TYPE_CHECKING:
    from killcheck.embedded.nodes.host_side import HostSide

__all__ = ["HostProcess", "lacks"]

#: Wall seconds that a program which polls has for its next request after something changed.
POLL_S = 1.5
#: Bytes of a container's log that are kept, and of its termination message.
LOG_LIMIT = 1 << 20
MESSAGE_LIMIT = 4096
#: Bytes beyond its memory limit that a container may hold: what keeping the cluster's time takes of its processes.
MEMORY_SLACK = 8 << 20
#: Bytes of memory that a container of this host may hold, whatever its manifest allows.
MEMORY_MOST = 4 << 30
#: And all that run here together.
MEMORY_IN_ALL = 8 << 30
#: How fast memory can be taken at most: a kernel empties each page first, on all processors at once.
MEMORY_MOST_BYTES_PER_S = (16 << 30) * (os.cpu_count() or 1)
#: Bytes of a program's own files that count in the most it ever held, which is all that is known of one that has ended.
FILES_SLACK = 24 << 20


class HostProcess(HostContainer):
    """One container's processes: an ``execution.Running``, and an ``agent.Asker``."""

    def __init__(
        self,
        runtime: HostSide,
        launch: Launch,
        network: Network,
        on_exit: Callable[[Exit], None],
        on_unknown: Callable[[str], None],
    ) -> None:
        super().__init__(runtime, launch, network)
        self.asleep = 0
        self.polling = False
        self.behind_s = launch.behind_s
        self._on_exit = on_exit
        self._on_unknown = on_unknown
        self._output = LogKeeper(LOG_LIMIT)
        self._written = 0
        self._lock = threading.Lock()
        self._hold: Any = None
        self._rest = quiescence.Rest(runtime.loop)
        self._turn: tuple[int, float] | None = None
        #: Signals that are on their way to it.
        self._signals = 0
        self._scratch: Scratch | None = None
        self._memory = _memory_limit(launch)
        self._memory_most = self._memory or math.inf
        self._out_of_memory = False
        #: Whether it has run since somebody looked at its memory; until which wall second it stays below its limits.
        self._unseen = False
        self._within_memory_until = -math.inf
        #: The limit of ours by which it was stopped; None: none.
        self._exceeded: str | None = None
        #: Bytes of memory that it held when it was last looked at.
        self.held = 0

    # -- starting ------------------------------------------------------------------------------------------
    def begin_isolated(self, spawner: SpawnerClient) -> None:
        """Raises StartError, SetUpError."""
        network = self.network
        scratch = self._make_scratch(spawner)
        wiring = Wiring(
            "127.0.0.1",
            AGENT_PORT,
            self.key,
            f"{HIDDEN}/bash",
            f"{HIDDEN}/python",
            network.service_ip,
            f"{network.service_ip}:443",
        )
        with _room():
            plan = sandbox.isolated(self.launch, wiring, self.runtime.host, scratch, DNS_IP)
        plan.env = {**network.external.endpoints.environment, **plan.env}
        self.isolated = True
        sockets = self._spawn(
            spawner,
            plan,
            {
                "isolated": True,
                "uid": self.launch.run_as or 0,
                "hostname": self.launch.hostname,
                "steps": plan.steps,
                "network": network.keeper,
                **({} if network.keeper else network.inside()),
            },
        )
        if not network.keeper:
            network.serve(spawner, sockets)

    def begin_relocated(self, spawner: SpawnerClient) -> None:
        """Raises StartError, NotRun."""
        self.isolated = False
        commands.check(self.launch)
        scratch = self._make_scratch(spawner)
        bash = self.runtime.host.find("bash")
        if bash is None:
            raise NotRun("this host has no bash, which the containers' clock needs")
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        wiring = Wiring(
            "127.0.0.1",
            spawner.agent_port,
            self.key,
            bash,
            python(),
            SERVICE_IP,
            f"{SERVICE_IP}:443",
            moved=sandbox.moves(self.launch, scratch),
            api_address=["127.0.0.1", listener.getsockname()[1]],
        )
        with contextlib.ExitStack() as opened, _room():
            opened.enter_context(listener)
            plan = sandbox.relocated(self.launch, wiring, self.runtime.host, scratch)
            opened.pop_all()
        endpoints = self.network.external.endpoints
        ports = {place.port: self.network.way_out(spawner, place.target) for place in endpoints.places}
        plan.env = {**endpoints.relocated(ports), **plan.env}
        self.network.lead_to_api(listener)
        try:
            self._spawn(spawner, plan, {"isolated": False})
        except SetUpError as error:
            self.discard()
            raise NotRun(f"this host could not set its container up: {error}") from error

    def _spawn(self, spawner: SpawnerClient, plan: Plan, extra: Obj) -> list[socket.socket]:
        streams = self.streams = Streams(spawner.io, self._heard, stdin=self.launch.stdin, tty=self.launch.tty)
        env = plan.env if not streams.tty else {"TERM": "xterm"} | plan.env
        job = {
            "do": "spawn",
            "id": self.name,
            "argv": plan.argv,
            "env": env,
            "cwd": plan.cwd,
            "tty": streams.tty,
            "stdio": streams.stdio,
        } | extra
        self.plan = plan
        self.network.members.add(self.key)
        self.runtime.processes[self.key] = self
        spawner.known[self.name] = self
        try:
            self.pid, sockets = spawner.spawn(job, streams.files)
        except BaseException:
            self._forget()
            raise
        streams.begin()
        self._hold = self.loop.hold(self.ahead)
        return sockets

    def _make_scratch(self, spawner: SpawnerClient) -> Scratch:
        pod = spawner.files / uid_of(self.launch.pod)
        own = pod / self.name
        with _room():
            own.mkdir(parents=True, exist_ok=True)
        self._scratch = Scratch(pod, own)
        return self._scratch

    # -- the Running protocol ------------------------------------------------------------------------------
    def terminate(self) -> None:
        """SIGTERM to the container's first process."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to all of them."""
        self._signal(signal.SIGKILL)

    def log(self) -> ContainerLog:
        """Both streams as they came."""
        self._drain()
        with self._lock:
            return self._output.log()

    # -- what else happens in it -----------------------------------------------------------------------------
    def command(self, argv: list[str], *, stdin: bool = False, tty: bool = False) -> ExecCommand:
        """A command in the container, not begun yet."""
        return ExecCommand(self, argv, stdin=stdin, tty=tty)

    def attach(self, *, stdin: bool) -> Attached:
        """A client at its own process."""
        return Attached(self, stdin=stdin)

    def resized(self, spec: Obj) -> None:
        """It may hold as much memory as its container's spec says now."""
        self._memory = _limit(spec)
        self._within_memory_until = -math.inf
        self._memory_most = max(self._memory or math.inf, self._memory_most)

    def discard(self) -> None:
        """Kill it and say nothing more of it."""
        self._over = True
        self._on_exit = lambda _: None
        self.kill()
        self._forget()

    # -- the Asker protocol --------------------------------------------------------------------------------
    def reach(self, host: str, port: str) -> str:
        """What happens to a connection."""
        network = self.launch.network
        name = host.rstrip(".").lower()
        if not self.isolated:  # with a network of its own a program finds out by itself
            name = proxies.proxy_for(self.launch.env, name) or name
            name = self.launch.hosts.get(name, name)
        named = name in API_NAMES
        if named and not self.isolated and not self.launch.cluster_dns:
            self.network.asks_its_own(name)
            return "nodns"
        if named and network.dns != "allow":
            if not self.isolated:
                return "nodns"
            # With a name server of its own it finds out by itself; what it says of a time-out is told here.
            return "unanswered" if network.dns == "drop" else "allow"
        if named or name == self.network.service_ip:
            lost = self.runtime.wire.handshakes
            if network.api == "allow" and lost is not None and lost():
                return "mute"
            slow = named and self.isolated and network.api == "allow" and self.runtime.wire.names is not None
            return "unanswered" if slow else network.api
        if self._swallows(name):
            if network.api == network.dns == "allow" and not known_silent(name):
                self.runtime.limits.meet(self.who, f"it connects to {name}, and nobody but the API server answers here")
            return "drop"
        if self.isolated or name in ("127.0.0.1", "localhost", "::1"):
            return "allow"
        self.network.resolved_outside(name)
        return "nodns"

    def calls_kubectl(self, words: list[str]) -> None:
        """What kubectl may find missing by itself is written down."""
        found = beyond.asked_of_kubectl(words, self.runtime.kinds)
        if found is not None:
            self.runtime.limits.meet(self.who, *found)

    def _swallows(self, host: str) -> bool:
        """Whether packets to an address are lost: there is nothing beyond the cluster to answer or to refuse them."""
        try:
            address = ip_address(host)
        except ValueError:
            return False
        known = {DNS_IP, *self.launch.services.values(), *self.network.external.reachable()}
        return not address.is_loopback and host not in known

    def calm(self) -> bool:
        """Whether nothing holds the API server's answers up."""
        network, wire = self.launch.network, self.runtime.wire
        held_up = (wire.interceptor, wire.handshakes, wire.names) != (None, None, None)
        return self.isolated and network.api == network.dns == "allow" and not held_up

    def last_status(self) -> int:
        """The last HTTP status."""
        return self.client.last_status

    def lacks(self, argv: list[str]) -> str | None:
        """Somebody may answer for a cloud; else the outcome is unknown: the process ends, the container stays."""
        name, unheard = argv[0], ""
        if name in CLOUD_CLIS and self.runtime.clouds is not None:
            answer = self.runtime.clouds(self.launch, argv)
            if not isinstance(answer, str):
                return f"{answer[0]} {' '.join(answer[1].split())}"
            unheard = f" ({answer})" if answer else ""
        why = f"it calls {name}, which its image has and which cannot be run here{unheard}"
        why += f": {DRILL_IT}" if name in CLOUD_CLIS else f" (install {name} on this machine, or say --exec docker)"
        if (unseen := self.runtime.host.keeps_out(name)) is not None:
            why = unseen
        elif not self.launch.contents.known:
            why = lacks(self.launch, name)
        if name in INSTALLERS:
            why = f"it fetches programs with {name} when it runs, and nothing can be fetched here"
            why += f": build them into its image, or {DRILL_IT}"
        self.loop.call_soon(self.abandon, why)
        return None

    def stands(self, name: str) -> None:
        """A stand-in of killcheck's own runs: what was seen rests on it."""
        self.loop.call_soon(
            self.runtime.assume,
            Assumption(
                f"this machine has no {name}: killcheck's own stand-in made the requests that the image's {name} would"
            ),
        )

    def signalled(self) -> None:
        """The helper has passed a signal on (any thread)."""
        with self._lock:
            self._signals -= 1

    def lost(self) -> None:
        """The helper that ran it has gone."""
        self.tell(self.abandon, "the helper process that ran it has gone")

    def abandon(self, why: str) -> None:
        """Stop it: how it would have ended is not known."""
        if not self._over:
            self.discard()
            self._on_unknown(why)

    # -- waiting -------------------------------------------------------------------------------------------
    def ahead(self) -> float:
        """By how many seconds time may move as far as it is concerned; 0 while any of it works."""
        # In a network that several share nobody tells whose watch it is.
        known = self.asleep + (self.client.watches if len(self.network.members) < 2 else 0)
        if self.runtime.hurried:
            self._rest.limit_s = quiescence.HURRIED_S
        found = self._rest.ahead_s(self.pid, busy=self._is_busy(), known=known)
        self._unseen |= self._rest.ran
        if self._unseen and (found or wall_seconds() >= self._within_memory_until):
            self._watch_memory()
            found = found if self._rest.spent else 0.0
        if 0 < found < math.inf:  # nothing is known of what it waits for, unless it has just been told to
            waits_s = self.client.waits_s(self.loop)
            found = found if waits_s is None else waits_s
        if self._rest.spent and not self.runtime.hurried:
            who = ref_of({"kind": "Pod"} | self.launch.pod)
            said = f"{who} worked for {quiescence.LIMIT_S:.0f} s without a pause: time moved on meanwhile"
            self.runtime.assume(Assumption(said, who))
        return found

    def _is_busy(self) -> bool:
        """Whether something is under way for it that is not seen in its own processes."""
        now = wall_seconds()
        return (
            self._over
            or self._signals > 0
            or self.client.busy
            or self.network.external.busy
            or self._has_turn(now)
            or self._has_pending()
            or now < self.network.news_until
        )

    def _watch_memory(self) -> None:
        self._unseen = False
        if self._out_of_memory or self._over:
            return
        self.held = held = proctree.memory(self.pid)
        everything = self.runtime.processes.values()
        room = min(
            self._memory or math.inf, MEMORY_MOST, MEMORY_IN_ALL - sum(process.held for process in everything) + held
        )
        self._within_memory_until = wall_seconds() + (room - held) / MEMORY_MOST_BYTES_PER_S
        if self._memory and held > self._memory:
            self._out_of_memory = True
            self.kill()
        elif held > MEMORY_MOST and proctree.memory_shared_out(self.pid) > MEMORY_MOST:
            self.tell(self.abandon, f"it took more than {MEMORY_MOST >> 20} MiB of memory and was stopped")
        elif (
            sum(process.held for process in everything) > MEMORY_IN_ALL
            and sum(proctree.memory_shared_out(process.pid) for process in everything) > MEMORY_IN_ALL
        ):
            most = max(everything, key=lambda process: process.held)
            most.tell(most.abandon, f"all that runs here took more than {MEMORY_IN_ALL >> 20} MiB of memory: stopped")

    def _has_pending(self) -> bool:
        if self.runtime.spawner is not None and self.runtime.spawner.io.busy:
            return True
        if not self.network.pending:
            return False
        poll = select.poll()
        for sock in self.network.pending:
            if sock.fileno() != -1:
                poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))

    def give_turn(self) -> None:
        """Something happened that a program which polls may be waiting for."""
        if self.polling:
            self._turn = (self.client.requests, wall_seconds() + POLL_S)

    def _has_turn(self, now: float) -> bool:
        if self._turn is None:
            return False
        requests, until = self._turn
        if self.client.requests != requests or now > until:
            self._turn = None
            return False
        return True

    # -- its end -------------------------------------------------------------------------------------------
    def ended(self, code: int, number: int, peak: int) -> None:
        """The spawner has seen it end (any thread)."""
        self._over = True
        if self._memory and peak > self._memory_most + FILES_SLACK:
            self._out_of_memory = True  # between two looks
        self._drain()
        self.tell(self._report, code, number)

    def _report(self, code: int, number: int) -> None:
        if self.key not in self.runtime.processes:
            return
        message = self._message(code)
        self._drain()
        lacked = beyond.lacked(self.launch, code, self.log().text)
        self._forget()
        if self._exceeded is not None:
            self._on_unknown(self._exceeded)
            return
        if lacked:
            self._on_unknown(lacks(self.launch, lacked))
            return
        if self._out_of_memory:
            self._on_exit(Exit(137, 9, reason="OOMKilled", message=message))
            return
        self._on_exit(Exit(code, number, message=message))

    def _message(self, code: int) -> str:
        """The termination message: the file's, or the log's end where the container asks for that."""
        text = ""
        if self._scratch is not None:
            with contextlib.suppress(OSError), (self._scratch.own / "termination-log").open("rb") as file:
                text = file.read(MESSAGE_LIMIT).decode("utf-8", "replace")
        containers: list[Obj] = self.launch.pod["spec"]["containers"]
        spec = next((c for c in containers if c["name"] == self.launch.container), {})
        if not text and code and dig(spec, "terminationMessagePolicy") == "FallbackToLogsOnError":
            text = "\n".join(self.log().text[-2048:].splitlines()[-80:])
        return text

    def _forget(self) -> None:
        self.runtime.processes.pop(self.key, None)
        for command in list(self.commands):
            command.leave()
        for client in list(self.attached):
            client.over()
        self.attached.clear()
        if self.streams is not None:
            self.streams.close()
        if self._hold is not None:
            self._hold.release()
        self.network.members.discard(self.key)
        if not self.network.keeper:
            self.network.close()
        if self.runtime.spawner is not None:
            self.runtime.spawner.known.pop(self.name, None)
        if self._scratch is not None:
            shutil.rmtree(self._scratch.own, ignore_errors=True)

    # -- inside --------------------------------------------------------------------------------------------
    def _signal(self, number: int) -> None:
        spawner = self.runtime.spawner
        if spawner is not None and self.pid:
            with self._lock:
                self._signals += 1
            spawner.send({"do": "signal", "id": self.name, "signal": int(number), "group": number == signal.SIGKILL})

    def _drain(self) -> None:
        """Read what there is."""
        if self.streams is not None:
            self.streams.drain()

    def _heard(self, number: int, data: bytes) -> None:
        with self._lock:
            if self._written > OUTPUT_LIMIT:
                return
            self._written += len(data)
            flooded = self._written > OUTPUT_LIMIT
            self._output.add(data, self.loop.now())
        if flooded:
            # Said before it is killed: that end is ours, whichever of the two is dealt with first.
            self._exceeded = f"it wrote more than {OUTPUT_LIMIT >> 20} MiB and was stopped"
            self.kill()
            self.tell(self.abandon, self._exceeded)
            return
        for client in list(self.attached):
            client.said(number, data)


@contextlib.contextmanager
def _room() -> Iterator[None]:
    """The disk of a run's containers may be full of what they have written. Raises SetUpError where it is."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise SetUpError(
            "the programs of this run have filled the disk that they share, or made too many files"
        ) from error


def lacks(launch: Launch, name: str) -> str:
    """Why a program or file that is not found here says nothing of where it was to be found."""
    if "/" in name or launch.contents.known:
        known = "the commands are known, and not the files," if launch.contents.known else "nothing is known"
        return (
            f"it wants {name}, which no manifest brings: {known} of image {launch.image}, which may well have it; "
            "--exec docker runs the image itself"
        )
    if launch.brings is not None:
        return f"it calls {name}, which this host has not: {launch.image} may well have it; {launch.brings}/{name}"
    return (
        f"it calls {name}, which this host has not: nothing is known of image {launch.image}, which may well have "
        "it; --exec docker runs the image itself"
    )


def _memory_limit(launch: Launch) -> float:
    """Bytes that the container's processes may hold; 0: as much as they like."""
    spec = launch.pod["spec"]
    containers: list[Obj] = [*spec.get("initContainers", ()), *spec["containers"]]
    return _limit(next((c for c in containers if c["name"] == launch.container), {}))


def _limit(spec: Obj) -> float:
    limit = dig(spec, "resources", "limits", "memory")
    return float(parse(limit)) + MEMORY_SLACK if limit is not None else 0.0
