"""Requests and responses of the API server, without any IO: `Request -> Response`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field

from killcheck.kube.objects import Obj

__all__ = ["Conversation", "Finished", "Heard", "Opened", "Request", "Response", "Stream", "User"]


class User(Struct, frozen=True):
    """Who is asking, as authentication found it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = field(default_factory=dict)


class Request(Struct):
    """One HTTP request. ``headers`` has lower-case names; ``query`` keeps repeated parameters in order.

    ``body`` is the decoded JSON of an in-process caller, or the bytes that came over the wire. ``user`` is set by
    trusted in-process callers (the control plane itself); None: authenticate by the Authorization header.
    """

    method: str
    path: str
    query: dict[str, list[str]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    user: User | None = None

    def param(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else default

    def flag(self, name: str) -> bool:
        """A boolean query parameter as Kubernetes parses it: present and neither '0' nor 'false'."""
        values = self.query.get(name)
        return bool(values and values[0].lower() not in ("0", "false"))


class Stream(Protocol):
    """A response that goes on: a watch (frames are dicts), or a followed log (frames are str)."""

    def subscribe(self, on_frame: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        """Deliver each frame on the cluster's loop, in order, beginning with those already due."""

    def close(self) -> None:
        """The reader has gone; no callback is called after this."""


class Opened(NamedTuple):
    """The peer of an upgraded connection has begun a channel; header names are lower-case."""

    channel: int
    headers: dict[str, str]


class Heard(NamedTuple):
    """The peer has said something on a channel."""

    channel: int
    data: bytes


class Finished(NamedTuple):
    """The peer says nothing more on a channel."""

    channel: int


class Conversation(Stream, Protocol):
    """A response that goes on in both directions (101): frames are (channel, bytes), or (channel, None) at its end.

    Frames may be delivered from any thread; what the peer does is told with the loop's lock held. Where ``on_frame``
    answers False, the peer is slow: what can wait should, until :meth:`resume`.
    """

    def subscribe(self, on_frame: Callable[[Any], bool | None], on_end: Callable[[], None]) -> None:
        """Begin."""

    def told(self, event: Opened | Heard | Finished) -> None:
        """What the peer did."""

    def resume(self) -> None:
        """The peer has everything that was said; from any thread."""


class Response(Struct):
    """``body``: a dict (JSON), a str or bytes (as they are); or ``stream`` where the answer goes on.

    Status 101 comes with a ``conversation`` and the header ``Upgrade``: ``websocket`` or ``SPDY/3.1``.
    """

    status: int
    body: Obj | str | bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    stream: Stream | None = None
    conversation: Conversation | None = None
