"""Somebody opens a queue again that a switch has closed: what waited in it is admitted, and has its GPUs back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

from killcheck.capabilities.offered import Capability
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.kubernetes.executor import ExecutorFault, pod_spec
from killcheck.kube import resources as r
from killcheck.kube.container_logs import given_to
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, ref_of, uid_of
from killcheck.kube.resources import Resource
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.changes import Undo
from killcheck.safety.undo import retry
from killcheck.watch import queues

__all__ = ["QueueReleased"]


class QueueReleased(ExecutorFault):
    """Reproduces rows 32 and 55: a morning's script, or somebody by hand, lifts the hold: Kueue admits what waits."""

    name = "queue-released"
    simulates = "somebody opens the queue again a minute after everything has gone off"
    family = "rivals"
    shows = Evidence.TARGETS
    failures = (32, 55)
    costs = "what waits in the queue starts anew in the middle of the drill"
    #: A ClusterQueue is other people's too: only where it is the drill's own cluster.
    needs = (Capability.CONTROLLERS,)
    manager: ClassVar[str] = "killcheck-starter"
    #: How long after the last GPU pod has gone, in seconds.
    after_s: ClassVar[float] = 60.0

    def __init__(self) -> None:
        self._open: dict[str, tuple[Resource, Obj]] = {}
        self._released: str | None = None

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Only where the switch closes a queue; what its script does elsewhere, a drill that names it reads."""
        return None if "stopPolicy" in str(cron_job) else f"the executor of {layer_name} closes no queue of Kueue's"

    def _queues(self, stage: Stage, layer: LayerRun) -> dict[str, tuple[Resource, Obj]]:
        """Those above the targets that are open."""
        kube, found = stage.cluster.kube, {}
        for target in stage.kill_path.covered_by(layer.layer):
            for obj in stage.scene.objects_of(target) if target.kind else ():
                for resource, queue in queues.queues_of(kube, obj).items():
                    if dig(queue, "spec", "stopPolicy", default="None") in ("", "None"):
                        found[uid_of(queue)] = (resource, queue)
        return found

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The queues that the switch closes. Raises FaultError where it closes none."""
        why = self.unsuited_executor(layer.layer.name, layer.cron_job)
        if why is not None and not self._by_script(stage, layer):
            raise FaultError(f"{self.name}: {why}")
        return Plan(
            (f"what {layer.layer.name} closes: {self.simulates}",),
            edits=("spec.stopPolicy of the targets' queues",),
        )

    @staticmethod
    def _by_script(stage: Stage, layer: LayerRun) -> bool:
        """Whether a ConfigMap that the executor is given speaks of it: its script is there."""
        kube, namespace = stage.cluster.kube, namespace_of(layer.cron_job) or None
        given = (name for resource, name in given_to({"spec": pod_spec(layer)}) if resource is r.CONFIGMAPS)
        return any("stopPolicy" in str(kube.find(r.CONFIGMAPS, name, namespace)) for name in given)

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Remember which are open. Raises FaultError where none is."""
        self._open = self._queues(stage, layer)
        if not self._open:
            raise FaultError(f"{self.name}: no open queue of Kueue's is above the targets of {layer.layer.name}")
        return [f"{self.manager} watches {ref_of(queue)}" for _, queue in self._open.values()]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """It opened one that had been closed."""
        return self._released

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Open them once, a while after everything has gone."""
        gone = stage.timeline.reached.get("pods_gone") if stage.timeline is not None else None
        if self._released or gone is None:
            return None
        left = (gone.observed + timedelta(seconds=self.after_s) - stage.cluster.loop.now()).total_seconds()
        if left > 0:
            return left
        for resource, before in self._open.values():
            self._release(stage, resource, before)
        return None

    def _release(self, stage: Stage, resource: Resource, before: Obj) -> None:
        kube, name, namespace = stage.cluster.kube, name_of(before), namespace_of(before) or None
        now = retry(stage.cluster.loop, lambda: kube.find(resource, name, namespace))
        if now is None or dig(now, "spec", "stopPolicy", default="None") in ("", "None"):
            return
        path, body = resource.path(namespace, name), {"spec": {"stopPolicy": dig(before, "spec", "stopPolicy")}}
        what = f"{self.manager} opened {ref_of(before)}, as it was"
        manual = f'kubectl patch {resource.qualified} {name} --type=merge -p \'{{"spec":{{"stopPolicy":"None"}}}}\''
        undo = Undo("merge", path, {}, uid_of(before), {}, manual)  # what it writes is as it was

        def write() -> None:
            """Open it; what has gone meanwhile is left."""
            headers = {"content-type": "application/merge-patch+json"}
            try:
                kube.call("PATCH", path, query={"fieldManager": self.manager}, body=body, headers=headers)
            except NotFound:
                return

        with stage.journal.change(what, undo):
            retry(stage.cluster.loop, write)
        stage.rival = self.manager
        self._released = self._released or f"{what}, at {stage.cluster.loop.now():%H:%M:%S}"
