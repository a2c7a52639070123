"""What can be made of a container - stopped, paused, cut off - and the fault that makes it of some.

That the engine says so is no evidence of a bite: each fault says who has to meet it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from killcheck.engine.projection import CONTAINERS, NAMESPACE
from killcheck.faults.base import Fault, FaultError, Plan
from killcheck.faults.docker.parts import changing
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.layers.base import LayerRun, Stage

__all__ = ["CUT_OFF", "PAUSED", "STOPPED", "ContainersFault", "State"]


#: What of a container's spec brings it into a state. Raises FaultError where that cannot be.
State = Callable[[Obj], Obj]


def _no_networks(container: Obj) -> Obj:
    networks = [name for name in dig(container, "spec", "networks", default={}) if name not in ("host", "none")]
    if not networks:
        raise FaultError(f"container {name_of(container)} is on no network that it could be cut off from")
    return {"networks": dict.fromkeys(networks)}


def _off(_container: Obj) -> Obj:
    return {"replicas": 0}


def _frozen(_container: Obj) -> Obj:
    return {"paused": True}


STOPPED, PAUSED, CUT_OFF = _off, _frozen, _no_networks


class ContainersFault(Fault):
    """Some containers of a Docker Engine are brought into a state."""

    @staticmethod
    @abstractmethod
    def state(container: Obj, /) -> Obj:
        """What of a container's spec is changed: a :data:`State`."""

    #: What these containers are to a person.
    called: ClassVar[str] = "container"

    @abstractmethod
    def containers(self, stage: Stage, layer: LayerRun) -> list[Obj]:
        """Those that it acts on. Raises FaultError where there is none, or one that may not be touched."""

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Those containers, and nothing else of them."""
        found = self.containers(stage, layer)
        return Plan(
            tuple(f"{self.called} {name_of(one)}: {self.simulates}" for one in found),
            permissions=changing(*map(name_of, found)),
            edits=tuple(f"Container {name_of(one)}.spec.{field}" for one in found for field in self.state(one)),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Change each."""
        done = []
        for container in self.containers(stage, layer):
            what = f"{self.called} {name_of(container)}: {self.simulates}"
            patch = {"spec": self.state(container)}
            stage.journal.merge(CONTAINERS, name_of(container), NAMESPACE, patch, what)
            done.append(what)
        return done
