"""What the layer runs in - its cron container - is stopped, paused, or cut off from its networks."""

from __future__ import annotations

from killcheck.executor.refusals import UNREACHED, UNRESOLVED
from killcheck.faults.base import Evidence
from killcheck.faults.docker.parts import EngineFault, consenting
from killcheck.faults.docker.states import CUT_OFF, PAUSED, STOPPED, ContainersFault
from killcheck.faults.kubernetes.executor import log_line
from killcheck.kube.objects import Obj
from killcheck.layers.base import Hindrance, LayerRun, Stage
from killcheck.spec.killpath import Layer

__all__ = ["ContainerDisconnected", "ContainerPaused", "ContainerStopped"]


class _CronContainerFault(ContainersFault, EngineFault):
    """A change of the container that the layer's command runs in."""

    def unsuited_layer(self, layer: Layer) -> str | None:
        """A container that is made anew at each firing is none that could be stopped before."""
        if layer.container is not None and not layer.container.argv:
            return "each firing makes a container anew: none is there that could be disturbed before it"
        return super().unsuited_layer(layer)

    def containers(self, stage: Stage, layer: LayerRun) -> list[Obj]:
        """That one."""
        assert layer.layer.container is not None
        return [consenting(stage, layer.layer.container.name)]


class _DoesNotFire(_CronContainerFault):
    """What does not run fires nothing."""

    shows = Evidence.TRIGGER

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The trigger met a container that is stopped or paused."""
        held = layer.not_fired()
        return held.why if held is not None and held.reason is Hindrance.SUSPENDED else None


class ContainerStopped(_DoesNotFire):
    """Reproduces row 15 on a Docker host: nobody restarted what fires."""

    name = "container-stopped"
    simulates = "the layer's cron container is stopped"
    family = "orchestrator"
    failures = (15,)
    state = staticmethod(STOPPED)


class ContainerPaused(_DoesNotFire):
    """Reproduces row 7 on a Docker host: it is there, it looks up, and it does nothing."""

    name = "container-paused"
    simulates = "the layer's cron container is paused"
    family = "schedule"
    failures = (7,)
    state = staticmethod(PAUSED)


class ContainerDisconnected(_CronContainerFault):
    """Reproduces row 23 on a Docker host: the executor runs, and reaches nothing.

    An engine's socket is no network: a layer that needs nothing else does not notice, and nothing is proven.
    """

    name = "container-disconnected"
    simulates = "the layer's cron container is cut off from its networks"
    family = "network"
    failures = (23,)
    shows = Evidence.EXECUTOR
    state = staticmethod(CUT_OFF)

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """This executor said that it could not get through."""
        return log_line(stage, f"{UNREACHED}|{UNRESOLVED}")
