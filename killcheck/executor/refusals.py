"""How clients say that the API server did not take their credentials: kubectl, client-go, Python's clients, curl.

A Status 401 has reason Unauthorized and message "Unauthorized"; client-go makes of it "the server has asked for the
client to provide credentials" (apimachinery, NewGenericServerResponse), kubectl "You must be logged in to the server"
(kubectl/pkg/cmd/util, StandardErrorMessage). Where no token is mounted rest.InClusterConfig fails, and kubectl falls
back to its default, localhost:8080; Python's load_incluster_config raises a ConfigException.
"""

from __future__ import annotations

import re

__all__ = ["NO_TOKEN", "UNAUTHORIZED", "is_noise", "line_with"]

#: Not accepted: dead, foreign, for somebody else.
UNAUTHORIZED = (
    r"\b401\b|unauthorized|must be logged in to the server|asked for the client to provide credentials|"
    r"invalid bearer token"
)
_PATH = r"/var/run/secrets/kubernetes\.io/serviceaccount"
_ABSENT = r"no such file|not found|cannot open|can't open|does not exist|ENOENT"
#: Not there at all.
NO_TOKEN = (
    rf"{_PATH}.*(?:{_ABSENT})|(?:{_ABSENT}).*{_PATH}|serviceaccount/token\W.*(?:{_ABSENT})|localhost:8080|"
    r"service token file does not exist|service host/port is not set|unable to load in-cluster configuration|"
    r"not running in.?cluster|invalid configuration: no configuration has been provided|system:anonymous"
)


#: A shell's trace of a command that is yet to run (``set -x``), and curl's progress, whose numbers are bytes.
_NOISE = re.compile(r"\s*\++ |\s*\d{1,3}\s+[\d.]+[kMG]?\s+\d{1,3}\s+[\d.]+[kMG]?\s")


def is_noise(line: str) -> bool:
    """Whether a line of a log is no answer of anybody's."""
    return _NOISE.match(line) is not None


def line_with(text: str, pattern: str) -> str:
    """The first line that matches a regular expression, case ignored; empty: none does."""
    found = (line for line in text.splitlines() if re.search(pattern, line, re.IGNORECASE) and not is_noise(line))
    return next(found, "").strip()
