"""The layers of a kill path, found by what executors do, by what their identity may do, and by scalers' own words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct, field

from killcheck import executor
from killcheck.discover import machines, sleepers
from killcheck.discover.machines import is_often
from killcheck.discover.other_programs import fired_elsewhere, told_as_opaque
from killcheck.discover.other_scalers import others
from killcheck.discover.seen import Seen
from killcheck.discover.seen import of as seen_of
from killcheck.discover.spot_pools import is_spot, lands_only_on
from killcheck.discover.stopping import Stopping
from killcheck.discover.strays import meant_for
from killcheck.executor import Reading
from killcheck.executor.api_calls import ApiCall
from killcheck.executor.calendar import Asked, asked
from killcheck.instances.reclaims import NOTICE_S
from killcheck.kube import downtimes
from killcheck.kube import resources as r
from killcheck.kube.gpus import spec_devices
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, ref_of
from killcheck.kube.permissions import Permissions
from killcheck.kube.plurals import plural_of
from killcheck.kube.schedule import Schedule, ScheduleError, parse
from killcheck.kube.time_limits import limit_of
from killcheck.kube.workloads import templates
from killcheck.spec.killpath import Layer, LayerType, Ref, Sentinel, Target
from killcheck.text import lazy_re
from killcheck.text.values import replace

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Rehearsed

__all__ = ["Found", "find", "plural_of"]

#: KEDA's ``cooldownPeriod`` and the HTTP add-on's ``scaledownPeriod`` where they are not given, in seconds.
KEDA_COOLDOWN_S = 300.0
_TERMINATION_HANDLERS = lazy_re.compile(r"aws-node-termination-handler|spot-termination|node-termination-handler")
_IDLE = lazy_re.compile(r"(?i).*(idle|self_?terminat|inactiv).*?(ms|millis|seconds|secs?|minutes|mins?|hours?)?$")
_UNIT_S = {"m": 60.0, "h": 3600.0, "s": 1.0}
#: What a notice leaves where Karpenter's machines are not AWS', by the group of their node classes, in seconds.
_OTHER_NOTICES = {"karpenter.azure.com": NOTICE_S["azure"], "karpenter.k8s.gcp": NOTICE_S["gcp"]}
#: Where the arithmetic of schedules begins: a week like any other.
_ANY_MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


class Found(Struct):
    """``misses``: what came near to being a layer. ``cron_jobs``: those that are one. ``evidence``: how each layer is
    known, by its name: *seen* in a rehearsal, or *read*."""

    layers: tuple[Layer, ...] = ()
    notes: list[str] = field(default_factory=list)
    not_understood: tuple[str, ...] = ()
    misses: list[str] = field(default_factory=list)
    cron_jobs: list[Obj] = field(default_factory=list)
    evidence: dict[str, str] = field(default_factory=dict)
    #: The folder that paths in machines' commands begin at; None: no layer is one.
    folder: str | None = None


def find(
    objects: Sequence[Obj],
    targets: Sequence[Target],
    by_target: Mapping[str, Obj],
    rehearsed: Mapping[str, Rehearsed] | None = None,
    *,
    strays: bool = False,
) -> Found:
    """Every layer among ``objects`` that turns one of ``targets`` off; what was ``rehearsed`` is known from that.

    ``strays``: also what is meant to, and misses, of targets that nothing else turns off.
    """
    return _Finder(objects, targets, by_target, rehearsed or {}).find(strays=strays)


class _Finder:
    def __init__(
        self,
        objects: Sequence[Obj],
        targets: Sequence[Target],
        by_target: Mapping[str, Obj],
        rehearsed: Mapping[str, Rehearsed],
    ) -> None:
        self.objects = objects
        self.rehearsed = rehearsed
        self.targets = targets
        self.by_target = by_target
        self.config_maps = {
            (namespace_of(o) or "default", name_of(o)): o for o in objects if o.get("kind") == "ConfigMap"
        }
        self.found = Found()
        self.stopping = Stopping(objects, targets, by_target, Permissions(objects), self.found.notes)
        #: Layers that scale what they cover to no zero that could be read, and do nothing else to it.
        self.unsure: set[str] = set()
        self.unread: list[str] = []
        self.opaque: list[Obj] = []
        #: Schedules whose programs touch no target, as they were read.
        self.strays: list[tuple[Obj, Reading]] = []
        #: Schedules that cordon nodes, as they were seen or read, and turn nothing off.
        self.cordoning: list[Obj] = []
        self._reads: dict[int, tuple[Reading, Obj] | None] = {}

    def find(self, *, strays: bool) -> Found:
        """The layers of every object, then those that only show in several of them together."""
        layers: list[Layer] = []
        for obj in self.objects:
            layers += self._layers_of(obj)
        layers += self._beside()
        layers += self._self_terminating()
        layers += self._cordons({name for layer in layers for name in layer.covers})
        layers += sleepers.find(
            self.objects, self.targets, self.by_target, {name for layer in layers for name in layer.covers}
        )
        if strays:
            layers += self._missing({name for layer in layers for name in layer.covers})
        layers += self._sentinels()
        layers += self._spot(bool(layers))
        self.unread += others(self.objects, self.targets, self.by_target)
        self.unread += [one.said for one in fired_elsewhere(self.stopping, self.config_maps)]
        self.unread += told_as_opaque(self.opaque)
        self.found.layers = tuple(_named_apart(list(self._without_twins(self._without_starters(layers)))))
        self.found.not_understood = tuple(dict.fromkeys(self.unread))
        return self.found

    def _without_starters(self, layers: Sequence[Layer]) -> list[Layer]:
        """Left out is what scales to no zero that could be read, beside one that plainly turns the same off."""
        switches = [layer for layer in layers if layer.cron_job and layer.name not in self.unsure]
        plain = {name for layer in switches for name in layer.covers}
        starters = [layer for layer in layers if layer.name in self.unsure and set(layer.covers) <= plain]
        for layer in starters:
            self.found.notes.append(
                f"{layer.name} scales {', '.join(layer.covers)} to no zero that could be read: taken for what starts "
                "again what others turn off"
            )
        return [layer for layer in layers if layer not in starters]

    def _without_twins(self, layers: Sequence[Layer]) -> Iterator[Layer]:
        """Suspended schedules left out that a living one stands beside, which turns off all that they would."""
        asleep = {
            ("CronJob", namespace_of(job) or "default", name_of(job))
            for job in self.found.cron_jobs
            if dig(job, "spec", "suspend") is True
        }
        living = [layer for layer in layers if _key(layer) not in asleep and layer.cron_job]
        for layer in layers:
            beside = [one for one in living if one.type is layer.type and set(layer.covers) <= set(one.covers)]
            if _key(layer) not in asleep or not beside:
                yield layer
            else:
                self.found.notes.append(f"{layer.name} is left out: it is suspended, and {beside[0].name} is not")

    def _layers_of(self, obj: Obj) -> Iterator[Layer]:
        kind = obj.get("kind")
        if kind == "CronJob":
            yield from self._cron_job(obj)
        elif r.is_of(obj, r.SCALEDOBJECTS, r.HTTPSCALEDOBJECTS, r.HPAS):
            yield from self._scaler(obj)
        elif kind in ("Deployment", "StatefulSet", "DaemonSet") and not dig(obj, "metadata", "ownerReferences"):
            yield from self._controller(obj)

    # -- executors -------------------------------------------------------------------------------------------
    def _read(self, obj: Obj) -> tuple[Reading, Obj] | None:
        """What the pods of an object do; None where they hold GPUs themselves (they are what is turned off)."""
        if id(obj) not in self._reads:
            self._reads[id(obj)] = self._read_anew(obj)
        return self._reads[id(obj)]

    def _read_anew(self, obj: Obj) -> tuple[Reading, Obj] | None:
        found = templates(obj)
        if not found or any(spec_devices(t.spec) for t in found):
            return None
        namespace = namespace_of(obj) or "default"
        own = executor.read(found[0].spec, namespace, self.config_maps)
        return replace(own, calls=(*own.calls, *self._fired_by(own, obj, namespace))), found[0].spec

    def _fired_by(self, reading: Reading, by: Obj, namespace: str) -> Iterator[ApiCall]:
        """What the CronJobs do of which a program makes Jobs (``kubectl create job --from``)."""
        if not any((call.verb, call.resource) == ("create", "jobs") for call in reading.calls):
            return
        named = {
            (c.namespace or namespace, c.name) for c in reading.calls if (c.verb, c.resource) == ("get", "cronjobs")
        }
        for obj in self.objects:
            home = namespace_of(obj) or "default"
            if obj is not by and obj.get("kind") == "CronJob" and (home, name_of(obj)) in named:
                for template in templates(obj):
                    yield from executor.read(template.spec, home, self.config_maps).calls

    def _cron_job(self, obj: Obj) -> Iterator[Layer]:
        read = self._read(obj)
        if read is None:
            return
        reading, spec = read
        seen = self._seen(obj)
        self._asked_a_cloud(obj)
        covers = self._touched(obj, reading, spec) if seen is None else self._seen_to_touch(obj, seen, reading, spec)
        if not covers:
            if not dig(obj, "spec", "suspend") and not (seen and seen.lit):
                self.strays.append((obj, reading))
            cordons = any(call.resource == "nodes" and call.body == "cordon" for call in reading.writes)
            if not dig(obj, "spec", "suspend") and (cordons or (seen is not None and seen.cordons)):
                self.cordoning.append(obj)
            self._missed(obj, reading if seen is None else Reading())
            return
        yield self._scheduled(obj, reading, spec, covers, seen)

    def _missing(self, covered: Collection[str]) -> Iterator[Layer]:
        """Of targets that nothing turns off: what stops workloads beside them that nothing here is."""
        left = [target for target in self.targets if target.name not in covered]
        for obj, reading in self.strays:
            meant = tuple(target.name for target in meant_for(reading, self.objects, left))
            if meant:
                who = ref_of(obj)
                self.found.misses = [miss for miss in self.found.misses if not miss.startswith(f"{who} touches")]
                did = "; ".join(str(call) for call in reading.writes[:3])
                self.found.notes.append(f"{who} is taken to be meant for {', '.join(meant)}, and misses: it does {did}")
                yield self._scheduled(obj, reading, templates(obj)[0].spec, meant, None)

    def _cordons(self, covered: Collection[str]) -> Iterator[Layer]:
        """Of targets that nothing turns off: what only cordons nodes, which leaves their pods where they are."""
        left = tuple(target.name for target in self.targets if target.name not in covered)
        for obj in self.cordoning if left else ():
            who = ref_of(obj)
            self.found.misses = [miss for miss in self.found.misses if not miss.startswith(f"{who} touches")]
            self.found.notes.append(f"{who} is taken to be meant for {', '.join(left)}, and misses: it cordons nodes")
            if self._seen(obj) is not None:
                self.found.evidence[name_of(obj)] = "fired once in a rehearsal, it turned off nothing"
            yield self._scheduled(obj, Reading(), templates(obj)[0].spec, left, Seen())

    def _scheduled(self, obj: Obj, reading: Reading, spec: Obj, covers: tuple[str, ...], seen: Seen | None) -> Layer:
        """The layer of a CronJob."""
        often = is_often(str(dig(obj, "spec", "schedule", default="")))
        self.found.cron_jobs.append(obj)
        self.found.notes += [f"{ref_of(obj)}: {how}" for how in reading.false_green if seen is None]
        if dig(obj, "spec", "suspend"):
            self.found.notes.append(f"{ref_of(obj)} is suspended: it will not fire")
        name = name_of(obj)
        if seen is None and self.stopping.never_to_zero(reading, covers):
            self.unsure.add(name)
        idle_s = next(_idle_seconds(spec), None) if often else None
        return Layer(
            name,
            LayerType.IDLE_MONITOR if often else LayerType.DEAD_MAN,
            covers,
            cron_job=Ref("batch/v1", "CronJob", namespace_of(obj) or "default", name),
            idle_s=idle_s,
        )

    def _beside(self) -> Iterator[Layer]:
        """What a machine's own schedule starts, beside the manifests: as a rehearsal saw it."""
        home = machines.home_of(one.beside for one in self.rehearsed.values() if one.beside)
        for who, one in self.rehearsed.items():
            if one.beside is None:
                continue
            covers = self._seen_beside(who, one)
            if not covers:
                how = "it was fired in a rehearsal, and none went off" if one.ran else one.why_unknown
                self.found.misses.append(f"{who} touches no target: {how}")
                continue
            self.found.folder = home
            yield machines.layer(who.partition("/")[2], one.beside, covers, home)

    def _seen_beside(self, who: str, one: Rehearsed) -> tuple[str, ...]:
        """The targets that such a program turned off or tried to; what asks a cloud, as its command lines say."""
        name = who.partition("/")[2]
        asked = tuple(dict.fromkeys(str(call) for call in one.first.clouds))
        if not one.known and asked:
            self.found.evidence[name] = (
                f"seen in a rehearsal: fired once, it asked for '{asked[0]}'; no cloud was there"
            )
            return self.stopping.named_by(Reading(outside=asked), who)
        seen = seen_of(one, self.targets, self.by_target)
        self.found.notes += [f"{who} was seen to put {lit} up: it starts what others stop" for lit in seen.lit]
        tried = seen.tried or (() if seen.off or seen.lit else self._looked_for(one))
        self.found.evidence[name] = f"seen in a rehearsal: fired once, it turned off {', '.join(seen.off) or 'nothing'}"
        return tuple(t.name for t in self.targets if t.name in (*seen.off, *tried))

    def _looked_for(self, one: Rehearsed) -> tuple[str, ...]:
        """The targets in a namespace in which a program was refused something of their kind: meant, by another name."""
        missed = {(call.resource, call.namespace) for call in one.first.refused}
        return tuple(t.name for t in self.targets if (plural_of(t.kind), t.namespace) in missed)

    def _seen(self, obj: Obj) -> Seen | None:
        """What a rehearsal showed of a program; None: it was not rehearsed, or could not be."""
        found = self.rehearsed.get(f"{obj.get('kind')}/{namespace_of(obj) or 'default'}/{name_of(obj)}")
        return seen_of(found, self.targets, self.by_target) if found is not None and found.known else None

    def _asked_a_cloud(self, obj: Obj) -> None:
        """What a rehearsal saw of a program that asks a cloud, which nobody answered for: beside what is read of it."""
        found = self.rehearsed.get(f"{obj.get('kind')}/{namespace_of(obj) or 'default'}/{name_of(obj)}")
        asked = found.first.clouds if found is not None else ()
        if asked:
            self.found.evidence[name_of(obj)] = (
                f"read; fired once in a rehearsal, it asked for '{asked[0]}', and no cloud was there"
            )

    def _seen_to_touch(self, obj: Obj, seen: Seen, reading: Reading, spec: Obj) -> tuple[str, ...]:
        """The targets that a program was seen to turn off or to try to; where it did not get as far as that, those
        that it would turn off by its commands or its rights."""
        who, name = ref_of(obj), name_of(obj)
        self.found.notes += [f"{who} was seen to put {lit} up: it starts what others stop" for lit in seen.lit]
        starts = [one for one in seen.tried if self._only_starts(reading, one)]
        self.found.notes += [f"{who} was seen to fail to put {one} up: it starts what others stop" for one in starts]
        tried = [one for one in seen.tried if one not in starts]
        if (seen.off or tried) and not seen.ended_well:  # it broke off: what is read of it would have come after that
            tried += [name for name in self.stopping.named_by(reading, who) if name not in (*seen.off, *tried)]
        if seen.off or tried:
            self.found.evidence[name] = (
                "seen in a rehearsal: fired once, it turned off "
                + (", ".join(seen.off) or "nothing")
                + (f" (tried: {', '.join(tried)})" if tried else "")
                + (f" (no operator was there: {', '.join(seen.asked)} had no pods)" if seen.asked else "")
            )
            return tuple(t.name for t in self.targets if t.name in (*seen.off, *tried))
        if seen.lit or starts:
            return ()
        covers = self.stopping.named_by(reading, who)
        if not covers:
            covers = self._by_rights(obj, reading, spec)
        counted = bool(reading.writes) and all(call.replicas for call in reading.writes)
        if covers and counted and self.stopping.never_to_zero(reading, covers):
            self.found.notes.append(f"{who} is read to write {reading.writes[0].replicas}, never 0: it is no layer")
            return ()
        if covers:
            self.found.evidence[name] = "read: fired once in a rehearsal, it turned off nothing"
        return covers

    def _only_starts(self, reading: Reading, name: str) -> bool:
        """Whether all that could be read of what a program writes to a target puts it up: its refusal stops nothing."""
        target = next(one for one in self.targets if one.name == name)
        writes = [call for call in reading.writes if self.stopping.is_about(call, target)]
        return bool(writes) and all(call.removes or self.stopping.starts(call, target) for call in writes)

    def _controller(self, obj: Obj) -> Iterator[Layer]:
        """A long-running program that turns targets off, or one that drains nodes at a spot notice."""
        read = self._read(obj)
        if read is None or downtimes.is_downscaler(obj):
            return
        reading, spec = read
        ref = Ref(str(obj["apiVersion"]), str(obj["kind"]), namespace_of(obj) or "default", name_of(obj))
        images = [str(c.get("image", "")) for c in dig(spec, "containers", default=[])]
        if any(_TERMINATION_HANDLERS.search(image) for image in images):
            yield Layer(name_of(obj), LayerType.SPOT_HANDLER, tuple(t.name for t in self.targets), workload=ref)
            return
        seen = self._seen(obj)
        covers = self.stopping.named_by(reading, ref_of(obj))
        if seen is not None and (seen.off or seen.tried):
            covers = self._seen_to_touch(obj, seen, reading, spec)
        idle_s = next(_idle_seconds(spec), None)
        words = [str(word) for one in dig(spec, "containers", default=[]) for word in _words(one)]
        if covers and idle_s is None and Asked.HOUR in asked([*words, *self._mounted(spec, namespace_of(obj))]):
            yield Layer(name_of(obj), LayerType.DEAD_MAN, covers, workload=ref)
            return
        if covers and idle_s is None:
            self.unread.append(
                f"{ref_of(obj)} turns off {', '.join(covers)} by a watch of its own, and after how long is not said: "
                "name it under layers as an idle-monitor, with its workload and idle; if it goes by the hour, as "
                "a dead-man, with its workload"
            )
        if covers:
            yield Layer(name_of(obj), LayerType.IDLE_MONITOR, covers, workload=ref, idle_s=idle_s)
        elif reading.not_understood and any(self.stopping.may_stop(obj, spec, target) for target in self.targets):
            self.opaque.append(obj)
            if dig(obj, "spec", "replicas") == 0:
                self.found.misses.append(f"{ref_of(obj)} has 0 replicas: nothing of it runs")

    def _mounted(self, spec: Obj, namespace: str) -> Iterator[str]:
        """The text of the ConfigMaps that a pod has as files: scripts lie there."""
        for volume in dig(spec, "volumes", default=[]):
            held = self.config_maps.get((namespace or "default", str(dig(volume, "configMap", "name"))), {})
            yield from map(str, dig(held, "data", default={}).values())

    def _touched(self, obj: Obj, reading: Reading, spec: Obj) -> tuple[str, ...]:
        """The targets that an executor turns off: by its calls; where those cannot be read, by what it may do."""
        covers = self.stopping.named_by(reading, ref_of(obj))
        if covers or not reading.not_understood:
            return covers
        allowed = self._by_rights(obj, reading, spec)
        if allowed:
            unread = "; ".join(reading.not_understood)
            self.found.notes.append(
                f"{ref_of(obj)} is taken for a layer by what its ServiceAccount may do; not understood: {unread}"
            )
        return allowed

    def _by_rights(self, obj: Obj, reading: Reading, spec: Obj) -> tuple[str, ...]:
        """The targets that a program is allowed to turn off, but for those of which it starts or makes the like."""
        started = {t.name for t in self.targets for call in reading.writes if self.stopping.starts(call, t)}
        may = [t for t in self.targets if t.name not in started and self.stopping.may_stop(obj, spec, t)]
        own = {t.name for t in may if reading.writes and self.stopping.may_make(obj, spec, t)}
        if own:
            self.unread.append(
                f"{ref_of(obj)} may turn off {', '.join(sorted(own))} by its rights; those are of who makes such "
                f"objects, and what could be read of it changes others ({reading.writes[0]})"
            )
        return tuple(t.name for t in may if t.name not in own)

    def _missed(self, obj: Obj, reading: Reading) -> None:
        who = ref_of(obj)
        self.unread += [f"{who}: {what}" for what in reading.not_understood]
        did = "; ".join(str(call) for call in reading.writes[:3])
        reason = f"it does {did}" if did else "no call to the Kubernetes API was found in it"
        pods = [template.spec for template in templates(obj)[:1]] if reading.not_understood else []
        if pods and not any(self.stopping.may_stop(obj, pods[0], target) for target in self.targets):
            reason += f", and its ServiceAccount ({dig(pods[0], 'serviceAccountName') or 'default'}) may change none"
        if self._seen(obj) is not None:
            reason = "it was fired in a rehearsal, and none of them went off"
        self.found.misses.append(f"{who} touches no target: {reason}")

    # -- scalers ---------------------------------------------------------------------------------------------
    def _scaler(self, obj: Obj) -> Iterator[Layer]:
        target = self.stopping.scale_target(obj)
        if target is None or dig(obj, "metadata", "ownerReferences"):
            return
        floor, idle_s = _floor(obj), _cooldown_s(obj)
        if floor:
            # An HPA leaves 0 replicas alone (ScalingDisabled, recording 29); KEDA goes back to its minimum.
            undoes = "it undoes a scale to zero that does not pause it"
            leaves = "it leaves a scale to zero alone" if r.is_of(obj, r.HPAS) else undoes
            self.found.notes.append(f"{ref_of(obj)} keeps at least {floor} of {target}: {leaves}")
            return
        if dig(obj, "metadata", "annotations", "autoscaling.keda.sh/paused-replicas") or dig(
            obj, "metadata", "annotations", "autoscaling.keda.sh/paused"
        ):
            self.found.notes.append(f"{ref_of(obj)} is paused: it scales nothing")
        ref = Ref(str(obj["apiVersion"]), str(obj["kind"]), namespace_of(obj) or "default", name_of(obj))
        yield Layer(f"{name_of(obj)}-to-zero", LayerType.SCALE_TO_ZERO, (target.name,), scaler=ref, idle_s=idle_s)

    # -- starters and what holds them back -----------------------------------------------------------------------
    def _sentinels(self) -> Iterator[Layer]:
        """ConfigMaps that a scheduled starter reads before it scales a target up."""
        for obj in self.objects:
            read = self._read(obj) if obj.get("kind") == "CronJob" else None
            calls = read[0].calls if read else ()
            started = [t for t in self.targets for call in calls if call.replicas and self.stopping.is_about(call, t)]
            held = [c for c in calls if started and (c.verb, c.resource) == ("get", "configmaps") and c.name]
            for call in held[:1]:
                config_map = self.config_maps.get((call.namespace, call.name), {})
                keys = list(dig(config_map, "data", default={}))
                if len(keys) != 1:
                    self.found.notes.append(
                        f"{ref_of(obj)} reads ConfigMap {call.namespace}/{call.name} before it starts {started[0]}: "
                        "a sentinel, whose key is not known; name it under layers"
                    )
                    continue
                starter = Ref("batch/v1", "CronJob", namespace_of(obj) or "default", name_of(obj))
                sentinel = Sentinel(
                    config_map=Ref("v1", "ConfigMap", call.namespace, call.name),
                    key=keys[0],
                    start_jobs=(starter,),
                    stopped_within_s=self._stopped_within_s(obj),
                )
                yield Layer(call.name, LayerType.SENTINEL, tuple(t.name for t in started), sentinel=sentinel)

    def _stopped_within_s(self, starter: Obj) -> float | None:
        """Seconds from a start to the next scheduled stop, and an hour for it; None where nothing is scheduled."""
        begun = _schedule(starter)
        start = begun.next(_ANY_MONDAY) if begun else None
        stops = [s.next(start) for job in self.found.cron_jobs for s in [_schedule(job)] if s and start]
        nearest = min((stop for stop in stops if stop), default=None)
        return (nearest - start).total_seconds() + 3600.0 if start and nearest else None

    def _spot(self, others: bool) -> Iterator[Layer]:
        """Where nothing else turns targets off, and their pools are spot alone: the cloud does, at a notice's time."""
        every = [obj for obj in self.objects if r.is_of(obj, r.NODEPOOLS)]
        pools = [obj for obj in every if is_spot(obj)]
        # Of a target that may as well be on another pool, a spot notice says nothing.
        covers = tuple(t.name for t in self.targets if lands_only_on(self.by_target[t.name], pools, every))
        if covers and not others:
            self.found.notes.append(
                f"{ref_of(pools[0])} buys on the spot market: what its notices set off is drilled as a layer; tell the "
                "spec where the workers' progress can be read (checkpoint)"
            )
            groups = {str(dig(o, "spec", "template", "spec", "nodeClassRef", "group", default="")) for o in pools}
            elsewhere = [leaves for group, leaves in _OTHER_NOTICES.items() if group in groups]
            yield Layer(
                "spot-reclaim", LayerType.SPOT_HANDLER, covers, notice_s=min(elsewhere, default=NOTICE_S["aws"])
            )

    # -- workers that end themselves -------------------------------------------------------------------------
    def _self_terminating(self) -> Iterator[Layer]:
        """Targets whose environment says after how long without work they exit, and Jobs with a deadline."""
        for target in self.targets:
            obj = self.by_target[target.name]
            idle_s = next((seconds for t in templates(obj) for seconds in _idle_seconds(t.spec)), None)
            limit = limit_of(obj)
            if idle_s is None and limit is None:
                continue
            if target.kind not in ("Pod", "Job"):
                self.found.notes.append(
                    f"{target} seems to end itself when idle, but a {target.kind} starts its pods again after exit 0"
                )
                continue
            seconds = limit if idle_s is None else idle_s
            yield Layer(f"{target.name}-self", LayerType.SELF_TERMINATING, (target.name,), idle_s=seconds)


def _key(layer: Layer) -> tuple[str, str, str] | None:
    ref = layer.cron_job
    return (ref.kind, ref.namespace, ref.name) if ref else None


def _schedule(cron_job: Obj) -> Schedule | None:
    try:
        return parse(str(dig(cron_job, "spec", "schedule", default="")), dig(cron_job, "spec", "timeZone"))
    except ScheduleError:
        return None


def _floor(obj: Obj) -> int:
    """How many replicas a scaler never goes below when there is nothing to do."""
    if obj["kind"] == "HTTPScaledObject":
        return int(dig(obj, "spec", "replicas", "min", default=0))
    if obj["kind"] == "HorizontalPodAutoscaler":
        return int(dig(obj, "spec", "minReplicas", default=1))
    idle = dig(obj, "spec", "idleReplicaCount")
    return int(dig(obj, "spec", "minReplicaCount", default=0) if idle is None else idle)


def _cooldown_s(obj: Obj) -> float | None:
    if obj["kind"] == "HTTPScaledObject":
        return float(dig(obj, "spec", "scaledownPeriod", default=KEDA_COOLDOWN_S))
    if obj["kind"] == "ScaledObject":
        return float(dig(obj, "spec", "cooldownPeriod", default=KEDA_COOLDOWN_S))
    return None


def _words(container: Obj) -> Iterator[object]:
    """What a container is started with."""
    yield from (*(container.get("command") or ()), *(container.get("args") or ()))


def _idle_seconds(spec: Obj) -> Iterator[float]:
    for container in dig(spec, "containers", default=[]):
        for entry in container.get("env") or ():
            match = _IDLE.fullmatch(str(entry.get("name", "")))
            value = str(entry.get("value", ""))
            if match and re.fullmatch(r"\d+(\.\d+)?", value):
                unit = (match[2] or "seconds").lower()
                yield float(value) * (0.001 if unit in ("ms", "millis") else _UNIT_S[unit[0]])


def _named_apart(layers: Sequence[Layer]) -> Iterator[Layer]:
    """Layers with names of their own: the namespace before it, then a number after it."""
    used: set[str] = set()
    for layer in layers:
        names = [layer.name]
        if layer.ref:
            names.append(f"{layer.ref.namespace}-{layer.name}")
        names += [f"{layer.name}-{i}" for i in range(2, len(layers) + 2)]
        name = next(name for name in names if name not in used)
        used.add(name)
        yield replace(layer, name=name)
