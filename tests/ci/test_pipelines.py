"""The pipelines of ci/, run as they are pasted: each step's own lines in a checkout of a team's, by a shell.

``pip`` is one that takes what the recipe installs for installed, and refuses what pip or pyproject.toml would. Actions of
others are not run: what they are handed must be there. Faults are asked of one only, where a recipe asks for a whole
matrix: what a matrix drills is tested in ``tests/matrix``.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from own_world import QUICK, living, nothing_left
from pipeline import Runner, installed

from killcheck import fixtures

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / "ci"


@pytest.fixture(scope="module")
def bin_(tmp_path_factory):
    """killcheck as in an environment into which it was just installed."""
    with installed(tmp_path_factory.mktemp("bin"), tmp_path_factory.mktemp("own")) as own:
        yield own


@pytest.fixture(scope="module")
def staging():
    with living() as cluster:
        yield cluster


@pytest.fixture
def checkout(tmp_path):
    """A team's: its manifests, and its spec."""
    home = tmp_path / "checkout"
    shutil.copytree(fixtures.path("dead-man"), home / "deploy", ignore=lambda *_: ["killcheck.yaml"])
    spec = {**QUICK, "consent": {**QUICK["consent"], "contexts": ["staging"]}}
    spec["policy"] = {"rules": [{"fault": "suspended", "cause": "is suspended"}]}
    spec["fences"] = {"maxDevicesPerNode": 8, "maxUsdPerHour": 61}
    (home / "killcheck.yaml").write_text(yaml.safe_dump(spec))
    return home


def kubeconfig_of(cluster):
    return cluster.kubeconfig().replace("killcheck-embedded", "staging")


def test_the_pull_requests_gate(checkout, bin_):
    runner = Runner(checkout, bin_)
    runner.job(yaml.safe_load((CI / "github/pull-request.yaml").read_text())["jobs"]["gate"])
    assert not runner.failed, "\n".join(runner.failed)
    assert "survived" in runner.files["GITHUB_STEP_SUMMARY"].read_text()


@pytest.mark.parametrize(("name", "job"), [("nightly", "matrix"), ("release", "gate")])
@pytest.mark.one_in(2)
def test_a_workflow_on_staging(checkout, bin_, staging, name, job):
    runner = Runner(checkout, bin_, STAGING_KUBECONFIG=kubeconfig_of(staging), KILLCHECK_WEBHOOK="")
    runner.job(yaml.safe_load((CI / f"github/{name}.yaml").read_text())["jobs"][job])
    assert not runner.failed, "\n".join(runner.failed)
    assert (checkout / "killcheck.html").read_text().startswith("<!doctype html>")
    assert nothing_left(staging) == ([], 1)


@pytest.mark.parametrize("job", ["gate", "staging", "release"])
@pytest.mark.one_in(3)
def test_gitlabs_pipeline(checkout, bin_, staging, job):
    pipeline = yaml.safe_load((CI / "gitlab/killcheck.gitlab-ci.yml").read_text())
    base, own = pipeline[".killcheck"], pipeline[f"killcheck:{job}"]
    assert own["extends"] == ".killcheck"
    runner = Runner(checkout, bin_)
    config = checkout.parent / "kubeconfig"
    config.write_text(kubeconfig_of(staging))
    runner.env.update(base.get("variables", {}), STAGING_KUBECONFIG=str(config))
    runner.shell("\n".join([*base["before_script"], *own["script"]]))
    runner.shell("\n".join(base["after_script"]), options=())
    assert not runner.failed, "\n".join(runner.failed)
    for place in (*base["artifacts"]["paths"], base["artifacts"]["reports"]["junit"]):
        assert (checkout / place).exists(), place


@pytest.mark.parametrize(("args", "code"), [((), 0), (("--manifests", "deploy/"), 0), (("broken",), 1)])
def test_the_pre_commit_hook_judges_the_teams_own_files(checkout, bin_, args, code):
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    if args == ("broken",):
        switch = checkout / "deploy/gpu-nightly-off.yaml"
        switch.write_text(switch.read_text().replace("curl -fsS", "curl -sS"))
        args = ("--manifests", "deploy/")
    runner = Runner(checkout, bin_)
    done = runner.shell(shlex.join([*shlex.split(hook["entry"]), *args]))
    assert done.returncode == code, done.stdout + done.stderr


def test_a_pip_that_would_find_nothing_is_noticed(bin_):
    words = [str(bin_ / "pip"), "install"]
    env = {**os.environ}
    for wrong in ("killcheck", "killcheck[nothing] @ git+https://github.com/OWNER/killcheck@v0.1.0"):
        assert subprocess.run([*words, wrong], check=False, env=env, capture_output=True).returncode == 1
