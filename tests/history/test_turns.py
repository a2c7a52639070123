"""Whose turn it is: a few a night, and everything in turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from killcheck.history.nights import Night
from killcheck.history.series import DAY_S
from killcheck.history.turns import oldest
from killcheck.text.values import replace

CELLS = [("off", ()), *(("off", (name,)) for name in "abcdef"), ("weekend", ()), ("off", ("a", "b"))]


def night(day, cell, standing="survived"):
    return Night(f"r{day}", day * DAY_S, "p", "c", cell[0], tuple(cell[1]), "", standing)


@given(
    st.integers(1, len(CELLS)),
    st.dictionaries(st.sampled_from(range(len(CELLS))), st.sampled_from(["survived", "exposed", "unfinished"])),
)
def test_everything_has_its_turn(count, standings):
    """Also where some never prove themselves: no cell waits longer than twice a round."""
    nights, waited, longest = [], dict.fromkeys(range(len(CELLS)), 0), 0
    for day in range(60):
        chosen = oldest(CELLS, nights, now=day * DAY_S, count=count)
        assert len(chosen) == len(set(chosen)) == count
        nights += [night(day, CELLS[number], standings.get(number, "survived")) for number in chosen]
        waited = {number: 0 if number in chosen else since + 1 for number, since in waited.items()}
        longest = max(longest, *waited.values())
    a_round = -(-len(CELLS) // count)
    assert longest <= 2 * a_round + 1


def test_what_was_never_drilled_is_first_in_the_order_of_the_matrix():
    assert oldest(CELLS, [night(1, CELLS[0]), night(1, CELLS[2])], now=2 * DAY_S, count=2) == [1, 3]


@pytest.mark.parametrize(("standing", "turn"), [("exposed", 1), ("accepted", 0)])
def test_what_did_not_prove_itself_comes_sooner_but_for_what_is_known(standing, turn):
    nights = [night(0, CELLS[0]), night(3, CELLS[1], standing), *(night(4, cell) for cell in CELLS[2:])]
    assert oldest(CELLS, nights, now=10 * DAY_S, count=1) == [turn]


def test_two_faults_are_two_whatever_their_order():
    nights = [*(night(1, cell) for cell in CELLS[:-1]), night(9, ("off", ("b", "a")))]
    assert len(CELLS) - 1 not in oldest(CELLS, nights, now=10 * DAY_S, count=len(CELLS) - 1)


def test_a_strangers_record_keeps_no_cell_from_its_turn():
    """What nobody known here has sealed: of a night to come, or of yesterday, it puts no cell behind a proven one."""
    forged = [replace(night(day, CELLS[0]), sealed=False) for day in (9, 99)]
    nights = [*(night(day, cell) for day, cell in enumerate(CELLS[1:])), *forged]
    assert oldest(CELLS, nights, now=10 * DAY_S, count=1) == [0]


def test_a_month_of_nights_proves_everything_again():
    """Two layers under 51 faults each, four a night, each night at the same hour: no proof is ever over thirty days old."""
    cells = [(layer, faults) for layer in ("off", "weekend") for faults in [(), *((f"f{n}",) for n in range(51))]]
    nights, oldest_proof = [], []
    for day in range(90):
        nights += [night(day, cells[number]) for number in oldest(cells, nights, now=day * DAY_S, count=4)]
        last = {(one.layer, one.faults): one.at for one in nights}
        oldest_proof.append((day - min(last.values()) / DAY_S) if len(last) == len(cells) else None)
    assert oldest_proof.index(25) == 25
    assert max(oldest_proof[25:]) == 25


def test_without_a_key_that_is_shared_everything_has_its_turn_all_the_same():
    """Each pod has a key of its own then, and seals that the next one does not know."""
    nights, chosen = [], []
    for day in range(2 * len(CELLS)):
        (number,) = oldest(CELLS, nights, now=day * DAY_S, count=1)
        chosen.append(number)
        nights.append(replace(night(day, CELLS[number]), sealed=False))
    assert chosen == [*range(len(CELLS))] * 2
