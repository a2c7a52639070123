"""What a rehearsal says of a reference kill path, a drill of it says too.

In a rehearsal no host beyond the cluster answers, and every image can be pulled: the drill of a program that needs such
a host is one without it, and one whose image is known to be gone may do what it says, and turns nothing off.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from killcheck import fixtures
from killcheck.rehearsal.programs import programs
from killcheck.rehearsal.stage import rehearse_one
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session

NOW = datetime(2026, 1, 14, 12, 0, tzinfo=UTC)


def _scheduled():
    """Every layer of a reference path that is a CronJob, and so is fired by a rehearsal."""
    for name in fixtures.names():
        session = Session(fixture=name)
        for layer in session.kill_path.layers:
            if layer.cron_job is not None and layer.type.value == "dead-man":
                yield pytest.param(name, layer.name, id=f"{name}:{layer.name}")


@pytest.mark.parametrize(("name", "layer"), list(_scheduled()))
def test_a_drill_confirms_it(name, layer, tmp_path):
    session = Session(fixture=name)
    ref = session.kill_path.layer(layer).cron_job
    (program,) = [p for p in programs(session.objects) if p.ref == f"CronJob/{ref.namespace}/{ref.name}"]
    seen = rehearse_one(session.objects, program, NOW)
    off = {(change.kind, change.namespace, change.name) for change in seen.first.off}
    covered = session.kill_path.covered_by(session.kill_path.layer(layer))
    all_off = {(t.kind, t.namespace, t.object) for t in covered} <= off

    under = ("egress-denied",) if seen.first.outside else ()
    (drill,) = Run(session, [PlannedDrill(layer, under)], folder=tmp_path).execute().drills
    claimed = all_off and not seen.first.unpulled
    survived = str(drill.verdict) == "survived"  # a program is rehearsed alone: what covers it is not there
    assert claimed is survived, (seen.to_json(), drill.verdict, drill.cause)
