"""A model of Karpenter (v1.14, AWS): pools, launches, consolidation of empty nodes, drains, ends, interruptions.

Its controllers are clients of the API, and of the model cloud for machines. Stop it, and nothing launches, drains or
terminates any more, as when its Deployment is at zero; what it launched goes on running, and billing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Component
from killcheck.embedded.models.cloud import Cloud
from killcheck.embedded.models.karpenter.disruption import Emptiness, Expiration, PodEvents
from killcheck.embedded.models.karpenter.interruption import GarbageCollection, Interruption
from killcheck.embedded.models.karpenter.lifecycle import Lifecycle
from killcheck.embedded.models.karpenter.provisioning import Provisioning, StaticPools
from killcheck.embedded.models.karpenter.readiness import PoolStatus
from killcheck.embedded.models.karpenter.state import State
from killcheck.embedded.models.karpenter.termination import Evictions, Termination

__all__ = ["Karpenter"]


@dataclass(eq=False, repr=False)
class Karpenter(Component):
    """All of Karpenter's controllers, over one model cloud."""

    cloud: Cloud
    parts: list[Component] = field(init=False, default_factory=list)

    name: ClassVar[str] = "karpenter"
    takes: ClassVar[tuple[str, ...]] = ("cloud",)

    def setup(self) -> None:
        """Start every controller, over one shared state."""
        self.state = State(self.kube, self.loop, self.informers, self.cloud, self.cloud.rng)
        common = (self.kube, self.loop, self.informers, self.state)
        evictions = Evictions(*common)
        self.parts = [
            PoolStatus(*common),
            Provisioning(*common),
            StaticPools(*common),
            Lifecycle(*common),
            evictions,
            Termination(*common, evictions),
            PodEvents(*common),
            Emptiness(*common),
            Expiration(*common),
            Interruption(*common),
            GarbageCollection(*common),
        ]
        for part in self.parts:
            part.start()

    def stop(self) -> None:
        """Stop every controller."""
        super().stop()
        for part in self.parts:
            part.stop()
