"""A model of Kueue (main of August 2026, served as v1beta1 and v1beta2): queues, quotas, Jobs and pods under them.

Idle until there is a ClusterQueue. Stop it, and what runs goes on running, nothing is admitted or evicted any more,
and its webhooks, which fail closed, refuse every new Job, pod and Deployment outside kube-system.

AdmissionChecks are asked, and nobody answers for their controllers: a queue with one is inactive until somebody says in
its status that it is active, and what it admits waits until somebody says Ready.

Left out: topology, partial admission, fair sharing, MultiKueue, job kinds other than Job (what they leave open is said
in :mod:`killcheck.embedded.models.kueue.unmanaged`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from killcheck.embedded.controllers.runtime import Component
from killcheck.embedded.models.kueue import unmanaged
from killcheck.embedded.models.kueue.jobs import Jobs
from killcheck.embedded.models.kueue.podgroups import PodGroups
from killcheck.embedded.models.kueue.pods import Pods
from killcheck.embedded.models.kueue.queues import Queues
from killcheck.embedded.models.kueue.shelf import Part, Shelf
from killcheck.embedded.models.kueue.webhook import Webhook
from killcheck.embedded.models.kueue.workloads import Workloads
from killcheck.entries import Doubt

__all__ = ["Kueue"]


@dataclass(eq=False, repr=False)
class Kueue(Component):
    """All of kueue-controller-manager. ``admission`` is the API server's chain, which calls its webhooks."""

    admission: Any

    name: ClassVar[str] = "kueue"
    takes: ClassVar[tuple[str, ...]] = ("admission",)

    def setup(self) -> None:
        """Start every controller, over one shelf."""
        shelf = Shelf(self.kube, self.informers)
        self.webhook = Webhook(shelf)
        self.admission.modelled[self.name] = self.webhook
        common = (self.kube, self.loop, self.informers, shelf)
        self.parts: list[Part] = [Queues(*common), Workloads(*common), Jobs(*common), Pods(*common), PodGroups(*common)]
        for part in self.parts:
            part.start()

    def doubts(self) -> list[Doubt]:
        """What becomes of jobs that nobody here manages."""
        return list(unmanaged.doubts(self.kube))

    def stop(self) -> None:
        """Stop every controller; the webhooks stay configured, and nobody answers."""
        super().stop()
        self.webhook.up = False
        for part in self.parts:
            part.stop()
