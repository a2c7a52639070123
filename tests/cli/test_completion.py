"""Shell completion, by bash itself: layers, faults, contexts, examples; zsh and fish get the same words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import FishComplete, ShellComplete, ZshComplete

from killcheck import fixtures
from killcheck.cli import main

KILLCHECK = Path(sys.executable).with_name("killcheck")
CONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts:
- {name: staging-eu, context: {cluster: c, user: u}}
- {name: staging-us, context: {cluster: c, user: u}}
"""
#: Loads what `killcheck` prints for bash, and asks the function that it declared, as readline does.
ASK = """
eval "$(_KILLCHECK_COMPLETE=bash_source killcheck)"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
function=$(complete -p killcheck | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
"$function" killcheck "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a spec of two layers and a kubeconfig of two contexts."""
    for file in fixtures.path("two-switches").iterdir():
        if file.suffix == ".yaml":
            shutil.copy(file, tmp_path)
    (tmp_path / "other").mkdir()
    shutil.copy(fixtures.spec("dead-man"), tmp_path / "other")
    (tmp_path / "config").write_text(CONFIG)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def offered(*words, shell=ShellComplete):
    """What click offers for the last of these words: every shell's script shows the same."""
    asked = shell(main, {}, "killcheck", "_KILLCHECK_COMPLETE")
    return [item.value for item in asked.get_completions(list(words[:-1]), words[-1])]


def test_bash_completes_a_layer(here):
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    environment = {**os.environ, "PATH": f"{KILLCHECK.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", "killcheck", "drill", "--layer", ""],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["nightly-off", "second-switch"], done.stderr


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("drill", "--layer", ""), ["nightly-off", "second-switch"]),
        (("explore", "--layer", "s"), ["second-switch"]),
        (("drill", "--example", "dead-man", "--layer", ""), ["nightly-off"]),
        (("drill", "other/killcheck.yaml", "--layer", ""), ["nightly-off"]),
        (("drill", "other", "--exec", "host", "--layer", "n"), ["nightly-off"]),
        (("drill", "--under", "image-g"), ["image-gone"]),
        (("drill", "--under", "image-gone+pdb"), ["image-gone+pdb-blocks"]),
        (("accept", "--under", "image-g"), ["image-gone"]),
        (("drill", "--on", ""), ["embedded", "kind", "docker", "envtest", "staging-eu", "staging-us"]),
        (("lint", "--on", "staging-e"), ["staging-eu"]),
        (("restore", "--on", "staging-u"), ["staging-us"]),
        (("gate", "--example", "two"), ["two-switches"]),
        (("rep",), ["report"]),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_it_completes(words, wanted, here):
    assert offered(*words) == wanted


def test_what_cannot_be_read_offers_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert offered("drill", "--layer", "") == []
    assert offered("lint", "--on", "") == []
    (tmp_path / "killcheck.yaml").write_text("apiVersion: killcheck/v1\nlayers: 3\n")
    (tmp_path / "config").write_text("[")
    assert offered("drill", "--layer", "") == []
    assert offered("lint", "--on", "") == []


@pytest.mark.parametrize("shell", [ZshComplete, FishComplete])
def test_zsh_and_fish_have_a_script_and_the_same_words(shell, here):
    assert "killcheck" in shell(main, {}, "killcheck", "_KILLCHECK_COMPLETE").source()
    assert offered("drill", "--layer", "", shell=shell) == ["nightly-off", "second-switch"]
