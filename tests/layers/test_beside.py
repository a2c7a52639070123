"""Timers and crontabs beside the spec of a path outside Kubernetes: what starts something leaves the verdict open."""

from __future__ import annotations

from pathlib import Path

import pytest

from killcheck import fixtures
from killcheck.entries import Entry, Status
from killcheck.layers import unnamed_timers
from killcheck.spec import specfile

START = "gcloud compute instances start yoyo-batch\n"


def _entries(folder: Path, files: dict[str, str], *, units: str = "[.]") -> list[Entry]:
    text = (fixtures.path("single-controller") / "killcheck.yaml").read_text()
    assert "units: [.]" in text
    (folder / "killcheck.yaml").write_text(text.replace("units: [.]", f"units: {units}"))
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return unnamed_timers.entries(specfile.load(folder / "killcheck.yaml"))


TIMER = {
    "deploy/warmup.timer": "[Timer]\nOnCalendar=*-*-* 23:30\n",
    "deploy/warmup.service": "[Service]\nExecStart=/opt/x/warm.sh --all\n",
    "deploy/warm.sh": START,
}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (TIMER, "Timer/warmup.timer"),
        ({"ops/cron.d/gpus": f"30 23 * * * root {START}"}, "Timer/gpus:1"),
        ({"a/b/nightly.cron": f"@daily {START}"}, "Timer/nightly.cron:1"),
    ],
)
def test_what_starts_something_is_open(tmp_path: Path, files: dict[str, str], found: str) -> None:
    (entry,) = _entries(tmp_path, files)
    assert (entry.object, entry.status) == (found, Status.NOT_MODELLED)
    assert "gcloud compute instances start" in entry.because
    assert "assume" in entry.settles


def test_what_cannot_be_followed_is_assumed_to_start_nothing_and_told(tmp_path: Path) -> None:
    (entry,) = _entries(tmp_path, {"deploy/backup.cron": "0 3 * * * /opt/backup/run.sh --all\n"})
    assert (entry.object, entry.status) == ("Timer/backup.cron:1", Status.ASSUMED)
    assert entry.matters


@pytest.mark.parametrize("folder", ["deploy/", ""], ids=["beside", "in a sentinel's folder"])
@pytest.mark.parametrize("program", ["/opt/tools/agent", "/opt/tools/backyoyo-daily-cycle.sh"])
def test_what_cannot_be_followed_and_is_told_the_target_is_open(tmp_path: Path, folder: str, program: str) -> None:
    (entry,) = _entries(tmp_path, {f"{folder}wake.cron": f"0 3 * * * {program} wake yoyo-batch\n"})
    assert (entry.object, entry.status) == ("Timer/wake.cron:1", Status.NOT_MODELLED)


@pytest.mark.parametrize(
    "files",
    [
        {"deploy/off.cron": "0 2 * * * gcloud compute instances stop yoyo-batch\n"},
        {"yoyo-daily.timer": "[Timer]\n", "yoyo-daily.service": f"[Service]\nExecStart={START}"},  # units: [.]
        {"deploy/cycle.cron": "0 2 * * * ./yoyo-daily-cycle.sh stop\n", "deploy/yoyo-daily-cycle.sh": START},  # a layer
        {"deploy/warm.sh": START},  # nothing wakes it
        {".git/warmup.cron": f"@daily {START}"},
        {"a/b/c/d/e/f/g/h/far.cron": f"@daily {START}"},
    ],
)
def test_what_stops_is_named_or_is_not_woken_is_none(tmp_path: Path, files: dict[str, str]) -> None:
    assert _entries(tmp_path, files) == []


def test_a_folder_that_a_sentinel_names_is_the_sentinels(tmp_path: Path) -> None:
    assert _entries(tmp_path, TIMER, units="[deploy]") == []


def test_no_link_leads_out_of_the_checkout(tmp_path: Path) -> None:
    """What it leads to is not read: its words would be in the verdict."""
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "secret").write_text("30 23 * * * root /opt/token-of-somebody.sh\n")
    (tmp_path / "repo" / "deploy").mkdir(parents=True)
    (tmp_path / "repo" / "deploy" / "x.cron").symlink_to(tmp_path / "else" / "secret")
    (told,) = _entries(tmp_path / "repo", {})
    assert told.object == "Timer/x.cron"
    assert "leads out of its folder" in told.because
    assert "token-of-somebody" not in told.because
    (tmp_path / "repo" / "deploy" / "x.cron").unlink()
    (tmp_path / "repo" / "deploy" / "x.cron").write_text((tmp_path / "else" / "secret").read_text())
    assert len(_entries(tmp_path / "repo", {})) == 1


def test_targets_that_kubernetes_counts_are_seen_all_night(tmp_path: Path) -> None:
    for name, content in TIMER.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "killcheck.yaml").write_text((fixtures.path("dead-man") / "killcheck.yaml").read_text())
    assert unnamed_timers.entries(specfile.load(tmp_path / "killcheck.yaml")) == []
