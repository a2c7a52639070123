"""What a rehearsal saw, typed: calls with their answers, ends of containers, and what became of what holds GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from killcheck.rehearsal.clouds import CloudCall
from killcheck.text.jsontext import from_text

__all__ = ["NOT_FIRED", "Beside", "Call", "Change", "Ending", "Firing", "Outcome", "Rehearsed", "Step"]

#: Why nothing was seen of a program that nobody fired.
NOT_FIRED = "it was not fired: --exec host fires it"
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
#: Words that ask whether something may be done: nothing is changed by them, whatever their method is.
_REVIEWS = ("authorization.k8s.io", "authentication.k8s.io")


class Outcome(Enum):
    """How a firing ended. ``UNKNOWN``: it could not be run here, so nothing can be said of it; ``GIVEN_UP``: it was
    still at work when the rehearsal's own patience ended, which says nothing of whether it would have ended."""

    ENDED = "ended"
    ENDLESS = "had not ended"
    GIVEN_UP = "was given up"
    NOT_STARTED = "never started"
    UNKNOWN = "unknown"


class Call(Struct, frozen=True):
    """One request to the API server and its answer.

    ``at_s``: seconds since the firing; ``body`` as text, at most a few kB; ``status`` the HTTP status; ``answer`` the
    server's own words where it refused; ``warnings`` those it sent along. ``replicas``: the number that it writes.
    """

    at_s: float
    method: str
    path: str
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    content_type: str = ""
    body: str = ""
    status: int = 200
    answer: str = ""
    warnings: tuple[str, ...] = ()
    replicas: int | None = None
    dry_run: bool = False

    @property
    def writes(self) -> bool:
        """Whether it asks for a change."""
        return self.verb in _WRITES and not self.dry_run and self.group not in _REVIEWS

    @property
    def refused(self) -> bool:
        """Whether the server did not do it."""
        return self.status >= 400

    @property
    def asked(self) -> tuple[str, str, str]:
        """What an RBAC rule would have to grant: (group, resource with its subresource, verb)."""
        return self.group, self.resource + (f"/{self.subresource}" if self.subresource else ""), self.verb

    @property
    def about(self) -> tuple[str, str, str, str]:
        """The object: (group, resource, namespace, name)."""
        return self.group, self.resource, self.namespace, self.name

    def __str__(self) -> str:
        said = f": {self.answer}" if self.answer else ""
        return f"{self.method} {self.path} was answered {self.status}{said}"


class Ending(Struct, frozen=True):
    """How a container ended: ``code`` None while it runs. ``log`` is the end of what it wrote. ``sidecar``: an init
    container that goes on beside the others and is stopped when they have ended: its end says nothing."""

    container: str
    image: str
    code: int | None
    reason: str = ""
    log: str = ""
    sidecar: bool = False

    @property
    def last_words(self) -> str:
        """The last line of its log that says something."""
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        return lines[-1] if lines else ""


class Change(Struct, frozen=True):
    """One holder of GPUs before and after: GPU pods that it wants, and those that are on a node."""

    kind: str
    namespace: str
    name: str
    before: int
    after: int
    pods_before: int
    pods_after: int
    gone: bool = False

    @property
    def off(self) -> bool:
        """Whether it was on, and is off."""
        if self.gone:  # not where its pods were left behind
            return not self.pods_after
        unwanted = self.before > 0 and self.after == 0
        return unwanted or (self.pods_before > 0 and self.pods_after == 0)

    @property
    def happened(self) -> bool:
        """Whether anything became of it."""
        return self.gone or (self.before, self.pods_before) != (self.after, self.pods_after)


class Step(Struct, frozen=True):
    """Where an interpreter was when it began something: ``line`` (1-based) of ``file``, or of its command line where
    that is empty. ``words`` is what it began, after expansion; ``before`` the exit status of what came before."""

    container: str
    file: str
    line: int
    before: int
    words: str = ""


class Firing(Struct, frozen=True):
    """One run of a program. ``seconds`` in the cluster's time; ``why``: what kept it from starting or being run.

    ``outside``: names beyond the cluster that it looked up; ``services`` (``name.namespace``): Services of the cluster,
    behind which nothing answers in a rehearsal. ``unpulled``: images of it that no registry has, with the pull's own
    words: it was fired as if they had come, so that nothing else it does is hidden by that. ``clouds``: what it asked
    clouds' command lines for, which answered with nothing.
    """

    outcome: Outcome
    seconds: float = 0.0
    calls: tuple[Call, ...] = ()
    endings: tuple[Ending, ...] = ()
    changes: tuple[Change, ...] = ()
    why: str = ""
    outside: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    unpulled: tuple[tuple[str, str], ...] = ()
    clouds: tuple[CloudCall, ...] = ()

    @property
    def exit_code(self) -> int | None:
        """The first failure among its containers, else 0; None where not all of them have ended."""
        codes = [ending.code for ending in self.endings if not ending.sidecar]
        failed = [code for code in codes if code]
        if failed:
            return failed[0]
        return 0 if codes and None not in codes and self.outcome is Outcome.ENDED else None

    @property
    def failed(self) -> Ending | None:
        """The container that failed first."""
        return next((ending for ending in self.endings if ending.code and not ending.sidecar), None)

    @property
    def off(self) -> tuple[Change, ...]:
        """What it turned off."""
        return tuple(change for change in self.changes if change.off)

    @property
    def writes(self) -> tuple[Call, ...]:
        """The changes that it asked for."""
        return tuple(call for call in self.calls if call.writes)

    @property
    def refused(self) -> Iterator[Call]:
        """Calls that were refused and never made good."""
        for number, call in enumerate(self.calls):
            if call.refused and not _made_good(call, self.calls[:number], self.calls[number + 1 :]):
                yield call


def _made_good(call: Call, earlier: tuple[Call, ...], later: tuple[Call, ...]) -> bool:
    """Whether a refusal came to nothing: the same was taken later, or another write of that object; or it was looked
    for after it had been taken away, and was gone."""
    looks = call.status == 404 and not call.writes and bool(call.name)
    gone = looks and any(not c.refused and c.about == call.about and _ends(c) for c in earlier)
    same = any(not c.refused and (c.method, c.path) == (call.method, call.path) for c in later)
    other = any(not c.refused and c.writes and c.name and c.about == call.about for c in later)
    made = any(not c.refused and c.verb == "create" and c.about[:3] == call.about[:3] for c in later)
    return gone or same or other or (made and call.status == 404)


def _ends(call: Call) -> bool:
    """Whether a call takes an object away: deleted, or evicted."""
    return call.verb == "delete" or (call.verb, call.subresource) == ("create", "eviction")


class Beside(Struct, frozen=True):
    """A program of a machine's own schedule. ``argv`` with ``env``, as its unit starts it in ``folder``; ``file`` and
    ``line``: where that is said; ``schedule`` (cron, in ``time_zone``) empty: not known. ``by``: the file of its timer,
    or its crontab. ``read``: the argument vectors that its texts are read to run; ``odd``: what of its line its machine
    takes otherwise than a shell would; ``limit_s``: when its unit stops it; ``idle``: why nothing here lets its
    timer run, in half a sentence; ``late_s``: how many seconds after its time its timer may go off."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    file: str
    line: int
    schedule: str = ""
    time_zone: str = ""
    by: str = ""
    folder: str = ""
    read: tuple[tuple[str, ...], ...] = ()
    odd: str | None = None
    limit_s: float | None = None
    idle: str | None = None
    late_s: float = 0.0


class Rehearsed(Struct, frozen=True):
    """A program and its firings.

    ``program``: its reference (``CronJob/inference/nightly-off``); ``deadline_s``: after how long its Job is ended.
    ``second``: the night after the first, where that left something behind. ``refused``: the same program with every
    write refused to its account (403), where it made any: whether anybody would hear of that.
    ``beside``: what it is where it is no object of a cluster. ``later``: firings on nights of another kind, where its
    program looks at the calendar. ``dark``: the same program while what it may light is off, where it changed nothing
    as long as that was on. ``steps``: where its interpreters were, in a firing of its own that went as the first did.
    """

    program: str
    namespace: str
    account: str
    first: Firing
    second: Firing | None = None
    refused: Firing | None = None
    deadline_s: float | None = None
    beside: Beside | None = None
    later: tuple[tuple[datetime, Firing], ...] = ()
    dark: Firing | None = None
    steps: tuple[Step, ...] = ()

    @property
    def known(self) -> bool:
        """Whether it could be run here, and nothing of it hung on what a cloud would have answered."""
        return self.first.outcome is not Outcome.UNKNOWN and not self.first.clouds

    @property
    def why_unknown(self) -> str:
        """Why what it does is not known from this; empty: it is, or nothing says why."""
        first = self.first
        if first.outcome is not Outcome.UNKNOWN and first.clouds:
            return f"it asks {first.clouds[0].argv[0]}, and no cloud answers in a rehearsal"
        return first.why

    @property
    def ran(self) -> bool:
        """Whether any of it ran: else only reading tells what it would do."""
        return self.known and self.first.outcome is not Outcome.NOT_STARTED

    @property
    def never_starts(self) -> bool:
        """Whether it was seen that nothing of it would ever run: ``first.why`` says why."""
        return self.known and self.first.outcome is Outcome.NOT_STARTED

    def to_json(self) -> dict[str, Any]:
        """As the JSON document has it."""
        first = self.first
        return {
            "program": self.program,
            "account": self.account if self.beside else f"{self.namespace}/{self.account}",
            "outcome": first.outcome.value,
            "exit_code": first.exit_code,
            "seconds": round(first.seconds, 3),
            "why": first.why or None,
            "calls": [str(call) for call in first.calls],
            "off": [f"{c.kind}/{c.namespace}/{c.name}" for c in first.off],
            "outside": list(first.outside),
            "clouds": [str(call) for call in first.clouds],
            "unpulled": [image for image, _ in first.unpulled],
            "second_night": self.second.exit_code if self.second else None,
            "later": [
                {"at": f"{at:%Y-%m-%dT%H:%MZ}", "off": [f"{c.kind}/{c.namespace}/{c.name}" for c in firing.off]}
                for at, firing in self.later
            ],
            "dark": [str(call) for call in self.dark.writes] if self.dark else [],
            "when_refused": self.refused.exit_code if self.refused else None,
        }


def replicas_in(body: str) -> int | None:
    """The number of replicas that a body writes: a merge patch, a Scale, an object, or a JSON patch."""
    try:
        document = from_text(body)
    except ValueError:
        return None
    if isinstance(document, list):
        values = [op.get("value") for op in document if isinstance(op, dict) and op.get("path") == "/spec/replicas"]
        found = values[-1] if values else None
    else:
        spec = document.get("spec") if isinstance(document, dict) else None
        found = spec.get("replicas") if isinstance(spec, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None
