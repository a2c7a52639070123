"""An idle monitor's look at a busy target, where what it left on was not counted in time."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from killcheck.capabilities.programs import Ran
from killcheck.layers import base
from killcheck.layers.idle_command import IdleCommand
from killcheck.spec.killpath import Command, Layer, LayerType

NOW = datetime(2026, 1, 15, tzinfo=UTC)
COMMAND = Command(("monitor",))


@pytest.mark.parametrize("counted", [True, False])
def test_a_look_is_seen_only_where_something_was_counted_after_it(counted):
    census = SimpleNamespace(
        again=lambda: None,
        asked_since=lambda moment: counted,
        broken=lambda: None,
        counts={"vm": SimpleNamespace(number=1)},
    )  # the count of before the look
    stage = SimpleNamespace(
        programs=SimpleNamespace(run=lambda command: Ran(command, NOW, NOW, 0)),
        observations=base.Observations(),
        scene=SimpleNamespace(census=census),
        cluster=SimpleNamespace(loop=SimpleNamespace(run_until=lambda done, limit: done())),
    )
    monitor = IdleCommand(Layer("monitor", LayerType.IDLE_MONITOR, ("vm",), command=COMMAND), stage)
    seen = monitor._look("right after a request")
    assert ("left it on" in seen) is counted
    assert monitor.unproven() == (
        None if counted else ("what its look at a busy target left on is not known: nothing was counted after it")
    )
