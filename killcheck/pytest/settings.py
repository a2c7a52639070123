"""The plugin's settings: option, environment or ini. Imports nothing of killcheck's, so that the plugin stays light."""

from __future__ import annotations

import os

import pytest

__all__ = ["SETTINGS", "SUITES", "concerned", "setting", "suites"]

#: Each suite holds those before it.
SUITES = ("install", "staging", "release")

#: Name -> help. Each is an option ``--killcheck-NAME``, an ini setting ``killcheck_NAME``, and ``KILLCHECK_NAME``.
SETTINGS = {
    "spec": "the killcheck.yaml to drill (default: found in the manifests, or killcheck.yaml here or above)",
    "on": "where: embedded (default), kind, or a kubeconfig context",
    "exec": "how executors' commands run on the embedded cluster: auto, host, docker, none, unisolated",
    "kubeconfig": "a kubeconfig file",
    "layer": "only this layer (comma-separated)",
    "suite": "of killcheck.suites only install; staging (and install); or release (all)",
    "under": "faults for the staging suite (comma-separated; default: all that apply)",
    "fixture": "a kill path that comes with killcheck, by name, instead of a spec",
}


def setting(config: pytest.Config, name: str) -> str:
    """A setting: option, then environment, then ini; empty where none says anything."""
    said = config.getoption(f"--killcheck-{name}")
    return str(said or os.environ.get(f"KILLCHECK_{name.upper()}", "") or config.getini(f"killcheck_{name}") or "")


def concerned(config: pytest.Config) -> bool:
    """Whether this run has to do with a kill path: one is named, or a ``killcheck.yaml`` lies here or above."""
    named = any(setting(config, name) for name in ("spec", "on", "fixture"))
    if named or config.getoption("--killcheck-manifests") or config.getini("killcheck_manifests"):
        return True
    here = config.invocation_params.dir
    return any((folder / "killcheck.yaml").is_file() for folder in (here, *here.parents))


def suites(config: pytest.Config) -> tuple[str, ...]:
    """The suites that are to run; empty: all. Raises pytest.UsageError for a name that is none."""
    name = setting(config, "suite")
    if name and name not in SUITES:
        raise pytest.UsageError(f"--killcheck-suite is {', '.join(SUITES)}, not {name!r}")
    return SUITES[: SUITES.index(name) + 1] if name else ()
