"""The API server's own record of what one program asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from killcheck.embedded import Request, Response, route, verb_of
from killcheck.rehearsal.record import Call, replicas_in
from killcheck.text import lazy_re

__all__ = ["Audit"]

#: How much of a body is kept, in characters, and how much of an answer.
BODY_KEPT = 4000
ANSWER_KEPT = 300
_WARNING = lazy_re.compile(r'299 - "((?:[^"\\]|\\.)*)"')


class Audit:
    """Every request that came over the wire: in a rehearsal only the program that is fired is there.

    The control plane's own requests are made in process and carry their user; they are left out, and so is discovery.
    """

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self.calls: list[Call] = []
        self._elapsed = elapsed

    def heard(self, request: Request, response: Response) -> None:
        """One request and its answer."""
        if request.user is not None:
            return
        at = route(request.path)
        if at.plural:
            self.calls.append(self._call(request, response))

    def _call(self, request: Request, response: Response) -> Call:
        at = route(request.path)
        body = _text(request.body)
        headers = {key.lower(): value for key, value in response.headers.items()}
        return Call(
            self._elapsed(),
            request.method,
            request.path,
            verb_of(request, at),
            at.group,
            at.version,
            at.plural,
            at.subresource,
            at.namespace,
            at.name or _made(response),
            request.headers.get("content-type", ""),
            body[:BODY_KEPT],
            response.status,
            _words(response),
            tuple(found.replace('\\"', '"') for found in _WARNING.findall(headers.get("warning", ""))),
            replicas_in(body),
            bool(request.query.get("dryRun")) or '"dryRun":["All"]' in body.replace(" ", ""),
        )


def _made(response: Response) -> str:
    """The name of what a create made."""
    body = response.body
    made = isinstance(body, dict) and response.status == 201
    return str((body.get("metadata") or {}).get("name", "")) if isinstance(body, dict) and made else ""


def _text(body: Any) -> str:
    if body is None:
        return ""
    if isinstance(body, bytes):
        return "(protobuf)" if body.startswith(b"k8s\0") else body.decode("utf-8", "replace")
    return body if isinstance(body, str) else json.dumps(body)


def _words(response: Response) -> str:
    """Why a request was refused, in the server's words."""
    if response.status < 400:
        return ""
    body = response.body
    said = body.get("message", "") if isinstance(body, dict) else _text(body)
    return _cut(" ".join(str(said).split()))


def _cut(said: str) -> str:
    """Where it is too long: its beginning, and its end, in which a refused patch has its reason (after the object)."""
    half = ANSWER_KEPT // 2
    return said if len(said) <= ANSWER_KEPT else f"{said[:half]}… {said[-half:]}"
