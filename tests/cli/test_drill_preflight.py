"""``drill --preflight``: what a rehearsal of the executors' images says decides whether anything is drilled at all.

The rehearsal is a fake here; tests/docker has one on a real engine.
"""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from killcheck.probes.image_unusable import ImageUnusable

from killcheck import fixtures
from killcheck.cli import main
from killcheck.engine import connection, rehearsal
from killcheck.engine.rehearsal import Rehearsal
from killcheck.lint import asking
from killcheck.reports.document import schema

LACKING = Rehearsal(False, 'exec: "kubectl": executable file not found in $PATH')


class FakeEngine:
    opened = 0

    def __init__(self, host: str) -> None:
        self.host = host
        type(self).opened += 1
        self.api = SimpleNamespace(close=self.close)

    def close(self) -> None:
        type(self).opened -= 1


@pytest.fixture
def drill(tmp_path, monkeypatch):
    """Runs a drill whose images come to what is given; the images that were tried are in ``drill.tried``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(connection, "Engine", FakeEngine)
    shutil.copytree(fixtures.path("dead-man"), tmp_path / "deploy")
    tried = []

    def run(came, *argv, command="drill"):
        def rehearse(engine, image, command, env):
            tried.append((engine.host, image, tuple(command)))
            return came

        monkeypatch.setattr(rehearsal, "rehearse", rehearse)
        result = CliRunner().invoke(main, [command, "--manifests", "deploy", "--exec", "host", "--preflight", *argv])
        assert FakeEngine.opened == 0
        return result

    run.tried = tried
    return run


def test_an_executor_that_cannot_start_ends_it_before_anything_is_drilled(drill, monkeypatch):
    import killcheck.run.runner

    def never(self):
        raise AssertionError("a drill was begun")

    monkeypatch.setattr(killcheck.run.runner.Run, "execute", never)
    result = drill(LACKING, "--json")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    found = document["findings"]
    assert [(f["probe"], f["severity"], f["file"] != "", f["line"] > 0) for f in found] == [
        ("image-unusable", "error", True, True)
    ]
    assert "executable file not found" in found[0]["message"]
    assert found[0]["remedy"]
    assert (document["verdict"], document["exit_code"], document["drills"]) == ("inconclusive", 1, [])
    assert document["not_drilled"]
    assert set(schema("result")["required"]) <= set(document)
    assert document["verdict"] in schema("result")["properties"]["verdict"]["enum"]


@pytest.mark.parametrize("more", [(), ("--matrix",), ("--dry-run",)])
def test_a_person_reads_the_finding_and_its_remedy(drill, more):
    result = drill(LACKING, "--no-color", *more)
    text = " ".join(result.output.split())
    assert result.exit_code == 1, text
    assert "[image-unusable:" in text
    assert "fix Use an image that has what the command needs" in text
    assert "nothing was drilled or changed" in text


def test_what_starts_is_drilled_and_said(drill, tmp_path):
    result = drill(Rehearsal(True, "it starts"), "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0, result.output
    assert [one["verdict"] for one in document["drills"]] == ["survived"]
    assert document["findings"] == []
    assert "commands start" in result.stderr
    assert len(drill.tried) == 1


def test_an_image_that_cannot_be_had_is_not_proven_and_is_drilled(drill):
    result = drill(Rehearsal(None, "it could not be had: denied"), "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0, result.output
    assert [(one["unproven"], one["severity"]) for one in document["findings"]] == [(True, "note")]
    assert "not proven: it could not be had: denied" in result.stderr
    lines = [json.loads(line) for line in Path(document["record"]).read_text().splitlines()]
    assert [line["finding"] for line in lines if line["event"] == "Found"] == document["findings"]


PATH = [{"name": "PATH", "value": "/tools:/bin"}]


@pytest.mark.parametrize(
    ("mounts", "env", "why", "proven"),
    [
        (["/scripts"], [], 'exec: "/scripts/off.sh": no such file or directory', False),
        (["/scripts"], [], "exit code 127: sh: kubectl: not found", True),
        (["/tools"], PATH, "exit code 127: sh: kubectl: not found", False),
        (["/tools"], [], "exit code 127: sh: kubectl: not found", True),
        (["/opt/kubectl"], [], "exit code 127: sh: kubectl: not found", False),
        (["/usr/local/bin"], [], "exit code 127: sh: kubectl: not found", False),
        (["/var/run/docker.sock"], [], 'exec: "docker": executable file not found in $PATH', True),
    ],
)
def test_what_a_mount_may_bring_is_no_finding(monkeypatch, mounts, env, why, proven):
    monkeypatch.setattr(rehearsal, "rehearse", lambda *_: Rehearsal(False, why))
    gpus = {"limits": {"nvidia.com/gpu": "1"}}
    switch = {
        "name": "x",
        "image": "x:1",
        "command": ["kubectl", "scale", "deployment/vllm", "--replicas=0"],
        "env": env,
        "volumeMounts": [{"name": "m", "mountPath": path} for path in mounts],
    }
    world, _ = asking.world_of(
        [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "vllm", "namespace": "a"},
                "spec": {"template": {"spec": {"containers": [{"name": "v", "image": "v:1", "resources": gpus}]}}},
            },
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": "gpu-off", "namespace": "a"},
                "spec": {
                    "schedule": "0 3 * * *",
                    "jobTemplate": {"spec": {"template": {"spec": {"containers": [switch]}}}},
                },
            },
        ],
        datetime(2026, 1, 15, 12, 0, tzinfo=UTC),
    )
    found = asking.lint(world, probes=[ImageUnusable(FakeEngine("unix:///nowhere"))])
    FakeEngine.opened = 0
    assert [one.unproven for one in found.findings] == [not proven]
    assert bool(found.at_or_above("error")) is proven


def test_a_gate_drills_nothing_where_an_executor_cannot_start(drill, monkeypatch):
    import killcheck.run.runner

    def never(self):
        raise AssertionError("a drill was begun")

    monkeypatch.setattr(killcheck.run.runner.Run, "execute", never)
    result = drill(LACKING, "--json", command="gate")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert document["parts"]["preflight"] == "exposed"
    assert "drills" not in document["parts"]
    assert [f["probe"] for f in document["findings"] if f["severity"] == "error"] == ["image-unusable"]
    assert document["not_drilled"]
    shown = drill(LACKING, "--no-color", "--skip", "lint", "--skip", "fences", command="gate")
    assert shown.exit_code == 1
    assert "[image-unusable:" in shown.output
    assert "gate: exposed (preflight exposed; left out: lint, fences, drills)" in shown.output
    assert "nothing is drilled or changed" in shown.stderr


def test_a_gate_drills_what_starts(drill):
    result = drill(Rehearsal(True, "it starts"), "--json", "--quick", "--skip", "fences", command="gate")
    document = json.loads(result.stdout)
    assert (document["parts"]["preflight"], document["parts"]["drills"]) == ("proven", "proven")
    assert "commands start" in result.stderr
    assert len(drill.tried) == 1


def test_a_gate_without_drills_has_nothing_to_try():
    result = CliRunner().invoke(main, ["gate", "--example", "dead-man", "--preflight", "--skip", "drills"])
    assert result.exit_code == 2
    assert "it means nothing with --skip drills" in result.stderr


def test_without_an_engine_it_says_so_and_does_not_drill(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    result = CliRunner().invoke(main, ["drill", "--example", "dead-man", "--preflight", "--json"])
    document = json.loads(result.stdout)
    assert (result.exit_code, document["exit_code"], document["drills"]) == (4, 4, [])
    assert document["error"].startswith("no Docker Engine answers at")
    assert result.stderr.count("\n") == 2, "what is drilled, and why not"
    assert "no Docker Engine answers at" in result.stderr
