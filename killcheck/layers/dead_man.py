"""The dead-man's switch: a scheduled Job that turns the GPUs off whatever else happens.

The trigger is a Job made from the CronJob's template, exactly as the Job controller would see it, but not owned by
the CronJob: a manual Job with a controller reference advances ``status.lastSuccessfulTime`` and makes a dead schedule
look healthy (pkg/controller/cronjob/cronjob_controllerv2.go, recorded in 01b-create-job-from).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from killcheck.entries import Entry, Status
from killcheck.executor.arming import armed_by
from killcheck.kube import container_logs, schedule
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Forbidden, KubeError, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    condition,
    controller_of,
    copy,
    dig,
    name_of,
    namespace_of,
    parse_time,
    ref_of,
    uid_of,
)
from killcheck.kube.permissions import Permission
from killcheck.layers import around, carried, firing, job_refused, seldom, slots, unfired, unlike
from killcheck.layers.base import Explanation, Hindrance, LayerError, LayerRun, NotFired, Stage
from killcheck.layers.firing import Forecast
from killcheck.layers.manual_job import job_from
from killcheck.safety.undo import retry
from killcheck.spec.deadlines import MOMENTS, Deadlines
from killcheck.spec.killpath import Layer, LayerType
from killcheck.text.redaction import hide_secrets, redact

__all__ = ["DeadMan"]

#: A write that the executor made can be observed this much later than the executor's own end, in seconds.
WRITE_SLACK_S = 10.0
_MORE_MEMORY = "give it more memory (resources.limits.memory), or say under assume: why it has enough"
#: How much of an executor's log is kept, in characters.
LOG_KEPT = 16_000
#: How long after a slot its Job may take to be there, in seconds (the controller looks a tenth of a second after it).
FIRING_S = 15.0


def _over_by(job: Obj, due: datetime | None) -> bool:
    """Whether a Job's own deadline ends it before ``due``."""
    limit = dig(job, "spec", "activeDeadlineSeconds")
    begun = dig(job, "status", "startTime") or dig(job, "metadata", "creationTimestamp")
    return limit is not None and due is not None and parse_time(begun) + timedelta(seconds=float(limit)) <= due


def _drilled_s(deadlines: Deadlines) -> float:
    """How long a drill waits at most for what has a deadline, and for it to hold, in seconds."""
    return float(max(getattr(deadlines, name) for name in MOMENTS) + deadlines.held_s)


class DeadMan(LayerRun):
    """One drill of a dead-man CronJob."""

    own_phases = (
        "triggered",
        "job_created",
        "pod_created",
        "pod_scheduled",
        "image_pulled",
        "container_started",
        "executor_finished",
    )

    @staticmethod
    def drills(layer: Layer) -> bool:
        """A dead-man that is a CronJob."""
        return layer.type is LayerType.DEAD_MAN and layer.container is None and layer.workload is None

    def __init__(self, layer: Layer, stage: Stage) -> None:
        super().__init__(layer, stage)
        if layer.cron_job is None:
            raise LayerError(f"layer {layer.name}: a dead-man layer names its cronJob")
        self.ref = layer.cron_job
        self.cron_job: Obj = {}
        #: As it was before any fault.
        self._declared: Obj = {}
        self._forecast: Forecast | None = None
        self.job_name = ""
        self._held_up: NotFired | None = None
        #: The drill itself suspended the schedule, for its own length.
        self._set_apart = False
        self._finished: list[tuple[datetime, datetime]] = []
        #: Init containers whose end was seen: when they started, and in which pod.
        self._inits: set[tuple[datetime, str]] = set()
        #: (pod, container) whose log was taken while it ran: it is read again.
        self._unfinished: set[tuple[str, str]] = set()
        #: Of the schedule's own firings, by pod: when the executor started, when it ended well, when its Job was made.
        self._own_firings: dict[str, tuple[datetime, datetime | None, datetime]] = {}

    # -- before --------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        """Read the CronJob and see that its template could run at all."""
        kube = self.stage.cluster.kube
        try:
            self.cron_job = kube.get(r.CRONJOBS, self.ref.name, self.ref.namespace)
        except NotFound:
            raise LayerError(self._no_such()) from None
        hide_secrets([self.cron_job])
        self._declared = self.cron_job
        self._forecast = firing.of_cron_job(self.cron_job, self._now())
        self._await_arming()
        if not dig(self.cron_job, "spec", "jobTemplate", "spec", "template", "spec", "containers"):
            raise LayerError(
                f"layer {self.layer.name}: CronJob {self.ref.namespace}/{self.ref.name} has no template that can run: "
                "spec.jobTemplate.spec.template.spec.containers is empty"
            )
        # 63 characters are what the Job's pods' labels can hold.
        self.job_name = f"{self.ref.name[:40].rstrip('-.')}-killcheck-{self.stage.run[-6:]}"

    def _await_arming(self) -> None:
        """Of a suspended schedule that another one lets go before it fires its own slot is drilled.

        Raises LayerError where nobody can wait for that: a cluster whose time is not ours.
        """
        declared = copy(self.cron_job)
        if dig(declared, "spec", "suspend") is not True or self.stage.slot is not None:
            return
        by = armed_by(declared, self.stage.cluster.kube.list(r.CRONJOBS).items)
        if by is None:
            return
        if self.stage.cluster.real:
            raise LayerError(
                f"layer {self.layer.name}: CronJob {self.ref.name} is suspended now, and {ref_of(by)} lets it go: "
                "drill it when that has fired"
            )
        declared["spec"]["suspend"] = False
        self._forecast = firing.of_cron_job(declared, self._now())
        self.stage.slot = self._forecast.next

    def _no_such(self) -> str:
        kube = self.stage.cluster.kube
        found = [name_of(c) for c in kube.list(r.CRONJOBS, self.ref.namespace).items]
        near = difflib.get_close_matches(self.ref.name, found, n=3, cutoff=0.4) or found[:5]
        hint = f"; there are: {', '.join(near)}" if near else "; there is no CronJob at all in that namespace"
        return f"layer {self.layer.name}: no CronJob {self.ref.name} in namespace {self.ref.namespace}{hint}"

    def permissions(self) -> Sequence[Permission]:
        """Reading the CronJob, and what counts the Jobs of its nights; making and removing the Job, reading its log."""
        ns = self.ref.namespace
        return [
            Permission("list", "", "resourcequotas", namespace=ns),
            Permission("get", "batch", "cronjobs", namespace=ns),
            Permission("list", "batch", "cronjobs", namespace=ns),
            Permission("create", "batch", "jobs", namespace=ns),
            Permission("delete", "batch", "jobs", namespace=ns),
            Permission("get", "", "pods", "log", namespace=ns),
        ]

    # -- the trigger ---------------------------------------------------------------------------------------
    def before_trigger(self) -> str | None:
        """Where the schedule itself is to fire: wait until its slot has come."""
        slot = self.stage.slot
        if slot is None:
            return None
        self.stage.wait("the schedule's own slot", lambda: False, (slot - self._now()).total_seconds())
        self.job_name = ""
        return f"waited for the schedule's own slot at {slot:%Y-%m-%d %H:%M} UTC"

    def trigger(self) -> str:
        """Create the Job, if a firing would make one now; or see whether the schedule does it by itself."""
        if self.stage.slot is not None:
            return self._by_itself(self.stage.slot)
        self._held_up = self._in_the_way()
        if self._held_up is not None:
            return f"nothing fires: {self._held_up}"
        if self.stage.rewrites and self._fires_meanwhile():
            self._set_apart = True
            self.stage.journal.merge(
                r.CRONJOBS,
                self.ref.name,
                self.ref.namespace,
                {"spec": {"suspend": True}},
                f"suspended CronJob {self.ref.namespace}/{self.ref.name}: it would fire by itself, without the fault",
            )
        job = job_from(self.cron_job, self.job_name, self.stage.run)
        for rewrite in self.stage.rewrites:
            rewrite(job["spec"]["template"])
        try:
            created = self.stage.journal.create(r.JOBS, job)
        except ApiError as error:
            self._held_up = job_refused.not_made(self.stage.cluster.kube, self.cron_job, error, self._now())
            if self._held_up is None:
                raise
            return f"nothing fires: {self._held_up}"
        self.stage.observations.job = created
        now = self.stage.cluster.loop.now()
        self._reach("job_created", parse_time(created["metadata"]["creationTimestamp"]), now, f"Job {self.job_name}")
        return f"Job {self.ref.namespace}/{self.job_name} made from CronJob {self.ref.name} (not owned by it)"

    def set_apart(self, *, at_any_hour: bool = False) -> tuple[Sequence[str], Sequence[Permission]]:
        """The schedule is held while a copy is drilled that alone is under the fault, where it would fire meanwhile.

        What the fault stands for stops every firing. Suspending is the least edit that says so: one field, put back by
        the journal; the template, which the fault would have to be set on otherwise, is left as it is.
        """
        if not (at_any_hour or self._fires_meanwhile()) or self.layer.container is not None:
            return (), ()
        name, namespace = self.ref.name, self.ref.namespace
        return (
            (
                f"CronJob {namespace}/{name} is suspended for the length of the drill: it would fire by itself, "
                "without the fault",
            ),
            [Permission(verb, "batch", "cronjobs", "", namespace, name) for verb in ("get", "patch")],
        )

    def _fires_meanwhile(self) -> bool:
        """Whether the schedule's own firing falls into what the drill waits for."""
        if self.stage.slot is not None or self.layer.container is not None:
            return False
        due = self.next_chance(self._now())
        return due is not None and due <= self._now() + timedelta(
            seconds=_drilled_s(self.stage.kill_path.deadlines_for(self.layer))
        )

    def _by_itself(self, slot: datetime) -> str:
        if self.stage.wait("the CronJob to fire", lambda: bool(self.job_name), FIRING_S):
            return f"the schedule fired at its slot: Job {self.ref.namespace}/{self.job_name}"
        kube = self.stage.cluster.kube
        self.cron_job = retry(self.stage.cluster.loop, lambda: kube.get(r.CRONJOBS, self.ref.name, self.ref.namespace))
        why = f"the slot of {slot:%H:%M} UTC came, and CronJob {self.ref.name} made no Job"
        self._held_up = NotFired(Hindrance.NO_JOB, why)
        return f"nothing fires: {self._held_up}"

    def _adopt(self, job: Obj) -> None:
        """The Job that the schedule made at its slot, or later for it, is the one that is drilled."""
        owner, slot = controller_of(job), self.stage.slot
        if slot is None or self.job_name or owner is None or owner.get("uid") != uid_of(self.cron_job):
            return
        created = parse_time(job["metadata"]["creationTimestamp"])
        if created >= slot - timedelta(seconds=1):
            self.job_name = name_of(job)
            self.stage.observations.job = job
            self._reach("triggered", created, self._now(), f"the schedule made Job {self.job_name}")
            self._reach("job_created", created, self._now(), f"Job {self.job_name}")

    def not_fired(self) -> NotFired | None:
        """What keeps the schedule from firing."""
        return self._held_up

    def missed(self, due: datetime) -> NotFired | None:
        """Why the CronJob made no Job at a slot after this drill's, or would not have made one."""
        kube, name = self.stage.cluster.kube, self.ref.name
        if self._forecast is not None and self._forecast.never:
            return None  # that is said anyway, with the reason
        now = kube.find(r.CRONJOBS, name, self.ref.namespace)
        if now is None:
            whole = kube.find(r.NAMESPACES, self.ref.namespace) is None  # gone with all that it was to turn off
            return None if whole else NotFired(Hindrance.NO_JOB, f"CronJob {name} is gone")
        if dig(now, "spec", "concurrencyPolicy") == "Forbid" and not self.over():
            why = f"concurrencyPolicy Forbid: the Job of the firing before, {self.job_name}, still ran"
            return NotFired(Hindrance.STILL_ACTIVE, why)
        last = dig(now, "status", "lastScheduleTime")
        if last and parse_time(last) >= due:
            return None
        if self._set_apart:
            return unfired.moved(self._declared, now, due)
        if dig(now, "spec", "suspend"):
            return NotFired(Hindrance.SUSPENDED, f"CronJob {name} was suspended in the meantime")
        return unfired.moved(self._declared, now, due) or NotFired(Hindrance.NO_JOB, f"CronJob {name} made no Job")

    def own_firing(self, since: datetime) -> Sequence[str]:
        """The Jobs that the CronJob made from then on, each with how it ended and the last line of its programs."""
        return [line for job in self._own_jobs(since) for line in self._came_to(job)]

    def _own_jobs(self, since: datetime) -> Iterator[Obj]:
        for job in self.stage.cluster.kube.list(r.JOBS, self.ref.namespace).items:
            owner = controller_of(job)
            made = parse_time(job["metadata"]["creationTimestamp"])
            if owner is not None and owner.get("uid") == uid_of(self.cron_job) and made >= since:
                yield job

    def _came_to(self, job: Obj) -> Iterator[str]:
        ended = [kind for kind in ("Complete", "Failed") if (condition(job, kind) or {}).get("status") == "True"]
        yield f"Job {name_of(job)}: {ended[0] if ended else 'still active'}"
        for pod in self.stage.cluster.kube.list(r.PODS, self.ref.namespace).items:
            owner = controller_of(pod)
            if owner is None or owner.get("uid") != uid_of(job):
                continue
            for container in dig(pod, "spec", "containers", default=[]):
                with suppress(KubeError):
                    said = container_logs.read(self.stage.cluster.kube, pod, container=container["name"], kept=LOG_KEPT)
                    yield from (f"{name_of(pod)} said: {line}" for line in said.strip().splitlines()[-1:])

    def explain(self, stuck_at: str) -> Explanation | None:
        """Why the schedule did not fire, or when it does instead: clocks, zones, slots that were missed.

        What runs still has said something by now: its log is taken for whoever explains the rest.
        """
        for pod in self.stage.observations.pods.values():
            self._take_running_logs(pod)
        if stuck_at != "triggered" or not self._held_up:
            return None
        return unfired.explain(self.stage, self.cron_job, self._declared, self.not_fired())

    def _in_the_way(self) -> NotFired | None:
        """Why the CronJob controller would make no Job: suspended, or under Forbid a Job that is still active then."""
        kube = self.stage.cluster.kube
        self.cron_job = retry(self.stage.cluster.loop, lambda: kube.get(r.CRONJOBS, self.ref.name, self.ref.namespace))
        if dig(self.cron_job, "spec", "suspend"):
            return NotFired(Hindrance.SUSPENDED, f"CronJob {self.ref.name} is suspended")
        moved = unfired.moved(self._declared, self.cron_job, self._now())
        if moved is not None:
            return moved
        if dig(self.cron_job, "spec", "concurrencyPolicy") != "Forbid":
            return None
        due = self._slot_after_next()
        for active in dig(self.cron_job, "status", "active", default=[]):
            job = self.stage.scene.jobs.get(active.get("name", ""), self.ref.namespace)
            if job is not None and not _over_by(job, due):
                return NotFired(
                    Hindrance.STILL_ACTIVE,
                    f"concurrencyPolicy Forbid: Job {name_of(job)} is still active, and without an "
                    "activeDeadlineSeconds below the period it is at the next firing too",
                )
        return None

    def _slot_after_next(self) -> datetime | None:
        """A period from now: what is active then was active at the firing after the one that made it."""
        first = self.next_chance(self._now())
        second = self.next_chance(first) if first else None
        return self._now() + (second - first) if first and second else None

    # -- watching ------------------------------------------------------------------------------------------
    def notice(self, change: Change, old: Obj | None, new: Obj) -> None:
        """Follow the Job, its pods and what is said about them."""
        kind = new.get("kind")
        if kind == "Job" and change == "added":
            self._adopt(new)
        if kind == "Job" and self._is_ours(new):
            if change != "deleted":
                self.stage.observations.job = new
        elif kind == "Pod" and self._is_our_pod(new):
            self.stage.observations.pods[uid_of(new)] = new
            self._follow_pod(change, new)
        elif kind == "Pod" and self._is_scheduled(new):
            self._follow_own_firing(new)
        elif kind == "Event" and change != "deleted" and self._is_about_us(new):
            self.stage.observations.events[name_of(new)] = new
            if new.get("reason") == "Pulled":
                self._pulled(new)

    def _is_ours(self, job: Obj) -> bool:
        return bool(self.job_name) and name_of(job) == self.job_name and namespace_of(job) == self.ref.namespace

    def _is_our_pod(self, pod: Obj) -> bool:
        owner = controller_of(pod)
        if owner is None:
            return False
        return (owner["kind"], owner["name"]) == ("Job", self.job_name) and namespace_of(pod) == self.ref.namespace

    def _is_scheduled(self, pod: Obj) -> bool:
        """Whether the CronJob itself made the pod's Job."""
        owner = controller_of(pod)
        if namespace_of(pod) != self.ref.namespace or not owner or owner["kind"] != "Job":
            return False
        job = self.stage.scene.jobs.get(owner["name"], self.ref.namespace)
        root = controller_of(job) if job else None
        return root is not None and root["kind"] == "CronJob" and root["name"] == self.ref.name

    def _follow_own_firing(self, pod: Obj) -> None:
        for status in dig(pod, "status", "containerStatuses", default=[]):
            state = status.get("state") or {}
            ended = state.get("terminated")
            begun = dig(state, "running", "startedAt") or (ended or {}).get("startedAt")
            if begun and parse_time(begun).year > 1970:
                if ended and ended.get("exitCode") != 0:
                    self._own_firings.pop(uid_of(pod), None)
                    continue
                end = parse_time(ended["finishedAt"]) if ended else None
                job = self.stage.scene.jobs.get((controller_of(pod) or {}).get("name", ""), self.ref.namespace)
                made = parse_time((job or pod)["metadata"]["creationTimestamp"])
                self._own_firings[uid_of(pod)] = (parse_time(begun), end, made)

    def _is_about_us(self, event: Obj) -> bool:
        about = event.get("involvedObject") or {}
        if about.get("namespace") != self.ref.namespace:
            return False
        if about.get("kind") == "Job":
            return bool(about.get("name") == self.job_name)
        return about.get("kind") == "Pod" and about.get("uid") in self.stage.observations.pods

    def _pulled(self, event: Obj) -> None:
        when = event.get("lastTimestamp") or event.get("eventTime")
        if when:
            self._reach("image_pulled", parse_time(when), self._now(), str(event.get("message", "")))

    def _follow_pod(self, change: Change, pod: Obj) -> None:
        now = self._now()
        self._reach("pod_created", parse_time(pod["metadata"]["creationTimestamp"]), now, f"Pod {name_of(pod)}")
        scheduled = condition(pod, "PodScheduled")
        if scheduled and scheduled.get("status") == "True":
            at = parse_time(scheduled.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"])
            self._reach("pod_scheduled", at, now, f"on node {dig(pod, 'spec', 'nodeName')}")
        for status in dig(pod, "status", "initContainerStatuses", default=[]):
            self._follow_init(pod, status)
        for status in dig(pod, "status", "containerStatuses", default=[]):
            self._follow_container(pod, status, now)
        if "deletionTimestamp" in pod["metadata"] and change != "deleted":
            # A Job that fails deletes its pod, and the log goes with it: take it while it is there.
            self._take_running_logs(pod)

    def _follow_container(self, pod: Obj, status: Obj, now: datetime) -> None:
        state = status.get("state") or {}
        ended = state.get("terminated") or dig(status, "lastState", "terminated")
        begun = dig(state, "running", "startedAt") or (ended or {}).get("startedAt")
        # A container that never started has the epoch as its start (StartError).
        if begun and parse_time(begun).year > 1970:
            started = parse_time(begun)
            self._reach("image_pulled", started, now, f"container {status['name']} started")
            self._reach("container_started", started, now, f"container {status['name']} of {name_of(pod)}")
        if not ended:
            return
        self._take_log(pod, status["name"])
        if ended.get("exitCode") == 0 and begun:
            finished = parse_time(ended["finishedAt"])
            self._finished.append((parse_time(begun), finished))
            self._reach("executor_finished", finished, now, f"container {status['name']} ended with exit code 0")

    def _follow_init(self, pod: Obj, status: Obj) -> None:
        """What comes before its containers may be what turns the targets off; it ends no phase of the executor's."""
        ended = dig(status, "state", "terminated")
        if not ended:
            return
        self._take_log(pod, status["name"])
        began = parse_time(ended["startedAt"]) if ended.get("startedAt") else None
        if ended.get("exitCode") == 0 and began is not None and (began, pod["metadata"]["name"]) not in self._inits:
            self._inits.add((began, pod["metadata"]["name"]))
            self._finished.append((began, parse_time(ended["finishedAt"])))

    def _take_running_logs(self, pod: Obj) -> None:
        for status in dig(pod, "status", "containerStatuses", default=[]):
            if "running" in status.get("state", {}):
                self._take_log(pod, status["name"])
                self._unfinished.add((name_of(pod), status["name"]))

    def _take_log(self, pod: Obj, container: str) -> None:
        key = (name_of(pod), container)
        observations = self.stage.observations
        if observations.logs.get(key) and key not in self._unfinished:
            return
        try:
            text = container_logs.read(self.stage.cluster.kube, pod, container=container, kept=LOG_KEPT)
        except KubeError as error:
            observations.unread[key] = redact(str(error))[-LOG_KEPT:]
        else:
            self._unfinished.discard(key)
            observations.unread.pop(key, None)
            observations.logs[key] = text

    def _reach(self, phase: str, at: datetime, observed: datetime, evidence: str) -> None:
        if self.stage.timeline is not None:
            self.stage.timeline.reach(phase, at, observed, evidence)

    def _now(self) -> datetime:
        return self.stage.cluster.loop.now()

    # -- judging -------------------------------------------------------------------------------------------
    def acted(self, zero_at: datetime) -> str | None:
        """It was the executor if the write falls into its life: after its start, and not long after it ended well."""
        slack = timedelta(seconds=WRITE_SLACK_S)
        second = timedelta(seconds=1)  # the API's times are whole seconds
        for begun, finished in self._finished:
            if begun - second <= zero_at <= finished + slack:
                return f"its executor ran from {begun:%H:%M:%S} to {finished:%H:%M:%S} and ended with exit code 0"
        for pod in self.stage.observations.pods.values():
            for status in (
                *dig(pod, "status", "initContainerStatuses", default=[]),
                *dig(pod, "status", "containerStatuses", default=[]),
            ):
                begun_text = dig(status, "state", "running", "startedAt")
                if begun_text and parse_time(begun_text) - second <= zero_at:
                    return f"its executor was running since {parse_time(begun_text):%H:%M:%S}"
        return None

    def also_acted(self, zero_at: datetime, since: datetime | None = None) -> str | None:
        """The same of the Jobs that the CronJob made by itself while this drill watched."""
        slack, second = timedelta(seconds=WRITE_SLACK_S), timedelta(seconds=1)
        for begun, finished, made in self._own_firings.values():
            if since is not None and made < since:
                continue
            if begun - second <= zero_at and finished is not None and zero_at <= finished + slack:
                return (
                    f"CronJob {self.ref.name} fired by itself; its executor ran from {begun:%H:%M:%S} to "
                    f"{finished:%H:%M:%S} and ended with exit code 0"
                )
        return None

    def doubts(self) -> Sequence[Entry]:
        """Also what its executor keeps where no drill here sees it, and weeks in which its schedule does not fire."""
        seen = self.stage.cluster.real  # there its volumes are what they are
        lying = () if seen else carried.on_volumes(self._declared, self._config_map)
        rests = seldom.entry(self._declared, self.stage.kill_path, self.layer, self.stage.cluster.loop.now())
        mine = [*lying, *self._unlike(), *self._out_of_memory(), *([rests] if rests is not None else [])]
        return [*super().doubts(), *mine]

    def _unlike(self) -> list[Entry]:
        """What makes its firings differ, also by its scripts in ConfigMaps; said where these may not be read."""
        late_s = self.stage.kill_path.deadlines_for(self.layer).pods_gone_s
        try:
            # That a monitor looks at what there is, is what it is for.
            monitors = self.layer.type is not LayerType.DEAD_MAN
            around_it = around.of(self.stage, self.layer, monitors=monitors)
            return [*unlike.entries(self._declared, self._config_map, late_s, around_it)]
        except Forbidden as error:
            said = f"its scripts are taken to do the same in every firing: they may not be read ({error})"
            return [Entry(str(self.ref), Status.ASSUMED, said)]

    def _config_map(self, name: str) -> Obj | None:
        return self.stage.cluster.kube.find(r.CONFIGMAPS, name, self.ref.namespace)

    def _out_of_memory(self) -> Iterator[Entry]:
        """That its executor's memory ran out, if only after it had written: on another night it may be before."""
        for pod in self.stage.observations.pods.values():
            for status in dig(pod, "status", "containerStatuses", default=[]):
                ends = [dig(status, when, "terminated", "reason") for when in ("state", "lastState")]
                if "OOMKilled" in ends:
                    said = f"container {status.get('name')} of its executor ran out of memory (OOMKilled) as it turned "
                    because = f"{said}them off: on another night that may be before it does"
                    yield Entry(str(self.ref), Status.NOT_MODELLED, because, _MORE_MEMORY)
                    return

    def idles_s(self) -> float:
        """Not at all."""
        return 0.0

    def tidy(self) -> None:
        """Take away the drill's own Job where the schedule's history keeps none: a firing finds as much room then."""
        limit = (
            "successfulJobsHistoryLimit"
            if condition(self.stage.observations.job or {}, "Complete")
            else "failedJobsHistoryLimit"
        )
        if self.job_name and self.over() and dig(self._declared, "spec", limit, default=1) == 0:
            with suppress(KubeError):
                self.stage.cluster.kube.delete(r.JOBS, self.job_name, self.ref.namespace)

    def over(self) -> bool:
        """The Job is Complete or Failed."""
        job = self.stage.observations.job or {}
        return any(
            c.get("type") in ("Complete", "Failed") and c.get("status") == "True"
            for c in dig(job, "status", "conditions", default=[])
        )

    def forecast(self) -> Forecast | None:
        """What the CronJob's schedule will do."""
        return self._forecast

    def next_chance(self, after: datetime) -> datetime | None:
        """The CronJob's next firing; None where it is suspended or its schedule cannot be read."""
        if dig(self.cron_job, "spec", "suspend"):
            return None
        try:
            parsed = schedule.parse(
                self.cron_job["spec"]["schedule"], dig(self.cron_job, "spec", "timeZone", default="")
            )
        except (ValueError, KeyError):
            return None
        return parsed.next(after)

    def makes_up(self, since: datetime) -> str | None:
        """A slot that passed while the schedule was held fires late, when everything has been put back."""
        try:
            now = self.stage.cluster.kube.get(r.CRONJOBS, self.ref.name, self.ref.namespace)
            slot = slots.overdue({**now, "spec": self._declared.get("spec", {})}, since, self._now())
        except (KubeError, ValueError):
            return None
        return (
            None
            if slot is None
            else (
                f"the slot of {slot:%Y-%m-%d %H:%M} UTC passed while CronJob {self.ref.name} could not fire: it makes "
                "up for it by itself, and the GPUs go off then"
            )
        )
