"""The schedule does not fire: suspended, or held up by a Job that never ends."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.kubernetes.executor import ExecutorFault, cron_job_of, path_of
from killcheck.faults.kubernetes.registries import NOWHERE
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of, uid_of
from killcheck.kube.owner_references import controller_ref
from killcheck.kube.permissions import Permission
from killcheck.layers.base import Hindrance, LayerRun, Stage

__all__ = ["JobHungUnderForbid", "Suspended"]


class Suspended(ExecutorFault):
    """Reproduces row 7: nothing fires, and Kubernetes says nothing about it."""

    name = "suspended"
    simulates = "the CronJob is suspended"
    family = "schedule"
    failures = (7,)
    shows = Evidence.TRIGGER
    bars = True

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The CronJob itself is edited: only an edit will do."""
        cron_job = cron_job_of(layer)
        namespace, name = namespace_of(cron_job), name_of(cron_job)
        verbs = tuple(Permission(v, "batch", "cronjobs", "", namespace, name) for v in ("get", "patch"))
        return Plan(
            (f"CronJob {namespace}/{name} is suspended for the length of the drill",),
            namespaces=(namespace,),
            permissions=verbs,
            edits=(path_of(cron_job, "spec.suspend"),),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Set spec.suspend."""
        cron_job = cron_job_of(layer)
        what = f"suspended CronJob {namespace_of(cron_job)}/{name_of(cron_job)}"
        stage.journal.merge(r.CRONJOBS, name_of(cron_job), namespace_of(cron_job), {"spec": {"suspend": True}}, what)
        return [what]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The trigger met a suspended CronJob."""
        held = layer.not_fired()
        return held.why if held is not None and held.reason is Hindrance.SUSPENDED else None


class JobHungUnderForbid(ExecutorFault):
    """Reproduces row 8: yesterday's Job cannot pull its image, and under Forbid no later firing happens.

    The hung Job keeps the template's activeDeadlineSeconds: where that ends it before the next slot, the path survives.
    """

    name = "job-hung-under-forbid"
    simulates = "the previous firing's Job hangs, and concurrencyPolicy is Forbid"
    family = "schedule"
    failures = (8,)
    shows = Evidence.TRIGGER

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Only where a Job that is there holds up the next."""
        policy = dig(cron_job, "spec", "concurrencyPolicy", default="Allow")
        return (
            None if policy == "Forbid" else f"concurrencyPolicy is {policy}: a Job that hangs does not hold up the next"
        )

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """A Job that the CronJob takes for its own."""
        cron_job = cron_job_of(layer)
        why = self.unsuited_executor(layer.layer.name, cron_job)
        if why:
            raise FaultError(why)
        namespace = namespace_of(cron_job)
        verbs = tuple(Permission(v, "batch", "jobs", namespace=namespace) for v in ("get", "create", "delete"))
        own = [Permission("update", "batch", "cronjobs", "finalizers", namespace, name_of(cron_job))]
        own += [Permission(v, "batch", "cronjobs", "status", namespace, name_of(cron_job)) for v in ("get", "patch")]
        return Plan(
            (f"a Job in {namespace} that CronJob {name_of(cron_job)} takes for its own and that never starts",),
            namespaces=(namespace,),
            permissions=(*verbs, *own),
            edits=(path_of(cron_job, "status"),),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Create the Job, owned by the CronJob as a firing's would be, with an image that nobody has."""
        cron_job = cron_job_of(layer)
        name = f"{name_of(cron_job)[:40].rstrip('-.')}-hung-{stage.run[-6:]}"
        job = stage.journal.create(r.JOBS, self._job(cron_job, name))
        # A Job that the controller did not make itself is 'unexpected' to it, and held against nothing.
        active = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "namespace": namespace_of(cron_job),
            "uid": uid_of(job),
        }
        stage.journal.merge(
            r.CRONJOBS,
            name_of(cron_job),
            namespace_of(cron_job),
            {"status": {"active": [active]}},
            f"CronJob {namespace_of(cron_job)}/{name_of(cron_job)} counts Job {name} as active",
            subresource="status",
        )
        made = f"created Job {namespace_of(cron_job)}/{name}, owned by the CronJob, that cannot pull its image"
        stage.cluster.loop.run_until(lambda: bool(self._active(stage)), 30.0)
        return [made]

    @staticmethod
    def _job(cron_job: Obj, name: str) -> Obj:
        spec = copy(dig(cron_job, "spec", "jobTemplate", "spec", default={}))
        for container in dig(spec, "template", "spec", "containers", default=[]):
            container["image"] = f"{NOWHERE}/hung:1"
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": spec,
            "metadata": {
                "name": name,
                "namespace": namespace_of(cron_job),
                "ownerReferences": [controller_ref(cron_job, r.CRONJOBS)],
            },
        }

    @staticmethod
    def _active(stage: Stage) -> str | None:
        for job in stage.scene.jobs.values():
            if "-hung-" in name_of(job) and stage.run[-6:] in name_of(job) and dig(job, "status", "active"):
                return f"Job {name_of(job)} is active: {dig(job, 'status', 'active')} pod(s) that cannot start"
        return None

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The hung Job is active, or held up the firing."""
        held = layer.not_fired()
        return held.why if held is not None and held.reason is Hindrance.STILL_ACTIVE else self._active(stage)
