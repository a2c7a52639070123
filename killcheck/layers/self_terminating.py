"""The worker that ends itself: fed from a queue, it exits when nothing has come for a while, and asks nobody.

So does a Job that the cluster ends when its time is over (:mod:`killcheck.layers.time_limits`).
Nothing is pulled: the queue is left empty, the clock starts when the worker is seen idle (its pods' start). What ends
earlier than its delay dies in every gap between two batches; what a controller starts again was never off.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from killcheck.kube import gpus
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, condition, dig, format_time, name_of, namespace_of, parse_time, uid_of
from killcheck.kube.permissions import Permission
from killcheck.kube.time_limits import limit_of
from killcheck.layers.base import Explanation, LayerError, LayerRun, Stage
from killcheck.layers.time_limits import ended_by_limit
from killcheck.spec.killpath import Layer, LayerType
from killcheck.watch import queues

__all__ = ["SelfTerminating"]

#: Between a container's end and the moment its pod counts as gone, in seconds.
SLACK_S = 120.0
#: Its own clock and ours may differ by as much, in seconds.
EARLY_S = 5.0
#: Of its delay, the gap after which a worker is fed.
GAP = 0.6
#: Controllers that start again what exits 0.
RESTARTING = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController")


class SelfTerminating(LayerRun):
    """One drill of workers that end themselves."""

    own_phases = ("triggered",)
    remedy = "make the idle delay longer than the gaps between batches"

    @staticmethod
    def drills(layer: Layer) -> bool:
        """Workers that end themselves."""
        return layer.type is LayerType.SELF_TERMINATING and layer.container is None and layer.command is None

    def __init__(self, layer: Layer, stage: Stage) -> None:
        super().__init__(layer, stage)
        self._ended: dict[str, tuple[datetime, datetime, str]] = {}
        self._restarts: dict[str, tuple[str, int]] = {}
        self._workers: set[str] = set()
        #: When the spec's own request gave it something to do, in the middle of a gap.
        self._fed_at: datetime | None = None
        self._unproven: str | None = None

    def prepare(self) -> None:
        """The workers are the layer's targets; they must be in Kubernetes."""
        if not any(t.kind for t in self.stage.kill_path.covered_by(self.layer)):
            raise LayerError(f"layer {self.layer.name}: its workers are not in Kubernetes, where they could be watched")

    def permissions(self) -> Sequence[Permission]:
        """Reading is enough."""
        return ()

    def before_trigger(self) -> str | None:
        """Where the spec says how to feed it: a gap shorter than its delay, then work; it must live through both."""
        self._unproven = self._without_queue()
        if self._unproven is not None or self.layer.busy is None or not self.layer.idle_s:
            return self._unproven
        self._workers = {pod.uid for pod in self.stage.scene.gpu_pods()}
        self.stage.wait("a gap in the work to pass", lambda: bool(self._ended), self.layer.idle_s * GAP)
        if self._ended:
            return None
        fed = self.stage.programs.run(self.layer.busy)
        if not fed.ok:
            self._unproven = f"the worker could not be fed: {fed.told}"
            return self._unproven
        self._fed_at = fed.ended
        return f"after a gap of {self.layer.idle_s * GAP / 60:.0f} min it was fed ({fed.command})"

    def unproven(self) -> str | None:
        """It could not be fed, or what would end it is not here."""
        return self._unproven

    def trigger(self) -> str:
        """Leave the queue empty."""
        self._workers |= {pod.uid for pod in self.stage.scene.gpu_pods()}
        return "nothing is pulled: the queue stays empty, the workers are left to end themselves"

    def notice(self, change: Change, old: Obj | None, new: Obj) -> None:
        """How the workers' containers end, and whether something starts them again."""
        if new.get("kind") != "Pod" or not self._is_worker(new):
            return
        for status in dig(new, "status", "containerStatuses", default=[]):
            ended = dig(status, "state", "terminated") or dig(status, "lastState", "terminated")
            if not ended or not ended.get("finishedAt") or not ended.get("startedAt"):
                continue
            if status.get("restartCount") and ended.get("exitCode") == 0:
                self._restarts[uid_of(new)] = (name_of(new), int(status["restartCount"]))
            told = "deletionTimestamp" in new["metadata"]
            if ended.get("exitCode") == 0 and not told and uid_of(new) not in self._ended:
                self._ended[uid_of(new)] = (
                    parse_time(ended["startedAt"]),
                    parse_time(ended["finishedAt"]),
                    name_of(new),
                )

    def _is_worker(self, pod: Obj) -> bool:
        kind, name = self.stage.scene.root_owner(pod)
        return gpus.devices(pod) > 0 and any(
            t.kind == kind and t.namespace == namespace_of(pod) and (not t.object or t.object == name)
            for t in self.stage.kill_path.covered_by(self.layer)
        )

    def signs(self, writer: str | None) -> bool:
        """A worker that ends writes no replicas; whatever the field says was there before."""
        return True

    def acted(self, zero_at: datetime) -> str | None:
        """As many workers as there were ended by themselves, with exit code 0, not told to, before that moment.

        Not always the same: what was taken with its node its controller makes anew, and that ends as it would have.
        """
        own = list(self._ended.values())
        if not own or len(own) < len(self._workers):
            return self._by_limit(zero_at)
        last = max(finished for _, finished, _ in own)
        if not last - timedelta(seconds=1) <= zero_at <= last + timedelta(seconds=SLACK_S):
            return None
        return f"{len(own)} worker(s) ended by themselves with exit code 0, the last at {last:%H:%M:%S}"

    def _by_limit(self, zero_at: datetime) -> str | None:
        """That the cluster ended every one of its Jobs about then because their time was over; None: not each."""
        kube = self.stage.cluster.kube
        said = [ended_by_limit(kube, obj, zero_at) if self._limits(obj) else None for obj in self._objects()]
        return "; ".join(map(str, said)) if said and all(said) else None

    def _limits(self, obj: Obj) -> bool:
        """Whether the layer is that the cluster ends this object: its time, and no idle delay of the worker's own."""
        limit = limit_of(obj)
        return limit is not None and self.layer.idle_s in (None, limit)

    def _without_queue(self) -> str | None:
        """That a Job would be ended by Kueue alone, and its queue is not here: nothing of its time is kept then."""
        for job in self._objects():
            deadline = dig(job, "spec", "activeDeadlineSeconds")
            if deadline is None and self._limits(job) and not queues.queues_of(self.stage.cluster.kube, job):
                return (
                    f"Kueue would end Job {namespace_of(job)}/{name_of(job)}, and its LocalQueue "
                    f"{queues.queue_of(job)} is not here: add it and its ClusterQueue to the manifests"
                )
        return None

    def _objects(self) -> list[Obj]:
        """The workloads of its targets."""
        targets = self.stage.kill_path.covered_by(self.layer)
        return [obj for target in targets for obj in self.stage.scene.objects_of(target)]

    def flaw(self) -> str | None:
        """It did not wait as long as it says: gaps between batches kill it."""
        least = (self.layer.idle_s or 0.0) - EARLY_S
        for began, finished, name in self._ended.values():
            since = max(began, self._fed_at) if self._fed_at else began
            lived = (finished - since).total_seconds()
            if lived < least:
                return (
                    f"worker {name} ended after {lived:.0f} idle seconds, before the "
                    f"{self.layer.idle_s or 0:.0f} it must wait: every short gap between two batches kills it"
                )
        return None

    def _out_of_sight(self) -> tuple[str, str, str] | None:
        """(pod, node, Ready) of a worker whose node is not heard of."""
        for held in self.stage.scene.gpu_pods():
            ready = condition(self.stage.scene.nodes.get(held.node) or {}, "Ready")
            if held.node and (ready is None or ready.get("status") != "True"):
                return held.name, held.node, str(ready.get("status")) if ready else "Unknown"
        return None

    def _made_anew(self) -> tuple[str, datetime] | None:
        """(pod, since when) of a worker that came after the trigger."""
        for held in self.stage.scene.gpu_pods():
            pod = self.stage.scene.pods.get(held.name, held.namespace)
            if pod is not None and self._workers and held.uid not in self._workers and not held.terminating:
                return held.name, parse_time(pod["metadata"]["creationTimestamp"])
        return None

    def explain(self, stuck_at: str) -> Explanation | None:
        """Exit code 0, and started again; or no end at all."""
        if self._restarts:
            name, count = next(iter(self._restarts.values()))
            kinds = sorted({t.kind for t in self.stage.kill_path.covered_by(self.layer)} & set(RESTARTING))
            owner = f"a {kinds[0]} starts" if kinds else "its restartPolicy starts"
            return Explanation(
                f"exit 0 is no end: worker {name} ended itself and {owner} it again ({count} time(s))",
                (f"restartCount {count}, last exit code 0",),
                "run the worker as a Job (restartPolicy Never or OnFailure), or let it scale its Deployment to zero",
                (43,),
                lasting=True,
            )
        if stuck_at in ("scale_written", "pods_terminating", "pods_gone") and not self._ended:
            lost = self._out_of_sight()
            if lost:
                return Explanation(
                    f"worker {lost[0]} on {lost[1]}: its node does not answer, so whether it ended by itself is not "
                    "known, and its instance bills on",
                    (f"node {lost[1]}: Ready {lost[2]}",),
                    "terminate the instance: only that stops the GPUs of a node that does not answer",
                    (37,),
                )
            anew = self._made_anew()
            if anew:
                return Explanation(
                    f"worker {anew[0]} took the place of one that went with its node, at {anew[1]:%H:%M:%S}: it ends "
                    f"itself after {(self.layer.idle_s or 0.0) / 60:.0f} idle minutes of its own",
                    (f"pod {anew[0]} was created at {format_time(anew[1])}",),
                    "leave room for a second idle delay in the deadlines: a node can be lost at any time",
                    (37,),
                    lasting=True,
                )
            if any(map(self._limits, self._objects())):
                return Explanation(
                    "no worker ended by itself, and nothing ended it when its time was over",
                    tuple(f"{pod} runs" for pod in self.stage.scene.gpu_pods()[:5]),
                    "see that what ends it runs (Kueue's controller), and that its limit was there when it was made",
                    (44,),
                    lasting=True,
                )
            return Explanation(
                "no worker ended by itself, although nothing came from its queue",
                tuple(f"{pod} runs" for pod in self.stage.scene.gpu_pods()[:5]),
                "give it an idle limit (MAX_IDLE), see that it polls with a timeout, and that its own polls are not "
                "counted as work",
                (44,),
                lasting=True,
            )
        return None
