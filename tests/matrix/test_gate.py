"""``killcheck gate``: lint, fences and drills as one verdict, the worst of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from killcheck.fixtures import path

from killcheck.cli import main
from killcheck.commands.matrix import cells, failing
from killcheck.drill.sequence import Options
from killcheck.results import Cell
from killcheck.run.gate import Gate, worst
from killcheck.run.session import Session
from killcheck.spec.killpath import Outcome
from killcheck.verdict import DrillResult, Verdict


def gate(*argv, code=None):
    done = CliRunner().invoke(main, ["gate", *argv])
    assert code is None or done.exit_code == code, done.output
    return done


@pytest.mark.parametrize(
    ("codes", "found"), [([], 3), ([0, 0], 0), ([0, 3], 3), ([3, 1], 1), ([1, 4], 4), ([5, 4, 1], 5), ([2, 1], 2)]
)
def test_the_worst_part_decides(codes, found):
    assert worst(codes) == found


def test_nothing_looked_at_is_nothing_proven():
    assert (Gate("error").verdict, Gate("error").skipped) == ("inconclusive", ["lint", "fences", "drills"])
    assert (
        "nothing would be proven"
        in gate("--example", "dead-man", "--skip", "lint", "--skip", "fences", "--skip", "drills", code=2).stderr
    )


def test_the_reference_path_passes_undisturbed_with_every_part():
    done = gate("--example", "dead-man", "--quick", "--json", code=0)
    assert "left out" not in done.stderr  # no fault was asked for
    document = json.loads(done.stdout)
    assert document["verdict"] == "proven"
    assert document["parts"] == {"lint": "proven", "fences": "proven", "drills": "proven"}
    assert [d["verdict"] for d in document["drills"]] == ["survived"]
    assert document["fences"][0]["pool"] == "NodePool/gpu"
    assert "gate 3/3 drills: 1 cell(s), 0 accepted, 0 not good enough" in done.stderr
    assert document["matrix"]["left_out"] == []


def test_what_nobody_allowed_to_run_is_said_once_for_all_drills(tmp_path, monkeypatch):
    shutil.copytree(path("dead-man"), tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    done = gate("--skip", "lint", "--skip", "fences", code=3)
    not_run = "its command was not run: nobody allowed it to run on this host (--exec host)"
    said = " ".join(done.stdout.split())
    assert (said.count("nightly-off must be survived, is inconclusive: Pod/"), said.count(not_run)) == (1, 1), said
    assert said.count("fault(s), is inconclusive: not drilled: undisturbed, nothing is proven of nightly-off") == 1


def _cell(fault, why):
    result = DrillResult(
        "switch", (fault,) if fault else (), Verdict.INCONCLUSIVE, why, not_run=("report was not run",)
    )
    return Cell("switch", fault, Outcome.SURVIVED, result)


def test_what_was_not_run_hides_no_other_reason():
    for_want = [_cell(fault, f"report was not run; so nothing met {fault}") for fault in ("", "dns-wrong")]
    other = [_cell(fault, f"{fault} did not bite") for fault in ("egress-denied", "image-gone")]
    assert list(failing([*for_want, *other])) == [
        "switch, undisturbed and under 1 fault(s), is inconclusive: report was not run",
        "switch under egress-denied must be survived, is inconclusive: egress-denied did not bite",
        "switch under image-gone must be survived, is inconclusive: image-gone did not bite",
    ]


def test_exposures_stand_below_what_they_share():
    def exposed(fault):
        return Cell(
            "switch", fault, Outcome.COVERED, DrillResult("switch", (fault,), Verdict.EXPOSED, "why", cause="x " * 200)
        )

    assert list(failing([exposed("a")])) == ["switch under a must be covered, is exposed: " + "x " * 99 + "…"]
    assert [line[:20] for line in failing([exposed("a"), exposed("longer")])] == [
        "switch must be cover",
        "  a       x x x x x ",
        "  longer  x x x x x ",
    ]


def test_what_a_cell_left_changed_is_why_it_does_not_pass():
    left = "Deployment inference/vllm: spec.replicas was 1 and is 0"
    result = DrillResult("switch", (), Verdict.SURVIVED, "it turned the GPUs off", problems=(left,))
    [told] = failing([Cell("switch", "", Outcome.SURVIVED, result)])
    assert told == f"switch must be survived, is survived, and not all is as it was: {left}"


def test_what_the_cluster_has_no_lever_for_is_said_and_in_the_document_too(monkeypatch, capsys):
    monkeypatch.setattr(Session, "capabilities", frozenset())
    done = gate("--example", "dead-man", "--quick", "--json", "--skip", "lint", "--skip", "fences", code=0)
    left_out = json.loads(done.stdout)["matrix"]["left_out"]
    assert {"argo-selfheal", "api-brownout"} <= set(left_out)
    assert not {"image-gone", "node-paused", "ecr-token-expired"} & set(left_out)  # no engine and no account of its own
    assert "left out" not in done.stderr  # no fault was to be tried
    cells(Session(fixture="dead-man"), (), (), Options())
    assert f"they need capabilities that it has not: {', '.join(left_out)}" in capsys.readouterr().err


def copied(tmp_path, old="", new=""):
    folder = tmp_path / "deploy"
    shutil.copytree(path("dead-man"), folder)
    spec = folder / "killcheck.yaml"
    assert old in spec.read_text()
    spec.write_text(spec.read_text().replace(old, new))
    return spec


def test_a_fence_with_a_hole_fails_it_whatever_the_drills_say(tmp_path):
    spec = copied(tmp_path, "maxDevicesPerNode: 8", "maxDevicesPerNode: 4")
    document = json.loads(gate(str(spec), "--exec", "host", "--quick", "--json", code=1).stdout)
    assert document["parts"] == {"lint": "proven", "fences": "exposed", "drills": "proven"}


def test_without_a_ceiling_the_fences_prove_nothing_and_that_can_be_left_out_aloud(tmp_path):
    spec = copied(tmp_path)
    spec.write_text(spec.read_text().partition("fences:")[0])
    argv = (str(spec), "--quick", "--skip", "lint", "--skip", "drills")
    assert "no ceiling is stated" in gate(*argv, code=3).stdout
    left = json.loads(gate(str(spec), "--skip", "fences", "--skip", "drills", "--json", code=0).stdout)
    assert (left["skipped"], left["verdict"]) == (["fences", "drills"], "proven")


def test_ones_own_manifests_are_not_run_unasked_and_then_nothing_is_proven(tmp_path):
    document = json.loads(gate(str(copied(tmp_path)), "--quick", "--json", code=3).stdout)
    assert document["parts"] == {"lint": "proven", "fences": "proven", "drills": "inconclusive"}


def test_bad_input_is_one_sentence(tmp_path):
    wrong = copied(tmp_path, "maxDevicesPerNode: 8", "maxDevicePerNode: 8")
    assert "did you mean maxDevicesPerNode?" in gate(str(wrong), code=2).stderr
    spec = copied(tmp_path / "other", "maxDevicesPerNode: 8", "catalogues: [absent.csv]")
    assert "absent.csv: No such file" in gate(str(spec), "--skip", "drills", code=2).stderr


def test_ctrl_c_leaves_nothing_running(tmp_path):
    running = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from killcheck.cli import run; run()",
            "gate",
            "--example=dead-man",
            "--skip=lint",
            "--skip=fences",
        ],
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    for line in running.stderr:
        if " of " in line:
            break
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 4, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert of_session(running.pid) == []


#: What do_exit() sets first (include/linux/sched.h), and SIGKILL's bit among signals that are pending (proc(5)).
PF_EXITING, KILLED = 0x4, 1 << (signal.SIGKILL - 1)


def of_session(number):
    """Processes that the session still has; one that was killed, or is exiting, need not have had its turn for that."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            told = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
            words = (process / "cmdline").read_text()
        except OSError:
            continue
        killed = any(int(told[pending], 16) & KILLED for pending in ("SigPnd", "ShdPnd"))
        gone = fields[0] == "Z" or int(fields[6]) & PF_EXITING or killed
        if int(fields[3]) == number and not gone and words:  # one that has exited so far has no words any more
            found.append(words)
    return found
