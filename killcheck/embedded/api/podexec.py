"""pods/NAME/exec and pods/NAME/attach: a command beside a container's own, and the container's own, talked to.

Source: k8s.io/apiserver/pkg/util/proxy/websocket.go, k8s.io/cri-streaming/pkg/streaming/remotecommand and
``streamLocation`` in pkg/registry/core/pod/strategy.go of Kubernetes v1.36; the channel protocols v4 and v5 (KEP-4006).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from killcheck.embedded.api import status
from killcheck.embedded.api.body import dumps
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.http import Finished, Heard, Opened, Request, Response
from killcheck.embedded.api.podlogs import container_of
from killcheck.embedded.api.status import StatusError
from killcheck.embedded.api.upgrades import upgrade
from killcheck.kube.objects import Obj, dig

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core
    from killcheck.embedded.api.kubelet_endpoint import Execution, KubeletEndpoint

__all__ = ["PROTOCOLS", "STDERR", "STDIN", "STDOUT", "Session", "Wanted", "attach_to", "exec_in"]

#: Subprotocols of a WebSocket that are understood, and versions of the protocol over SPDY.
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io")
VERSIONS = ("v4.channel.k8s.io",)
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
_TYPES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
_OVER = ("Succeeded", "Failed")


class Wanted(Struct, frozen=True):
    """Which streams a client asks for."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @classmethod
    def by(cls, request: Request) -> Wanted:
        """From the query. Raises StatusError 400 where that is none."""
        stdin, stdout, stderr, tty = (request.flag(name) for name in ("stdin", "stdout", "stderr", "tty"))
        if not (stdin or stdout or stderr):
            raise StatusError(400, "BadRequest", "you must specify at least 1 of stdin, stdout, stderr", details={})
        return cls(stdin, stdout, stderr and not tty, tty)

    @property
    def channels(self) -> set[int]:
        """Their numbers, with the one for the outcome and, of a terminal, the one for its size."""
        asked = ((STDIN, self.stdin), (STDOUT, self.stdout), (STDERR, self.stderr), (RESIZE, self.tty))
        return {ERROR} | {number for number, wanted in asked if wanted}


class Session:
    """An exec or attach under way: a ``http.Conversation``.

    ``waits``: the client opens a channel for every stream first (SPDY); else their numbers are the channels.
    ``translated``: the API server speaks with the kubelet for the client (v5), and so reports its report.
    """

    def __init__(
        self,
        execution: Execution,
        wanted: Wanted,
        *,
        waits: bool,
        translated: bool,
        command: Sequence[str],
    ) -> None:
        self.execution = execution
        self.wanted = wanted
        self.command = command
        self._translated = translated
        self._waits = waits
        self._channels: dict[int, int] = {} if waits else {number: number for number in _TYPES.values()}
        self._on_frame: Callable[[Any], bool | None] = lambda _: None
        self._on_end: Callable[[], None] = lambda: None
        self._sizes = ""

    def subscribe(self, on_frame: Callable[[Any], bool | None], on_end: Callable[[], None]) -> None:
        """Begin as soon as there are channels for everything."""
        self._on_frame, self._on_end = on_frame, on_end
        if not self._waits:
            # The sign that the connection stands.
            on_frame((STDOUT if self.wanted.stdout else STDERR if self.wanted.stderr else ERROR, b""))
            self.execution.start(self._said, self._ended)

    def told(self, event: Opened | Heard | Finished) -> None:
        """What the client did."""
        if isinstance(event, Opened):
            number = _TYPES.get(event.headers.get("streamtype", "").lower())
            if number is not None and self._waits:
                self._channels[number] = event.channel
                if self.wanted.channels <= set(self._channels):
                    self._waits = False
                    self.execution.start(self._said, self._ended)
            return
        number = next((number for number, channel in self._channels.items() if channel == event.channel), None)
        if number == STDIN and self.wanted.stdin:
            if isinstance(event, Heard):
                self.execution.feed(event.data)
            else:
                self.execution.end_input()
        elif number == RESIZE and isinstance(event, Heard):
            self._resized(event.data)

    def close(self) -> None:
        """The client has gone."""
        self._on_frame, self._on_end = (lambda _: None), (lambda: None)
        self.execution.leave()

    def resume(self) -> None:
        """The client has heard everything."""
        self.execution.resume()

    # -- inside --------------------------------------------------------------------------------------------
    def _said(self, number: int, data: bytes) -> bool | None:
        if number in self.wanted.channels and number in self._channels:
            return self._on_frame((self._channels[number], data))
        return None

    def _ended(self, outcome: int | str) -> None:
        self._on_frame((self._channels[ERROR], dumps(self._outcome(outcome)).encode()))
        for number in (ERROR, STDOUT, STDERR):
            if number in self._channels:
                self._on_frame((self._channels[number], None))
        self._on_end()

    def _outcome(self, code: int | str) -> Obj:
        if isinstance(code, str):
            failed = status.internal(code)
            return status.internal(str(failed)).status if self._translated else failed.status
        if not code:
            return {"metadata": {}, "status": "Success"}
        words = (
            f"command terminated with exit code {code}"
            if self._translated
            else (f"error executing command [{' '.join(self.command)}], exit code {code}")
        )
        return {
            "metadata": {},
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": f"command terminated with non-zero exit code: {words}",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }

    def _resized(self, data: bytes) -> None:
        self._sizes += data.decode("utf-8", "replace")
        with suppress(ValueError):
            while self._sizes.strip():
                size, end = json.JSONDecoder().raw_decode(self._sizes.lstrip())
                self._sizes = self._sizes.lstrip()[end:]
                if isinstance(size, dict):
                    self.execution.resize(int(size.get("Width", 0)), int(size.get("Height", 0)))


def exec_in(server: Core, call: Call) -> Response:
    """Begin a command. Raises StatusError."""
    pod, container, kubelet = _place(server, call, "exec")
    command = call.request.query.get("command") or []
    if not command:
        raise StatusError(400, "BadRequest", "you must specify at least 1 command for the container", details={})
    wanted = Wanted.by(call.request)
    return _answer(call, wanted, kubelet.execute(pod, container, command, stdin=wanted.stdin, tty=wanted.tty))


def attach_to(server: Core, call: Call) -> Response:
    """Talk to a container's own process. Raises StatusError."""
    pod, container, kubelet = _place(server, call, "attach")
    wanted = Wanted.by(call.request)
    return _answer(call, wanted, kubelet.attach(pod, container, stdin=wanted.stdin))


def _place(server: Core, call: Call, subresource: str) -> tuple[Obj, str, KubeletEndpoint]:
    """The pod, the container that is meant, and who runs it. Raises StatusError."""
    server.authorize_connect(call)
    pod = server.find(call)
    container = container_of(pod, call.request.param("container"))
    server.admit(call, "CONNECT", None, pod, dry_run=False, subresource=subresource)
    kubelet = server.kubelet_of(pod)
    if subresource == "exec" and dig(pod, "status", "phase") in _OVER:
        raise status.bad_request(
            f"cannot exec into a container in a completed pod; current phase is {pod['status']['phase']}"
        )
    return pod, container, kubelet


def _answer(call: Call, wanted: Wanted, execution: Execution) -> Response:
    # Last of all: kubectl asks again over SPDY after any refusal, and shows what it hears then.
    headers = upgrade(call.request, PROTOCOLS, VERSIONS)
    session = Session(
        execution,
        wanted,
        waits=headers["Upgrade"] != "websocket",
        command=call.request.query.get("command") or (),
        translated=headers.get("Sec-WebSocket-Protocol", "").startswith("v5."),
    )
    return Response(101, None, headers, conversation=session)
