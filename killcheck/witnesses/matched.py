"""What an alert's matchers and joins rest on: labels that nobody here knows, and values that no series has.

Labels of the scrape (``job``, ``instance``) are a Prometheus' own, and of the card (``modelName``) the machine's: a
matcher on one of these, or a join by one, is not decided here. A label that a metric has, with a value that no series
of it has, is why the alert is silent.

Sources: prometheus.io/docs "Jobs and instances"; kube-state-metrics docs/metrics; dcgm-exporter's rendermetrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Protocol

from killcheck.promql.evaluation import matcher
from killcheck.promql.language import Expr, UnknownSeries

__all__ = ["known", "nowhere", "taken"]

#: What the scrape of an exporter is called by everybody's recipes: kube-prometheus', and the rules made for it.
_JOBS = {("job", "=", "kube-state-metrics")}
#: Why no drill produces series that are known, by how their names begin.
_ANOTHERS = {
    **dict.fromkeys(
        ("kube_cronjob_", "kube_job_owner"),
        "a drill fires a copy that its CronJob does not own, so what they say here is not what they say at night",
    ),
    "karpenter_": "Karpenter's own figures, whose names and labels change with its version, are not made here",
    "kueue_": "Kueue's own figures are not made here",
    "keda_": "KEDA's own figures are not made here",
}
_OF_THE_SCRAPE = frozenset({"job", "instance"})
_SHOWN = 3


class Known(Protocol):
    """What is known of series."""

    def known(self, name: str) -> bool:
        """Whether a drill says whether such a series is there."""

    def labels(self, name: str) -> Mapping[str, set[str]] | None:
        """The values of every label of a metric's series; None where nobody can say."""


def known(expr: Expr, source: Known) -> None:
    """Raises UnknownSeries where an expression turns on a label of which nothing is known."""
    for name in sorted(expr.metrics):
        why = next((why for begins, why in _ANOTHERS.items() if name.startswith(begins)), "")
        if why and not source.known(name):
            raise UnknownSeries(f"{name}: {why}")
    there = {name: source.labels(name) for name in expr.metrics}
    for name, matchers in expr.selectors:
        strange = next((one[0] for one in matchers if _unknown(name, one, there[name])), "")
        if strange in _OF_THE_SCRAPE:
            raise UnknownSeries(f"{name}: what the scrape calls its {strange} is not known")
        if strange:
            near = _near(strange, there[name])
            raise UnknownSeries(f"{name}: whether it has a label {strange} is not known{near}")
    every = {label for has in there.values() for label in has or ()} | expr.made
    apart = sorted(expr.joined - every) if all(has is not None for has in there.values()) else []
    if apart and any(there.values()):
        raise UnknownSeries(f"series are joined by {apart[0]}, a label of which nothing is known")
    _one_spelling(expr)


def _unknown(name: str, one: tuple[str, str, str], has: Mapping[str, set[str]] | None) -> bool:
    """Whether nobody can say if a matcher holds; which labels of objects are exported is known."""
    label = one[0]
    if one in _JOBS or label == "__name__" or not has or _is_of_an_object(name, label):
        return False
    return label not in has or label in _OF_THE_SCRAPE


def _is_of_an_object(name: str, label: str) -> bool:
    return name.startswith("kube_") and name.endswith("_labels") and label.startswith("label_")


def _near(label: str, has: Mapping[str, set[str]] | None) -> str:
    near = get_close_matches(label, has or (), 1, 0.8)
    return f" (it has {near[0]})" if near else ""


def _one_spelling(expr: Expr) -> None:
    """A scrape keeps a label of the exporter's, or calls it ``exported_``: what reads both matches nothing."""
    for name, matchers in expr.selectors:
        read = {label for label, _, _ in matchers}
        both = sorted(label for label in read if f"exported_{label}" in read)
        if both and name.startswith("DCGM_"):
            raise UnknownSeries(
                f"the scrape keeps {both[0]} or calls it exported_{both[0]}, and {name} is read by both"
            )


def nowhere(expr: Expr, source: Known) -> Iterator[str]:
    """Matchers that no series satisfies by any of its values, a sentence each."""
    for name, matchers in expr.selectors:
        has = source.labels(name) or {}
        for label, how, value in matchers:
            values = has.get(label)
            if has and not values and _is_of_an_object(name, label) and not matcher(label, how, value)({}):
                yield f"no {name} has a label {label}"
            if values and not any(matcher(label, how, value)({label: one}) for one in values):
                shown = ", ".join(sorted(values)[:_SHOWN]) + (", ..." if len(values) > _SHOWN else "")
                yield f'no {name} has {label}{how}"{value}" (there is {shown})'


def taken(expr: Expr) -> Iterator[str]:
    """What of the scrape is taken to be as everybody has it."""
    said = {one for _, matchers in expr.selectors for one in matchers} & _JOBS
    yield from (f'the scrape gives its series {label}="{value}"' for label, _, value in sorted(said))
