"""Drills without any cluster, through the CLI as a user runs it: consent, sentinel, interruption, restore."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from machine_here import made, made_clouded

from killcheck.clock import wall_seconds

KILLCHECK = [sys.executable, "-c", "from killcheck.cli import run; run()"]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return made(tmp_path)


def arguments(*more: str) -> list[str]:
    return [*KILLCHECK, "drill", "killcheck.yaml", "--on", "host", "--yes", *more]


def drill(folder: Path, *more: str) -> tuple[int, dict, str]:
    done = forked.killcheck(folder, "drill", "killcheck.yaml", "--on", "host", "--yes", "--json", *more, timeout=200)
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else {}, done.stderr


def test_a_stop_command_is_drilled_and_what_it_stopped_is_on_again(machine):
    code, document, errors = drill(machine, "--layer", "nightly-stop")
    assert code == 0, errors
    (result,) = document["drills"]
    assert (result["verdict"], result["off_by"]) == ("survived", "nightly-stop")
    assert [p["phase"] for p in result["phases"]] == ["triggered", "executor_finished", "instance_gone", "held"]
    assert result["healed"] == ["undone: box was on (1)"]
    assert result["schedule"]["next"]
    assert (machine / "state").read_text() == "1\n"


def test_nothing_runs_that_the_spec_does_not_consent_to(machine):
    spec = machine / "killcheck.yaml"
    spec.write_text(spec.read_text().replace('"./*.sh"', "./start.sh"))
    code, _, errors = drill(machine, "--layer", "nightly-stop")
    assert code == 2
    assert "this would run ./stop.sh on this machine: name it under consent.commands" in errors
    assert (machine / "state").read_text() == "1\n"
    assert drill(machine, "--layer", "nightly-stop", "--allow-commands")[0] == 0


def test_this_machine_must_be_named_in_the_spec(machine):
    spec = machine / "killcheck.yaml"
    spec.write_text(spec.read_text().replace("contexts: [host]", "contexts: [staging]"))
    code, _, errors = drill(machine, "--layer", "nightly-stop", "--allow-commands")
    assert code == 2
    assert "context host is not among consent.contexts" in errors


def test_what_is_off_already_proves_nothing(machine):
    (machine / "state").write_text("0\n")
    code, document, _ = drill(machine, "--layer", "nightly-stop")
    assert code == 3
    assert "nothing to turn off: cat state counts 0 of box (start it first)" in document["drills"][0]["why"]
    assert (machine / "state").read_text() == "0\n"


def test_a_start_that_fails_afterwards_is_dirty_and_says_what_to_run(machine):
    (machine / "start.sh").write_text("#!/bin/sh\necho no capacity >&2; exit 1\n")
    code, document, _ = drill(machine, "--layer", "nightly-stop")
    assert code == 5
    (problem,) = document["drills"][0]["problems"]
    assert "no capacity" in problem
    assert "by hand: ./start.sh" in problem


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_drill_leaves_nothing_that_is_not_put_back(machine, number):
    """Under the sentinel with the starter still at it: killed, the file stays until restore; interrupted, it goes."""
    (machine / "starter.sh").write_text("#!/bin/sh\ntouch reached\nsleep 300\n")
    running = subprocess.Popen(
        arguments("--layer", "hold"), cwd=machine, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        until = 120.0
        while not (machine / "reached").exists() and until > 0:
            try:
                running.wait(0.1)
                pytest.fail(running.communicate()[0])
            except subprocess.TimeoutExpired:
                until -= 0.1
        assert (machine / "hold").exists()
        os.kill(running.pid, number)
        running.communicate(timeout=120)
    finally:
        running.kill()
    assert (machine / "hold").exists() == (number is signal.SIGKILL)
    if number is signal.SIGKILL:
        assert (machine / "state").read_text() == "0\n"
    restored = forked.killcheck(machine, "restore", timeout=120)
    assert restored.returncode == 0, restored.stdout + restored.stderr
    assert not (machine / "hold").exists()
    assert (machine / "state").read_text() == "1\n"


def test_what_a_killed_drill_had_started_is_ended_before_anything_is_put_back(machine):
    """Else it turns off, a while later, what was counted and found on."""
    (machine / "stop.sh").write_text("#!/bin/sh\nsleep 300 &\necho $! > sleeping\nwait\necho 0 > state\n")
    running = subprocess.Popen(
        arguments("--layer", "nightly-stop"), cwd=machine, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not (machine / "sleeping").exists() or not (machine / "sleeping").read_text().strip():
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(0.05)
                pytest.fail("it has ended by itself")
    finally:
        running.kill()
        running.wait()
    left = Path("/proc", (machine / "sleeping").read_text().strip(), "stat")
    assert left.exists()
    restored = subprocess.run(
        [*KILLCHECK, "restore"], cwd=machine, capture_output=True, text=True, check=False, timeout=120
    )
    assert restored.returncode == 0, restored.stdout + restored.stderr
    assert "ended 2 programs that run" in restored.stdout
    until = wall_seconds() + 120.0  # what was killed may not have had its turn to end
    while _runs(left):
        assert wall_seconds() < until, left.read_text()
    assert (machine / "state").read_text() == "1\n"


def _runs(stat: Path) -> bool:
    """Whether a process does anything any more; one that nobody has reaped yet does not."""
    with contextlib.suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_one_run_at_a_time(machine):
    from killcheck.safety.lease import Busy, wanted
    from killcheck.safety.local_locks import Locks
    from killcheck.spec.specfile import load

    path = load(machine / "killcheck.yaml")
    held = Locks(machine / ".killcheck", "first", wanted(path, path.layer("nightly-stop"), ""))
    held.acquire()
    with pytest.raises(Busy, match="run first is drilling target /box on this machine"):
        Locks(machine / ".killcheck", "second", wanted(path, path.layer("hold"), "")).acquire()
    assert drill(machine, "--layer", "nightly-stop")[0] == 4
    held.release()
    assert drill(machine, "--layer", "nightly-stop")[0] == 0


def test_a_path_in_kubernetes_is_not_of_this_machine(tmp_path):
    from killcheck import fixtures

    (tmp_path / "killcheck.yaml").write_text(
        fixtures.spec("dead-man").read_text().replace("contexts: [staging]", "contexts: [host]")
    )
    code, _, errors = drill(tmp_path)
    assert code == 2
    assert "--on host is this machine, and" in errors


# -- faults of this machine's programs ---------------------------------------------------------------------
@pytest.fixture
def clouded(tmp_path, monkeypatch):
    for name, value in made_clouded(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


#: What is another gcloud for the drilled program alone, and what of it is in the cause.
FAULTS = {
    "cli-denied": "PERMISSION_DENIED (403)",
    "cli-gone": "not found",
    "credentials-expired": "Reauthentication",
    "cli-no-effect": "ended with exit code 0, and 1 of box still on",
}


@pytest.fixture(scope="module")
def sabotaged(tmp_path_factory):
    """One drill under each of the faults, on a machine of its own; all at once, for each waits for its deadlines."""
    folders, running = {}, {}
    try:
        for fault in FAULTS:
            folders[fault] = folder = tmp_path_factory.mktemp(fault)
            environment = made_clouded(folder)
            spec = folder / "killcheck.yaml"
            soon = spec.read_text().replace("executorFinished: 60s", "executorFinished: 10s")
            spec.write_text(soon.replace("instanceGone: 75s", "instanceGone: 12s"))
            running[fault] = subprocess.Popen(
                arguments("--json", "--layer", "nightly-stop", "--under", fault),
                cwd=folder,
                text=True,
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        said = {fault: process.communicate(timeout=200) for fault, process in running.items()}
    finally:
        for process in running.values():
            process.kill()
    return {fault: (folders[fault], running[fault].returncode, *said[fault]) for fault in FAULTS}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.one_in(2)
def test_a_clouds_command_line_is_another_for_the_drilled_program_alone(sabotaged, fault):
    """Who counts, and who puts back on, asks the real one; nothing is left of the other."""
    folder, code, out, errors = sabotaged[fault]
    assert code == 1, errors
    (result,) = json.loads(out)["drills"]
    assert list(result["bites"]) == [fault]
    assert FAULTS[fault] in result["cause"]
    assert result["problems"] == []
    assert (folder / "state").read_text() == "1\n"
    assert list((folder / "tmp").iterdir()) == []


def test_another_controller_starts_it_as_the_spec_says(clouded):
    spec = clouded / "killcheck.yaml"
    spec.write_text(spec.read_text().replace("held: 1s", "held: 90s").replace("instanceGone: 75s", "instanceGone: 80s"))
    running = subprocess.run(
        arguments("--json", "--layer", "nightly-stop", "--under", "second-controller", "--dry-run"),
        cwd=clouded,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert running.returncode == 0, running.stderr
    assert "box is started again with ./start.sh" in running.stdout + running.stderr


def test_what_only_a_machine_of_killchecks_own_can_have_is_refused(clouded):
    code, document, errors = drill(clouded, "--layer", "nightly-stop", "--under", "machine-off")
    told = errors + json.dumps(document)
    assert code in (2, 3), told
    assert "machine-off cannot be injected on host: it needs timers" in told
    assert (clouded / "state").read_text() == "1\n"


def test_killed_under_a_fault_of_the_command_line_nothing_of_it_stays(clouded):
    running = subprocess.Popen(
        arguments("--layer", "nightly-stop", "--under", "cli-hangs"),
        cwd=clouded,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until = 120.0
        while not list((clouded / "tmp").glob("killcheck-*/calls")) and until > 0:
            try:
                running.wait(0.1)
                pytest.fail(running.communicate()[0])
            except subprocess.TimeoutExpired:
                until -= 0.1
        os.kill(running.pid, signal.SIGKILL)
        running.communicate(timeout=120)
    finally:
        running.kill()
    assert list((clouded / "tmp").iterdir())
    restored = forked.killcheck(clouded, "restore", timeout=120)
    assert restored.returncode == 0, restored.stdout + restored.stderr
    assert list((clouded / "tmp").iterdir()) == []
    assert (clouded / "state").read_text() == "1\n"
