"""pods/NAME/portforward: connections to what listens in a pod.

Source: k8s.io/cri-streaming/pkg/streaming/portforward (httpstream.go: streams in pairs, over SPDY or SPDY inside a
WebSocket; websocket.go: two channels a port) and ``PortForwardLocation`` in pkg/registry/core/pod/strategy.go of
Kubernetes v1.36.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from killcheck.embedded.api import status
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.http import Finished, Heard, Opened, Response
from killcheck.embedded.api.upgrades import TUNNEL, upgrade

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core
    from killcheck.embedded.api.kubelet_endpoint import Carried

__all__ = ["Forwarding", "forward"]

PROTOCOL = "portforward.k8s.io"
CHANNELS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")


class _Pair(Struct):
    """The two channels of one connection; -1: not opened yet."""

    port: int
    data: int = -1
    error: int = -1
    carried: Carried | None = None


class Forwarding:
    """Connections under way: a ``http.Conversation``. ``ports``: those of the query, where there are channels for each.

    ``connect`` makes a connection to a port.
    """

    def __init__(self, connect: Callable[[int], Carried], ports: list[int]) -> None:
        self._connect = connect
        self._pairs = {str(at): _Pair(port, 2 * at, 2 * at + 1) for at, port in enumerate(ports)}
        self._counted = bool(ports)
        self._on_frame: Callable[[Any], bool | None] = lambda _: None
        self._on_end: Callable[[], None] = lambda: None

    def subscribe(self, on_frame: Callable[[Any], bool | None], on_end: Callable[[], None]) -> None:
        """Connect to the ports that are known."""
        self._on_frame, self._on_end = on_frame, on_end
        for key, pair in list(self._pairs.items()):
            on_frame((pair.data, struct.pack("<H", pair.port)))
            on_frame((pair.error, struct.pack("<H", pair.port)))
            self._begin(key, pair)

    def told(self, event: Opened | Heard | Finished) -> None:
        """What the client did."""
        if isinstance(event, Opened):
            self._opened(event)
            return
        pair = next((pair for pair in self._pairs.values() if pair.data == event.channel), None)
        if pair is None or pair.carried is None:
            return
        if isinstance(event, Heard):
            pair.carried.feed(event.data)
        else:
            pair.carried.end_input()

    def resume(self) -> None:
        """The client has heard everything."""
        for pair in list(self._pairs.values()):
            if pair.carried is not None:
                pair.carried.resume()

    def close(self) -> None:
        """The client has gone."""
        self._on_frame, self._on_end = (lambda _: None), (lambda: None)
        for pair in self._pairs.values():
            if pair.carried is not None:
                pair.carried.leave()
        self._pairs.clear()

    # -- inside --------------------------------------------------------------------------------------------
    def _opened(self, event: Opened) -> None:
        headers, kind = event.headers, event.headers.get("streamtype", "")
        port = headers.get("port", "")
        if kind not in ("data", "error") or not port.isdigit() or not 0 < int(port) < 65536:
            self._on_frame((event.channel, None))
            return
        # Clients that number nothing open the channel for errors first, and then the one for data.
        key = headers.get("requestid") or str(event.channel - (2 if kind == "data" else 0))
        pair = self._pairs.setdefault(key, _Pair(int(port)))
        if kind == "data":
            pair.data = event.channel
        else:
            pair.error = event.channel
        if pair.carried is None and pair.data >= 0 and pair.error >= 0:
            self._begin(key, pair)

    def _begin(self, key: str, pair: _Pair) -> None:
        def said(data: bytes) -> bool | None:
            return self._on_frame((pair.data, data))

        def ended(why: str) -> None:
            if why:
                self._on_frame((pair.error, why.encode()))
            self._on_frame((pair.error, None))
            self._on_frame((pair.data, None))
            self._pairs.pop(key, None)
            if self._counted and not self._pairs:
                self._on_end()

        pair.carried = self._connect(pair.port)
        pair.carried.start(said, ended)


def forward(server: Core, call: Call) -> Response:
    """Forward ports. Raises StatusError."""
    server.authorize_connect(call)
    asked = _ports(call)
    pod = server.find(call)
    server.admit(call, "CONNECT", None, pod, dry_run=False, subresource="portforward")
    kubelet = server.kubelet_of(pod)
    connect = kubelet.forward(pod)
    headers = upgrade(call.request, (TUNNEL + PROTOCOL, *CHANNELS), (PROTOCOL,))
    if headers.get("Sec-WebSocket-Protocol") not in CHANNELS:
        asked = []
    elif not asked:
        raise status.bad_request('query parameter "port" is required')
    elif 0 in asked:
        raise status.bad_request('port "0" must be > 0')
    return Response(101, None, headers, conversation=Forwarding(connect, asked))


def _ports(call: Call) -> list[int]:
    """The query's, as it is converted. Raises StatusError 400."""
    found = []
    for text in ",".join(call.request.query.get("ports") or ()).split(","):
        if text and not text.isdigit():
            raise _unparsed(text, "invalid syntax")
        if text and int(text) > 65535:
            raise _unparsed(text, "value out of range")
        found += [int(text)] if text else []
    return found


def _unparsed(text: str, why: str) -> status.StatusError:
    return status.bad_request(f'cannot convert to []int32: strconv.ParseUint: parsing "{text}": {why}')
