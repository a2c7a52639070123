"""Whether an alert's rule is loaded, evaluated on series that are scraped, and sent; and by which Prometheus.

Sources: prometheus-operator Documentation/api-reference (Prometheus, ThanosRuler: ruleSelector, ruleNamespaceSelector,
evaluationInterval) and pkg/operator/rules.go (one rule that is refused drops its object).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field, structs

from killcheck.alerting import promtool, servers
from killcheck.alerting.monitors import EXPORTERS, Scrape, families, matches, scrape, within
from killcheck.alerting.rules import Record, Rule, records_of
from killcheck.kube.objects import Obj, dig, labels_of, mappings, name_of, namespace_of, ref_of
from killcheck.promql.language import Unsupported, duration_s, parse

__all__ = ["Loading", "Server", "as_loaded", "recorded", "scrapes", "seen"]

#: How deep recorded series are followed.
_MAX_DEPTH = 8


class Server(Struct, frozen=True):
    """A Prometheus or ThanosRuler, and how it scrapes each exporter of which a monitor is there."""

    obj: Obj
    scrapes: Mapping[str, Scrape] = field(default_factory=dict)

    @property
    def ref(self) -> str:
        """What it is called."""
        return ref_of(self.obj)

    def loads(self, obj: Obj, spaces: dict[str, dict[str, str]]) -> bool:
        """Whether it selects a PrometheusRule."""
        selector = dig(self.obj, "spec", "ruleSelector")
        return within(self.obj, "ruleNamespaceSelector", obj, spaces) and matches(selector, labels_of(obj))


def seen(
    found: Sequence[Obj], monitors: Sequence[Obj], services: Sequence[Obj], spaces: dict[str, dict[str, str]]
) -> list[Server]:
    """Each Prometheus and ThanosRuler, with how it scrapes."""
    return [Server(one, scrapes(one, monitors, services, spaces)) for one in found]


def scrapes(
    server: Obj | None, monitors: Sequence[Obj], services: Sequence[Obj], spaces: dict[str, dict[str, str]]
) -> dict[str, Scrape]:
    """How each exporter is scraped, of those of which a monitor is there."""
    each = ((name, scrape(name, server, monitors, services, spaces)) for name in EXPORTERS)
    return {name: one for name, one in each if one is not None}


class Loading(Struct, frozen=True):
    """Every server that was seen (none: nobody saw who loads rules), the labels of namespaces, what rules record, and
    how the series were scraped on which rules are evaluated (``usual``). ``agents``: what scrapes and loads no rules.
    """

    found: Sequence[Server] = ()
    spaces: dict[str, dict[str, str]] = field(default_factory=dict)
    records: Sequence[Record] = ()
    usual: Mapping[str, Scrape] = field(default_factory=dict)
    agents: Sequence[str] = ()


def as_loaded(rules: Sequence[Rule], objects: Iterable[Obj], by: Loading) -> list[Rule]:
    """The rules, each with why it never fires or nobody knows, or by what its Prometheus changes it."""
    said = {f"{namespace_of(obj)}/{name_of(obj)}": obj for obj in objects}
    refused = {
        where: promtool.refusal(dig(said[where], "spec", "groups", default=[])) for where in {r.object for r in rules}
    }
    return [
        structs.replace(rule, silent=f"Prometheus refuses its PrometheusRule whole: {refused[rule.object]}")
        if refused[rule.object]
        else _by_one(rule, said[rule.object], by)
        for rule in rules
    ]


def recorded(objects: Iterable[Obj], found: Sequence[Server], spaces: dict[str, dict[str, str]]) -> list[Record]:
    """What rules record, each with who does: what its operator takes, and some server loads."""
    records = list[Record]()
    for obj in objects:
        by = frozenset(one.ref for one in found if one.loads(obj, spaces))
        own = records_of([obj]) if by or not found else []
        if own and not promtool.refusal(dig(obj, "spec", "groups", default=[])):
            records += [structs.replace(one, by=by) for one in own]
    return records


def _by_one(rule: Rule, obj: Obj, by: Loading) -> Rule:
    """By the first server that nothing hinders; else with what hinders the one that is hindered least."""
    if not by.found:
        certain, doubt = _hindered(rule, None, by)
        alone = f"{by.agents[0]} loads no rules, and no Prometheus that does is here" if by.agents else ""
        return _but(rule, certain, alone or doubt)
    loads = [one for one in by.found if one.loads(obj, by.spaces)]
    if not loads:
        return structs.replace(rule, silent=f"no Prometheus here loads it: {_wanted(by.found[0].obj)}")
    each = [(*_hindered(rule, one, by), one) for one in loads]
    certain, doubt, first = min(each, key=lambda one: (bool(one[0]), bool(one[1])))
    return _with_interval(_but(structs.replace(rule, by=first.ref), certain, doubt), first.obj)


def _but(rule: Rule, certain: str, doubt: str) -> Rule:
    return structs.replace(rule, silent=certain, problem=rule.problem or ("" if certain else doubt))


def _hindered(rule: Rule, server: Server | None, by: Loading) -> tuple[str, str]:
    """Why nothing comes of a rule at a server: (what is certain, what nobody knows)."""
    told = [*_of_series(rule, server, by)]
    if server is not None:
        told += [*servers.hindrances(server.obj), (servers.sends_nowhere(server.obj), "")]
    return next((one for one, _ in told if one), ""), next((one for _, one in told if one), "")


def _of_series(rule: Rule, server: Server | None, by: Loading) -> Iterator[tuple[str, str]]:
    """What of the scrapes of its series hinders a rule."""
    either = re.search(r"\b(?:or|absent\w*)\b", rule.expr)
    scraped = by.usual if server is None else server.scrapes
    for exporter, names in families(_metrics(rule.expr, server, by.records)).items():
        one = scraped.get(exporter)
        if one is None:
            continue
        lacking = next(filter(None, map(one.lacks, names)), "")
        if lacking:
            yield ("", lacking) if either else (lacking, "")
        other = by.usual.get(exporter, one)
        if (one.honours, one.node, one.namespace) != (other.honours, other.node, other.namespace):
            yield "", f"{exporter} is scraped in another way by another Prometheus, by {other.monitor}"
        yield "", one.problem


def _metrics(expr: str, server: Server | None, records: Sequence[Record], depth: int = 0) -> set[str]:
    """The metrics of an expression, and of what is recorded in it."""
    try:
        names = set(parse(expr).metrics)
    except Unsupported:
        names = set(re.findall(r"\b(?:DCGM_|kube_)\w+", expr))
    for one in records if depth < _MAX_DEPTH else ():
        if one.name in names and one.is_of("" if server is None else server.ref):
            names |= _metrics(one.expr, server, records, depth + 1)
    return names


def _wanted(server: Obj) -> str:
    """What the first of them selects, in its own words."""
    for field_ in ("ruleSelector", "ruleNamespaceSelector"):
        said = dig(server, "spec", field_)
        wanted = ", ".join(f"{key}={value}" for one in mappings(dig(said, "matchLabels")) for key, value in one.items())
        if wanted:
            return f"{field_} of {ref_of(server)} is {wanted}"
    return f"{ref_of(server)} selects no rules of that namespace"


def _with_interval(rule: Rule, server: Obj) -> Rule:
    usual = dig(server, "spec", "evaluationInterval")
    if not usual or rule.interval_s is not None:
        return rule
    try:
        return structs.replace(rule, interval_s=duration_s(str(usual)))
    except Unsupported as error:
        return structs.replace(rule, problem=str(error))
