"""The embedded cluster by itself: one in a folder, waited for, and not taken for alive when it is dead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from killcheck.cli import main
from killcheck.commands import cluster
from killcheck.embedded.cluster import Cluster
from killcheck.kube.errors import Unreachable
from killcheck.safety.journal import process_began

#: Who uses it has a program of somebody's run.
PLANTED = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [ran]}}}]
contexts: [{name: killcheck-embedded, context: {cluster: c, user: u}}]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    kept = cluster._folder()
    kept.mkdir(parents=True)
    return kept


def document(folder, pid):
    return json.dumps({"pid": pid, "began": process_began(pid), "kubeconfig": str(folder / "kubeconfig")})


def written(folder, pid):
    (folder / "cluster.json").write_text(document(folder, pid))


def run(*argv):
    return CliRunner().invoke(main, ["cluster", *argv])


def test_one_that_starts_is_waited_for(folder):
    script = (
        "import pathlib, sys, time; time.sleep(0.5); "
        f"pathlib.Path('cluster.json').write_text({document(folder, os.getpid())!r})"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=folder):
        result = run("kubeconfig", "--wait", "120s")
    assert (result.exit_code, result.output) == (0, f"{folder / 'kubeconfig'}\n")


@pytest.mark.parametrize("argv", [("kubeconfig",), ("kubeconfig", "--wait", "300ms"), ("advance", "1h"), ("down",)])
def test_one_whose_process_is_gone_is_not_there(folder, argv):
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    written(folder, dead.pid)
    result = run(*argv)
    assert result.exit_code == 4
    assert "no embedded cluster runs in this folder" in result.output


@pytest.mark.parametrize("argv", [("kubeconfig",), ("advance", "1h"), ("load", "."), ("down",)])
@pytest.mark.parametrize("said", [{}, {"pid": [1]}, {"pid": 1, "kubeconfig": 3}])
def test_what_came_with_the_checkout_is_no_cluster_of_this_folder(folder, tmp_path, argv, said):
    brought = tmp_path / "work/.killcheck/cluster"
    brought.mkdir(parents=True)
    (brought / "kubeconfig").write_text(PLANTED)
    told = {"pid": os.getpid(), "began": process_began(os.getpid()), "kubeconfig": str(brought / "kubeconfig")}
    (brought / "cluster.json").write_text(json.dumps({**told, **said}))
    result = run(*argv)
    assert result.exit_code == 4
    assert "no embedded cluster runs in this folder" in result.output
    assert not Path("ran").exists()


def test_of_the_cluster_of_another_folder_nothing_is_known(folder, tmp_path, monkeypatch):
    written(folder, os.getpid())
    assert run("kubeconfig").output == f"{folder / 'kubeconfig'}\n"
    monkeypatch.chdir(tmp_path)
    assert run("kubeconfig").exit_code == 4


def test_there_is_one_in_a_folder(folder):
    written(folder, os.getpid())
    result = run("up")
    assert result.exit_code == 4
    assert "runs in this folder already" in result.output
    assert (folder / "cluster.json").exists()


def test_a_wait_needs_its_unit(folder):
    assert run("kubeconfig", "--wait", "30").exit_code == 2


class _Gone:
    """A cluster that ends before it has answered."""

    def call(self, *_):
        raise Unreachable("the API server broke the connection off")


def test_a_cluster_that_ends_before_it_answers_is_down(monkeypatch):
    looks = iter([{"pid": 1}, None])
    monkeypatch.setattr(cluster, "_kube", _Gone)
    monkeypatch.setattr(cluster, "_there", lambda: next(looks))
    done = CliRunner().invoke(cluster.command, ["down"])
    assert (done.exit_code, done.output) == (0, "the embedded cluster is down\n")


def test_a_cluster_that_does_not_end_is_told_as_that(monkeypatch):
    monkeypatch.setattr(cluster, "_kube", _Gone)
    monkeypatch.setattr(cluster, "_there", lambda: {"pid": 4711})
    monkeypatch.setattr(cluster, "END_S", 0.0)
    done = CliRunner().invoke(cluster.command, ["down"])
    assert done.exit_code == 4
    assert "kill 4711" in done.output


def test_what_does_not_run_is_known_by_name(folder):
    result = run("up", "--without", "kube-schedular")
    assert result.exit_code == 2
    assert "--without kube-schedular: there is none; did you mean kube-scheduler" in result.output
    assert "kube-controller-manager" in result.output


def test_a_program_stands_for_all_that_it_has():
    assert cluster._known(("kube-scheduler",)) == {"default-scheduler"}
    controllers = cluster._known(("kube-controller-manager", "karpenter"))
    assert {"job-controller", "garbage-collector-controller", "karpenter"} <= controllers
    assert "default-scheduler" not in controllers
    with Cluster(exec_mode="none", disabled=controllers) as made:
        assert not {*made.controllers} & controllers
        assert "default-scheduler" in made.controllers


def test_on_kind_the_controllers_are_the_real_ones(folder):
    result = run("up", "--on", "kind", "--without", "kube-scheduler")
    assert result.exit_code == 2
    assert "--without is for the embedded cluster" in result.output
