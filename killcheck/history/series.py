"""The nights of one layer under one set of faults, as figures: how it stands, what it takes, where it is heading."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import combinations, pairwise
from typing import Any

from msgspec import Struct

from killcheck.history.index import History
from killcheck.history.nights import Night
from killcheck.text import lazy_re
from killcheck.text.shown import one_line

__all__ = ["Break", "Series", "Stand", "Story", "day", "told"]

DAY_S = 86400.0
#: Nights that a trend takes at least; of more than so many a trend is drawn from as many, spread over all of them.
FEWEST, MOST = 5, 200
#: Differences that are told of one break.
MOST_CHANGES = 20
#: A field of a snapshot that is too long to be in it.
_DIGEST = lazy_re.compile(r"[0-9a-f]{12}")


class Stand(StrEnum):
    """How a series stands now. ``stale``: its last night proved it, too long ago, or rests on what is over by now."""

    PROVEN = "proven"
    ACCEPTED = "accepted"
    STALE = "stale"
    INCONCLUSIVE = "inconclusive"
    EXPOSED = "exposed"


class Took(Struct, frozen=True):
    """Seconds that the proven nights took. ``per_month_s``: by how much that grows in thirty days; ``level_s``: where
    that trend stands on the last of them (both None: not known)."""

    nights: int
    median_s: float
    p95_s: float
    per_month_s: float | None
    level_s: float | None

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]]) -> Took | None:
        """From (Unix time, seconds), oldest first; None where there are none."""
        if not points:
            return None
        values = sorted(seconds for _, seconds in points)
        return cls(len(values), statistics.median(values), _percentile(values, 0.95), *_trend(points))


class Break(Struct, frozen=True):
    """Nights that stopped being proven: the last that was, the first that was not, and what differs between them.

    ``changes`` is None where one of the two records has no snapshot.
    """

    before: Night
    after: Night
    changes: tuple[str, ...] | None
    mended: Night | None = None


class Series(Struct, frozen=True):
    """All nights of one layer under one set of faults, oldest first."""

    nights: tuple[Night, ...]
    stand: Stand
    last_proven: Night | None
    to_zero: Took | None
    to_drained: Took | None
    breaks: tuple[Break, ...] = ()
    #: Mean seconds, over the time from its first night till now, since it was last proven; before: since its first.
    #: None: it never was proven.
    mean_age_s: float | None = None
    #: Seconds from now until the trend of the time to zero meets the deadline; None: it does not grow, or is not known.
    deadline_in_s: float | None = None

    @property
    def last(self) -> Night:
        """The newest night."""
        return self.nights[-1]

    @property
    def under(self) -> str:
        """The faults, or the title of a night that has one."""
        return self.last.title or " + ".join(self.last.faults) or "undisturbed"

    @property
    def at_risk_usd(self) -> float | None:
        """Dollars until the layer's next chance, where it stands exposed."""
        return self.last.usd if self.stand is Stand.EXPOSED else None


@dataclass(frozen=True, slots=True)
class Story:
    """Every series, those that need somebody first. ``now`` is a Unix time."""

    now: float
    stale_after_s: float
    series: tuple[Series, ...]
    runs: int
    unreadable: tuple[str, ...] = ()
    nights: tuple[Night, ...] = field(default=(), repr=False)
    #: How those stood of which no night is in the time that is told.
    earlier: tuple[Stand, ...] = ()

    @property
    def stand(self) -> Stand:
        """The worst of all; nothing is inconclusive, and so is what a record that cannot be read may say otherwise.

        What was exposed before the time that is told, and not drilled in it, lets nothing pass."""
        unseen = [Stand.INCONCLUSIVE] if self.unreadable or not self.series or Stand.EXPOSED in self.earlier else []
        return max([*unseen, *(one.stand for one in self.series)], key=list(Stand).index)

    @property
    def at_risk_usd(self) -> float:
        """Dollars at risk at what stands exposed, as far as they are known."""
        return sum(one.at_risk_usd or 0.0 for one in self.series)

    @property
    def mean_age_s(self) -> float | None:
        """Seconds since the last proof, averaged over what was ever proven and over all the time; None: nothing was."""
        ages = [one.mean_age_s for one in self.series if one.mean_age_s is not None]
        return statistics.fmean(ages) if ages else None

    @property
    def never_proven(self) -> int:
        """How many series no night has proven."""
        return sum(one.last_proven is None for one in self.series)


def told(history: History, *, now: float, stale_after_s: float, since: float = 0.0) -> Story:
    """The story of the nights from ``since`` on (both Unix times)."""
    nights = [night for night in history.nights if night.at <= now + DAY_S]
    ahead = dict.fromkeys(_of_the_future(night) for night in history.nights if night.at > now + DAY_S)
    kept: dict[tuple[Any, ...], list[Night]] = {}
    for night in nights:
        kept.setdefault((night.kill_path, night.cluster, night.layer, night.faults, night.title), []).append(night)
    told_of = [tuple(night for night in one if night.at >= since) for one in kept.values() if one[-1].at >= since]
    earlier = tuple(_stand(one[-1], now, stale_after_s) for one in kept.values() if one[-1].at < since)
    series = [_series(one, history, now, stale_after_s) for one in told_of]
    series.sort(key=lambda one: (-list(Stand).index(one.stand), -(one.at_risk_usd or 0.0)))
    shown = tuple(night for night in nights if night.at >= since)
    runs = len({night.run for night in shown})
    return Story(now, stale_after_s, tuple(series), runs, (*history.unreadable, *ahead), shown, earlier)


def _of_the_future(night: Night) -> str:
    """A proof that would not grow old: whose clock is wrong is not known."""
    return f"run {night.run}: its record says {day(night.at)}, which is to come: its clock, or this one, is wrong"


def day(at: float) -> str:
    """A day's date (UTC) of a Unix time."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def _series(nights: tuple[Night, ...], history: History, now: float, stale_after_s: float) -> Series:
    proven = [night for night in nights if night.proven]
    zeros = [(night.at, night.to_zero_s) for night in proven if night.to_zero_s is not None]
    to_zero = Took.of(zeros)
    return Series(
        nights,
        _stand(nights[-1], now, stale_after_s),
        proven[-1] if proven else None,
        to_zero,
        Took.of([(night.at, night.to_drained_s) for night in proven if night.to_drained_s is not None]),
        tuple(_breaks(nights, history)),
        _mean_age_s(nights, now),
        _deadline_in_s(to_zero, nights[-1].limit_s, now - zeros[-1][0]) if to_zero else None,
    )


def _deadline_in_s(took: Took, limit_s: float | None, since_s: float) -> float | None:
    """``since_s``: how long ago the last night was that the trend is drawn from."""
    if limit_s is None or took.level_s is None or not took.per_month_s or took.per_month_s <= 0:
        return None
    return max(0.0, (limit_s - took.level_s) / took.per_month_s * 30 * DAY_S - since_s)


def _stand(last: Night, now: float, stale_after_s: float) -> Stand:
    if last.dirty or last.standing == "exposed":
        return Stand.EXPOSED
    over = last.until is not None and now >= last.until
    if last.standing == "accepted":
        return Stand.EXPOSED if over else Stand.ACCEPTED
    if not last.proven:
        return Stand.INCONCLUSIVE
    return Stand.STALE if over or now - last.at > stale_after_s else Stand.PROVEN


def _breaks(nights: Sequence[Night], history: History) -> Iterator[Break]:
    """Each time that a proven night is followed, whatever is inconclusive between them, by an exposed one."""
    before: Night | None = None
    for number, night in enumerate(nights):
        if night.proven:
            before = night
        elif before is not None and (night.standing in ("exposed", "accepted") or night.dirty):
            mended = next((later for later in nights[number:] if later.proven), None)
            yield Break(before, night, _changes(before, night, history), mended)
            before = None


def _changes(before: Night, after: Night, history: History) -> tuple[str, ...] | None:
    was, now = history.snapshot(before.run), history.snapshot(after.run)
    if was is None or now is None:
        return None
    return tuple(map(one_line, _differences(was, now)))


def _differences(was: dict[str, dict[str, str]], now: dict[str, dict[str, str]]) -> Iterable[str]:
    for name in sorted({*was, *now}):
        if name not in now:
            yield f"{name} is gone"
        elif name not in was:
            yield f"{name} is new"
        else:
            for key in sorted({*was[name], *now[name]}):
                old, new = was[name].get(key), now[name].get(key)
                if old != new:
                    yield f"{name}: {key} {_told(old, new)}"


def _told(old: str | None, new: str | None) -> str:
    """Digests say no more than that they differ."""
    if old is not None and new is not None and (_DIGEST.fullmatch(old) or _DIGEST.fullmatch(new)):
        return "changed"
    words = ["(none)" if text is None else "set" if _DIGEST.fullmatch(text) else text for text in (old, new)]
    return " -> ".join(words)


def _mean_age_s(nights: Sequence[Night], now: float) -> float | None:
    """The age of the newest proof, averaged over the time from the first night till now; None: there is no proof."""
    begun = nights[0].at
    proven = [min(night.at, now) for night in nights if night.proven]  # a clock may be a little ahead of this one
    if not proven:
        return None
    if now <= begun:
        return 0.0
    proofs = [begun, *proven, now]
    return sum((later - earlier) ** 2 / 2 for earlier, later in pairwise(proofs)) / (now - begun)


def _percentile(ordered: Sequence[float], share: float) -> float:
    """By nearest rank: a value that was measured."""
    return ordered[max(0, -(-len(ordered) * int(share * 100) // 100) - 1)]


def _trend(points: Sequence[tuple[float, float]]) -> tuple[float | None, float | None]:
    """Seconds per thirty days, by Theil and Sen: the median of all slopes, which single bad nights do not move.

    And where that line stands at the last point: the median of what each point says of it."""
    step = max(1, -(-len(points) // MOST))
    spread = points[::-1][::step]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(spread, 2) if a[0] != b[0]]
    if len(points) < FEWEST or not slopes:
        return None, None
    slope, last = statistics.median(slopes), points[-1][0]
    return slope * 30 * DAY_S, statistics.median(seconds + slope * (last - at) for at, seconds in spread)
