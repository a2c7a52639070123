"""Every recorded situation, played again on the embedded cluster: the same objects, conditions, texts and order."""

import pytest
from compare import differences
from recorded import recording
from replay import Replay
from situations import SITUATIONS


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda s: s.name)
def test_what_a_real_cluster_did_is_what_comes_out(situation):
    real = recording(situation.name)
    seen = Replay(real, situation).run()
    found = differences(real, seen, situation)
    assert not found, "\n" + "\n".join(found)
