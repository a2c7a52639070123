"""A kube-apiserver's audit log (``audit.k8s.io/v1``, a JSON object a line): who asked for which change, and the answer.

The bodies of requests are looked at for what they write to replicas and ``suspend``, and kept nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from killcheck.text.files import lines_of

__all__ = ["Asked", "AuditLogError", "Broken", "read"]

#: The last of a request's stages (apiserver/pkg/apis/audit/v1): it alone has the answer.
_ANSWERED = ("ResponseComplete", "Panic")
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class AuditLogError(Exception):
    """A log that cannot be read at all; the message names it and says why."""


class Broken(Struct, frozen=True):
    """A line that is no event of an audit log, and ``why``."""

    file: str
    line: int
    why: str


class Asked(Struct, frozen=True):
    """A change that was asked for, and its answer. ``at``: when the request came.

    ``user``: whose rights counted (the impersonated one). ``replicas``, ``suspend``: what it writes there; None:
    nothing, or the log's level keeps no bodies (``bodies`` tells). ``said``: the server's words where it refused.
    """

    file: str
    line: int
    at: datetime
    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    status: int
    said: str = ""
    replicas: int | None = None
    suspend: bool | None = None
    bodies: bool = False

    @property
    def what(self) -> str:
        """``patch deployments/scale of apps, inference/llm``."""
        resource = self.resource + (f"/{self.subresource}" if self.subresource else "")
        group = f" of {self.group}" if self.group else ""
        return f"{self.verb} {resource}{group}, {self.namespace}/{self.name or '*'}"


def read(file: Path) -> Iterator[Asked | Broken]:
    """Every change that was asked for in a log, in its order; a line that cannot be read is told and passed over.

    Raises AuditLogError where the file cannot be read.
    """
    try:
        for number, line in enumerate(lines_of(file), 1):
            found = _read(str(file), number, line) if line.strip() else None
            if found is not None:
                yield found
    except OSError as error:
        raise AuditLogError(f"{file}: {(error.strerror or str(error)).lower()}") from error


def _read(file: str, number: int, line: str) -> Asked | Broken | None:
    try:
        event = json.loads(line)
    except RecursionError:  # what somebody asked for stands in it, nested as they liked
        return Broken(file, number, "it is nested too deep")
    except ValueError as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        return Broken(file, number, f"it is no JSON ({why.lower()}): a log has one whole object a line")
    if not isinstance(event, dict) or event.get("kind") != "Event":
        return Broken(file, number, "it is no event: expected kind: Event, of audit.k8s.io/v1")
    if event.get("apiVersion") != "audit.k8s.io/v1":
        return Broken(file, number, f"its apiVersion is {event.get('apiVersion')!s:.60}: expected audit.k8s.io/v1")
    if event.get("stage") not in _ANSWERED or event.get("verb") not in _WRITES:
        return None
    try:
        return _asked(file, number, event)
    except KeyError as error:
        return Broken(file, number, f"it has no {error.args[0]}")
    except (ValueError, TypeError, AttributeError) as error:
        return Broken(file, number, f"its fields have not the types of an audit event ({type(error).__name__})")


def _asked(file: str, number: int, event: Mapping[str, Any]) -> Asked | None:
    about = event.get("objectRef")
    if about is None or "dryRun=" in str(event.get("requestURI", "")):
        return None
    answer = event.get("responseStatus") or {}
    body = event.get("requestObject")
    who = event.get("impersonatedUser") or event.get("user") or {}
    at = datetime.fromisoformat(event.get("requestReceivedTimestamp") or event["stageTimestamp"])
    if at.tzinfo is None:
        raise ValueError("a time without a zone")
    return Asked(
        file,
        number,
        at,
        str(who.get("username", "")),
        event["verb"],
        str(about.get("apiGroup", "")),
        str(about.get("resource", "")),
        str(about.get("subresource", "")),
        str(about.get("namespace", "")),
        str(about.get("name", "")),
        int(answer.get("code", 500 if event["stage"] == "Panic" else 200)),
        str(answer.get("message", "")),
        _written(body, "replicas", int),
        _written(body, "suspend", bool),
        body is not None,
    )


def _written(body: object, field: str, kind: type) -> Any:
    """What a body writes to a field of its spec: an object, a merge patch, or a JSON patch; None: nothing."""
    if isinstance(body, list):
        values = [op.get("value") for op in body if isinstance(op, dict) and op.get("path") == f"/spec/{field}"]
        found = values[-1] if values else None
    else:
        spec = body.get("spec") if isinstance(body, dict) else None
        found = spec.get(field) if isinstance(spec, dict) else None
    return found if type(found) is kind else None
