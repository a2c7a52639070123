"""The plugin's settings: option, environment or ini. Imports nothing of killcheck's, so that the plugin stays light."""

from __future__ import annotations

import os

import pytest

__all__ = ["LISTS", "PATHS", "SETTINGS", "STRICT", "SUITES", "concerned", "setting", "settings", "suites"]

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
    "kubernetes-version": "which Kubernetes the embedded cluster is: 1.33 to 1.37 (default: the spec's, else 1.36)",
    "fixture": "a kill path that comes with killcheck, by name, instead of a spec",
}

#: As ``SETTINGS``, each given several times: an option ``--killcheck-NAME``, and an ini setting of a line each.
LISTS = {
    "manifests": "YAML for the embedded cluster (file, folder, chart or kustomization)",
    "exclude": "files and folders of the manifests to leave out, as .gitignore has them",
    "values": "with a Helm chart as manifests: files of values to fill it in with",
    "set": "with a Helm chart as manifests: KEY=VALUE, as helm takes it",
}
#: Names of lists whose members are paths.
PATHS = frozenset({"manifests", "values"})
STRICT = "refuse manifests of which anything cannot be read; else it is passed over, and said"


def setting(config: pytest.Config, name: str) -> str:
    """A setting: option, then environment, then ini; empty where none says anything.

    Raises pytest.UsageError for one that is said and empty: a variable that is not set would have named another place.
    """
    variable = f"KILLCHECK_{_plain(name).upper()}"
    for where, said in (
        (f"--killcheck-{name}", config.getoption(f"--killcheck-{name}")),
        (variable, os.environ.get(variable)),
    ):
        if said == "":
            raise pytest.UsageError(f"{where} is empty: set the variable that it comes from, or leave it out")
        if said:
            return str(said)
    return str(config.getini(f"killcheck_{_plain(name)}") or "")


def _plain(name: str) -> str:
    """As an ini file and an environment have it."""
    return name.replace("-", "_")


def settings(config: pytest.Config, name: str) -> list[str]:
    """The members of a list: options, else those of the ini file, whose paths are beside it."""
    return [str(one) for one in config.getoption(f"--killcheck-{name}") or config.getini(f"killcheck_{name}")]


def concerned(config: pytest.Config) -> bool:
    """Whether this run has to do with a kill path: one is named, or a ``killcheck.yaml`` lies here or above."""
    named = any(setting(config, name) for name in ("spec", "on", "fixture"))
    if named or settings(config, "manifests"):
        return True
    here = config.invocation_params.dir
    return any((folder / "killcheck.yaml").is_file() for folder in (here, *here.parents))


def suites(config: pytest.Config) -> tuple[str, ...]:
    """The suites that are to run; empty: all. Raises pytest.UsageError for a name that is none."""
    name = setting(config, "suite")
    if name and name not in SUITES:
        raise pytest.UsageError(f"--killcheck-suite is {', '.join(SUITES)}, not {name!r}")
    return SUITES[: SUITES.index(name) + 1] if name else ()
