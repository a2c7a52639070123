"""Alert rules and what they record, as PrometheusRules have them; and what became of one.

Source: prometheus-operator's PrometheusRule; prometheus.io/docs "Alerting rules", "Recording rules".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from msgspec import Struct

from killcheck.kube.objects import Obj, dig, mappings, name_of, namespace_of
from killcheck.promql.language import Unsupported, duration_s
from killcheck.spec.cloud_access import Alarm
from killcheck.text import lazy_re

__all__ = ["Evaluated", "Record", "Rule", "records_of", "rules_of"]

_ABOUT = lazy_re.compile(r"DCGM_|nvidia|gpu|neuron", re.IGNORECASE)


class Rule(Struct, frozen=True):
    """One alert: ``object`` is the PrometheusRule it is in; ``for_s`` how long it must hold before it fires.

    Of its group: how often it is evaluated (None: as often as everything), how far back, and how many alerts fail it
    (0: none do). ``silent``: why Prometheus never evaluates it. ``by``: the Prometheus that does, where one was seen.
    """

    alert: str
    expr: str
    for_s: float
    object: str
    problem: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    interval_s: float | None = None
    offset_s: float = 0.0
    limit: int = 0
    silent: str = ""
    by: str = ""


class Record(Struct, frozen=True):
    """A recorded series: the metric ``name`` is what ``expr`` says, with ``labels`` on top, every ``interval_s``.

    ``by``: each Prometheus that records it; empty: nobody saw one.
    """

    name: str
    expr: str
    labels: tuple[tuple[str, str], ...] = ()
    interval_s: float | None = None
    by: frozenset[str] = frozenset()

    def is_of(self, server: str) -> bool:
        """Whether a Prometheus records it; an empty name is that of one that nobody saw."""
        return not server or not self.by or server in self.by


class Evaluated(Struct, frozen=True):
    """What became of a rule: seconds after the trigger at which it fires (None: it does not), or why nobody knows.

    ``silent``: why it can never fire, where that is known. ``taken``: what it rests on that nobody saw. ``labels``: of
    the first alert that fires, without those that a rule makes by a template. ``receiver``: whom Alertmanager tells.
    """

    rule: Rule
    fires_s: float | None = None
    unproven: str = ""
    silent: str = ""
    taken: tuple[str, ...] = ()
    labels: frozenset[tuple[str, str]] = frozenset()
    receiver: str = ""


def rules_of(objects: Iterable[Obj], wanted: Alarm) -> list[Rule]:
    """The alerts that are about GPUs, or those that the spec names."""
    found = []
    for where, group, rule in _rules(objects):
        name, expr = str(rule.get("alert") or ""), str(rule.get("expr", ""))
        if not name:
            continue
        if any(fnmatchcase(name, p) for p in wanted.alerts) if wanted.alerts else _ABOUT.search(expr):
            found.append(_rule(name, rule, group, where))
    return found


def records_of(objects: Iterable[Obj]) -> list[Record]:
    """What the rules record."""
    return [
        Record(str(rule["record"]), str(rule.get("expr", "")), _labels(rule), _seconds(group.get("interval")))
        for _, group, rule in _rules(objects)
        if rule.get("record")
    ]


def _rules(objects: Iterable[Obj]) -> Iterator[tuple[str, Obj, Obj]]:
    for obj in objects:
        for group in mappings(dig(obj, "spec", "groups")):
            for rule in mappings(group.get("rules")):
                yield f"{namespace_of(obj)}/{name_of(obj)}", group, rule


def _rule(name: str, rule: Obj, group: Obj, where: str) -> Rule:
    expr, wait = str(rule.get("expr", "")), str(rule.get("for") or "0s")
    limit = group.get("limit")
    try:
        return Rule(
            name,
            expr,
            duration_s(wait) if wait != "0" else 0.0,
            where,
            labels=_labels(rule),
            interval_s=_seconds(group.get("interval")),
            offset_s=_seconds(group.get("query_offset")) or 0.0,
            limit=limit if isinstance(limit, int) else 0,
        )
    except Unsupported as error:
        return Rule(name, expr, 0.0, where, str(error))


def _labels(rule: Obj) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(key), str(value)) for one in mappings(rule.get("labels")) for key, value in one.items()))


def _seconds(text: object) -> float | None:
    """A duration of a group; None where there is none that can be read."""
    if not text:
        return None
    try:
        return duration_s(str(text))
    except Unsupported:
        return None
