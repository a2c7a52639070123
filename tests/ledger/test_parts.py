"""Whole folders drawn of parts whose truth is known: no pass where one of them bills, or where nobody here could tell.

``KILLCHECK_COMPOSED`` says how many (``all``: some hundreds of folders, and every machine), ``KILLCHECK_SEED`` which.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import fleet_parts
import machine_parts
import parts
import parts_of_the_field
import pytest

from killcheck.discover import DiscoveryError
from killcheck.kube.manifests import ManifestError
from killcheck.run.session import NothingToDrill

COMPOSED = os.environ.get("KILLCHECK_COMPOSED", "10")
#: Several hundred folders were drilled of each; an ordinary run takes some.
MOST = 600


def _drawn() -> tuple[list[parts.Draw], list[machine_parts.MachineDraw | fleet_parts.FleetDraw]]:
    chance = random.Random(int(os.environ.get("KILLCHECK_SEED", "20261126")))
    most = MOST if COMPOSED == "all" else int(COMPOSED) // 2
    every = [*machine_parts.every(), *fleet_parts.every()]
    machines = every if COMPOSED == "all" else chance.sample(every, min(most // 2 + 1, len(every)))
    return [parts.draw(chance, parts_of_the_field.MORE) for _ in range(most)], machines


FOLDERS, MACHINES = _drawn()


def _judge(scene: parts.Scene, folder: Path, layer: str) -> None:
    try:
        drills = scene.drill(folder)
    except (NothingToDrill, DiscoveryError, ManifestError):
        assert scene.truth != parts.OFF
        return
    told = [(str(one.verdict), one.why) for one in drills if layer in ("", one.layer)]
    allowed = {
        parts.OFF: ("survived", "covered", "inconclusive"),
        parts.ON: ("exposed", "inconclusive"),
        parts.UNKNOWN: ("exposed", "inconclusive"),
    }[scene.truth]
    assert all(verdict in allowed for verdict, _ in told), (scene.truths, told)


@pytest.mark.parametrize("drawn", FOLDERS, ids=str)
@pytest.mark.one_in(2)
def test_folder_passes_only_where_every_part_is_off(drawn: parts.Draw, tmp_path: Path) -> None:
    _judge(drawn.scene(), tmp_path / "path", "lights-out")


@pytest.mark.parametrize("drawn", MACHINES, ids=str)
def test_machine_passes_only_where_every_part_is_off(
    drawn: machine_parts.MachineDraw | fleet_parts.FleetDraw, tmp_path: Path
) -> None:
    _judge(drawn.scene(), tmp_path / "path", "")


@pytest.mark.parametrize(
    "target", ["a Deployment", "a JobSet", "a LeaderWorkerSet", "a RayCluster", "a Notebook", "a Job"]
)
@pytest.mark.one_in(2)
def test_each_kind_that_has_a_way_off_gets_its_pass(target: str, tmp_path: Path) -> None:
    """Inconclusive is easily right: of the sound ones alone a verdict is wanted."""
    scene = parts.Scene()
    parts.TARGETS[target](scene)
    way = next(name for name, (truth, _) in scene.ways.items() if truth == parts.OFF)
    made = parts.Draw(target, way, "a CronJob", ("a disruption budget",), "Helm's output").scene()
    (result,) = made.drill(tmp_path / "path")
    assert (str(result.verdict), result.off_by) == ("survived", "lights-out"), result.why
