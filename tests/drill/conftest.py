"""Drills on the embedded cluster, with their events."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from killcheck.events import Event
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run, RunResult
from killcheck.run.session import Session


@dataclass
class Drilled:
    """A run with everything it said."""

    result: RunResult
    events: list[Event] = field(default_factory=list)

    @property
    def only(self):
        (drill,) = self.result.drills
        return drill

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def drill(tmp_path):
    def run(*, fixture="dead-man", layer="nightly-off", under=(), options=None, session=None):
        seen = []
        session = session or Session(fixture=fixture)
        planned = PlannedDrill(layer, tuple(under), **({"options": options} if options else {}))
        return Drilled(Run(session, [planned], sinks=[seen.append], folder=tmp_path).execute(), seen)

    return run
