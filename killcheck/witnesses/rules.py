"""Alert rules and what they record, as PrometheusRules have them; and what became of one.

Source: prometheus-operator's PrometheusRule; prometheus.io/docs "Alerting rules", "Recording rules".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from msgspec import Struct

from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.promql.language import Unsupported, duration_s
from killcheck.spec.cloud_access import Alarm
from killcheck.text import lazy_re

__all__ = ["Evaluated", "Record", "Rule", "records_of", "rules_of"]

_ABOUT = lazy_re.compile(r"DCGM_|nvidia|gpu|neuron", re.IGNORECASE)


class Rule(Struct, frozen=True):
    """One alert: ``object`` is the PrometheusRule it is in; ``for_s`` how long it must hold before it fires."""

    alert: str
    expr: str
    for_s: float
    object: str
    problem: str = ""


class Record(Struct, frozen=True):
    """A recorded series: the metric ``name`` is what ``expr`` says, with ``labels`` on top."""

    name: str
    expr: str
    labels: tuple[tuple[str, str], ...] = ()


class Evaluated(Struct, frozen=True):
    """What became of a rule: seconds after the trigger at which it fires (None: it does not), or why nobody knows.

    ``silent``: why it can never fire, where that is known. ``taken``: what it rests on that nobody saw.
    """

    rule: Rule
    fires_s: float | None = None
    unproven: str = ""
    silent: str = ""
    taken: tuple[str, ...] = ()


def rules_of(objects: Iterable[Obj], wanted: Alarm) -> list[Rule]:
    """The alerts that are about GPUs, or those that the spec names."""
    found = []
    for where, rule in _rules(objects):
        name, expr = str(rule.get("alert") or ""), str(rule.get("expr", ""))
        if not name:
            continue
        if any(fnmatchcase(name, p) for p in wanted.alerts) if wanted.alerts else _ABOUT.search(expr):
            found.append(_rule(name, expr, str(rule.get("for") or "0s"), where))
    return found


def records_of(objects: Iterable[Obj]) -> list[Record]:
    """What the rules record."""
    return [
        Record(
            str(rule["record"]),
            str(rule.get("expr", "")),
            tuple(sorted((str(key), str(value)) for key, value in (rule.get("labels") or {}).items())),
        )
        for _, rule in _rules(objects)
        if rule.get("record")
    ]


def _rules(objects: Iterable[Obj]) -> Iterator[tuple[str, Obj]]:
    for obj in objects:
        for group in dig(obj, "spec", "groups", default=[]):
            for rule in group.get("rules") or ():
                yield f"{namespace_of(obj)}/{name_of(obj)}", rule


def _rule(name: str, expr: str, wait: str, where: str) -> Rule:
    try:
        return Rule(name, expr, duration_s(wait) if wait != "0" else 0.0, where)
    except Unsupported as error:
        return Rule(name, expr, 0.0, where, str(error))
