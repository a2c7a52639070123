"""A dead-man's switch on a Docker Engine: a cron container's command, or a container made anew at each firing."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.kube import resources as r
from killcheck.kube.objects import dig
from killcheck.kube.permissions import Permission
from killcheck.layers.base import Explanation, Hindrance, NotFired
from killcheck.layers.dead_man import DeadMan
from killcheck.safety.undo import retry
from killcheck.spec.killpath import Layer, LayerType

__all__ = ["ContainerCron"]


class ContainerCron(DeadMan):
    """One drill of a container that fires."""

    @staticmethod
    def drills(layer: Layer) -> bool:
        """Whatever a container fires at its time."""
        return layer.container is not None and (layer.cron_job is not None or layer.type is not LayerType.IDLE_MONITOR)

    def permissions(self) -> Sequence[Permission]:
        """A CronJob's, but for quotas: an engine counts nothing."""
        return [one for one in super().permissions() if one.resource != "resourcequotas"]

    def _in_the_way(self) -> NotFired | None:
        """A cron container that is stopped or paused fires nothing, and nobody says so."""
        kube, container = self.stage.cluster.kube, self.layer.container
        self.cron_job = retry(self.stage.cluster.loop, lambda: kube.get(r.CRONJOBS, self.ref.name, self.ref.namespace))
        asleep = dig(self.cron_job, "spec", "suspend") and container is not None
        if not asleep or container is None:
            return None
        why = f"container {container.name} is stopped or paused: what it would run at its time does not run"
        return NotFired(Hindrance.SUSPENDED, why)

    def explain(self, stuck_at: str) -> Explanation | None:
        """The cron container itself is the matter."""
        if stuck_at != "triggered" or not self.not_fired() or self.layer.container is None:
            return None
        return Explanation(
            f"nothing fires: {self.not_fired()}",
            (f"docker ps shows {self.layer.container.name} paused, exited or not at all",),
            "let it restart by itself (--restart always), and let something outside this engine turn the GPUs off too",
            (7, 15),
            lasting=True,
        )
