"""The matrix on a cluster that is somebody's: planned whole, one drill after the other, and all of it put back."""

from __future__ import annotations

import json

import pytest
from kill_world import CONTEXT, KillWorld

#: The first cannot be injected on this cluster: it has no autoscaler.
UNDER = ["autoscaler-down", "suspended"]
CANNOT = "no Deployment of Karpenter or a cluster autoscaler"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = KillWorld(tmp_path_factory.mktemp("matrix"))
    yield made
    made.close()


def matrix(world, folder, *more, **death):
    under = [word for name in UNDER for word in ("--under", name)]
    return world.order(
        folder, "drill", str(world.spec), "--on", CONTEXT, "--matrix", *under, "--watch", "1s", *more, **death
    )


def test_it_says_how_long_it_takes_and_how_far_it_is_and_a_cell_that_cannot_be_had_is_inconclusive(world, tmp_path):
    done = matrix(world, tmp_path, "--yes", "--json")
    said, _, document = done["out"].partition("{")
    assert f"3 drill(s) on {CONTEXT}, one after the other: 3 s of watching at most (1 s the longest)" in said, done[
        "out"
    ]
    found = json.loads("{" + document[: document.rindex("}") + 1])
    cells = {c["fault"]: (c["verdict"], c["passes"]) for c in found["matrix"]["cells"]}
    assert cells == {
        None: ("inconclusive", False),  # a second is too short for thirty seconds of grace
        "autoscaler-down": ("inconclusive", False),
        "suspended": ("exposed", True),
    }
    assert "2 of 3 drills" in done["out"]
    assert "to go at this pace" in done["out"]
    cannot = next(c for c in found["matrix"]["cells"] if c["fault"] == "autoscaler-down")
    assert CANNOT in cannot["why"]
    assert done["code"] == 3
    assert [d["problems"] for d in found["drills"]] == [[]] * 3
    assert world.settled() == []
    told = world.mortals.order(tmp_path, "report", found["record"], "--json", "-")
    assert [d["verdict"] for d in json.loads(told["out"][told["out"].index("{") :])["drills"]] == [
        d["verdict"] for d in found["drills"]
    ]


def test_the_plan_is_shown_whole_and_asked_for_once_before_anything_is_changed(world, tmp_path):
    done = matrix(world, tmp_path)
    assert done["code"] == 4, done["out"]
    assert done["steps"] == []
    assert done["out"].count("say --yes to change a real cluster") == 1
    assert "CronJob inference/gpu-nightly-off is suspended for the length of the drill" in done["out"]
    assert "prove nothing: nightly-off under autoscaler-down: " in done["out"]
    shown = matrix(world, tmp_path, "--dry-run")
    assert shown["code"] == 0, shown["out"]
    assert "CronJob inference/gpu-nightly-off is suspended for the length of the drill" in shown["out"]
    assert CANNOT in shown["out"]


def test_the_limit_in_dollars_is_a_drills(world, tmp_path):
    # One node at 21.96 an hour: a minute of watching is 37 cents, and two cells of it are more than the limit.
    spec = tmp_path / "killcheck.yaml"
    spec.write_text(world.spec.read_text().replace("maxUsd: 25", "maxUsd: 0.5"))
    ask = ["drill", str(spec), "--on", CONTEXT, "--matrix", "--under", "suspended", "--dry-run"]
    assert world.order(tmp_path, *ask, "--watch", "1m")["code"] == 0
    refused = world.order(tmp_path, *ask, "--watch", "5m")
    assert refused["code"] == 2
    assert "are at stake" in refused["out"]
    assert "the spec allows $0.50" in refused["out"]


def test_killed_in_the_middle_the_drill_under_way_is_put_back(world, tmp_path):
    whole = len(matrix(world, tmp_path / "whole", "--yes")["steps"])
    killed = matrix(world, tmp_path / "killed", "--yes", at=whole * 2 // 3, when="after")
    assert killed["code"] == -9
    assert world.order(tmp_path / "killed", "restore")["code"] == 0
    assert world.settled() == []
