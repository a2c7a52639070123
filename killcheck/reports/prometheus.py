"""Prometheus text format, for a textfile collector or Pushgateway: verdict and times per layer and fault."""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.reports.story import DrillStory, RunStory

__all__ = ["prometheus"]

VERDICTS = ("survived", "covered", "exposed", "inconclusive", "unfinished")


def prometheus(story: RunStory) -> str:
    """The metrics of one run. ``killcheck_last_run_timestamp_seconds`` is what the alert on silence watches."""
    return "\n".join(_lines(story)) + "\n"


def _lines(story: RunStory) -> Iterator[str]:
    ended = story.finished.at if story.finished else story.started.at
    yield "# HELP killcheck_last_run_timestamp_seconds When the last run ended (Unix time)."
    yield "# TYPE killcheck_last_run_timestamp_seconds gauge"
    yield f"killcheck_last_run_timestamp_seconds{_labels(story)} {ended.timestamp():.0f}"
    yield "# HELP killcheck_verdict 1 for the verdict of the last drill of a layer under a fault, 0 for the others."
    yield "# TYPE killcheck_verdict gauge"
    for drill in story.drills:
        for verdict in VERDICTS:
            yield f"killcheck_verdict{_labels(story, drill, verdict=verdict)} {int(drill.verdict == verdict)}"
    for name, key, text in (
        ("killcheck_seconds_to_zero", "seconds_to_zero", "Seconds from the trigger until no GPU pod was left."),
        ("killcheck_seconds_to_drained", "seconds_to_drained", "Seconds from the trigger to drained nodes."),
        ("killcheck_usd", "usd", "Dollars that the nodes in scope cost while the drill watched."),
    ):
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} gauge"
        for drill in story.drills:
            value = drill.result.get(key)
            if value is not None:  # an absent sample, not a zero: it was not seen
                yield f"{name}{_labels(story, drill)} {value}"


def _labels(story: RunStory, drill: DrillStory | None = None, **more: str) -> str:
    labels = {"kill_path": story.started.kill_path, "cluster": story.started.cluster}
    if drill is not None:
        labels |= {"layer": drill.started.layer, "faults": ",".join(drill.started.faults)}
    labels |= more
    return "{" + ",".join(f'{key}="{_escape(value)}"' for key, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
