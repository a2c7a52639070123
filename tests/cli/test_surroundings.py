"""Wherever killcheck is started from: a closed or full output, another encoding, no home, signals - a clear end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from killcheck import cli
from killcheck.commands import errors, files

DRILL = [sys.executable, "-c", "from killcheck.cli import run; run()", "drill", "--example", "dead-man"]
#: A process that ends by its exit code, with something to be done at its end, and something that Python would take apart.
ENDS = """
import atexit, os, sys, threading, time
from killcheck.run.process_end import ended_at_once
class Kept:
    def __del__(self, write=os.write):
        write(1, b"taken apart\\n")
kept = Kept()
{first}
with ended_at_once():
    atexit.register(print, "at the end")
    threading.Thread(target=lambda: (time.sleep(0.05), print("a thread"))).start()
    print("out")
    sys.exit({code})
"""


def run(*argv: str, tmp_path: Path, stdout=subprocess.PIPE, **env: str | None):
    """A command in a process of its own, in an empty folder; ``None`` takes a variable away."""
    surroundings = {**os.environ, **{k: v for k, v in env.items() if v is not None}}
    for name in (k for k, v in env.items() if v is None):
        surroundings.pop(name, None)
    return subprocess.run(  # noqa: PLW1510 - the exit code is what is asked
        [*DRILL, *argv], cwd=tmp_path, env=surroundings, stdout=stdout, stderr=subprocess.PIPE, timeout=120
    )


def test_a_terminal_that_knows_only_ascii_gets_plainer_marks(tmp_path):
    done = run(tmp_path=tmp_path, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert b"  + GPU pods gone" in done.stdout
    assert b"SURVIVED" in done.stdout


def test_whoever_interrupts_it_while_it_is_loaded_gets_a_sentence_and_no_exit_code_of_exposed(tmp_path):
    script = """
import os, signal, sys
class Impatient:
    def find_spec(self, name, *rest):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Impatient())
from killcheck.__main__ import run
run()
"""
    done = subprocess.run([sys.executable, "-c", script, "faults"], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (4, b"", b"killcheck: interrupted\n")


def test_without_a_home_and_without_a_standard_output_a_drill_is_a_drill(tmp_path):
    script = f"exec {' '.join(map(repr, DRILL))} -q >&-"
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "HOME"},
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )
    (first,) = done.stderr.decode().splitlines()
    said = "killcheck: dead-man: the example dead-man, on embedded (Kubernetes v1.36.2)"
    assert (done.returncode, first.partition(";")[0]) == (0, said)
    (record,) = tmp_path.glob(".killcheck/runs/*/run.jsonl")
    assert all(line.startswith("{") for line in record.read_text().splitlines())  # nothing else was written into it


@pytest.mark.parametrize(
    ("first", "code", "ends", "said"),
    [
        ("", "3", 3, ["out", "a thread", "at the end"]),
        ("", "None", 0, ["out", "a thread", "at the end"]),
        ("", "'a sentence'", 1, ["out", "a thread", "at the end", "taken apart"]),
        ("atexit.register(print, 'of others')", "3", 3, ["out", "a thread", "at the end", "of others", "taken apart"]),
    ],
)
def test_a_process_ends_once_everybody_has_had_their_say(first, code, ends, said):
    words = [sys.executable, "-c", ENDS.format(first=first, code=code)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.splitlines()) == (ends, said)


def test_a_reader_that_went_away_is_not_an_exposed_drill(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run(tmp_path=tmp_path, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (4, b"")


def test_a_reader_of_help_that_went_away_is_not_an_exposed_drill(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run("--help", tmp_path=tmp_path, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (4, b"")


@pytest.mark.parametrize("early", ["make_context", "invoke"])
def test_an_interrupt_before_the_command_is_at_work_is_not_an_exposed_drill(monkeypatch, capsys, early):
    def interrupted(*_args: object, **_extra: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(click.Group, early, interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main(["drill", "--example", "dead-man"])
    assert (ended.value.code, capsys.readouterr().err) == (4, "killcheck: interrupted\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_is_full_is_said_in_one_line(tmp_path):
    with Path("/dev/full").open("wb") as full:
        done = run("--json", tmp_path=tmp_path, stdout=full)
        helped = run("--help", tmp_path=tmp_path, stdout=full)
    for ended, lines in ((done, 2), (helped, 1)):  # the drill says before what it drills
        assert ended.returncode == 4
        assert len(ended.stderr.splitlines()) == lines
        assert b"no space left on device" in ended.stderr


def test_quiet_says_the_verdict(tmp_path):
    done = run("-q", tmp_path=tmp_path)
    assert b"SURVIVED" in done.stdout
    assert b"GPU pods gone" not in done.stdout


@pytest.mark.parametrize(
    "defect",
    [ZeroDivisionError(), FileNotFoundError(2, "no such file", "data.csv"), ConnectionResetError(104, "reset")],
)
def test_a_defect_is_never_an_exit_code_that_says_exposed(monkeypatch, capsys, defect):
    def broken(*_args: object) -> object:
        raise defect

    monkeypatch.setattr(cli._Lazy, "resolve_command", broken)
    with pytest.raises(SystemExit) as ended:
        cli.main(["drill", "--example", "dead-man"])
    assert ended.value.code == 4
    assert f"a defect of killcheck itself ({type(defect).__name__}): nothing is proven" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(28, "No space left on device"),
            "cannot go on: no space left on device (standard output, or the run's folder under .killcheck)",
        ),
        (PermissionError(13, "Permission denied", "/x/run.jsonl"), "/x/run.jsonl: permission denied"),
        (
            PermissionError(13, "Permission denied", ".killcheck/runs/r"),
            ".killcheck/runs/r: permission denied "
            "(journals and run records are kept here: start killcheck in a folder that is yours)",
        ),
        (OSError("odd"), "odd"),
    ],
)
def test_what_the_system_refuses_is_said_with_its_place(error, said):
    assert errors._said(error) == said


def test_a_report_into_what_is_no_file_leaves_it_what_it_is(tmp_path):
    pipe, file, link = tmp_path / "pipe", tmp_path / "night.html", tmp_path / "latest.html"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.write(pipe, "told")
        assert (os.read(reading, 10), pipe.is_fifo()) == (b"told", True)
    finally:
        os.close(reading)
    link.symlink_to(file)
    files.write(link, "told")
    assert (link.is_symlink(), file.read_text()) == (True, "told")
