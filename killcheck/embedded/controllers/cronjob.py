"""The CronJob controller (v2): one Job a slot, and what is said about slots that are missed.

Source: pkg/controller/cronjob of Kubernetes v1.36; recordings 01b, 01c, 17, 17b, 18, 18c, 19b. There is one timer a
CronJob: the next slot, and a tenth of a second (the original's allowance for clock skew).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from killcheck.embedded.controllers.job_rules import finished
from killcheck.embedded.controllers.podcontrol import namespace_terminating
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Conflict, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    controller_of,
    copy,
    dig,
    format_time,
    key_of,
    name_of,
    namespace_of,
    parse_time,
    uid_of,
)
from killcheck.kube.owner_references import controller_ref
from killcheck.kube.schedule import Missed, Schedule, ScheduleError, most_recent, parse, zone

__all__ = ["CronJobController"]

#: How long after a slot the controller looks, seconds.
SKEW_S = 0.1
#: From so many missed slots on there is a warning.
MANY = 100
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobController(Controller):
    """Fires CronJobs."""

    name = "cronjob-controller"

    def setup(self) -> None:
        """Follow CronJobs and the Jobs that they own."""
        self.cron_jobs = self.informers.of(r.CRONJOBS)
        self.jobs = self.informers.index(
            r.JOBS, "cronjob", lambda job: [f"{namespace_of(job)}/{ref['name']}"] if (ref := controller_of(job)) else []
        )
        self.listen(r.CRONJOBS, self._changed)
        self.follow(r.JOBS, self._owners)

    def _owners(self, change: Change, old: Obj | None, new: Obj) -> list[Key]:
        found = []
        for key in self.owned_by("CronJob")(change, old, new):
            cron_job = self.cron_jobs.objects.get(key)
            refs = [controller_of(obj) for obj in (old, new) if obj]
            if cron_job and any(ref and ref["uid"] == uid_of(cron_job) for ref in refs):
                found.append(key)
        return found

    def _changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        key = key_of(new)
        if change == "deleted":
            self.queue.cancel(key)
        if change != "modified" or old is None or _timing(old) == _timing(new):
            self.queue.add(key)
            return
        try:
            schedule = parse(_schedule_text(new), None)
        except ScheduleError:
            text = f"unparseable schedule for cronjob: {new['spec']['schedule']}"
            self.events.emit(new, "Warning", "UnParseableCronJobSchedule", text)
            return
        self.queue.add(key, self._until_next(new, schedule) or 0.0)

    # -- one pass ------------------------------------------------------------------------------------------
    def reconcile(self, key: Key) -> None:
        """One pass over a CronJob, as sync."""
        found = self.cron_jobs.objects.get(key)
        if found is None:
            return
        cron_job = copy(found)
        before = copy(cron_job.setdefault("status", {}))
        jobs = self.jobs.get(f"{key[0]}/{key[1]}")
        self._clean_up(cron_job, jobs)
        error: ApiError | None = None
        wait: float | None = None
        try:
            wait = self._sync(cron_job, jobs)
        except ApiError as refused:
            error = refused
        if cron_job["status"] != before:
            self.kube.replace(r.CRONJOBS, cron_job, subresource="status")
        if error is not None:
            raise error
        if wait is not None:
            self.queue.add(key, wait)

    def _sync(self, cron_job: Obj, jobs: list[Obj]) -> float | None:
        """Returns the seconds until the next look; None: only when something changes."""
        self._see_jobs(cron_job, jobs)
        if "deletionTimestamp" in cron_job["metadata"]:
            return None
        schedule = None if cron_job["spec"].get("suspend") else self._schedule(cron_job)
        if schedule is None:
            return None
        now = self.loop.now()
        try:
            missed = most_recent(schedule, self._earliest(cron_job, now, with_deadline=True), now)
        except ScheduleError as error:
            text = f"invalid schedule: {cron_job['spec']['schedule']} : {error}"
            self.events.emit(cron_job, "Warning", "InvalidSchedule", text)
            return None
        if missed.latest is not None:
            self._slot(cron_job, missed.latest, missed.count, now)
        return self._until_next(cron_job, schedule)

    def _slot(self, cron_job: Obj, slot: datetime, missed: int, now: datetime) -> None:
        """A slot is due: start its Job, or say why not."""
        if missed > MANY:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self.events.emit(cron_job, "Warning", "TooManyMissedTimes", text)
        deadline = cron_job["spec"].get("startingDeadlineSeconds")
        if deadline is not None and slot + timedelta(seconds=int(deadline)) < now:
            text = f"Missed scheduled time to start a job: {slot.strftime('%a, %d %b %Y %H:%M:%S UTC')}"
            self.events.emit(cron_job, "Warning", "MissSchedule", text)
            return
        active = cron_job["status"].get("active") or []
        name = f"{name_of(cron_job)}-{int(slot.timestamp()) // 60}"
        done = cron_job["status"].get("lastScheduleTime") == format_time(slot)
        if done or any(ref["name"] == name for ref in active):
            return
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        if policy == "Forbid" and active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.events.emit(cron_job, "Normal", "JobAlreadyActive", text)
            return
        if policy == "Replace":
            self._replace_active(cron_job, active)
        self._start(cron_job, name, slot)

    # -- Jobs ----------------------------------------------------------------------------------------------
    def _see_jobs(self, cron_job: Obj, jobs: list[Obj]) -> None:
        """What has become of the Jobs that are active, and Jobs that nobody here started."""
        status = cron_job["status"]
        for job in jobs:
            active = any(ref["uid"] == uid_of(job) for ref in status.get("active") or [])
            ended = finished(job)
            if not active and not ended:
                fresh = self.kube.get(r.CRONJOBS, name_of(cron_job), namespace_of(cron_job))
                if not any(ref["uid"] == uid_of(job) for ref in dig(fresh, "status", "active", default=[])):
                    text = f"Saw a job that the controller did not create or forgot: {name_of(job)}"
                    self.events.emit(cron_job, "Warning", "UnexpectedJob", text)
            if active and ended:
                _forget(status, uid_of(job))
                text = f"Saw completed job: {name_of(job)}, condition: {ended}"
                self.events.emit(cron_job, "Normal", "SawCompletedJob", text)
            completed = dig(job, "status", "completionTime", default="")
            if ended == "Complete" and completed > status.get("lastSuccessfulTime", ""):
                status["lastSuccessfulTime"] = completed
        present = {uid_of(job) for job in jobs}
        for ref in list(status.get("active") or []):
            if ref["uid"] not in present and self.kube.find(r.JOBS, ref["name"], ref["namespace"]) is None:
                self.events.emit(cron_job, "Normal", "MissingJob", f"Active job went missing: {ref['name']}")
                _forget(status, ref["uid"])

    def _clean_up(self, cron_job: Obj, jobs: list[Obj]) -> None:
        """Keep as many finished Jobs as the history limits say."""
        for field, ending in (("successfulJobsHistoryLimit", "Complete"), ("failedJobsHistoryLimit", "Failed")):
            limit = cron_job["spec"].get(field)
            ended = sorted((job for job in jobs if finished(job) == ending), key=_start_order)
            for job in ended[: max(0, len(ended) - int(limit))] if limit is not None else ():
                self._delete(cron_job, job)

    def _replace_active(self, cron_job: Obj, active: list[Obj]) -> None:
        for ref in list(active):
            try:
                job = self.kube.get(r.JOBS, ref["name"], ref["namespace"])
            except ApiError as error:
                self.events.emit(cron_job, "Warning", "FailedGet", f"Get job: {error.message}")
                raise
            refused = self._delete(cron_job, job)
            if refused is not None:
                raise refused

    def _delete(self, cron_job: Obj, job: Obj) -> ApiError | None:
        try:
            self.kube.delete(r.JOBS, name_of(job), namespace_of(job), propagation="Background")
        except NotFound as error:
            self.events.emit(cron_job, "Warning", "FailedDelete", f"Deleted job: {error.message}")
            return error
        except ApiError as error:
            self.events.emit(cron_job, "Warning", "FailedDelete", f"Deleted job: {error.message}")
            return error
        _forget(cron_job["status"], uid_of(job))
        self.events.emit(cron_job, "Normal", "SuccessfulDelete", f"Deleted job {name_of(job)}")
        return None

    def _start(self, cron_job: Obj, name: str, slot: datetime) -> None:
        draft = _job(cron_job, name, slot)
        try:
            job = self.kube.create(r.JOBS, draft)
        except Conflict as error:
            if error.reason != "AlreadyExists":
                raise
            job = self.kube.get(r.JOBS, name, namespace_of(cron_job))
            owner = controller_of(job)
            if owner is None or owner["uid"] != uid_of(cron_job):
                return
        except ApiError as error:
            if not namespace_terminating(error):
                self.events.emit(cron_job, "Warning", "FailedCreate", f"Error creating job: {error.message}")
            raise
        else:
            self.events.emit(cron_job, "Normal", "SuccessfulCreate", f"Created job {name}")
        status = cron_job["status"]
        status["active"] = [
            *(status.get("active") or []),
            {
                "kind": "Job",
                "namespace": namespace_of(job),
                "name": name,
                "uid": uid_of(job),
                "apiVersion": "batch/v1",
                "resourceVersion": job["metadata"]["resourceVersion"],
            },
        ]
        status["lastScheduleTime"] = format_time(slot)

    # -- time ----------------------------------------------------------------------------------------------
    def _schedule(self, cron_job: Obj) -> Schedule | None:
        """The parsed schedule; None after saying what is wrong with it."""
        spec = cron_job["spec"]
        name = spec.get("timeZone")
        try:
            zone(name or "")
        except ScheduleError as error:
            self.events.emit(cron_job, "Warning", "UnknownTimeZone", f'invalid timeZone: "{name}": {error}')
            return None
        if "TZ" in spec["schedule"]:
            text = (
                f'CRON_TZ or TZ used in schedule "{spec["schedule"]}" is not officially supported, see '
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )
            self.events.emit(cron_job, "Warning", "UnsupportedSchedule", text)
        try:
            return parse(_schedule_text(cron_job), None)
        except ScheduleError as error:
            text = f'unparseable schedule: "{spec["schedule"]}" : {error}'
            self.events.emit(cron_job, "Warning", "UnparseableSchedule", text)
            return None

    def _earliest(self, cron_job: Obj, now: datetime, *, with_deadline: bool) -> datetime:
        last = cron_job["status"].get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"]
        deadline = cron_job["spec"].get("startingDeadlineSeconds")
        if not with_deadline or deadline is None:
            return parse_time(last)
        return max(parse_time(last), now - timedelta(seconds=int(deadline)))

    def _until_next(self, cron_job: Obj, schedule: Schedule) -> float | None:
        """Seconds until the slot after the last one that has passed; None: there is none to come."""
        now = self.loop.now()
        after = self._earliest(cron_job, now, with_deadline=False)
        missed = _tried(lambda: most_recent(schedule, after, now))
        if missed is None or (missed.latest is None and missed.count):
            after = now
        elif missed.latest is not None:
            after = missed.latest
        following = schedule.next(after)
        if following is None:
            return None
        return (following - now).total_seconds() + SKEW_S


def _tried(reckon: Callable[[], Missed]) -> Missed | None:
    try:
        return reckon()
    except ScheduleError:
        return None


def _timing(cron_job: Obj) -> tuple[str, str | None]:
    return cron_job["spec"]["schedule"], cron_job["spec"].get("timeZone")


def _schedule_text(cron_job: Obj) -> str:
    schedule, name = _timing(cron_job)
    return schedule if "TZ" in schedule or not name else f"TZ={name} {schedule}"


def _forget(status: Obj, uid: str) -> None:
    left = [ref for ref in status.get("active") or [] if ref["uid"] != uid]
    if left:
        status["active"] = left
    else:
        status.pop("active", None)


def _start_order(job: Obj) -> tuple[bool, str, str]:
    started = dig(job, "status", "startTime", default="")
    return not started, started, name_of(job)


def _job(cron_job: Obj, name: str, slot: datetime) -> Obj:
    template = copy(cron_job["spec"]["jobTemplate"])
    meta = template.get("metadata") or {}
    local = slot.astimezone(zone(cron_job["spec"].get("timeZone") or ""))
    stamp = local.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace_of(cron_job),
            "labels": dict(meta.get("labels") or {}),
            "annotations": {**(meta.get("annotations") or {}), SCHEDULED: stamp},
            "ownerReferences": [controller_ref(cron_job, r.CRONJOBS)],
        },
        "spec": template["spec"],
    }
