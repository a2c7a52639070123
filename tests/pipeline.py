"""A hosted runner, as far as the recipes of ci/ ask for one: steps in a shell, files between them, a pip without an index."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import forked
import yaml

ROOT = Path(__file__).resolve().parents[1]
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
ONE_FAULT = """#!/bin/bash
case " $* " in *" --matrix "*) set -- "$@" --under suspended --watch 9s;; *" gate "*" --on "*) set -- "$@" --quick; esac
{more}
exec {killcheck} "$@"
"""


@contextlib.contextmanager
def installed(folder, own, more=""):
    """``own`` as a PATH's folder into which killcheck was just installed; ``folder`` serves it. Both are empty.

    ``more``: what the shell does to each call's words first.
    """
    with forked.installed(folder):
        for name, text in {
            "pip": PIP.format(python=sys.executable, pyproject=str(ROOT / "pyproject.toml")),
            "killcheck": ONE_FAULT.format(killcheck=folder / "killcheck", more=more),
        }.items():
            (own / name).write_text(text)
            (own / name).chmod(0o755)
        yield own


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
