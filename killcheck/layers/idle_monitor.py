"""The idle monitor: a scheduled Job that turns off what has been idle for long enough, and nothing else.

Both halves are drilled. First its Job is made while the targets are busy still (they have not been on for as long as
it must wait): they must stay on. Then, when they have been idle for that long, the drill is a dead-man's.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from killcheck.kube import resources as r
from killcheck.kube.objects import condition, copy, dig, name_of, parse_time
from killcheck.layers.base import Explanation, LayerError, Stage
from killcheck.layers.dead_man import DeadMan
from killcheck.layers.manual_job import job_from
from killcheck.spec.killpath import Layer, LayerType

__all__ = ["IdleMonitor"]

#: How long its Job may take to look around, in seconds.
LOOK_S = 300.0
#: A target that is busy for less than this still, in seconds, is no busy target to look at.
SHORTEST_LOOK_S = 30.0
#: How often at most what it is to find idle may be replaced while that is waited for.
RENEWALS = 5
#: A monitor that compares with ``>`` acts this much after the limit, in seconds.
BEYOND_S = 2.0


#: Taints of nodes that an autoscaler, a spot handler or the node lifecycle controller lets go.
LEAVING = (
    "karpenter.sh/disrupted",
    "ToBeDeletedByClusterAutoscaler",
    "aws-node-termination-handler/spot-itn",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/out-of-service",
)


class IdleMonitor(DeadMan):
    """One drill of an idle monitor that is a CronJob."""

    remedy = "let it measure what the target does (requests, items, device use), and act only after the whole delay"

    @staticmethod
    def drills(layer: Layer) -> bool:
        """An idle monitor that is a CronJob."""
        return layer.type is LayerType.IDLE_MONITOR and layer.cron_job is not None and layer.container is None

    def __init__(self, layer: Layer, stage: Stage) -> None:
        if layer.cron_job is None:
            raise LayerError(f"layer {layer.name}: an idle monitor is drilled by its cronJob; this one has none")
        super().__init__(layer, stage)
        self._flaw: str | None = None
        self._unproven: str | None = None
        #: Why its look at busy targets was not seen to its end; empty: it was, or there was none.
        self._unseen = ""
        self._untried: str | None = None
        #: When the spec's own request was made of the target.
        self._used_at: datetime | None = None

    def unproven(self) -> str | None:
        """Its target could not be made busy; or it works, and whether it leaves busy targets on was not seen."""
        return self._unproven or (self._unseen if self._finished else None)

    def idles_s(self) -> float:
        """As long as the drill itself let its targets idle."""
        return (self.layer.idle_s or 0.0) + BEYOND_S

    def untried(self) -> str | None:
        """That nobody saw it leave a busy target on: none was busy."""
        return self._untried

    def before_trigger(self) -> str | None:
        """Look at it with busy targets, then let them idle; returns what was seen."""
        idle_s = self.layer.idle_s or 0.0
        seen = ""
        if self.layer.busy is not None:
            asked = self.stage.programs.run(self.layer.busy)
            if not asked.ok:
                self._unproven = f"the target could not be made busy: {asked.told}"
                return self._unproven
            self._used_at = asked.ended
        left_s = (self._youngest() + timedelta(seconds=idle_s) - self._now()).total_seconds()
        if left_s > SHORTEST_LOOK_S:
            seen = self._look_at_busy(min(LOOK_S, left_s - SHORTEST_LOOK_S / 2))
        else:
            self._untried = seen = (
                "whether it leaves busy targets on was not tried: the targets have been on for about as long as it "
                "waits, and the spec gives no busy command that makes a request"
            )
        if self._flaw:
            return seen
        self._let_idle(idle_s + BEYOND_S)
        return "; ".join(part for part in (seen, f"the targets have been idle for {idle_s / 60:.0f} min") if part)

    def _let_idle(self, idle_s: float) -> None:
        """Wait until the targets have been idle for as long; what comes in place of one that went idles anew."""
        for _ in range(RENEWALS):
            wait = (self._youngest() + timedelta(seconds=idle_s) - self._now()).total_seconds()
            if wait <= 0:
                return
            self.stage.wait("the targets to have been idle for long enough", lambda: False, wait)

    def _youngest(self) -> datetime:
        scene = self.stage.scene
        pods = [scene.pods.get(p.name, p.namespace) for p in scene.gpu_pods() if not p.terminating]
        made = [parse_time(p["metadata"]["creationTimestamp"]) for p in pods if p]
        return max([*made, *([self._used_at] if self._used_at else [])], default=self._now())

    def explain(self, stuck_at: str) -> Explanation | None:
        """It looked, and what it looked at had not been idle for long enough."""
        done = condition(self.stage.observations.job or {}, "Complete")
        looked = [begun for begun, _ in self._finished]
        left = [pod for pod in self.stage.scene.gpu_pods() if not pod.terminating]
        if done and looked and left and stuck_at == "scale_written":
            idle = (max(looked) - self._youngest()).total_seconds()
            if idle < (self.layer.idle_s or 0.0):
                return Explanation(
                    f"{self.layer.name} looked and left its targets on: they were not idle for "
                    f"{(self.layer.idle_s or 0.0) / 60:.0f} min yet, but for {max(0.0, idle) / 60:.0f}",
                    tuple(map(str, left[:5])),
                    "see what starts its targets anew, or makes requests of them",
                    (40,),
                    lasting=True,
                )
        return super().explain(stuck_at)

    def _look_at_busy(self, within_s: float) -> str:
        scene, loop = self.stage.scene, self.stage.cluster.loop
        before = scene.gpu_pods()
        job = job_from(copy(self.cron_job), f"{self.job_name[:58]}-busy", self.stage.run)
        created = self.stage.journal.create(r.JOBS, job)
        name, namespace = name_of(created), self.ref.namespace

        def over() -> bool:
            seen = scene.jobs.get(name, namespace) or {}
            return any(
                (found := condition(seen, kind)) is not None and found.get("status") == "True"
                for kind in ("Complete", "Failed")
            )

        ended = loop.run_until(over, within_s)
        left = {p.uid for p in scene.gpu_pods() if not p.terminating}
        off = [str(t) for t in self.stage.kill_path.covered_by(self.layer) if t.kind and not scene.replicas(t)]
        gone = [p for p in before if p.uid not in left and not self._leaves(p.node)]
        if off or gone:
            self._flaw = (
                f"{self.layer.name} acts on a busy target: {', '.join(off) or 'a GPU pod'} was turned off "
                f"before it had been idle for {(self.layer.idle_s or 0) / 60:.0f} min"
            )
            return self._flaw
        if not ended:
            self._unseen = (
                f"whether {self.layer.name} leaves busy targets on was not seen: Job {name} was not over "
                f"{within_s:.0f} s after it was made"
            )
            return self._unseen
        failed = dig(scene.jobs.get(name, namespace) or {}, "status", "failed", default=0)
        return "it looked at busy targets and failed" if failed else "it looked at busy targets and left them on"

    def _leaves(self, node: str) -> bool:
        """Whether a node goes, or is let go, with what is on it: that is nobody's doing who looks for idle pods."""
        found = self.stage.scene.nodes.get(node)
        if found is None or "deletionTimestamp" in found["metadata"] or dig(found, "spec", "unschedulable"):
            return True
        return any(taint.get("key") in LEAVING for taint in dig(found, "spec", "taints", default=[]))

    def flaw(self) -> str | None:
        """It turned a busy target off."""
        return self._flaw
