"""Quantities: exact, canonical, and refused in Kubernetes' words."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from killcheck.kube.quantities import QuantityError, canonical, format_quantity, parse


@pytest.mark.parametrize(
    ("text", "value", "written"),
    [
        ("0.5", Fraction(1, 2), "500m"),
        ("500m", Fraction(1, 2), "500m"),
        ("1024Mi", 2**30, "1Gi"),
        ("1.5Gi", 3 * 2**29, "1536Mi"),
        ("1000m", 1, "1"),
        ("1e3", 1000, "1e3"),
        ("12E2", 1200, "1200"),
        ("1000", 1000, "1k"),
        ("1500", 1500, "1500"),
        ("0", 0, "0"),
        ("0Gi", 0, "0"),
        ("-2Ki", -2048, "-2Ki"),
        ("512", 512, "512"),
        ("0.5Ki", 512, "512"),
        (".5", Fraction(1, 2), "500m"),
        ("1.", 1, "1"),
        ("8", 8, "8"),
        ("0.1n", Fraction(1, 10**9), "1n"),
        ("128974848", 128974848, "128974848"),
        ("100Ei", 2**63 - 1, str(2**63 - 1)),
        ("1E", 10**18, "1E"),
        ("0.0001Ki", Fraction(1024, 10000), "102400u"),
    ],
)
def test_what_a_quantity_is_worth_and_how_it_is_written(text: str, value: Fraction | int, written: str) -> None:
    assert parse(text) == value
    assert canonical(text) == written


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "quantities must match the regular expression"),
        ("eight", "quantities must match"),
        ("1 Gi", "quantities must match"),
        ("64MB", "quantities must match"),
        ("1Gib", "quantities must match"),
        ("5mi", "unable to parse quantity's suffix"),
        ("5K", "unable to parse quantity's suffix"),
    ],
)
def test_what_is_no_quantity(text: str, words: str) -> None:
    with pytest.raises(QuantityError, match=words):
        parse(text)


@given(
    st.fractions(min_value=-(10**15), max_value=10**15).map(lambda f: Fraction(round(f * 10**9), 10**9)),
    st.sampled_from(["decimal", "binary", "exponent"]),
)
def test_what_is_written_reads_back_the_same(value: Fraction, form: str) -> None:
    text = format_quantity(value, form)  # type: ignore[arg-type]
    assert parse(text) == value
    assert canonical(text) == text
