"""Prometheus text format, for a textfile collector or a Pushgateway: what the last run found, per layer and fault.

``ci/prometheus/`` has the alert rules over these metrics and a dashboard. An absent sample means "not seen": nothing
that was not measured is written as a zero. Source: prometheus.io, exposition formats; Pushgateway's README (POST
replaces the metrics of the same names in a group and leaves the others: the last success outlives a failed run).

``prometheus_client`` keeps what a living process counts; these samples are of a record, and ``promtool`` reads them in
the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from killcheck.reports import rests
from killcheck.reports.base import Delivery, Place, Written
from killcheck.reports.post import push
from killcheck.reports.story import DrillStory, RunStory

__all__ = ["LAST_SUCCESS", "METRICS", "PUSHED", "carry_over", "grouping", "head", "labelled", "prometheus"]

VERDICTS = ("survived", "covered", "accepted", "exposed", "inconclusive", "unfinished")
SEVERITIES = ("error", "warning", "note")
FENCES = ("safe", "exposed", "unproven")
#: When a run last ended with everything proven: what the alert on silence watches.
LAST_SUCCESS = "killcheck_last_success_timestamp_seconds"
_SUCCESS_HELP = "When a run last ended as it must, with exit code 0 (Unix time)."


def prometheus(story: RunStory) -> str:
    """The metrics of one run; one that was not a success has no :data:`LAST_SUCCESS` of its own: see ``carry_over``."""
    return "\n".join(_lines(story)) + "\n"


def carry_over(text: str, earlier: str) -> str:
    """``text`` with the last success of an ``earlier`` file, where it has none of its own for the same labels."""
    if re.search(rf"^{LAST_SUCCESS}\{{", text, re.MULTILINE):
        return text
    own = re.search(r"^killcheck_last_run_timestamp_seconds(\{.*\}) ", text, re.MULTILINE)
    for line in earlier.splitlines():
        if own and line.startswith(f"{LAST_SUCCESS}{own[1]} "):
            return text + "\n".join([*head(LAST_SUCCESS, _SUCCESS_HELP), line]) + "\n"
    return text


def grouping(story: RunStory) -> dict[str, str]:
    """The Pushgateway's grouping key of a run: one group a kill path and cluster."""
    return {"job": "killcheck", "kill_path": story.started.kill_path, "cluster": story.started.cluster}


def _lines(story: RunStory) -> Iterator[str]:
    ended = (story.finished.at if story.finished else story.started.at).timestamp()
    yield from head("killcheck_last_run_timestamp_seconds", "When the last run ended (Unix time).")
    yield f"killcheck_last_run_timestamp_seconds{_labels(story)} {ended:.0f}"
    if story.finished:
        yield from head("killcheck_exit_code", "Exit code of the last run: 0 is proven, 5 is dirty.")
        yield f"killcheck_exit_code{_labels(story)} {story.finished.exit_code}"
        if story.finished.exit_code == 0:
            yield from head(LAST_SUCCESS, _SUCCESS_HELP)
            yield f"{LAST_SUCCESS}{_labels(story)} {ended:.0f}"
    yield from _drills(story)
    yield from _charged(story)
    yield from _rests(story)
    if story.findings:
        yield from head("killcheck_findings", "Findings of the last run by severity.")
        for severity in SEVERITIES:
            count = sum(f["severity"] == severity and not f.get("unproven") for f in story.findings)
            yield f"killcheck_findings{_labels(story, severity=severity)} {count}"
    if story.fences:
        yield from head("killcheck_fence", "1 for the verdict on what a pool could launch at worst, 0 for the others.")
        for fence in story.fences:
            for verdict in FENCES:
                is_it = int(fence["verdict"] == verdict)
                yield f"killcheck_fence{_labels(story, pool=fence['pool'], verdict=verdict)} {is_it}"


def _drills(story: RunStory) -> Iterator[str]:
    if not story.drills:
        return
    yield from head("killcheck_verdict", "1 for the verdict of a layer's last drill under a fault, 0 for the others.")
    for drill in story.drills:
        for verdict in VERDICTS:
            yield f"killcheck_verdict{_of(story, drill, verdict=verdict)} {int(drill.standing == verdict)}"
    yield from head("killcheck_dirty", "1 where something that a drill changed could not be put back.")
    for drill in story.drills:
        if drill.result:
            yield f"killcheck_dirty{_of(story, drill)} {int(bool(drill.result.get('problems')))}"
    figures: tuple[tuple[str, str, Callable[[DrillStory], Any]], ...] = (
        (
            "killcheck_seconds_to_zero",
            "Seconds from the trigger until no GPU pod was left.",
            lambda drill: drill.result.get("seconds_to_zero"),
        ),
        (
            "killcheck_seconds_to_drained",
            "Seconds from the trigger to drained nodes.",
            lambda drill: drill.result.get("seconds_to_drained"),
        ),
        (
            "killcheck_usd",
            "Dollars that the nodes in scope cost while the drill watched.",
            lambda drill: drill.result.get("usd"),
        ),
        (
            "killcheck_usd_per_item",
            "Dollars an item that was done while the drill watched, by the spec's own count.",
            lambda drill: (drill.result.get("bill") or {}).get("usd_per_item_seen"),
        ),
        (
            "killcheck_spot_share",
            "The part of a drill's GPU-hours on spot capacity.",
            lambda drill: (drill.result.get("bill") or {}).get("spot_share"),
        ),
        ("killcheck_usd_exposed", "Dollars until the layer's next chance, where the drill left the GPUs on.", _exposed),
    )
    for name, text, read in figures:
        samples = [(drill, read(drill)) for drill in story.drills]
        if any(value is not None for _, value in samples):
            yield from head(name, text)
        for drill, value in samples:
            if value is not None:
                yield f"{name}{_of(story, drill)} {value}"


def _charged(story: RunStory) -> Iterator[str]:
    """Whose GPU-hours the drills were: a sample each, with the labels that say whose as one."""
    every = [(drill, row) for drill in story.drills for row in (drill.result.get("bill") or {}).get("by") or ()]
    for name, key, text in (
        (
            "killcheck_charged_gpu_hours",
            "gpu_hours",
            "GPU-hours of a drill by who held them last; nobody's: no workload.",
        ),
        ("killcheck_charged_idle_gpu_hours", "idle_gpu_hours", "GPU-hours of these in which nothing was held."),
        ("killcheck_charged_usd", "usd", "Dollars of a drill by who held the GPUs."),
    ):
        known = [(drill, row) for drill, row in every if row.get(key) is not None]
        if known:
            yield from head(name, text)
        for drill, row in known:
            owner = ",".join(f"{label}={value}" for label, value in sorted(row["labels"].items()))
            of = _of(story, drill, namespace=row["namespace"], workload=row["workload"], owner=owner)
            yield f"{name}{of} {row[key]}"


def _rests(story: RunStory) -> Iterator[str]:
    """What verdicts rest on, as samples whose labels say it: 1 for each line."""
    every = [(drill, line) for drill in story.drills for line in rests.of_drill(drill.result)]
    if every or story.notes:
        yield from head("killcheck_rests_on_info", "1 for each thing that a verdict of the last run rests on.")
    yield from (f"killcheck_rests_on_info{_labels(story, because=note)} 1" for note in story.notes)
    yield from (f"killcheck_rests_on_info{_of(story, drill, because=line)} 1" for drill, line in every)
    yield from head("killcheck_assumptions", "What a person vouches for in the last run's verdicts, until a date.")
    found = rests.assumed_by_hand(drill.result for drill in story.drills if drill.result)
    yield f"killcheck_assumptions{_labels(story)} {len(found)}"


def _exposed(drill: DrillStory) -> Any:
    if drill.standing != "exposed":
        return None
    until = drill.result.get("usd_until_next_chance")
    return until if until is not None else drill.result.get("usd")


def head(name: str, text: str) -> tuple[str, str]:
    """The two lines before the samples of a gauge."""
    return f"# HELP {name} {text}", f"# TYPE {name} gauge"


def _of(story: RunStory, drill: DrillStory, **more: str) -> str:
    return _labels(
        story, layer=drill.started.layer, faults=",".join(drill.started.faults), night=drill.started.title, **more
    )


def _labels(story: RunStory, **more: str) -> str:
    return labelled({"kill_path": story.started.kill_path, "cluster": story.started.cluster, **more})


def labelled(labels: Mapping[str, str]) -> str:
    """A sample's labels, in braces."""
    return "{" + ",".join(f'{key}="{_escape(value)}"' for key, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


METRICS = Written(
    "prometheus",
    "Prometheus text format, for the textfile collector.",
    lambda told: prometheus(told.story),
    place=Place.FILE,
    joined=carry_over,
)
PUSHED = Delivery(
    "pushgateway",
    "Push the metrics to a Prometheus Pushgateway.",
    to=lambda told, url: push(url, grouping(told.story), prometheus(told.story)),
    place=Place.ADDRESS,
)
