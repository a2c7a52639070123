"""Runs that do not end: the laptop that submitted one dies in the middle, or the run itself never finishes.

The founding story: the step that turned the GPUs off was chained to a run's end, and to a laptop. A run of our own is
started beside the targets - a Job without GPUs, off the GPU nodes - that whatever waits for the work would wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import ClassVar

from killcheck.faults.base import Evidence, Fault, FaultError, Plan, none_asked, none_rented
from killcheck.faults.kubernetes.executor import pod_spec
from killcheck.faults.kubernetes.helper_pod import Helper, helpers, started
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, controller_of, dig, format_time, name_of, namespace_of, parse_time
from killcheck.kube.permissions import Permission
from killcheck.kube.pod_annotations import EXECUTE
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import retry
from killcheck.spec.killpath import Layer

__all__ = ["LaptopKilled", "RunNeverFinishes"]


#: Phases by which a layer has acted.
_ACTED = frozenset({"scale_written", "pods_terminating", "pods_gone", "instance_gone"})
#: It only has to be there: no program of it runs on the embedded cluster's nodes.
_IDLE = {EXECUTE: "false"}


class RunNeverFinishes(Fault):
    """Reproduces rows 8 and 40 and the second failure of the founding story: a switch that waits for the work to end.

    It bites as long as the run is active: idle monitors that count active Jobs, scripts that wait for completion.
    """

    name = "run-never-finishes"
    simulates = "a run beside the target hangs and never finishes"
    family = "orchestrator"
    failures = (8, 40)
    costs = "a small pod in the target's namespace"
    rank = 0
    shows = Evidence.TARGETS

    #: After how long whoever waits for the run has waited for it, in seconds.
    waited_for_s: ClassVar[float] = 60.0

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Wherever a layer turns something off."""
        return None if layer.covers else "the layer turns nothing off"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """A Job of our own that never ends."""
        namespace = self._namespace(stage, layer)
        verbs = [Permission(v, "batch", "jobs", namespace=namespace) for v in ("get", "create", "delete")]
        return Plan(
            (f"a Job of our own in {namespace}, without GPUs, that never ends: {self.simulates}",),
            namespaces=(namespace,),
            permissions=tuple(verbs),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Create it, and wait until it runs."""
        namespace, name = self._namespace(stage, layer), self._name(stage)
        gpu_nodes = {name_of(node) for node in stage.scene.pool_nodes()}
        others = [node for node in stage.scene.nodes.values() if name_of(node) not in gpu_nodes]
        made = partial(self._job, stage, layer, namespace, name)
        try:
            started(stage, r.JOBS, made, partial(self._pod, stage), helpers(stage, layer, others))
        except FaultError as error:
            raise FaultError(f"{self.name}: in {namespace}: {error}") from error
        return [f"created Job {namespace}/{name}: a run that never ends"]

    @staticmethod
    def _namespace(stage: Stage, layer: LayerRun) -> str:
        found = [t.namespace for t in stage.kill_path.covered_by(layer.layer) if t.namespace]
        if not found:
            raise FaultError("the layer has no target in a namespace")
        return found[0]

    def _name(self, stage: Stage) -> str:
        return f"killcheck-{self.name}-{stage.run[-6:]}"

    @staticmethod
    def _job(stage: Stage, layer: LayerRun, namespace: str, name: str, helper: Helper) -> Obj:
        spec: Obj = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "run",
                    "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        }
        if stage.cluster.real:
            spec["tolerations"] = _tolerated(stage, layer)
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "backoffLimit": 0,
                "template": {"metadata": {"annotations": _IDLE}, "spec": helper.fill(spec | _off_gpu_nodes(stage))},
            },
        }

    def _pod(self, stage: Stage) -> Obj | None:
        """The pod of the run; of several one that is not on its way out."""
        own = []
        for pod in stage.scene.pods.values():
            owner = controller_of(pod)
            if owner and owner["kind"] == "Job" and owner["name"] == self._name(stage):
                own.append(pod)
        return min(own, key=lambda pod: "deletionTimestamp" in pod["metadata"], default=None)

    def _running(self, stage: Stage) -> Obj | None:
        pod = self._pod(stage)
        runs = pod is not None and dig(pod, "status", "phase") == "Running"
        return pod if pod is not None and runs and "deletionTimestamp" not in pod["metadata"] else None

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Look again when it was waited for: that it goes on shows in no change."""
        if self._looks or stage.timeline is None:
            return None
        self._looks = True
        return self.waited_for_s + 0.1

    _looks = False

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The run is still at it when the layer has acted, or long after it should have."""
        pod = self._running(stage)
        if pod is None or stage.timeline is None:
            return None
        waited_s = (stage.cluster.loop.now() - stage.timeline.start).total_seconds()
        if waited_s < self.waited_for_s and not _ACTED & set(stage.timeline.reached):
            return None
        return f"Job {namespace_of(pod)}/{self._name(stage)} is active, and its pod {name_of(pod)} runs on"


def _off_gpu_nodes(stage: Stage) -> Obj:
    """It keeps no node that could be given back; where nobody asks after nodes, it may have to run on one of them."""
    nodes = [] if none_rented(stage.kill_path) else [name_of(node) for node in stage.scene.pool_nodes()]
    if not nodes:
        return {}
    wish: Obj
    term: Obj = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": nodes}]}
    if none_asked(stage.kill_path):
        wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    else:
        wish = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": wish}}


def _tolerated(stage: Stage, layer: LayerRun) -> list[Obj]:
    """What executor and targets tolerate: where they run, a run beside them may."""
    held = [stage.scene.pods.get(pod.name, pod.namespace) or {} for pod in stage.scene.gpu_pods()]
    found = [*(pod_spec(layer).get("tolerations") or ())]
    found += [one for pod in held for one in dig(pod, "spec", "tolerations", default=[])]
    return [one for number, one in enumerate(found) if one not in found[:number]]


class LaptopKilled(RunNeverFinishes):
    """Reproduces rows 20 and 53: a run was submitted from a laptop, and the laptop dies in the middle of it.

    What Kubernetes sees of a laptop: somebody who renews a Lease for as long as the run is driven. It falls silent
    before the trigger is pulled, and never says that the run is over.
    """

    name = "laptop-killed"
    simulates = "the laptop that drives a run dies in the middle of it: nobody finishes the run, nobody cleans up"
    failures = (20, 53)
    shows = Evidence.TARGETS

    #: How long its Lease lasts, in seconds: the laptop counts as dead when nobody has renewed it for so long.
    silent_after_s: ClassVar[int] = 30

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The run, and the Lease of whoever drives it."""
        sabotage = super().plan(stage, layer)
        namespace = self._namespace(stage, layer)
        verbs = [
            Permission(v, "coordination.k8s.io", "leases", namespace=namespace) for v in ("get", "create", "delete")
        ]
        lease = f"a Lease in {namespace} that the driver of that run renews no more"
        return Plan((*sabotage.changes, lease), sabotage.namespaces, (*sabotage.permissions, *verbs))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Submit the run, say once that it is driven, and then nothing more, until it counts as dead."""
        done = super().inject(stage, layer)
        namespace, name = self._namespace(stage, layer), self._name(stage)
        now = format_time(stage.cluster.loop.now(), micro=True)
        stage.journal.create(
            r.LEASES,
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "holderIdentity": "a-laptop",
                    "leaseDurationSeconds": self.silent_after_s,
                    "acquireTime": now,
                    "renewTime": now,
                },
            },
        )
        stage.wait("the laptop to have fallen silent", lambda: False, self.silent_after_s + 1.0)
        return [
            *done,
            f"created Lease {namespace}/{name} of the laptop that drives it; it has been silent for "
            f"{self.silent_after_s} s",
        ]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The run goes on, and its driver has been silent for longer than its Lease lasts."""
        run = super().bitten(stage, layer)
        if not run or stage.timeline is None:
            return None
        now = stage.cluster.loop.now()
        kube, namespace = stage.cluster.kube, self._namespace(stage, layer)
        lease = retry(stage.cluster.loop, lambda: kube.find(r.LEASES, self._name(stage), namespace))
        renewed = dig(lease or {}, "spec", "renewTime")
        if not renewed or parse_time(renewed) + timedelta(seconds=self.silent_after_s) >= now:
            return None
        return f"{run}; whoever drives it was last heard of at {parse_time(renewed):%H:%M:%S}"
