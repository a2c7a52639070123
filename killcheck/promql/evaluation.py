"""What the operators, aggregations and functions of PromQL make of vectors.

Source: prometheus/prometheus promql/engine.go (VectorBinop, VectorAnd, aggregation), promql/functions.go.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from killcheck.promql import functions
from killcheck.text import lazy_re
from killcheck.text.shown import brief

__all__ = ["Labels", "Matching", "Matrix", "Run", "Source", "UnknownSeries", "Unsupported", "Vector"]

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
#: Samples of every series in a range: moments and values, the oldest first.
Matrix = dict[Labels, list[tuple[float, float]]]
NAME = "__name__"
COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


def _power(base: float, exponent: float) -> float:
    try:
        found = base**exponent
    except (OverflowError, ZeroDivisionError):
        return math.inf
    return math.nan if isinstance(found, complex) else float(found)


def _divided(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if not a or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
    "%": lambda a, b: math.fmod(a, b) if b else math.nan,
    "^": _power,
}


class Unsupported(Exception):
    """The expression is outside the part that is understood here (or is none); the message says where."""


class UnknownSeries(Unsupported):
    """The expression is understood, and of a metric that it reads nobody knows anything."""


class Source(Protocol):
    """Where series come from. ``at`` and ``window`` are seconds since the drill's trigger."""

    def known(self, name: str) -> bool:
        """Whether anything at all is known of a metric; of others nobody can say what they would be."""

    def instant(self, name: str, at: float) -> Vector:
        """Every series of a metric at a moment, without its name."""

    def window(self, name: str, at: float, length: float) -> Matrix:
        """The samples of every series in the ``length`` seconds up to ``at``, the oldest first."""

    def spend(self, moments: int) -> None:
        """Told of how many moments are about to be looked at. Raises Unsupported where that takes too long."""

    def epoch(self, at: float) -> float:
        """The moment as Unix time."""


#: What it takes to evaluate an expression at a moment, in moments of a series that are looked at.
EVALUATED = 20

Value = float | Vector
Run = Callable[[Source, float], Value]


class Matching(Struct, frozen=True):
    """``on`` or ``ignoring`` which labels two sides match; ``many``: group_left or group_right, and what that adds."""

    how: str = "ignoring"
    names: frozenset[str] = frozenset()
    many: str = ""
    included: tuple[str, ...] = ()

    def key(self, labels: Labels) -> Labels:
        """What two series must have in common."""
        if self.how == "on":
            return frozenset(pair for pair in labels if pair[0] in self.names)
        return frozenset(pair for pair in labels if pair[0] not in self.names and pair[0] != NAME)


#: What Prometheus' engine (RE2) matches in linear time and Python's may try for hours: a repeated group, many repeats.
_REPEATED_GROUP = lazy_re.compile(r"(?<!\\)\)[*+{]")
_REPEAT = lazy_re.compile(r"(?<!\\)(?:[*+]|\{\d*,)")
_REPEATS = 3
#: What Python's patterns have and RE2's have not, or have otherwise: looking around, references back, flags, comments,
#: repeats that give nothing back, bounds; classes by name (POSIX) and within classes.
_NOT_RE2 = lazy_re.compile(
    r"\(\?(?:[=!>(#]|<[=!]|P[=>]|[a-zA-Z-]{0,9}[aLux])|(?<!\\)(?:\\\\)*\\[1-9]|\\[ZAuUN]"
    r"|(?<!\\)[*+?}]\+|\{,|\{\d{0,4},?\d{4}|\[\[|\[:|\[[^\]]{0,100}(?:--|&&|~~)"
)
#: Groups within groups.
_DEEP = 200


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression as label matchers have them. Raises Unsupported."""
    if _NOT_RE2.search(text) or text.count("(") > _DEEP:
        raise Unsupported(f"{brief(text)!r} is no regular expression of Prometheus' that is read here")
    if _REPEATED_GROUP.search(text) or _repeats(text) > _REPEATS:
        raise Unsupported(f"{text!r} may take longer than a night to match")
    try:
        return re.compile(text)
    except re.error as error:
        raise Unsupported(f"{text!r} is no regular expression here: {error}") from error


def _repeats(text: str) -> int:
    """How many repeats may be tried with one another: those of one alternative, where these are plain to see."""
    body = text[1:-1].removeprefix("?:") if text[:1] == "(" and text[-1:] == ")" else text
    alternatives = body.split("|") if not set(body) & set("()[\\") else [text]
    return max(len(_REPEAT.findall(one)) for one in alternatives)


def matcher(label: str, how: str, value: str) -> Callable[[Mapping[str, str]], bool]:
    """One label matcher. Raises Unsupported."""
    if "~" not in how:
        return lambda labels: (labels.get(label, "") == value) is (how == "=")
    wanted = pattern(value)
    return lambda labels: (wanted.fullmatch(labels.get(label, "")) is not None) is (how == "=~")


def each(value: Value, apply: Callable[[float], float]) -> Value:
    """A function of each value, or of the number."""
    if isinstance(value, dict):
        return {labels: apply(one) for labels, one in value.items()}
    return apply(value)


def number(value: Value) -> float:
    """A number. Raises Unsupported for a vector."""
    if isinstance(value, dict):
        raise Unsupported("a vector where a number is wanted")
    return value


# -- functions ---------------------------------------------------------------------------------------------
def over(word: str, inner: Callable[[Source, float], Matrix], length_s: float) -> Run:
    """A function of the samples of a range."""

    def run(source: Source, at: float) -> Value:
        """Each series of the range as one value; none where there are too few samples."""
        found: Vector = {}
        for labels, samples in inner(source, at).items():
            if word in functions.RATES:
                value = functions.RATES[word](samples, at - length_s, at)
            else:
                value = functions.OVER_TIME[word]([one for _, one in samples])
            if value is not None:
                found[labels] = value
        return found

    return run


def over_with(
    combine: Callable[[float, Sequence[float]], float],
    parameter: Run,
    inner: Callable[[Source, float], Matrix],
) -> Run:
    """A function of a number and of the samples of a range."""
    return lambda source, at: {
        labels: combine(number(parameter(source, at)), [one for _, one in samples])
        for labels, samples in inner(source, at).items()
    }


def of_values(apply: Callable[..., float], inner: Run, further: Iterable[Run]) -> Run:
    """A function of each value, with further numbers."""
    more = list(further)

    def run(source: Source, at: float) -> Value:
        """Each value by itself."""
        numbers = [number(one(source, at)) for one in more]
        return each(inner(source, at), lambda value: apply(value, *numbers))

    return run


def of_time(apply: Callable[[float], float], inner: Run | None) -> Run:
    """A part of a date: of each value, or of now."""
    if inner is None:
        return lambda source, at: {frozenset(): apply(source.epoch(at))}
    return lambda source, at: each(inner(source, at), apply)


def _absent(inner: Run) -> Run:
    return lambda source, at: {} if inner(source, at) else {frozenset(): 1.0}


def _scalar(inner: Run) -> Run:
    def run(source: Source, at: float) -> Value:
        """The value of the only series; no number for none or several."""
        value = inner(source, at)
        if not isinstance(value, dict):
            return value
        return next(iter(value.values())) if len(value) == 1 else math.nan

    return run


def _vector(inner: Run) -> Run:
    return lambda source, at: {frozenset(): number(inner(source, at))}


def _as_it_is(inner: Run) -> Run:
    return inner


SIMPLE: Mapping[str, Callable[[Run], Run]] = {
    "absent": _absent,
    "scalar": _scalar,
    "sort": _as_it_is,
    "sort_desc": _as_it_is,
    "vector": _vector,
}


def label_replace(inner: Run, target: str, replacement: str, source_label: str, regex: str) -> Run:
    """A label made of another one's parts where the whole of it matches."""
    matcher, template = pattern(regex), re.sub(r"\$\{?(\w+)\}?", r"\\g<\1>", replacement)

    def renamed(labels: Labels) -> Labels:
        there = dict(labels)
        found = matcher.fullmatch(there.get(source_label, ""))
        if found is None:
            return labels
        there[target] = found.expand(template)
        return frozenset(pair for pair in there.items() if pair[1])

    def run(source: Source, at: float) -> Value:
        """Each series under its new labels. Raises Unsupported for a number."""
        value = inner(source, at)
        if not isinstance(value, dict):
            raise Unsupported("label_replace of a number")
        found = {renamed(labels): one for labels, one in value.items()}
        if len(found) < len(value):
            raise Unsupported("label_replace makes several series the same")
        return found

    return run


# -- aggregations ------------------------------------------------------------------------------------------
def _grouped(value: Value, how: str, names: Iterable[str]) -> dict[Labels, Vector]:
    """The series of each group. Raises Unsupported for a number."""
    if not isinstance(value, dict):
        raise Unsupported("an aggregation of a number")
    kept, groups = frozenset(names), dict[Labels, Vector]()
    for labels, one in value.items():
        if how == "by":
            key = frozenset(pair for pair in labels if pair[0] in kept)
        elif how == "without":
            key = frozenset(pair for pair in labels if pair[0] not in kept)
        else:
            key = frozenset()
        groups.setdefault(key, {})[labels] = one
    return groups


def aggregate(combine: Callable[[Sequence[float]], float], inner: Run, how: str, names: Iterable[str]) -> Run:
    """The series of each group combined into one."""
    kept = tuple(names)
    return lambda source, at: {
        key: combine(list(series.values())) for key, series in _grouped(inner(source, at), how, kept).items()
    }


def choose(word: str, parameter: Run, inner: Run, how: str, names: Iterable[str]) -> Run:
    """``topk`` and ``bottomk`` keep series of each group, ``quantile`` makes one of it."""
    kept = tuple(names)

    def run(source: Source, at: float) -> Value:
        """What is chosen of each group."""
        wanted, groups = number(parameter(source, at)), _grouped(inner(source, at), how, kept)
        if word == "quantile":
            return {key: functions.quantile(wanted, list(series.values())) for key, series in groups.items()}
        found: Vector = {}
        for series in groups.values():
            ordered = sorted(series.items(), key=lambda pair: pair[1], reverse=word == "topk")
            found |= dict(ordered[: max(0, int(wanted))])
        return found

    return run


# -- operators ---------------------------------------------------------------------------------------------
def binary(word: str, left: Run, right: Run, matching: Matching, *, as_bool: bool) -> Run:
    """An operator between two expressions."""

    def run(source: Source, at: float) -> Value:
        """Both sides at that time: sets, matched series, a series with a number, or two numbers."""
        one, other = left(source, at), right(source, at)
        if word in ("and", "or", "unless"):
            return _set(word, one, other, matching)
        if isinstance(one, dict) and isinstance(other, dict):
            return _matched(word, one, other, matching, as_bool=as_bool)
        if isinstance(one, dict):
            return _filtered(word, one, lambda value: (value, number(other)), as_bool=as_bool)
        if isinstance(other, dict):
            return _filtered(word, other, lambda value: (number(one), value), as_bool=as_bool)
        if word in COMPARE and not as_bool:
            raise Unsupported("two numbers are compared without bool")
        return float(COMPARE[word](one, other)) if word in COMPARE else ARITHMETIC[word](one, other)

    return run


def _set(word: str, one: Value, other: Value, matching: Matching) -> Value:
    if not isinstance(one, dict) or not isinstance(other, dict):
        raise Unsupported(f"{word} between numbers")
    there = {matching.key(labels) for labels in other}
    if word == "or":
        here = {matching.key(labels) for labels in one}
        return one | {labels: value for labels, value in other.items() if matching.key(labels) not in here}
    return {labels: value for labels, value in one.items() if (matching.key(labels) in there) is (word == "and")}


def _filtered(
    word: str,
    vector: Vector,
    sides: Callable[[float], tuple[float, float]],
    *,
    as_bool: bool,
) -> Vector:
    if word in COMPARE:
        found = {labels: COMPARE[word](*sides(value)) for labels, value in vector.items()}
        if as_bool:
            return {labels: float(holds) for labels, holds in found.items()}
        return {labels: vector[labels] for labels, holds in found.items() if holds}
    return {labels: ARITHMETIC[word](*sides(value)) for labels, value in vector.items()}


def _matched(word: str, one: Vector, other: Vector, matching: Matching, *, as_bool: bool) -> Vector:
    """Series of both sides that belong together: one to one, or many of ``matching.many``'s side to one.

    Raises Unsupported where several match and nothing says which side may have them: Prometheus fails the rule then,
    but labels of the scrape may tell such series apart.
    """
    swapped = matching.many == "group_right"
    many, single = (other, one) if swapped else (one, other)
    by_key: dict[Labels, tuple[Labels, float]] = {}
    for labels, value in single.items():
        if matching.key(labels) in by_key:
            raise Unsupported("several series on the side of one match")
        by_key[matching.key(labels)] = (labels, value)
    found: Vector = {}
    seen: set[Labels] = set()
    for labels, value in many.items():
        shared = matching.key(labels)
        if shared not in by_key:
            continue
        if shared in seen and not matching.many:
            raise Unsupported("several series on the left match one on the right")
        seen.add(shared)
        partner, its = by_key[shared]
        result = _taken_over(labels, partner, matching.included) if matching.many else shared
        if matching.many and result in found:
            raise Unsupported(f"{matching.many} makes several series the same")
        left, right = (its, value) if swapped else (value, its)
        if word not in COMPARE:
            found[result] = ARITHMETIC[word](left, right)
        elif as_bool:
            found[result] = float(COMPARE[word](left, right))
        elif COMPARE[word](left, right):
            found[result if matching.many else labels] = left
    return found


def _taken_over(labels: Labels, partner: Labels, included: Iterable[str]) -> Labels:
    there, its = dict(labels), dict(partner)
    for name in included:
        there.pop(name, None)
        if its.get(name):
            there[name] = its[name]
    return frozenset(there.items())
