"""From what the scene shows to phases of the timeline: the watching part of a drill."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from killcheck import events
from killcheck.kube.informer import Change
from killcheck.kube.node_shutdown import shutting_down
from killcheck.kube.objects import Obj, dig, name_of, parse_time, uid_of
from killcheck.layers.base import writer_of
from killcheck.spec.deadlines import MOMENTS
from killcheck.spec.killpath import KillPath, Layer, Proof
from killcheck.watch import proven_nodes, steady
from killcheck.watch.cost import Meter
from killcheck.watch.joined import Joined
from killcheck.watch.scene import Scene
from killcheck.watch.timeline import Reached, Timeline

__all__ = ["Progress", "declared", "required", "watched_s"]

#: How often the cloud is asked while its word is waited for, in seconds: after the first, twice as long each time, and
#: at most.
ASK_SOON_S, ASK_AGAIN_S = 1.0, 5.0


class Progress:
    """Evaluates the scene against the proof wanted; :meth:`evaluate` is called whenever something changed."""

    def __init__(
        self,
        scene: Scene,
        kill_path: KillPath,
        layer: Layer,
        timeline: Timeline,
        *,
        hold_s: float,
        meter: Meter,
        holds_from: Callable[[], datetime | None] = lambda: datetime.min.replace(tzinfo=UTC),
        only_node: str | None = None,
    ) -> None:
        self.scene = scene
        self.kill_path = kill_path
        self.layer = layer
        self.timeline = timeline
        self.targets = kill_path.covered_by(layer)
        self._required = required(kill_path, layer)
        self.hold_s = hold_s
        self.meter = meter
        self.holds_from = holds_from
        #: Something that had been off came on again before it was proven to hold.
        self.relit = False
        #: It has to hold for as long as is watched, not only until 'held' was proven.
        self.holds_on = False
        self._asked_again = False
        self._ask_at = timeline.start
        self._ask_in_s = ASK_SOON_S
        self._off_since: datetime | None = None
        self._told: set[str] = set()
        self._writer: str | None = None
        #: What people had said of each target at the trigger, by uid.
        self.before = {uid_of(o): declared(o) for t in self.targets if t.kind for o in scene.objects_of(t)}
        # Nodes that were there at the trigger: these must go, whatever comes after them.
        others = scene.nodes_of_others()
        self._nodes = {
            name: node
            for name, node in scene.known_nodes.items()
            if only_node in (None, name) and name not in others and scene.nodes.get(name) is not None
        }
        #: Every machine that was there since the trigger, by name and provider's id: one made anew is another.
        self._machines = {
            _machine(node): node
            for name, node in scene.known_nodes.items()
            if only_node in (None, name) and name not in others
        }
        self.joined = Joined(timeline)
        #: Since when a watch that broke has been whole again, where that put off what was proven to hold.
        self.unwatched_until: datetime | None = None
        #: The one node that must go, with the pods that were on it; its replacement is another matter.
        self._only_node = only_node
        self._counted: set[str] = {name_of(obj) for obj in steady.instances(scene)}

    # -- evaluation ----------------------------------------------------------------------------------------
    def evaluate(self, now: datetime, wake_in: Callable[[float], None]) -> Iterator[events.Event]:
        """Record the phases that hold now; yields what is new as events. ``wake_in`` asks for another look later."""
        if not self.scene.broken():  # nothing may be concluded from what may be stale
            lost = list(self._losses(now))
            yield from lost
            self._targets(now)
            self._nodes_phases(now, wake_in)
            self._instances(now, wake_in)
            self._held(now, wake_in)
        yield from self._news(now)

    def _targets(self, now: datetime) -> None:
        covered = [t for t in self.targets if t.kind]
        if covered and not any(self.scene.replicas(t) for t in covered):
            at, who = now, None
            for target in covered:
                for obj in self.scene.objects_of(target):
                    written = _written_at(obj)
                    at = min(at, written) if written else at
                    who = who or writer_of(obj)
            self._writer, self._asked_again = who, False
            self.timeline.reach("scale_written", at, now, f"spec.replicas 0, written by {who or 'an unknown manager'}")
        pods = [p for p in self.scene.gpu_pods() if self._only_node in (None, p.node)]
        leaving = [p for p in pods if p.terminating]
        if leaving:
            self.timeline.reach("pods_terminating", now, now, ", ".join(str(p) for p in leaving[:5]))
        if not pods:
            self.timeline.reach("pods_terminating", now, now, "no GPU pod is left")
            self.timeline.reach("pods_gone", now, now, "no GPU pod in scope, Terminating included")

    def _nodes_phases(self, now: datetime, wake_in: Callable[[float], None]) -> None:
        # What came in place of a node that went bills as that did; beside a single node others are another matter.
        beside = [] if self._only_node else self.scene.pool_nodes()
        self.joined.notice(beside, wake_in)
        names = dict.fromkeys([*self._nodes, *self.joined.names, *map(name_of, beside)])
        there = {name: self.scene.nodes.get(name) for name in names}
        lets = proven_nodes.floors(self.kill_path) if not self._only_node else ()
        cordoned = [name for name, node in there.items() if node is None or _cordoned(node)]
        self.joined.put_off("node_cordoned", there, cordoned, now)
        if proven_nodes.within(lets, there, cordoned):
            self.timeline.reach("node_cordoned", now, now, ", ".join(cordoned))
        if "pods_gone" not in self.timeline.reached:
            return
        # An empty node that still takes pods is not drained.
        drained = [
            name for name, node in there.items() if node is None or (_cordoned(node) and not self.scene.pods_on(name))
        ]
        self.joined.put_off("node_drained", there, drained, now)
        if proven_nodes.within(lets, there, drained):
            told = f"no pod left but DaemonSets', and none is let on: {', '.join(drained)}"
            self.timeline.reach("node_drained", now, now, told)
        gone = [name for name, node in there.items() if node is None]
        self.joined.put_off("node_gone", there, gone, now)
        if proven_nodes.within(lets, there, gone):
            at = max((self.scene.gone_at.get(name, now) for name in gone), default=now)
            self.timeline.reach("node_cordoned", at, now, "the nodes are gone")
            self.timeline.reach("node_drained", at, now, "the nodes are gone")
            left = [name for name in there if name not in gone]
            stays = f"; the floor keeps {', '.join(left)}" if left else ""
            self.timeline.reach("node_gone", at, now, f"gone: {', '.join(gone)}{stays}")

    def _instances(self, now: datetime, wake_in: Callable[[float], None]) -> None:
        """The cloud's word: on the nodes' instances, and on what is counted outside Kubernetes."""
        if "instance_gone" not in self.timeline.phases:
            return
        at, told = self.timeline.start, []
        if Proof.P3 in self.kill_path.proof and self._in_kubernetes:
            states = [self.scene.cluster.instance_state(node) for node in self._machines.values()]
            if "node_gone" not in self.timeline.reached or any(state != "terminated" for state in states):
                if "node_gone" in self.timeline.reached and now >= self._ask_at:
                    self._ask_at = now + timedelta(seconds=self._ask_in_s)  # a cloud tells nobody
                    wake_in(self._ask_in_s)
                    self._ask_in_s = min(2 * self._ask_in_s, ASK_AGAIN_S)
                return
            at = now
            told.append(f"{len(states)} instance(s) terminated")
        for target in self.scene.census.targets:
            count = self.scene.census.counts[target.name]
            if count.number or count.asked < self.timeline.start:
                return
            at = max(at, count.at)
            told.append(f"{count.command} counts 0 of {target.name}")
        if told:
            self.timeline.reach("instance_gone", at, now, "; ".join(told))

    @property
    def _in_kubernetes(self) -> bool:
        return any(t.kind for t in self.targets)

    def _off_phases(self) -> list[str]:
        return [p for p in ("pods_gone", "node_gone", "instance_gone") if p in self.timeline.phases]

    def _held(self, now: datetime, wake_in: Callable[[float], None]) -> None:
        off = [self.timeline.reached.get(phase) for phase in self._off_phases()]
        own = self.holds_from()
        if own is None or self._asked_again or any(entry is None for entry in off):
            self._off_since = self.unwatched_until = None
            return
        since = max([own, *(entry.observed for entry in off if entry is not None)])
        followed = self.scene.followed_since()
        self.unwatched_until = followed if followed is not None and followed > since else None
        since = max(since, followed or since)  # what came and went while nobody watched was not seen
        if self.scene.census.targets and self.scene.census.sound_since is not None:
            since = max(since, self.scene.census.sound_since)  # what was not counted was not seen to hold
        if self._off_since != since:
            self._off_since = since
            wake_in(self.hold_s)
        if now >= since + timedelta(seconds=self.hold_s):
            if not self.scene.census.asked_since(since + timedelta(seconds=self.hold_s)):
                self.scene.census.again()
                return wake_in(1.0)
            self.timeline.reach(  # the last count was asked for after the whole time
                "held", since + timedelta(seconds=self.hold_s), now, f"nothing came back for {self.hold_s:.0f} s"
            )

    def _losses(self, now: datetime) -> Iterator[events.Event]:
        """Phases that no longer hold: something came back before 'held' was proven, or in the night that is watched."""
        if ("held" in self.timeline.reached and not self.holds_on) or self._only_node:
            return
        covered = [t for t in self.targets if t.kind]
        counted = self.scene.census
        checks = (
            ("scale_written", any(self.scene.replicas(t) for t in covered), "the targets ask for replicas again"),
            ("pods_gone", bool(self.scene.gpu_pods()), "a GPU pod is there again"),
            ("node_drained", bool(self.scene.gpu_pods()), "a GPU pod is there again"),
            (
                "node_gone",
                proven_nodes.above_floor(self.kill_path, self.scene.pool_nodes()),
                "a GPU node is there again",
            ),
            ("instance_gone", bool(counted.targets) and counted.all_on() > 0, "an instance is counted again"),
        )
        for phase, back, why in checks:
            if back and self.timeline.lose(phase):
                self.relit = True
                self._asked_again = self._asked_again or phase == "scale_written"
                if self.timeline.lose("held"):
                    self._told.discard("held")
                    yield events.PhaseLost(at=now, phase="held", why=why)
                self._told.discard(phase)
                yield events.PhaseLost(at=now, phase=phase, why=why)

    def _news(self, now: datetime) -> Iterator[events.Event]:
        fresh = [e for phase, e in self.timeline.reached.items() if phase not in self._told]
        for entry in sorted(fresh, key=lambda e: (e.at, self.timeline.phases.index(e.phase))):
            self._told.add(entry.phase)
            yield self._event(entry, now)

    def _event(self, entry: Reached, now: datetime) -> events.PhaseReached:
        start = self.timeline.start
        return events.PhaseReached(
            at=now,
            phase=entry.phase,
            at_s=round((entry.at - start).total_seconds(), 3),
            observed_s=round((entry.observed - start).total_seconds(), 3),
            deadline_s=self.timeline.deadline_s(entry.phase),
            evidence=entry.evidence,
            margin_s=None if entry.phase == "held" else self.timeline.margin_s(entry.phase),
        )

    def node_changed(self, change: Change, node: Obj, now: datetime) -> None:
        """Keep the meter: a node in scope bills from when it is there until it is gone."""
        if not self.scene.in_pool(node) or name_of(node) in self.scene.nodes_of_others():
            return
        if self._only_node in (None, name_of(node)):
            self._machines[_machine(node)] = node
        if change == "deleted":
            self.meter.stop(name_of(node), now)
        else:
            self.meter.count(node, now)

    def instances_changed(self, now: datetime) -> None:
        """The same for what is counted outside Kubernetes."""
        on = {name_of(obj): obj for obj in steady.instances(self.scene)}
        for name in self._counted - set(on):
            self.meter.stop(name, now)
        for obj in on.values():
            self.meter.count(obj, now)
        self._counted = set(on)

    # -- judging -------------------------------------------------------------------------------------------
    def required(self) -> list[str]:
        """The phases that the wanted proof rests on, in order."""
        return list(self._required)

    def proven(self) -> bool:
        """Whether every required phase has been reached."""
        return all(phase in self.timeline.reached for phase in self._required)

    def missing(self) -> str | None:
        """The first required phase that was not reached in time ('held' has no deadline of its own); None: none."""
        for phase in self.required():
            if phase == "held":
                if phase not in self.timeline.reached:
                    return phase
            elif not self.timeline.in_time(phase):
                return phase
        return None

    def not_watched_s(self, missing: str, now: datetime) -> float | None:
        """How much longer it had to be watched to tell whether ``missing`` comes in time; None: it was seen not to.

        What was lit again did not hold, however much of the time was left.
        """
        if missing != "held":
            left = (self.timeline.deadline_s(missing) or 0.0) - (now - self.timeline.start).total_seconds()
            return left if left > 0 and missing not in self.timeline.reached else None
        if self.relit or self._off_since is None:
            return None
        return max(0.0, self.hold_s - (now - self._off_since).total_seconds())

    def late(self, now: datetime) -> str | None:
        """The first required phase whose deadline has passed without it, so that the proof cannot be had any more."""
        missing = self.missing()
        if missing in (None, "held"):
            return None
        elapsed, deadline = (now - self.timeline.start).total_seconds(), self.timeline.deadline_s(missing)
        return missing if deadline is not None and elapsed > deadline else None

    def last_s(self) -> float:
        """Seconds after the trigger by which every required phase is due, the time that it must hold not counted."""
        deadlines = [self.timeline.deadline_s(phase) for phase in self._required if phase != "held"]
        return max((one for one in deadlines if one is not None), default=math.inf)

    def stuck_at(self, missing: str) -> str:
        """The phase that is the matter: the first one on the way to ``missing`` that was not reached."""
        return self.timeline.first_missing(missing) or missing

    @property
    def writer(self) -> str | None:
        """The field manager that wrote the zero; None where managedFields do not tell."""
        return self._writer


def required(kill_path: KillPath, layer: Layer) -> list[str]:
    """The phases that a layer's drill must reach for the proof that the path wants, in order.

    Outside Kubernetes there are no pods and no nodes: P1 to P3 are all the count's word (``instance_gone``).
    """
    covered, proof = kill_path.covered_by(layer), kill_path.proof
    phases = set()
    if any(t.kind for t in covered):
        phases |= {"pods_gone"} if Proof.P1 in proof else set()
        phases |= {"node_drained", "node_gone"} if Proof.P2 in proof else set()
        phases |= {"instance_gone"} if Proof.P3 in proof else set()
    if any(t.outside for t in covered):
        phases.add("instance_gone")
    phases |= {"held"} if Proof.P4 in proof else set()
    return [p for p in ("pods_gone", "node_drained", "node_gone", "instance_gone", "held") if p in phases]


def watched_s(kill_path: KillPath, layer: Layer) -> float:
    """How long a drill is watched at most while GPUs stay on, in seconds after its trigger.

    Until the last deadline that says something about the wanted proof, and then as long as everything has to hold.
    """
    deadlines, wanted = kill_path.deadlines_for(layer), required(kill_path, layer)
    unasked = {"node_drained", "node_gone", "instance_gone"} - set(wanted)
    if Proof.P5 in kill_path.proof or kill_path.alarm:  # an alarm about what stays on may come late
        unasked = set()
    last = max(getattr(deadlines, name) for name in MOMENTS if name.removesuffix("_s") not in unasked)
    return float(last + (deadlines.held_s if "held" in wanted else 0.0))


def declared(obj: Obj) -> Obj:
    """What somebody may have written of an object: not its status, nor what is the API server's or a drill's own."""
    said = {key: value for key, value in obj.items() if key not in ("status", "metadata", "apiVersion", "kind")}
    marks = {
        field: {k: v for k, v in dig(obj, "metadata", field, default={}).items() if not k.startswith("killcheck.dev/")}
        for field in ("labels", "annotations")
    }
    return {**said, **marks, "leaving": "deletionTimestamp" in obj["metadata"]}


def _machine(node: Obj) -> tuple[str, str]:
    return name_of(node), str(dig(node, "spec", "providerID", default=""))


def _cordoned(node: Obj) -> bool:
    if "deletionTimestamp" in node["metadata"] or dig(node, "spec", "unschedulable") or shutting_down(node):
        return True
    return any(
        taint.get("key")
        in ("karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler", "node.kubernetes.io/unschedulable")
        for taint in dig(node, "spec", "taints", default=[])
    )


def _written_at(obj: Obj) -> datetime | None:
    """When ``spec.replicas`` was last written, by managedFields."""
    times = [
        str(entry["time"])
        for entry in dig(obj, "metadata", "managedFields", default=[])
        if entry.get("time") and "f:replicas" in dig(entry, "fieldsV1", "f:spec", default={})
    ]
    return parse_time(max(times)) if times else None
