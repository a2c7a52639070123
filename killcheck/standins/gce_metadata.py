"""A stand-in of GCE's metadata server for handlers that ask it: ``instance/preempted``, by polling or by waiting.

Source: GCE "View and query VM metadata" (``Metadata-Flavor: Google`` asked for and given, 403 without it or where
X-Forwarded-For is there; ``wait_for_change``, ``last_etag``, ``timeout_sec``; ETag) and "Spot VMs" (``preempted`` is
``FALSE``, and ``TRUE`` from the notice on; the machine goes 30 s later).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from threading import Event
from typing import Any
from urllib.parse import parse_qs

from msgspec import Struct, field

from killcheck.clock import wall_now
from killcheck.instances.reclaims import NOTICE_S
from killcheck.standins.application import UNANSWERED

__all__ = ["Preempted"]

_ROOT = "/computeMetadata/v1/instance/"
_REASONS = {200: "OK", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
#: Between two looks while a request waits for a change, in seconds; and how long one waits that says nothing.
LOOK_S = 0.2
WAIT_S = 3600.0


class Preempted(Struct):
    """One machine's metadata as a WSGI application; ``now`` is the clock.

    ``look`` is called while a request waits for a change. On a virtual clock nobody waits: such a request is refused
    (503), and says so.
    """

    now: Callable[[], datetime] = wall_now
    name: str = "gke-dev-gpu-1a2b3c4d-0001"
    machine_type: str = "a2-highgpu-1g"
    zone: str = "us-central1-a"
    look: Callable[[], None] = lambda: None
    #: When the machine goes; None: it is not preempted.
    goes: datetime | None = None
    asked: list[tuple[str, int]] = field(default_factory=list)

    # -- what is done to it -----------------------------------------------------------------------------
    def interrupt(self, in_s: float = NOTICE_S["gcp"]) -> datetime:
        """Preempt it. A second time changes nothing. Returns when the machine goes."""
        return self.interrupt_at(self.now() + timedelta(seconds=in_s))

    def interrupt_at(self, goes: datetime) -> datetime:
        """The same, with the moment given."""
        self.goes = self.goes or goes
        return self.goes

    def clear(self) -> None:
        """It is not preempted."""
        self.goes = None

    # -- WSGI ----------------------------------------------------------------------------------------------
    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        query = parse_qs(str(environ.get("QUERY_STRING", "")))
        path, value = str(environ["PATH_INFO"]), ""
        if environ.get("HTTP_METADATA_FLAVOR") != "Google" or "HTTP_X_FORWARDED_FOR" in environ:
            status = 403
        elif environ["REQUEST_METHOD"] != "GET":
            status = 405
        elif self._value(path) is None:
            status = 404
        elif query.get("wait_for_change", [""])[0].lower() == "true" and UNANSWERED in environ:
            status, value = 503, "the stand-in cannot hold a request on a virtual clock: poll without wait_for_change\n"
        else:
            status, value = 200, self._changed(path, query)
        self.asked.append((path, status))
        body = value.encode()
        start_response(
            f"{status} {_REASONS[status]}",
            [
                ("Content-Type", "application/text"),
                ("Content-Length", str(len(body))),
                ("Metadata-Flavor", "Google"),
                ("Server", "Metadata Server for VM"),
                *([("ETag", _etag(value))] if status == 200 else []),
            ],
        )
        return [body]

    def _changed(self, path: str, query: dict[str, list[str]]) -> str:
        value = self._value(path) or ""
        if query.get("wait_for_change", [""])[0].lower() != "true":
            return value
        known = query.get("last_etag", [_etag(value)])[0]
        given = query.get("timeout_sec", [""])[0]
        never, wait_s = Event(), float(given) if given.isdecimal() else WAIT_S
        for _ in range(round(wait_s / LOOK_S)):
            if _etag(value) != known:
                break
            never.wait(LOOK_S)
            self.look()
            value = self._value(path) or ""
        return value

    def _value(self, path: str) -> str | None:
        if not path.startswith(_ROOT):
            return None
        return {
            "preempted": "TRUE" if self.goes else "FALSE",
            "name": self.name,
            "id": "1234567890123456789",
            "zone": f"projects/123456789012/zones/{self.zone}",
            "maintenance-event": "NONE",
            "machine-type": f"projects/123456789012/machineTypes/{self.machine_type}",
            "scheduling/preemptible": "TRUE",
            "scheduling/automatic-restart": "FALSE",
            "scheduling/on-host-maintenance": "TERMINATE",
        }.get(path.removeprefix(_ROOT).rstrip("/"))


def _etag(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:16]
