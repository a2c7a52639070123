"""Every broken kill path of the zoo is found, and no mended one is accused."""

from __future__ import annotations

import pytest
from killcheck.fixtures.zoo import Case, cases
from killcheck.probes import ALL
from zoo_score import look


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_broken_is_found_and_mended_is_not(case: Case) -> None:
    seen = look(case)
    assert not seen.missing, f"not found: {seen.missing}"
    assert not seen.false_alarms, "\n".join(f"{f.severity} {f.probe}: {f.message}" for f in seen.false_alarms)


def test_there_are_at_least_sixty_pairs() -> None:
    assert len(cases()) >= 60


def test_the_two_halves_differ_in_something() -> None:
    same = [
        case.name
        for case in cases()
        if [f.read_text() for f in case.files("broken")] == [f.read_text() for f in case.files("mended")]
    ]
    assert same == []


def test_cases_name_probes_that_exist_and_rows_of_the_catalogue() -> None:
    known = {probe.id for probe in ALL}
    for case in cases():
        assert case.story, case.name
        assert case.findings, case.name
        assert set(case.findings) <= known, case.name
        assert set(case.failures) <= set(range(1, 59)), case.name
