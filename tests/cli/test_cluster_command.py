"""The embedded cluster by itself: one in a folder, waited for, and not taken for alive when it is dead."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from killcheck.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".killcheck/cluster").mkdir(parents=True)
    return tmp_path / ".killcheck/cluster"


def written(folder, pid):
    (folder / "cluster.json").write_text(json.dumps({"pid": pid, "kubeconfig": str(folder / "kubeconfig")}))


def run(*argv):
    return CliRunner().invoke(main, ["cluster", *argv])


def test_one_that_starts_is_waited_for(folder):
    script = (
        "import pathlib, sys, time; time.sleep(0.5); "
        f'pathlib.Path(\'cluster.json\').write_text(\'{{"pid": {os.getpid()}, "kubeconfig": "here"}}\')'
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=folder):
        result = run("kubeconfig", "--wait", "120s")
    assert (result.exit_code, result.output) == (0, "here\n")


@pytest.mark.parametrize("argv", [("kubeconfig",), ("kubeconfig", "--wait", "300ms"), ("advance", "1h"), ("down",)])
def test_one_whose_process_is_gone_is_not_there(folder, argv):
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    written(folder, dead.pid)
    result = run(*argv)
    assert result.exit_code == 4
    assert "no embedded cluster runs in this folder" in result.output


def test_there_is_one_in_a_folder(folder):
    written(folder, os.getpid())
    result = run("up")
    assert result.exit_code == 4
    assert "runs in this folder already" in result.output
    assert (folder / "cluster.json").exists()


def test_a_wait_needs_its_unit(folder):
    assert run("kubeconfig", "--wait", "30").exit_code == 2
