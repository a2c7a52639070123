"""Deadlines as sums: schedule the executor, pull, run, stop the pods, consolidate, terminate; each with its reason."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from killcheck.discover.nodes import Pools
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, annotations_of, dig, name_of, namespace_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.spec.deadlines import MOMENTS, Deadlines, spec_key
from killcheck.spec.killpath import Layer
from killcheck.text import lazy_re
from killcheck.text.durations import format_duration
from killcheck.text.values import replace

__all__ = ["Suggested", "after_idling", "go_duration_s", "grace", "suggest"]

#: What a step may take beyond what is written down, in seconds: seen on an idle cluster, times ten.
_SCHEDULE_S, _PULL_S, _START_S, _MARGIN_S = 60.0, 120.0, 30.0, 60.0
#: The longest that an executor which makes a few API calls may reasonably run, in seconds.
_EXECUTOR_S = 120.0
#: The most that an executor may wait by itself, as its own ``sleep`` says, in seconds: longer is no end of a night.
_SLEEPS_S = 3600.0
_SLEEP = lazy_re.compile(r"\bsleep\s+(\d+(?:\.\d+)?)([smh]?)\b")
#: Without Karpenter: cluster-autoscaler's defaults, 10 min unneeded (``--scale-down-unneeded-time``) and its scan.
_AUTOSCALER_S = 660.0
#: How long a drained node's instance takes to terminate, in seconds.
_TERMINATE_S = 300.0
#: One more wave of nodes under a disruption budget: the earlier ones must be gone first.
_WAVE_S = 120.0
#: How long the pods of a target may take to stop, and an empty node to be taken, in seconds. A longer grace period,
#: ``preStop`` or ``consolidateAfter`` is what such a deadline is there to find: it never grows with them.
_GRACE_S, _EMPTY_S = 30, 300.0
_PART = lazy_re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_WORD_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
#: Words of a deadline for going off, and of durations that are none.
_DEADLINE = lazy_re.compile(
    r"(?i)(off|stop|stopped|shutdown|down|zero|kill|gone|release|freed?|drain)[-_.]?(within|by|after|deadline|max|slo|limit)"
    r"|(deadline|max|slo|within|limit)[-_.]?(to[-_.]?)?(gpu[-_.]?)?(off|stop|shutdown|down|zero|kill|gone|drain)"
    r"|time[-_.]?to[-_.]?(zero|off)|(off|kill|shutdown)[-_.]?deadline"
)
_NO_DEADLINE = lazy_re.compile(r"(?i)idle|keep|delay|cooldown|unneeded|grace|scale-down-after|autoscal|keda|karpenter")
#: Annotations that are for killcheck: ``killcheck.dev/pods-gone``.
_OWN = "killcheck.dev/"
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class Suggested(Struct, frozen=True):
    """Deadlines, and what a reader should know about them."""

    deadlines: Deadlines
    notes: tuple[str, ...] = ()


def go_duration_s(text: str) -> float | None:
    """Seconds of a Go duration (``1h30m``, ``0s``); None for ``Never`` and what is none."""
    parts = _PART.findall(text)
    return sum(float(number) * _UNIT_S[unit] for number, unit in parts) if parts else None


def suggest(
    objects: Sequence[Obj],
    targets: Sequence[Obj],
    cron_jobs: Sequence[Obj],
    pools: Pools,
    ran_s: Sequence[float] = (),
) -> tuple[Suggested, dict[str, str]]:
    """Deadlines for a kill path, and a comment for each that says how it came about.

    ``ran_s``: how many seconds its programs took in a rehearsal, where there was one; twice that is allowed for.
    """
    took = [*(_run_s(job) for job in cron_jobs), *(2.0 * math.ceil(seconds) for seconds in ran_s)]
    run_s = max(took, default=_EXECUTOR_S)
    start_s = _SCHEDULE_S + _PULL_S + _START_S
    written_s = start_s + run_s
    grace_s, grace_why, _ = max((grace(obj) for obj in targets), default=Grace(float(_GRACE_S), ""))
    stated, asked, notes = _stated([*targets, *_homes(objects, targets)])
    pods_s = asked.get("pods_gone_s", written_s + grace_s + _MARGIN_S)
    empty_s, empty_why = _empty(pools, sum(t.count for obj in targets for t in templates(obj)))
    drained_s = pods_s + empty_s + _MARGIN_S
    said = {
        "pod_scheduled_s": _SCHEDULE_S,
        "image_pulled_s": _SCHEDULE_S + _PULL_S,
        "container_started_s": start_s,
        "executor_finished_s": written_s,
        "scale_written_s": written_s,
        "pods_gone_s": pods_s,
        "node_drained_s": drained_s,
        "node_gone_s": drained_s + _TERMINATE_S,
        "instance_gone_s": drained_s + 2 * _TERMINATE_S,
    }
    spare = f"{format_duration(_MARGIN_S)} to spare"
    comments = {
        "deadlines.imagePulled": "a pull of two minutes; next to nothing where the image is on the node",
        "deadlines.scaleWritten": f"{format_duration(start_s)} to start, {format_duration(run_s)} to run"
        + (f" (seen in a rehearsal: {format_duration(round(max(ran_s)))})" if ran_s else ""),
        "deadlines.podsGone": f"{format_duration(grace_s)} of grace ({grace_why}), {spare}",
        "deadlines.nodeDrained": f"{empty_why}, {spare}",
        "deadlines.nodeGone": f"{format_duration(_TERMINATE_S)} for the instance to terminate",
    }
    said = _no_earlier(said | asked, asked)
    capped = {key: min(value, stated[key]) if key in stated else value for key, value in said.items()}
    heeded = {key: notes[key, value] for key, value in capped.items() if (key, value) in notes}
    comments |= {f"deadlines.{spec_key(key)}": f"stated by {why}" for key, why in heeded.items()}
    told = tuple(dict.fromkeys(f"deadlines of {why}" for why in heeded.values()))
    return Suggested(_in_order(capped), (*told, *_budget_notes(objects))), comments


def _no_earlier(said: Mapping[str, float], asked: Mapping[str, float]) -> dict[str, float]:
    """What comes after a moment that was asked for is no earlier than that, unless it was asked for too."""
    least, found = 0.0, dict(said)
    for name in MOMENTS:
        least = max(least, asked.get(name, 0.0))
        if name in found and name not in asked:
            found[name] = max(found[name], least)
    return found


def _in_order(said: Mapping[str, float]) -> Deadlines:
    """None of these is later than one that comes after it."""
    least, found = float("inf"), {}
    for name in reversed(MOMENTS):
        if name in said:
            least = found[name] = min(said[name], least)
    return Deadlines.fitted(found)


def _homes(objects: Sequence[Obj], targets: Sequence[Obj]) -> list[Obj]:
    """The namespaces of the targets, as far as manifests show them."""
    names = {namespace_of(obj) or "default" for obj in targets}
    return [obj for obj in objects if obj.get("kind") == "Namespace" and name_of(obj) in names]


def _stated(objects: Sequence[Obj]) -> tuple[dict[str, float], dict[str, float], dict[tuple[str, float], str]]:
    """Deadlines in annotations of a workload or its namespace: teams' own, those for killcheck, and where; the least.

    ``killcheck.dev/pods-gone: 40m`` is the deadline of one phase, whatever was found. A team's own words
    (``gpu-off-within``, ``max-shutdown-seconds``) say when the GPUs must be off, and of what: pods, nodes, or all that
    bills; they make what was found shorter, and never longer: they may be about something else.
    """
    said: dict[str, float] = {}
    asked: dict[str, float] = {}
    where: dict[tuple[str, float], str] = {}
    for obj in objects:
        for key, value in annotations_of(obj).items():
            seconds = _annotated_s(key, str(value))
            into = asked if key.startswith(_OWN) else said
            for phase in _phases_of(key) if seconds else ():
                assert seconds is not None
                if seconds < into.get(phase, float("inf")):
                    into[phase] = seconds
                    where[phase, seconds] = f"{ref_of(obj)}: annotation {key}: {value}"
    return said, asked, where


def _phases_of(key: str) -> tuple[str, ...]:
    """The phases that an annotation is about; none: it is no deadline."""
    name = key.rpartition("/")[2]
    if key.startswith(_OWN):
        own = f"{name.replace('-', '_')}_s"
        return (own,) if own in MOMENTS else ()
    if not _DEADLINE.search(name) or _NO_DEADLINE.search(key):
        return ()
    if re.search(r"(?i)node|instance|machine", name):
        return ("node_gone_s",)
    if re.search(r"(?i)pod|replica|scale", name):
        return ("pods_gone_s",)
    return ("pods_gone_s", "node_gone_s")


def _annotated_s(key: str, value: str) -> float | None:
    """Seconds of ``20m``, ``PT20M``, or of a number whose key names its unit."""
    text = value.strip()
    iso = re.fullmatch(r"(?i)PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?", text)
    if iso and any(iso.groups()):
        hours, minutes, seconds = (float(part or 0) for part in iso.groups())
        return hours * 3600 + minutes * 60 + seconds
    if re.fullmatch(r"\d+(\.\d+)?", text):
        unit = re.search(r"(?i)(seconds?|secs?|minutes?|mins?|hours?)$", key)
        return float(text) * _WORD_S[unit[1][0].lower()] if unit and float(text) else None
    return go_duration_s(text.replace(" ", "")) if re.fullmatch(r"(?:\d+(\.\d+)?(h|ms|m|s) ?)+", text) else None


def after_idling(layer: Layer, deadlines: Deadlines) -> Layer:
    """The layer with deadlines that begin to count when its target has been idle for long enough."""
    if not layer.idle_s:
        return layer
    idle_s = layer.idle_s
    late = {
        name: getattr(deadlines, name) + idle_s
        for name in ("scale_written_s", "pods_gone_s", "node_drained_s", "node_gone_s", "instance_gone_s")
    }
    return replace(layer, deadlines=Deadlines.fitted(late, deadlines))


def _run_s(cron_job: Obj) -> float:
    """How long an executor may run, with what it plainly says that it sleeps in between."""
    limit = dig(cron_job, "spec", "jobTemplate", "spec", "activeDeadlineSeconds")
    run_s = _EXECUTOR_S + min(_slept_s(cron_job), _SLEEPS_S)
    return min(float(limit), run_s) if limit else run_s


def _slept_s(cron_job: Obj) -> float:
    """The seconds of every ``sleep`` in its containers' own words."""
    words = [
        str(word)
        for template in templates(cron_job)
        for kind in ("initContainers", "containers")
        for container in dig(template.spec, kind, default=[])
        for word in (*(container.get("command") or ()), *(container.get("args") or ()))
    ]
    slept = _SLEEP.findall("\n".join(words))
    return sum(float(number) * _WORD_S.get(unit, 1.0) for number, unit in slept)


class Grace(NamedTuple):
    """How long pods may take to stop, and whose; ``in_turn``: so many, one after the other."""

    seconds: float
    why: str
    in_turn: int = 1


def grace(obj: Obj) -> Grace:
    """How long a target's pods may take to stop. An ordered StatefulSet stops one pod after the other."""
    found = templates(obj)
    asked = max((int(dig(t.spec, "terminationGracePeriodSeconds", default=_GRACE_S)) for t in found), default=_GRACE_S)
    longest = min(asked, _GRACE_S)
    ordered = obj.get("kind") == "StatefulSet" and dig(obj, "spec", "podManagementPolicy") != "Parallel"
    pods = max(1, int(dig(obj, "spec", "replicas", default=1))) if ordered else 1
    why = f"{name_of(obj)}, {pods} pods one after the other" if pods > 1 else name_of(obj)
    return Grace(float(longest * pods), why, pods)


def _empty(pools: Pools, most_nodes: int) -> tuple[float, str]:
    """How long empty nodes stay before the last is taken away, in seconds; there are ``most_nodes`` at most."""
    if not pools.node_pools:
        return _AUTOSCALER_S, f"{format_duration(_AUTOSCALER_S)} until an autoscaler takes an empty node"
    # Karpenter looks every ten seconds, validates for fifteen more, and drains what daemons are left.
    at_once = max(1, -(-most_nodes // 10))  # its default budget: 10 %, rounded up
    waves = -(-most_nodes // at_once)
    why = f"{format_duration(_EMPTY_S)} until an empty node is taken, 4m to disrupt and drain"
    if waves > 1:
        why += (
            f", and {format_duration(_WAVE_S)} for each more of {waves} waves ({at_once} of {most_nodes} nodes at once)"
        )
    return _EMPTY_S + 240.0 + (waves - 1) * _WAVE_S, why


def _budget_notes(objects: Sequence[Obj]) -> Iterator[str]:
    for obj in objects:
        spec = obj.get("spec") or {}
        never = str(spec.get("maxUnavailable")) in ("0", "0%") or str(spec.get("minAvailable")) == "100%"
        if obj.get("kind") == "PodDisruptionBudget" and never:
            yield f"{ref_of(obj)} allows no disruption: a drain waits for ever on what it selects"
        if r.is_of(obj, r.NODEPOOLS) and any(
            str(b.get("nodes")) in ("0", "0%") for b in dig(spec, "disruption", "budgets", default=[])
        ):
            yield f"{ref_of(obj)} has a disruption budget of 0: while it holds, no empty node goes"
