"""A fault, a probe, a layer and a report are one file each: the examples of the documentation, put in place, are found."""

from __future__ import annotations

import itertools
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import killcheck.faults.kubernetes
from killcheck import events, fixtures, layers, probes, reports
from killcheck.faults import shipped
from killcheck.faults.base import Fault
from killcheck.reports.story import tell
from killcheck.run.session import Session
from killcheck.spec.killpath import Layer, LayerType

NOW = datetime(2026, 1, 15, tzinfo=UTC)
DOCS = Path(__file__).parents[2] / "docs"


def example(page: str) -> str:
    """The page's example."""
    found = re.search(r"```python\n((?:class|def) .*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
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
    head = "from killcheck.faults.base import Evidence, Fault\n\n\n"
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


def test_a_layer_is_found_in_its_folder(folder):
    before = layers.every()
    folder(layers, "from killcheck.layers.base import LayerRun\n\n\n" + example("layers.md"))
    (found,) = set(layers.every()) - set(before)
    layer = Layer("lab", "timer", ())  # as the spec would have it, once it has the word
    assert layers._kind(layer) is found
    assert found(layer, None).trigger() == "nothing was pulled"


@pytest.mark.parametrize("fixture", sorted(fixtures.names()))
def test_every_layer_is_drilled_by_one_class_alone(fixture):
    for layer in Session(fixture=fixture).kill_path.layers:
        (kind,) = [kind for kind in layers.every() if kind.drills(layer)]
        assert layers._kind(layer) is kind


@pytest.mark.parametrize("kind", LayerType)
def test_one_class_drills_a_layer_whatever_it_names(kind):
    named = ("cron_job", "command", "workload", "container", "scaler")
    for parts in itertools.product((None, object()), repeat=len(named)):
        layer = Layer("x", kind, (), **dict(zip(named, parts, strict=True)))
        assert sum(one.drills(layer) for one in layers.every()) == 1, layer


def test_a_report_is_found_in_its_folder(folder, tmp_path):
    head = "from killcheck.reports import Written\nfrom killcheck.reports.story import RunStory\n\n\n"
    folder(reports, head + example("writing-a-report.md"))
    reports.every.cache_clear()
    try:
        (found,) = (one for one in reports.every() if one.option == "plain")
    finally:
        reports.every.cache_clear()
    run = events.RunStarted(at=NOW, run="r", version="1", cluster="embedded", real=False, kill_path="inference")
    drill = events.DrillStarted(
        at=NOW, drill="d", layer="nightly-off", layer_type="dead-man", faults=[], deadlines={}, proof=[]
    )
    story = tell([run, drill])
    assert found.text(reports.Told(story, None)) == "nightly-off: unfinished\n"


def test_helpers_beside_faults_and_questions_on_request_are_no_part_of_the_lists():
    names = [kind.__name__ for kind in (*shipped.ALL, *shipped.ENGINE, *shipped.CLOUD, *shipped.MACHINE)]
    assert "ExecutorFault" not in names
    assert not {"image-missing", "image-unusable"} & {one.id for one in probes.ALL}
