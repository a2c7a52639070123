"""What Kueue manages and this model does not: kinds of jobs other than Job, and Jobs whose queue is in no manifest.

Source: kubernetes-sigs/kueue pkg/controller/jobframework/reconciler.go (August 2026): a job that is suspended and whose
Workload is admitted is started (step 7, "workload is admitted and job is suspended"), whoever suspended it; one whose
Workload was evicted is suspended. The kinds are those of ``integrations.frameworks`` that are on as Kueue is released.
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.embedded.models import training_jobs
from killcheck.embedded.models.groups import JOBSETS, RAY_CLUSTERS
from killcheck.embedded.models.kueue import names as n
from killcheck.entries import Becomes, Doubt, leaves
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, dig, labels_of, ref_of
from killcheck.kube.resources import Resource

__all__ = ["doubts"]

#: Kinds with ``spec.suspend``, or ``spec.runPolicy.suspend``, that Kueue writes.
_SUSPENDED = (
    JOBSETS,
    RAY_CLUSTERS,
    Resource("ray.io", "v1", "rayjobs", "RayJob"),
    Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob"),
    *training_jobs.KINDS,
)


@leaves("Kueue", "kinds of jobs other than Job that are suspended, or whose queue is stopped", Becomes.OPEN)
def doubts(kube: Kube) -> Iterator[Doubt]:
    """One for each job under a queue that Kueue may start again, or may have stopped, as things are now."""
    queues = _all(kube, n.CLUSTERQUEUES)
    locals_ = _all(kube, n.LOCALQUEUES)
    stopped = any(dig(one, "spec", "stopPolicy", default="None") != "None" for one in (*queues, *locals_))
    stopped = stopped or any(dig(one, "spec", "active", default=True) is False for one in _all(kube, n.WORKLOADS))
    for resource in (*_SUSPENDED, *(() if queues else (r.JOBS,))):
        for job in _all(kube, resource):
            queue, suspended = (
                labels_of(job).get(n.QUEUE),
                True in (dig(job, "spec", "suspend"), dig(job, "spec", "runPolicy", "suspend")),
            )
            if queue and (suspended or stopped):
                where = "is not modelled" if queues else "is in no manifest"
                said = (
                    f"{ref_of(job)} is under Kueue's queue {queue}, and what that does with a {resource.kind} {where}"
                )
                again = ": one that is admitted is started again, whoever suspended it" if suspended else ""
                yield Doubt(ref_of(job), said + again, may_be_on=suspended, may_be_off=stopped)


def _all(kube: Kube, resource: Resource) -> list[Obj]:
    """Every object of a kind, with its kind; none where it is not served."""
    try:
        return [{"kind": resource.kind, **obj} for obj in kube.list(resource).items]
    except NotFound:
        return []
