"""When somebody notices that GPUs stayed on, and what they have cost by then."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from killcheck.reports.figures import who_notices
from killcheck.spec import specfile
from killcheck.spec.working_hours import Noticed, working_hours
from killcheck.watch.noticing import noticed


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("hours", "zone", "after", "found"),
    [
        ("Mon-Fri 09:00-17:30", "Etc/UTC", "2026-01-16T03:00", "2026-01-16T09:00"),  # a Friday
        ("Mon-Fri 09:00-17:30", "Etc/UTC", "2026-01-16T12:00", "2026-01-16T12:00"),
        ("Mon-Fri 09:00-17:30", "Etc/UTC", "2026-01-16T17:30", "2026-01-19T09:00"),
        ("Mon-Fri 09:00-17:30", "Europe/Berlin", "2026-01-16T03:00", "2026-01-16T08:00"),
        ("Mon-Fri 09:00-17:30", "Europe/Berlin", "2026-03-27T20:00", "2026-03-30T07:00"),  # the clocks change between
        ("Sat-Mon 10:00-11:00", "Asia/Tokyo", "2026-01-13T12:00", "2026-01-17T01:00"),
        ("Tue,Thu 00:00-23:59", "Etc/UTC", "2026-01-14T23:59", "2026-01-15T00:00"),
        ("Sun-Thu 22:00-06:00", "Asia/Tokyo", "2026-01-15T20:59", "2026-01-15T20:59"),  # a Thursday's shift, on Friday
        ("Sun-Thu 22:00-06:00", "Asia/Tokyo", "2026-01-15T21:00", "2026-01-18T13:00"),
        ("Sun 22:00-06:00", "Europe/Berlin", "2026-03-29T02:00", "2026-03-29T20:00"),  # in summer by then
        ("Mon-Fri 08:00-16:00; Sat,Sun 10:00-12:00", "Etc/UTC", "2026-01-16T17:00", "2026-01-17T10:00"),
        ("Mon-Sun 00:00-24:00", "Etc/UTC", "2026-01-16T23:59", "2026-01-16T23:59"),
    ],
)
def test_the_next_moment_in_working_hours(hours, zone, after, found):
    assert working_hours(hours, zone).next(at(after)) == at(found)


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("9-5", "Etc/UTC", "expected weekdays and hours such as Mon-Fri 09:00-17:30"),
        ("Mon-Fri 09:00-24:30", "Etc/UTC", "expected weekdays and hours"),
        ("Mon-Fri 24:00-06:00", "Etc/UTC", "expected weekdays and hours"),
        ("Mon-Fri 09:00-17:60", "Etc/UTC", "expected weekdays and hours"),
        ("Mon 09:00-17:00; Tue 09:00-09:00", "Etc/UTC", "found 'Tue 09:00-09:00'"),
        ("Mon 09:00-17:00", "Europe/Atlantis", "expected a time zone such as Europe/Berlin"),
    ],
)
def test_hours_that_say_nothing_are_refused(text, zone, expected):
    with pytest.raises(ValueError, match=expected):
        working_hours(text, zone)


def test_the_alert_calls_at_any_hour_and_nobody_said_is_nothing():
    since = at("2026-01-16T03:00")

    def hourly(moment):
        return (moment - since).total_seconds() / 3600.0 * 5

    said = Noticed("Mon-Fri 09:00-17:30", "Etc/UTC", 600.0)
    assert noticed(said, since, 1200.0, hourly) == {
        "at": "2026-01-16T09:00:00Z",
        "usd": 30.0,
        "alert_at": "2026-01-16T03:30:00Z",
        "alert_usd": 2.5,
    }
    quiet = noticed(said, since, None, lambda moment: None)
    assert quiet == {"at": "2026-01-16T09:00:00Z", "usd": None, "alert_at": None, "alert_usd": None}
    assert who_notices({"noticed": quiet}) == [
        "somebody notices at 2026-01-16 09:00 UTC: $ ? by then",
        "no alert calls anybody before",
    ]
    assert noticed(None, since, 1200.0, hourly) is None
    assert who_notices({}) == []


SAYS = "noticed: {hours: Mon-Fri 09:00-17:30, timeZone: Europe/Berlin, answers: 20m}\n"


def test_it_is_written_as_it_was_read():
    text = "apiVersion: killcheck/v1\nkind: KillPath\nname: p\ntargets:\n  - {name: a, kind: Deployment, namespace: b, object: c}\n"
    path = specfile.loads(text + "layers: []\n" + SAYS)
    assert path.noticed == Noticed("Mon-Fri 09:00-17:30", "Europe/Berlin", 1200.0)
    assert specfile.loads(specfile.dump(path)).noticed == path.noticed
    with pytest.raises(specfile.SpecError, match=r"noticed\.hours: .*expected weekdays and hours"):
        specfile.loads(text + "layers: []\nnoticed: {hours: nine to five}\n")
