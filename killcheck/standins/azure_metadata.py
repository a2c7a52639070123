"""A stand-in of Azure's instance metadata for handlers that poll it: Scheduled Events, and what they are about.

A spot machine that is to be taken has an event ``Preempt``; its ``NotBefore`` is fixed when it is given, and the
document's incarnation grows with every change. Who approves the event (POST, ``StartRequests``) ends the wait early.

Source: Azure "Scheduled Events for Linux VMs" (MicrosoftDocs, articles/virtual-machines/linux/scheduled-events.md):
``Metadata: true`` and an api-version or 400; Preempt since 2017-11-01, Description since 2019-04-01, EventSource since
2019-08-01, DurationInSeconds since 2020-07-01; a POST is 200 for a valid event id, also again, and 400 where it is
malformed; ``NotBefore`` is blank once the event has started. "Azure Instance Metadata Service": requests that were
forwarded are refused.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

from msgspec import Struct, field

from killcheck.clock import wall_now
from killcheck.instances.reclaims import NOTICE_S
from killcheck.text import lazy_re

__all__ = ["ScheduledEvents"]

_EVENTS = "/metadata/scheduledevents"
_INSTANCE = "/metadata/instance/compute/"
_VERSION = lazy_re.compile(r"20\d\d-\d\d-\d\d")
#: From which version of the API on a document has that.
_PREEMPT, _DESCRIPTION, _SOURCE, _DURATION = "2017-11-01", "2019-04-01", "2019-08-01", "2020-07-01"
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


class ScheduledEvents(Struct):
    """One machine's metadata as a WSGI application; ``now`` is the clock.

    ``name`` is the machine's, as ``Resources`` has it (in a scale set ``NAME_0``: not its host name). ``approved`` is
    called once, when somebody approves the event, on the server's thread.
    """

    now: Callable[[], datetime] = wall_now
    name: str = "aks-gpu-12345678-vmss_0"
    size: str = "Standard_NC24ads_A100_v4"
    location: str = "eastus"
    approved: Callable[[], object] = lambda: None
    #: When the machine goes; None: no event.
    goes: datetime | None = None
    started: bool = False
    incarnation: int = 1
    event_id: str = ""
    asked: list[tuple[str, int]] = field(default_factory=list)

    # -- what is done to it -----------------------------------------------------------------------------
    def interrupt(self, in_s: float = NOTICE_S["azure"]) -> datetime:
        """Schedule a Preempt; its time is fixed now. A second one changes nothing. Returns when the machine goes."""
        return self.goes or self.interrupt_at(self.now() + timedelta(seconds=in_s))

    def interrupt_at(self, goes: datetime) -> datetime:
        """The same, with the moment given."""
        if self.goes is None:
            self.goes, self.started, self.event_id = goes, False, str(uuid.uuid4()).upper()
            self.incarnation += 1
        return self.goes

    def clear(self) -> None:
        """No event any more; no change where there is none."""
        if self.goes is not None:
            self.goes = None
            self.incarnation += 1

    # -- WSGI ----------------------------------------------------------------------------------------------
    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        status, text = self._answer(environ)
        self.asked.append((environ["PATH_INFO"], status))
        body = text.encode()
        start_response(
            f"{status} {_REASONS[status]}",
            [
                ("Content-Type", "application/json; charset=utf-8"),
                ("Content-Length", str(len(body))),
                ("Server", "IMDS/150.870.65.1854"),
            ],
        )
        return [body]

    def _answer(self, environ: dict[str, Any]) -> tuple[int, str]:
        query = parse_qs(str(environ.get("QUERY_STRING", "")))
        version, path = query.get("api-version", [""])[0], str(environ["PATH_INFO"]).rstrip("/")
        if str(environ.get("HTTP_METADATA", "")).lower() != "true":
            return 400, _error("Bad request. Required metadata header not specified")
        if "HTTP_X_FORWARDED_FOR" in environ:
            return 400, _error("Bad request. X-Forwarded-For is not allowed")
        if not _VERSION.fullmatch(version):
            return 400, _error("Bad request. api-version is invalid or was not specified in the request.")
        method = environ["REQUEST_METHOD"]
        if path == _EVENTS:
            return self._start(environ) if method == "POST" else (200, json.dumps(self.document(version)))
        if method != "GET":
            return 405, ""
        value = {
            "name": self.name,
            "vmSize": self.size,
            "location": self.location,
            "priority": "Spot",
            "provider": "Microsoft.Compute",
        }.get(path.removeprefix(_INSTANCE))
        if value is None:
            return 404, _error("Not found")
        return 200, value if query.get("format") == ["text"] else json.dumps(value)

    def document(self, version: str = _DURATION) -> dict[str, Any]:
        """What a GET of that api-version is answered."""
        if self.goes is not None and not self.started and self.now() >= self.goes:
            self._begin()
        events = (
            []
            if self.goes is None or version < _PREEMPT
            else [
                {
                    "EventId": self.event_id,
                    "EventStatus": "Started" if self.started else "Scheduled",
                    "EventType": "Preempt",
                    "ResourceType": "VirtualMachine",
                    "Resources": [self.name],
                    "NotBefore": "" if self.started else f"{self.goes:%a, %d %b %Y %H:%M:%S} GMT",
                    **({"Description": ""} if version >= _DESCRIPTION else {}),
                    **({"EventSource": "Platform"} if version >= _SOURCE else {}),
                    **({"DurationInSeconds": -1} if version >= _DURATION else {}),
                }
            ]
        )
        return {"DocumentIncarnation": self.incarnation, "Events": events}

    def _start(self, environ: dict[str, Any]) -> tuple[int, str]:
        try:
            said = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
            wanted = {str(one["EventId"]).upper() for one in said["StartRequests"]}
        except (ValueError, KeyError, TypeError):
            return 400, _error("Bad request. The body is not an object with StartRequests")
        if self.goes is None or wanted != {self.event_id}:
            return 400, _error("Bad request. There is no such event")
        if not self.started:
            self._begin()
            self.approved()
        return 200, ""

    def _begin(self) -> None:
        self.started = True
        self.incarnation += 1


def _error(text: str) -> str:
    return json.dumps({"error": text})
