"""From what went wrong to one clear message and the documented exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from killcheck.commands.saying import say
from killcheck.verdict import EXIT_CODES

__all__ = ["Interrupted", "expected", "guarded"]

#: A person who interrupts this often wants out at once: ``killcheck restore`` does the rest.
IMPATIENT = 4

_F = TypeVar("_F", bound=Callable[..., Any])


class Interrupted(KeyboardInterrupt):
    """SIGINT, SIGTERM or SIGHUP arrived: unwind and heal; further signals do not cut the healing short.

    ``insists``: somebody has signalled so often that nothing is waited for any more.
    """

    def __init__(self, *, insists: bool = False) -> None:
        super().__init__()
        self.insists = insists


def guarded(function: _F) -> _F:
    """Decorate a command: signals unwind it, and every expected failure ends in one message and an exit code."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        """The command. Raises SystemExit with the documented code where it does not just end."""
        _signals()
        try:
            return function(*args, **kwargs)
        except SystemExit:  # said what there was to say; what errors mean need not be loaded for it
            raise
        except KeyboardInterrupt as stop:
            if getattr(stop, "insists", False):
                _fail(
                    "interrupted while it put back what was changed: the rest is in the journal; put it back with "
                    "killcheck restore",
                    "dirty",
                )
            _fail("interrupted; what was changed has been put back (killcheck restore makes sure)", "unfinished")
        except BrokenPipeError:  # nobody reads on: what was changed has been put back on the way here
            _read_no_more()
            sys.exit(EXIT_CODES["unfinished"])
        except expected() as error:
            word = next(word for kind, word in _meanings() if isinstance(error, kind))
            if kwargs.get("as_json"):
                _as_document(_said(error), word)
            _fail(_said(error), word)

    return run  # type: ignore[return-value]


def expected() -> tuple[type[Exception], ...]:
    """What can go wrong and is told in one message: everything else is a defect."""
    return tuple(kind for kind, _ in _meanings())


def _meanings() -> list[tuple[type[Exception], str]]:
    from killcheck.capabilities.cluster import ClusterError, NotInstalled
    from killcheck.discover import DiscoveryError
    from killcheck.faults import FaultError
    from killcheck.fence import AccountError
    from killcheck.history.places import NoPlace, PlaceError
    from killcheck.kube.errors import KubeConfigError, KubeError
    from killcheck.kube.manifests import ManifestError
    from killcheck.layers.base import LayerError
    from killcheck.proof.errors import ProofError, Refused, SigningError
    from killcheck.reports.post import PostError
    from killcheck.run.record import RecordError, UnsealedError
    from killcheck.run.runner import Declined
    from killcheck.run.session import NothingToDrill, SessionError
    from killcheck.safety.consent import ConsentError
    from killcheck.safety.journal import Dirty, JournalError
    from killcheck.safety.lease import Busy
    from killcheck.spec.specfile import SpecError

    return [
        (SpecError, "usage"),
        (ManifestError, "usage"),
        (DiscoveryError, "usage"),
        (SessionError, "usage"),
        (LayerError, "usage"),
        (ConsentError, "usage"),
        (KubeConfigError, "usage"),
        (RecordError, "usage"),
        (AccountError, "usage"),
        (NoPlace, "usage"),
        (PlaceError, "unfinished"),
        (ProofError, "usage"),
        (Refused, "inconclusive"),
        (UnsealedError, "inconclusive"),
        (SigningError, "unfinished"),
        (NotInstalled, "usage"),
        (KubeError, "unfinished"),
        (ClusterError, "unfinished"),
        (JournalError, "unfinished"),
        (Declined, "unfinished"),
        (Busy, "unfinished"),
        (PostError, "unfinished"),
        (Dirty, "dirty"),
        (FaultError, "inconclusive"),
        (NothingToDrill, "inconclusive"),
        (OSError, "unfinished"),
    ]


#: A device or quota that is full, or broken.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)


#: What to do where nothing may be written.
KEPT = " (journals and run records are kept here: start killcheck in a folder that is yours)"


def _said(error: Exception) -> str:
    from killcheck.kube.errors import Forbidden
    from killcheck.kube.preflight import granting

    rule = granting(str(error)) if isinstance(error, Forbidden) else None
    if rule is not None:
        return f"{error}; it takes {rule} (bound to that user)"
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    if error.filename:
        kept = error.errno != errno.ENOSPC and Path(str(error.filename)).parts[:1] == (".killcheck",)
        return f"{error.filename}: {error.strerror.lower()}" + (KEPT if kept else "")
    where = " (standard output, or the run's folder under .killcheck)" if error.errno in _NO_ROOM else ""
    return f"cannot go on: {error.strerror.lower()}{where}"


def _read_no_more() -> None:
    """Let what is still buffered go nowhere: writing it at exit would fail once more, in Python's words."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stream of a test, without a number
        return


def _signals() -> None:
    import signal

    heard: list[int] = []

    def unwind(number: int, _frame: object) -> None:
        heard.append(number)
        if len(heard) in (1, IMPATIENT):
            raise Interrupted(insists=len(heard) == IMPATIENT)
        say("killcheck: putting back what was changed; what is left is in the journal", err=True)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), unwind)


def _as_document(message: str, word: str) -> None:
    """What a reader of ``--json`` gets where there is nothing else: the same sentence, and what it comes to."""
    import json

    from killcheck.text.redaction import redact

    empty: dict[str, list[object]] = {"drills": [], "findings": [], "fences": []}
    said = {"schema": "killcheck.result/v1", "verdict": word, "exit_code": EXIT_CODES[word], "error": redact(message)}
    click.echo(json.dumps({**said, **empty}, indent=2))


def _fail(message: str, word: str) -> None:
    from killcheck.text.redaction import redact

    say(f"killcheck: {redact(message)}", err=True)
    sys.exit(EXIT_CODES[word])
