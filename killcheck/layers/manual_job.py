"""The Job that a drill makes of a CronJob, as kubectl create job --from does it."""

from __future__ import annotations

from killcheck.kube.objects import Obj, copy, dig, namespace_of
from killcheck.safety.changes import LABEL

__all__ = ["job_from"]


def job_from(cron_job: Obj, name: str, run: str) -> Obj:
    """The Job that a firing would make, without the owner reference and under another name."""
    template = dig(cron_job, "spec", "jobTemplate", default={})
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace_of(cron_job),
            "labels": {**(meta.get("labels") or {}), LABEL: run},
            "annotations": {**(meta.get("annotations") or {}), "cronjob.kubernetes.io/instantiate": "manual"},
        },
        "spec": copy(template.get("spec") or {}),
    }
