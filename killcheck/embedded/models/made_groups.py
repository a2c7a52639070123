"""Controllers of kinds that make groups of other kinds: RayJob and RayService a RayCluster, TrainJob a JobSet.

Only what turns them on and off, as their own controllers do it (August 2026):

- RayJob (ray-project/kuberay ray-operator/controllers/ray/rayjob_controller.go): a RayCluster until its job ends, which
  here it does not; made again where somebody deletes it, unchanged whatever becomes of ``rayClusterSpec``. ``suspend``
  deletes it - where ``shutdownAfterJobFinishes`` is set and no ``clusterSelector``: else the RayJob is invalid
  (utils/validation.go), and nobody touches what runs.
- RayService (rayservice_controller.go): an active RayCluster, made again where somebody deletes it. Replicas in
  ``rayClusterConfig`` change nothing of one that is there (GenerateHashWithoutReplicasAndWorkersToDelete). ``suspend``
  came with v1.7.
- TrainJob (kubeflow/trainer pkg/controller/trainjob_controller.go, pkg/runtime/framework/plugins/jobset): a JobSet of
  its name from the runtime that it names, applied while either is suspended; made again where somebody deletes it. A
  TrainJob's ``suspend`` is false by default, so that of a JobSet that somebody suspends is put back.

Left out: the ends of jobs (deadlines, retries, TTLs), upgrades of RayServices, runtimes without a JobSet, first steps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from killcheck.embedded.controllers.runtime import Key
from killcheck.embedded.models.groups import JOBSETS, RAY_CLUSTERS, Groups
from killcheck.entries import Doubt
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, annotations_of, copy, dig, key_of, labels_of, name_of, namespace_of, ref_of
from killcheck.kube.resources import Resource

__all__ = ["RayJobs", "RayServices", "TrainJobs"]

_RAY_JOBS = Resource("ray.io", "v1", "rayjobs", "RayJob")
_RAY_SERVICES = Resource("ray.io", "v1", "rayservices", "RayService")
_TRAINER = "trainer.kubeflow.org"
_TRAIN_JOBS = Resource(_TRAINER, "v1alpha1", "trainjobs", "TrainJob")
_RUNTIMES = Resource(_TRAINER, "v1alpha1", "trainingruntimes", "TrainingRuntime")
_CLUSTER_RUNTIMES = Resource(_TRAINER, "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", False)
#: Which step of a TrainJob a replicated job is, and the one that trains; its container.
_STEP, _TRAINS, _NODE = "trainer.kubeflow.org/trainjob-ancestor-step", "trainer", "node"
_NO_SUSPEND = (
    "The RayJob spec is invalid: a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended"
)
#: What a RayCluster was made of, without its numbers.
_HASH = "ray.io/hash-without-replicas-and-workers-to-delete"


class RayJobs(Groups):
    """kuberay-operator, of RayJobs."""

    name: ClassVar[str] = "rayjob-controller"
    own: ClassVar[Resource] = _RAY_JOBS
    made: ClassVar[Resource] = RAY_CLUSTERS

    def hands_off(self, obj: Obj) -> bool:
        """One that another controller manages, that has a cluster of somebody else's, or that is invalid."""
        spec = obj.get("spec") or {}
        invalid = spec.get("suspend") is True and not spec.get("shutdownAfterJobFinishes")
        if invalid and not _elsewhere(obj):
            self.events.emit(obj, "Warning", "InvalidRayJobSpec", f"{namespace_of(obj)}/{name_of(obj)}: {_NO_SUSPEND}")
        return bool(invalid or spec.get("clusterSelector") or _elsewhere(obj))

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """Its cluster; none while it is suspended."""
        if dig(obj, "spec", "suspend") is not True:
            yield {"metadata": {"name": f"{name_of(obj)}-raycluster"}, "spec": dig(obj, "spec", "rayClusterSpec")}

    def adjust(self, one: Obj, wanted: Obj) -> None:
        """Nothing: changes of ``rayClusterSpec`` are disregarded."""


@dataclass(eq=False, repr=False)
class RayServices(Groups):
    """kuberay-operator, of RayServices."""

    name: ClassVar[str] = "rayservice-controller"
    own: ClassVar[Resource] = _RAY_SERVICES
    made: ClassVar[Resource] = RAY_CLUSTERS

    def hands_off(self, obj: Obj) -> bool:
        """One that is suspended: KubeRay knows that field since v1.7 only, and which runs is not known here."""
        what = f"RayService {namespace_of(obj)}/{name_of(obj)}"
        if dig(obj, "spec", "suspend") is True:
            self._tell(
                obj, f"{what} is suspended: KubeRay before v1.7 knows no such field, and which runs is not known"
            )
        return dig(obj, "spec", "suspend") is True or _elsewhere(obj)

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """Its active cluster."""
        spec = dig(obj, "spec", "rayClusterConfig", default={})
        meta = {"name": f"{name_of(obj)}-raycluster", "annotations": {_HASH: _hash(spec)}}
        yield {"metadata": meta, "spec": spec}

    def adjust(self, one: Obj, wanted: Obj) -> None:
        """Nothing, but that a change of more than numbers makes another cluster is told: that is not modelled."""
        if annotations_of(one).get(_HASH) != annotations_of(wanted)[_HASH]:
            said = "its RayService has changed, and how KubeRay replaces it is not modelled"
            self._tell(one, f"RayCluster {namespace_of(one)}/{name_of(one)}: {said}")

    def _tell(self, about: Obj, said: str) -> None:
        doubt = Doubt(ref_of(about), said)
        if doubt not in self.unproven:
            self.unproven.append(doubt)


class TrainJobs(Groups):
    """Kubeflow's trainer-controller-manager."""

    name: ClassVar[str] = "trainer-controller-manager"
    own: ClassVar[Resource] = _TRAIN_JOBS
    made: ClassVar[Resource] = JOBSETS

    def setup(self) -> None:
        """Follow the runtimes as well."""
        super().setup()
        self.runtimes = {
            resource.kind: self.follow(resource, self._of_runtime, optional=True)
            for resource in (_RUNTIMES, _CLUSTER_RUNTIMES)
        }

    def _of_runtime(self, change: Change, old: Obj | None, runtime: Obj) -> list[Key]:
        return [key_of(obj) for obj in self.objects.values() if _runtime_of(obj)[1] == name_of(runtime)]

    def hands_off(self, obj: Obj) -> bool:
        """One that another controller manages, or whose runtime is not there."""
        if self._runtime(obj) is None:
            kind, name = _runtime_of(obj)
            said = f'TrainJob resources reconciliation failed: {kind} "{name}" not found'
            self.events.emit(obj, "Warning", "TrainJobResourcesCreationFailed", said)
        return self._runtime(obj) is None or _elsewhere(obj)

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """A JobSet as its runtime has it, with the trainer's number of nodes, image, command and resources."""
        runtime = self._runtime(obj) or {}
        spec = copy(dig(runtime, "spec", "template", "spec", default={}))
        for group in spec.get("replicatedJobs") or ():
            if labels_of(group.get("template") or {}).get(_STEP) == _TRAINS:
                _train(group, dig(obj, "spec", "trainer", default={}), dig(runtime, "spec", "mlPolicy", default={}))
        spec["suspend"] = dig(obj, "spec", "suspend", default=False)
        yield {"metadata": {"name": name_of(obj)}, "spec": spec}

    def _runtime(self, obj: Obj) -> Obj | None:
        kind, name = _runtime_of(obj)
        home = namespace_of(obj) if kind == _RUNTIMES.kind else ""
        return self.runtimes[kind].get(name, home) if kind in self.runtimes else None


def _runtime_of(obj: Obj) -> tuple[str, str]:
    """(kind, name) of the runtime that a TrainJob names."""
    ref = dig(obj, "spec", "runtimeRef", default={})
    return str(ref.get("kind") or _CLUSTER_RUNTIMES.kind), str(ref.get("name"))


def _elsewhere(obj: Obj) -> bool:
    """Whether ``managedBy`` names a controller that is not the kind's own."""
    return str(dig(obj, "spec", "managedBy", default="")).startswith("kueue.x-k8s.io/")


def _train(group: Obj, trainer: Obj, policy: Obj) -> None:
    """Fill in the step that trains, in place: one Job of as many pods as there are nodes."""
    group["replicas"] = 1
    job = group["template"].setdefault("spec", {})
    nodes = trainer.get("numNodes") or policy.get("numNodes") or job.get("parallelism") or 1
    job |= {"parallelism": nodes, "completions": nodes}
    for container in dig(job, "template", "spec", "containers", default=[]):
        if container.get("name") == _NODE:
            container |= {key: trainer[key] for key in ("image", "command", "args") if trainer.get(key)}
            container["resources"] = trainer.get("resourcesPerNode") or container.get("resources") or {}


def _hash(spec: Obj) -> str:
    """Of a RayCluster's spec without what its scaling changes (GenerateHashWithoutReplicasAndWorkersToDelete)."""
    muted = copy(spec)
    for group in muted.get("workerGroupSpecs") or ():
        for key in ("replicas", "minReplicas", "maxReplicas"):
            group.pop(key, None)
        strategy: Any = group.get("scaleStrategy")
        if isinstance(strategy, dict):
            strategy.pop("workersToDelete", None)
    text = json.dumps(muted, sort_keys=True)
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
