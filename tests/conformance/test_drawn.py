"""Requests that were drawn, as a real API server answered them: what is not alike is known by name, and only shrinks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drawing import AREAS, sequences
from drawn import differences
from fresh import against, table
from kept import Kept, read

FOLDER = Path(__file__).parent
#: What still differs: area -> "sequence.step".
KNOWN = json.loads((FOLDER / "drawn_known.json").read_text())


@pytest.fixture(scope="module")
def replayed():
    kept = read(FOLDER / "drawn.json.xz")
    return kept, against(kept)


@pytest.mark.parametrize("area", AREAS)
def test_a_real_server_answers_the_same(replayed, area):
    _, found = replayed
    differ = {f"{number}.{step}": said for name, number, step, said in found if name == area}
    known = set(KNOWN.get(area, ()))
    fresh = {where: said[:3] for where, said in differ.items() if where not in known}
    assert not fresh, f"{area}: answers of a real server that are not given here"
    assert not known - set(differ), f"{area}: alike by now; take them out of drawn_known.json"


def test_the_same_seed_draws_the_same_and_another_draws_others():
    drawn = sequences(7, 40)
    assert drawn == sequences(7, 40) != sequences(8, 40)
    assert {step.do.partition(" ")[0] for one in sequences(7, 300) for step in one.steps} >= {
        "GET",
        "POST",
        "PATCH",
        "PUT",
    }


def test_an_answer_that_differs_is_told_and_counted():
    want = {"status": 409, "warning": None, "body": {"message": "no"}}
    got = {"status": 200, "warning": "w", "body": {"message": "yes"}}
    assert differences(got, want, settled=True) == [
        "status 200, not 409",
        "warning 'w', not None",
        ".message: 'yes', not 'no'",
    ]
    assert differences(got, {}, settled=True) == []  # the real server was not of one mind
    drawn = sequences(1, 1, ("crud",))
    answers = [[want, *({} for _ in drawn[0].steps[1:])]]
    said = table(Kept("v1", 1, drawn, answers), [("crud", 0, 0, ["status 200, not 409"])])
    assert "| crud | 1 | 0 | 1 |" in said
