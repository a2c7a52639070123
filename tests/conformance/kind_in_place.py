"""A pytest plugin: a suite that asks pytest-kind for a cluster is given the one that ``SUITE_KUBECONFIG`` leads to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType


class KindCluster:
    """What suites use of ``pytest_kind.cluster.KindCluster``; nothing is made, and nothing taken down."""

    def __init__(self, name: str = "pytest-kind", **_options: object) -> None:
        self.name = name
        self.kubeconfig_path = Path(os.environ["SUITE_KUBECONFIG"])
        self.kubectl_path = Path(shutil.which("kubectl") or "kubectl")

    def create(self, *_args: object) -> None:
        """It is there."""

    def delete(self) -> None:
        """Whoever started it ends it."""

    def kubectl(self, *words: str, **options: object) -> str:
        """Run kubectl on it; raises CalledProcessError."""
        env = os.environ | {"KUBECONFIG": str(self.kubeconfig_path)}
        return subprocess.check_output([str(self.kubectl_path), *words], encoding="utf-8", env=env, **options)


def _offer() -> None:
    """Under the name by which it is imported, whether pytest-kind is installed or not."""
    package, module = ModuleType("pytest_kind"), ModuleType("pytest_kind.cluster")
    package.KindCluster = module.KindCluster = KindCluster
    package.cluster = module
    sys.modules |= {"pytest_kind": package, "pytest_kind.cluster": module}


def pytest_addoption(parser):
    parser.addoption("--keep-cluster", action="store_true", default=True, help="as pytest-kind has it")


_offer()
