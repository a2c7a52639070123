"""Runs that GPU CronJobs of the manifests would have made: what their own schedule has on when a switch comes.

No manifest holds such a Job, and its pods hold the GPUs. One stands for the run of the day, made as the controller
makes it (pkg/controller/cronjob/utils.go, getJobFromTemplate2: the template's labels and annotations); its name is
nobody's to know. Only where somebody is concerned with it: nothing else holds GPUs, or a program here speaks of Jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from killcheck.kube.objects import Obj, annotations_of, copy, dig, labels_of, name_of, namespace_of
from killcheck.kube.workloads import devices_of, templates
from killcheck.spec.killpath import Ref
from killcheck.text import lazy_re

__all__ = ["of", "started_by"]

#: On such a Job: the CronJob that it is a run of.
RUN_OF = "killcheck.dev/run-of"
_JOBS = lazy_re.compile(r"\b(jobs?(\.batch)?|batch/v1|delete_collection_namespaced_job|BatchV1Api)\b", re.IGNORECASE)


def of(objects: Iterable[Obj]) -> list[Obj]:
    """A Job for each CronJob that holds GPUs, is not suspended, and of which no run is among the objects."""
    everything = list(objects)
    theirs = [obj for obj in everything if obj.get("kind") == "CronJob" and _would_hold(obj)]
    if not theirs:
        return []
    others = [obj for obj in everything if obj not in theirs]
    alone = not any(devices_of(obj, wanted=True) for obj in others)
    if not alone and not any(_speaks_of_jobs(obj) for obj in others):
        return []
    return [job for one in theirs for job in _run(one) if not _there(job, others)]


def started_by(objects: Iterable[Obj]) -> tuple[Ref, ...]:
    """The CronJobs of which such a run is among the objects: each is meant to start its own work again."""
    named = (annotations_of(obj).get(RUN_OF, "") for obj in objects if obj.get("kind") == "Job")
    return tuple(Ref("batch/v1", "CronJob", *told.split("/", 1)) for told in named if told)


def _would_hold(cron_job: Obj) -> bool:
    return not dig(cron_job, "spec", "suspend") and any(devices_of(job) for job in _run(cron_job))


def _run(cron_job: Obj) -> Iterator[Obj]:
    template = dig(cron_job, "spec", "jobTemplate", default={})
    made = template.get("metadata") or {}
    namespace = namespace_of(cron_job) or "default"
    told = {**(made.get("annotations") or {}), RUN_OF: f"{namespace}/{name_of(cron_job)}"}
    meta: Obj = {"namespace": namespace, "annotations": told}
    if made.get("labels"):
        meta |= {"generateName": f"{name_of(cron_job)}-", "labels": dict(made["labels"])}
    else:
        meta |= {"name": f"{name_of(cron_job)[:48]}-run"}
    if isinstance(template.get("spec"), dict):
        yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": copy(template["spec"])}


def _there(job: Obj, objects: Iterable[Obj]) -> bool:
    """Whether a Job like it is there already."""
    return any(
        obj.get("kind") == "Job"
        and (namespace_of(obj) or "default") == namespace_of(job)
        and labels_of(job).items() <= labels_of(obj).items()
        for obj in objects
    )


def _speaks_of_jobs(obj: Obj) -> bool:
    """Whether a program of a workload, or of a ConfigMap that one may run, names Jobs."""
    said = [container for one in templates(obj) for container in dig(one.spec, "containers", default=[])]
    words = [[one.get("command"), one.get("args")] for one in said if isinstance(one, dict)]
    return bool(_JOBS.search(str(words or (obj.get("data") if obj.get("kind") == "ConfigMap" else ""))))
