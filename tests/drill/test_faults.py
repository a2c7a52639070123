"""The sound path under each fault: it bites, it is seen, it is healed."""

from __future__ import annotations

import pytest

from killcheck import events, faults
from killcheck.killpath import LayerType

DEAD_MAN = [kind.name for kind in faults.ALL if not kind.needs]


@pytest.mark.parametrize("name", DEAD_MAN)
def test_a_fault_bites_and_is_healed(drill, name):
    done = drill(under=[name])
    assert list(done.only.bites) == [name]
    assert str(done.only.verdict) == "exposed"
    assert done.only.cause
    assert done.only.problems == ()
    (healed,) = done.of(events.Healed)
    assert healed.steady_again


class Toothless(faults.ImageGone):
    """A fault whose injection does nothing."""

    name = "toothless"

    def inject(self, stage, layer):
        return ["nothing"]


def test_a_fault_that_does_not_bite_proves_nothing(drill, monkeypatch):
    monkeypatch.setattr(faults, "ALL", (*faults.ALL, Toothless))
    result = drill(under=["toothless"])
    assert str(result.only.verdict) == "inconclusive"
    assert "did not bite" in result.only.why
    assert result.result.exit_code == 3


def test_every_fault_says_what_it_is():
    for kind in faults.ALL:
        assert kind.name and kind.simulates and kind.family and kind.failures, kind
        assert kind.__doc__, kind
    assert len({kind.name for kind in faults.ALL}) == len(faults.ALL)
    assert LayerType.DEAD_MAN
