"""Whether a layer's own Job has ended and left nothing under way: what it did not do by then it does not do.

A program that orders something elsewhere, or of a scaler, may be answered long after it has ended. So its program must
have been read whole, and to write nothing but the covered targets themselves. Where this errs it must be by saying no.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from killcheck import executor
from killcheck.drill.progress import Progress, declared
from killcheck.executor import Reading
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, condition, dig, namespace_of, uid_of
from killcheck.kube.resources import Resource
from killcheck.layers.base import LayerRun
from killcheck.spec.killpath import Target

__all__ = ["spent"]

#: Programs of which the reading tells every request; what else an image has may do anything.
_READ = frozenset(
    "sh bash ash dash kubectl curl wget python python3 cat echo printf date sleep jq grep cut tr head tail test true "
    "false base64 wc sort seq timeout".split()
)
#: What its Python may import beyond the standard library.
_MODULES = frozenset({"kubernetes", "requests"})


def spent(progress: Progress, run: LayerRun, since: datetime) -> bool:
    """Whether the Job of the drill has ended, its program can have ordered nothing that comes later, nobody has written
    a covered target since the trigger, and the layer's own schedule rests from ``since`` until the last deadline.
    """
    job, covered = run.stage.observations.job, progress.targets
    if job is None or not run.cron_job or not all(target.object for target in covered):
        return False
    chance = run.next_chance(since)
    rests = chance is None or chance > progress.timeline.start + timedelta(seconds=progress.last_s())
    return rests and _ended(job) and _writes_targets_alone(progress, job) and _unwritten(progress)


def _ended(job: Obj) -> bool:
    """By the Job's own word, which comes after its pods have ended."""
    return any((condition(job, kind) or {}).get("status") == "True" for kind in ("Complete", "Failed"))


def _writes_targets_alone(progress: Progress, job: Obj) -> bool:
    template = dig(job, "spec", "template", "spec", default={})
    reading = executor.read(template, namespace_of(job))
    own = [(progress.scene.resource_of(target), target) for target in progress.targets]
    return (
        _whole(reading)
        and "/dev/tcp" not in str(template)
        and all(any(_is_of(call, resource, target) for resource, target in own) for call in reading.writes)
    )


def _whole(reading: Reading) -> bool:
    unknown: Collection[str] = {*reading.tools} - _READ or {*reading.modules} - _MODULES
    return not (reading.not_understood or reading.outside or unknown) and bool(reading.calls)


def _is_of(call: executor.ApiCall, resource: Resource, target: Target) -> bool:
    asked = (call.group, call.resource, call.namespace, call.name)
    return call.named and asked == (resource.group, resource.plural, target.namespace, target.object)


def _unwritten(progress: Progress) -> bool:
    """By a read that comes after the Job's end: what the program wrote before it ended is in it."""
    kube, scene = progress.scene.cluster.kube, progress.scene
    try:
        found = [kube.find(scene.resource_of(t), t.object, t.namespace) for t in progress.targets]
    except KubeError:
        return False
    return all(obj is not None and declared(obj) == progress.before.get(uid_of(obj)) for obj in found)
