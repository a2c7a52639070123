"""Runs to report on, made of events alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from killcheck import events
from killcheck.reports.story import RunStory, tell

AT = datetime(2026, 1, 15, 3, 0, tzinfo=UTC)

FINDING = {
    "probe": "image-unpinned",
    "severity": "error",
    "object": "CronJob/inference/nightly-off",
    "message": "no digest",
    "remedy": "pin it",
    "evidence": [],
    "patch": None,
    "file": "deploy/off.yaml",
    "line": 12,
    "unproven": False,
    "failures": [1],
}
FENCE = {
    "pool": "gpu",
    "verdict": "exposed",
    "worst_instance": "p5.48xlarge",
    "max_devices_per_node": 8,
    "max_usd_per_hour": 55.04,
    "door": "NodePool gpu has no upper bound",
    "remedy": "bound it",
}


def result(layer="nightly-off", faults=(), verdict="survived", **more):
    """A drill's entry in the JSON document."""
    off = verdict in ("survived", "covered")
    return {
        "layer": layer,
        "faults": list(faults),
        "title": "",
        "verdict": verdict,
        "why": f"it is {verdict}",
        "off_by": layer if off else None,
        "stuck_at": None if off else "image_pulled",
        "cause": None if off else "ImagePullBackOff: gone",
        "remedy": None if off else "pin the image",
        "evidence": [],
        "failures": [],
        "seconds_to_zero": 12.0 if off else None,
        "seconds_to_drained": None,
        "watched_s": 100.0,
        "usd": 1.5,
        "usd_per_hour": 10.0,
        "next_chance": None,
        "usd_until_next_chance": None,
        "phases": [
            {"phase": "triggered", "at_s": 0.0, "deadline_s": None},
            {"phase": "pods_gone", "at_s": 12.0 if off else None, "deadline_s": 300.0},
        ],
        "bites": dict.fromkeys(faults, "seen"),
        "notes": [],
        "healed": [],
        "problems": [],
        "gpu_pods": [],
        **more,
    }


def record(results, *, run="r1", findings=(), fences=(), exit_code=0, finished=True, cluster="staging"):
    """The events of a run with these results."""
    verdict = "exposed" if any(r["verdict"] == "exposed" for r in results) else "survived"
    made = [events.RunStarted(at=AT, run=run, version="0", cluster=cluster, real=True, kill_path="inference")]
    for r in results:
        drill = f"{r['layer']}/{'+'.join(r['faults'])}"
        made += [
            events.DrillStarted(
                at=AT,
                drill=drill,
                layer=r["layer"],
                layer_type="dead-man",
                faults=r["faults"],
                deadlines={"pods_gone": 300.0},
                proof=["P1"],
                title=r["title"],
            ),
            events.Triggered(at=AT, drill=drill, how="by hand"),
            *(events.FaultInjected(at=AT, drill=drill, fault=f, changes=["Secret x created"]) for f in r["faults"]),
            events.Sampled(at=AT, drill=drill, gpu_pods=1, nodes=1, replicas=1, usd=0.0),
            events.DrillFinished(at=AT + timedelta(seconds=100), drill=drill, result=r),
        ]
    made += [events.Found(at=AT, finding=f) for f in findings] + [events.Fenced(at=AT, fence=f) for f in fences]
    if finished:
        made.append(events.RunFinished(at=AT + timedelta(seconds=200), verdict=verdict, exit_code=exit_code))
    return made


def story(results, **more) -> RunStory:
    """The run that such events tell."""
    return tell(record(results, **more))
