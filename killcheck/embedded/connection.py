"""One TLS connection to the embedded API server: requests in, answers and streams out, on a thread of its own."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Mapping
from email.utils import format_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, unquote

import h11

from killcheck.clock import Loop, wall_seconds
from killcheck.embedded.api import status
from killcheck.embedded.api.authn import peer_header
from killcheck.embedded.api.http import Conversation, Request, Response, Stream
from killcheck.text import lazy_re
from killcheck.text.jsontext import packed

if TYPE_CHECKING:
    from killcheck.embedded.spdy import Spdy
    from killcheck.embedded.websocket import Tunnel, WebSocket

    Wire = Spdy | Tunnel | WebSocket

__all__ = ["BODY_LIMIT", "HANG", "RESET", "Client", "Connection"]

#: What an interceptor returns to break the connection (the peer sees a reset), or to never answer.
RESET = Response(0)
HANG = Response(-1)

#: Bytes of a request's body (k8s.io/apiserver/pkg/server/config.go, MaxRequestBodyBytes) and of its head (Go's own).
BODY_LIMIT = 3 * 1024 * 1024
HEAD_LIMIT = 1 << 20
#: Seconds of silence after which a connection that never finished its handshake is closed.
HANDSHAKE_S = 10.0
#: What whoever speaks plain HTTP to it is told, for the methods that both net/http and OpenSSL know by their first
#: bytes (Go's net/http, server.go; others find the connection closed).
_NOT_TLS = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
#: Before the path, where a request names a whole URL. By hand: ``GET //[`` is a path to Go (net/url, ParseRequestURI).
_WHOSE = lazy_re.compile(r"^https?://[^/?]*")
#: Wall seconds until a program that has begun to watch acts on what it sees (client-go's WaitForCacheSync).
SETTLE_S = 0.15
#: Wall seconds that the peer of an upgraded connection has for its farewell.
LINGER_S = 1.0
#: Bytes of a conversation that wait to be sent, after which whoever says them is asked to wait.
QUEUE_LIMIT = 4 << 20
CHUNK = 65536


#: Statuses after which client-go waits for as long as Retry-After says, by the wall's clock (client-go,
#: rest/with_retry.go).
_TRY_LATER = (429, 503)
#: Wall seconds from the end of such a wait to the next request.
WAKES_S = 0.25


class Client:
    """Everything that comes in over one listening socket: a container's processes, or the world's.

    ``requests`` counts what it ever sent, ``last_status`` is the status it was last answered with (0: none yet).
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = 0
        self.last_status = 0
        self.in_flight = 0
        self.watches = 0
        self.undelivered = 0
        #: Until when (the wall's seconds, the cluster's) it waits before it tries again.
        self._wakes = (-1.0, -1.0)
        self._idle: set[int] = set()
        self._settles_at = 0.0
        self._lock = threading.Lock()

    def add(self, *, in_flight: int = 0, watches: int = 0, undelivered: int = 0) -> None:
        """Count up or down."""
        with self._lock:
            self.in_flight += in_flight
            self.watches += watches
            self.undelivered += undelivered

    def answered(self, status: int) -> None:
        """Count a request that has its answer."""
        with self._lock:
            self.requests += 1
            self.last_status = status
            if status not in _TRY_LATER:
                self._wakes = (-1.0, -1.0)

    def told_to_wait(self, after: str, loop: Loop) -> None:
        """It was told to try again in so many seconds (Retry-After), and may wait for them by a clock of its own."""
        if after.isdigit():
            self._wakes = (wall_seconds() + int(after) + WAKES_S, loop.monotonic() + int(after))

    def waits_s(self, loop: Loop) -> float | None:
        """The cluster's seconds that are left of such a wait, while the wall's are not over; None: it does not wait."""
        wall, virtual = self._wakes
        return max(0.0, virtual - loop.monotonic()) if wall_seconds() < wall else None

    def rest(self, descriptor: int) -> None:
        """A connection begins to wait for its peer's next word: nothing of it is under way."""
        with self._lock:
            self._idle.add(descriptor)
            self.in_flight -= 1

    def wake(self, descriptor: int) -> None:
        """The word has come; it may still lie in the kernel."""
        with self._lock:
            self._idle.discard(descriptor)
            self.in_flight += 1

    def began_to_watch(self) -> None:
        """A program's first watch: client-go looks only every 100 ms (wall) whether its informer has synced."""
        self._settles_at = wall_seconds() + SETTLE_S

    @property
    def busy(self) -> bool:
        """Whether it waits for something that the server has yet to say (an open, quiet watch is not that)."""
        with self._lock:
            if self.in_flight > 0 or self.undelivered > 0 or wall_seconds() < self._settles_at:
                return True
            poll = select.poll()
            for descriptor in self._idle:
                poll.register(descriptor, select.POLLIN)
            return any(event != select.POLLNVAL for _, event in poll.poll(0)) if self._idle else False


class Host(Protocol):
    """The server that a connection belongs to."""

    loop: Loop

    def answer(self, request: Request) -> Response:
        """Handle one request."""

    def forget(self, connection: Connection) -> None:
        """The connection has ended."""


class Gone(Exception):
    """The peer has closed the connection, or we have."""


class Connection:
    """Serves requests one after the other until either side closes."""

    def __init__(self, host: Host, client: Client, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.host = host
        self.client = client
        self._raw = sock
        self._context = context
        self._sock: ssl.SSLSocket | None = None
        self._peer: dict[str, str] = {}
        self._aborted = False
        self._watched = False
        self._thread = threading.Thread(target=self._run, name="killcheck-connection", daemon=True)

    def start(self) -> None:
        """Begin to serve; the client counts the connection as under way already, from before it was accepted."""
        self._thread.start()

    def abort(self) -> None:
        """Break the connection, from any thread."""
        self._aborted = True
        with contextlib.suppress(OSError):
            # Below TLS: an SSLSocket's own way takes the session from under the thread that may be reading its peer.
            socket.socket.shutdown(self._sock or self._raw, socket.SHUT_RDWR)

    def join(self) -> None:
        """Wait for the thread to be gone."""
        self._thread.join()

    # -- the thread ----------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            if self._handshake():
                self._serve()
        except (Gone, OSError):
            pass  # a peer that goes ends its connection and nothing else
        except h11.RemoteProtocolError:
            self._bad_request()
        finally:
            self._close()
            self.client.add(in_flight=-1)
            self.host.forget(self)

    def _handshake(self) -> bool:
        self._raw.settimeout(HANDSHAKE_S)
        self._sock = self._context.wrap_socket(self._raw, server_side=True, do_handshake_on_connect=False)
        try:
            self._sock.do_handshake()
        except ssl.SSLError as error:
            if error.reason == "HTTP_REQUEST":
                socket.socket.sendall(self._sock, _NOT_TLS)  # in plain text, beside TLS
            return False
        self._sock.settimeout(None)
        try:
            self._peer = _peer(self._sock)
        except ValueError:  # the peer had gone before there was anything to shake hands on
            return False
        return not self._aborted

    def _serve(self) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
        while True:
            head = self._next(http)
            if not isinstance(head, h11.Request):
                return
            if not self._one(http, head):
                return
            http.start_next_cycle()

    def _next(self, http: h11.Connection) -> Any:
        while True:
            event = http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if http.they_are_waiting_for_100_continue:
                self._send(http.send(h11.InformationalResponse(status_code=100, headers=[])))
            http.receive_data(self._receive())

    def _one(self, http: h11.Connection, head: h11.Request) -> bool:
        """Serve one request; False if the connection ends with it."""
        body = self._body(http)
        request = _request(head, body, self._peer)
        if body is None:
            error = status.StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")
            response = Response(413, error.status)
        else:
            response = self.host.answer(request)
        if response is RESET:  # client-go takes it for a Retry-After of a second (rest/with_retry.go)
            self.client.told_to_wait("1", self.host.loop)
        if response is RESET or response is HANG:
            self._misbehave(response)
        if response.status in _TRY_LATER:
            self.client.told_to_wait(response.headers.get("Retry-After", ""), self.host.loop)
        self.client.answered(response.status)
        if response.conversation is not None:
            self._talk(http, request, response, response.conversation)
            return False
        if response.stream is not None:
            self._stream(http, response, response.stream)
        else:
            self._plain(http, request, response)
        return body is not None and http.our_state is h11.DONE and http.their_state is h11.DONE

    def _body(self, http: h11.Connection) -> bytes | None:
        """The request's body; None where it is too large."""
        parts: list[bytes] = []
        size = 0
        while True:
            event = self._next(http)
            if isinstance(event, h11.Data):
                size += len(event.data)
                if size > BODY_LIMIT:
                    return None
                parts.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return b"".join(parts)
            else:
                raise Gone

    def _misbehave(self, response: Response) -> None:
        if response is HANG:
            self.client.add(watches=1)
            try:
                self._receive()
            finally:
                self.client.add(watches=-1)
        else:
            self._raw_reset()
        raise Gone

    # -- answers -------------------------------------------------------------------------------------------
    def _plain(self, http: h11.Connection, request: Request, response: Response) -> None:
        content_type, payload = _encoded(request, response)
        headers = self._headers(response, content_type)
        if response.status != 204:
            headers.append(("Content-Length", str(len(payload))))
        out = (
            http.send(h11.Response(status_code=response.status, headers=headers, reason=_reason(response.status)))
            or b""
        )
        if payload and request.method != "HEAD" and response.status != 204:
            out += http.send(h11.Data(data=payload)) or b""
        out += http.send(h11.EndOfMessage()) or b""
        self._send(out)

    def _headers(self, response: Response, content_type: str) -> list[tuple[str, str]]:
        given = {name.lower() for name in response.headers}
        headers = [("Cache-Control", "no-cache, private"), ("Date", format_datetime(self.host.loop.now(), usegmt=True))]
        if content_type and "content-type" not in given:
            headers.append(("Content-Type", content_type))
        return headers + list(response.headers.items())

    def _stream(self, http: h11.Connection, response: Response, stream: Stream) -> None:
        self._send(
            http.send(
                h11.Response(
                    status_code=response.status,
                    headers=self._headers(response, "application/json"),
                    reason=_reason(response.status),
                )
            )
        )
        frames = _Frames(self.client)
        if not self._watched:
            self._watched = True
            self.client.began_to_watch()
        self.client.add(watches=1)
        try:
            with self.host.loop.entered():
                stream.subscribe(frames.put_one, frames.end)
            self._pump(http, frames)
        finally:
            with self.host.loop.entered():
                stream.close()
            frames.close()
            self.client.add(watches=-1)

    def _pump(self, http: h11.Connection, frames: _Frames) -> None:
        while True:
            ready = self._rest(frames.reader)
            if frames.reader.fileno() not in ready:
                raise Gone  # a client says nothing more while it watches: what comes is its farewell
            batch, ended = frames.take()
            out = b"".join(http.send(h11.Data(data=_frame(frame))) or b"" for frame in batch)
            if ended:
                out += http.send(h11.EndOfMessage()) or b""
            try:
                self._send(out)
            finally:
                self.client.add(undelivered=-len(batch))
            if ended:
                return

    def _talk(self, http: h11.Connection, request: Request, response: Response, talk: Conversation) -> None:
        """An upgraded connection: what either side says on its channels, until one of them has ended it."""
        from killcheck.embedded.spdy import SpdyError
        from killcheck.embedded.websocket import accept_key, wire_of

        upgrade = response.headers.get("Upgrade", "")
        headers = [("Connection", "Upgrade"), *response.headers.items()]
        if upgrade == "websocket":
            headers.append(("Sec-WebSocket-Accept", accept_key(request.headers.get("sec-websocket-key", ""))))
        self._send(http.send(h11.InformationalResponse(status_code=101, headers=headers)))
        frames = _Frames(self.client)
        self.client.add(watches=1)
        try:
            with self.host.loop.entered():
                talk.subscribe(frames.put, frames.end)
            wire = wire_of(upgrade, response.headers.get("Sec-WebSocket-Protocol", ""))
            with contextlib.suppress(SpdyError):
                self._exchange(wire, frames, talk, http.trailing_data[0])
        finally:
            with self.host.loop.entered():
                talk.close()
            frames.close()
            self.client.add(watches=-1)

    def _exchange(self, wire: Wire, frames: _Frames, talk: Conversation, said: bytes) -> None:
        ended = False
        while not wire.closed:
            if said:
                for event in wire.received(said):
                    if isinstance(event, bytes):
                        self._send(event)
                    else:
                        with self.host.loop.entered():
                            talk.told(event)
                said = b""
                continue
            # After our farewell the peer's is awaited: what it still says would otherwise cost it what we said last.
            ready = self._rest(frames.reader, timeout_s=LINGER_S if ended else None)
            if frames.reader.fileno() in ready and not ended:
                batch, ended = frames.take()
                out = b"".join(wire.message(channel, data) for channel, data in batch)
                try:
                    self._send(out + (wire.close() if ended else b""))
                finally:
                    self.client.add(undelivered=-len(batch))
                talk.resume()
            elif self._need().fileno() in ready:
                said = self._need().recv(CHUNK)
                if not said:
                    raise Gone
            elif ended:
                return

    # -- bytes ---------------------------------------------------------------------------------------------
    def _bad_request(self) -> None:
        """As Go's server answers what is no HTTP."""
        with contextlib.suppress(Gone, OSError):
            self._send(
                b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
                b"400 Bad Request"
            )

    def _need(self) -> ssl.SSLSocket:
        if self._sock is None or self._aborted:
            raise Gone
        return self._sock

    def _rest(self, *others: socket.socket, timeout_s: float | None = None) -> list[int]:
        """Wait for the peer (or another socket); answers which can be read. Meanwhile nothing is under way."""
        sock = self._need()
        if sock.pending():
            return [sock.fileno()]
        poll = select.poll()
        for each in (sock, *others):
            poll.register(each, select.POLLIN)
        _acknowledge(sock)
        self.client.rest(sock.fileno())
        try:
            return [descriptor for descriptor, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)]
        finally:
            self.client.wake(sock.fileno())

    def _receive(self) -> bytes:
        self._rest()
        data = self._need().recv(CHUNK)
        if not data and self._aborted:
            raise Gone
        return data

    def _send(self, data: bytes | None) -> None:
        if data:
            self._need().sendall(data)

    def _raw_reset(self) -> None:
        with contextlib.suppress(OSError):
            self._need().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _close(self) -> None:
        sock: socket.socket = self._sock or self._raw
        with contextlib.suppress(OSError):
            sock.close()


class _Frames:
    """Frames between the loop, which puts, and one connection's thread, which waits for them or for its peer's end."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._frames: deque[Any] = deque()
        self._ended = False
        self._size = 0
        self._lock = threading.Lock()
        self.reader, self._writer = socket.socketpair()

    def put(self, frame: Any) -> bool:
        """Called on the loop, or by whoever carries bytes, from any thread; answers whether more may come at once."""
        self._client.add(undelivered=1)
        with self._lock:
            self._frames.append(frame)
            first = len(self._frames) == 1
            if isinstance(frame, tuple) and frame[1] is not None:
                self._size += len(frame[1])
            room = self._size < QUEUE_LIMIT
        if first:
            self._signal()
        return room

    def put_one(self, frame: Any) -> None:
        """As put, for who cannot wait."""
        self.put(frame)

    def end(self) -> None:
        """Called on the loop, once."""
        self._ended = True
        self._signal()

    def take(self) -> tuple[list[Any], bool]:
        """All frames there are, and whether the stream is over."""
        self.reader.recv(4096)
        with self._lock:
            batch = list(self._frames)
            self._frames.clear()
            self._size = 0
            return batch, self._ended

    def close(self) -> None:
        """Drop what is left."""
        with self._lock:
            left = len(self._frames)
            self._frames.clear()
        self._client.add(undelivered=-left)
        self.reader.close()
        self._writer.close()

    def _signal(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.send(b".")


def _acknowledge(sock: socket.socket) -> None:
    """Let the peer say the rest of what it has begun to say, before anybody takes its silence for a wait.

    Linux holds an acknowledgement back for 40 ms and more. A peer with Nagle's algorithm waits for it with its next
    small segment: a request's body stays in the peer's kernel, where nobody sees it. Source: tcp(7), TCP_QUICKACK (not
    permanent); net/ipv4/tcp.c, where setting it sends what is held back.
    """
    if hasattr(socket, "TCP_QUICKACK"):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def _peer(sock: ssl.SSLSocket) -> dict[str, str]:
    certificate = sock.getpeercert()
    if not certificate:
        return {}
    subject: Any = certificate.get("subject", ())
    fields = [field for rdn in subject for field in rdn]
    names = [str(value) for key, value in fields if key == "commonName"]
    groups = tuple(str(value) for key, value in fields if key == "organizationName")
    return peer_header(names[0], groups, sock.getpeercert(binary_form=True) or b"") if names else {}


def _request(head: h11.Request, body: bytes | None, peer: Mapping[str, str]) -> Request:
    """Header names are lower-case already; repeated ones are joined by commas. No name can begin with a colon."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in head.headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    path, _, asked = _WHOSE.sub("", head.target.decode("latin-1")).partition("?")
    query = parse_qs(asked, keep_blank_values=True)
    return Request(head.method.decode("latin-1"), unquote(path), query, headers | dict(peer), body or None)


def _encoded(request: Request, response: Response) -> tuple[str, bytes]:
    """(content type, payload). curl, wget and browsers get indented JSON, as the API server gives them."""
    body = response.body
    if body is None:
        return "", b""
    if isinstance(body, bytes):
        return "application/octet-stream", body
    if isinstance(body, str):
        return "text/plain; charset=utf-8", body.encode()
    if request.headers.get("accept", "").split(";")[0] == "application/yaml":
        import yaml

        return "application/yaml", yaml.safe_dump(body, sort_keys=False).encode()
    if _pretty(request):
        return "application/json", packed(body, indent=2)
    return "application/json", packed(body) + b"\n"


def _reason(code: int) -> bytes:
    try:
        return HTTPStatus(code).phrase.encode()
    except ValueError:
        return b""


def _pretty(request: Request) -> bool:
    """k8s.io/apiserver/pkg/endpoints/handlers/negotiation: ``pretty`` in the query, else by the user agent."""
    if "pretty" in request.query:
        return request.flag("pretty")
    return request.headers.get("user-agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))


def _frame(frame: Any) -> bytes:
    if isinstance(frame, str):
        return frame.encode()
    return packed(frame) + b"\n"
