"""Will a schedule fire, when, and is any firing of it skipped: reckoned as the controllers reckon, a year ahead.

The executor of a dead-man's switch may be sound and never be started. What is said here is part of a drill's result;
a schedule that cannot fire at all exposes the path whatever the triggered Job did.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any

from msgspec import Struct

from killcheck.kube import schedule
from killcheck.kube.objects import Obj, dig, format_time, name_of, parse_time
from killcheck.layers import slots

__all__ = ["Forecast", "of_cron_job", "of_schedule"]

#: How far ahead is looked: both changes of the clocks are in it.
AHEAD = timedelta(days=366)
#: As many firings are looked at, at most: those of more than a day's worth at one a minute say nothing new.
FIRINGS = 2000
#: Starting deadlines below this are missed by a controller that was away for a while (row 9), in seconds.
SHORT_DEADLINE_S = 600.0
#: How late a controller may be before a slot without a Job counts as missed, in seconds.
LATE_S = 900.0
#: The longest stretch, in seconds, between two firings of what fires every night (clocks change; weekends are later).
NIGHTLY_S = 30 * 3600.0
#: The stretch, in seconds, up to which a change of the clocks does nothing to a schedule.
HOURLY_S = 3600.0


class Forecast(Struct, frozen=True):
    """``next``: the next firing. ``never``: why it does not fire at all (empty: it does), and what to do.

    ``clocks``: what happens on the nights on which the clocks change; ``warnings``: what may keep a firing from
    happening; ``longest_gap_s``: the longest stretch without a firing in the coming year.
    """

    next: datetime | None = None
    never: str = ""
    remedy: str = ""
    clocks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    longest_gap_s: float | None = None

    @property
    def nightly(self) -> bool:
        """Whether no night goes by without a firing, as far as its schedule says."""
        return not self.never and (self.longest_gap_s is None or self.longest_gap_s <= NIGHTLY_S)

    def to_json(self) -> dict[str, Any]:
        """As the result document has it (``schedule`` of a drill)."""
        return {
            "next": format_time(self.next) if self.next else None,
            "never": self.never or None,
            "clocks": list(self.clocks),
            "warnings": list(self.warnings),
            "longest_gap_s": self.longest_gap_s,
        }


def of_cron_job(cron_job: Obj, now: datetime) -> Forecast:
    """What a CronJob's schedule will do from ``now`` on, as it stands."""
    spec, name = cron_job.get("spec") or {}, name_of(cron_job)
    if spec.get("suspend"):
        return Forecast(never=f"CronJob {name} is suspended", remedy="set suspend: false, and see who may set it")
    if spec.get("startingDeadlineSeconds") == 0:
        return Forecast(
            never=f"CronJob {name} has startingDeadlineSeconds 0: every firing is too late, and nothing says so",
            remedy="leave startingDeadlineSeconds out, or give it an hour",
        )
    found = of_schedule(
        str(spec.get("schedule", "")), str(spec.get("timeZone") or ""), now, what=f"the schedule of CronJob {name}"
    )
    if found.never:
        return found
    missed = _missed(cron_job, now)
    if missed:
        return Forecast(
            found.next,
            missed,
            "see to kube-controller-manager, its clock and the CronJob's events",
            found.clocks,
            found.warnings,
            found.longest_gap_s,
        )
    return Forecast(
        found.next,
        clocks=found.clocks,
        warnings=(*found.warnings, *_skips(spec, found)),
        longest_gap_s=found.longest_gap_s,
    )


@lru_cache(maxsize=128)
def of_schedule(text: str, zone: str, now: datetime, *, what: str) -> Forecast:
    """What a schedule alone will do."""
    try:
        when = schedule.parse(text, zone or None)
    except ValueError as error:
        return Forecast(never=f"{what} cannot be read: {error}", remedy="write a schedule that its controller accepts")
    first = when.next(now)
    if first is None:
        return Forecast(never=f"{what} ({text}) never comes: there is no such date", remedy="write one that exists")
    if first > now + AHEAD:
        return Forecast(
            first,
            f"{what} ({text}) does not come within a year: the next is at {first:%Y-%m-%d %H:%M} UTC",
            "write one that comes as often as GPUs are to go off",
        )
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(_ahead(when, now))]
    longest = max(gaps, default=None)
    # One that comes every hour anyway neither misses nor doubles anything.
    clocks = tuple(_clocks(when, zone, now)) if longest is None or longest > HOURLY_S else ()
    return Forecast(first, clocks=clocks, longest_gap_s=longest)


def _ahead(when: schedule.Schedule, now: datetime) -> Iterator[datetime]:
    moment = when.next(now)
    for _ in range(FIRINGS):
        if moment is None or moment > now + AHEAD:
            return
        yield moment
        moment = when.next(moment)


def _clocks(when: schedule.Schedule, zone: str, now: datetime) -> Iterator[str]:
    """What the two nights on which the clocks change do to it; nothing where they do nothing."""
    for forward in (True, False):
        change = slots.change_in(zone or "UTC", now, forward=forward)
        if change is None:
            continue  # its zone never changes its clocks
        day = change.astimezone(when.tz)
        meant = _meant(when, change)
        fired = list(when.between(change - timedelta(hours=12), change + timedelta(hours=12)))
        if len(fired) < len(meant):
            yield (
                f"on {day:%Y-%m-%d} the clocks in {zone} go forward and {len(meant) - len(fired)} firing(s) are "
                f"skipped: the next comes at {when.next(change):%Y-%m-%d %H:%M} UTC"
            )
        elif len(fired) > len(meant):
            yield (f"on {day:%Y-%m-%d} the clocks in {zone} go back and {len(fired) - len(meant)} firing(s) come twice")


def _meant(when: schedule.Schedule, change: datetime) -> list[datetime]:
    """The slots of the day around a change of clocks as the clock on the wall would have them."""
    found, moment = [], slots.next_slot(when, change - timedelta(hours=12))
    while moment is not None and moment <= change + timedelta(hours=12):
        found.append(moment)
        moment = slots.next_slot(when, moment)
    return found


def _missed(cron_job: Obj, now: datetime) -> str | None:
    """The last slot that a running controller would have fired, and did not."""
    made = parse_time(cron_job["metadata"]["creationTimestamp"])
    last = dig(cron_job, "status", "lastScheduleTime")
    since = parse_time(last) if last else made
    try:
        due = schedule.most_recent(slots.parsed(cron_job), since, now - timedelta(seconds=LATE_S))
    except ValueError:
        return None
    if due.latest is None or due.latest <= since:
        return None
    was = f"the last one was at {since:%Y-%m-%d %H:%M} UTC" if last else "it never fired"
    return f"its slot of {due.latest:%Y-%m-%d %H:%M} UTC came and CronJob {name_of(cron_job)} made no Job; {was}"


def _skips(spec: Obj, found: Forecast) -> Iterator[str]:
    deadline = spec.get("startingDeadlineSeconds")
    gap = found.longest_gap_s or 0.0
    if deadline is not None and float(deadline) < min(SHORT_DEADLINE_S, gap):
        yield (
            f"startingDeadlineSeconds {deadline}: a controller that is away for longer at the slot skips it, and "
            f"the next is up to {gap / 3600:.0f} h later"
        )
    limit = dig(spec, "jobTemplate", "spec", "activeDeadlineSeconds")
    if spec.get("concurrencyPolicy") == "Forbid" and (limit is None or float(limit) > gap > 0):
        yield (
            "concurrencyPolicy Forbid without an activeDeadlineSeconds below the period: a Job that hangs keeps "
            "every later firing from happening"
        )
