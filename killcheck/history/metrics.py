"""Prometheus text of a history: when each layer was last proven under each set of faults, and what it took.

An absent sample means "not seen": what was never proven has no time. Source: prometheus.io, exposition formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from killcheck.history.series import Series, Stand, Story
from killcheck.reports.prometheus import head, labelled

__all__ = ["LAST_PROVEN", "metrics"]

LAST_PROVEN = "killcheck_last_proven_timestamp_seconds"


def metrics(story: Story) -> str:
    """The metrics of all series."""
    return "\n".join(_lines(story)) + "\n"


def _lines(story: Story) -> Iterator[str]:
    yield from head("killcheck_history_unreadable", "Records that could not be used, and may say otherwise.")
    yield f"killcheck_history_unreadable {len(story.unreadable)}"
    if not story.series:
        return
    yield from _each(
        story,
        LAST_PROVEN,
        "When the layer was last seen to turn the GPUs off under these faults (Unix time).",
        lambda one: None if one.last_proven is None else round(one.last_proven.at),
    )
    yield from _each(
        story,
        "killcheck_proof_mean_age_seconds",
        "Mean seconds since the last proof, over the time from the first night till now; absent: never proven.",
        lambda one: None if one.mean_age_s is None else round(one.mean_age_s),
    )
    yield from _each(
        story,
        "killcheck_at_risk_usd",
        "Dollars until the layer's next chance, where its last night was exposed.",
        lambda one: one.at_risk_usd,
    )
    yield from head("killcheck_stand", "1 for how a layer stands under these faults, 0 for the others.")
    for one in story.series:
        for stand in Stand:
            yield f"killcheck_stand{_labels(one, stand=stand)} {int(one.stand is stand)}"
    for name, text, read in (
        ("killcheck_history_seconds_to_zero", "Seconds until no GPU pod was left, of all proven nights.", "to_zero"),
        ("killcheck_history_seconds_to_drained", "Seconds to drained nodes, of all proven nights.", "to_drained"),
    ):
        known = [(one, took) for one in story.series if (took := getattr(one, read)) is not None]
        if known:
            yield from head(name, text)
        for one, took in known:
            yield f"{name}{_labels(one, of='median')} {took.median_s:.3f}"
            yield f"{name}{_labels(one, of='p95')} {took.p95_s:.3f}"


def _each(story: Story, name: str, text: str, read: Callable[[Series], float | None]) -> Iterator[str]:
    known = [(one, value) for one in story.series if (value := read(one)) is not None]
    if known:
        yield from head(name, text)
    yield from (f"{name}{_labels(one)} {value}" for one, value in known)


def _labels(one: Series, **more: str) -> str:
    last = one.last
    return labelled(
        {
            "kill_path": last.kill_path,
            "cluster": last.cluster,
            "layer": last.layer,
            "faults": ",".join(last.faults),
            "night": last.title,
            **more,
        }
    )
