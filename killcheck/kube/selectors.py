"""Label and field selectors, as strings and as objects, with the API server's words for what does not parse.

Sources: k8s.io/apimachinery/pkg/labels/selector.go and fields/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from killcheck.kube.objects import Obj, dig, mappings
from killcheck.text import lazy_re
from killcheck.text.numbers import whole

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "FieldSelector",
    "LabelSelector",
    "Requirement",
    "SelectorError",
    "format_selector",
    "from_match_labels",
    "is_requirement",
    "labels_selected",
    "node_terms",
    "parse_fields",
    "parse_labels",
]

_NAME = lazy_re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = lazy_re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_SUBDOMAIN = lazy_re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SPECIAL = "=!(),<>"
_TOKENS = {")", ",", "!", "==", "=", ">", "in", "<", "!=", "notin", "("}
_OPERATORS = {"in": "in", "=": "=", "==": "==", ">": "gt", "<": "lt", "notin": "notin", "!=": "!="}
#: As the parser lists them, in its own order.
_BINARY = "in, notin, =, ==, !=, gt, lt"
_END = ""

_NAME_WORDS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_SUBDOMAIN_WORDS = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


class SelectorError(ValueError):
    """The selector does not parse; the message is the API server's."""


class Requirement(Struct, frozen=True):
    """One term: ``operator`` is one of in, notin, =, ==, !=, exists, !, gt, lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy it; a key that is missing satisfies ``notin`` and ``!=``."""
        value = labels.get(self.key)
        operator = self.operator
        if operator in ("=", "==", "in"):
            return value is not None and value in self.values
        if operator in ("!=", "notin"):
            return value is None or value not in self.values
        if operator == "exists":
            return value is not None
        if operator == "!":
            return value is None
        try:
            have, want = int(value or ""), int(self.values[0])
        except ValueError:
            return False
        return have > want if operator == "gt" else have < want

    def __str__(self) -> str:
        if self.operator == "!":
            return f"!{self.key}"
        if self.operator == "exists":
            return self.key
        if self.operator in ("in", "notin"):
            return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
        sign = {"gt": ">", "lt": "<"}.get(self.operator, self.operator)
        return f"{self.key}{sign}{self.values[0]}"


class LabelSelector(Struct, frozen=True):
    """All requirements together; none: everything. ``nothing``: it selects no object at all."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether labels satisfy every requirement."""
        if self.nothing:
            return False
        have = labels or {}
        for requirement in self.requirements:  # noqa: SIM110 - asked of each pod at each change of one: no generator
            if not requirement.matches(have):
                return False
        return True

    @property
    def empty(self) -> bool:
        """Whether it selects everything."""
        return not self.requirements and not self.nothing

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(nothing=True)


def from_match_labels(selector: Obj | None) -> LabelSelector:
    """A ``metav1.LabelSelector`` (matchLabels, matchExpressions): None selects nothing, ``{}`` everything.

    Raises SelectorError.
    """
    if selector is None:
        return NOTHING
    requirements = [_require(key, "=", [value]) for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or []:
        operator = _EXPRESSIONS.get(expression.get("operator", ""))
        if operator is None:
            raise SelectorError(f'"{expression.get("operator", "")}" is not a valid label selector operator')
        requirements.append(_require(str(expression.get("key", "")), operator, list(expression.get("values") or [])))
    return LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


_EXPRESSIONS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def format_selector(selector: Obj | Mapping[str, str] | None) -> str:
    """A ``metav1.LabelSelector`` as the string that ``status.selector`` of a Scale holds.

    A plain map of labels (a ReplicationController's selector) is formatted as such.
    """
    if not selector:
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    return str(from_match_labels(dict(selector)))


@lru_cache(maxsize=512)
def parse_labels(text: str) -> LabelSelector:
    """A selector as in ``labelSelector=`` and ``kubectl -l``. Raises SelectorError in Kubernetes' words."""
    return LabelSelector(tuple(sorted(_Parser(text).parse(), key=lambda requirement: requirement.key)))


def is_requirement(key: str, value: str) -> bool:
    """Whether a label can have that value: a template's placeholder is none."""
    try:
        parse_labels(f"{key}={value}")
    except SelectorError:
        return False
    return True


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _check_key(key: str, path: str) -> str | None:
    """What is wrong with a label key, None if nothing."""
    prefix, slash, name = key.rpartition("/")
    problems = []
    if "/" in prefix:
        problems.append(
            "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
            "an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        )
        return f"{path}: Invalid value: {_quote(key)}: {problems[0]}"
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash and not _SUBDOMAIN.fullmatch(prefix):
        problems.append(_SUBDOMAIN_WORDS)
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(name):
        problems.append(_NAME_WORDS)
    return f"{path}: Invalid value: {_quote(key)}: {'; '.join(problems)}" if problems else None


def _require(key: str, operator: str, values: list[str]) -> Requirement:
    problems = []
    if (problem := _check_key(key, "key")) is not None:
        problems.append(problem)
    if operator in ("in", "notin") and not values:
        problems.append("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    if operator in ("exists", "!") and values:
        listed = ",".join(_quote(value) for value in values)
        problems.append(f"values: Invalid value: [{listed}]: values set must be empty for exists and does not exist")
    if operator in ("gt", "lt"):
        problems += [
            f"values[{i}]: Invalid value: {_quote(value)}: for 'Gt', 'Lt' operators, the value must be an integer"
            for i, value in enumerate(values)
            if not re.fullmatch(r"[+-]?\d+", value)
        ]
    for i, value in enumerate(values):
        if len(value) > 63:
            problems.append(f"values[{i}][{key}]: Invalid value: {_quote(value)}: must be no more than 63 bytes")
        elif not _VALUE.fullmatch(value):
            problems.append(f"values[{i}][{key}]: Invalid value: {_quote(value)}: {_VALUE_WORDS}")
    if problems:
        raise SelectorError(problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]")
    return Requirement(key, operator, tuple(values))


class _Parser:
    """Recursive descent over the tokens, as labels.Parser; a token is (kind, text), kind 'id' for identifiers."""

    def __init__(self, text: str) -> None:
        self.tokens = _lex(text)
        self.position = 0

    def parse(self) -> list[Requirement]:
        """The requirements. Raises SelectorError for what the API server would refuse."""
        found: list[Requirement] = []
        while True:
            kind, text = self._look()
            if kind == _END:
                return found
            if kind not in ("id", "!"):
                raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from error
            kind, text = self._take()
            if kind == _END:
                return found
            if kind != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            kind, text = self._look()
            if kind not in ("id", "!"):
                raise SelectorError(f"found '{text}', expected: identifier after ','")

    def _look(self) -> tuple[str, str]:
        kind, text = self.tokens[self.position]
        return ("id" if kind in ("in", "notin") else kind), text

    def _take(self, *, operator: bool = False) -> tuple[str, str]:
        kind, text = self.tokens[self.position]
        self.position += 1
        return ("id" if kind in ("in", "notin") and not operator else kind), text

    def _requirement(self) -> Requirement:
        kind, key = self._take()
        absent = kind == "!"
        if absent:
            kind, key = self._take()
        if kind != "id":
            raise SelectorError(f"found '{key}', expected: identifier")
        problem = _check_key(key, "")
        if problem is not None:
            raise SelectorError("<nil>" + problem)
        if absent:
            return _require(key, "!", [])
        if self._look()[0] in (_END, ","):
            return _require(key, "exists", [])
        kind, text = self._take(operator=True)
        operator = _OPERATORS.get(kind)
        if operator is None:
            raise SelectorError(f"found '{text}', expected: {_BINARY}")
        return _require(key, operator, self._values() if operator in ("in", "notin") else self._value())

    def _value(self) -> list[str]:
        if self._look()[0] in (_END, ","):
            return [""]
        kind, text = self._take()
        if kind != "id":
            raise SelectorError(f"found '{text}', expected: identifier")
        return [text]

    def _values(self) -> list[str]:
        kind, text = self._take()
        if kind != "(":
            raise SelectorError(f"found '{text}' expected: '('")
        kind, text = self._look()
        if kind == ")":
            self._take()
            return [""]
        if kind not in ("id", ","):
            raise SelectorError(f"found '{text}', expected: ',', ')' or identifier")
        found: set[str] = set()
        expecting = True
        while True:
            kind, text = self._take()
            if kind == ")":
                return sorted(found | ({""} if expecting else set()))
            if kind == "id" and expecting:
                found.add(text)
                expecting = False
            elif kind == ",":
                if expecting:
                    found.add("")
                expecting = True
            else:
                wanted = "',', or identifier" if expecting else "',' or ')'"
                raise SelectorError(f"found '{text}', expected: {wanted}")


def _lex(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char in " \t\r\n":
            position += 1
            continue
        end = position + 1
        if char in _SPECIAL:
            while end < len(text) and text[position : end + 1] in _TOKENS:
                end += 1
        else:
            while end < len(text) and text[end] not in _SPECIAL and text[end] not in " \t\r\n":
                end += 1
        word = text[position:end]
        tokens.append((word if word in _TOKENS else "id", word))
        position = end
    tokens.append((_END, ""))
    return tokens


class FieldSelector(Struct, frozen=True):
    """Terms (field, negated, value) that must all hold."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    def matches(self, value_of: Callable[[str], str]) -> bool:
        """``value_of`` answers the string value of a field, empty where it is missing."""
        return all((value_of(field) == value) is not negated for field, negated, value in self.terms)

    def exact(self, field: str) -> str | None:
        """The value that ``field`` must have, if one is required."""
        return next((value for name, negated, value in self.terms if name == field and not negated), None)


def field_text(value: Any) -> str:
    """A field's value as field selectors compare it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@lru_cache(maxsize=512)
def parse_fields(text: str) -> FieldSelector:
    """A selector as in ``fieldSelector=``. Raises SelectorError in Kubernetes' words."""
    terms = []
    for term in re.findall(r"(?:\\.|[^\\,])+\\?|\\$", text):
        found = re.match(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
        if not found:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        terms.append((found[1], found[2] == "!=", _unescape(found[3])))
    return FieldSelector(tuple(terms))


def _unescape(value: str) -> str:
    out: list[str] = []
    escaped = False
    for char in value:
        if escaped:
            if char not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
            out.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            out.append(char)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(out)


def node_terms(spec: Obj) -> list[Obj]:
    """The terms of the node affinity that a pod spec requires, of which any will do; empty: it requires none."""
    required = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    return mappings(dig(spec, *required))


def labels_selected(spec: Obj) -> dict[str, str]:
    """The labels that a node must have for a pod spec: its selector, the first term of its required affinity."""
    found = {key: str(value) for key, value in (spec.get("nodeSelector") or {}).items()}
    terms = node_terms(spec)
    for one in (terms[0].get("matchExpressions") or ()) if terms else ():
        values = [str(value) for value in one.get("values") or ()]
        numbers = [number for number in map(whole, values) if number is not None]
        wanted = {
            "In": values[:1],
            "Exists": ["true"],
            "Gt": [str(number + 1) for number in numbers],
            "Lt": [str(number - 1) for number in numbers],
        }.get(str(one.get("operator")), [])
        found |= {str(one.get("key")): value for value in wanted if one.get("key") not in found}
    return found
