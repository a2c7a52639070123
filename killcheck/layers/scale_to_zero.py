"""Scale to zero: KEDA, or its HTTP add-on, takes the replicas away when nobody asks for them.

Nothing is pulled on a real cluster: the scaler is left to find its target idle, and the clock starts there. On the
embedded one the trigger's own reading is turned to zero (an annotation stands for the queue), and turned back once
everything is proven: what nothing wakes is turned off for good, and somebody will turn the scaler off for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from killcheck.clock import VirtualLoop
from killcheck.embedded import keda_triggers
from killcheck.entries import Becomes, leaves
from killcheck.kube import http_routes
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    condition,
    controller_of,
    dig,
    format_time,
    name_of,
    namespace_of,
)
from killcheck.kube.permissions import Permission
from killcheck.layers.base import Explanation, LayerError, LayerRun, Stage
from killcheck.spec.killpath import Layer, LayerType, Target
from killcheck.watch.scene import event_time

__all__ = ["ACTIVE", "READING", "ScaleToZero"]

#: What every live trigger of a ScaledObject reads on the embedded cluster.
READING = keda_triggers.VALUE
#: Its value for a live source that has work.
ACTIVE = keda_triggers.ACTIVE
#: KEDA's event and its write may be this far apart, in seconds.
SLACK_S = 5.0
#: How long after the first request its target may still ask for no replicas, in seconds: a few polls.
WAKES_S = 180.0
#: How long after that a pod of each may take to be ready, in seconds: a machine is bought, a model is loaded.
SERVES_S = 1800.0
#: pollingInterval where a ScaledObject says none.
POLLING_S = 30.0


class ScaleToZero(LayerRun):
    """One drill of a ScaledObject or HTTPScaledObject."""

    own_phases = ("triggered",)
    remedy = (
        "let what counts requests wake it from zero: its trigger's activation value below one, the HTTP add-on's "
        "interceptor in front of the service"
    )

    @staticmethod
    def drills(layer: Layer) -> bool:
        """A scaler that lets its target fall to zero."""
        return layer.type is LayerType.SCALE_TO_ZERO and layer.container is None

    def __init__(self, layer: Layer, stage: Stage) -> None:
        super().__init__(layer, stage)
        if layer.scaler is None:
            raise LayerError(f"layer {layer.name}: a scale-to-zero layer names its scaler")
        self.ref = layer.scaler
        self.scaled: Obj = {}
        #: The HTTPScaledObject that it was made of; empty: there is none.
        self._declared: Obj = {}
        self._deactivated: list[str] = []
        self._flaw: str | None = None
        self._untried: str | None = None
        self._reading = ""
        self._zero_at: datetime | None = None
        #: The annotation as it was; None: there was none, and what is live counts as active.
        self._before: str | None = None

    def prepare(self) -> None:
        """Find the ScaledObject, the HTTP add-on's own one for an HTTPScaledObject."""
        kube = self.stage.cluster.kube
        resource = r.HTTPSCALEDOBJECTS if self.ref.kind == "HTTPScaledObject" else r.SCALEDOBJECTS
        try:
            declared = kube.get(resource, self.ref.name, self.ref.namespace)
        except NotFound:
            raise LayerError(f"layer {self.layer.name}: there is no {self.ref}") from None
        self.scaled = declared if resource is r.SCALEDOBJECTS else self._of_add_on(declared)

    def _of_add_on(self, declared: Obj) -> Obj:
        self._declared = declared
        if not self.stage.cluster.loop.run_until(lambda: self._owned(declared) is not None, 60.0):
            raise LayerError(
                f"layer {self.layer.name}: no ScaledObject belongs to {self.ref}: is KEDA's HTTP add-on running?"
            )
        found = self._owned(declared)
        assert found is not None
        return found

    def _owned(self, declared: Obj) -> Obj | None:
        for one in self.stage.cluster.kube.list(r.SCALEDOBJECTS, self.ref.namespace).items:
            owner = controller_of(one)
            if owner and owner.get("uid") == declared["metadata"]["uid"]:
                return one
        return None

    def permissions(self) -> Sequence[Permission]:
        """Reading the scaler; turning its reading on the embedded cluster."""
        ns = self.ref.namespace
        http = [Permission("list", "", "services", namespace=ns)] if self.ref.kind == "HTTPScaledObject" else []
        return [
            Permission("get", "keda.sh", "scaledobjects", namespace=ns),
            Permission("list", "keda.sh", "scaledobjects", namespace=ns),
            *http,
        ]

    def before_trigger(self) -> str | None:
        """On a virtual clock an open window of a cron trigger is waited out: it holds its replicas until then."""
        loop, told = self.stage.cluster.loop, ""
        if not isinstance(loop, VirtualLoop):
            return told
        for _ in range(len(keda_triggers.triggers(self.scaled))):
            reading = keda_triggers.read(self.scaled, loop.now())
            if not reading.desired or reading.changes is None:
                break
            told = f"waited for the cron window of ScaledObject {name_of(self.scaled)} to close, at " + (
                f"{reading.changes:%Y-%m-%d %H:%M} UTC"
            )
            self.stage.wait("the cron window to close", lambda: False, (reading.changes - loop.now()).total_seconds())
        return told

    def trigger(self) -> str:
        """The last request has been served."""
        if not self.stage.cluster.real:  # a target that slept has been woken by its triggers since
            self.scaled = self.stage.cluster.kube.get(r.SCALEDOBJECTS, name_of(self.scaled), namespace_of(self.scaled))
        if self._modelled():
            self._before = annotations_of(self.scaled).get(READING)
            self._reading, left = self._before or keda_triggers.ACTIVE, self.stage.reading
            said = f"its triggers read {left}"
            if left is None:
                said = f"its triggers read {self._reading} still"
            else:
                self.stage.journal.merge(
                    r.SCALEDOBJECTS,
                    name_of(self.scaled),
                    namespace_of(self.scaled),
                    {"metadata": {"annotations": {READING: left}}},
                    f"ScaledObject {namespace_of(self.scaled)}/{name_of(self.scaled)}: {said}",
                    transient=True,  # a switch of the night may delete it, and what it was made to read with it
                )
            return f"the last request is served: ScaledObject {name_of(self.scaled)}, {said}"
        return f"nothing is pulled: {self.ref} is left to find its target idle"

    def _modelled(self) -> bool:
        said = annotations_of(self.scaled).get(READING, keda_triggers.ACTIVE)
        return not self.stage.cluster.real and bool(keda_triggers.live(self.scaled)) and said not in ("0", "")

    def notice(self, change: Change, old: Obj | None, new: Obj) -> None:
        """KEDA says when it deactivates a target."""
        if new.get("kind") != "Event" or change == "deleted" or new.get("reason") != "KEDAScaleTargetDeactivated":
            return
        about = new.get("involvedObject") or {}
        if (about.get("namespace"), about.get("name")) == (namespace_of(self.scaled), name_of(self.scaled)):
            self._deactivated.append(event_time(new))

    @leaves("scale to zero", "how long a model loads, where what holds GPUs does not run", Becomes.SAID)
    @leaves("scale to zero", "requests that meet a pod while it ends (502)", Becomes.SAID)
    def afterwards(self) -> Sequence[str]:
        """What went to zero must come back when somebody asks: the first request after it is made."""
        asked_at = self.stage.cluster.loop.now()
        if self._reading:
            self.stage.cluster.kube.patch(
                r.SCALEDOBJECTS,
                name_of(self.scaled),
                {"metadata": {"annotations": {READING: self._before}}},
                namespace_of(self.scaled),
            )
            asked = f"its triggers read {self._reading} again"
        elif self.layer.busy is not None:
            ran = self.stage.programs.run(self.layer.busy)
            if not ran.ok:
                self._untried = f"whether it wakes again was not seen: {ran.told}"
                return [self._untried]
            asked = f"a request was made ({ran.command})"
        else:
            self._untried = "whether it wakes again was not tried: the spec gives no busy command that makes a request"
            return [self._untried]
        targets = [t for t in self.stage.kill_path.covered_by(self.layer) if t.kind]
        names = ", ".join(map(str, targets))
        scene = self.stage.scene
        if not self.stage.wait("the request to wake them", lambda: all(map(scene.replicas, targets)), WAKES_S):
            self._flaw = (
                f"nothing wakes it: {asked}, and {WAKES_S / 60:.0f} min later {names} asks "
                "for no replicas still: who comes next finds nobody there"
            )
            return [self._flaw]
        if not self.stage.wait("them to answer", lambda: all(map(self._serves, targets)), SERVES_S):
            self._flaw = (
                f"it wakes and does not answer: {asked}, and {SERVES_S / 60:.0f} min later no pod of {names} "
                f"is ready: who comes next waits for nobody{self._ended_by()}"
            )
            return [self._flaw]
        took_s = (self.stage.cluster.loop.now() - asked_at).total_seconds()
        self._flaw = self._unanswered(targets, asked) or self._too_late(took_s)
        if self._flaw:
            return [self._flaw]
        if self._reading:
            self._untried = (
                "whether its program answers, how long it loads, and what a request gets while its pod ends (502) was "
                "not tried: what holds GPUs does not run here"
            )
        woke = f"{asked}: it woke, and a pod of each target is ready after {took_s:.0f} s{self._route()}"
        return [woke, *self._unsaid(took_s)]

    def _route(self) -> str:
        ref = dig(self._declared, "spec", "scaleTargetRef", default={})
        if not ref:
            return ""
        return f"; Service {ref.get('service')} leads to it at {ref.get('portName') or ref.get('port')}"

    def _unanswered(self, targets: Sequence[Target], asked: str) -> str | None:
        """Why no request reaches what woke; None where the interceptor's way to it is whole, or there is none."""
        if not self._declared:
            return None
        scene = self.stage.scene
        pods = [pod for pod in scene.pods.values() if any(scene.is_of(target, pod) for target in targets)]
        try:
            services = self.stage.cluster.kube.list(r.SERVICES, namespace_of(self._declared)).items
        except KubeError as error:
            self._untried = f"whether a request reaches it was not seen: {error}"
            return None
        broken = http_routes.broken(self._declared, services, pods)
        if broken is None:
            return self._past(asked) or self._too_early(asked, pods)
        self.remedy = "let scaleTargetRef name the workload's Service, and a port that it has"
        return f"nobody is answered: {asked}, it woke, and of {self.ref} {broken}"

    def _past(self, asked: str) -> str | None:
        """That who asks by its host never meets the interceptor; of a real cluster, `lint` asks for its routes."""
        if self.stage.cluster.real:
            return None
        around = http_routes.past(self._declared, self.stage.cluster.kube.list(r.INGRESSES).items)
        if around is None:
            return None
        self.remedy = "let the route lead to the interceptor (keda-add-ons-http-interceptor-proxy) for these hosts"
        return f"nothing wakes it from outside: {asked}, it woke, and yet {around}: while it sleeps, a 502 or a 503"

    def _too_early(self, asked: str, pods: Sequence[Obj]) -> str | None:
        """That requests come before the model is loaded, where somebody says for how long it does."""
        registry = self.stage.cluster.capabilities.registry
        if registry is None or not pods or any(map(http_routes.says_when_ready, pods)):
            return None
        images = [str(one.get("image")) for pod in pods for one in dig(pod, "spec", "containers", default=[])]
        loads_s = max((registry.loads_s.get(image, 0.0) for image in images), default=0.0)
        if not loads_s:
            return None
        self.remedy = "give it a readinessProbe that waits for the model"
        return (
            f"it answers too early: {asked}, it was ready as soon as it started, and its model loads for "
            f"{loads_s:.0f} s more: until then who asks is refused (502)"
        )

    def _ended_by(self) -> str:
        """Which probe ends what loads, as the kubelet says it; empty: none does."""
        for event in self.stage.scene.events.values():
            message = str(event.get("message", ""))
            if message.endswith("probe, will be restarted"):
                self.remedy = "give its probe as much patience as the model takes: failureThreshold * periodSeconds"
                return f": {message}"
        return ""

    def _too_late(self, took_s: float) -> str | None:
        """That it wakes beyond what the spec allows, or after the interceptor has given up; empty: in time."""
        patience_s, says = self._patience()
        for limit_s, whose in (
            (self.layer.cold_start_s, "coldStart of the spec"),
            (patience_s, f"{says} of {self.ref}, then a 504" if " " not in says else f"{says}, then a 504"),
        ):
            if limit_s is not None and took_s > limit_s:
                self.remedy = "shorten the cold start (image, model, machine), or allow for it"
                late = f"it wakes too late: a pod is ready {took_s:.0f} s after the request"
                return f"{late}, and {limit_s:.0f} s is {whose}"
        return None

    def _patience(self) -> tuple[float | None, str]:
        """How long its interceptor holds a request, and who says so (of a real cluster: its own object alone)."""
        if not self._declared:
            return None, ""
        cluster = self.stage.cluster
        return http_routes.gives_up(self._declared, () if cluster.real else cluster.kube.list(r.DEPLOYMENTS).items)

    def _unsaid(self, took_s: float) -> list[str]:
        """That nobody says how long a request is held, where an interceptor of some releases would have given up."""
        if not self._declared or took_s <= http_routes.UNSAID_S or self._patience()[1]:
            return []
        return [
            f"assumed: the interceptor held that request for {took_s:.0f} s. Nobody says for how long it does: newer "
            f"ones for ever, older ones for {http_routes.UNSAID_S:.0f} s (timeouts.conditionWait says it)"
        ]

    def _serves(self, target: Target) -> bool:
        """Whether a pod of a target is ready to answer."""
        scene = self.stage.scene
        roots = {(target.kind, name_of(obj)) for obj in scene.objects_of(target)}
        held = [scene.pods.get(pod.name, pod.namespace) for pod in scene.gpu_pods() if not pod.terminating]
        return any(
            scene.root_owner(pod) in roots and (condition(pod, "Ready") or {}).get("status") == "True"
            for pod in held
            if pod is not None
        )

    def untried(self) -> str | None:
        """That nobody saw it wake, or answer when it had."""
        return self._untried

    def flaw(self) -> str | None:
        """It slept on when it was asked, or did not wait for as long as its target may idle."""
        return self._flaw or self._early()

    def _early(self) -> str | None:
        """It turned off what had not been idle for long enough; known where the last request was the drill's own."""
        timeline, idle_s = self.stage.timeline, self.layer.idle_s or 0.0
        if self._zero_at is None or timeline is None or not self._reading:
            return None
        idle = (self._zero_at - timeline.start).total_seconds()
        polled_s = float(dig(self.scaled, "spec", "pollingInterval", default=POLLING_S))
        if idle >= idle_s - SLACK_S - polled_s:  # KEDA counts from its last look at an active trigger
            return None
        return (
            f"{self.layer.name} does not wait: it went off {idle:.0f} s after the last request, and is to be left "
            f"on for {idle_s:.0f} s (cooldownPeriod)"
        )

    def signs(self, writer: str | None) -> bool:
        """Only KEDA's own hand."""
        return not writer or "keda" in writer.lower()

    def acted(self, zero_at: datetime) -> str | None:
        """It was KEDA if it said so at that moment."""
        self._zero_at = zero_at
        bounds = [format_time(zero_at + timedelta(seconds=s)) for s in (-SLACK_S, SLACK_S)]
        for at in self._deactivated:
            if bounds[0] <= at[:19] + "Z" <= bounds[1]:
                return f"KEDA deactivated the target of ScaledObject {name_of(self.scaled)} at {at[11:19]}"
        return None

    def _counted(self, scaled: Obj) -> list[str]:
        """The pods that a trigger counts."""
        pods = self.stage.cluster.kube.list(r.PODS, namespace_of(scaled)).items
        active = keda_triggers.read(scaled, self.stage.cluster.loop.now(), pods).by
        return [name_of(pod) for pod in pods if keda_triggers.counts(scaled, pod)] if active else []

    def explain(self, stuck_at: str) -> Explanation | None:
        """Why KEDA did not: its minimum, a pause, a trigger that cannot be read, a cooldown beyond the deadline."""
        if stuck_at not in ("scale_written", "pods_terminating", "pods_gone", "held"):
            return None
        if self._declared and http_routes.target_name(self._declared) is None:
            return Explanation(
                f"{self.ref}: {http_routes.broken(self._declared, (), ())}",
                (f"spec.scaleTargetRef: {dig(self._declared, 'spec', 'scaleTargetRef')}",),
                "name the workload in scaleTargetRef: name, kind and apiVersion",
                (27,),
                lasting=True,
            )
        live = self.stage.cluster.kube.find(r.SCALEDOBJECTS, name_of(self.scaled), namespace_of(self.scaled))
        what = f"ScaledObject {namespace_of(self.scaled)}/{name_of(self.scaled)}"
        if live is None:
            return Explanation(f"{what} is gone: nothing scales the target down", remedy="restore it")
        asked = (_never_zero, self._kept_on, self._too_slow)
        return next((found for question in asked if (found := question(live, what))), None)

    def _kept_on(self, live: Obj, what: str) -> Explanation | None:
        """That a trigger has reason to keep the target on, or cannot be read."""
        triggers = f"triggers: {dig(live, 'spec', 'triggers', default=[])}"
        if keda_triggers.read(live, self.stage.cluster.loop.now()).desired:
            return Explanation(
                f"the cron window of {what} is open: KEDA holds its replicas until it closes",
                (triggers,),
                "close the window before the night",
                (27,),
                lasting=True,
            )
        counted = self._counted(live)
        if counted:
            return Explanation(
                f"the kubernetes-workload trigger of {what} counts pods that are there: KEDA keeps its target on",
                (f"it counts {', '.join(counted[:3])}", triggers),
                "let it count what goes at night, or pause the scaler then",
                (27,),
                lasting=True,
            )
        fallback = dig(live, "spec", "fallback", "replicas", default=0)
        unread = annotations_of(live).get(READING) == "error"
        active = not unread and (condition(live, "Active") or {}).get("status") == "True"
        if active:
            said = annotations_of(live).get(READING)
            return Explanation(
                f"a trigger of {what} is active still: KEDA takes what it reads for work",
                (f"it reads {said}" if said else f"it is {self._active(live)}", self._ceiling(live), triggers),
                "let it count work alone: no monitor's requests, stale series or messages that nobody takes off; have "
                "a dead-man's switch besides",
                (40,),
            )
        if unread or fallback:
            kept = f"KEDA holds {fallback} (fallback.replicas)" if fallback else "KEDA keeps what is there"
            return Explanation(
                f"a trigger of {what} cannot be read: {kept}",
                (f"fallback: {dig(live, 'spec', 'fallback')}",),
                "mend the trigger; no fallback.replicas on a GPU target, and a dead-man's switch besides",
                (28,),
            )
        return None

    @staticmethod
    def _ceiling(live: Obj) -> str:
        most = dig(live, "spec", "maxReplicaCount")
        return f"maxReplicaCount: {most}" if most is not None else "no maxReplicaCount is said: 100 replicas at most"

    @staticmethod
    def _active(live: Obj) -> str:
        return str((condition(live, "Active") or {}).get("reason"))

    def _too_slow(self, live: Obj, what: str) -> Explanation | None:
        """That it waits for longer than the deadline allows."""
        spec = live.get("spec") or {}
        cooldown = float(spec.get("cooldownPeriod", 300))
        limit = self.stage.kill_path.deadlines_for(self.layer).scale_written_s
        if cooldown + float(spec.get("pollingInterval", POLLING_S)) <= limit:
            return None
        return Explanation(
            f"{what} waits cooldownPeriod {cooldown:.0f} s; the deadline for zero is {limit:.0f} s",
            (f"spec.cooldownPeriod: {cooldown:.0f}",),
            "shorten the cooldown or move the deadline",
            (28,),
            lasting=True,
        )


def _never_zero(live: Obj, what: str) -> Explanation | None:
    """That KEDA does not take this one to zero at all: its minimum, a pause, triggers that count no work."""
    refused = keda_triggers.refused(live)
    if refused:
        return Explanation(
            f"KEDA refuses {what} and scales nothing: {refused}",
            (f"Ready: {(condition(live, 'Ready') or {}).get('message', 'not said')}",),
            "mend its spec; idleReplicaCount 0 takes a minReplicaCount beside it",
            (27,),
        )
    least = int(dig(live, "spec", "minReplicaCount", default=0) or 0)
    if least > 0 and dig(live, "spec", "idleReplicaCount") != 0:
        return Explanation(
            f"{what} never goes to zero: minReplicaCount {least}",
            (f"spec.minReplicaCount: {least}",),
            "set minReplicaCount: 0",
            (27,),
        )
    for key, value in sorted(annotations_of(live).items()):
        if key.startswith("autoscaling.keda.sh/paused") and not key.endswith("scale-out") and value != "false":
            return Explanation(
                f"{what} is paused: KEDA does not take its target to zero",
                (f"annotation {key}: {value}",),
                "take the annotation off",
                (27,),
            )
    if keda_triggers.only_resources(live):
        return Explanation(
            f"{what} has cpu or memory triggers alone: KEDA never takes it to zero, and lights it again",
            tuple(f"trigger {t.get('type')}" for t in keda_triggers.triggers(live)),
            "add a trigger that counts requests or work",
            (27,),
            lasting=True,
        )
    return None
