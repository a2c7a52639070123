"""What else lives in a cluster is nobody's business: charts as they are shipped raise nothing beside a kill path."""

from __future__ import annotations

from pathlib import Path

import pytest
from killcheck.fixtures import zoo
from killcheck.probes import Finding
from zoo_score import NOW

from killcheck.kube import manifests
from killcheck.lint import asking

NEIGHBOURS = sorted((Path(__file__).parent / "neighbours").glob("*.yaml"))
PATHS = sorted(path for path in (Path(zoo.__file__).parent / "zoo" / "shared").iterdir())


def findings(files: list[Path]) -> set[tuple[str, str, str]]:
    world, notes = asking.world_of(manifests.load(files), NOW)

    def key(finding: Finding) -> tuple[str, str, str]:
        return finding.probe, finding.object, finding.message

    return {key(f) for f in asking.lint(world, notes=notes).findings if f.severity != "note" and not f.unproven}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_a_sound_kill_path_stays_sound_among_its_neighbours(path: Path) -> None:
    own = sorted(path.glob("*.yaml"))
    assert findings(own) == set()
    for neighbour in NEIGHBOURS:
        assert findings([*own, neighbour]) == set(), neighbour.name


def test_there_are_neighbours() -> None:
    assert len(NEIGHBOURS) >= 3
