"""Schedules that are suspended by day, and let go in time by another one: a switch that is armed before it fires."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.executor.reading import ApiCall, read
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.workloads import templates

__all__ = ["armed_by", "lets_go"]


def armed_by(cron_job: Obj, others: Iterable[Obj]) -> Obj | None:
    """The CronJob, not suspended itself, whose program lets this one go; None: there is none that could be read."""
    if dig(cron_job, "spec", "suspend") is not True:
        return None
    for other in others:
        if dig(other, "spec", "suspend") or other.get("metadata", {}).get("name") == name_of(cron_job):
            continue
        for template in templates(other):
            calls = read(template.spec, namespace_of(other) or "default").writes
            if any(lets_go(call, cron_job) for call in calls):
                return other
    return None


def lets_go(call: ApiCall, cron_job: Obj) -> bool:
    """Whether a call takes the suspension of a CronJob off."""
    home = namespace_of(cron_job) or "default"
    ours = call.resource == "cronjobs" and call.about(home, name_of(cron_job), labels_of(cron_job))
    return ours and call.removes and "suspend" in call.body
