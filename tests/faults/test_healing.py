"""Healing in the right order, and to the end: what is still at work must not undo what was put back."""

from __future__ import annotations

import pytest
from faults_world import World
from safety_world import differences, picture

from killcheck import faults
from killcheck.kube.errors import Forbidden


@pytest.fixture
def world():
    made = World()
    made.settle()
    yield made
    made.close()


@pytest.mark.parametrize("kind", [faults.EgressDenied, faults.DnsDenied, faults.ApiUnreachable], ids=lambda k: k.name)
@pytest.mark.parametrize("horizon_s", [3.0, 10.0, 40.0])
@pytest.mark.one_in(3)
def test_an_executor_that_is_held_up_does_not_strike_once_it_is_let_go(world, kind, horizon_s):
    """Its connections time out while the drill gives up; healed, it would get through and turn off what is on again."""
    before = picture(world.cluster.embedded)
    result = world.drill(kind, horizon_s=horizon_s)
    assert result.problems == ()
    world.settle()
    assert differences(before, picture(world.cluster.embedded)) == []


def test_a_log_that_cannot_be_read_is_told_from_a_fault_without_teeth(world, monkeypatch):
    def unread(*args, **more):
        raise Forbidden(403, {"message": "pods/log is forbidden"}, "GET log")

    monkeypatch.setattr(world.cluster.kube, "logs", unread)
    result = world.drill(faults.TokenDead, horizon_s=1800.0)
    assert str(result.verdict) == "inconclusive"
    assert "token-dead did not bite" in result.why
    assert "the log could not be read" in result.why
