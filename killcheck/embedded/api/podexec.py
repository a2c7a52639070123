"""POST and GET pods/NAME/exec: a command beside a container's own, over a WebSocket.

Source: k8s.io/apiserver/pkg/util/wsstream, k8s.io/cri-streaming's remotecommand, and the channel protocols v4 and v5
(KEP-4006). The process runs where the container's command runs: with its image, environment, mounts and identity, in
a root of its own. There is no terminal and no standard input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from killcheck.embedded.api import status
from killcheck.embedded.api.body import dumps
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.podlogs import Growing, container_of
from killcheck.embedded.api.status import StatusError
from killcheck.kube.objects import Obj, dig

if TYPE_CHECKING:
    from killcheck.embedded.api.server import ApiServer

__all__ = ["PROTOCOLS", "Execution", "Session", "exec_in"]

#: Subprotocols that are understood, the best first.
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDOUT, ERROR = 1, 3
_OVER = ("Succeeded", "Failed")


class Execution(Protocol):
    """A command in a container."""

    def start(self) -> None:
        """Begin it. Never raises: what goes wrong is what it writes and how it ends."""

    def look(self) -> tuple[str, int | str | None]:
        """What it has written so far, and how it ended: its exit code, or why it never began; None: it has not."""

    def kill(self) -> None:
        """End it; idempotent."""


class Session:
    """What an exec answers: a ``http.Stream`` whose frames are (channel, bytes)."""

    def __init__(self, server: ApiServer, execution: Execution) -> None:
        self.execution = execution
        self._text = Growing(server.loop, self._look)
        self._ended: int | str | None = None
        self._told = 0

    def subscribe(self, on_frame: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        """Output as it comes, then the status."""
        def end() -> None:
            on_frame((ERROR, dumps(_outcome(self._ended or 0)).encode()))
            on_end()

        on_frame((STDOUT, b""))  # the sign that the connection stands
        self.execution.start()
        self._text.subscribe(lambda text: on_frame((STDOUT, text.encode())), end)

    def close(self) -> None:
        """The reader has gone, and the command with it."""
        self._text.close()
        self.execution.kill()

    def _look(self) -> tuple[str, bool]:
        text, self._ended = self.execution.look()
        new, self._told = text[self._told:], max(self._told, len(text))
        return new, self._ended is not None


def exec_in(server: ApiServer, call: Call) -> Response:
    """Begin a command. Raises StatusError."""
    request = call.request
    pod = server.reader.find(call)
    if dig(pod, "status", "phase") in _OVER:
        raise status.bad_request(f"cannot exec into a container in a completed pod; current phase is "
                                 f"{pod['status']['phase']}")
    container = container_of(pod, request.param("container"))
    server.admit(call, "CONNECT", None, pod, dry_run=False, subresource="exec")
    node = str(dig(pod, "spec", "nodeName", default=""))
    if not node:
        raise status.bad_request(f"pod {call.name} does not have a host assigned")
    command = request.query.get("command") or []
    if not command:
        raise StatusError(400, "BadRequest", "you must specify at least 1 command for the container", details={})
    if request.flag("stdin") or request.flag("tty"):
        raise StatusError(
            501, "NotImplemented", "the embedded cluster runs a command without standard input and without a "
            "terminal: leave out --stdin and --tty", details={})
    kubelet = server.kubelets.get(node)
    if kubelet is None:
        raise StatusError(500, "", f"error dialing backend: dial tcp: lookup {node}: no such host")
    execution = kubelet.execute(pod, container, command)
    # Last of all: kubectl asks again over SPDY after any refusal, and shows what it hears then.
    protocols = [name.strip() for name in request.headers.get("sec-websocket-protocol", "").split(",")]
    chosen = next((name for name in PROTOCOLS if name in protocols), "")
    upgrade = request.headers.get("upgrade", "").lower()
    if not upgrade:
        raise status.bad_request("Upgrade request required")
    if upgrade != "websocket" or not chosen:
        raise status.bad_request(
            f"unable to upgrade: the embedded cluster speaks WebSocket with {' or '.join(PROTOCOLS)} (kubectl does "
            f"since v1.31), not {upgrade} with {', '.join(filter(None, protocols)) or 'none'}")
    return Response(101, None, {"Sec-WebSocket-Protocol": chosen}, stream=Session(server, execution))


def _outcome(code: int | str) -> Obj:
    if isinstance(code, str):
        return status.internal(f"error executing command in container: {code}").status
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}
