"""The plugin's settings: option, environment or ini. Imports nothing of killcheck's, so that the plugin stays light."""

from __future__ import annotations

import os

import pytest

__all__ = ["SETTINGS", "setting"]

#: Name -> help. Each is an option ``--killcheck-NAME``, an ini setting ``killcheck_NAME``, and ``KILLCHECK_NAME``.
SETTINGS = {
    "spec": "the killcheck.yaml to drill (default: found in the manifests, or the shipped reference path)",
    "on": "where: embedded (default), kind, or a kubeconfig context",
    "exec": "how executors' commands run on the embedded cluster: host, docker, none",
    "kubeconfig": "a kubeconfig file",
    "layer": "only this layer (comma-separated)",
    "under": "faults for the staging suite (comma-separated; default: all that apply)",
    "fixture": "a shipped reference kill path by name, instead of a spec",
}


def setting(config: pytest.Config, name: str) -> str:
    """A setting: option, then environment, then ini; empty where none says anything."""
    said = config.getoption(f"--killcheck-{name}")
    return str(said or os.environ.get(f"KILLCHECK_{name.upper()}", "") or config.getini(f"killcheck_{name}") or "")
