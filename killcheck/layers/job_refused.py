"""Whether what refuses the Job that a drill makes by hand would refuse the schedule's own just as well.

A quota is everybody's. A policy or a webhook may go by who asks, by labels or by the owner: so the Job that the CronJob
controller would make is tried, in the controller's name, as a dry run (pkg/controller/cronjob/utils.go,
getJobFromTemplate2; its account is the one of --use-service-account-credentials, as kubeadm sets it).
"""

from __future__ import annotations

from datetime import datetime

from killcheck.kube import resources as r
from killcheck.kube.acting_as import acting_as
from killcheck.kube.client import Kube
from killcheck.kube.errors import ApiError
from killcheck.kube.objects import Obj, copy, dig, format_time, name_of, namespace_of
from killcheck.kube.owner_references import controller_ref
from killcheck.layers.base import Hindrance, NotFired
from killcheck.text import lazy_re

__all__ = ["not_made"]

_CONTROLLER = "system:serviceaccount:kube-system:cronjob-controller"
_GROUP = "system:serviceaccounts"
#: How admission says no: policies (ValidatingAdmissionPolicy, MutatingAdmissionPolicy) and webhooks.
_DENIED = lazy_re.compile(r"denied (?:the )?request")


def not_made(kube: Kube, cron_job: Obj, error: ApiError, now: datetime) -> NotFired | None:
    """Why the CronJob makes no Job either; None: that is not known, or it makes one.

    ``error`` is what the drill's own Job was refused with. Changes nothing.
    """
    said = f"no Job of CronJob {name_of(cron_job)} can be made: "
    if "exceeded quota" in str(error):
        return NotFired(Hindrance.QUOTA, f"{said}{error}")
    if not _DENIED.search(str(error)):
        return None
    try:
        acting_as(kube, _CONTROLLER, _GROUP).create(r.JOBS, _own(cron_job, now), dry_run=True)
    except ApiError as again:
        return (
            NotFired(Hindrance.ADMISSION, f"{said}{again} (a dry run in the controller's name)")
            if _DENIED.search(str(again))
            else None
        )
    return None


def _own(cron_job: Obj, now: datetime) -> Obj:
    """The Job of a slot: named by its minute, owned by the CronJob."""
    template = copy(dig(cron_job, "spec", "jobTemplate", default={}))
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{name_of(cron_job)}-{int(now.timestamp()) // 60}",
            "namespace": namespace_of(cron_job),
            "labels": meta.get("labels") or {},
            "annotations": {
                **(meta.get("annotations") or {}),
                "batch.kubernetes.io/cronjob-scheduled-timestamp": format_time(now),
            },
            "ownerReferences": [controller_ref(cron_job, r.CRONJOBS)],
        },
        "spec": template.get("spec") or {},
    }
