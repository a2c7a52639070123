"""Schedules that do not fire."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.world import Executor, World

from killcheck.executor.arming import armed_by
from killcheck.kube.objects import Obj, dig, labels_of, ref_of
from killcheck.kube.plurals import plural_of
from killcheck.spec.killpath import Layer

__all__ = ["Suspended"]


class Suspended(Probe):
    """suspend: true raises no event and no warning; the switch simply never fires again."""

    id = "suspended"
    claim = "No layer's CronJob is suspended."
    remedy = "Set suspend: false. Beware: the latest slot that was missed may fire at once."
    failures = (7,)
    sources = ("kubernetes pkg/controller/cronjob/cronjob_controllerv2.go", "recording 18")

    def ask(self, world: World) -> Iterable[Finding]:
        """The layers' CronJobs."""
        for layer, obj in world.schedules:
            if dig(obj, "spec", "suspend") is True:
                beside = self._beside(world, layer)
                arming = armed_by(obj, world.of("CronJob"))
                yield self.finding(
                    world,
                    obj,
                    ("spec", "suspend"),
                    "is suspended: it never fires, and says nothing"
                    + (f" ({beside} turns off what it would)" if beside else "")
                    + (f", unless {ref_of(arming)} has let it go in time" if arming else ""),
                    severity="note" if beside or arming else None,
                    patch=merge_patch(obj, {"spec": {"suspend": False}}),
                )
            elif dig(obj, "spec", "jobTemplate", "spec", "suspend") is True and not _queued(obj):
                yield self.finding(
                    world,
                    obj,
                    ("spec", "jobTemplate", "spec", "suspend"),
                    "every Job that it makes is suspended: none ever has a pod, and nothing says so",
                    remedy="Take suspend out of the jobTemplate.",
                )
        for other in world.fired_elsewhere:
            if dig(other.obj, "spec", "suspend") is True:
                yield self.finding(
                    world,
                    other.obj,
                    ("spec", "suspend"),
                    f"is suspended: it never fires ({', '.join(other.targets)} would go off by it)",
                    patch=merge_patch(other.obj, {"spec": {"suspend": False}}),
                )
        yield from self._left_out(world)

    def _left_out(self, world: World) -> Iterable[Finding]:
        """Suspended programs that are no layers, because another one turns off what they would."""
        for one in world.executors:
            stopped = _stopped(world, one) if one.layer is None and dig(one.owner, "spec", "suspend") is True else set()
            beside = [layer.name for layer in world.kill_path.layers if stopped and stopped <= set(layer.covers)]
            if beside:
                message = f"is suspended: it never fires ({beside[0]} turns off what it would)"
                yield self.finding(world, one.owner, ("spec", "suspend"), message, severity="note")

    @staticmethod
    def _beside(world: World, layer: Layer) -> str | None:
        """A schedule that lives and covers all that the suspended one does; empty: there is none."""
        for other, obj in world.schedules:
            living = other.name != layer.name and dig(obj, "spec", "suspend") is not True
            if living and other.type is layer.type and set(layer.covers) <= set(other.covers):
                return other.name
        return None


def _queued(obj: Obj) -> bool:
    """Whether Kueue lets its Jobs go when their turn has come."""
    found = dig(obj, "spec", "jobTemplate", "metadata", "labels", default={})
    return any(key.startswith("kueue.x-k8s.io/") for key in found)


def _stopped(world: World, one: Executor) -> set[str]:
    """The targets that it would turn off, as read."""
    return {
        target.name
        for target, obj in world.targets
        for call in one.reading.writes
        if call.resource == plural_of(target.kind)
        and not call.replicas
        and call.about(target.namespace, target.object, labels_of(obj))
    }
