"""A stand-in of EC2's instance metadata for handlers that poll it: version 2's token dance, and spot notices.

404 while there is no notice; the time of a notice is fixed when it is given. Runs as a sidecar or DaemonSet
(``ci/imds/daemonset.yaml``), as a process (``python -m killcheck.standins.ec2_metadata --port 1338``), or in a test.
``--cloud azure`` and ``--cloud gcp`` serve the other clouds' (:mod:`.azure_metadata`, :mod:`.gce_metadata`).

Source: EC2 user guide "Spot Instance interruption notices" (``spot/instance-action``, ``spot/termination-time``),
"rebalance recommendations", "Use IMDSv2" (PUT, X-aws-ec2-metadata-token-ttl-seconds 1 to 21600, echoed; 400 for a bad
ttl; 401 without a token; 403 for a token request that was forwarded).
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from killcheck.clock import wall_now
from killcheck.instances.reclaims import NOTICE_S as NOTICES
from killcheck.standins.application import App
from killcheck.standins.azure_metadata import ScheduledEvents
from killcheck.standins.gce_metadata import Preempted

if TYPE_CHECKING:
    import argparse

__all__ = ["Metadata", "Watched", "main"]

_ROOT = "/latest/meta-data/"
_TTL = "HTTP_X_AWS_EC2_METADATA_TOKEN_TTL_SECONDS"
MAX_TTL_S = 21600
#: Notices come two minutes before the instance goes.
NOTICE_S = NOTICES["aws"]


@dataclass
class Metadata:
    """One instance's metadata as a WSGI application; ``now`` is the clock.

    ``required``: version 1 (no token) is refused, as with ``httpTokens: required``.
    """

    now: Callable[[], datetime] = wall_now
    instance_id: str = "i-0123456789abcdef0"
    instance_type: str = "p4d.24xlarge"
    zone: str = "us-east-1a"
    required: bool = True
    #: When the instance goes; None: no notice.
    goes: datetime | None = None
    action: str = "terminate"
    rebalance: datetime | None = None
    asked: list[tuple[str, int]] = field(default_factory=list)
    _tokens: dict[str, datetime] = field(default_factory=dict)

    # -- what is done to it -----------------------------------------------------------------------------
    def interrupt(self, in_s: float = NOTICE_S, action: str = "terminate") -> datetime:
        """Give notice; its time is fixed now. A second notice changes nothing. Returns when the instance goes."""
        if self.goes is None:
            self.goes, self.action = self.now() + timedelta(seconds=in_s), action
        return self.goes

    def recommend(self) -> None:
        """Recommend a rebalance."""
        self.rebalance = self.rebalance or self.now()

    def clear(self) -> None:
        """No notice, no recommendation."""
        self.goes = self.rebalance = None

    # -- WSGI ----------------------------------------------------------------------------------------------
    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        headers: list[tuple[str, str]] = []
        if path == "/latest/api/token":
            status, text = self._token(environ, headers) if method == "PUT" else (405, "")
        elif not self._admitted(environ):
            status, text = 401, ""
        elif method not in ("GET", "HEAD"):
            status, text = 405, ""
        else:
            found = self._value(path)
            status, text = (404, "") if found is None else (200, found)
        self.asked.append((path, status))
        body = text.encode()
        start_response(
            f"{status} {_REASONS[status]}",
            [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), ("Server", "EC2ws"), *headers],
        )
        return [body]

    def _token(self, environ: dict[str, Any], headers: list[tuple[str, str]]) -> tuple[int, str]:
        if "HTTP_X_FORWARDED_FOR" in environ:
            return 403, ""
        ttl = str(environ.get(_TTL, ""))
        if not ttl.isdigit() or not 1 <= int(ttl) <= MAX_TTL_S:
            return 400, ""
        token = secrets.token_urlsafe(40)
        self._tokens[token] = self.now() + timedelta(seconds=int(ttl))
        headers.append(("X-aws-ec2-metadata-token-ttl-seconds", ttl))
        return 200, token

    def _admitted(self, environ: dict[str, Any]) -> bool:
        token = environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN")
        if token is None:
            return not self.required
        until = self._tokens.get(token)
        return until is not None and self.now() < until

    def _value(self, path: str) -> str | None:
        if not path.startswith(_ROOT):
            return None
        goes = f"{self.goes:%Y-%m-%dT%H:%M:%SZ}" if self.goes else None
        values: dict[str, str | None] = {
            "instance-id": self.instance_id,
            "instance-type": self.instance_type,
            "instance-life-cycle": "spot",
            "placement/availability-zone": self.zone,
            "placement/region": self.zone[:-1],
            "spot/instance-action": json.dumps({"action": self.action, "time": goes}) if goes else None,
            "spot/termination-time": goes if self.action == "terminate" else None,
            "events/recommendations/rebalance": json.dumps({"noticeTime": f"{self.rebalance:%Y-%m-%dT%H:%M:%SZ}"})
            if self.rebalance
            else None,
            "events/maintenance/scheduled": "[]",
        }
        return values.get(path.removeprefix(_ROOT).rstrip("/"))


_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
}


class Watched:
    """A machine whose notice is a file: while it is there, there is notice (a ConfigMap's key, for a sidecar)."""

    def __init__(self, desk: Metadata | ScheduledEvents | Preempted, file: Path) -> None:
        self.desk = desk
        self.file = file

    def look(self) -> None:
        """As the file has it now."""
        if self.file.exists():
            self.desk.interrupt()
        else:
            self.desk.clear()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Look, then answer."""
        self.look()
        return self.desk(environ, start_response)


def _desk(options: argparse.Namespace) -> Metadata | ScheduledEvents | Preempted:
    name = {"name": options.instance_id} if options.instance_id else {}
    if options.cloud == "azure":
        return ScheduledEvents(**name)
    if options.cloud == "gcp":
        return Preempted(**name)
    return Metadata(instance_id=options.instance_id or Metadata.instance_id, required=not options.allow_v1)


def main(arguments: list[str] | None = None) -> int:
    """Serve until interrupted."""
    import argparse

    from killcheck.standins.serving import serve

    parser = argparse.ArgumentParser(
        prog="python -m killcheck.standins.ec2_metadata", description="A stand-in of a cloud's instance metadata."
    )
    parser.add_argument("--cloud", choices=("aws", "gcp", "azure"), default="aws", help="whose (default: aws)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=1338)
    parser.add_argument("--notice-file", type=Path, help="while this file is there, there is notice")
    parser.add_argument("--allow-v1", action="store_true", help="aws: answer without a token too")
    parser.add_argument("--instance-id", default="", help="the machine's name (azure: as Resources has it)")
    options = parser.parse_args(arguments)
    desk = _desk(options)
    served: App = desk
    if options.notice_file:
        served = watched = Watched(desk, options.notice_file)
        if isinstance(desk, Preempted):
            desk.look = watched.look
    try:
        with serve(served, host=options.host, port=options.port) as url:
            sys.stdout.write(f"{url}\n")
            sys.stdout.flush()
            from threading import Event

            Event().wait()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        sys.stderr.write(f"killcheck.standins.ec2_metadata: cannot listen on {options.host}:{options.port}: {why}\n")
        return 4
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
