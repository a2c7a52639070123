"""How clients say what became of a call: kubectl, client-go, helm, Python's clients, Node's fetch, curl, shells.

A Status 401 has reason Unauthorized and message "Unauthorized"; client-go makes of it "the server has asked for the
client to provide credentials" (apimachinery, NewGenericServerResponse), kubectl "You must be logged in to the server"
(kubectl/pkg/cmd/util, StandardErrorMessage). Where no token is mounted rest.InClusterConfig fails, and kubectl falls
back to its default, localhost:8080; Python's load_incluster_config raises a ConfigException. The rest was recorded
(tests/unit/refusals.json). What may *not* live here: what to do about it.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from killcheck.text import lazy_re
from killcheck.text.jsontext import from_text

__all__ = [
    "ENDED",
    "FORBIDDEN",
    "NO_TOKEN",
    "UNAUTHORIZED",
    "UNREACHED",
    "UNRESOLVED",
    "UNTRUSTED",
    "Refusal",
    "RefusalKind",
    "invalid",
    "last",
    "line_with",
    "matching",
    "refusal",
]


def _status(code: int) -> str:
    """A status where one would stand: no millisecond of a clock, no line of a source, no number of bytes."""
    return rf"(?:^|[\s('\"=:\[])(?<!line )(?<!node:){code}(?=$|[\s)'\",;:}}\]])(?! bytes)"


#: Not accepted: dead, foreign, for somebody else.
UNAUTHORIZED = (
    rf"{_status(401)}|(?<!_)unauthorized|must be logged in to the server|asked for the client to provide credentials|"
    r"invalid bearer token"
)
#: What the API server does not take as it is (422): ``FIELD: Forbidden: ...`` is such a field's (apimachinery, field).
_INVALID = lazy_re.compile(r"\bis invalid: |^\* \S+: (?:Forbidden|Invalid value|Required value|Unsupported value): ")
#: Known, and not allowed to.
FORBIDDEN = rf"\bforbidden\b|{_status(403)}"
_PATH = r"/var/run/secrets/kubernetes\.io/serviceaccount"
_ABSENT = r"no such file|not found|cannot open|can't open|does not exist|ENOENT"
#: Not there at all.
NO_TOKEN = (
    rf"{_PATH}.*(?:{_ABSENT})|(?:{_ABSENT}).*{_PATH}|serviceaccount/token\W.*(?:{_ABSENT})|localhost:8080|"
    r"service token file does not exist|service host/port is not set|unable to load in-cluster configuration|"
    r"not running in.?cluster|invalid configuration: no configuration has been provided|system:anonymous|"
    r"unable to find valid credentials"
)
#: A name that nobody resolves (curl 6; Go's net; getaddrinfo as libc, Python and Node say it; busybox).
UNRESOLVED = (
    r"could not resolve|resolving timed out|name or service not known|no such host|name resolution|bad address|"
    r"nodename nor servname|getaddrinfo|\bENOTFOUND\b|\bEAI_AGAIN\b|lookup \S+( on \S+)?: .*i/o timeout"
)
#: A connection that was not made, or broke (curl 7, 28, 35, 52, 56; Go's net; Python's and Node's). "timed out waiting
#: for the condition" is kubectl's own patience, and "context deadline exceeded" alone helm's: neither is a network's.
UNREACHED = (
    r"(?<!resolving )timed out(?! waiting)|i/o timeout|handshake timeout|connection timeout|timeout was reached|"
    r"client\.timeout|(connect|read|pool|api)_?timeout|\"https?://[^\"]*\": .*deadline exceeded|"
    r"connection (attempts failed|refused|reset|error|aborted|broken)|was refused|\bconnect(ion)?error\b|"
    r"could ?n.t connect|failed to connect|can't connect to|unable to connect|max retries exceeded|"
    r"network is unreachable|no route to host|\bfetch failed\b|empty reply from server|unexpected EOF|"
    r"\bE(TIMEDOUT|CONNREFUSED|CONNRESET|HOSTUNREACH|NETUNREACH)\b"
)
#: A certificate whose time is over, or has not begun: curl 60 and OpenSSL, Go's x509, Node.
ENDED = r"certificate (has expired|is not yet valid)|\bCERT_(HAS_EXPIRED|NOT_YET_VALID)\b"
#: Any that the client does not believe.
UNTRUSTED = (
    rf"{ENDED}|certificate verify failed|ssl certificate problem|x509: certificate|"
    r"unable to (verify the first|get (local )?issuer) certificate|self.signed certificate|cannot verify .*certificate"
)
#: An API server that answers, and asks to come back later.
_BUSY = (
    rf"too ?many ?requests|{_status(429)}|{_status(503)}|service ?unavailable|"
    r"the server is (currently unable|overloaded)|unable to handle the request"
)

#: A shell's trace of a command that is yet to run (``set -x``), curl's progress, whose numbers are bytes, and frames of
#: a stack (Python's, Node's, Go's).
_NOISE = lazy_re.compile(
    r"\s*\++ |\s*\d{1,3}\s+[\d.]+[kMG]?\s+\d{1,3}\s+[\d.]+[kMG]?\s|"
    r"\s*File \".*\", line \d+|\s+at .*:\d+:\d+\)?$|\s+/\S+\.go:\d+"
)
#: What klog writes before a message: when, its process, where in its source.
_KLOG = lazy_re.compile(r"[IWEF]\d{4} [\d:.]+\s+\d+ \S+:\d+\] ")
#: Of several lines those tell most that say that they are an error.
_TELLING = lazy_re.compile(r"error|exception|curl:|refused|unable", re.IGNORECASE)
#: Where a program tells how it is to be called, after it has told what was wrong (cobra, argparse, getopt).
_USAGE = lazy_re.compile(r"(?:see|try|run) ['\"`\u2018]?\S.*--?h(?:elp)?\b|usage:", re.IGNORECASE)
#: The message of a Status in JSON, wherever a client shows the whole answer in one line.
_MESSAGE = lazy_re.compile(r"\"message\"\s*:\s*(\"(?:[^\"\\]|\\.)*\")")


class RefusalKind(StrEnum):
    """What became of an executor's call, as its client tells it."""

    NO_TOKEN = "no token"  # noqa: S105 - a word
    FORBIDDEN = "403 Forbidden"
    UNAUTHORIZED = "401 Unauthorized"
    UNRESOLVED = "name not resolved"
    UNTRUSTED = "certificate not trusted"
    UNREACHED = "not reached"
    BUSY = "server busy"


class Refusal(Struct, frozen=True):
    """``line``: of the log, its Status' message where the line is one."""

    kind: RefusalKind
    line: str


_ORDER = (
    (RefusalKind.FORBIDDEN, FORBIDDEN),
    (RefusalKind.UNAUTHORIZED, UNAUTHORIZED),
    (RefusalKind.UNRESOLVED, UNRESOLVED),
    (RefusalKind.UNTRUSTED, UNTRUSTED),
    (RefusalKind.UNREACHED, UNREACHED),
    (RefusalKind.BUSY, _BUSY),
)


def matching(text: str, pattern: str) -> list[str]:
    """The lines that match a regular expression, case ignored, without a logger's head; none of them is noise."""
    lines = (_KLOG.sub("", line) for line in text.splitlines() if not _NOISE.match(line))
    return [line.strip() for line in lines if re.search(pattern, line, re.IGNORECASE)]


def line_with(text: str, pattern: str) -> str | None:
    """The first line that matches a regular expression, case ignored; None: none does."""
    return next(iter(matching(text, pattern)), None)


def refusal(log: str) -> Refusal | None:
    """What the log says became of the executor's call; None: nothing that is known here.

    A token that is not there goes before all that comes of it; of a 403 the line that says who may not do what is told.
    """
    untold = line_with(log, NO_TOKEN)
    if untold and "system:anonymous" not in untold:
        return Refusal(RefusalKind.NO_TOKEN, _said(untold))
    for kind, pattern in _ORDER:
        found = [line for line in matching(log, pattern) if not _INVALID.search(line)]
        if found:
            clear = [line for line in found if kind is RefusalKind.FORBIDDEN and "is forbidden" in line]
            telling = [line for line in found if _TELLING.search(line)]
            return Refusal(kind, _said((clear or telling or found)[-1]))
    return None


def invalid(log: str) -> str | None:
    """What the API server said of an object that it did not take (422); None: nothing."""
    return next((line for line in matching(log, r"\bis invalid: |^\* \S") if _INVALID.search(line)), None)


def last(log: str) -> str:
    """The last line that says something: not how a program is to be called."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if not _USAGE.match(line)), lines[-1] if lines else "")


def _said(line: str) -> str:
    found = _MESSAGE.search(line)
    try:
        return str(from_text(found[1])) if found else line
    except ValueError:
        return line
