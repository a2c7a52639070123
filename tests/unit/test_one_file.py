"""A fault and a probe are one file each: the examples of the documentation, put into their folders, are found."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import killcheck.faults.kubernetes
from killcheck import probes
from killcheck.faults import shipped
from killcheck.faults.base import Fault

DOCS = Path(__file__).parents[2] / "docs"


def example(page: str) -> str:
    """The page's example of a class."""
    found = re.search(r"```python\n(class .*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """folder(package, text): a module of that text beside the package's own."""
    added = []

    def add(package, text):
        (tmp_path / "newcomer.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
        added.append(f"{package.__name__}.newcomer")

    yield add
    for name in added:
        sys.modules.pop(name, None)


def test_a_fault_is_found_in_its_folder(folder):
    head = "from killcheck.faults.base import Fault\n\n\n"
    folder(killcheck.faults.kubernetes, head + example("writing-a-fault.md"))
    (found,) = set(shipped._in("kubernetes")) - set(shipped.ALL)
    assert issubclass(found, Fault)
    assert (found.name, found.family) == ("account-renamed", "credentials")


def test_a_probe_is_found_in_its_folder(folder):
    head = (
        "from collections.abc import Iterable\n\n"
        "from killcheck.kube.objects import dig\n"
        "from killcheck.probes.base import Finding, Probe\n"
        "from killcheck.probes.world import World\n\n\n"
    )
    text = example("probes-howto.md").replace('id = "suspended"', 'id = "asleep"')
    folder(probes, head + text)
    found = {one.id for one in probes._every()} - {one.id for one in (*probes.ALL, *probes.REHEARSED)}
    assert found == {"asleep"}


def test_helpers_beside_faults_and_questions_on_request_are_no_part_of_the_lists():
    names = [kind.__name__ for kind in (*shipped.ALL, *shipped.ENGINE, *shipped.CLOUD, *shipped.MACHINE)]
    assert "ExecutorFault" not in names
    assert not {"image-missing", "image-unusable"} & {one.id for one in probes.ALL}
