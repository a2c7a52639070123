"""The zoo on the embedded cluster: the broken ones stick where they must, the mended ones turn the GPUs off."""

from __future__ import annotations

from pathlib import Path

import pytest
from killcheck.fixtures.zoo import Case, Part, cases

from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec.killpath import LayerType
from killcheck.verdict import DrillResult

BROKEN = [case for case in cases() if case.drill]
MENDED = [case for case in cases() if not case.undrilled]


def drills(case: Case, part: Part) -> tuple[DrillResult, ...]:
    """Each dead-man's switch of one half, once."""
    session = Session(manifests=case.files(part), exec_mode="host")
    layers = [layer.name for layer in session.kill_path.layers if layer.type is LayerType.DEAD_MAN]
    return Run(session, [PlannedDrill(name) for name in layers], sinks=[]).execute().drills


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name)
@pytest.mark.one_in(12)
def test_broken_sticks_where_it_must(case: Case) -> None:
    (result,) = drills(case, "broken")
    assert (str(result.verdict), result.stuck_at) == (case.drill, case.stuck_at), result.cause or result.why


@pytest.mark.parametrize("case", MENDED, ids=lambda case: case.name)
@pytest.mark.one_in(20)
def test_mended_turns_the_gpus_off(case: Case) -> None:
    for result in drills(case, "mended"):
        assert result.proven, f"{result.layer}: {result.verdict} at {result.stuck_at}: {result.cause or result.why}"
