"""What places to drill on have in common where everything is real: nothing is assumed, modelled or left unrun."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from killcheck.capabilities.cluster import Keeper, OwnConsent
from killcheck.capabilities.inventory import Inventory
from killcheck.capabilities.offered import Capabilities
from killcheck.cluster.inventory import listed
from killcheck.entries import Doubt
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj

__all__ = ["RealCluster", "RealPlace"]


class RealPlace:
    """A place where what is lost when something goes wrong is somebody's; each says for itself what differs."""

    real = True
    sandbox = ""
    kubernetes = ""
    own_consent: OwnConsent | None = None
    keeper: Keeper | None = None
    capabilities = Capabilities()

    def hurry(self) -> None:
        """Nothing here keeps anybody waiting."""

    def assumptions(self) -> Sequence[str]:
        """None: what is here is real."""
        return ()

    def unknowns(self) -> Sequence[str]:
        """None."""
        return ()

    def doubts(self) -> Sequence[Doubt]:
        """None: there are no models."""
        return ()

    def limits(
        self,
        since: datetime,
        until: int | None = None,
        pods: Collection[str] | None = None,
    ) -> Sequence[str]:
        """None: what answers here is real."""
        return ()

    def author(self, version: int) -> str | None:
        """Nobody here knows: an audit log is its administrators'."""
        return None

    def inventory(self) -> Inventory:
        """Nothing: there is no Kubernetes here whose objects could be listed."""
        return Inventory()

    def models(self) -> frozenset[str]:
        """None: what is here is real."""
        return frozenset()

    def not_run(self) -> Sequence[tuple[Obj, str]]:
        """None: what is here runs."""
        return ()


class RealCluster(RealPlace):
    """A place that has a Kubernetes API."""

    kube: Kube
    _inventory: Inventory | None = None

    def inventory(self) -> Inventory:
        """What runs here and may turn targets on, listed once for all drills of a run."""
        if self._inventory is None:
            self._inventory = listed(self.kube)
        return self._inventory
