"""What is on a real cluster that says which cells of a matrix mean anything there: read once, before they are planned.

A cell that could only have ended as inconclusive, for there is nothing for its fault to act on, is left out and told.
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck import faults
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Forbidden
from killcheck.kube.objects import Obj, dig
from killcheck.run.matrix import Standing
from killcheck.run.session import Session
from killcheck.spec.killpath import Ref

__all__ = ["standing_on"]


def standing_on(session: Session) -> Standing:
    """The executors of a session's layers as they are on its cluster, and what is not installed there.

    Of an executor of which something may not be read nothing is said. Raises ClusterError, KubeError.
    """
    if not session.kill_path.in_kubernetes:
        return Standing()
    with session.cluster() as (cluster, kill_path):
        kube = cluster.kube
        refs = [layer.cron_job for layer in kill_path.layers if layer.cron_job is not None]
        absent = {kind.name: why for kind in faults.every() if (why := _missing(kube, kind))}
        return Standing([obj for ref in refs for obj in _executor(kube, ref)], absent)


def _missing(kube: Kube, kind: type[faults.Fault]) -> str | None:
    try:
        return kind.not_installed(kube)
    except Forbidden:
        return None  # not known: its drill will say


def _executor(kube: Kube, ref: Ref) -> Iterator[Obj]:
    """A CronJob with its ServiceAccount; nothing where it is not there, or one of them may not be read."""
    try:
        job = kube.find(r.CRONJOBS, ref.name, ref.namespace)
        if job is None:
            return
        pod = dig(job, "spec", "jobTemplate", "spec", "template", "spec", default={})
        account = kube.find(r.SERVICEACCOUNTS, pod.get("serviceAccountName") or "default", ref.namespace)
    except Forbidden:
        return
    yield job
    if account is not None:
        yield account
