"""The executor's image starts but lacks the command it runs: 127 from its shell, or StartError for exec form."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.faults.base import Evidence, Plan
from killcheck.faults.kubernetes.executor import COPY, ExecutorFault, containers, spared, statuses
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.layers.base import LayerRun, Stage

__all__ = ["CommandMissing"]

#: A directory that no image has.
NOWHERE = "/killcheck-no-commands"


class CommandMissing(ExecutorFault):
    """Reproduces row 2: the PATH of the drill's own copy leads nowhere, as after a switch to a slimmer image."""

    name = "command-missing"
    simulates = "the executor's image was replaced by one that lacks the command it runs"
    family = "image"
    failures = (2,)
    on_docker = True
    shows = Evidence.EXECUTOR

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Nothing that exists is changed."""
        return Plan(("the drill's own copy of the Job finds no command on its PATH",), edits=(f"{COPY}.env",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Point PATH of every container of the drill's Job to an empty place."""

        def rewrite(template: Obj) -> None:
            for container in containers(template):
                env = [e for e in container.get("env", []) if e.get("name") != "PATH"]
                container["env"] = [*env, {"name": "PATH", "value": NOWHERE}]

        stage.rewrites.append(rewrite)
        return ["the drill's copy of the Job has an empty PATH"]

    def spares(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Who runs the same image."""
        return spared(stage, layer, self.name)

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """An exit with 127, or a start that failed because the file is not there."""
        for pod, status in statuses(stage):
            ended = dig(status, "state", "terminated") or dig(status, "lastState", "terminated", default={})
            if ended.get("exitCode") == 127 or ended.get("reason") == "StartError":
                return f"{name_of(pod)}: exit code {ended.get('exitCode')} {ended.get('message', '')}".strip()
        return None
