"""The programs among objects that could be part of a kill path, and the Job that fires one.

These are CronJobs: what acts by itself at a time of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from killcheck.kube import gpus, schedule
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of, owners
from killcheck.kube.workloads import templates

__all__ = ["Program", "programs"]


@dataclass(frozen=True, slots=True)
class Program:
    """A CronJob whose pods hold no GPU."""

    obj: Obj

    @property
    def ref(self) -> str:
        """``CronJob/inference/nightly-off``, as :attr:`killcheck.rehearsal.record.Rehearsed.program`."""
        return f"{self.obj['kind']}/{self.namespace}/{name_of(self.obj)}"

    @property
    def namespace(self) -> str:
        """Where its pods run."""
        return namespace_of(self.obj) or "default"

    @property
    def account(self) -> str:
        """Its ServiceAccount."""
        return str(self.pod_spec.get("serviceAccountName") or "default")

    @property
    def pod_spec(self) -> Obj:
        """What its pods are made from."""
        found: Obj = dig(self.job_spec, "template", "spec", default={})
        return found

    @property
    def job_spec(self) -> Obj:
        """The spec of the Job that a firing makes."""
        found: Obj = dig(self.obj, "spec", "jobTemplate", "spec", default={"template": {}})
        return found

    @property
    def deadline_s(self) -> float | None:
        """After how many seconds its Job is ended."""
        found = self.job_spec.get("activeDeadlineSeconds")
        return float(found) if isinstance(found, int) else None

    def next_slot(self, after: datetime) -> datetime:
        """When it is fired next; ``after`` itself where nothing says."""
        try:
            found = schedule.parse(
                str(dig(self.obj, "spec", "schedule", default="")), dig(self.obj, "spec", "timeZone")
            ).next(after)
        except schedule.ScheduleError:
            return after
        return found or after

    def job(self, name: str) -> Obj:
        """The Job of a firing, that ends by itself alone: without a deadline, and not tried again.

        What its first pod does is what is to be seen; whether it took too long is known from its seconds.
        """
        spec = copy(self.job_spec)
        for field in ("activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend", "selector", "manualSelector"):
            spec.pop(field, None)
        spec["backoffLimit"] = 0
        spec["template"].setdefault("spec", {})["restartPolicy"] = "Never"
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": spec,
            "metadata": {"name": name, "namespace": self.namespace},
        }


def programs(objects: Sequence[Obj]) -> list[Program]:
    """Every CronJob whose pods ask for no GPU."""
    return [Program(obj) for obj in objects if _fires(obj)]


def _fires(obj: Obj) -> bool:
    if obj.get("kind") != "CronJob" or any(True for _ in owners(obj)) or not name_of(obj):
        return False
    found = templates(obj)
    return bool(found) and not any(gpus.spec_devices(template.spec) for template in found)
