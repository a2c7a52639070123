"""Numbers that others wrote: what Python takes for digits and cannot read stops nobody."""

from __future__ import annotations

import pytest

from killcheck.executor.kubectl_calls import read
from killcheck.text.numbers import whole

ODD = ["", "²", "٣", "-1", "+1", "1.0", " 1", "1\n", "1_000", "0x1", "9" * 19, "9" * 5000, None, True, [1]]


@pytest.mark.parametrize(("said", "number"), [("0", 0), ("007", 7), (12, 12), ("9" * 18, 10**18 - 1)])
def test_digits_are_a_number(said: object, number: int) -> None:
    assert whole(said) == number


@pytest.mark.parametrize("said", ODD)
def test_anything_else_is_none(said: object) -> None:
    assert whole(said) is None


@pytest.mark.parametrize("said", ["²", "9" * 5000])
def test_a_switch_that_says_one_is_still_read(said: str) -> None:
    found = read(["kubectl", "scale", "deployment/x", f"--replicas={said}"], "ml")
    assert [call.replicas for call in found.calls if call.verb == "patch"] == [None]
