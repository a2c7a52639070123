"""What can be made of a container - stopped, paused, cut off - and the fault that makes it of some."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct

from killcheck.engine.projection import CONTAINERS, NAMESPACE
from killcheck.faults.base import Fault, FaultError, Plan
from killcheck.faults.docker.parts import changing
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.layers.base import LayerRun, Stage

__all__ = ["CUT_OFF", "PAUSED", "STOPPED", "ContainersFault", "State"]


class State(Struct, frozen=True):
    """``words``: as in 'container x is paused'. ``change``: what of its spec that takes; ``seen``: whether it is so."""

    words: str
    change: Callable[[Obj], Obj]
    seen: Callable[[Obj], bool]


def _no_networks(container: Obj) -> Obj:
    networks = [name for name in dig(container, "spec", "networks", default={}) if name not in ("host", "none")]
    if not networks:
        raise FaultError(f"container {name_of(container)} is on no network that it could be cut off from")
    return {"networks": dict.fromkeys(networks)}


STOPPED = State("is stopped", lambda _: {"replicas": 0}, lambda found: not dig(found, "spec", "replicas"))
PAUSED = State("is paused", lambda _: {"paused": True}, lambda found: bool(dig(found, "spec", "paused")))
CUT_OFF = State("is on no network", _no_networks, lambda found: not dig(found, "spec", "networks"))


class ContainersFault(Fault):
    """Some containers of a Docker Engine are brought into a state."""

    state: ClassVar[State]
    #: What these containers are to a person.
    called: ClassVar[str] = "container"

    @abstractmethod
    def containers(self, stage: Stage, layer: LayerRun) -> list[Obj]:
        """Those that it acts on. Raises FaultError where there is none, or one that may not be touched."""

    @abstractmethod
    def names(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """The names of those that are looked at for the evidence."""

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Those containers, and nothing else of them."""
        found = self.containers(stage, layer)
        return Plan(
            tuple(f"{self.called} {name_of(one)}: {self.simulates}" for one in found),
            permissions=changing(*map(name_of, found)),
            edits=tuple(f"Container {name_of(one)}.spec.{field}" for one in found for field in self.state.change(one)),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Change each."""
        done = []
        for container in self.containers(stage, layer):
            what = f"{self.called} {name_of(container)}: {self.simulates}"
            patch = {"spec": self.state.change(container)}
            stage.journal.merge(CONTAINERS, name_of(container), NAMESPACE, patch, what)
            done.append(what)
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The engine says that it is so of one of them."""
        for name in self.names(stage, layer):
            found = stage.cluster.kube.find(CONTAINERS, name, NAMESPACE)
            if found is not None and self.state.seen(found):
                return f"{self.called} {name} {self.state.words}"
        return None
