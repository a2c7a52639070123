"""A fault of one named layer, whichever layer's trigger is pulled: ``image-gone@second-switch``.

A fault by itself is the drilled layer's, and where it rewrites an executor, it rewrites the drill's own copy: the other
layers, and the layer's own schedule, go on undisturbed. This one is put into the named layer's CronJob itself, so that
what its schedule makes meets it too. That is what it takes to see two layers fail at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from killcheck import layers
from killcheck.faults.base import Evidence, Fault, FaultError, Plan
from killcheck.faults.kubernetes.executor import COPY, ExecutorFault, cron_job_of, path_of
from killcheck.kube import container_logs
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, controller_of, copy, dig, name_of, namespace_of, parse_time, ref_of, uid_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerError, LayerRun, Observations, Stage
from killcheck.spec.killpath import KillPath, Layer
from killcheck.text.redaction import redact
from killcheck.text.values import replace

__all__ = ["OfNamedLayer", "may_name_a_layer"]

#: How long after a slot a schedule that makes no Job has surely made none, in seconds.
SLOT_S = 30.0
#: Characters of each log that are looked at.
LOG_KEPT = 65_536


def may_name_a_layer(kind: type[Fault]) -> bool:
    """Whether a fault is of an executor, and so can be a named layer's; and needs nobody who goes on acting."""
    return issubclass(kind, ExecutorFault) and kind.night is Fault.night and kind.react is Fault.react


class OfNamedLayer(Fault):
    """``inner`` of the layer ``where``, its own firings included."""

    def __init__(self, inner: Fault, where: str) -> None:
        self.inner = inner
        self.where = where
        self.name = f"{inner.name}@{where}"  # type: ignore[misc]
        self.simulates = f"of {where}: {inner.simulates}"  # type: ignore[misc]
        self.family = inner.family  # type: ignore[misc]
        self.failures = inner.failures  # type: ignore[misc]
        self.needs = inner.needs  # type: ignore[misc]
        self.rank = inner.rank  # type: ignore[misc]
        self._stage: Stage | None = None
        self._run: LayerRun | None = None
        self._since: datetime | None = None
        self._slot: datetime | None = None

    @property
    def shows(self) -> Evidence:  # type: ignore[override]
        """As the fault's own."""
        return self.inner.shows

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where the spec has such a layer, and the fault means something to it."""
        found = next((one for one in kill_path.layers if one.name == self.where), None)
        if found is None:
            return f"the spec has no layer {self.where!r}"
        if not may_name_a_layer(type(self.inner)):
            return f"{self.inner.name} is no fault of a layer's own executor"
        unsuited = self.inner.unsuited(kill_path, found)
        return unsuited.why if unsuited is not None else None

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """What the fault changes, and the layer's CronJob."""
        why_not = self.unsuited_targets(stage.kill_path, layer.layer)
        if why_not is not None:
            raise FaultError(f"{self.name}: {why_not}")
        apart, run = self._apart(stage)
        cron_job = cron_job_of(run)
        namespace, name = namespace_of(cron_job), name_of(cron_job)
        own = self.inner.plan(apart, run)
        verbs = tuple(Permission(verb, "batch", "cronjobs", "", namespace, name) for verb in ("get", "patch"))
        edits = tuple(path_of(cron_job, "spec.jobTemplate") if edit.startswith(COPY) else edit for edit in own.edits)
        return replace(
            own,
            changes=(*own.changes, f"CronJob {namespace}/{name} is edited so that its own firings meet it"),
            namespaces=tuple(dict.fromkeys((*own.namespaces, namespace))),
            permissions=(*own.permissions, *verbs),
            edits=edits,
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Inject it as that layer's, and put what it rewrites into the CronJob."""
        apart, run = self._apart(stage)
        self._stage, self._run, self._since = apart, run, stage.cluster.loop.now()
        self._slot = run.next_chance(self._since)
        done = list(self.inner.inject(apart, run))
        if apart.rewrites:
            cron_job = cron_job_of(run)
            template = copy(dig(cron_job, "spec", "jobTemplate", "spec", "template", default={}))
            for rewrite in apart.rewrites:
                rewrite(template)
            what = f"{ref_of(cron_job)}: its template meets {self.inner.name}"
            stage.journal.merge(
                r.CRONJOBS,
                name_of(cron_job),
                namespace_of(cron_job),
                {"spec": {"jobTemplate": {"spec": {"template": template}}}},
                what,
            )
            done.append(what)
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The evidence in what that layer's own executors came to, or that its slot passed without one."""
        if self._stage is None or self._run is None:
            return None
        self._stage.timeline = stage.timeline
        jobs = list(self._jobs(stage, layer))
        self._observe(stage, jobs)
        found = self.inner.bitten(self._stage, self._run)
        if found or layer.layer.name != self.where:
            return found or self._silent(stage, jobs)
        return self.inner.bitten(stage, layer) or self._silent(stage, jobs)

    def belied(self, layer: LayerRun) -> str | None:
        """As the fault's own, where the layer is its own."""
        return self.inner.belied(layer) if layer.layer.name == self.where else None

    def _silent(self, stage: Stage, jobs: Sequence[Obj]) -> str | None:
        """Its slot came, and nothing was made."""
        now = stage.cluster.loop.now()
        if (
            self.inner.family != "schedule"
            or jobs
            or self._slot is None
            or now < self._slot + timedelta(seconds=SLOT_S)
        ):
            return None
        return f"the slot of {self.where} at {self._slot:%H:%M:%S} came, and no Job was made"

    # -- what its executors came to ------------------------------------------------------------------------
    def _apart(self, stage: Stage) -> tuple[Stage, LayerRun]:
        """The stage and the run of that layer."""
        apart = replace(stage, rewrites=[], observations=Observations(), timeline=None)
        try:
            run = layers.of(stage.kill_path.layer(self.where), apart)
            run.prepare()
        except LayerError as error:
            raise FaultError(f"{self.name}: {error}") from error
        return apart, run

    def _jobs(self, stage: Stage, layer: LayerRun) -> Iterator[Obj]:
        """Those that its CronJob has made since, and the drill's own where it is the drilled layer."""
        assert self._run is not None
        owner = uid_of(cron_job_of(self._run))
        own = stage.observations.job if layer.layer.name == self.where else None
        for job in stage.scene.jobs.values():
            made_by = controller_of(job)
            since = self._since is not None and parse_time(job["metadata"]["creationTimestamp"]) >= self._since - (
                timedelta(seconds=1)
            )
            if (made_by is not None and made_by.get("uid") == owner and since) or (
                own is not None and uid_of(job) == uid_of(own)
            ):
                yield job

    def _observe(self, stage: Stage, jobs: Sequence[Obj]) -> None:
        assert self._stage is not None
        observations = self._stage.observations
        named = {(namespace_of(job), name_of(job)) for job in jobs}
        pods = set()
        for pod in stage.scene.pods.values() if named else ():
            owner = controller_of(pod) or {}
            if (namespace_of(pod), owner.get("name")) in named and owner.get("kind") == "Job":
                observations.pods[uid_of(pod)] = pod
                pods.add((namespace_of(pod), name_of(pod)))
                self._take_logs(stage, pod, observations)
        for event in stage.scene.events.values() if named else ():
            about = event.get("involvedObject") or {}
            if (about.get("namespace", ""), about.get("name", "")) in named | pods:
                observations.events[name_of(event)] = event

    @staticmethod
    def _take_logs(stage: Stage, pod: Obj, observations: Observations) -> None:
        for status in dig(pod, "status", "containerStatuses", default=[]):
            key = (name_of(pod), str(status["name"]))
            if key in {**observations.logs, **observations.unread} or not (
                dig(status, "state", "terminated") or dig(status, "lastState", "terminated")
            ):
                continue
            try:
                observations.logs[key] = container_logs.read(stage.cluster.kube, pod, container=key[1], kept=LOG_KEPT)
            except KubeError as error:
                observations.unread[key] = redact(str(error))
