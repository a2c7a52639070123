"""What clouds' command lines say when something is wrong, in their own words, and programs that say so.

A program of these stands before the real one for the length of a drill: everything that would have reached the cloud
stays here. Sources: the gcloud, aws (v2: 253 without credentials, 254 for a service's refusal, 255 otherwise) and az
command lines; FACTS of expired sessions by service. What may *not* live here: faults.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import cast

from msgspec import Struct

from killcheck.standins.gate import Lapse, code_of, text_of

__all__ = ["ANSWERS", "CHANGING", "no_effect", "refusing", "refusing_once", "unanswered"]


class Answer(Struct, frozen=True):
    """``@CALL@`` in the words is the group of commands that was called (aws: the operation)."""

    words: str
    code: int = 1


_NO_ROUTE = "[Errno 101] Network is unreachable"
_DENIED, _THROTTLED, _EXPIRED, _SIGNED_OUT, _UNREACHABLE = "denied", "throttled", "expired", "signed-out", "unreachable"
_STOPPING = "stopping"
#: By answer, by program; a program that is not named says the last.
ANSWERS: Mapping[str, Mapping[str, Answer]] = {
    _DENIED: {
        "gcloud": Answer(
            "ERROR: (gcloud.@CALL@) Could not fetch resource:\n - Required permission is missing: "
            "PERMISSION_DENIED (403)"
        ),
        "aws": Answer("\nAn error occurred (@CODE@) when calling the @CALL@ operation: @TEXT@", 254),
        "az": Answer(
            "(AuthorizationFailed) The client does not have authorization to perform action @CALL@.\n"
            "Code: AuthorizationFailed"
        ),
        "": Answer("Error: 403 Forbidden: AccessDenied"),
    },
    _THROTTLED: {
        "gcloud": Answer(
            "ERROR: (gcloud.@CALL@) Could not fetch resource:\n - Quota exceeded for quota metric "
            "'Queries' and limit 'Queries per minute' of service 'compute.googleapis.com' (429)"
        ),
        "aws": Answer(
            "\nAn error occurred (@CODE@) when calling the @CALL@ operation (reached max retries: 2): @TEXT@", 254
        ),
        "az": Answer(
            "(TooManyRequests) The number of requests for this subscription has exceeded the limit (429).\n"
            "Code: TooManyRequests"
        ),
        "": Answer("Error: 429 Too Many Requests"),
    },
    _EXPIRED: {
        "gcloud": Answer(
            "ERROR: (gcloud.@CALL@) There was a problem refreshing your current auth tokens: "
            "Reauthentication failed. cannot prompt during non-interactive execution.\nPlease run:\n\n"
            "  $ gcloud auth login"
        ),
        "aws": Answer("\nAn error occurred (@CODE@) when calling the @CALL@ operation: @TEXT@", 254),
        "az": Answer("AADSTS700082: The refresh token has expired due to inactivity."),
        "": Answer("Error: 401 Unauthorized: the token has expired"),
    },
    _SIGNED_OUT: {
        "gcloud": Answer(
            "ERROR: (gcloud.@CALL@) You do not currently have an active account selected.\nPlease run:\n\n"
            "  $ gcloud auth login"
        ),
        "aws": Answer('Unable to locate credentials. You can configure credentials by running "aws configure".', 253),
        "az": Answer("ERROR: Please run 'az login' to setup account."),
        "": Answer("Error: no credentials found"),
    },
    _UNREACHABLE: {
        "gcloud": Answer(
            "ERROR: gcloud crashed (ConnectionError): HTTPSConnectionPool: Max retries exceeded: " + _NO_ROUTE
        ),
        "aws": Answer('\nCould not connect to the endpoint URL: "https://@SERVICE@.@REGION@.amazonaws.com/"', 255),
        "az": Answer(f"ERROR: Failed to establish a new connection: {_NO_ROUTE}"),
        "": Answer(f"Error: {_NO_ROUTE}"),
    },
    _STOPPING: {
        "gcloud": Answer(
            "ERROR: (gcloud.@CALL@) Could not fetch resource:\n - The resource is not ready: resourceNotReady (400)"
        ),
        "aws": Answer(
            "\nAn error occurred (IncorrectInstanceState) when calling the @CALL@ operation: This instance "
            "is not in a state from which it can be stopped.",
            254,
        ),
        "az": Answer(
            "(OperationPreempted) Operation execution has been preempted by a more recent operation.\n"
            "Code: OperationPreempted"
        ),
        "": Answer("Error: 409 Conflict: it is stopping already"),
    },
}
#: Words of calls that stop, remove or make smaller.
CHANGING = (
    "stop",
    "delete",
    "destroy",
    "suspend",
    "terminate",
    "deallocate",
    "resize",
    "scale",
    "remove",
    "power-off",
    "shutdown",
    "stop-instances",
    "terminate-instances",
    "set-desired-capacity",
    "update-auto-scaling-group",
    "update-nodegroup-config",
    "terminate-instance-in-auto-scaling-group",
    "cancel-spot-instance-requests",
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
#: The same of aws: its service, its operation as botocore spells it (``StopInstances``), and its region.
_CALLED_AWS = """\
service= called= before= region=${AWS_REGION:-${AWS_DEFAULT_REGION:-us-east-1}}
for word in "$@"; do
  [ "$before" != --region ] || { region=$word; before=; continue; }
  case $word in
    ec2|autoscaling|sts|iam|eks|s3|s3api|sqs|fis) [ -n "$service" ] || service=$word ;;
    describe-*|stop-*|terminate-*|start-*|set-*|update-*|get-*|list-*|create-*|delete-*|cancel-*|put-*|modify-*|run-*)
      [ -n "$called" ] || called=$word ;;
  esac
  before=$word
done
operation= between=$IFS; IFS=-
for part in $called; do
  rest=${part#?}; first=${part%"$rest"}
  operation=$operation$(printf %s "$first" | tr abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ)$rest
done
IFS=$between; called=$operation
"""
#: EC2's own words for a refusal; other services say what :mod:`killcheck.standins.gate` has.
_EC2_TEXTS: Mapping[Lapse, str] = {
    "denied": "You are not authorized to perform this operation.",
    "expired": "Request has expired.",
    "throttled": "Request limit exceeded.",
}
#: From here on the program that was there before is found.
_PASSED_ON = "PATH=${PATH#@HERE@:}; export PATH\n"


#: What was called stands where the words say so.
_FILLED = 'sed "s/@CALL@/$called/; s/@CODE@/$code/; s/@TEXT@/$text/; s/@SERVICE@/$service/; s/@REGION@/$region/"'


def _head(name: str) -> str:
    return _HEAD.format(name=name)


def _called(name: str) -> str:
    """Finds out what was called."""
    return _CALLED_AWS if name == "aws" else _CALLED.replace("{between}", "." if name == "gcloud" else " ")


def _refusal(answer: str) -> str:
    """Each service's own code and words for a refusal, as its client shows them."""
    if answer not in _EC2_TEXTS:
        return ""
    how = cast("Lapse", answer)
    cases = [f"  ec2) code={code_of('ec2', how)} text={shlex.quote(_EC2_TEXTS[how])} ;;"]
    cases += [
        f"  {marks}) code={code_of(service, how)} text={shlex.quote(text_of(how))} ;;"
        for marks, service in (("autoscaling|sts|iam", "sts"), ("s3|s3api", "s3"), ("eks", "eks"), ("*", "fis"))
    ]
    return "\n".join(["case $service in", *cases, "esac\n"])


def refusing(name: str, answer: str, *, after_s: float = 0.0) -> str:
    """A program that answers every call with an error; ``after_s``: only after so many seconds."""
    found = ANSWERS[answer].get(name) or ANSWERS[answer][""]
    wait = f"sleep {after_s:g}\n" if after_s else ""
    return (
        _head(name)
        + _NOTED.format(name=name)
        + _called(name)
        + (_refusal(answer) if name == "aws" else "")
        + wait
        + f"printf '%s\\n' {shlex.quote(found.words)} | {_FILLED} >&2\nexit {found.code}\n"
    )


def unanswered(name: str) -> str:
    """A program that never answers, for as long as the fault is there."""
    return _head(name) + _NOTED.format(name=name) + "while [ -e '@CALLS@' ]; do sleep 10; done\nexit 1\n"


def refusing_once(name: str, mark: str) -> str:
    """A program that passes every call on, and answers the first one that would stop something with a refusal.

    ``mark``: what tells this run's first call from another's.
    """
    found = ANSWERS[_STOPPING].get(name) or ANSWERS[_STOPPING][""]
    first = (
        _NOTED.format(name=name)
        + _called(name)
        + _PASSED_ON
        + f'{name} "$@" > /dev/null 2>&1\n'
        + f"printf '%s\\n' {shlex.quote(found.words)} | {_FILLED} >&2\nexit {found.code}\n"
    )
    once = f"(set -C; : > '@CALLS@.{mark}') 2> /dev/null"
    return (
        _head(name)
        + f'case " $* " in\n{_marks()})\nif {once}; then\n{first}fi ;;\nesac\n'
        + _PASSED_ON
        + f'exec {name} "$@"\n'
    )


def no_effect(name: str) -> str:
    """A program that says yes to every call which would stop something, and passes all others on."""
    return (
        _head(name)
        + f'case " $* " in\n{_marks()})\n  '
        + _NOTED.format(name=name)
        + "  exit 0 ;;\nesac\n"
        + _PASSED_ON
        + f'exec {name} "$@"\n'
    )


def _marks() -> str:
    return "|".join(f'*" {word} "*' for word in CHANGING)
