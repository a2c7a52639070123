"""Requests and responses of the API server, without any IO: `Request -> Response`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from killcheck.kube.objects import Obj

__all__ = ["Request", "Response", "Stream", "User"]


@dataclass(frozen=True, slots=True)
class User:
    """Who is asking, as authentication found it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class Request:
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


@dataclass(slots=True)
class Response:
    """``body``: a dict (JSON), a str or bytes (as they are); or ``stream`` where the answer goes on."""

    status: int
    body: Obj | str | bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    stream: Stream | None = None
