"""SIGKILL between any two steps of a drill of this very machine, then ``killcheck restore`` in another process,
which is killed too, and once more.

What is compared is the whole machine as the path knows it: what is on, its folder, the folder of temporary files. The
default run takes a sample of the kill points; ``KILLCHECK_KILL_POINTS=all`` takes every one.
"""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from machine_here import made_clouded
from mortal import Mortals, kill_points

from killcheck import faults
from killcheck.faults.shipped import MACHINE

#: Layer, fault, and how many kill points are tried by default; each way of laying hands on a machine is in one.
SETS = {
    "replaced": ("nightly-stop", "reclaimed-while-stopping", 2),
    "hidden": ("nightly-stop", "cli-gone", 1),
    "started": ("nightly-stop", "second-controller", 1),
    "sentinel": ("hold", "sentinel-lost", 2),
}
#: Runs the spec's own command, and changes nothing that could be put back.
NO_HANDS = {"never-idle", "work-comes"}
#: What would wait does not.
QUICK = {"second-controller": {"after_s": 0.1}}
#: What the programs of the path call: with all of a machine's, hiding one would take thousands of steps.
TOOLS = ("sh", "cat", "date", "sed", "sleep")


def hands(kind):
    """How a fault lays hands on a machine; whether it hides a program, and puts nothing in its place."""
    return kind.inject, hasattr(kind, "text") and not kind().text("aws")


class Machine:
    """A folder that is a machine, its own tools, and killchecks that can be killed."""

    def __init__(self, folder, environment):
        self.folder = folder
        self.environment = environment
        self.before = self.picture()

    def picture(self):
        """Every file but killcheck's own records, by path."""
        return {
            str(path.relative_to(self.folder)): "" if path.is_symlink() or path.is_dir() else path.read_text()
            for path in self.folder.rglob("*")
            if ".killcheck" not in path.parts
        }

    def order(self, mortals, *argv, **death):
        return mortals.order(self.folder, *argv, **death)


def made(folder):
    environment = made_clouded(folder)
    for tool in TOOLS:
        (folder / "tools" / tool).symlink_to(shutil.which(tool))
    return Machine(folder, {**environment, "PATH": str(folder / "tools")})


def chosen(steps, how_many):
    points = kill_points(steps)
    if os.environ.get("KILLCHECK_KILL_POINTS") == "all":
        return points
    return [points[len(points) * (2 * i + 1) // (2 * how_many)] for i in range(how_many)]


def killed_anywhere(name, folder):
    """(what is wrong after a whole drill and after each death, how many deaths, the steps of the whole drill)."""
    layer, fault, how_many = SETS[name]
    machine, wrong = made(folder), []
    mortals = Mortals("machine", environment=machine.environment)

    def drill(**death):
        return machine.order(
            mortals,
            "drill",
            "killcheck.yaml",
            "--on",
            "host",
            "--layer",
            layer,
            "--under",
            fault,
            "--watch",
            "1s",
            "--yes",
            "--json",
            settings=QUICK,
            **death,
        )

    try:
        whole = drill()
        if (
            whole["code"] not in (0, 1, 3)
            or json.loads(whole["out"][whole["out"].index("{") :])["drills"][0]["problems"]
        ):
            wrong.append(("whole", whole["out"]))
        points = chosen(whole["steps"], how_many)
        for number, (at, when) in enumerate(points):
            if machine.picture() != machine.before:
                wrong.append(("not as it was", machine.picture()))
            killed = drill(at=at, when=when)
            if killed["code"] != -9 and killed["code"] not in (0, 1, 3):  # it may have taken fewer steps
                wrong.append((at, when, killed["out"]))
            machine.order(mortals, "restore", at=1 + number % 6, when=("before", "after")[number // 6 % 2])
            restored = machine.order(mortals, "restore")
            if restored["code"] or machine.picture() != machine.before:
                wrong.append((at, when, killed["steps"][-3:], restored["out"], machine.picture()))
                break
    finally:
        mortals.close()
    return wrong, len(points), whole["steps"]


@pytest.fixture(scope="module")
def deaths(tmp_path_factory):
    """All at once: each waits for the wall's clock."""
    with ThreadPoolExecutor(len(SETS)) as pool:
        running = {name: pool.submit(killed_anywhere, name, tmp_path_factory.mktemp(name)) for name in SETS}
        return {name: one.result() for name, one in running.items()}


def test_every_way_of_laying_hands_on_a_machine_is_in_a_set():
    tried = {hands(type(faults.named(fault))) for _, fault, _ in SETS.values()}
    left = {kind.name for kind in MACHINE if set(kind.needs) <= {"programs", "files"} and hands(kind) not in tried}
    assert left == NO_HANDS


@pytest.mark.parametrize("name", SETS)
def test_killed_anywhere_on_this_machine_it_is_put_back(deaths, name, record_property):
    wrong, points, steps = deaths[name]
    assert wrong == []
    assert points >= SETS[name][2]
    assert any(
        step.startswith({"replaced": "write_text", "hidden": "symlink_to", "started": "start", "sentinel": "put"}[name])
        for step in steps
    ), steps
    record_property("kill_points", points)
