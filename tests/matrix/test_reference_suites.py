"""Each seed's reference path passes what `install` asks, and a sample of what `staging` does; its failures fail it."""

from __future__ import annotations

import re

import pytest

from killcheck import fixtures, layers, matrix
from killcheck.drill import Options
from killcheck.run import PlannedDrill, Run
from killcheck.session import Session
from killcheck.verdict import Verdict

#: Paths that are broken on purpose, and what their first layer's undisturbed night must be found out for.
BROKEN = {
    "dead-man-image-gone": "not found", "dead-man-no-curl": "curl: (command )?not found|127",
    "dead-man-false-green": "403"}
#: Those with AWS beneath them have tests of their own.
SOUND = [name for name in fixtures.names() if name not in BROKEN and not name.startswith("founding-story")]
#: What staging is asked of a path here: something that must be survived or covered, and something that is known.
STAGING = {"dead-man": ["registry-unreachable", "finalizer"], "two-switches": ["token-dead", "controller-manager-down"]}


def drilled(fixture, planned, tmp_path):
    return Run(Session(fixture=fixture), planned, folder=tmp_path).execute()


@pytest.mark.parametrize("fixture", SOUND)
def test_install_every_layer_turns_the_gpus_off_undisturbed(fixture, tmp_path):
    kill_path = Session(fixture=fixture).kill_path
    assert {name for layer in kill_path.layers for name in layer.covers} >= {t.name for t in kill_path.targets}
    assert [layer.name for layer in kill_path.layers if not layers.drillable(layer)] == []
    planned = [PlannedDrill(layer.name) for layer in kill_path.layers]
    for result in drilled(fixture, planned, tmp_path).drills:
        assert result.verdict is Verdict.SURVIVED, (result.layer, result.why, result.cause)


@pytest.mark.parametrize("fixture", STAGING)
def test_staging_holds_by_policy(fixture, tmp_path):
    session = Session(fixture=fixture)
    planned = [
        cell for cell in matrix.plan(session.kill_path, only_faults=STAGING[fixture], options=Options()) if cell.faults]
    assert planned
    found = drilled(fixture, planned, tmp_path)
    whole = matrix.Matrix.of(session.kill_path, planned, found.drills)
    assert [(c.layer, c.fault, c.word) for c in whole.failures()] == []
    assert found.exit_code == 0
    assert {"exposed (known)"} <= {cell.word for cell in whole.cells}


@pytest.mark.parametrize("fixture", BROKEN)
def test_the_original_failures_make_it_fail_with_their_cause(fixture, tmp_path):
    layer = Session(fixture=fixture).kill_path.layers[0].name
    (result,) = drilled(fixture, [PlannedDrill(layer)], tmp_path).drills
    assert result.verdict is Verdict.EXPOSED
    assert re.search(BROKEN[fixture], " ".join([result.cause, *result.evidence])), result
