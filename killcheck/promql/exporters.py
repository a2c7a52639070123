"""What the exporters of a GPU cluster call their series: a name that none of them makes is never there.

The names are in `exporters.csv`, with their sources and dates. A family is told by how its names begin; of a name that
belongs to no family nobody can say anything.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from killcheck.text import lazy_re

__all__ = ["exported_as_shipped", "exporter_of", "missing"]

#: How the names of a family begin, and who makes them. What is read by `kube_customresource_` is a user's own.
_FAMILIES = (
    (lazy_re.compile(r"DCGM_"), "dcgm-exporter"),
    (lazy_re.compile(r"kube_(?!customresource)"), "kube-state-metrics"),
    (lazy_re.compile(r"kueue_"), "kueue"),
)
_OF_HISTOGRAMS = ("_bucket", "_sum", "_count")


@cache
def _kinds() -> dict[str, dict[str, str]]:
    """Metrics by exporter, each with its kind."""
    text = Path(__file__).with_name("exporters.csv").read_text("utf-8")
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            exporter, metric, kind = line.split(",")
            found.setdefault(exporter, {})[metric] = kind
    return found


def exporter_of(metric: str) -> str | None:
    """Who makes metrics of this family; None where the name begins like none that is known."""
    return next((name for begins, name in _FAMILIES if begins.match(metric)), None)


def missing(metric: str) -> str | None:
    """Why a series is never there, in words; None where it may be.

    A name with a colon is a recording rule's and no exporter's.
    """
    exporter = exporter_of(metric)
    if exporter is None or ":" in metric:
        return None
    kinds = _kinds()[exporter]
    base = next((metric.removesuffix(end) for end in _OF_HISTOGRAMS if metric.endswith(end)), metric)
    if kinds.get(metric) == "histogram":
        return (
            f"{metric} is a histogram of {exporter}: its series are {', '.join(metric + end for end in _OF_HISTOGRAMS)}"
        )
    if metric in kinds or kinds.get(base) == "histogram":
        return None
    return f"{exporter} makes no {metric}{_nearest(metric, kinds)}"


def _nearest(metric: str, kinds: dict[str, str]) -> str:
    from difflib import get_close_matches  # only where something is wrong

    shipped = [name for name, kind in kinds.items() if kind != "field"]
    near = get_close_matches(metric, shipped, 1, 0.8) or get_close_matches(metric, kinds, 1, 0.8)
    return f" (it makes {near[0]})" if near else ""


def exported_as_shipped(metric: str) -> bool:
    """Whether dcgm-exporter has it without a counters file of the user's own; True for every other family."""
    return exporter_of(metric) != "dcgm-exporter" or _kinds()["dcgm-exporter"].get(metric) in ("gauge", "counter")
