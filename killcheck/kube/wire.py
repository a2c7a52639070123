"""Requests to an API server over TLS: a :class:`~killcheck.kube.client.Transport` on urllib3.

What is retried here is only what surely was not carried out, or carries nothing out: a GET whose connection broke, any
request that was answered with 429 and Retry-After (but for evictions, where 429 is the answer), and once after a 401
with renewed credentials. Everything else surfaces.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from killcheck.clock import Loop, wall_seconds
from killcheck.kube.client import Answer, Closer, Transport, only_asks
from killcheck.kube.credentials import Credentials, Login
from killcheck.kube.deadline import bound
from killcheck.kube.endpoint import Endpoint, explain
from killcheck.kube.errors import KubeError, Unreachable, api_error
from killcheck.kube.objects import Obj, is_answer
from killcheck.kube.watch_stream import WatchStream
from killcheck.text.jsontext import loads, sifted
from killcheck.version import __version__

if TYPE_CHECKING:
    import urllib3

__all__ = ["Limits", "WireTransport"]

#: Seconds before each further try of a GET whose connection broke.
BACKOFF_S = (0.1, 0.5)
#: Longer answers are no API server's: a list comes in pages, and etcd takes no object of more than a few mebibytes.
LONGEST = 256 * 2**20
#: An answer is read in pieces of so many bytes: what is packed may be a thousand times as long unpacked.
_PIECE = 64 * 1024
#: Watches kept open at the same time without a new connection for each.
_POOLED = 16


class Limits(Struct, frozen=True):
    """How long to wait, in seconds.

    ``watch``: how long a watch is asked to last; a stream that is silent for that and ``grace`` more is dead.
    ``whole``: how long an answer may be under way; one that comes byte by byte is never silent.
    ``throttled``: how much waiting a server that answers 429 may ask for in all.
    """

    connect: float = 10.0
    read: float = 60.0
    whole: float = 300.0
    watch: int = 90
    grace: float = 10.0
    throttled: float = 30.0


class WireTransport(Transport):
    """One server, one set of credentials. ``impersonate``: headers that say in whose name we ask."""

    endpoint: Endpoint

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Credentials | None,
        loop: Loop,
        *,
        impersonate: list[tuple[str, str]] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.limits = limits or Limits()
        self._credentials = credentials
        self._loop = loop
        self._impersonate = impersonate or []
        self._pools: urllib3.PoolManager | None = None
        self._shown = b""  # the client certificate that the pool shows
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"WireTransport({self.endpoint.url})"

    # -- the transport -------------------------------------------------------------------------------------
    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        headers: Mapping[str, str],
    ) -> Answer:
        """One request, one answer, whatever its status. Raises Unreachable or CredentialsError."""
        return self._asked(_Call(method, path, query, body, headers, self.limits.read), loads)

    def sift(self, path: str, query: Mapping[str, str], worth: Callable[[bytes], bool]) -> Answer:
        """A page of a list, without items that are not worth reading. Raises Unreachable or CredentialsError."""
        call = _Call("GET", path, query, None, {}, self.limits.read)
        return self._asked(call, partial(sifted, worth=worth))

    def _asked(self, call: _Call, parse: Callable[[str], Any]) -> Answer:
        path, waited, broken = call.path, 0.0, 0
        while True:
            try:
                response, login = self._authorised(call)
            except _BrokenError as error:
                again = only_asks(call.method, path, call.query, call.body)
                if broken >= len(BACKOFF_S) or not again:
                    raise error.told from error.__cause__
                self._loop.sleep(BACKOFF_S[broken])
                broken += 1
                continue
            delay = _retry_after(response)
            if delay is None or waited + delay > self.limits.throttled or path.endswith("/eviction"):
                return self._answer(response, login, call.described, parse)
            waited += delay
            self._loop.sleep(delay)

    def watch(
        self,
        path: str,
        query: Mapping[str, str],
        on_event: Callable[[Obj], None],
        on_end: Callable[[KubeError | None], None],
    ) -> Closer:
        """Open a watch on a thread of its own. A refusal (401, 403, 404, 410) arrives through ``on_end``."""
        asked = {"timeoutSeconds": str(self.limits.watch), **query}
        call = _Call("GET", path, asked, None, {}, float(asked["timeoutSeconds"]) + self.limits.grace, stream=True)

        def told(error: Exception) -> KubeError:
            return explain(error, self.endpoint, call.described)

        def open_() -> urllib3.HTTPResponse:
            """Ask once, with a login that is renewed. Raises KubeError for any answer but 200."""
            try:
                response, login = self._authorised(call)
                if response.status == 200:
                    return response.raw
                answer = self._answer(response, login, call.described)
            except _BrokenError as error:
                raise error.told from error.__cause__
            except _urllib3_error() as error:
                raise told(error) from error
            status = answer.body if isinstance(answer.body, dict) else {"message": str(answer.body).strip()}
            raise api_error(answer.status, status, f"watch {path}")

        stream = WatchStream(open_, told, self._loop, on_event, on_end)
        stream.start()
        return stream.close

    def close(self) -> None:
        """Close idle connections; the transport can be used again."""
        with self._lock:
            if self._pools is not None:
                self._pools.clear()
            self._pools = None

    # -- inside --------------------------------------------------------------------------------------------
    def _authorised(self, call: _Call) -> tuple[_Response, Login]:
        """The response, after one more try with renewed credentials where the first were refused."""
        login = self._credentials.login() if self._credentials else Login()
        response = self._send(login, call)
        if response.status != 401 or self._credentials is None:
            return response, login
        renewed = self._credentials.renew(login)
        if renewed is None:
            return response, login
        response.raw.close()
        return self._send(renewed, call), renewed

    def _send(self, login: Login, call: _Call) -> _Response:
        import urllib3

        url = f"{self.endpoint.url}{quote(call.path, safe='/:')}" + (f"?{urlencode(call.query)}" if call.query else "")
        timeout = urllib3.Timeout(connect=self.limits.connect, read=call.read_s)
        try:
            raw = self._pool(login).urlopen(
                call.method,
                url,
                body=None if call.body is None else json.dumps(call.body).encode(),
                headers=self._headers(login, call),
                redirect=False,
                retries=False,
                timeout=timeout,
                preload_content=False,
            )
            response = _Response(raw, self.limits.whole, self.endpoint.what, call.described)  # type: ignore[arg-type]
            return response if call.stream else response.whole()
        except urllib3.exceptions.HTTPError as error:
            told = explain(error, self.endpoint, call.described, write=call.method != "GET")
            if _broke(error):
                raise _BrokenError(told) from error
            raise told from error

    def _headers(self, login: Login, call: _Call) -> Any:
        import urllib3

        sent = urllib3.HTTPHeaderDict({"accept": "application/json, */*", "user-agent": f"killcheck/{__version__}"})
        if not call.stream:
            sent["accept-encoding"] = "gzip"
        if call.body is not None:
            sent["content-type"] = "application/json"
        for name, value in call.headers.items():
            sent[name] = value
        for name, value in self._impersonate:
            sent.add(name, value)
        if login.authorization:
            sent["authorization"] = login.authorization
        return sent

    def _pool(self, login: Login) -> urllib3.PoolManager:
        with self._lock:
            if self._pools is None or self._shown != login.certificate:
                self._pools, self._shown = self._new_pool(login), login.certificate
            return self._pools

    def _new_pool(self, login: Login) -> urllib3.PoolManager:
        import urllib3

        options: dict[str, Any] = {"maxsize": _POOLED, "socket_options": _socket_options(), "num_pools": 2}
        if self.endpoint.secure:
            options["ssl_context"] = self.endpoint.tls(login)
            if self.endpoint.server_name:
                options["server_hostname"] = self.endpoint.server_name
        if not self.endpoint.proxy:
            pools = urllib3.PoolManager(**options)
        else:
            account = urllib3.util.parse_url(self.endpoint.proxy).auth
            greeting = urllib3.make_headers(proxy_basic_auth=account) if account else None
            pools = urllib3.ProxyManager(self.endpoint.proxy, proxy_headers=greeting, **options)
        bound(pools, self.limits.whole)
        return pools

    def _answer(self, response: _Response, login: Login, request: str, parse: Callable[[str], Any] = loads) -> Answer:
        """The response as an Answer. Raises Unreachable where something other than an API server spoke."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        text = response.whole().data.decode("utf-8", "replace")
        if 300 <= response.status < 400 or kind == "text/html":
            raise Unreachable(
                f"{self.endpoint.what} answered like a web page, not like an API server (HTTP {response.status}, "
                f"{request}): is a login portal or a proxy in the way?"
            )
        if response.status >= 400:
            text = login.scrub(text)
        if kind != "application/json":
            return Answer(response.status, text, dict(response.headers))
        try:
            body = parse(text)
        except (ValueError, RecursionError) as error:
            raise Unreachable(f"{self.endpoint.what} sent half an answer, or no JSON ({request})") from error
        if response.status < 400 and not is_answer(body):
            raise Unreachable(f"{self.endpoint.what} sent JSON that is no object of Kubernetes' ({request})")
        return Answer(response.status, body, dict(response.headers), len(text))


class _Call(Struct, frozen=True):
    """A request before it is sent; ``stream``: the body is read by somebody else, as it arrives."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str]
    read_s: float
    stream: bool = False

    @property
    def described(self) -> str:
        """The call as errors name it: verb and path."""
        return f"{'watch' if self.stream else self.method} {self.path}"


class _Response:
    """What a server answers, read to its end or not; longer or slower than any API server's it is not read."""

    def __init__(self, raw: urllib3.HTTPResponse, limit_s: float, server: str, request: str) -> None:
        self.raw = raw
        self.status = raw.status
        self.headers = raw.headers
        self.data = b""
        self._limit_s = limit_s
        self._who = f"{server}: {request}"
        self._read = False

    def whole(self) -> _Response:
        """Read it to its end, once. Raises Unreachable where it has none, urllib3's errors where it breaks off."""
        if self._read:
            return self
        until, found = wall_seconds() + self._limit_s, bytearray()
        while piece := self.raw.read(_PIECE):
            found += piece
            if len(found) > LONGEST:
                self.raw.close()
                raise Unreachable(f"{self._who}: the answer is longer than {LONGEST // 2**20} MiB, and was not read on")
            if wall_seconds() > until:
                self.raw.close()
                raise Unreachable(f"{self._who}: the answer had not come to its end after {self._limit_s:.0f} s")
        self.data, self._read = bytes(found), True
        return self


class _BrokenError(Exception):
    """The connection broke before there was an answer; ``told`` is what to raise when nobody tries again."""

    def __init__(self, told: Unreachable) -> None:
        self.told = told
        super().__init__(str(told))


def _broke(error: Exception) -> bool:
    """Whether a connection that had been established was reset or closed."""
    import ssl

    from urllib3 import exceptions as u

    if isinstance(error, u.SSLError):
        return bool(error.args) and isinstance(error.args[0], ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return isinstance(error, u.ProtocolError)


def _urllib3_error() -> type[Exception]:
    from urllib3.exceptions import HTTPError

    return HTTPError


def _retry_after(response: _Response) -> float | None:
    """Seconds that a 429 asks us to wait, if it says so in seconds (API Priority and Fairness does)."""
    text = response.headers.get("retry-after", "")
    return float(text) if response.status == 429 and text.isascii() and text.isdigit() else None


def _socket_options() -> list[tuple[int, int, int]]:
    """No delay, and keepalive: a peer that vanished is noticed by the kernel after a minute."""
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options
