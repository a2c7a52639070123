"""How much one client may put into this process: the depth of a body, what its aliases come to, how many objects.

A real API server has limits too (10,000 levels of JSON, a ratio of YAML's aliases, the quota of etcd), and a process of
its own. Here a pull request's program would end the drill, or never let it end. What a real one would have taken is
answered 501: a limit of the embedded cluster, by which nothing is proven.
"""

from __future__ import annotations

import re
from typing import Any

from killcheck.embedded.api.status import StatusError
from killcheck.text import lazy_re

__all__ = ["MOST_DEEP", "MOST_OBJECTS", "check_depth", "check_yaml_depth", "repeats_too_much", "too_deep", "too_many"]

#: Levels of a body; each takes several frames of Python's stack, which has a thousand.
MOST_DEEP = 150
#: Objects of one type. A pod that starts and is told of takes 10 ms of processor time.
MOST_OBJECTS = 5_000
#: Values of a YAML text with its aliases written out (go-yaml v2, decode.go: allowedAliasRatio from 400,000 on).
_MOST_VALUES = 400_000
#: A string of JSON, which is passed over, or a bracket.
_BRACKETS = lazy_re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def too_deep() -> StatusError:
    """The answer to what is nested deeper than is read here."""
    return StatusError(501, "NotImplemented", f"nested deeper than the {MOST_DEEP} levels that are read here")


def too_many(plural: str, most: int) -> StatusError:
    """The answer to one object more than there may be of a type."""
    return StatusError(501, "NotImplemented", f"there are {most} {plural}, and no more are kept here")


def check_depth(text: str) -> None:
    """Raises StatusError 501 for JSON that is nested deeper than :data:`MOST_DEEP`. Only a text that may be is read."""
    if text.count("[") + text.count("{") <= MOST_DEEP:
        return
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > MOST_DEEP:
            raise too_deep()


def check_yaml_depth(text: str) -> None:
    """The same of YAML's brackets, by libyaml's tokens: the parser that reads bodies goes through all that are open for
    each new one. What is no YAML is said by whoever parses it.
    """
    if text.count("[") + text.count("{") <= MOST_DEEP:
        return
    import yaml

    depth = 0
    try:
        for token in yaml.scan(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            opens = isinstance(token, yaml.FlowSequenceStartToken | yaml.FlowMappingStartToken)
            depth += opens - isinstance(token, yaml.FlowSequenceEndToken | yaml.FlowMappingEndToken)
            if depth > MOST_DEEP:
                raise too_deep()
    except yaml.YAMLError as error:
        if "nesting depth" in str(error):  # libyaml's own limit, a thousand levels
            raise too_deep() from None


def repeats_too_much(value: Any) -> bool:
    """Whether what was read from YAML is far more with its aliases written out, or holds itself."""
    return _size(value, {}) > _MOST_VALUES


def _size(value: Any, known: dict[int, int]) -> int:
    """How many values there are, what stands in several places counted in each; what holds itself has no end."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = _MOST_VALUES + 1
        known[id(value)] = 1 + sum(_size(one, known) for one in (value.values() if isinstance(value, dict) else value))
    return known[id(value)]
