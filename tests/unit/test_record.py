"""The run record: what was written comes back, also when a kill cut it short."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from killcheck import events
from killcheck.run.chain import Chain
from killcheck.run.record import RecordError, RecordWriter, read
from killcheck.safety.seals import Whose

AT = datetime(2026, 1, 15, 3, 0, 0, 123456, tzinfo=UTC)
STARTED = events.RunStarted(at=AT, run="r", version="0", cluster="embedded", real=False, kill_path="p")
PHASE = events.PhaseReached(
    at=AT, drill="d", phase="pods_gone", at_s=38.0, observed_s=38.1, deadline_s=300.0, evidence="no GPU pod"
)


def written(path, *what):
    with RecordWriter(path) as record:
        for event in what:
            record(event)
    return path


def test_what_was_written_comes_back_and_what_no_report_can_hold_does_not(tmp_path):
    path = written(tmp_path / "run.jsonl", STARTED, PHASE)
    assert list(read(path)) == [STARTED, PHASE]
    lines = [json.dumps(event.to_json()) for event in (STARTED, PHASE)]  # by nobody here
    path.write_text("\n".join(lines).replace("no GPU pod", r"no \ud800\u001b[2JGPU\u0000 pod"))
    assert [getattr(event, "evidence", "") for event in read(path)][1:] == ["no \ufffdGPU? pod"]


def test_a_record_cut_short_is_whole_up_to_there(tmp_path):
    path = written(tmp_path / "run.jsonl", STARTED, PHASE)
    path.write_text(path.read_text()[:-20])
    assert list(read(path)) == [STARTED]


def test_every_line_is_on_disk_as_soon_as_it_happened(tmp_path):
    record = RecordWriter(tmp_path / "run.jsonl")
    record(STARTED)
    assert list(read(record.path)) == [STARTED]
    record.close()


def broken_off(path, *what, beside=""):
    """A run that ends with an error after these events, and perhaps left a file beside its record."""
    with RecordWriter(path) as record:
        for event in what:
            record(event)
        if beside:
            (path.parent / beside).touch()
        raise KeyError


@pytest.mark.parametrize(("what", "stays"), [((STARTED,), False), ((STARTED, PHASE), True)])
def test_of_a_run_that_is_refused_before_its_first_drill_no_record_stays(tmp_path, what, stays):
    """It would be the newest run, which `report`, `accept` and `certify` take."""
    path = tmp_path / "runs/r/run.jsonl"
    with pytest.raises(KeyError):
        broken_off(path, *what)
    assert path.exists() is path.parent.exists() is stays


def test_a_journal_beside_it_stays_all_the_same(tmp_path):
    path = tmp_path / "runs/r/run.jsonl"
    with pytest.raises(KeyError):
        broken_off(path, STARTED, beside="journal-0.jsonl")
    assert [file.name for file in path.parent.iterdir()] == ["journal-0.jsonl"]


@pytest.mark.parametrize("text", ["not json\nmore\n", '{"event": "Nonsense", "at": "2026-01-15T03:00:00Z"}\n'])
def test_another_file_is_refused_by_name_and_line(tmp_path, text):
    path = tmp_path / "other.jsonl"
    path.write_text(text)
    with pytest.raises(RecordError, match=r"other\.jsonl:1: not a"):
        list(read(path))


def test_the_record_is_the_owners_alone(tmp_path):
    assert written(tmp_path / "run.jsonl", STARTED).stat().st_mode & 0o077 == 0


def test_only_a_run_that_ended_is_sealed_and_a_night_without_a_key_is_not(tmp_path, monkeypatch):
    ended = events.RunFinished(at=AT, verdict="survived", exit_code=0)
    assert followed(written(tmp_path / "a", STARTED, ended)) is Whose.OURS
    assert followed(written(tmp_path / "b", STARTED, PHASE)) is Whose.NOBODYS
    monkeypatch.setenv("KILLCHECK_KEY", "short")
    assert followed(written(tmp_path / "c", STARTED, ended)) is Whose.NOBODYS


def followed(path):
    chain = Chain()
    list(read(path, chain))
    return chain.whose
