"""Whatever a user gets wrong: one clear message, the documented exit code, no traceback, nothing left behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from killcheck import fixtures
from killcheck.cli import main

GOOD = fixtures.spec("dead-man").read_text()


@pytest.fixture
def killcheck(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))

    def run(*argv):
        result = CliRunner().invoke(main, list(argv))
        assert "Traceback" not in result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


def manifests(folder: Path, **replaced: tuple[str, str]) -> Path:
    shutil.copytree(fixtures.path("dead-man"), folder)
    for name, (old, new) in replaced.items():
        file = folder / f"{name.replace('_', '-')}.yaml"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
    (folder / "killcheck.yaml").unlink()
    return folder


def test_a_spec_that_is_not_yaml(killcheck, tmp_path):
    (tmp_path / "killcheck.yaml").write_text("targets: [\n")
    result = killcheck("drill", "killcheck.yaml")
    assert result.exit_code == 2
    assert "killcheck.yaml:" in result.output


def test_a_misspelt_field_is_answered_with_its_place_and_the_nearest_name(killcheck, tmp_path):
    (tmp_path / "killcheck.yaml").write_text(GOOD.replace("cronJob:", "cronJbo:"))
    result = killcheck("drill", "killcheck.yaml")
    assert result.exit_code == 2
    assert "killcheck.yaml:" in result.output
    assert "cronJob" in result.output


def test_a_spec_that_does_not_exist(killcheck):
    result = killcheck("drill", "nowhere.yaml")
    assert result.exit_code in (2, 4)
    assert "nowhere.yaml" in result.output


def test_a_layer_that_does_not_exist(killcheck):
    result = killcheck("drill", "--layer", "nightly-of")
    assert result.exit_code == 2
    assert "nightly-off" in result.output


def test_a_fault_that_does_not_exist(killcheck):
    result = killcheck("drill", "--under", "image-gon")
    assert result.exit_code == 2
    assert "image-gone" in result.output


def test_a_command_that_does_not_exist(killcheck):
    result = killcheck("dril")
    assert result.exit_code == 2
    assert "drill" in result.output


def test_a_context_that_does_not_exist_lists_the_nearest(killcheck, tmp_path):
    (tmp_path / "killcheck.yaml").write_text(GOOD)
    (tmp_path / "kubeconfig").write_text(
        "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {}}]\ncontexts: [{name: staging, context: {cluster: c, user: u}}]\n")
    result = killcheck("drill", "killcheck.yaml", "--on", "stagin")
    assert result.exit_code == 2
    assert "staging" in result.output


def test_a_server_that_cannot_be_reached(killcheck, tmp_path):
    (tmp_path / "killcheck.yaml").write_text(GOOD)
    (tmp_path / "kubeconfig").write_text(
        "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {token: t}}]\ncontexts: [{name: staging, context: {cluster: c, user: u}}]\n")
    result = killcheck("drill", "killcheck.yaml", "--on", "staging")
    assert result.exit_code == 4
    assert "127.0.0.1:1" in result.output


def test_a_real_cluster_wants_a_spec(killcheck):
    result = killcheck("drill", "--on", "staging")
    assert result.exit_code == 2
    assert "spec" in result.output


def test_manifests_without_gpus(killcheck, tmp_path):
    (tmp_path / "deploy.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {a: b}}\n"
        "  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: web, image: nginx}]}}\n")
    result = killcheck("drill", "--manifests", "deploy.yaml")
    assert result.exit_code == 2
    assert "GPU" in result.output


def test_a_manifest_that_yaml_misreads(killcheck, tmp_path):
    (tmp_path / "off.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n    - name: off\n      image: nginx\n")
    result = killcheck("drill", "--manifests", "off.yaml")
    assert result.exit_code == 2
    assert "off.yaml:6" in result.output
    assert '"off"' in result.output


def test_no_such_cronjob_lists_the_nearest(killcheck, tmp_path):
    folder = manifests(tmp_path / "deploy")
    (tmp_path / "killcheck.yaml").write_text(GOOD.replace("name: gpu-nightly-off", "name: gpu-nightly-of"))
    result = killcheck("drill", "killcheck.yaml", "--manifests", str(folder), "--exec", "host")
    assert result.exit_code == 2
    assert "gpu-nightly-off" in result.output


def test_targets_already_at_zero_prove_nothing(killcheck, tmp_path):
    folder = manifests(tmp_path / "deploy", inference=("replicas: 1", "replicas: 0"))
    (tmp_path / "killcheck.yaml").write_text(GOOD)
    result = killcheck("drill", "killcheck.yaml", "--manifests", str(folder), "--exec", "host")
    assert result.exit_code == 3
    assert "nothing to turn off" in result.output


def test_a_users_own_manifests_do_not_run_unasked(killcheck, tmp_path):
    folder = manifests(tmp_path / "deploy")
    result = killcheck("drill", "--manifests", str(folder))
    assert result.exit_code == 3
    assert "--exec host" in result.output


@pytest.mark.parametrize("argv", [("--exec", "docker"), ("--on", "kind")])
def test_without_a_docker_engine_that_is_said(killcheck, argv, monkeypatch):
    pytest.importorskip("docker")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    result = killcheck("drill", *argv)
    assert result.exit_code == 4
    assert "no Docker Engine answers at unix:///nowhere/docker.sock" in result.output


def test_a_bad_duration(killcheck):
    result = killcheck("drill", "--watch", "7")
    assert result.exit_code == 2
    assert "7h" in result.output or "90s" in result.output
