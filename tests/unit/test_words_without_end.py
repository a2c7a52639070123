"""Words of strangers that are far too long are answered: no number, no pattern and no path takes them for its own."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from killcheck.probes import downloads_anew, no_alarm

from killcheck.kube import gpus
from killcheck.kube.schedule import ScheduleError, parse
from killcheck.ledger import workloads
from killcheck.ledger.stakes import Held
from killcheck.machine import calendar, scheduled
from killcheck.watch.charged import Charged, Holder

DIGITS = "9" * 5000
NOW = datetime(2026, 1, 15, tzinfo=UTC)


@pytest.mark.parametrize("schedule", [f"0 {DIGITS} * * *", f"0 0 * * */{DIGITS}", f"@every {DIGITS}h"])
def test_number_of_a_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ScheduleError):
        parse(schedule)
    assert parse(f"0 {'0' * 5000}3 * * *")


def test_number_of_a_timer_or_crontab_is_refused(tmp_path: Path) -> None:
    assert "there is no hour" in calendar.impossible(f"*-*-* {DIGITS}:00")
    (tmp_path / "off.timer").write_text("[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n")
    stop = "gcloud compute instances stop box --zone=z"
    unit = f"[Unit]\nConditionPathExists=/{'a' * 5000}\n[Service]\nExecStart=/usr/bin/{stop}\n"
    (tmp_path / "off.service").write_text(unit)
    (tmp_path / "crontab").write_text(f"0 {DIGITS} * * * {stop}\n")
    crontab, timer = sorted(scheduled.find([tmp_path]), key=lambda one: one.name)
    assert "cron refuses" in str(crontab.broken)
    assert "is not here" in timer.idle


def test_condition_on_a_file_looks_nowhere_but_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "machine").mkdir()
    assert not scheduled._lies(tmp_path / "machine", "/../etc")
    assert scheduled._lies(tmp_path, "/x/../etc")


@pytest.mark.parametrize(("said", "gib"), [("140Gi", 140.0), ("9E400", None), ("-5Gi", None), ("many", None)])
def test_what_a_pod_says_that_it_fetches_is_an_amount_or_nothing(said: str, gib: float | None) -> None:
    charged = Charged()
    charged.hold("1", Holder("lab", "Deployment/asr"), "node", 1, NOW)
    charged.fetch("1", said)
    assert charged.bill([], NOW, None).get("egress_gib") == gib


def test_patterns_end() -> None:
    assert gpus.shared({"annotations": {"gpu.example.net/share": f".{'1' * 200_000}x"}}) is None
    assert gpus.shared({"annotations": {"gpu.example.net/share": "0.5"}})
    held = Held("apps/v1", "Deployment", "lab", "asr")
    assert not workloads._aims_at(f"{'start' * 20_000} lab/asr2", held)
    assert workloads._aims_at("--wake-target=lab/asr", held)
    fetches = {"command": ["aws", "s3", "cp", *["--quiet"] * 5000, "here"]}
    assert downloads_anew._fetched(fetches, servers=False) is None
    expr = f"count({'spot' * 25_000} < {'kueue_' * 20_000}"
    assert no_alarm._deaf(expr[: no_alarm._LONGEST]) is None
