"""The TTL-after-finished controller: Jobs that have ended are deleted when they have been kept long enough.

Source: pkg/controller/ttlafterfinished of Kubernetes v1.36.
"""

from __future__ import annotations

from datetime import timedelta

from killcheck.embedded.controllers.job_rules import finished
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.objects import condition, parse_time, uid_of

__all__ = ["TtlAfterFinished"]


class TtlAfterFinished(Controller):
    """Deletes Jobs that have a ``ttlSecondsAfterFinished``."""

    name = "ttl-after-finished-controller"

    def setup(self) -> None:
        """Follow Jobs."""
        self.jobs = self.follow(r.JOBS)

    def reconcile(self, key: Key) -> None:
        """Delete the Job, or look again when it is time."""
        job = self.jobs.objects.get(key)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return
        keep = job["spec"].get("ttlSecondsAfterFinished")
        how = finished(job)
        ended = condition(job, how) if how else None
        if keep is None or ended is None:
            return
        due = parse_time(ended["lastTransitionTime"]) + timedelta(seconds=int(keep))
        left = (due - self.loop.now()).total_seconds()
        if left > 0:
            self.queue.add(key, left)
            return
        version = job["metadata"]["resourceVersion"]
        try:
            self.kube.delete(
                r.JOBS, key[1], key[0], uid=uid_of(job), resource_version=version, propagation="Foreground"
            )
        except (NotFound, Conflict):
            return
