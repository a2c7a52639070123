"""What the layer runs in - its cron container - is stopped, paused, or cut off from its networks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from killcheck.engine.projection import CONTAINERS, NAMESPACE
from killcheck.faults.base import FaultError, Plan
from killcheck.faults.docker_parts import EngineFault, changing, consenting
from killcheck.killpath import Layer
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.layers.base import LayerRun, Stage

__all__ = ["ContainerDisconnected", "ContainerPaused", "ContainerStopped"]


class _ContainerFault(EngineFault):
    """A change of the container that the layer's command runs in."""

    def applies(self, layer: Layer) -> str:
        """A container that is made anew at each firing is none that could be stopped before."""
        if layer.container is not None and not layer.container.argv:
            return "each firing makes a container anew: none is there that could be disturbed before it"
        return super().applies(layer)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """That one container."""
        found = consenting(stage, self._name(layer))
        patch = self.change(found)
        return Plan((f"container {name_of(found)}: {self.simulates}",), permissions=changing(name_of(found)),
                    edits=tuple(f"Container {name_of(found)}.spec.{field}" for field in patch))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Change it."""
        name = self._name(layer)
        what = f"container {name}: {self.simulates}"
        patch = self.change(consenting(stage, name))
        stage.journal.merge(CONTAINERS, name, NAMESPACE, {"spec": patch}, what)
        return [what]

    def bitten(self, stage: Stage, layer: LayerRun) -> str:
        """The engine says that it is so."""
        found = stage.cluster.kube.find(CONTAINERS, self._name(layer), NAMESPACE)
        return self.seen(found) if found is not None else ""

    @abstractmethod
    def change(self, container: Obj) -> Obj:
        """What of the container's spec changes."""

    @abstractmethod
    def seen(self, container: Obj) -> str:
        """The evidence in what the engine says of it."""

    @staticmethod
    def _name(layer: LayerRun) -> str:
        assert layer.layer.container is not None
        return layer.layer.container.name


class ContainerStopped(_ContainerFault):
    """Reproduces row 15 on a Docker host: nobody restarted what fires."""

    name = "container-stopped"
    simulates = "the layer's cron container is stopped"
    family = "orchestrator"
    failures = (15,)

    def change(self, container: Obj) -> Obj:
        """Off."""
        return {"replicas": 0}

    def seen(self, container: Obj) -> str:
        """It is off."""
        return "" if dig(container, "spec", "replicas") else f"container {name_of(container)} is stopped"


class ContainerPaused(_ContainerFault):
    """Reproduces row 7 on a Docker host: it is there, it looks up, and it does nothing."""

    name = "container-paused"
    simulates = "the layer's cron container is paused"
    family = "schedule"
    failures = (7,)

    def change(self, container: Obj) -> Obj:
        """Paused."""
        return {"paused": True}

    def seen(self, container: Obj) -> str:
        """It is paused."""
        return f"container {name_of(container)} is paused" if dig(container, "spec", "paused") else ""


class ContainerDisconnected(_ContainerFault):
    """Reproduces row 23 on a Docker host: the executor runs, and reaches nothing."""

    name = "container-disconnected"
    simulates = "the layer's cron container is cut off from its networks"
    family = "network"
    failures = (23,)

    def change(self, container: Obj) -> Obj:
        """On no network."""
        networks = [name for name in dig(container, "spec", "networks", default={}) if name not in ("host", "none")]
        if not networks:
            raise FaultError(f"container {name_of(container)} is on no network that it could be cut off from")
        return {"networks": dict.fromkeys(networks)}

    def seen(self, container: Obj) -> str:
        """It is on none."""
        networks = dig(container, "spec", "networks", default={})
        return "" if networks else f"container {name_of(container)} is on no network"
