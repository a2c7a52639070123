"""Why a program on a machine failed, from what it said: the words of shells, clouds' command lines and the kernel.

What may *not* live here: what the drill saw of its effect (:mod:`killcheck.layers.command` knows that).
"""

from __future__ import annotations

import re

from msgspec import Struct

from killcheck.capabilities.programs import Ran
from killcheck.text import lazy_re

__all__ = ["Reason", "reason_of"]


class Reason(Struct, frozen=True):
    """What to do about it, and the rows of the failure catalogue that it is."""

    remedy: str
    failures: tuple[int, ...]


_OTHERWISE = Reason(
    "run it by hand with the environment that its timer gives it; credentials that expire are the first suspect",
    (20, 14),
)
#: The first whose words are found is meant.
_KNOWN: tuple[tuple[re.Pattern[str], Reason], ...] = tuple(
    (lazy_re.compile(words, re.IGNORECASE), Reason(remedy, failures))
    for words, remedy, failures in (
        (
            r"read-only file system|no space left",
            "let stopping write nothing: no lock, no log, no state before it",
            (57,),
        ),
        (
            r"resourcenotready|incorrectinstancestate|operationpreempted|\b409\b|not in a state",
            "look whether it stopped when a stop is refused, and once more later: what its cloud reclaims a persistent "
            "request starts again (cancel it, or let a monitor stop it too)",
            (50, 52),
        ),
        (
            r"permission_denied|unauthorizedoperation|authorizationfailed|access ?denied|\b403\b|not authorized",
            "give the identity that the timer runs as the right to stop it, and try that right every day",
            (16,),
        ),
        (
            r"reauthenticat|auth tokens|expired|active account|locate credentials|az login|aws configure|AADSTS",
            "let a machine's own identity sign in (an instance role, a service account), never a person's session",
            (20, 21),
        ),
        (
            r"\b429\b|too ?many ?requests|requestlimitexceeded|quota exceeded|throttl|rate exceeded",
            "try again, with pauses, until it has stopped or somebody has been told",
            (4,),
        ),
        (
            r"network is unreachable|could not connect|connectionerror|max retries|name resolution|timed out|no route",
            "try again, and let something beside this machine's network stop it too",
            (23, 25),
        ),
        (
            r"command not found|: not found|no such file|can't open|permission denied",
            "deploy it with what it calls, by absolute paths, and start it once after every deployment",
            (2,),
        ),
    )
)
_TOO_LONG = Reason(
    "give each call a limit of its own (timeout), and never let one wait for somebody to answer", (20, 25)
)


def reason_of(ran: Ran) -> Reason:
    """What is the matter with a run that did not end well."""
    if ran.overdue:
        return _TOO_LONG
    said = f"{ran.errors}\n{ran.output}\n{ran.why}"
    return next((reason for words, reason in _KNOWN if words.search(said)), _OTHERWISE)
