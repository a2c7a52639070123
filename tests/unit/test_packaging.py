"""What the wheel carries is what the tree holds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_is_listed():
    inside = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "killcheck").rglob("__init__.py")}
    mapped = set(CONFIG["tool"]["setuptools"]["package-dir"])
    assert set(CONFIG["tool"]["setuptools"]["packages"]) == inside | mapped


def test_what_only_some_need_is_an_extra():
    wanted = {re.split(r"[<>=]", one)[0] for one in CONFIG["project"]["dependencies"]}
    assert not wanted & {"boto3", "kubernetes", "docker", "moto"}


def test_every_dependency_has_a_lower_bound():
    project = CONFIG["project"]
    wanted = [*project["dependencies"], *(d for group in project["optional-dependencies"].values() for d in group)]
    assert [d for d in wanted if ">=" not in d and not d.startswith("killcheck[")] == []
