"""Schedules: what is accepted, in whose words, and when they fire; against brute force and both edges of DST."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from killcheck.kube.cron import Fields, parse_go_duration
from killcheck.kube.schedule import ScheduleError, most_recent, parse, zone


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def firings(text: str, tz: str | None, after: str, count: int) -> list[str]:
    schedule, moment, found = parse(text, tz), at(after), []
    for _ in range(count):
        following = schedule.next(moment)
        assert following is not None
        assert following.tzinfo is UTC
        found.append(following.strftime("%Y-%m-%dT%H:%M:%S"))
        moment = following
    return found


@pytest.mark.parametrize(
    ("text", "tz", "words"),
    [
        ("61 * * * *", None, "end of range (61) above maximum (59): 61"),
        ("0 3 * *", None, "expected exactly 5 fields, found 4: [0 3 * *]"),
        ("0 0 3 * * *", None, "expected exactly 5 fields, found 6: [0 0 3 * * *]"),
        ("every night at 3", None, "expected exactly 5 fields, found 4: [every night at 3]"),
        ("", None, "empty spec string"),
        ("@reboot", None, "unrecognized descriptor: @reboot"),
        ("0 3 * * 7", None, "end of range (7) above maximum (6): 7"),
        ("0 3 0 * *", None, "beginning of range (0) below minimum (1): 0"),
        ("0 5-3 * * *", None, "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", None, "step of range should be a positive number: */0"),
        ("*/5/2 * * * *", None, "too many slashes: */5/2"),
        ("1-2-3 * * * *", None, "too many hyphens: 1-2-3"),
        ("0 x * * *", None, 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("*/-5 * * * *", None, "negative number (-5) not allowed: -5"),
        ("@every 1d", None, 'failed to parse duration @every 1d: time: unknown unit "d" in duration "1d"'),
        ("@every 5", None, 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        ("@every soon", None, 'failed to parse duration @every soon: time: invalid duration "soon"'),
        ("0 3 * * *", "Mars/Phobos", "unknown time zone Mars/Phobos"),
        ("0 3 * * *", "europe/berlin", "unknown time zone europe/berlin"),
        ("0 3 * * *", "PST", "unknown time zone PST"),
        ("TZ=Mars/Phobos 0 3 * * *", None, "provided bad location Mars/Phobos: unknown time zone Mars/Phobos"),
    ],
)
def test_what_is_refused_is_refused_in_kubernetes_words(text: str, tz: str | None, words: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse(text, tz)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("*/90 * * * *", "2026-11-21T02:01:00", ["2026-11-21T03:00:00", "2026-11-21T04:00:00"]),
        ("@daily", "2026-11-21T00:00:00", ["2026-11-22T00:00:00", "2026-11-23T00:00:00"]),
        ("@every 1h", "2026-11-21T02:01:05", ["2026-11-21T03:01:05", "2026-11-21T04:01:05"]),
        ("@every 1500ms", "2026-11-21T02:01:05", ["2026-11-21T02:01:06"]),
        ("@every 10ms", "2026-11-21T02:01:05", ["2026-11-21T02:01:06"]),
        ("0 3 * * MON-fri", "2026-11-20T03:00:00", ["2026-11-23T03:00:00", "2026-11-24T03:00:00"]),
        ("5/20 3 * * ?", "2026-11-21T02:01:05", ["2026-11-21T03:05:00", "2026-11-21T03:25:00", "2026-11-21T03:45:00"]),
        ("0 0 29 2 *", "2026-11-21T00:00:00", ["2028-02-29T00:00:00"]),
        # A star in either day field: both must match. No star: one is enough. A stepped star is none.
        ("0 0 13 * FRI", "2026-11-01T00:00:00", ["2026-11-06T00:00:00", "2026-11-13T00:00:00", "2026-11-20T00:00:00"]),
        ("0 0 */16 * MON", "2026-11-01T12:00:00", ["2026-11-02T00:00:00", "2026-11-09T00:00:00"]),
        ("CRON_TZ=Europe/Berlin 0 3 * * *", "2026-11-21T00:00:00", ["2026-11-21T02:00:00"]),
    ],
)
def test_when_it_fires(text: str, after: str, expected: list[str]) -> None:
    assert firings(text, None, after, len(expected)) == expected


@pytest.mark.parametrize("text", ["0 3 31 2 *", ", * * * *", "0 0 30 2 ?"])
def test_what_never_comes_is_accepted_and_never_fires(text: str) -> None:
    schedule = parse(text)
    assert schedule.next(at("2026-11-21T02:01:00")) is None
    with pytest.raises(ScheduleError, match="less than 1 second"):
        most_recent(schedule, at("2026-11-21T02:01:00"), at("2026-11-22T02:01:00"))


def test_a_time_that_does_not_exist_is_skipped() -> None:
    # 29 March 2026: 02:00 becomes 03:00 in Berlin.
    assert firings("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00", 3) == [
        "2026-03-28T01:30:00",
        "2026-03-30T00:30:00",
        "2026-03-31T00:30:00",
    ]


def test_a_time_that_comes_twice_fires_twice() -> None:
    # 25 October 2026: 03:00 becomes 02:00 in Berlin; 1 November 2026: 02:00 becomes 01:00 in New York.
    assert firings("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00", 3) == [
        "2026-10-25T00:30:00",
        "2026-10-25T01:30:00",
        "2026-10-26T01:30:00",
    ]
    assert firings("30 1 * * *", "America/New_York", "2026-10-31T12:00:00", 3) == [
        "2026-11-01T05:30:00",
        "2026-11-01T06:30:00",
        "2026-11-02T06:30:00",
    ]


def test_a_midnight_that_does_not_exist() -> None:
    # 4 November 2018: midnight became 01:00 in Sao Paulo; robfig/cron skips the night's firing, as for any gap.
    assert firings("0 0 * * *", "America/Sao_Paulo", "2018-11-02T12:00:00", 2) == [
        "2018-11-03T03:00:00",
        "2018-11-05T02:00:00",
    ]


def test_etc_zones_count_westward() -> None:
    assert firings("0 3 * * *", "Etc/GMT+8", "2026-11-21T00:00:00", 1) == ["2026-11-21T11:00:00"]
    assert zone("UTC") is UTC


def test_most_recent_is_the_last_slot_that_is_due() -> None:
    schedule = parse("*/5 * * * *")
    created = at("2026-11-21T00:01:00")
    assert most_recent(schedule, created, at("2026-11-21T00:04:59")).latest is None
    assert most_recent(schedule, created, at("2026-11-21T00:05:00")).latest == at("2026-11-21T00:05:00")
    late = most_recent(schedule, created, at("2026-11-21T12:04:00"))
    assert late.latest == at("2026-11-21T12:00:00")
    assert late.count > 100


def test_most_recent_of_an_uneven_schedule() -> None:
    schedule = parse("30 6-16/4 * * 1-5")
    missed = most_recent(schedule, at("2026-11-20T06:00:00"), at("2026-11-23T08:00:00"))
    assert missed.latest == at("2026-11-23T06:30:00")


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1h30m", 5400 * 10**9),
        ("-1.5s", -1500 * 10**6),
        ("0", 0),
        ("1\N{MICRO SIGN}s", 1000),
        (".5s", 5 * 10**8),
    ],
)
def test_go_durations(text: str, nanoseconds: int) -> None:
    assert parse_go_duration(text) == nanoseconds


# -- properties ------------------------------------------------------------------------------------------------
def field(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    part = st.one_of(
        st.just("*"),
        number.map(str),
        st.tuples(number, number).map(lambda p: f"{min(p)}-{max(p)}"),
        st.integers(1, most).map(lambda n: f"*/{n}"),
        st.tuples(number, st.integers(1, most)).map(lambda p: f"{p[0]}/{p[1]}"),
    )
    return st.lists(part, min_size=1, max_size=2).map(",".join)


expressions = st.tuples(field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)).map(" ".join)
moments = st.datetimes(datetime(2024, 1, 1), datetime(2028, 1, 1)).map(lambda d: d.replace(tzinfo=UTC))


def matches(rule: Fields, local: datetime) -> bool:
    """Brute force: what a person reads off a calendar and a clock."""
    dom, dow = local.day in rule.days, local.isoweekday() % 7 in rule.weekdays
    day = (dom and dow) if rule.day_star else (dom or dow)
    return day and local.month in rule.months and local.hour in rule.hours and local.minute in rule.minutes


@settings(max_examples=60, deadline=None)
@given(expressions, moments)
def test_next_is_the_first_minute_that_matches_in_utc(text: str, after: datetime) -> None:
    schedule = parse(text)
    rule = schedule.rule
    assert isinstance(rule, Fields)
    found = schedule.next(after)
    minute = after.replace(second=0, microsecond=0)
    for _ in range(3000):
        minute += timedelta(minutes=1)
        if matches(rule, minute):
            assert found == minute
            return
    assert found is None or found > minute


@settings(max_examples=40, deadline=None)
@given(expressions, moments, st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Sydney"]))
def test_every_firing_matches_on_the_local_clock_and_none_is_missed(text: str, after: datetime, tz: str) -> None:
    """Where midnight exists, the walk finds exactly the minutes whose local time matches, in absolute order."""
    schedule = parse(text, tz)
    rule, location = schedule.rule, zone(tz)
    assert isinstance(rule, Fields)
    found = schedule.next(after)
    assume(found is not None)
    assert found is not None
    assert found > after
    assert matches(rule, found.astimezone(location))
    minute = max(after.replace(second=0, microsecond=0) + timedelta(minutes=1), found - timedelta(hours=30))
    while minute < found:
        assert not matches(rule, minute.astimezone(location)) or _hidden(minute, location)
        minute += timedelta(minutes=1)


def _hidden(minute: datetime, location: tzinfo) -> bool:
    """Within two hours of a change of clocks: there robfig/cron may step over the first of two equal times."""
    before = (minute - timedelta(hours=2)).astimezone(location).utcoffset()
    return before != (minute + timedelta(hours=2)).astimezone(location).utcoffset()
