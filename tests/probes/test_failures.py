"""Every row of the catalogue of failures is asked about by a probe, or provoked by a fault, or says why it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from killcheck.fixtures import zoo
from killcheck.probes import ALL
from killcheck.probes.image_missing import ImageMissing

from killcheck import faults

ROWS: dict[int, dict[str, Any]] = yaml.safe_load((Path(zoo.__file__).parent / "failures.yaml").read_text("utf-8"))
PROBED = {row for probe in (*ALL, ImageMissing()) for row in probe.failures}
PROVOKED = {row for fault in faults.ALL for row in fault.failures}
IN_THE_ZOO = {row for case in zoo.cases() for row in case.failures}


def test_the_rows_are_those_of_the_catalogue() -> None:
    assert list(ROWS) == list(range(1, 59))
    assert all(row["failure"] and set(row) <= {"failure", "only_drill", "no_manifests"} for row in ROWS.values())


@pytest.mark.parametrize("number", ROWS)
def test_a_probe_asks_about_it_or_a_drill_alone_shows_it(number: int) -> None:
    row = ROWS[number]
    if "only_drill" in row:
        assert number not in PROBED, "a probe asks about it: take only_drill away"
        assert number in PROVOKED, "neither read nor provoked"
    else:
        assert number in PROBED, row["failure"]


@pytest.mark.parametrize("number", ROWS)
def test_the_zoo_has_it_or_it_cannot_be_written_down(number: int) -> None:
    assert (number in IN_THE_ZOO) is ("no_manifests" not in ROWS[number]), ROWS[number]


def test_nothing_refers_to_a_row_that_is_not_there() -> None:
    assert set(ROWS) >= PROBED | PROVOKED | IN_THE_ZOO


def test_cases_are_found_by_probes_that_know_their_row() -> None:
    by_id = {probe.id: set(probe.failures) for probe in ALL}
    strangers = [
        case.name
        for case in zoo.cases()
        if case.failures and not set(case.failures) & {row for probe in case.findings for row in by_id[probe]}
    ]
    assert strangers == []
