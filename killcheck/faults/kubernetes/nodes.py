"""What happens to machines and to what runs the cluster: partitions, spot reclaims, controllers that are down."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import ClassVar

from killcheck.capabilities.modelled import CloudMachine, ModelledCloud
from killcheck.capabilities.offered import Capability, present
from killcheck.faults.base import Evidence, Fault, FaultError, Plan, all_provided, none_asked, none_rented
from killcheck.faults.kubernetes.executor import path_of
from killcheck.faults.witnessed import heard, left, silent
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.changes import LABEL
from killcheck.spec.killpath import KillPath, Layer, LayerType

__all__ = [
    "AutoscalerDown",
    "ControllerManagerDown",
    "NodePartitioned",
    "SpotNotice",
    "SpotNoticeMetadata",
    "SpotNoticeQueue",
    "SpotRebalance",
    "SpotReclaim",
]

#: States of a machine that does not come back.
_ENDED = ("shutting-down", "terminated")
#: What the Job controller holds a finished pod with until it has counted it.
JOB_TRACKING = "batch.kubernetes.io/job-tracking"


class NodePartitioned(Fault):
    """Reproduces row 37: the node does not answer; its containers run on, and bill."""

    name = "node-partitioned"
    simulates = "the GPU nodes' kubelets no longer reach the API server"
    family = "network"
    failures = (37,)
    rank = 2
    needs = (Capability.NODES,)
    shows = Evidence.OTHERS

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The kubelets of the GPU nodes fall silent."""
        return Plan(("the kubelets of the GPU pools' nodes fall silent",), edits=("the GPU pools' kubelets",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Stop them; their containers run on."""
        done = []
        for node in stage.scene.pool_nodes():
            what = f"node {name_of(node)} is cut off"
            stage.journal.call(Capability.NODES, what, ("pause", name_of(node)), ("start", name_of(node)))
            done.append(what)
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The API server has not heard of a node in scope for so long that its state is unknown."""
        return silent(stage.scene, list(stage.scene.known_nodes))


class _SpotFault(Fault):
    """Something that the cloud does to its machines; it cannot be taken back, and the targets' pods move."""

    family = "spot"
    costs = "the machines really go: the targets start anew on others"
    rank = 2
    needs = (Capability.CLOUD,)

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Not where it is what pulls the trigger: two reclaims of one machine cannot be told apart."""
        return "a reclaim is the layer's own trigger" if layer.type is LayerType.SPOT_HANDLER else None

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where machines come and go."""
        return none_rented(kill_path)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The instances behind the GPU nodes."""
        return Plan(
            (f"every instance of the GPU pools: {self.simulates}",),
            edits=("the GPU pools' instances",),
        )

    def _instances(self, stage: Stage) -> list[CloudMachine]:
        cloud = present(stage.cluster.capabilities.cloud)
        found = [cloud.by_provider_id(dig(node, "spec", "providerID", default="")) for node in stage.scene.pool_nodes()]
        live = [one for one in found if one is not None]
        if not live:
            raise FaultError("no node of the GPU pools has an instance of the modelled cloud behind it")
        return live

    @abstractmethod
    def strike(self, cloud: ModelledCloud, instance_id: str) -> str:
        """Do it; what was done, in words."""

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Do it to each."""
        struck = self._instances(stage)
        self.struck, self._at = [one.instance_id for one in struck], stage.cluster.loop.now()
        self._nodes = [one.node_name for one in struck]
        return [self.strike(present(stage.cluster.capabilities.cloud), one) for one in self.struck]

    def heard(self, stage: Stage) -> str | None:
        """A handler's first word on a struck machine's node, and how long after; None: nobody has said anything."""
        said = heard(stage, self.kind, self._at, self._nodes) if self._at is not None else None
        return f"{said[0]}, {max(0.0, said[1]):.0f} s after it" if said is not None else None

    def gone(self, stage: Stage) -> str | None:
        """A struck machine that has ended, and whose node has felt it: silent, or gone; None: there is none."""
        cloud = present(stage.cluster.capabilities.cloud)
        for instance_id, node in zip(self.struck, self._nodes, strict=True):
            instance = cloud.instances[instance_id]
            felt = silent(stage.scene, [node]) or left(stage.scene, [node])
            if instance.state in _ENDED and felt:
                return f"instance {instance_id} is {instance.state} (ended by {instance.terminated_by}); {felt}"
        return None

    #: What a handler would hear of: a key of :data:`killcheck.faults.witnessed.HEARD`.
    kind: ClassVar[str] = "interruption"
    struck: Sequence[str] = ()
    _nodes: Sequence[str] = ()
    _at: datetime | None = None


class SpotNotice(_SpotFault):
    """Reproduces row 52: two minutes' notice by queue and metadata, then the machine goes."""

    name = "spot-notice"
    simulates = "a spot interruption notice, two minutes before the machine is taken"
    failures = (52,)
    shows = Evidence.OTHERS

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Give notice to each; what it leaves is told at every stage."""
        done = super().inject(stage, layer)
        cloud = present(stage.cluster.capabilities.cloud)
        self.noticed = (stage.cluster.loop.now(), min(cloud.leaves_s(cloud.instances[one]) for one in self.struck))
        return done

    def strike(self, cloud: ModelledCloud, instance_id: str) -> str:
        """Give notice."""
        notice = cloud.interrupt(instance_id).notice
        return f"spot interruption notice for {instance_id}: terminated at {notice:%H:%M:%S}"

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A handler has heard of it, or the machine went."""
        felt = self.heard(stage) or self.gone(stage)
        told = self.told(stage) if felt else ""
        return f"{told}; {felt}" if told else None

    def told(self, stage: Stage) -> str | None:
        """For when an instance has notice, and by which way; None: none has."""
        cloud = present(stage.cluster.capabilities.cloud)
        for instance_id in self.struck:
            if cloud.instances[instance_id].notice is not None:
                return f"instance {instance_id} had notice for {cloud.instances[instance_id].notice:%H:%M:%S}"
        return None


class _NoticeByOneWay(SpotNotice):
    """The notice comes by one way alone: who listens to the other hears nothing of it."""

    #: As the modelled cloud calls the way.
    way: ClassVar[str]

    def strike(self, cloud: ModelledCloud, instance_id: str) -> str:
        """Give notice, by that way only."""
        notice = cloud.interrupt(instance_id, via=(self.way,)).notice
        return f"spot interruption notice for {instance_id} by {self.way} alone: terminated at {notice:%H:%M:%S}"


class SpotNoticeQueue(_NoticeByOneWay):
    """Reproduces row 52: EventBridge tells the queue; a handler that asks the machine's metadata hears it too late."""

    name = "spot-notice-queue"
    simulates = "a spot interruption notice by queue message alone"
    way = "queue"

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where there is a queue, and who recommends: on AWS."""
        return super().unsuited_targets(kill_path, layer) or all_provided(kill_path)

    def told(self, stage: Stage) -> str | None:
        """The queue was sent the warning."""
        cloud = present(stage.cluster.capabilities.cloud)
        for instance_id in self.struck:
            if any("Interruption Warning" in text and instance_id in text for text in cloud.queue.sent):
                return f"{super().told(stage)}: the queue was told, the instance's metadata was not"
        return None


class SpotNoticeMetadata(_NoticeByOneWay):
    """Reproduces row 52: the machine's own metadata says so; without a handler on it nobody hears of it."""

    name = "spot-notice-metadata"
    simulates = "a spot interruption notice by instance metadata alone"
    way = "metadata"

    def told(self, stage: Stage) -> str | None:
        """The instance's metadata tells of it, and the queue does not."""
        cloud = present(stage.cluster.capabilities.cloud)
        for instance_id in self.struck:
            queued = any("Interruption Warning" in text and instance_id in text for text in cloud.queue.sent)
            if cloud.instances[instance_id].metadata_tells and not queued:
                return f"{super().told(stage)}: its metadata told, no queue did"
        return None


class SpotRebalance(_SpotFault):
    """Reproduces the prelude of row 52: a recommendation, on which a handler may replace the node during a kill."""

    name = "spot-rebalance"
    kind = "rebalance"
    simulates = "a spot rebalance recommendation"
    failures = (52,)
    shows = Evidence.OTHERS

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where there is a queue, and who recommends: on AWS."""
        return super().unsuited_targets(kill_path, layer) or all_provided(kill_path)

    def strike(self, cloud: ModelledCloud, instance_id: str) -> str:
        """Recommend it."""
        cloud.recommend_rebalance(instance_id)
        return f"rebalance recommendation for {instance_id}"

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Whoever reads the queue or the machine's metadata said what it means."""
        cloud = present(stage.cluster.capabilities.cloud)
        said = self.heard(stage)
        made = next((cloud.instances[one].rebalance for one in self.struck if cloud.instances[one].rebalance), None)
        return f"rebalance recommended at {made:%H:%M:%S}; {said}" if said and made else None


class SpotReclaim(_SpotFault):
    """Reproduces row 52: the machine is gone without a word, and its Node stands for a while."""

    name = "spot-reclaim"
    simulates = "a spot instance is reclaimed without notice"
    failures = (49, 52)
    shows = Evidence.OTHERS

    def strike(self, cloud: ModelledCloud, instance_id: str) -> str:
        """Take it."""
        cloud.reclaim(instance_id)
        return f"reclaimed {instance_id}"

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The machine has ended, and its node is silent, or gone."""
        return self.gone(stage)


class AutoscalerDown(Fault):
    """Reproduces row 48: the GPU pods go, and nobody gives their nodes back.

    On the embedded cluster the modelled one stops; elsewhere its Deployment goes to zero, where its namespace consents.
    """

    name = "autoscaler-down"
    simulates = "the autoscaler that removes empty GPU nodes is down"
    family = "orchestrator"
    failures = (48,)
    costs = "no pool of this cluster grows or shrinks meanwhile"
    rank = 2
    shows = Evidence.OTHERS

    NAMES = ("karpenter", "cluster-autoscaler", "aws-cluster-autoscaler")

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where it is asked what becomes of machines."""
        return none_asked(kill_path)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The autoscaler's Deployment goes to zero."""
        if stage.cluster.capabilities.controllers is not None:
            return Plan(
                ("the modelled autoscaler stops for the length of the drill",),
                edits=tuple(f"controller {name}" for name in self.NAMES),
            )
        self.must_be_installed(stage.cluster.kube)
        found = self._deployments(stage.cluster.kube)
        verbs = [
            Permission(v, "apps", "deployments", "", namespace_of(d), name_of(d))
            for d in found
            for v in ("get", "patch")
        ]
        return Plan(
            tuple(
                f"Deployment {namespace_of(d)}/{name_of(d)} goes to zero for the length of the drill: no pool of "
                "this cluster grows or shrinks meanwhile"
                for d in found
            ),
            namespaces=tuple(sorted({namespace_of(d) for d in found})),
            permissions=tuple(verbs),
            edits=tuple(path_of(d, "spec.replicas") for d in found),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Stop it."""
        if stage.cluster.capabilities.controllers is not None:
            return _stop(stage, [name for name in self.NAMES if name in _controllers(stage)])
        done = []
        for found in self._deployments(stage.cluster.kube):
            what = f"Deployment {namespace_of(found)}/{name_of(found)} is at zero"
            stage.journal.merge(r.DEPLOYMENTS, name_of(found), namespace_of(found), {"spec": {"replicas": 0}}, what)
            done.append(what)
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """It does not run, and was missed: an empty node stands past its deadline, or another hand ended one."""
        down = self._down(stage)
        missed = self._missed(stage, layer) if down else ""
        return f"{down}; {missed}" if missed else None

    def _down(self, stage: Stage) -> str | None:
        """Which autoscalers do not run; None: none, or not all."""
        if stage.cluster.capabilities.controllers is not None:
            stopped = present(stage.cluster.capabilities.controllers).stopped
            return "; ".join(f"{name} is stopped" for name in self.NAMES if name in stopped)
        found = self._deployments(stage.cluster.kube)
        if found and not any(dig(d, "status", "replicas") for d in found):
            return "; ".join(f"Deployment {namespace_of(d)}/{name_of(d)} has no pod" for d in found)
        return None

    @staticmethod
    def _missed(stage: Stage, layer: LayerRun) -> str | None:
        """The occasion on which it would have acted; None: there was none yet. Asked at every deadline, too."""
        if stage.timeline is None or "pods_gone" not in stage.timeline.reached:
            return None
        since = [name for name, gone in stage.scene.gone_at.items() if gone > stage.timeline.start]
        late_s = stage.kill_path.deadlines_for(layer.layer).node_drained_s
        if since:
            return f"{left(stage.scene, since)}, by another hand"
        if (stage.cluster.loop.now() - stage.timeline.start).total_seconds() <= late_s:
            return None
        empty = (name_of(node) for node in stage.scene.pool_nodes() if not stage.scene.pods_on(name_of(node)))
        return next((f"node {name} is empty, and nobody has removed it within {late_s:.0f} s" for name in empty), None)

    @classmethod
    def not_installed(cls, kube: Kube) -> str | None:
        """An autoscaler is a Deployment, by its name or its label."""
        found = cls._deployments(kube)
        return None if found else "no Deployment of Karpenter or a cluster autoscaler is to be found here"

    @classmethod
    def _deployments(cls, kube: Kube) -> list[Obj]:
        return [
            d
            for d in kube.list(r.DEPLOYMENTS).items
            if labels_of(d).get("app.kubernetes.io/name") in cls.NAMES or name_of(d) in cls.NAMES
        ]


class ControllerManagerDown(Fault):
    """Reproduces row 15: the schedule fires nothing, Jobs get no pods, Deployments do not shrink."""

    name = "controller-manager-down"
    simulates = "kube-controller-manager is down"
    family = "orchestrator"
    failures = (15,)
    rank = 2
    needs = (Capability.CONTROLLERS,)
    shows = Evidence.OTHERS

    NAMES = (
        "cronjob-controller",
        "job-controller",
        "deployment-controller",
        "replicaset-controller",
        "statefulset-controller",
        "garbage-collector-controller",
    )
    #: Within what time a controller that works has acted, in seconds (recorded: within 3 s).
    acts_within_s: ClassVar[float] = 10.0

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The workload controllers stop."""
        return Plan(
            ("the controllers of kube-controller-manager stop for the length of the drill",),
            edits=tuple(f"controller {name}" for name in self.NAMES),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Stop them."""
        return _stop(stage, [name for name in self.NAMES if name in _controllers(stage)])

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """They do not run, and what they would have done long ago is not done: to a Job, its pod, or a Deployment."""
        if "job-controller" not in present(stage.cluster.capabilities.controllers).stopped:
            return None
        if (
            stage.timeline is None
            or (stage.cluster.loop.now() - stage.timeline.start).total_seconds() < self.acts_within_s
        ):
            return None
        job = stage.observations.job or self._ours(stage, layer)
        if job is not None and not dig(job, "status", "startTime"):
            return f"Job {name_of(job)} has no status: the job controller is down"
        for held in stage.scene.gpu_pods():
            pod = stage.scene.pods.get(held.name, held.namespace) or {}
            if (
                held.terminating
                and dig(pod, "status", "phase") in ("Succeeded", "Failed")
                and (JOB_TRACKING in dig(pod, "metadata", "finalizers", default=[]))
            ):
                return f"{held} has ended and is still held by {JOB_TRACKING}: the job controller is down"
        for target in stage.kill_path.covered_by(layer.layer):
            for obj in stage.scene.objects_of(target) if target.kind == "Deployment" else ():
                seen = dig(obj, "status", "observedGeneration", default=0)
                if stage.timeline is not None and dig(obj, "metadata", "generation", default=0) > seen:
                    return f"{target}: nobody has observed generation {obj['metadata']['generation']}"
        return None

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Look again when they would have acted: that nothing happens shows in no change."""
        if self._looks or stage.timeline is None:
            return None
        self._looks = True
        return self.acts_within_s + 0.1

    _looks = False

    @staticmethod
    def _ours(stage: Stage, layer: LayerRun) -> Obj | None:
        """A Job that the drill created, where the layer runs several and none is the one (a sentinel's starters)."""
        if layer.layer.sentinel is None or stage.timeline is None:
            return None
        places = sorted({t.namespace for t in stage.kill_path.covered_by(layer.layer) if t.namespace})
        jobs = (job for place in places for job in stage.cluster.kube.list(r.JOBS, place).items)
        return next((job for job in jobs if labels_of(job).get(LABEL) == stage.run), None)


def _controllers(stage: Stage) -> Collection[str]:
    return present(stage.cluster.capabilities.controllers).controllers


def _stop(stage: Stage, names: Sequence[str]) -> list[str]:
    if not names:
        raise FaultError("none of them runs here")
    for name in names:
        stage.journal.call(
            Capability.CONTROLLERS, f"{name} stopped", ("stop_controller", name), ("start_controller", name)
        )
    return [f"{name} stopped" for name in names]
