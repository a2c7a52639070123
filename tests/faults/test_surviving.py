"""Under a fault the remedy is what would have survived it, never to undo what the drill did itself."""

import pytest

from killcheck import faults
from killcheck.faults import surviving


@pytest.mark.parametrize("kind", list(faults.every()), ids=lambda kind: kind.name)
def test_every_fault_says_what_would_have_survived_it(kind):
    assert surviving.remedy([kind()]).startswith(f"to survive {kind.name}: ")


def test_of_several_faults_each_is_answered_once():
    both = [faults.named("dns-denied"), faults.named("egress-denied"), faults.named("dns-denied")]
    assert surviving.remedy(both).count("to survive") == 2
    assert surviving.remedy([]) == ""
