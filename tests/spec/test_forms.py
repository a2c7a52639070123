"""Forms: what fits is read, and everything that does not is told at once."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from killcheck.text.forms import Misfit, Parsed, fit, schema


def _even(value: int) -> int:
    if value % 2:
        raise ValueError(f"expected an even number, found {value}")
    return value


class Inner(Struct, rename="camel", forbid_unknown_fields=True):
    """One of many."""

    long_name: Annotated[str, Meta(pattern=r"^[a-z0-9]+$", max_length=9)]
    share: Annotated[float, Meta(ge=0, lt=2)] = 1.0


class Outer(Struct, kw_only=True):
    """All of it."""

    kind: Literal["a", "b"] = "a"
    inner: list[Inner] = []
    said: Annotated[Annotated[str, Meta(min_length=1)] | list[str], Meta(description="One or several.")] = []
    even: Annotated[int, Parsed(_even)] | None = None
    free: dict[str, bool] = {}


def test_what_fits_is_read() -> None:
    said = {"inner": [{"longName": "x", "share": 1}], "said": ["p", "q"], "even": 2, "free": {"k": True}, "else": 1}
    found, misfits = fit(Outer, said)
    assert not misfits
    assert found == Outer(inner=[Inner("x", 1.0)], said=["p", "q"], even=2, free={"k": True})
    assert fit(Outer, {"said": "p", "even": None})[0] == Outer(said="p")


def test_everything_that_does_not_fit_is_told_with_its_place() -> None:
    said = {"kind": "c", "inner": [{"longNme": "x"}, 5], "said": ["p", 3], "even": 3, "free": {"k": 1}}
    found, misfits = fit(Outer, said)
    assert found is None
    assert misfits == [
        Misfit(("kind",), "expected a | b", ("c",)),
        Misfit(("inner", 0, "longName"), "missing"),
        Misfit(("inner", 0, "longNme"), "unknown field; did you mean longName?"),
        Misfit(("inner", 1), "expected a mapping", (5,)),
        Misfit(("said", 1), "expected text", (3,)),
        Misfit(("even",), "expected an even number, found 3"),
        Misfit(("free", "k"), "expected true or false", (1,)),
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"longName": "a\n"}, "expected a name of lower-case letters, digits and '-'"),
        ({"longName": "abcdefghij"}, "string should have at most 9 characters"),
        ({"longName": "a", "share": True}, "expected a number"),
        ({"longName": "a", "share": 10**400}, "input should be a finite number"),
        ({"longName": "a", "share": float("nan")}, "input should be a finite number"),
        ({"longName": "a", "share": -1}, "expected 0.0 or more"),
        ({"longName": "a", "share": 2}, "input should be less than 2"),
        ([], "expected a mapping"),
    ],
)
def test_bounds(value: Any, words: str) -> None:
    assert [one.words for one in fit(Inner, value)[1]] == [words]


def test_the_schema_says_the_same() -> None:
    found = schema(Outer)
    assert found["properties"]["said"]["anyOf"][0] == {"minLength": 1, "type": "string"}
    assert "additionalProperties" not in found
    inner = found["$defs"]["Inner"]
    assert inner["required"] == ["longName"]
    assert inner["properties"]["share"] == {
        "default": 1.0,
        "exclusiveMaximum": 2,
        "minimum": 0,
        "title": "Share",
        "type": "number",
    }
