"""Kubeflow's training-operator (PyTorchJob, TFJob, PaddleJob, XGBoostJob, JAXJob) and mpi-operator, from jobs to pods.

Only what turns them on and off, as it does it (kubeflow/training-operator release-1.9 pkg/controller.v1/common): a pod
for each index of each replica type, made again where somebody deletes it (pod.go, ReconcilePods); all of them deleted
while ``runPolicy.suspend`` (job.go, ReconcileJobs). mpi-operator (kubeflow/mpi-operator 0.6
pkg/controller/mpi_job_controller.go) does the same of workers, and starts the launcher as a Job; here it is a pod.

Left out: ends of jobs, back-off limits, elastic policies, gang scheduling, cleanPodPolicy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from killcheck.embedded.models.groups import Groups
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, copy, dig, labels_of, name_of
from killcheck.kube.resources import Resource

__all__ = [
    "CONTROLLERS",
    "KINDS",
    "JaxJobs",
    "MpiJobs",
    "PaddleJobs",
    "PyTorchJobs",
    "TfJobs",
    "TrainingJobs",
    "XgBoostJobs",
]

_GROUP = "training.kubeflow.org"


def _of(kind: str, version: str = "v1") -> Resource:
    return Resource("kubeflow.org", version, f"{kind.lower()}s", kind)


class TrainingJobs(Groups):
    """One kind of jobs. ``replicas``: the field of its spec that holds its replica types.

    ``roles``: what the pods of some of them are labelled with.
    """

    made: ClassVar[Resource] = r.PODS
    replicas: ClassVar[str]
    roles: ClassVar[Mapping[str, str]] = {"Master": "master", "Chief": "master"}

    def hands_off(self, obj: Obj) -> bool:
        """One that another controller manages (MultiKueue)."""
        return str(dig(obj, "spec", "runPolicy", "managedBy", default="")).startswith("kueue.x-k8s.io/")

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """A pod for each index of each type; none while it is suspended."""
        if dig(obj, "spec", "runPolicy", "suspend") is True:
            return
        for kind, group in sorted(dig(obj, "spec", self.replicas, default={}).items()):
            template = group.get("template") or {}
            for index in range(int(group.get("replicas", 1))):
                labels = {
                    **labels_of(template),
                    f"{_GROUP}/job-name": name_of(obj),
                    f"{_GROUP}/operator-name": self.name,
                    f"{_GROUP}/replica-type": kind.lower(),
                    f"{_GROUP}/replica-index": str(index),
                }
                if role := self.roles.get(kind):
                    labels[f"{_GROUP}/job-role"] = role
                spec = copy(template.get("spec") or {})
                restart = group.get("restartPolicy", "Never")
                spec["restartPolicy"] = "Never" if restart == "ExitCode" else restart
                yield {
                    "metadata": {
                        "name": f"{name_of(obj)}-{kind.lower()}-{index}",
                        "labels": labels,
                        "annotations": dig(template, "metadata", "annotations", default={}),
                    },
                    "spec": spec,
                }

    def adjust(self, one: Obj, wanted: Obj) -> None:
        """Nothing: a pod is as it is."""


class PyTorchJobs(TrainingJobs):
    """Of PyTorchJobs."""

    name: ClassVar[str] = "pytorchjob-controller"
    own: ClassVar[Resource] = _of("PyTorchJob")
    replicas: ClassVar[str] = "pytorchReplicaSpecs"


class TfJobs(TrainingJobs):
    """Of TFJobs."""

    name: ClassVar[str] = "tfjob-controller"
    own: ClassVar[Resource] = _of("TFJob")
    replicas: ClassVar[str] = "tfReplicaSpecs"


class PaddleJobs(TrainingJobs):
    """Of PaddleJobs."""

    name: ClassVar[str] = "paddlejob-controller"
    own: ClassVar[Resource] = _of("PaddleJob")
    replicas: ClassVar[str] = "paddleReplicaSpecs"


class XgBoostJobs(TrainingJobs):
    """Of XGBoostJobs."""

    name: ClassVar[str] = "xgboostjob-controller"
    own: ClassVar[Resource] = _of("XGBoostJob")
    replicas: ClassVar[str] = "xgbReplicaSpecs"


class JaxJobs(TrainingJobs):
    """Of JAXJobs."""

    name: ClassVar[str] = "jaxjob-controller"
    own: ClassVar[Resource] = _of("JAXJob")
    replicas: ClassVar[str] = "jaxReplicaSpecs"


class MpiJobs(TrainingJobs):
    """mpi-operator."""

    name: ClassVar[str] = "mpi-operator"
    own: ClassVar[Resource] = _of("MPIJob", "v2beta1")
    replicas: ClassVar[str] = "mpiReplicaSpecs"
    roles: ClassVar[Mapping[str, str]] = {"Launcher": "launcher", "Worker": "worker"}


CONTROLLERS = (PyTorchJobs, TfJobs, PaddleJobs, XgBoostJobs, JaxJobs, MpiJobs)
#: What they are about: each has ``spec.runPolicy.suspend``.
KINDS = tuple(one.own for one in CONTROLLERS)
