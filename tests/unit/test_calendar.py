"""What a program asks of the calendar, and which nights of a year that makes worth trying."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from killcheck.drill import other_nights
from killcheck.executor.calendar import Asked, asked, dates_named, days_named, own_clock
from killcheck.kube.schedule import parse

SOME_THURSDAY = datetime(2026, 1, 15, 22, tzinfo=UTC)
#: Programs that turn off by the calendar, in many ways of saying it, and what each goes by.
GUARDS = {
    '[ "$(date +%u)" -ge 6 ] && exit 0': {Asked.WEEKDAY},
    'case "$(date)" in Sat*|Sun*) exit 0;; esac': {Asked.WEEKDAY, Asked.DATE},
    "printf -v d '%(%a)T' -1; [ $d = Sat ] && exit": {Asked.WEEKDAY},
    "if datetime.datetime.now().isoweekday() > 5: sys.exit()": {Asked.WEEKDAY},
    "if (new Date().getDay() % 6 === 0) process.exit()": {Asked.WEEKDAY},
    '[ "$(date +%m)" = 12 ] && exit 0': {Asked.DATE},
    "if [ $(date +%-d) -eq 1 ]; then exit; fi": {Asked.DATE},
    'grep -qx "$(date -u +%F)" /config/holidays && exit 0': {Asked.DATE},
    "if datetime.date.today() in HOLIDAYS: raise SystemExit": {Asked.DATE},
    '[ "$(date +%H)" -ge 21 ] || exit 0': {Asked.HOUR},
    "if time.localtime().tm_wday > 4 or dt.datetime.now().hour < 20: pass": {Asked.WEEKDAY, Asked.HOUR},
    "[ $((10#$(date +%V) % 2)) = 0 ] && exit 0": {Asked.WEEK},
    "if dt.date.today().isocalendar().week % 2: sys.exit()": {Asked.WEEK},
    "[ $(( $(date +%-j) % 2 )) = 0 ] && exit 0": {Asked.WEEK, Asked.DATE},
    "[ $((RANDOM % 2)) = 0 ] && exit 0": {Asked.CHANCE},
    "sleep $(shuf -i 1-60 -n 1)": {Asked.CHANCE},
}
#: Programs that look at nothing, or at the moment alone.
PLAIN = (
    "kubectl -n ml scale deployment x --replicas=0",
    "kubectl rollout status deploy/x; kubectl apply --validate=false -f update.yaml",
    "kubectl annotate deploy x off-at=$(date -u +%Y-%m-%dT%H:%M:%SZ) --overwrite",
    'echo "$(date -Iseconds) off"',
    "started=$(date +%s); sleep 5",
    "kubectl get pods --sort-by=.metadata.creationTimestamp",
    "curl -w '%{http_code}' -X PATCH https://kubernetes.default.svc/apis",
)


@pytest.mark.parametrize("program", GUARDS)
def test_what_a_program_goes_by_is_found(program: str) -> None:
    assert asked([program]) >= GUARDS[program]


@pytest.mark.parametrize("program", PLAIN)
def test_what_goes_by_nothing_is_left_alone(program: str) -> None:
    assert not asked([program])


def test_clock_that_nobody_here_sets_is_found() -> None:
    """date(1) and Python are told the night's time; bash's own words, awk and jq say this host's."""
    asking = ("printf -v d '%(%u)T' -1", "((EPOCHSECONDS / 86400 % 2))", "awk 'BEGIN{print strftime(\"%u\")}'")
    assert all(own_clock([one]) for one in asking)
    plain = ("printf '%(%F %T)T off\\n' -1", "began=$EPOCHSECONDS; echo $((EPOCHSECONDS - began))", "date +%u", *PLAIN)
    assert not any(own_clock([one]) for one in plain)
    node = "kubectl annotate node gpu-1 off=$(date +%F)"  # a kind of Kubernetes', and a language
    assert own_clock([node]) is None
    assert own_clock(["true; node -e 'process.exit(new Date().getDay())'"]) == "node -e 'process.exit(new Date"
    assert own_clock(["awk " * 20_000]) is None
    stamp = "kubectl get pod $HOSTNAME -o jsonpath={.metadata.creationTimestamp}"
    assert asked([stamp]) == asked([f"date\nday=$({stamp} | cut -c1-10)"]) == {Asked.DATE}
    assert asked([f"age=$(( $(date +%s) - $(date -d $({stamp}) +%s) ))"]) == {Asked.AGE}
    monitor = 'datetime.now(UTC) - datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) > limit'
    assert asked([monitor]) == {Asked.AGE}
    assert asked(["[ $(date +%s) -gt $(cat /l/until) ] && exit"]) == {Asked.AGE}


def test_dates_are_found_in_any_text() -> None:
    assert dates_named(["2026-12-24\n05-01: Labour Day", "v1-10-02 10-13-07 2026-13-01"]) == {(12, 24), (5, 1)}


class _Maps:
    """The ConfigMaps of a namespace."""

    def __init__(self, *maps: dict[str, Any]) -> None:
        self.items = list(maps)

    def list(self, *_: object) -> _Maps:
        return self


def test_days_of_a_month_are_found_with_those_beside_them() -> None:
    assert days_named(["[ $(date +%d) -ge 25 ] && exit 0", "--timeout=5m sleep 1.5 v3 08:30"]) == {24, 25, 26}


def _nights(program: str, *, text: str = "0 22 * * *", zone: str = "Etc/UTC", **data: str) -> list[datetime]:
    return list(_found(program, text, zone, data).due)


def _found(program: str, text: str, zone: str, data: dict[str, str]) -> other_nights.Nights:
    container = {"name": "off", "command": ["/bin/sh", "-c", program]}
    pod = {"containers": [container], "volumes": [{"name": "c", "configMap": {"name": "more"}}]}
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "off", "namespace": "ml"},
        "spec": {"schedule": text, "timeZone": zone, "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }
    maps = _Maps({"metadata": {"name": "more", "namespace": "ml"}, "data": data})
    found = other_nights.nights(cron, maps, parse(text, zone).next, SOME_THURSDAY)  # type: ignore[arg-type]
    assert all(due > SOME_THURSDAY for due in found.due)
    assert list(found.due) == sorted(set(found.due))
    assert len(found.due) <= other_nights.TRIED
    return found


def test_a_week_is_tried_of_a_program_that_goes_by_the_weekday() -> None:
    assert {due.isoweekday() for due in _nights("[ $(date +%u) -ge 6 ] && exit")} == {1, 2, 3, 4, 5, 6, 7}
    # Those alone on which its schedule fires.
    assert {due.isoweekday() for due in _nights("date +%a", text="0 22 * * 1-5")} == {1, 2, 3, 4, 5}
    # However far away they are.
    assert {due.isoweekday() for due in _nights("date +%a", text="0 22 1 * *")} == {1, 2, 3, 4, 5, 6, 7}


def test_a_rota_of_weeks_is_tried() -> None:
    weeks = {due.isocalendar().week % 5 for due in _nights("[ $((10#$(date +%V) % 5)) = 3 ] && exit")}
    assert weeks == {0, 1, 2, 3, 4}


def test_days_that_a_program_counts_are_tried() -> None:
    assert {due.day for due in _nights("[ $(date +%d) -eq 13 ] && exit")} >= {12, 13, 14, 31, 1}


def test_firings_in_a_row_and_one_far_away_are_tried_of_what_may_have_grown_or_be_left() -> None:
    left = _nights("n=$(kubectl get jobs -o name | wc -l); [ $n -gt 3 ] && exit")
    assert [due.day for due in left] == [16, 17, 18, 19, 20]  # one more than the Jobs that are kept, and this one's
    found = _nights('[ "$(date +%Y)" = 2026 ] || exit')
    assert [far.year for far in found] == [2027, 2036]  # a licence may end later than a year from now


def test_a_year_is_tried_of_a_program_that_goes_by_the_date() -> None:
    found = _nights('grep -q "$(date +%F)" /c/holidays && exit', holidays="2026-12-24\n2027-01-06\n")
    assert {due.month for due in found} == set(range(1, 13))
    assert 8 in {due.day for due in found}  # $((08)) is no number
    assert {(due.month, due.day) for due in found} >= {(1, 31), (2, 1), (12, 24), (1, 6), (2, 29)}


def test_more_dates_than_can_be_tried_are_counted() -> None:
    many = "\n".join(f"2026-{month:02}-{day:02}" for month in range(3, 13) for day in range(1, 29, 3))
    found = _found('grep -q "$(date +%F)" /c/days && exit', "0 22 * * *", "Etc/UTC", {"days": many})
    assert len(found.due) == other_nights.TRIED
    assert found.left_out > 50
    assert {due.isoweekday() for due in found.due} == {1, 2, 3, 4, 5, 6, 7}


def test_dates_are_those_of_the_container_and_of_the_schedule() -> None:
    """At 23:30 in New York it is tomorrow in the container."""
    found = _nights("[ $(date +%m-%d) = 07-04 ] && exit", text="30 23 * * *", zone="America/New_York")
    assert {due.day for due in found if due.month == 7 and due.day > 2} == {4, 5}


def test_both_sides_of_a_change_of_clocks_are_tried_of_a_program_that_goes_by_the_hour() -> None:
    program = "[ $(date +%H) -eq 21 ] || exit"
    assert {due.hour for due in _nights(program, zone="Europe/Paris")} == {20, 21}
    assert not _nights(program)  # in UTC it is the same all year
    for named in ("TZ=America/New_York date", "ZoneInfo('America/New_York') datetime.now().hour == 21"):
        assert {due.month for due in _nights(f"[ $({named} +%H) -eq 17 ] || exit")} >= {3, 11}


def test_a_script_in_a_configmap_is_read() -> None:
    assert _nights("sh /c/off.sh", off="[ $(date +%u) -lt 6 ] || exit")
    assert not _nights("sh /c/off.sh", off="kubectl scale deploy --all --replicas=0")


def test_what_was_not_tried_is_told() -> None:
    """Nothing is told where every kind was seen, or where there is one kind alone."""
    cron: dict[str, Any] = {"kind": "CronJob", "metadata": {"name": "off", "namespace": "ml"}}

    def told(what: set[Asked], due: int, tried: int, not_tried: list[str], left_out: int = 0) -> str:
        nights = other_nights.Nights(frozenset(what), (SOME_THURSDAY,) * due, left_out)
        return "; ".join(other_nights.told(cron, nights, not_tried, tried=tried))

    assert not told(set(), 0, 0, [])
    assert not told({Asked.WEEKDAY}, 7, 7, [])
    assert not told({Asked.HOUR}, 0, 0, [])
    assert told({Asked.WEEKDAY}, 7, 0, []).endswith("goes by the day of the week: no night but this one was seen")
    assert told({Asked.WEEKDAY}, 7, 5, ["it was cold"] * 2).endswith(
        "5 more of the coming year's were tried; 2 could not be tried: it was cold"
    )
    assert told({Asked.DATE}, 20, 20, [])
    assert told({Asked.HOUR}, 2, 2, [], left_out=1)
