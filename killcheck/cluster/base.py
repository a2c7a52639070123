"""What places to drill on have in common where everything is real: nothing is assumed, modelled or left unrun."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime

from killcheck.capabilities.cluster import Keeper, OwnConsent
from killcheck.capabilities.inventory import Inventory
from killcheck.capabilities.offered import Capabilities
from killcheck.capabilities.ran import Ran
from killcheck.cluster.inventory import listed
from killcheck.entries import Assumption, Doubt
from killcheck.kube import machineless
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.machineless import StoodIn
from killcheck.kube.objects import Obj, labels_of, ref_of
from killcheck.safety.changes import LABEL

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

    def assumptions(self) -> Sequence[Assumption]:
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

    def ran(self) -> Sequence[Ran]:
        """None that is told one by one: everything does."""
        return ()

    def pulls(self) -> bool:
        """Nothing is taken to exist."""
        return True

    def stood_in(self) -> Sequence[StoodIn]:
        """None: what is here runs."""
        return ()

    def asked(self) -> int:
        """None: it answers elsewhere."""
        return 0


class RealCluster(RealPlace):
    """A place that has a Kubernetes API."""

    kube: Kube
    _inventory: Inventory | None = None
    #: What was last seen: nodes without a machine, and the pods there whose programs did not run.
    _machineless: Sequence[str] = ()
    _stood_in: Sequence[StoodIn] = ()

    def inventory(self) -> Inventory:
        """What runs here and may turn targets on, listed once for all drills of a run."""
        if self._inventory is None:
            self._inventory = listed(self.kube)
        return self._inventory

    def unknowns(self) -> Sequence[str]:
        """Pods of killcheck's own that a node without a machine was to run, and could not."""
        return [f"{ref_of({'kind': 'Pod'} | pod)}: {why}" for pod, why in self.not_run() if LABEL in labels_of(pod)]

    def not_run(self) -> Sequence[tuple[Obj, str]]:
        """Pods that a node without a machine was to run, and could not, and why: as it is, or was last seen."""
        with suppress(KubeError):
            self.stood_in()
        return [(one.pod, one.not_run) for one in self._stood_in if one.not_run is not None]

    def stood_in(self) -> Sequence[StoodIn]:
        """Pods on nodes without a machine, whose programs did not run. Raises KubeError."""
        self._machineless = machineless.names(self.kube)
        self._stood_in = machineless.stood_in(self.kube, self._machineless)
        return self._stood_in

    def pulls(self) -> bool:
        """Not where nodes, as they were last seen, have no machine."""
        return not self._machineless

    def assumptions(self) -> Sequence[Assumption]:
        """That nodes without a machine, as they were last seen, are like others."""
        names = self._machineless
        more = f", and {len(names) - 1} more" if len(names) > 1 else ""
        said = "pods run as models there, their images are taken to exist, and that billing stops was not seen"
        told = (f"there is no machine behind Node/{name}{more}: {said}" for name in names[:1])
        return [Assumption(text, f"Node/{names[0]}") for text in told]
