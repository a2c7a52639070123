"""What several questions read off a program's firing in a rehearsal: what it said, what it looked for, what it lost."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from killcheck.probes.where import complaints
from killcheck.probes.world import SCALED

from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.rehearsal.clouds import CloudCall
    from killcheck.rehearsal.record import Call, Ending, Firing

__all__ = ["complaint_of", "is_gone", "is_not_served", "lost_in", "mistaken", "not_found", "telling"]

_NOT_FOUND = lazy_re.compile(
    r"(?:^|: |\bexec: \")([\w./+-]+)(?:\": .*(?:not found in \$PATH|no such file)|: (?:command )?not found)",
    re.MULTILINE,
)
#: What Python says of a program that it was to start (``open`` says the same of a file, from elsewhere).
_NOT_STARTED = lazy_re.compile(
    r"_execute_child(?:(?!Traceback|_execute_child).){0,2000}?"
    r"FileNotFoundError: \[Errno 2\] No such file or directory: '([\w.+-]+)'",
    re.S,
)
_WRONG = lazy_re.compile(
    r"\b(error|fatal|unknown|unrecognized|not found|no such|cannot|denied|failed|traceback|unable|refused|certificate"
    r"|timed? ?out|forbidden|unauthorized|invalid|exception)\b",
    re.I,
)
#: How a traceback of Python ends.
_RAISED = lazy_re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): ")
#: How alike names are of which one is the other misspelt (0 to 1).
_MISSPELT = 0.8


def telling(ending: Ending) -> str:
    """The line of a log that says what was wrong: the first that begins with ``error``, or else the last."""
    if " " in ending.reason:  # a sentence: who ended it
        return ending.reason[:300]
    lines = [line.strip() for line in ending.log.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "fatal"))]
    return (errors or lines[-1:] or [ending.reason or "it says nothing"])[0][:300]


def complaint_of(firing: Firing) -> str | None:
    """What a program says that went wrong, whatever it ends with: a line of its own; None: it complains of nothing."""
    logs = [ending.log for ending in firing.endings]
    return next((words for sign in (_RAISED, _WRONG) for log in logs for words in complaints(log, sign)), None)


def not_found(ending: Ending) -> list[str]:
    """The commands that a shell, or what starts containers, did not find."""
    return list(dict.fromkeys((*_NOT_FOUND.findall(ending.log), *_NOT_STARTED.findall(ending.log))))


def lost_in(refused: Firing | None) -> CloudCall | None:
    """The first call that a cloud refused of a program that ended well all the same; None: it did not, or none was."""
    if refused is None or refused.exit_code != 0:
        return None
    return next((call for call in refused.clouds if call.refused), None)


def is_not_served(call: Call) -> bool:
    """Whether the path itself leads nowhere, rather than to an object that is not there."""
    words = ("page not found", "could not find the requested resource")
    return call.status == 404 and any(word in call.answer for word in words)


def mistaken(call: Call, firing: Firing) -> bool:
    """Whether a program looked for an object that is not there, where one of nearly that name, or of that name in
    another namespace or of another kind, holds GPUs and stays on."""
    if call.status != 404 or call.resource not in SCALED or not call.name or is_not_served(call):
        return False
    stay = [change for change in firing.changes if not change.off and change.after]
    near = [change.name for change in stay if change.namespace == call.namespace]
    return call.name in [change.name for change in stay] or bool(get_close_matches(call.name, near, 1, _MISSPELT))


def is_gone(call: Call, firing: Firing) -> bool:
    """Whether a program that ends well turned off all that holds GPUs in a namespace, and names one more there that is
    not there: nothing is on that it could have meant."""
    looked = call.status == 404 and call.resource in SCALED and bool(call.name) and not is_not_served(call)
    here = [change for change in firing.changes if change.namespace == call.namespace]
    elsewhere = any(change.name == call.name and not change.off for change in firing.changes)
    return looked and firing.exit_code == 0 and bool(here) and all(c.off for c in here) and not elsewhere
