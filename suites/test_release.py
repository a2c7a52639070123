"""What reading finds, and what could be launched at worst. For the release, with everything that staging drills."""

from __future__ import annotations

import pytest

from killcheck.fence import FenceReport
from killcheck.lint.asking import LintResult
from killcheck.pytest.drills import closing, told

pytestmark = pytest.mark.killcheck(suite="release")


def test_reading_finds_nothing_that_keeps_gpus_on(findings: LintResult) -> None:
    """No finding of severity error, suppressed ones aside."""
    if findings.at_or_above("error"):
        pytest.fail(told(findings), pytrace=False)


def test_pool_stays_under_the_ceiling(pool: str, fences: FenceReport) -> None:
    """What a pool can launch at worst is within the spec's ``fences:``; a fence that cannot be proven fails."""
    result = fences.of(pool)
    if result.verdict != "safe":
        pytest.fail(closing(result), pytrace=False)
