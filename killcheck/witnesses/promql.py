"""A small, honest part of PromQL: enough for alerts on idle GPUs and failed Jobs. What is outside it raises.

Numbers, selectors with matchers, ranges under ``*_over_time``, aggregations by and without labels, arithmetic,
comparisons (filtering, or ``bool``), ``and``, ``or``, ``unless`` with ``on`` or ``ignoring``, ``absent``, ``time``.
Nothing that extrapolates (``rate``, ``increase``), no offsets, no subqueries, no many-to-one matching.

Source: prometheus.io/docs "Querying basics", "Operators", "Functions" (3.x).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Expr", "Labels", "Source", "Unsupported", "Vector", "duration_s", "parse"]

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
NAME = "__name__"

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<duration>(?:\d+(?:ms|[smhdwy]))+(?!\w))
  | (?P<number>(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|Inf|NaN)(?!\w))
  | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
  | (?P<op>=~|!~|==|!=|>=|<=|[-+*/%^<>=(){}\[\],@])
)""",
    re.VERBOSE,
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
_AGGREGATES: Mapping[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "count": lambda values: float(len(values)),
    "avg": lambda values: sum(values) / len(values),
    "group": lambda values: 1.0,
}
_OVER_TIME: Mapping[str, Callable[[list[float]], float]] = {
    "avg_over_time": lambda values: sum(values) / len(values),
    "min_over_time": min,
    "max_over_time": max,
    "sum_over_time": sum,
    "count_over_time": lambda values: float(len(values)),
    "last_over_time": lambda v: v[-1],
    "present_over_time": lambda values: 1.0,
}
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else math.nan,
}
#: Operators by how tightly they bind, the loosest first.
_LEVELS: tuple[tuple[str, ...], ...] = (("or",), ("and", "unless"), tuple(_COMPARE), ("+", "-"), ("*", "/"))


class Unsupported(Exception):
    """The expression is outside the part that is understood here (or is none); the message says where."""


class Source(Protocol):
    """Where series come from. ``at`` and ``window`` are seconds since the drill's trigger."""

    def known(self, name: str) -> bool:
        """Whether anything at all is known of a metric; of others nobody can say what they would be."""

    def instant(self, name: str, at: float) -> Vector:
        """Every series of a metric at a moment, without its name."""

    def window(self, name: str, at: float, length: float) -> dict[Labels, list[float]]:
        """The samples of every series in the ``length`` seconds up to ``at``."""

    def epoch(self, at: float) -> float:
        """The moment as Unix time."""


Value = float | Vector


@dataclass(frozen=True)
class Expr:
    """A parsed expression: ``evaluate(source, at)``; ``metrics`` are the names that it reads."""

    text: str
    metrics: frozenset[str]
    run: Callable[[Source, float], Value]

    def evaluate(self, source: Source, at: float) -> Vector:
        """Its vector at a moment (a number as one series without labels). Raises Unsupported for unknown metrics."""
        for name in sorted(self.metrics):
            if not source.known(name):
                raise Unsupported(f"{name} is nothing that a drill produces")
        value = self.run(source, at)
        return value if isinstance(value, dict) else {frozenset(): value}


def duration_s(text: str) -> float:
    """``1h30m`` in seconds. Raises Unsupported."""
    parts = re.findall(r"(\d+)(ms|[smhdwy])", text)
    if not parts or "".join(n + u for n, u in parts) != text:
        raise Unsupported(f"{text!r} is no duration")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


def parse(text: str) -> Expr:
    """Read an expression. Raises Unsupported."""
    return _Parser(text).whole()


Run = Callable[[Source, float], Value]


@dataclass
class _Parser:
    text: str
    tokens: list[tuple[str, str]] = field(default_factory=list)
    metrics: set[str] = field(default_factory=set)
    at: int = 0

    def __post_init__(self) -> None:
        position, text = 0, re.sub(r"#.*", "", self.text).strip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None or not found.lastgroup:
                raise Unsupported(f"not understood at {text[position : position + 20]!r}")
            self.tokens.append((found.lastgroup, found.group(found.lastgroup)))
            position = found.end()

    # -- tokens --------------------------------------------------------------------------------------------
    def peek(self) -> str:
        """The next word; empty at the end."""
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def kind(self) -> str:
        """What kind of word comes next; empty at the end."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        """The next word, which is one of ``wanted`` if any are. Raises Unsupported for another."""
        word = self.peek()
        if not word or (wanted and word not in wanted):
            raise Unsupported(f"expected {' or '.join(wanted) or 'more'}, found {word or 'the end'!r}")
        self.at += 1
        return word

    def whole(self) -> Expr:
        """The expression. Raises Unsupported where anything is left over."""
        run = self.binary(0)
        if self.peek():
            raise Unsupported(f"{self.peek()!r} is not understood there")
        return Expr(self.text, frozenset(self.metrics), run)

    # -- grammar -------------------------------------------------------------------------------------------
    def binary(self, level: int) -> Run:
        """Operators of this level of precedence and above."""
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek().lower() in _LEVELS[level]:
            word = self.take().lower()
            as_bool = self.peek() == "bool"
            if as_bool:
                self.take()
            key = self.matching()
            left = _binary(word, left, self.binary(level + 1), key, as_bool=as_bool)
        return left

    def matching(self) -> Callable[[Labels], Labels]:
        """Which labels the two sides of an operator are matched on."""
        word = self.peek().lower()
        if word not in ("on", "ignoring"):
            return _unnamed
        self.take()
        names = self.names()
        if self.peek().lower() in ("group_left", "group_right"):
            raise Unsupported("many-to-one matching")
        if word == "on":
            return lambda labels: frozenset(pair for pair in labels if pair[0] in names)
        return lambda labels: frozenset(pair for pair in labels if pair[0] not in (*names, NAME))

    def names(self) -> list[str]:
        """Label names in parentheses."""
        found = []
        self.take("(")
        while self.peek() != ")":
            found.append(self.take())
            if self.peek() == ",":
                self.take()
        self.take(")")
        return found

    def unary(self) -> Run:
        """A sign, or none."""
        if self.peek() in ("-", "+"):
            sign = -1.0 if self.take() == "-" else 1.0
            inner = self.unary()
            return lambda source, at: _each(inner(source, at), lambda value: sign * value)
        return self.atom()

    def atom(self) -> Run:
        """A number, a selector, a function, an aggregation, or something in parentheses."""
        kind, word = self.kind(), self.peek()
        if word == "(":
            self.take()
            inner = self.binary(0)
            self.take(")")
            return inner
        if kind == "number":
            value = float(self.take())
            return lambda source, at: value
        if word == "{":
            raise Unsupported("a selector without a metric's name")
        if kind != "name":
            raise Unsupported(f"{word or 'the end'!r} is not understood there")
        self.take()
        if word.lower() in _AGGREGATES and self.peek() in ("(", "by", "without"):
            return self.aggregate(word.lower())
        if self.peek() == "(":
            return self.function(word)
        return self.selector(word)

    def aggregate(self, word: str) -> Run:
        """``sum``, ``max``... over an inner expression, by or without labels."""
        how, names = "", list[str]()
        if self.peek() in ("by", "without"):
            how, names = self.take(), self.names()
        self.take("(")
        inner = self.binary(0)
        self.take(")")
        if self.peek() in ("by", "without"):
            how, names = self.take(), self.names()
        return _aggregate(_AGGREGATES[word], inner, how, names)

    def function(self, word: str) -> Run:
        """A call of a function. Raises Unsupported for one that is not known here."""
        self.take("(")
        if word == "time":
            self.take(")")
            return lambda source, at: source.epoch(at)
        if word in _OVER_TIME:
            name = self.take()
            run = self.ranged(name, _OVER_TIME[word])
        elif word in ("absent", "vector", "abs"):
            run = _FUNCTIONS[word](self.binary(0))
        else:
            raise Unsupported(f"function {word}")
        self.take(")")
        return run

    def selector(self, name: str) -> Run:
        """An instant vector."""
        matches = self.matchers()
        if self.peek() in ("[", "offset", "@"):
            raise Unsupported("offsets and ranges outside *_over_time" if self.peek() != "@" else "@")
        self.metrics.add(name)
        return lambda source, at: {
            labels: value for labels, value in source.instant(name, at).items() if matches(dict(labels))
        }

    def ranged(self, name: str, combine: Callable[[list[float]], float]) -> Run:
        """A range vector under a function that makes an instant one of it."""
        matches = self.matchers()
        self.take("[")
        if self.kind() != "duration":
            raise Unsupported(f"expected a duration, found {self.peek()!r}")
        length = duration_s(self.take())
        self.take("]")
        self.metrics.add(name)
        return lambda source, at: {
            labels: combine(values)
            for labels, values in source.window(name, at, length).items()
            if values and matches(dict(labels))
        }

    def matchers(self) -> Callable[[Mapping[str, str]], bool]:
        """Label matchers in braces, or none."""
        tests: list[Callable[[Mapping[str, str]], bool]] = []
        if self.peek() == "{":
            self.take()
            while self.peek() != "}":
                tests.append(self.matcher())
                if self.peek() == ",":
                    self.take()
            self.take("}")
        return lambda labels: all(test(labels) for test in tests)

    def matcher(self) -> Callable[[Mapping[str, str]], bool]:
        """One label matcher."""
        label, how = self.take(), self.take("=", "!=", "=~", "!~")
        if self.kind() != "string":
            raise Unsupported(f"expected a quoted value, found {self.peek()!r}")
        value = re.sub(r"\\(.)", r"\1", self.take()[1:-1])
        if "~" not in how:
            return lambda labels: (labels.get(label, "") == value) is (how == "=")
        try:
            pattern = re.compile(value)
        except re.error as error:
            raise Unsupported(f"{value!r} is no regular expression here: {error}") from error
        return lambda labels: (pattern.fullmatch(labels.get(label, "")) is not None) is (how == "=~")


# -- evaluating --------------------------------------------------------------------------------------------
def _unnamed(labels: Labels) -> Labels:
    return frozenset(pair for pair in labels if pair[0] != NAME)


def _each(value: Value, apply: Callable[[float], float]) -> Value:
    if isinstance(value, dict):
        return {labels: apply(one) for labels, one in value.items()}
    return apply(value)


def _absent(inner: Run) -> Run:
    def run(source: Source, at: float) -> Value:
        return {} if inner(source, at) else {frozenset(): 1.0}

    return run


_FUNCTIONS: Mapping[str, Callable[[Run], Run]] = {
    "absent": _absent,
    "vector": lambda inner: inner,
    "abs": lambda inner: lambda source, at: _each(inner(source, at), abs),
}


def _aggregate(combine: Callable[[list[float]], float], inner: Run, how: str, names: Iterable[str]) -> Run:
    kept = frozenset(names)

    def key(labels: Labels) -> Labels:
        if how == "by":
            return frozenset(pair for pair in labels if pair[0] in kept)
        if how == "without":
            return frozenset(pair for pair in labels if pair[0] not in kept)
        return frozenset()

    def run(source: Source, at: float) -> Value:
        """The series of each group combined into one. Raises Unsupported for a number."""
        value = inner(source, at)
        if not isinstance(value, dict):
            raise Unsupported("an aggregation of a number")
        groups: dict[Labels, list[float]] = {}
        for labels, one in value.items():
            groups.setdefault(key(labels), []).append(one)
        return {labels: combine(values) for labels, values in groups.items()}

    return run


def _binary(word: str, left: Run, right: Run, key: Callable[[Labels], Labels], *, as_bool: bool) -> Run:
    def run(source: Source, at: float) -> Value:
        """Both sides at that time: sets, matched series, a series with a number, or two numbers."""
        one, other = left(source, at), right(source, at)
        if word in ("and", "or", "unless"):
            return _set(word, one, other, key)
        if isinstance(one, dict) and isinstance(other, dict):
            return _matched(word, one, other, key, as_bool=as_bool)
        if isinstance(one, dict):
            return _filtered(word, one, lambda value: (value, other), as_bool=as_bool)  # type: ignore[arg-type,return-value]
        if isinstance(other, dict):
            return _filtered(word, other, lambda value: (one, value), as_bool=as_bool)
        if word in _COMPARE:
            return float(_COMPARE[word](one, other))
        return _ARITHMETIC[word](one, other)

    return run


def _set(word: str, one: Value, other: Value, key: Callable[[Labels], Labels]) -> Value:
    if not isinstance(one, dict) or not isinstance(other, dict):
        raise Unsupported(f"{word} between numbers")
    there = {key(labels) for labels in other}
    if word == "or":
        here = {key(labels) for labels in one}
        return one | {labels: value for labels, value in other.items() if key(labels) not in here}
    return {labels: value for labels, value in one.items() if (key(labels) in there) is (word == "and")}


def _filtered(
    word: str,
    vector: Vector,
    sides: Callable[[float], tuple[float, float]],
    *,
    as_bool: bool,
) -> Vector:
    if word in _COMPARE:
        found = {labels: _COMPARE[word](*sides(value)) for labels, value in vector.items()}
        if as_bool:
            return {labels: float(holds) for labels, holds in found.items()}
        return {labels: vector[labels] for labels, holds in found.items() if holds}
    return {labels: _ARITHMETIC[word](*sides(value)) for labels, value in vector.items()}


def _matched(
    word: str,
    one: Vector,
    other: Vector,
    key: Callable[[Labels], Labels],
    *,
    as_bool: bool,
) -> Vector:
    by_key: dict[Labels, float] = {}
    for labels, value in other.items():
        if key(labels) in by_key:
            raise Unsupported("several series on the right match one on the left")
        by_key[key(labels)] = value
    seen: set[Labels] = set()
    found: Vector = {}
    for labels, value in one.items():
        shared = key(labels)
        if shared not in by_key:
            continue
        if shared in seen:
            raise Unsupported("several series on the left match one on the right")
        seen.add(shared)
        if word in _COMPARE:
            holds = _COMPARE[word](value, by_key[shared])
            if as_bool:
                found[shared] = float(holds)
            elif holds:
                found[labels] = value
        else:
            found[shared] = _ARITHMETIC[word](value, by_key[shared])
    return found
