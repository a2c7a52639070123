"""What layers share."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from killcheck.fixtures import path, spec

from killcheck.cli import main
from killcheck.discover.independence import Dependency, Shared, dependencies, drilled, shared
from killcheck.drill.sequence import Options
from killcheck.kube import manifests
from killcheck.kube.objects import copy, dig
from killcheck.lint import asking
from killcheck.run import matrix
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec.killpath import Outcome
from killcheck.spec.specfile import load
from killcheck.text.values import replace

KILL_PATH = load(spec("two-switches"))
OBJECTS = manifests.load(path("two-switches")).objects


def test_two_switches_share_only_what_fires_them():
    assert [str(one.dependency) for one in shared(KILL_PATH, OBJECTS)] == [
        "controller kube-controller-manager (CronJobs)"
    ]


def test_one_image_for_both_is_found():
    changed = [copy(obj) for obj in OBJECTS]
    for obj in changed:
        if obj["kind"] == "CronJob":
            dig(obj, "spec", "jobTemplate", "spec", "template", "spec", "containers")[0]["image"] = "tools/kill:1"
    found = {one.dependency for one in shared(KILL_PATH, changed)}
    assert {Dependency("image", "tools/kill:1"), Dependency("registry", "docker.io")} <= found


def test_a_layer_lists_what_it_is_made_of():
    kinds = {one.kind for one in dependencies(KILL_PATH.layer("second-switch"), OBJECTS)}
    assert kinds == {"image", "registry", "identity", "network", "controller"}


def test_what_every_layer_leans_on_is_found_by_reading():
    world, _ = asking.world_of(OBJECTS, datetime(2026, 11, 21, tzinfo=UTC), kill_path=KILL_PATH)
    told = [one for one in asking.lint(world).findings if one.probe == "shared-fate"]
    assert [(one.severity, "kube-controller-manager (CronJobs)" in one.message) for one in told] == [("note", True)]
    assert told[0].remedy.startswith("Add a layer that another controller fires")


SHARED = [Shared("vllm", Dependency("image", "tools/kill:1"), ("one", "other"))]


#: What takes it away from both: each alone goes on with it.
BOTH = "image-gone@one+image-gone@other"


@pytest.mark.parametrize(
    ("outcomes", "severity"),
    [
        ({}, "warning"),
        ({("one", "image-gone"): "covered", ("other", "image-gone"): "covered"}, "warning"),
        ({("one", BOTH): "exposed"}, "warning"),
        ({("one", BOTH): "exposed", ("other", BOTH): "exposed"}, "error"),
        ({("one", BOTH): "covered", ("other", BOTH): "survived"}, "note"),
        ({("one", BOTH): "covered", ("other", BOTH): "exposed"}, "error"),
        ({("one", BOTH): "covered", ("other", BOTH): "inconclusive"}, "warning"),
    ],
)
def test_taking_the_shared_one_away_must_leave_a_layer_standing(outcomes, severity):
    (found,) = drilled(SHARED, outcomes)
    assert found.to_json()["severity"] == severity
    assert found.to_json()["unproven"] is (severity == "warning")


def test_the_matrix_says_what_a_drill_without_the_shared_one_showed():
    done = CliRunner().invoke(
        main, ["drill", str(spec("two-switches")), "--matrix", "--under", "controller-manager-down", "--json"]
    )
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["probe"], finding["severity"], finding["unproven"]) == ("shared-dependency", "error", False)
    assert {e["value"] for e in finding["evidence"] if e["object"] == "drill"} == {
        "nightly-off under controller-manager-down: exposed",
        "second-switch under controller-manager-down: exposed",
    }


def test_what_all_lean_on_is_taken_away_from_all_of_them_and_one_must_be_left_standing(tmp_path):
    session = Session(fixture="two-switches")
    session._objects = [copy(obj) for obj in session.objects]
    jobs = [obj for obj in session.objects if obj["kind"] == "CronJob"]
    images = [dig(job, "spec", "jobTemplate", "spec", "template", "spec", "containers")[0] for job in jobs]
    images[1]["image"] = images[0]["image"]
    both = "image-gone@nightly-off+image-gone@second-switch"
    cells = [cell for cell in matrix.plan(session.kill_path, objects=session.objects) if "+".join(cell.faults) == both]
    assert [(cell.layer, cell.require) for cell in cells] == [
        ("nightly-off", Outcome.COVERED),
        ("second-switch", Outcome.COVERED),
    ]
    assert all(cell.faults != tuple(both.split("+")) for cell in matrix.plan(KILL_PATH, objects=OBJECTS))
    an_hour = [replace(cell, options=Options(horizon_s=3600.0)) for cell in cells]
    found = Run(session, an_hour, folder=tmp_path).execute()
    whole = matrix.judged(session.kill_path, cells, found.drills)
    assert [(cell.word, cell.passes) for cell in whole.cells] == [("exposed", False)] * 2
    leant = matrix.leaning(session.kill_path, session.objects, whole)
    told = {one.dependency: one.to_json()["severity"] for one in leant}
    assert told[Dependency("image", images[0]["image"])] == "error"


def test_programs_of_one_machine_share_it_and_the_clouds_command_line():
    """Seed 3's layers that stop: one host, one gcloud, one sign-in; the sentinel stops nothing, and is not asked."""
    kill_path = Session(fixture="single-controller").kill_path
    found = {str(one.dependency): one for one in shared(kill_path, [])}
    assert set(found) == {"host the one that the commands run on", "command line gcloud", "credentials of gcloud"}
    assert all(one.layers == ("daily-cycle", "idle-monitor") for one in found.values())
    outcomes = {
        (layer, fault): "exposed"
        for layer in ("daily-cycle", "idle-monitor")
        for fault in ("machine-off", "cli-gone", "credentials-expired")
    }
    judged = {one.dependency.kind: one.to_json()["severity"] for one in drilled(list(found.values()), outcomes)}
    assert judged == {"host": "error", "command line": "warning", "credentials": "warning"}
