"""Under a fault the remedy is what would have survived it, never to undo what the drill did itself."""

import pytest

from killcheck import faults
from killcheck.faults import surviving
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.verdict import Verdict


@pytest.mark.parametrize("kind", list(faults.every()), ids=lambda kind: kind.name)
def test_every_fault_says_what_would_have_survived_it(kind):
    assert surviving.remedy([kind()]).startswith(f"to survive {kind.name}: ")


def test_of_several_faults_each_is_answered_once():
    both = [faults.named("dns-denied"), faults.named("egress-denied"), faults.named("dns-denied")]
    assert surviving.remedy(both).count("to survive") == 2
    assert surviving.remedy([]) == ""


@pytest.mark.parametrize(("fault", "undoing"), [("pool-floor", "consolidateAfter"), ("pdb-blocks", "room")])
def test_nobody_is_told_to_undo_what_the_drill_did(tmp_path, fault, undoing):
    planned = PlannedDrill("nightly-off", (fault,))
    (result,) = Run(Session(fixture="dead-man"), [planned], folder=tmp_path).execute().drills
    assert result.verdict is Verdict.EXPOSED
    assert undoing not in result.remedy
    assert result.remedy.startswith(f"to survive {fault}: ")
