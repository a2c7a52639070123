"""Proof P5: would the alarm be raised where the GPUs stay on? Alert rules evaluated on what a drill produced.

The rules are the cluster's own PrometheusRules, with what they record; the series are what kube-state-metrics and
dcgm-exporter would have said of the pods, nodes and Jobs that the drill saw. Where the GPUs went off, they are taken to
have stayed on: an alarm is for that night. GPUs count as busy until the trigger and as idle from then on. Whom
Alertmanager tells is read where its configuration is (:mod:`killcheck.alerting.routing`); that it arrives is not seen
here, and so not claimed.

Where ``promtool`` is on the PATH, Prometheus' own engine is asked what a rule does that is not understood here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from killcheck.alerting.rules import Evaluated, Record, Rule
from killcheck.entries import Becomes, leaves
from killcheck.promql import exporters
from killcheck.promql.evaluation import EVALUATED, Matrix
from killcheck.promql.language import Expr, Labels, UnknownSeries, Unsupported, Vector, parse
from killcheck.text import lazy_re
from killcheck.witnesses import matched, promtool
from killcheck.witnesses.series import BEFORE_S, STEP_S, History

__all__ = ["evaluate", "rings_anyway"]

#: How often it is asked whether an alert fires while the GPUs work, in seconds.
LOOK_BACK_S = 3 * 3600.0
_LOOKS_OF_A_DAY = 8
#: Groups that are evaluated as often as this look at the trigger's own moment, as far as anybody can tell.
_OFTEN_S = 60.0
#: Series are looked back for so long (Prometheus' default): what is recorded more seldom has gaps.
_LOOKBACK_S = 300.0
#: How deep recorded series may rest on others.
_MAX_DEPTH = 8

#: Matchers of DCGM's series, and what series are joined by; labels in them that an exporter and its scrape both have.
_READ = lazy_re.compile(r"DCGM_\w+\s*\{[^{}]{0,4000}\}|\b(?:by|on)\s*\([^()]{0,4000}\)")
_SCRAPED = lazy_re.compile(r"[{(,]\s*((?:exported_)?(?:namespace|pod|container))\s*(?=[=!,)])")
#: Labels that programs on a node give it, of which nothing is known unless one of them was seen.
_DISCOVERED = lazy_re.compile(r"\blabel_(?:nvidia_com|feature_node_kubernetes_io)_\w+")


@leaves(
    "alerts",
    "whether what Alertmanager sends arrives, silences set by hand, its routes where no manifest has them",
    Becomes.SAID,
)
@leaves("alerts", "series of exporters other than kube-state-metrics and dcgm-exporter", Becomes.UNPROVEN)
def evaluate(
    rules: Iterable[Rule],
    history: History,
    within_s: float,
    records: Sequence[Record] = (),
) -> list[Evaluated]:
    """Each rule from the trigger on, step by step as Prometheus does, until it fires or ``within_s`` is over."""
    return [
        _evaluate(rule, _Recorded(history, [one for one in records if one.is_of(rule.by)]), within_s) for rule in rules
    ]


def rings_anyway(rule: Rule, history: History, end_s: float, records: Sequence[Record] = ()) -> bool:
    """Whether an alert is true for a whole day, long after everything went off at ``end_s``: of no night it says
    anything. One about Jobs tells of a Job that failed, and stays.
    """
    source = _Recorded(history, [one for one in records if one.is_of(rule.by)])
    try:
        expr = parse(rule.expr)
        about_jobs = any(name.startswith("kube_job_") for name in expr.metrics)
        looks = [end_s + BEFORE_S + n * LOOK_BACK_S for n in range(_LOOKS_OF_A_DAY)]
        return not about_jobs and all(expr.evaluate(source, at) for at in looks)
    except Unsupported:
        return False


def _evaluate(rule: Rule, source: _Recorded, within_s: float) -> Evaluated:
    if rule.problem or rule.silent:
        return Evaluated(rule, unproven=rule.problem, silent=rule.silent)
    source.history.begin()
    try:
        expr = parse(rule.expr)
        matched.known(expr, source)
        unseen = _DISCOVERED.findall(rule.expr)
        lacking = sorted(set(unseen) - source.history.label_names()) if unseen else []
        if lacking:
            raise UnknownSeries(f"{lacking[0]}: nothing here gives nodes such a label")
        fired = _fires(rule, expr, source, within_s)
        fires_s, labels = fired or (None, frozenset[tuple[str, str]]())
        if fires_s is None and (several := _indistinct(rule, expr, source, within_s)):
            return Evaluated(rule, silent=several)
        if fires_s is not None and _always(expr, source):
            told = "it fires while the GPUs work too, day and night: of this night it says nothing"
            return Evaluated(rule, unproven=told)
    except UnknownSeries as error:
        return Evaluated(rule, unproven=f"not evaluated here: {error}")
    except Unsupported as error:
        return promtool.ask(rule, source.history, source.records, within_s) or Evaluated(
            rule, unproven=f"not evaluated here: {error}"
        )
    silent = "" if fires_s is not None else next(_silent(expr, source), "")
    return Evaluated(rule, fires_s, silent=silent, taken=tuple(_taken(rule, expr, source)), labels=labels)


def _silent(expr: Expr, source: _Recorded) -> Iterator[str]:
    """Why an expression is never true: a metric that nobody makes, labels that nobody exports."""
    yield from filter(None, map(source.missing, sorted(expr.metrics)))
    yield from matched.nowhere(expr, source)
    if source.history.labels_taken:
        return
    for name in sorted(expr.metrics & {"kube_node_labels", "kube_pod_labels", "kube_deployment_labels"}):
        if not source.history.instant(name, 0.0):
            yield f"kube-state-metrics makes no {name} without --metric-labels-allowlist"


def _fires(rule: Rule, expr: Expr, source: _Recorded, within_s: float) -> tuple[float, Labels] | None:
    """When, of the moments at which its group is evaluated, it first has held for long enough; and by which series."""
    since: dict[Labels, float] = {}
    for at in _moments(rule, within_s):
        found = expr.evaluate(source, at - rule.offset_s)
        if _failed(rule, found):
            found = Vector()
        since = {labels: since.get(labels, at) for labels in found}
        held = next((labels for labels, begun in since.items() if at - begun >= rule.for_s), None)
        if held is not None:
            return at, held
    return None


def _moments(rule: Rule, within_s: float) -> Iterator[float]:
    """When a rule is evaluated: from the trigger on, or, of a group that is so more seldom, one interval after it."""
    step = max(STEP_S, rule.interval_s or 0.0)
    first = 0 if step <= _OFTEN_S else 1
    return (n * step for n in range(first, int(within_s // step) + 1))


def _failed(rule: Rule, found: Vector) -> bool:
    """Whether an evaluation fails: more alerts than its group allows, or several that its labels make the same."""
    return bool(rule.limit and len(found) > rule.limit) or len(_labelled(rule, found)) < len(found)


def _labelled(rule: Rule, found: Vector) -> set[Labels]:
    """The alerts' labels, with the rule's own on top; what a template says is of each alert."""
    own = {key: value for key, value in rule.labels if "{{" not in value}
    return {frozenset((dict(labels) | own).items()) for labels in found} if own else set(found)


def _indistinct(rule: Rule, expr: Expr, source: _Recorded, within_s: float) -> str | None:
    """Why every evaluation of a rule that would hold fails; None: none does."""
    for at in _moments(rule, within_s):
        found = expr.evaluate(source, at - rule.offset_s)
        if rule.limit and len(found) > rule.limit:
            return f"its group's limit is {rule.limit}, and {len(found)} alerts are more: Prometheus drops them all"
        if _failed(rule, found):
            return "its labels make several alerts the same, which Prometheus refuses"
    return None


def _always(expr: Expr, source: _Recorded) -> bool:
    """Whether it is true at every look of the week before the trigger, in which the GPUs worked."""
    looks = range(1, int(BEFORE_S // LOOK_BACK_S))
    return all(expr.evaluate(source, -STEP_S if n == 1 else -n * LOOK_BACK_S) for n in looks)


def _taken(rule: Rule, expr: Expr, source: _Recorded) -> Iterator[str]:
    """What an alert rests on that no drill sees: how the exporters and the scrape are set up."""
    own = [
        name for name in sorted(expr.metrics) if not exporters.exported_as_shipped(name) and not source.missing(name)
    ]
    if own:
        yield f"dcgm-exporter's counters file names {', '.join(own)}, which it does not as shipped"
    of_cards = any(name.startswith("DCGM_") for name in expr.metrics)
    if of_cards and source.history.honours_taken and re.search(r"[(,{]\s*node\s*[),=!]", rule.expr):
        yield "the scrape gives dcgm-exporter's series a label node"
    if source.history.honours_taken:
        yield from _scraped([rule.expr, *source.recorded(expr.metrics)])
    yield from matched.taken(expr)
    if source.history.labels_taken and re.search(r"\bkube_\w+_labels\b", rule.expr):
        labels = sorted(set(re.findall(r"\blabel_\w+\b(?!\s*\()", rule.expr)))
        yield f"kube-state-metrics exports {', '.join(labels) or 'labels'} (--metric-labels-allowlist)"


def _scraped(texts: Iterable[str]) -> Iterator[str]:
    """Whose labels a scrape of dcgm-exporter keeps, where an expression reads them: honorLabels decides."""
    places = (place for text in texts if "DCGM_" in text for place in _READ.findall(text))
    read = {name for place in places for name in _SCRAPED.findall(place)}
    renamed = sorted(name for name in read if name.startswith("exported_"))
    if renamed:
        yield f"the scrape calls dcgm-exporter's labels {', '.join(renamed)} (honorLabels: false)"
    if read - set(renamed):
        yield f"the scrape keeps dcgm-exporter's labels {', '.join(sorted(read - set(renamed)))} (honorLabels: true)"


class _Recorded(Struct):
    """A history with what rules record of it, and nothing for what no exporter makes."""

    history: History
    records: Sequence[Record]
    _depth: int = 0

    def _of(self, name: str) -> list[Record]:
        return [one for one in self.records if one.name == name]

    def labels(self, name: str) -> Mapping[str, set[str]] | None:
        """The values of every label of a metric's series; None of what rules record, and of what is never there."""
        return None if self._of(name) or self.missing(name) else self.history.labels_of(name)

    def recorded(self, names: Iterable[str]) -> list[str]:
        """The expressions by which rules record such series."""
        return [one.expr for name in names for one in self._of(name)]

    def known(self, name: str) -> bool:
        """What was recorded, by the drill or by a rule; and what is known to be never there."""
        return self.history.known(name) or bool(self._of(name)) or self.missing(name) is not None

    def missing(self, name: str) -> str | None:
        """Why a metric is never there; None where it may be."""
        return None if self.history.known(name) or self._of(name) else exporters.missing(name)

    def spend(self, moments: int) -> None:
        """Count them. Raises Unsupported where they are too many."""
        self.history.spend(moments)

    def epoch(self, at: float) -> float:
        """Unix time."""
        return self.history.epoch(at)

    def instant(self, name: str, at: float) -> Vector:
        """Values then. Raises Unsupported for what is recorded of itself."""
        rules = self._of(name)
        if not rules:
            return self.history.instant(name, at)
        if self._depth > _MAX_DEPTH:
            raise Unsupported(f"{name} is recorded of itself")
        deeper, found = _Recorded(self.history, self.records, self._depth + 1), Vector()
        for rule in rules:
            if (rule.interval_s or 0.0) > _LOOKBACK_S:
                raise UnknownSeries(f"{name} is recorded every {rule.interval_s:.0f} s, and is not there in between")
            made = parse(rule.expr).evaluate(deeper, at)
            own = {frozenset((dict(labels) | dict(rule.labels)).items()): value for labels, value in made.items()}
            found |= own if len(own) == len(made) else {}  # Prometheus refuses several of the same labels
        return found

    def window(self, name: str, at: float, length: float) -> Matrix:
        """Samples in (at - length, at]; of what is recorded one an evaluation."""
        if not self._of(name):
            return self.history.window(name, at, length)
        found: Matrix = {}
        self.spend(EVALUATED * math.ceil(length / STEP_S))
        for n in range(math.floor((at - length) / STEP_S) + 1, math.floor(at / STEP_S) + 1):
            for labels, value in self.instant(name, n * STEP_S).items():
                found.setdefault(labels, []).append((n * STEP_S, value))
        return found
