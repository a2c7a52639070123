"""What one run record says of each of its drills: a night."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from msgspec import Struct, field, structs

from killcheck.events import DrillFinished, DrillStarted, Event, RunFinished, RunStarted, Snapshot, from_json
from killcheck.run.chain import Chain, ChainBroken
from killcheck.safety.seals import Whose
from killcheck.spec.phases import Phase
from killcheck.text.jsontext import from_text
from killcheck.text.shown import one_line, plain_in
from killcheck.text.values import replace

__all__ = ["UNFINISHED", "Night", "RunNights", "Unreadable", "end_of", "path_told", "read"]

#: What a standing may be; ``unfinished``: the record ends before the drill did.
PROVEN = frozenset({"survived", "covered"})
UNFINISHED = "unfinished"
#: What somebody else says was proven, or is accepted.
UNSEALED = "unsealed"
_WANTED = tuple(f'"{kind.kind}"' for kind in (RunStarted, DrillStarted, DrillFinished, RunFinished, Snapshot))


class Unreadable(Exception):
    """The file is no run record; the message says where it stops being one."""


class Night(Struct, frozen=True):
    """One drill. ``at``: when it ended (Unix time, the clock of who ran it); seconds count from the trigger.

    ``standing``: its verdict, ``accepted`` where the policy accepts an exposure; ``until``: when it ends to hold, for
    somebody vouched only till then for what it rests on (Unix time, None: without end). ``usd``: what was at risk
    until the layer's next chance where it is exposed, else None. ``limit_s``: the deadline for zero GPUs. ``sealed``:
    whether this machine wrote its record, or one with the same ``KILLCHECK_KEY``.
    """

    run: str
    at: float
    kill_path: str
    cluster: str
    layer: str
    faults: tuple[str, ...]
    title: str
    standing: str
    to_zero_s: float | None = None
    to_drained_s: float | None = None
    limit_s: float | None = None
    usd: float | None = None
    cause: str = ""
    dirty: bool = False
    until: float | None = None
    sealed: bool = True

    @property
    def proven(self) -> bool:
        """Whether the GPUs were seen to go off, and everything was put back."""
        return self.standing in PROVEN and not self.dirty

    @property
    def believed(self) -> Night:
        """As it is believed without anybody's word: an exposure at once, a proof only where it is sealed."""
        told = self.sealed or self.standing not in (*PROVEN, "accepted")
        return self if told else replace(self, standing=UNSEALED)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return structs.asdict(self)


def path_told(kill_path: str, *, example: bool) -> str:
    """How a kill path is called here: a shipped example's nights are nobody's own, whatever the path's name is."""
    return f"{kill_path} (example)" if example else kill_path


class RunNights(Struct, frozen=True):
    """A run: its nights, and what was there when it began (object to what a person would look at)."""

    nights: tuple[Night, ...]
    snapshot: dict[str, dict[str, str]] = field(default_factory=dict)


def read(lines: Iterable[str], where: str, keys: Sequence[bytes] | None = None) -> RunNights:
    """The nights of a record whose chain is whole. A last line cut short by a kill is left out. Raises Unreadable.

    ``keys``: whose seals are believed; None: this machine's, read now.
    """
    book, chain = _Book(where), Chain()
    bad = ""
    for number, line in enumerate(lines, 1):
        if bad:
            raise Unreadable(bad)
        if line.endswith("}"):
            _follow(chain, line, where, number)
        if number > 1 and not any(word in line[:60] for word in _WANTED):
            continue
        try:
            data = from_text(line)
            if "\\" in line or not line.isprintable():  # else there is nothing in it that a terminal obeys
                data = plain_in(data)
            event = from_json(data) if isinstance(data, dict) else None
            if number == 1 and not isinstance(event, RunStarted):
                raise Unreadable(f"{where}:1: not a killcheck run record: the first line must be a RunStarted event")
            book.add(event)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            bad = f"{where}:{number}: not a line of a killcheck run record ({error})"
            if number == 1:
                raise Unreadable(bad) from error
    return book.run(sealed=chain.sealed_by(keys) is Whose.OURS)


def _follow(chain: Chain, line: str, where: str, number: int) -> None:
    try:
        chain.follow(line)
    except ChainBroken as error:
        raise Unreadable(f"{where}:{number}: {error}") from error


class _Book:
    def __init__(self, where: str) -> None:
        self.where = where
        self.run_started: RunStarted | None = None
        self.open: dict[str, DrillStarted] = {}
        self.due: list[DrillStarted] = []
        self.ended = False
        self.nights: list[Night] = []
        self.snapshot: dict[str, dict[str, str]] = {}

    def add(self, event: Event | None) -> None:
        """Raises TypeError, ValueError and AttributeError for an event whose fields are of other types."""
        if isinstance(event, RunStarted):
            self.run_started = event
            self.due = [_due(event, one) for one in event.drills]
        elif isinstance(event, RunFinished):
            self.ended = True
        elif isinstance(event, DrillStarted):
            self.open[event.drill] = event
            self.due = [one for one in self.due if _cell(one) != _cell(event)]
        elif isinstance(event, DrillFinished):
            started = self.open.pop(event.drill, None)
            if started is not None:
                self.nights.append(self._night(started, event.at, event.result))
        elif isinstance(event, Snapshot):
            self.snapshot = {
                str(name): {str(key): str(value) for key, value in said.items()} for name, said in event.objects.items()
            }

    def run(self, *, sealed: bool) -> RunNights:
        """What there is; drills that the record ends before are ``unfinished``. Raises Unreadable for an empty one."""
        if self.run_started is None:
            raise Unreadable(f"{self.where}: not a killcheck run record: it is empty")
        # Where none was under way the next one was about to begin, or that it had begun is what was cut off.
        next_one = [] if self.ended or self.open else self.due[:1]
        cut_short = (self._night(started, started.at, {}) for started in (*self.open.values(), *next_one))
        nights = (replace(night, sealed=sealed) for night in (*self.nights, *cut_short))
        return RunNights(tuple(nights), self.snapshot)

    def _night(self, started: DrillStarted, at: datetime, result: Mapping[str, Any]) -> Night:
        run = self.run_started
        assert run is not None
        verdict = str(result.get("verdict", UNFINISHED))
        exposed = verdict == "exposed"
        accepted = (exposed and result.get("accepted")) or {}
        chance = result.get("usd_until_next_chance")
        return Night(
            one_line(run.run),
            # The cluster's own clock may be an embedded one's: a night is when somebody ran it.
            (run.at if not run.real else at).timestamp(),
            one_line(path_told(run.kill_path, example=bool(run.spec.get("example")))),
            one_line(run.cluster),
            one_line(started.layer),
            tuple(map(one_line, started.faults)),
            one_line(started.title),
            "accepted" if accepted else verdict,
            _number(result.get("seconds_to_zero")),
            _number(result.get("seconds_to_drained")),
            _number(started.deadlines.get(Phase.PODS_GONE)),
            _number(result.get("usd") if chance is None else chance) if exposed else None,
            one_line(str(result.get("cause") or result.get("why") or "")[:500]),
            bool(result.get("problems")),
            min((end_of(day) for day in _last_days(accepted, result)), default=None),
        )


def _due(run: RunStarted, said: Mapping[str, Any]) -> DrillStarted:
    """The beginning that a planned drill would have had. Raises KeyError, TypeError and AttributeError."""
    faults = list(map(str, said["faults"]))
    return DrillStarted(
        at=run.at,
        layer=str(said["layer"]),
        layer_type="",
        faults=faults,
        deadlines={},
        proof=[],
        title=str(said.get("title", "")),
    )


def _cell(one: DrillStarted) -> tuple[str, tuple[str, ...], str]:
    return one.layer, tuple(one.faults), one.title


def _number(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) else None


def _last_days(accepted: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[Any]:
    """Until which days somebody vouched: for an exposure, or for what the verdict rests on."""
    yield from (one["until"] for one in (accepted, *(result.get("ledger") or ())) if one.get("until"))


def end_of(day: Any) -> float:
    """The Unix time at which a day ends everywhere a policy could mean it: in UTC. Raises ValueError."""
    return (datetime.combine(date.fromisoformat(str(day)), time(), UTC) + timedelta(days=1)).timestamp()
