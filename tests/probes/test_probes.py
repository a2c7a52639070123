"""What every probe must have, and what is asked of them together."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from killcheck.fixtures.zoo import cases
from killcheck.probes import ALL, REHEARSED, SEVERITIES, Probe, named
from killcheck.probes.audit_log import AuditLog
from killcheck.probes.cloud_bills import CloudBills
from killcheck.probes.image_missing import ImageMissing
from killcheck.probes.image_unusable import ImageUnusable

from killcheck import probes

EVERY = [*ALL, *REHEARSED, ImageMissing(), ImageUnusable(None), CloudBills(), AuditLog()]
#: Asked of more than the zoo can hold: a registry, a Docker Engine, a cloud, a log, a spec, what cannot be read.
WITHOUT_A_CASE = {
    "audit-log",
    "cloud-bills",
    "fleet-bounds",
    "image-missing",
    "image-unusable",
    "load-cut-short",
    "not-read",
    "not-understood",
    "spec-mismatch",
    "start-authority",
    "unknown-holder",
    "unnoticed",
}
#: Asked of what a rehearsal saw: tests/rehearsal has a broken path and a sound one for each.
WITHOUT_A_CASE |= {probe.id for probe in REHEARSED}


@pytest.mark.parametrize("probe", EVERY, ids=lambda probe: probe.id)
def test_says_what_it_asks_and_how_to_mend_it(probe: Probe) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", probe.id)
    assert probe.claim.endswith(".")
    assert probe.remedy.endswith((".", "--timeout=10m"))
    assert probe.severity in SEVERITIES
    assert probe.sources
    assert probe.failures
    assert set(probe.failures) <= set(range(1, 59))
    assert type(probe).__doc__


@pytest.mark.parametrize("probe", [p for p in EVERY if p.id not in WITHOUT_A_CASE], ids=lambda probe: probe.id)
def test_has_a_case_in_the_zoo(probe: Probe) -> None:
    assert [case.name for case in cases() if probe.id in case.findings]


def test_ids_are_unique() -> None:
    assert [name for name, count in Counter(probe.id for probe in EVERY).items() if count > 1] == []


def test_every_file_that_holds_a_probe_is_asked() -> None:
    folder = Path(probes.__file__).parent
    pattern = re.compile(r"^class (\w+)\(Probe\)", re.MULTILINE)
    found = {name for file in folder.glob("*.py") for name in pattern.findall(file.read_text())}
    assert found == {type(probe).__name__ for probe in EVERY}


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(KeyError, match="did you mean false-green"):
        named("false-gren")
