"""One look of a probe at a container that really runs: a command in it, a connection or a request to its port.

Source: pkg/probe/{exec,http,tcp,grpc} and pkg/kubelet/prober/prober.go of Kubernetes v1.36; cri-client's
remote_runtime.go (the words of a command that took too long).
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from killcheck.clock import Timer
from killcheck.embedded.nodes import grpc_probe, http_probe
from killcheck.embedded.nodes.container import Container
from killcheck.embedded.nodes.environment import expand
from killcheck.embedded.nodes.execution import Enterable
from killcheck.embedded.nodes.probe_exchange import OUTPUT_LIMIT
from killcheck.entries import Assumption
from killcheck.kube.objects import Obj, dig, ref_of
from killcheck.text.durations import go_duration

if TYPE_CHECKING:
    from killcheck.embedded.nodes.host_container import HostContainer
    from killcheck.embedded.nodes.pod_worker import PodWorker

__all__ = ["Answer", "Look", "answers"]

REDIRECTS = 10
#: grpc-go's first pause before it dials again (backoff.DefaultConfig.BaseDelay).
REDIAL_S = 1.0


class Answer(NamedTuple):
    """``error``: the question itself went wrong, and counts for nothing."""

    verdict: Literal["success", "warning", "failure", "error"]
    output: str = ""


def answers(life: PodWorker, container: Container, probe: Obj | None) -> bool:
    """Whether a container really runs and can be asked this; else its answer is assumed."""
    running = container.running
    if not probe or not isinstance(running, Enterable):
        return False
    if "exec" in probe:
        return True
    if "grpc" in probe:
        return running.isolated and _speaks_grpc(life, container)
    action = probe.get("httpGet") or probe.get("tcpSocket")
    return bool(action) and running.isolated and action.get("host", life.pod_ip) == life.pod_ip


def _speaks_grpc(life: PodWorker, container: Container) -> bool:
    if grpc_probe.available():
        return True
    running = cast("HostContainer", container.running)
    who = ref_of({"kind": "Pod"} | life.pod)
    said = f"{who}: its gRPC probe was not asked and counts as passed: install killcheck[grpc]"
    running.runtime.assume(Assumption(said, who))
    return False


class Look:
    """One question, asked at once; ``done`` is told the answer on the loop, once."""

    def __init__(self, life: PodWorker, container: Container, probe: Obj, done: Callable[[Answer], None]) -> None:
        self.life = life
        self.container = container
        self._done = done
        self._over = False
        self._stop: Callable[[], None] = lambda: None
        self.timeout_s = float(probe.get("timeoutSeconds") or 1)
        self._timer: Timer = life.after(self.timeout_s, self._late)
        self._too_late = ""
        if "exec" in probe:
            self._run(dig(probe, "exec", "command", default=[]))
        elif "httpGet" in probe:
            self._get(probe["httpGet"])
        elif "grpc" in probe:
            self._check(probe["grpc"])
        else:
            self._connect(probe["tcpSocket"])

    def cancel(self) -> None:
        """Nobody wants to know any more."""
        self._done = lambda _: None
        self._finish(Answer("error"))

    # -- exec ----------------------------------------------------------------------------------------------
    def _run(self, command: list[str]) -> None:
        running = cast("Enterable", self.container.running)
        static = {v["name"]: str(v.get("value") or "") for v in self.container.spec.get("env") or () if "name" in v}
        argv = [expand(str(word), static) for word in command]
        output = bytearray()
        execution = running.command(argv)
        self._too_late = f'command timed out: "{" ".join(argv)}" timed out after {go_duration(self.timeout_s)}'
        self._stop = execution.leave

        def ended(outcome: int | str) -> None:
            if isinstance(outcome, str):
                why = outcome.partition(": ")[2]
                self._finish(Answer("error", f"rpc error: code = Unknown desc = {why}"))
                return
            text = bytes(output[:OUTPUT_LIMIT]).decode("utf-8", "replace")
            self._finish(Answer("failure" if outcome else "success", text))

        execution.start(lambda _, data: output.extend(data), ended)

    # -- a port --------------------------------------------------------------------------------------------
    def _connect(self, action: Obj) -> None:
        port = self._port(action)
        if port is not None:
            sock = self._open(port, "")
            if sock is not None:
                sock.close()
                self._finish(Answer("success"))

    def _get(self, action: Obj) -> None:
        port = self._port(action)
        if port is None:
            return
        url = http_probe.url_of(
            str(action.get("scheme") or "HTTP").lower(), f"{self.life.pod_ip}:{port}", str(action.get("path") or "/")
        )
        headers = {str(h["name"]).lower(): str(h["value"]) for h in action.get("httpHeaders") or ()}
        self._request(url, headers, 0)

    def _request(self, url: str, headers: dict[str, str], count: int) -> None:
        self._too_late = f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
        parts = urlsplit(url)
        sock = (
            None if self._over else self._open(parts.port or (443 if parts.scheme == "https" else 80), f'Get "{url}": ')
        )
        if sock is None:
            return

        def answered(status: int, location: str, body: bytes, error: str) -> None:
            """Judge one response as the kubelet does: a redirect is followed on the same host alone."""
            if error:
                self._finish(Answer("failure", f'Get "{url}": {error}'))
            elif status >= 400 or status < 200:
                self._finish(Answer("failure", f"HTTP probe failed with statuscode: {status}"))
            elif status < 300:
                self._finish(Answer("success"))
            elif (target := http_probe.redirected(url, location)) is not None:
                if count + 1 < REDIRECTS:
                    self._request(target, headers, count + 1)
                else:
                    self._finish(Answer("failure", f'Get "{location}": stopped after {REDIRECTS} redirects'))
            else:
                text = body[:OUTPUT_LIMIT].decode("utf-8", "replace")
                self._finish(Answer("warning", f"Probe terminated redirects, Response body: {text}"))

        running = cast("HostContainer", self.container.running)
        try:
            exchange = http_probe.Exchange(running, sock, url, headers, answered)
        except http_probe.NoRequestError as error:
            sock.close()
            self._finish(Answer("failure", f'Get "{url}": {error}'))
            return
        self._stop = exchange.close
        exchange.begin()

    # -- gRPC ----------------------------------------------------------------------------------------------
    def _check(self, action: Obj) -> None:
        """A port that refuses is dialled again until there is no time left, and only that is told."""
        running = cast("HostContainer | None", self.container.running)
        port, timeout = int(action["port"]), go_duration(self.timeout_s)
        where = f"{self.life.pod_ip}:{port}"
        self._too_late = f'timeout: failed to connect service "{where}" within {timeout}: context deadline exceeded'

        def connected() -> None:
            self._too_late = grpc_probe.Health(4).verdict(timeout) or ""

        def answered(outcome: grpc_probe.Health | None) -> None:
            if outcome is None:
                self.life.after(REDIAL_S, self._check_again, action)
            else:
                words = outcome.verdict(timeout)
                self._finish(Answer("failure" if words else "success", words or "service healthy"))

        try:
            sock = running.connect(self.life.pod_ip, port) if running is not None else None
        except OSError:
            sock = None
        if running is None or sock is None:
            self.life.after(REDIAL_S, self._check_again, action)
            return
        check = grpc_probe.Check(
            running, sock, where, str(action.get("service") or ""), connected=connected, answered=answered
        )
        self._stop = check.close
        check.begin()

    def _check_again(self, action: Obj) -> None:
        if not self._over:
            self._check(action)

    def _open(self, port: int, before: str) -> socket.socket | None:
        """A connection to a port; None: the failure has been told."""
        running = cast("HostContainer | None", self.container.running)
        where = f"dial tcp {self.life.pod_ip}:{port}"
        try:
            if running is None:
                raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            return running.connect(self.life.pod_ip, port)
        except TimeoutError:
            self._finish(Answer("failure", f"{before}{where}: i/o timeout"))
        except OSError as error:
            self._finish(Answer("failure", f"{before}{where}: connect: {(error.strerror or str(error)).lower()}"))
        return None

    def _port(self, action: Obj) -> int | None:
        asked = action.get("port")
        if isinstance(asked, int):
            return asked
        named = {str(p.get("name")): int(p["containerPort"]) for p in self.container.spec.get("ports") or ()}
        if str(asked) in named:
            return named[str(asked)]
        if str(asked).isdigit():
            return int(str(asked))
        self._finish(Answer("error", f"couldn't find port: {asked}"))
        return None

    # -- the end -------------------------------------------------------------------------------------------
    def _late(self) -> None:
        self._finish(Answer("failure", self._too_late))

    def _finish(self, answer: Answer) -> None:
        if self._over:
            return
        self._over = True
        self._timer.cancel()
        self._stop()
        self._done(answer)
