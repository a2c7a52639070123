"""A part of PromQL: what alerts on idle GPUs, failed Jobs and the bill are written in. What is outside it raises.

Numbers, selectors, ranges, subqueries, offsets; aggregations with ``by`` and ``without``, ``topk``, ``bottomk``,
``quantile``; arithmetic, comparisons (filtering, or ``bool``), ``and``, ``or``, ``unless``; ``on``, ``ignoring``,
``group_left``, ``group_right``; the functions of :mod:`killcheck.promql.functions`, ``absent``, ``scalar``, ``vector``,
``label_replace``. Not: ``@``, histograms' quantiles, regressions, selectors without a metric's name.

Source: prometheus.io/docs "Querying basics", "Operators", "Functions" (3.x); prometheus/prometheus promql/engine.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from killcheck.promql import evaluation as ev
from killcheck.promql import functions
from killcheck.promql.evaluation import Labels, Matching, Matrix, Run, Source, UnknownSeries, Unsupported, Vector
from killcheck.text import lazy_re
from killcheck.text.shown import brief

__all__ = ["Expr", "Labels", "Source", "UnknownSeries", "Unsupported", "Vector", "duration_s", "parse"]

_TOKEN = lazy_re.compile(
    r"""\s*(?:
    (?P<duration>(?:\d+(?:ms|[smhdwy]))+(?!\w))
  | (?P<number>(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|Inf|NaN)(?!\w))
  | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
  | (?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
  | (?P<op>=~|!~|==|!=|>=|<=|[-+*/%^<>=(){}\[\],@])
)""",
    re.VERBOSE,
)
#: The largest unit first, each once.
_DURATION = lazy_re.compile("".join(rf"(?:[0-9]{{1,20}}{unit})?" for unit in ("y", "w", "d", "h", "m", "s", "ms")))
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
#: Operators by how tightly they bind, the loosest first; ``^`` is above signs.
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("or",),
    ("and", "unless"),
    tuple(ev.COMPARE),
    ("+", "-"),
    ("*", "/", "%"),
)
#: How often a subquery looks where it does not say, in seconds (the evaluation interval's default).
SUBQUERY_STEP_S = 60.0
_CHOOSING = ("topk", "bottomk", "quantile")


#: A metric and its label matchers: (label, operator, value).
Selected = tuple[str, tuple[tuple[str, str, str], ...]]


class Expr(Struct, frozen=True):
    """A parsed expression: ``evaluate(source, at)``; ``metrics`` are the names that it reads, ``selectors`` the same
    with their matchers; ``joined`` the labels by which sides are matched, ``made`` those that it makes itself.
    """

    text: str
    metrics: frozenset[str]
    run: Run
    selectors: tuple[Selected, ...] = ()
    joined: frozenset[str] = frozenset()
    made: frozenset[str] = frozenset()

    def evaluate(self, source: Source, at: float) -> Vector:
        """Its vector at a moment (a number as one series without labels). Raises Unsupported for unknown metrics."""
        for name in sorted(self.metrics):
            if not source.known(name):
                raise UnknownSeries(f"{name} is nothing that a drill produces")
        try:
            value = self.run(source, at)
        except RecursionError as error:
            raise Unsupported("it is nested too deeply") from error
        return value if isinstance(value, dict) else {frozenset(): value}


def duration_s(text: str) -> float:
    """``1h30m`` in seconds. Raises Unsupported."""
    if not text or not _DURATION.fullmatch(text):
        raise Unsupported(f"{brief(text)!r} is no duration")
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)(ms|[smhdwy])", text))


def parse(text: str) -> Expr:
    """Read an expression. Raises Unsupported."""
    try:
        return _Parser(text).whole()
    except RecursionError as error:
        raise Unsupported("it is nested too deeply") from error


class _Ranged(Struct, frozen=True):
    """A range vector: only some functions take one."""

    run: Callable[[Source, float], Matrix]
    length_s: float


class _Selector(Struct, frozen=True):
    """A metric with its matchers, before it is known whether a range of it is wanted."""

    name: str
    matches: Callable[[Mapping[str, str]], bool]
    matchers: tuple[tuple[str, str, str], ...] = ()

    def instant(self, source: Source, at: float) -> Vector:
        """Its series then."""
        return {labels: value for labels, value in source.instant(self.name, at).items() if self.matches(dict(labels))}

    def ranged(self, length_s: float) -> _Ranged:
        """Its samples in a range."""

        def run(source: Source, at: float) -> Matrix:
            """The samples of each series that matches."""
            found = source.window(self.name, at, length_s)
            return {labels: samples for labels, samples in found.items() if samples and self.matches(dict(labels))}

        return _Ranged(run, length_s)


class _Parser(Struct):
    text: str
    tokens: list[tuple[str, str]] = field(default_factory=list)
    selectors: list[_Selector] = field(default_factory=list)
    joined: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    at: int = 0

    def __post_init__(self) -> None:
        position, text = 0, _without_comments(self.text).strip()
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
        run = self.instant()
        if self.peek():
            raise Unsupported(f"{self.peek()!r} is not understood there")
        read = tuple((one.name, one.matchers) for one in self.selectors)
        metrics = frozenset(one.name for one in self.selectors)
        return Expr(self.text, metrics, run, read, frozenset(self.joined), frozenset(self.made))

    # -- grammar -------------------------------------------------------------------------------------------
    def instant(self, level: int = 0) -> Run:
        """An expression that is no range. Raises Unsupported for a range."""
        return _no_range(self.binary(level))

    def binary(self, level: int) -> Run | _Ranged:
        """Operators of this level of precedence and above."""
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek().lower() in _LEVELS[level]:
            word = self.take().lower()
            as_bool = self.peek().lower() == "bool"
            if as_bool:
                self.take()
            matching = self.matching()
            _sound(word, matching, as_bool=as_bool)
            left = ev.binary(word, _no_range(left), self.instant(level + 1), matching, as_bool=as_bool)
        return left

    def matching(self) -> Matching:
        """Which labels the two sides of an operator are matched on, and which side has several."""
        how, names = self.peek().lower(), list[str]()
        if how not in ("on", "ignoring"):
            return Matching()
        self.take()
        names = self.names()
        self.joined |= set(names) if how == "on" else set()
        many = self.peek().lower()
        if many not in ("group_left", "group_right"):
            return Matching(how, frozenset(names))
        self.take()
        return Matching(how, frozenset(names), many, tuple(self.names() if self.peek() == "(" else ()))

    def names(self) -> list[str]:
        """Label names in parentheses."""
        found = []
        self.take("(")
        while self.peek() != ")":
            found.append(self.take())
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        return found

    def unary(self) -> Run | _Ranged:
        """A sign, or none; ``^`` binds more tightly."""
        if self.peek() in ("-", "+"):
            sign = -1.0 if self.take() == "-" else 1.0
            inner = _no_range(self.unary())
            return lambda source, at: ev.each(inner(source, at), lambda value: sign * value)
        left = self.postfix()
        if self.peek() != "^":
            return left
        self.take()
        return ev.binary("^", _no_range(left), _no_range(self.unary()), Matching(), as_bool=False)

    def postfix(self) -> Run | _Ranged:
        """What has a value, its range, its offset."""
        atom = self.atom()
        found: Run | _Ranged
        moves = isinstance(atom, _Selector) or self.peek() == "["
        if self.peek() == "[":
            found = self.range_of(atom)
        else:
            found = atom.instant if isinstance(atom, _Selector) else atom
        if self.peek() == "@":
            raise Unsupported("@")
        if self.peek().lower() == "offset":
            if not moves:
                raise Unsupported("an offset of something that is no selector")
            self.take()
            by_s = self.duration(signed=True)
            if by_s < 0:
                raise UnknownSeries("it reads what is yet to come (a negative offset)")
            found = _shifted(found, by_s)
        return found

    def range_of(self, atom: Run | _Selector) -> _Ranged:
        """``[5m]`` of a selector, ``[1h:5m]`` of anything."""
        self.take("[")
        length_s = self.duration()
        if self.peek() == "]" and isinstance(atom, _Selector):
            self.take()
            return atom.ranged(length_s)
        step = self.take().removeprefix(":")
        if self.tokens[self.at - 1][1][:1] != ":":
            raise Unsupported("a range of something that is no selector")
        if not step and self.peek() != "]":
            step = self.take()
        self.take("]")
        inner = atom.instant if isinstance(atom, _Selector) else atom
        return _subquery(inner, length_s, duration_s(step) if step else SUBQUERY_STEP_S)

    def duration(self, *, signed: bool = False) -> float:
        """Seconds. Raises Unsupported for another word."""
        sign = -1.0 if signed and self.peek() == "-" and self.take() else 1.0
        if self.kind() != "duration":
            raise Unsupported(f"expected a duration, found {self.peek()!r}")
        return sign * duration_s(self.take())

    def atom(self) -> Run | _Selector:
        """A number, a selector, a function, an aggregation, or something in parentheses."""
        kind, word = self.kind(), self.peek()
        if word == "(":
            self.take()
            inner = self.instant()
            self.take(")")
            return inner
        if kind == "number" or (kind == "name" and word.lower() in ("inf", "nan")):
            value = float(self.take())
            return lambda source, at: value
        if word == "{":
            raise Unsupported("a selector without a metric's name")
        if kind != "name":
            raise Unsupported(f"{word or 'the end'!r} is not understood there")
        self.take()
        if word.lower() in (*functions.AGGREGATES, *_CHOOSING) and self.peek().lower() in ("(", "by", "without"):
            return self.aggregate(word.lower())
        if self.peek() == "(":
            return self.function(word)
        tests, matchers = self.matchers()
        found = _Selector(word, lambda labels: all(test(labels) for test in tests), matchers)
        self.selectors.append(found)
        return found

    def aggregate(self, word: str) -> Run:
        """``sum``, ``max``... over an inner expression, by or without labels; ``topk`` with its number first."""
        how, names, number = "", list[str](), None
        if self.peek().lower() in ("by", "without"):
            how, names = self.take().lower(), self.names()
        self.take("(")
        if word in _CHOOSING:
            number = self.instant()
            self.take(",")
        inner = self.instant()
        self.take(")")
        if self.peek().lower() in ("by", "without"):
            how, names = self.take().lower(), self.names()
        if number is not None:
            return ev.choose(word, number, inner, how, names)
        return ev.aggregate(functions.AGGREGATES[word], inner, how, names)

    def function(self, word: str) -> Run:
        """A call of a function. Raises Unsupported for one that is not known here."""
        self.take("(")
        run = self.call(word)
        self.take(")")
        return run

    def call(self, word: str) -> Run:
        """What is in the parentheses of a call. Raises Unsupported."""
        if word == "time":
            return lambda source, at: source.epoch(at)
        if word in functions.OVER_TIME or word in functions.RATES:
            ranged = self.range_argument(word)
            return ev.over(word, ranged.run, ranged.length_s)
        if word in functions.PARAMETER_OVER_TIME:
            number = self.instant()
            self.take(",")
            return ev.over_with(functions.PARAMETER_OVER_TIME[word], number, self.range_argument(word).run)
        if word == "absent_over_time":
            inner = self.range_argument(word).run
            return lambda source, at: {} if inner(source, at) else {frozenset(): 1.0}
        if word in functions.OF_TIME:
            return ev.of_time(functions.OF_TIME[word], None if self.peek() == ")" else self.instant())
        if word in functions.OF_VALUES:
            apply, least, most = functions.OF_VALUES[word]
            return ev.of_values(apply, self.instant(), self.further(least, most))
        if word in ev.SIMPLE:
            return ev.SIMPLE[word](self.instant())
        if word == "label_replace":
            renamed, words = self.instant(), self.strings(4)
            self.made.add(words[0])
            return ev.label_replace(renamed, *words)
        raise Unsupported(f"function {word}")

    def range_argument(self, word: str) -> _Ranged:
        """The range that a function takes. Raises Unsupported for another value."""
        found = self.binary(0)
        if not isinstance(found, _Ranged):
            raise Unsupported(f"{word} of something that is no range")
        return found

    def further(self, least: int, most: int) -> list[Run]:
        """Numbers after the first argument. Raises Unsupported for too few."""
        found: list[Run] = []
        while len(found) < most and self.peek() == ",":
            self.take()
            found.append(self.instant())
        if len(found) < least:
            raise Unsupported(f"expected ',', found {self.peek()!r}")
        return found

    def strings(self, count: int) -> list[str]:
        """So many quoted values, each after a comma. Raises Unsupported."""
        found: list[str] = []
        for _ in range(count):
            self.take(",")
            found.append(self.string())
        return found

    def string(self) -> str:
        """A quoted value. Raises Unsupported."""
        if self.kind() != "string":
            raise Unsupported(f"expected a quoted value, found {self.peek()!r}")
        word = self.take()
        return word[1:-1] if word[0] == "`" else re.sub(r"\\(.)", _unescaped, word[1:-1])

    def matchers(self) -> tuple[list[Callable[[Mapping[str, str]], bool]], tuple[tuple[str, str, str], ...]]:
        """Label matchers in braces, or none: as tests, and as they are written."""
        tests: list[Callable[[Mapping[str, str]], bool]] = []
        said = list[tuple[str, str, str]]()
        if self.peek() == "{":
            self.take()
            while self.peek() != "}":
                label, how, value = self.take(), self.take("=", "!=", "=~", "!~"), self.string()
                tests.append(ev.matcher(label, how, value))
                said.append((label, how, value))
                if self.peek() != "}":
                    self.take(",")
            self.take("}")
        return tests, tuple(said)


def _sound(word: str, matching: Matching, *, as_bool: bool) -> None:
    """What Prometheus' parser refuses of an operator. Raises Unsupported."""
    if as_bool and word not in ev.COMPARE:
        raise Unsupported(f"bool after {word!r}")
    if matching.many and word in ("and", "or", "unless"):
        raise Unsupported(f"{matching.many} after {word!r}")
    if matching.how == "on" and matching.names & set(matching.included):
        raise Unsupported(f"a label both in on and in {matching.many}")


def _without_comments(text: str) -> str:
    """Comments go; a ``#`` in quotes stays."""
    return re.sub(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)|#.*""", lambda found: found[1] or "", text)


def _unescaped(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1])


def _no_range(found: Run | _Ranged) -> Run:
    if isinstance(found, _Ranged):
        raise Unsupported("a range where a value is wanted")
    return found


def _shifted(found: Run | _Ranged, by_s: float) -> Run | _Ranged:
    if isinstance(found, _Ranged):
        ranged = found.run
        return _Ranged(
            lambda source, at: {
                labels: [(moment + by_s, value) for moment, value in samples]
                for labels, samples in ranged(source, at - by_s).items()
            },
            found.length_s,
        )
    plain: Run = found
    return lambda source, at: plain(source, at - by_s)


def _subquery(inner: Run, length_s: float, step_s: float) -> _Ranged:
    """Looks at multiples of the step in Unix time. Raises Unsupported for a step of nothing."""
    if step_s <= 0:
        raise Unsupported("a subquery's step is nothing")

    def run(source: Source, at: float) -> Matrix:
        """The inner expression at each of its moments."""
        epoch, found = source.epoch(at), dict[Labels, list[tuple[float, float]]]()
        source.spend(ev.EVALUATED * math.ceil(length_s / step_s))
        for n in range(math.floor((epoch - length_s) / step_s) + 1, math.floor(epoch / step_s) + 1):
            moment = n * step_s - epoch + at
            value = inner(source, moment)
            for labels, one in (value if isinstance(value, dict) else {frozenset[tuple[str, str]](): value}).items():
                found.setdefault(labels, []).append((moment, one))
        return found

    return _Ranged(run, length_s)
