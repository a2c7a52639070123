"""What clouds' command lines say when something is wrong, in their own words, and programs that say so.

A program of these stands before the real one for the length of a drill: everything that would have reached the cloud
stays here. Sources: the gcloud, aws (v2: 253 without credentials, 254 for a service's refusal, 255 otherwise) and az
command lines; FACTS of expired sessions by service. What may *not* live here: faults.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ANSWERS", "CHANGING", "no_effect", "refusing", "unanswered"]


@dataclass(frozen=True, slots=True)
class Answer:
    """``@CALL@`` in the words is the group of commands that was called."""

    words: str
    code: int = 1


_NO_ROUTE = "[Errno 101] Network is unreachable"
_DENIED, _THROTTLED, _EXPIRED, _SIGNED_OUT, _UNREACHABLE = "denied", "throttled", "expired", "signed-out", "unreachable"
#: By answer, by program; a program that is not named says the last.
ANSWERS: Mapping[str, Mapping[str, Answer]] = {
    _DENIED: {
        "gcloud": Answer("ERROR: (gcloud.@CALL@) Could not fetch resource:\n - Required permission is missing: "
                         "PERMISSION_DENIED (403)"),
        "aws": Answer("\nAn error occurred (UnauthorizedOperation) when calling the @CALL@ operation: You are not "
                      "authorized to perform this operation.", 254),
        "az": Answer("(AuthorizationFailed) The client does not have authorization to perform action @CALL@.\n"
                     "Code: AuthorizationFailed"),
        "": Answer("Error: 403 Forbidden: AccessDenied"),
    },
    _THROTTLED: {
        "gcloud": Answer("ERROR: (gcloud.@CALL@) Could not fetch resource:\n - Quota exceeded for quota metric "
                         "'Queries' and limit 'Queries per minute' of service 'compute.googleapis.com' (429)"),
        "aws": Answer("\nAn error occurred (RequestLimitExceeded) when calling the @CALL@ operation (reached max "
                      "retries: 2): Request limit exceeded.", 254),
        "az": Answer("(TooManyRequests) The number of requests for this subscription has exceeded the limit (429).\n"
                     "Code: TooManyRequests"),
        "": Answer("Error: 429 Too Many Requests"),
    },
    _EXPIRED: {
        "gcloud": Answer("ERROR: (gcloud.@CALL@) There was a problem refreshing your current auth tokens: "
                         "Reauthentication failed. cannot prompt during non-interactive execution.\nPlease run:\n\n"
                         "  $ gcloud auth login"),
        "aws": Answer("\nAn error occurred (RequestExpired) when calling the @CALL@ operation: Request has "
                      "expired.", 254),
        "az": Answer("AADSTS700082: The refresh token has expired due to inactivity."),
        "": Answer("Error: 401 Unauthorized: the token has expired"),
    },
    _SIGNED_OUT: {
        "gcloud": Answer("ERROR: (gcloud.@CALL@) You do not currently have an active account selected.\nPlease run:\n\n"
                         "  $ gcloud auth login"),
        "aws": Answer("Unable to locate credentials. You can configure credentials by running \"aws configure\".", 253),
        "az": Answer("ERROR: Please run 'az login' to setup account."),
        "": Answer("Error: no credentials found"),
    },
    _UNREACHABLE: {
        "gcloud": Answer("ERROR: gcloud crashed (ConnectionError): HTTPSConnectionPool: Max retries exceeded: "
                         + _NO_ROUTE),
        "aws": Answer("\nCould not connect to the endpoint URL of @CALL@", 255),
        "az": Answer(f"ERROR: Failed to establish a new connection: {_NO_ROUTE}"),
        "": Answer(f"Error: {_NO_ROUTE}"),
    },
}
#: Words of calls that stop, remove or make smaller.
CHANGING = (
    "stop", "delete", "suspend", "terminate", "deallocate", "resize", "scale", "remove", "power-off", "shutdown",
    "stop-instances", "terminate-instances", "set-desired-capacity", "update-auto-scaling-group",
    "update-nodegroup-config", "terminate-instance-in-auto-scaling-group", "cancel-spot-instance-requests",
)
_HEAD = """\
#!/bin/sh
# killcheck: in the place of {name} for the length of a drill.
"""
_NOTED = """printf '%s %s\\n' "$(date +%s)" "{name} $*" >> '@CALLS@'
"""
#: The words before the first option or the verb's object: what gcloud and az call the group of a command.
_CALLED = """\
called=
for word in "$@"; do
  case $word in -*) break ;; esac
  called="$called${called:+{between}}$word"
  case $word in start|stop|list|describe|show|delete|suspend|resume|create|terminate|deallocate|*-*) break ;; esac
done
"""


def _head(name: str) -> str:
    return _HEAD.format(name=name)


def refusing(name: str, answer: str, *, after_s: float = 0.0) -> str:
    """A program that answers every call with an error; ``after_s``: only after so many seconds."""
    found = ANSWERS[answer].get(name) or ANSWERS[answer][""]
    words = shlex.quote(found.words)
    wait = f"sleep {after_s:g}\n" if after_s else ""
    between = "." if name == "gcloud" else " "
    return (_head(name) + _NOTED.format(name=name) + _CALLED.replace("{between}", between) + wait
            + f"printf '%s\\n' {words} | sed \"s/@CALL@/$called/\" >&2\nexit {found.code}\n")


def unanswered(name: str) -> str:
    """A program that never answers, for as long as the fault is there."""
    return _head(name) + _NOTED.format(name=name) + "while [ -e '@CALLS@' ]; do sleep 10; done\nexit 1\n"


def no_effect(name: str) -> str:
    """A program that says yes to every call which would stop something, and passes all others on."""
    marks = "|".join(f'*" {word} "*' for word in CHANGING)
    return (_head(name) + f"case \" $* \" in\n{marks})\n  " + _NOTED.format(name=name) + "  exit 0 ;;\nesac\n"
            + f"PATH=${{PATH#@HERE@:}}; export PATH\nexec {name} \"$@\"\n")
