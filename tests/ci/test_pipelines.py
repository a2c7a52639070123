"""The pipelines of ci/, run as they are pasted: each step's own lines in a checkout of a team's, by a shell.

``pip`` is one that takes what the recipe installs for installed, and refuses what pip or pyproject.toml would. Actions of
others are not run: what they are handed must be there. Faults are asked of one only, where a recipe asks for a whole
matrix: what a matrix drills is tested in ``tests/matrix``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import forked
import pytest
import yaml
from own_world import QUICK, living, nothing_left

from killcheck import fixtures

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / "ci"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
#: A pip that has no index: killcheck from where a team keeps it, with extras that it has.
PIP = """#!{python}
import re, sys, tomllib
from packaging.requirements import Requirement
project = tomllib.load(open({pyproject!r}, "rb"))["project"]
assert sys.argv[1] == "install", sys.argv
for word in sys.argv[2:]:
    if not word.startswith("-"):
        wanted = Requirement(word)
        assert wanted.name == "killcheck" and wanted.extras <= set(project["optional-dependencies"]), word
        assert re.fullmatch(r"git\\+https://[\\w./-]+/killcheck@v" + project["version"], wanted.url or ""), word
"""
#: The one fault of a matrix, and how long it is watched.
ONE_FAULT = """#!/bin/sh
case " $* " in *" --matrix "*) set -- "$@" --under suspended --watch 9s;; *" gate "*" --on "*) set -- "$@" --quick; esac
exec {killcheck} "$@"
"""


@pytest.fixture(scope="module")
def bin_(tmp_path_factory):
    """killcheck as in an environment into which it was just installed."""
    folder, own = tmp_path_factory.mktemp("bin"), tmp_path_factory.mktemp("own")
    with subprocess.Popen(
        ["bash", "-c", f"{forked.commands(folder)}; echo; read"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as shell:
        shell.stdout.readline()
        for name, text in {
            "pip": PIP.format(python=sys.executable, pyproject=str(ROOT / "pyproject.toml")),
            "killcheck": ONE_FAULT.format(killcheck=folder / "killcheck"),
        }.items():
            (own / name).write_text(text)
            (own / name).chmod(0o755)
        yield own
        shell.stdin.close()


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


class Runner:
    """What a hosted runner does of a job: the environment, its files, the steps one after the other."""

    def __init__(self, home, bin_, **secrets):
        self.home, self.secrets, self.outputs, self.failed = home, secrets, {}, []
        self.files = {name: home.parent / name for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        self.env = {
            "PATH": f"{bin_}:/usr/bin:/bin",
            "HOME": str(home.parent),
            "LANG": "C.UTF-8",
            "CI": "true",
            "RUNNER_TEMP": str(home.parent),
            **{name: str(file) for name, file in self.files.items()},
        }

    def shell(self, script, env=(), options=("-eo", "pipefail")):
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", *options, "-c", script],
            check=False,
            cwd=self.home,
            env={**self.env, **dict(env)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode:
            self.failed.append(f"{script}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def filled(self, text):
        """The expressions in it: secrets, outputs of a step."""

        def value(found):
            name = found[1].strip()
            kind, _, rest = name.partition(".")
            return self.secrets[rest] if kind == "secrets" else self.outputs[name.rpartition(".")[2]]

        return re.sub(r"\$\{\{(.*?)\}\}", value, str(text))

    def job(self, job):
        """Every step of a workflow's job; those of others' actions only have what they are handed looked at."""
        for step in job["steps"]:
            with_ = {name: self.filled(text) for name, text in step.get("with", {}).items()}
            if "run" in step:
                self.shell(step["run"], {name: self.filled(text) for name, text in step.get("env", {}).items()})
                self._take_in("GITHUB_ENV", self.env)
            elif step["uses"].startswith("OWNER/killcheck@"):
                self.action(**with_)
            for name in ("path", "sarif_file"):
                for place in with_.get(name, "").split():
                    assert any(Path("/").glob(str(self.home / place)[1:])), (
                        f"{step['uses']} is handed {place}, which is not there"
                    )

    def action(self, **inputs):
        """killcheck's own action: the step of it that runs the gate."""
        [gate] = [step for step in ACTION["runs"]["steps"] if step.get("id") == "gate"]
        given = {name: inputs.get(name, one["default"]) for name, one in ACTION["inputs"].items()}
        done = self.shell(gate["run"], {name.upper(): given[name] for name in ("spec", "manifests", "exec", "args")})
        self._take_in("GITHUB_OUTPUT", self.outputs)
        assert self.outputs["exit-code"] == str(done.returncode)
        return done

    def _take_in(self, name, into):
        if self.files[name].exists():
            into.update(line.split("=", 1) for line in self.files[name].read_text().splitlines())


def kubeconfig_of(cluster):
    return cluster.kubeconfig().replace("killcheck-embedded", "staging")


def test_the_pull_requests_gate(checkout, bin_):
    runner = Runner(checkout, bin_)
    runner.job(yaml.safe_load((CI / "github/pull-request.yaml").read_text())["jobs"]["gate"])
    assert not runner.failed, "\n".join(runner.failed)
    assert "survived" in runner.files["GITHUB_STEP_SUMMARY"].read_text()


@pytest.mark.parametrize(("name", "job"), [("nightly", "matrix"), ("release", "gate")])
def test_a_workflow_on_staging(checkout, bin_, staging, name, job):
    runner = Runner(checkout, bin_, STAGING_KUBECONFIG=kubeconfig_of(staging), KILLCHECK_WEBHOOK="")
    runner.job(yaml.safe_load((CI / f"github/{name}.yaml").read_text())["jobs"][job])
    assert not runner.failed, "\n".join(runner.failed)
    assert (checkout / "killcheck.html").read_text().startswith("<!doctype html>")
    assert nothing_left(staging) == ([], 1)


@pytest.mark.parametrize("job", ["gate", "staging", "release"])
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
