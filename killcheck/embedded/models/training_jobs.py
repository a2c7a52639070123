"""Controllers of Kubeflow's training-operator: PyTorchJob, TFJob, PaddleJob, XGBoostJob, JAXJob, from replicas to pods.

Only what turns them on and off, as it does it (kubeflow/training-operator release-1.9 pkg/controller.v1/common): a pod
for each index of each replica type, made again where somebody deletes it (pod.go, ReconcilePods); all of them deleted
while ``runPolicy.suspend`` (job.go, ReconcileJobs).

Left out: ends of jobs, back-off limits, elastic policies, gang scheduling, cleanPodPolicy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from killcheck.embedded.models.groups import Groups
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, copy, dig, labels_of, name_of
from killcheck.kube.resources import Resource

__all__ = ["CONTROLLERS", "KINDS", "JaxJobs", "PaddleJobs", "PyTorchJobs", "TfJobs", "TrainingJobs", "XgBoostJobs"]

_GROUP = "training.kubeflow.org"


def _of(kind: str) -> Resource:
    return Resource("kubeflow.org", "v1", f"{kind.lower()}s", kind)


class TrainingJobs(Groups):
    """One kind of jobs. ``replicas``: the field of its spec that holds its replica types."""

    made: ClassVar[Resource] = r.PODS
    replicas: ClassVar[str]

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
                if kind in ("Master", "Chief", "Launcher"):
                    labels[f"{_GROUP}/job-role"] = "master"
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


CONTROLLERS = (PyTorchJobs, TfJobs, PaddleJobs, XgBoostJobs, JaxJobs)
#: What they are about: each has ``spec.runPolicy.suspend``.
KINDS = tuple(one.own for one in CONTROLLERS)
