"""An idle monitor that is always there: a Deployment that watches its targets and turns off what idles.

Nothing is pulled. Its targets are left idle, and the clock of the drill starts with their last use: what goes off
before they have been idle for long enough was busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from killcheck.entries import Entry
from killcheck.executor.refusals import refusal
from killcheck.kube import container_logs
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, parse_time, uid_of
from killcheck.kube.permissions import Permission
from killcheck.layers import around, carried, unlike
from killcheck.layers.base import Explanation, LayerError, LayerRun, Stage
from killcheck.spec.killpath import Layer, LayerType
from killcheck.text import lazy_re

__all__ = ["IdleWorkload", "running_since"]

#: The monitor's clock and ours may differ by as much, in seconds.
EARLY_S = 5.0
#: What is said where there is nothing to make its targets busy with.
UNTRIED = "whether it leaves busy targets on was not tried: the spec gives no busy command that makes a request"
#: How long after it is due an idle monitor that works has acted, in seconds.
PROMPT_S = 900.0
#: What of its log is kept, in characters.
LOG_KEPT = 4_000
#: How programs ask for the hour or the day of the week; not a time in a log (%H:%M).
_BY_HOUR = lazy_re.compile(
    r"%-?[Hku](?![:.h-]?%-?M)\b|\.hour\b|\btm_hour\b|\bget(?:UTC)?Hours\(|\b(?:iso)?weekday\(\)|\.Hour\(\)"
)
#: Seconds in which every hour has been.
_DAY_S = 86400.0


class IdleWorkload(LayerRun):
    """One drill of an idle monitor that is a workload."""

    own_phases = ("triggered",)
    goes_on = True
    remedy = "let it measure what the target does (requests, items, device use), and act only after the whole delay"

    @staticmethod
    def drills(layer: Layer) -> bool:
        """An idle monitor that is neither a CronJob nor a program."""
        return layer.type is LayerType.IDLE_MONITOR and layer.cron_job is None and layer.command is None

    def __init__(self, layer: Layer, stage: Stage) -> None:
        super().__init__(layer, stage)
        if layer.workload is None:
            raise LayerError(f"layer {layer.name}: it names no workload")
        self.ref = layer.workload
        #: The workload itself, as it was before the drill.
        self._own: Obj = {}
        #: The monitor's own pods, as last seen.
        self._pods: dict[str, Obj] = {}
        #: When each of them began to work, and ended; None: it works.
        self._at_work: dict[str, tuple[datetime, datetime | None]] = {}
        self._used_at: datetime | None = None
        self._zero_at: datetime | None = None
        self._unproven: str | None = None
        self._standing_by = False
        #: How its program asks for the hour; empty: it does not, as far as can be read.
        self._by_hour = ""
        #: When its targets were left to it.
        self._left_at: datetime | None = None

    def prepare(self) -> None:
        """The monitor must be there, and how long it waits be known."""
        if self.layer.idle_s is None:
            raise LayerError(f"layer {self.layer.name}: after how long {self.ref} acts is not said: give it idle")
        self._own = self._found()
        texts = self._texts(self._own)
        self._by_hour = next((found[0] for text in texts if (found := _BY_HOUR.search(text))), "")

    @property
    def program(self) -> Obj:
        """The workload's."""
        return self._own

    def idles_s(self) -> float | None:
        """As long as it waits."""
        return self.layer.idle_s or 0.0

    def comes_again(self, after: datetime) -> datetime | None:
        """At any time, once its targets have idled."""
        return after + timedelta(seconds=PROMPT_S)

    def doubts(self) -> Sequence[Entry]:
        """Also what makes its nights differ, and what it keeps on a volume."""
        if self.stage.cluster.real or not self.program:
            return super().doubts()
        late_s = min(self.late_by_s(), PROMPT_S)
        lying = carried.on_volumes(self.program, self._config_map)
        around_it = around.of(self.stage, self.layer, loops=True, monitors=self.layer.type is LayerType.IDLE_MONITOR)
        return [*super().doubts(), *lying, *unlike.entries(self.program, self._config_map, late_s, around_it)]

    def _config_map(self, name: str) -> Obj | None:
        return self.stage.cluster.kube.find(r.CONFIGMAPS, name, self.ref.namespace)

    def own_firing(self, since: datetime) -> Sequence[str]:
        """What its pod said last."""
        running = [pod for pod in self._pods.values() if running_since(pod, self.stage.cluster.loop.now())]
        return self._said(running[-1]) if running else ()

    def _found(self) -> Obj:
        """The monitor itself. Raises LayerError, KubeError."""
        kube = self.stage.cluster.kube
        try:
            return kube.get(kube.resource_for(self.ref.api_version, self.ref.kind), self.ref.name, self.ref.namespace)
        except NotFound:
            raise LayerError(f"layer {self.layer.name}: there is no {self.ref}") from None

    def _texts(self, own: Obj) -> Iterator[str]:
        """What its program is given to run; its ConfigMaps on the embedded cluster alone, where no right is needed."""
        spec = dig(own, "spec", "template", "spec", default={})
        for container in spec.get("containers") or ():
            yield from (str(word) for key in ("command", "args") for word in container.get(key) or ())
        for volume in () if self.stage.cluster.real else spec.get("volumes") or ():
            name = dig(volume, "configMap", "name")
            found = self.stage.cluster.kube.find(r.CONFIGMAPS, name, self.ref.namespace) if name else None
            yield from map(str, dig(found or {}, "data", default={}).values())

    def permissions(self) -> Sequence[Permission]:
        """Reading the monitor and its log."""
        kube = self.stage.cluster.kube
        resource = kube.resource_for(self.ref.api_version, self.ref.kind)
        ns = self.ref.namespace
        return [
            Permission("get", resource.group, resource.plural, namespace=ns, name=self.ref.name),
            Permission("get", "", "pods", "log", namespace=ns),
        ]

    def unproven(self) -> str | None:
        """Its target could not be made busy; or it goes by the hour, and its hour may not have come."""
        return self._unproven or self._of_another_hour()

    def _of_another_hour(self) -> str | None:
        """It left its targets on, none of its calls failed, and it asks what time of day it is."""
        now, begun = self.stage.cluster.loop.now(), self._left_at
        if not self._by_hour or begun is None or (now - begun).total_seconds() >= _DAY_S or not self._never_off(begun):
            return None
        running = [pod for pod in self._pods.values() if running_since(pod, now)]
        if not running or refusal("\n".join(self._said(running[0]))) is not None:
            return None
        return (
            f"{self.ref} goes by the time of day ({self._by_hour}): it left its targets on from {begun:%H:%M} to "
            f"{now:%H:%M} UTC, and what it does at another hour was not seen. An idle monitor acts at any hour: what "
            "is to act at a fixed one is best a CronJob, whose hour a drill waits for"
        )

    def untried(self) -> str | None:
        """That nobody saw it leave a busy target on: no request was made."""
        return UNTRIED if self.layer.busy is None else None

    def _never_off(self, since: datetime) -> bool:
        """Whether a pod of its targets is on still that was on then, and that nobody has told to end."""
        scene = self.stage.scene
        held = [scene.pods.get(p.name, p.namespace) for p in scene.gpu_pods() if not p.terminating]
        old = [pod for pod in held if pod and parse_time(pod["metadata"]["creationTimestamp"]) <= since]
        return any(
            scene.is_of(target, pod)
            for target in self.stage.kill_path.covered_by(self.layer)
            if target.kind
            for pod in old
        )

    def before_trigger(self) -> str | None:
        """Make a request, where the spec says how: from then on the target is idle."""
        if self.layer.busy is None:
            return UNTRIED
        asked = self.stage.programs.run(self.layer.busy)
        if not asked.ok:
            self._unproven = f"the target could not be made busy: {asked.told}"
        self._used_at = asked.ended
        return self._unproven or f"a request was made of it ({asked.command}): it is idle from now on"

    def trigger(self) -> str:
        """Leave the targets idle."""
        self._look_around()
        self._left_at = self.stage.cluster.loop.now()
        return f"nothing is pulled: {self.ref} is left to find its targets idle"

    def _look_around(self) -> None:
        for pod in self.stage.scene.pods.values():
            self._see(pod)
        if self._used_at is None:
            held = [self.stage.scene.pods.get(p.name, p.namespace) for p in self.stage.scene.gpu_pods()]
            self._used_at = max((parse_time(p["metadata"]["creationTimestamp"]) for p in held if p), default=None)

    def notice(self, change: Change, old: Obj | None, new: Obj) -> None:
        """The monitor's pods."""
        if new.get("kind") == "Pod" and change != "deleted":
            self._see(new)

    def _see(self, pod: Obj) -> None:
        if namespace_of(pod) == self.ref.namespace and self.stage.scene.root_owner(pod) == (
            self.ref.kind,
            self.ref.name,
        ):
            self._pods[uid_of(pod)] = pod
            self._follow(pod)

    def _follow(self, pod: Obj) -> None:
        """From when to when a pod was at work: of one that is gone by the end of the night, too."""
        now = self.stage.cluster.loop.now()
        begun, until = self._at_work.get(name_of(pod), (now, now))
        if running_since(pod, now):
            since = [dig(s, "state", "running", "startedAt") for s in dig(pod, "status", "containerStatuses")]
            self._at_work[name_of(pod)] = min([begun, *(parse_time(text) for text in since if text)]), None
        elif until is None:
            self._at_work[name_of(pod)] = begun, now

    def stand_by(self) -> None:
        """Seen by its pods; what is on now was last used when it came on, as far as can be known."""
        self.prepare()
        self._look_around()
        self._standing_by = True

    def acted(self, zero_at: datetime) -> str | None:
        """It was at work when the targets had been idle for as long as it waits."""
        self._zero_at = zero_at
        due = self._due()
        running = [
            name for name, (begun, end) in self._at_work.items() if begun <= zero_at and (end is None or zero_at <= end)
        ]
        if not running or due is None or zero_at < due - timedelta(seconds=EARLY_S):
            return None
        if self._standing_by and zero_at > due + timedelta(seconds=PROMPT_S):
            return None  # it left them on when they were due: it takes them for busy, and it was not it
        idle = (zero_at - (self._used_at or zero_at)).total_seconds()
        return f"its pod {running[0]} was at work, and the targets had been idle for {idle / 60:.0f} min"

    def _due(self) -> datetime | None:
        return None if self._used_at is None else self._used_at + timedelta(seconds=self.layer.idle_s or 0.0)

    def flaw(self) -> str | None:
        """It turned off what had not been idle for long enough."""
        due = self._due()
        if self._zero_at is None or due is None or self._zero_at >= due - timedelta(seconds=EARLY_S):
            return None
        idle = (self._zero_at - (self._used_at or self._zero_at)).total_seconds()
        return (
            f"{self.layer.name} acts on a busy target: it went off {idle:.0f} s after its last use, and is to be "
            f"left on for {self.layer.idle_s or 0:.0f} s"
        )

    def explain(self, stuck_at: str) -> Explanation | None:
        """The monitor is not there, or does not find its targets idle."""
        if stuck_at not in ("scale_written", "pods_terminating", "pods_gone"):
            return None
        now = self.stage.cluster.loop.now()
        running = [pod for pod in self._pods.values() if running_since(pod, now)]
        if not running:
            statuses = [s for p in self._pods.values() for s in dig(p, "status", "containerStatuses", default=[])]
            return Explanation(
                f"{self.ref} is not at work: "
                + (", ".join(sorted({_reason(s) for s in statuses})) or "none of its containers runs"),
                tuple(name_of(p) for p in self._pods.values()),
                "mend it, and alarm when it is down",
                (48,),
            )
        return Explanation(
            f"{self.ref} is at work and left its targets on: it does not take them for idle",
            tuple(self._said(running[0])),
            "see what it counts as use: health checks, its own probes, open websockets; and what it may do",
            (40, 16),
        )

    def _said(self, pod: Obj) -> list[str]:
        try:
            text = container_logs.read(self.stage.cluster.kube, pod, kept=LOG_KEPT)
        except KubeError as error:
            return [f"[the log could not be read: {error}]"]
        return text.strip().splitlines()[-5:]


def _reason(status: Obj) -> str:
    waiting = dig(status, "state", "waiting", "reason")
    ended = dig(status, "state", "terminated") or dig(status, "lastState", "terminated") or {}
    code = f"exit code {ended['exitCode']}, {status.get('restartCount', 0)} restart(s)" if "exitCode" in ended else ""
    return " after ".join(part for part in (waiting or "ended", code) if part)


def running_since(pod: Obj, moment: datetime) -> bool:
    """Whether a container of a pod runs that did so at a moment."""
    begun = [dig(s, "state", "running", "startedAt") for s in dig(pod, "status", "containerStatuses", default=[])]
    return any(text and parse_time(text) <= moment for text in begun)
