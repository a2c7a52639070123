"""Every recorded situation, played again on the embedded cluster: the same objects, conditions, texts and order."""

import pytest
from compare import differences
from recorded import recording
from replay import Replay
from situations import SITUATIONS

from killcheck.embedded.nodes import beyond


@pytest.fixture(autouse=True)
def known_image(monkeypatch):
    """What the recorded executor's image lacked, it lacked: nothing of it has to be guessed."""
    monkeypatch.setattr(beyond, "named_program", lambda launch, said: False)
    monkeypatch.setattr(beyond, "lacked", lambda launch, code, text: "")


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda s: s.name)
def test_what_a_real_cluster_did_is_what_comes_out(situation):
    real = recording(situation.name)
    seen = Replay(real, situation).run()
    found = differences(real, seen, situation)
    assert not found, "\n" + "\n".join(found)
