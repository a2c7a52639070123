"""KEDA and Kueue themselves, beside our models of them: the same courses on both, and what is then seen.

    python tests/conformance/operators.py keda|kueue KUBECONFIG [--only NAME,NAME] [--keep FOLDER] [--report FILE]
    python tests/conformance/operators.py keda|kueue - [--keep FOLDER]

plays each course of ``operator_courses.py`` on the cluster that KUBECONFIG leads to, where the operator runs, and on the
embedded one. What differs is told. ``--keep`` writes what was seen on the real one, a file a course; ``-`` goes by those.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from operator_courses import COURSES, Course
from real_cluster import RealCluster

from killcheck.embedded.cluster import Cluster
from killcheck.embedded.models.kueue import names as n
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, NotFound
from killcheck.kube.objects import dig, name_of, namespace_of
from killcheck.kube.resources import Resource

FOLDER = Path(__file__).parent / "operators"
#: How much later or earlier than on the real one something may happen, in seconds: polls and batches have their moment.
LATE_S = 9.0
#: What lasted for less is by chance seen or not, in seconds.
PASSING_S = 1.0
#: What our models do not say: the HPA's health, the conditions of ScaledJobs, whether a Workload's pods are ready.
LEFT_OUT = (
    r"^ScaledObject/\S+ condition HPAActive",
    r"^ScaledJob/\S+ condition",
    r"^Workload/\S+ condition PodsReady",
)
#: Events that tell what conditions tell too.
HEARSAY = frozenset(
    "KEDAScalersStarted KEDAScalersStopped ScaledObjectReady ScaledObjectPaused ScaledObjectUnpaused ScaledObjectDeleted "
    "ScaledObjectCheckFailed PreemptedWorkload UpdatedAdmissionCheck ScaledJobReady ScaledJobActive ScaledJobInactive ScaledJobPaused ScaledJobUnpaused".split()
)
#: Seconds that come before a course begins.
LEAD_S = 2.0
WATCHED: dict[str, tuple[Resource, ...]] = {
    "keda": (
        r.SCALEDOBJECTS,
        Resource("keda.sh", "v1alpha1", "scaledjobs", "ScaledJob"),
        r.HPAS,
        r.DEPLOYMENTS,
        r.JOBS,
    ),
    "kueue": (n.WORKLOADS, n.CLUSTERQUEUES, n.LOCALQUEUES, r.JOBS, r.DEPLOYMENTS, r.PODS),
}
_CHANCE = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"(?<=\b)((?:job|pod)-[^\s/]+)-[0-9a-f]{5}\b"), r"\1-<hash>"),
    (re.compile(r"-[a-z0-9]{8,10}(?=-[a-z0-9]{5}\b)"), "-<hash>"),
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "-<name>"),
    (re.compile(r"was \d+s"), "was <n>s"),
)


@dataclass
class Seen:
    """``fields``: (object, field) to what it was, from when on; ``events``: who was told what, the first time."""

    fields: dict[tuple[str, str], list[tuple[float, str]]] = field(default_factory=dict)
    events: dict[tuple[str, ...], float] = field(default_factory=dict)

    def as_json(self) -> dict:
        return {
            "fields": [[*key, [[round(at, 1), value] for at, value in course]] for key, course in self.fields.items()],
            "events": [[*key, round(at, 1)] for key, at in self.events.items()],
        }

    @classmethod
    def from_json(cls, told: dict) -> Seen:
        fields = {(one, name): [(at, value) for at, value in course] for one, name, course in told["fields"]}
        return cls(fields, {tuple(key): at for *key, at in told["events"]})


class Player:
    """One course on one cluster: ``cluster`` is an embedded one or a ``RealCluster``."""

    def __init__(self, cluster: Any, course: Course, space: str) -> None:
        self.cluster, self.course, self.space = cluster, course, space
        self.kube, self.loop = cluster.kube, cluster.loop
        self.seen = Seen()
        self.aliases: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.began = self.loop.monotonic()

    def play(self) -> Seen:
        self.kube.create(r.NAMESPACES, {"metadata": {"name": self.space}})
        closers = [
            self.kube.watch(
                one, lambda event: self._saw(event.object, event.type), lambda _error: None, namespace=space
            )
            for one in WATCHED[self.course.operator]
            for space in ([self.space] if one.namespaced else [None])
        ]
        self.loop.sleep(LEAD_S)
        self.began = self.loop.monotonic()
        try:
            self._make()
            for act in self.course.acts:
                self.loop.sleep(max(0.0, act.at_s - self._at()))
                self._do(act.do, act.body)
            self.loop.sleep(max(0.0, self.course.end_s - self._at()))
            self._collect_events()
        finally:
            for close in closers:
                close()
            self._clear()
        return self.seen

    def _at(self) -> float:
        return self.loop.monotonic() - self.began

    def _make(self) -> None:
        for obj in json.loads(json.dumps(self.course.objects).replace("{ns}", self.space)):
            if obj["kind"] == "Node":
                self.cluster.load([obj])
                continue
            resource = self.kube.resource_for(obj["apiVersion"], obj["kind"])
            self.kube.create(resource, obj, namespace_of(obj) or None)

    def _do(self, do: str, body: Any) -> None:
        """A request; one that is refused is seen, as a field of the course's own."""
        method, _, path = do.replace("{ns}", self.space).partition(" ")
        if "{workload}" in path:
            names = [name_of(one) for one in self.kube.list(n.WORKLOADS, self.space).items]
            path = path.replace("{workload}", min(names, default="none"))
        path, _, query = path.partition("?")
        sent = None if body is None else json.loads(json.dumps(body).replace("{ns}", self.space))
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        asked = dict(part.split("=") for part in query.split("&")) if query else {}
        try:
            self.kube.call(method, path, query=asked, body=sent, headers={"content-type": kind})
            self._note(f"request/{method}", "answer", "ok")
        except ApiError as error:
            self._note(f"request/{method}", "answer", self._plain(str(error)))

    def _saw(self, obj: dict, kind: str) -> None:
        if not obj or (not namespace_of(obj) and self.space not in name_of(obj)):
            return
        name = f"{obj['kind']}/{self._alias(name_of(obj))}"
        if kind in ("ADDED", "DELETED"):
            self._note(name, "object", kind)
        if kind != "DELETED":
            for key, value in _fields(obj):
                self._note(name, key, None if value is None else self._plain(value))

    def _note(self, name: str, key: str, value: str | None) -> None:
        course = self.seen.fields.get((name, key), [])
        if (course[-1][1] if course else "") != (value or ""):
            self.seen.fields[name, key] = [*course, (self._at(), value or "")]

    def _alias(self, name: str) -> str:
        """A name that was made up, by its beginning and a count of those that begin so."""
        plain = self._plain(name)
        if name not in self.aliases and plain != name.replace(self.space, "{ns}"):
            self.counts[plain] = self.counts.get(plain, 0) + 1
            self.aliases[name] = f"{plain}{self.counts[plain]}"
        return self.aliases.get(name, plain)

    def _plain(self, text: str) -> str:
        for name in sorted(self.aliases, key=len, reverse=True):
            text = text.replace(name, self.aliases[name])
        text = text.replace(self.space, "{ns}")
        for pattern, instead in _CHANCE:
            text = pattern.sub(instead, text)
        return text

    def _collect_events(self) -> None:
        for event in self.kube.list(r.EVENTS, self.space).items:
            source = dig(event, "reportingComponent", default="") or dig(event, "source", "component", default="")
            if not re.search("keda|scale-handler|kueue", source):
                continue
            about = dig(event, "involvedObject", default={})
            what = (f"{about.get('kind')}/{self._plain(str(about.get('name')))}", event["type"], event["reason"])
            self.seen.events.setdefault((*what, self._plain(event.get("message", ""))), 0.0)

    def _clear(self) -> None:
        """Take away what the course made, operators' finalizers last; what stays is told by whoever comes next."""
        for obj in reversed(json.loads(json.dumps(self.course.objects).replace("{ns}", self.space))):
            self._drop(self.kube.resource_for(obj["apiVersion"], obj["kind"]), name_of(obj), namespace_of(obj) or None)
        self._drop(r.NAMESPACES, self.space, None)
        self.loop.run_until(lambda: self.kube.find(r.NAMESPACES, self.space) is None, 30.0)

    def _drop(self, resource: Resource, name: str, space: str | None) -> None:
        try:
            self.kube.delete(resource, name, space)
        except (NotFound, ApiError):
            return


# -- what is looked at ------------------------------------------------------------------------------------------------
def _fields(obj: dict) -> list[tuple[str, str | None]]:
    kind = obj["kind"]
    found: list[tuple[str, Any]] = [
        (f"condition {one['type']}", " ".join(str(one.get(k, "")) for k in ("status", "reason", "message")).strip())
        for one in dig(obj, "status", "conditions", default=None) or ()
        if kind in _CONDITIONS
    ]
    found += [(".".join(path), _value(dig(obj, *path))) for path in _LOOKED_AT.get(kind, ())]
    if kind == "Pod":
        found.append(("gates", ",".join(one["name"] for one in obj["spec"].get("schedulingGates") or ()) or None))
        found.append(("going", "yes" if "deletionTimestamp" in obj["metadata"] else None))
    return found


_CONDITIONS = frozenset({"ScaledObject", "ScaledJob", "Workload", "ClusterQueue", "LocalQueue"})
_LOOKED_AT: dict[str, tuple[tuple[str, ...], ...]] = {
    "Deployment": (("spec", "replicas"),),
    "ScaledObject": (
        ("status", "hpaName"),
        ("status", "originalReplicaCount"),
        ("status", "scaleTargetKind"),
        ("status", "triggersTypes"),
        ("status", "pausedReplicaCount"),
    ),
    "HorizontalPodAutoscaler": (("spec", "minReplicas"), ("spec", "maxReplicas")),
    "Job": (
        ("spec", "suspend"),
        ("spec", "template", "spec", "nodeSelector"),
    ),
    "Workload": (
        ("spec", "active"),
        ("spec", "queueName"),
        ("status", "admission"),
        ("status", "admissionChecks"),
        ("status", "requeueState"),
    ),
    "ClusterQueue": (
        ("status", "pendingWorkloads"),
        ("status", "reservingWorkloads"),
        ("status", "admittedWorkloads"),
    ),
    "LocalQueue": (
        ("status", "pendingWorkloads"),
        ("status", "reservingWorkloads"),
        ("status", "admittedWorkloads"),
    ),
    "Pod": (("status", "phase"),),
}


def _value(value: Any) -> str | None:
    if value is None or value in ({}, [], ""):
        return None
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


# -- the comparison -----------------------------------------------------------------------------------------------------
def differences(real: Seen, ours: Seen, end_s: float) -> list[str]:
    """Sentences: fields that took other values, or the same at another time, and events that one alone has."""
    found = []
    for key in sorted({*real.fields, *ours.fields}):
        want, got = real.fields.get(key, []), ours.fields.get(key, [])
        label = " ".join(key)
        if any(re.search(pattern, label) for pattern in LEFT_OUT):
            continue
        if "condition" in label or "Workloads" in label:  # counted once a second
            want, got = (_lasting(course, 2.0 if "Workloads" in label else PASSING_S) for course in (want, got))
        wanted, had = [v for _, v in want], [v for _, v in got]
        if had != wanted:
            found.append(f"{label}: {_told(got)}, not {_told(want)}")
            continue
        found += [
            f"{label} {value}: at {mine:.1f} s, not {theirs:.1f} s"
            for (mine, value), (theirs, _) in zip(got, want, strict=True)
            if abs(mine - theirs) > LATE_S
        ]
    found += [
        f"event {' | '.join(key)}: not seen" for key in real.events if key not in ours.events and key[2] not in HEARSAY
    ]
    found += [f"event {' | '.join(key)}: here only" for key in ours.events if key not in real.events]
    return found


def _lasting(course: list[tuple[float, str]], seconds: float) -> list[tuple[float, str]]:
    """Without what is not known yet, or did not last for so long: that is by chance seen or not."""
    course = [(at, value) for at, value in course if not value.startswith("Unknown")]
    before = "0" if course[:1] and course[0][1] == "0" else ""  # a count before anything was counted
    ends = [at for at, _ in [*course[1:], (float("inf"), "")]][: len(course)]
    found: list[tuple[float, str]] = []
    for (at, value), end in zip(course, ends, strict=True):
        if end - at >= seconds and (found[-1][1] if found else before) != value:
            found.append((at, value))
    return found


def _told(course: list[tuple[float, str]]) -> str:
    return ", ".join(f"{value or '-'} ({at:.0f} s)" for at, value in course) or "nothing"


def on_embedded(course: Course) -> Seen:
    """On a cluster of this process, with our models."""
    cluster = Cluster(start=datetime(2026, 11, 27, 12, tzinfo=UTC), exec_mode="none")
    try:
        cluster.loop.sleep(5)
        return Player(cluster, course, "course").play()
    finally:
        cluster.close()


def on_real(kubeconfig: str, course: Course) -> Seen:
    """Where the operator itself runs; nodes that the course brings have our kubelets."""
    space = f"c-{course.name}-x"
    cluster = RealCluster(kubeconfig, labels=f"capacity=spot-{space}")  # others may be played beside it
    try:
        return Player(cluster, course, space).play()
    finally:
        cluster.close()


def kept(course: Course, folder: Path = FOLDER) -> Seen | None:
    """What was recorded of a course; None where nothing was."""
    path = folder / f"{course.operator}-{course.name}.json"
    return Seen.from_json(json.loads(path.read_text())) if path.exists() else None


def _as_text(told: dict) -> str:
    """JSON with a line a row, without what is not compared."""
    rows = {
        "fields": [row for row in told["fields"] if not any(re.search(one, " ".join(row[:2])) for one in LEFT_OUT)],
        "events": [row for row in told["events"] if row[2] not in HEARSAY],
    }
    parts = [
        f'"{key}": [\n' + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows[key]) + "\n]" for key in rows
    ]
    return "{" + ",\n".join([f'"release": {json.dumps(told["release"])}', *parts]) + "}\n"


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("operator", choices=sorted(WATCHED))
    parser.add_argument("kubeconfig", help="where the operator runs; '-': go by what --keep holds")
    parser.add_argument("--only", default="", help="courses, by name")
    parser.add_argument("--keep", type=Path, default=FOLDER, help="where recordings are")
    parser.add_argument("--release", default="", help="of the operator: kept with each recording")
    parser.add_argument("--report", type=Path)
    said = parser.parse_args(words)
    chosen = [one for one in COURSES.values() if one.operator == said.operator]
    chosen = [one for one in chosen if not said.only or one.name in said.only.split(",")]
    lines, alike = [], 0
    for course in chosen:
        real = kept(course, said.keep) if said.kubeconfig == "-" else on_real(said.kubeconfig, course)
        if real is None:
            continue
        if said.kubeconfig != "-":
            said.keep.mkdir(exist_ok=True)
            path = said.keep / f"{course.operator}-{course.name}.json"
            path.write_text(_as_text({"release": said.release, **real.as_json()}))
        found = differences(real, on_embedded(course), course.end_s)
        alike += not found
        lines += [f"## {course.operator}-{course.name}", *(f"  - {one}" for one in found)]
        print(f"{course.name}: {len(found)}", flush=True)
    print(f"{alike} of {len(chosen)} alike")
    if said.report:
        said.report.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
