"""Whether more watching could still change a verdict: on somebody's cluster a drill ends as soon as it could not.

Every minute that is watched there bills, and keeps a matrix from its next cell. On a virtual clock watching is free.
What may *not* live here: verdicts. Where this errs it must be by watching for too long.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from killcheck.drill import spent
from killcheck.drill.attribution import Bystanders
from killcheck.drill.progress import Progress
from killcheck.faults.base import Fault
from killcheck.kube import machineless
from killcheck.kube.objects import dig
from killcheck.layers.base import LayerRun
from killcheck.spec.killpath import Proof
from killcheck.spec.phases import words_of

__all__ = ["decided"]

#: How long a firing may take until its CronJob says that it is under way.
FIRED_S = timedelta(minutes=1)
#: What shows that a target is on its way to zero.
_GOING = frozenset({"scale_written", "pods_terminating", "pods_gone", "instance_gone"})


def decided(
    progress: Progress,
    run: LayerRun,
    bystanders: Bystanders,
    faults: Sequence[Fault],
    *,
    bitten: Collection[str],
    began: datetime,
) -> str | None:
    """Why nothing that is still to come changes the verdict, a sentence; None: something could.

    ``bitten``: the names of the faults that were seen to bite. One that was not yet may bite still. ``began``: when
    the drill did.
    """
    if progress.scene.broken():
        return None
    if Proof.P5 in progress.kill_path.proof or progress.kill_path.alarm:  # an alarm about what stays on may come late
        return None
    now = progress.scene.cluster.loop.now()
    not_run = _not_run(run)
    if not_run is not None and _alone(progress, bystanders, began - FIRED_S):  # whatever bites meets nothing
        return not_run
    if any(fault.name not in bitten for fault in faults):
        return None
    late = progress.late(now)
    if late is not None:
        return f"the deadline of '{words_of(late)}' has passed"
    going, since = _GOING & set(progress.timeline.reached), began - FIRED_S
    if not going and _barred(run, faults, since, now) and _alone(progress, bystanders, since):
        return "while the fault stands the layer cannot begin, and no other layer acts in time"
    if not going and spent.spent(progress, run, since) and _alone(progress, bystanders, since):
        return "its Job has ended and written nothing to the targets, and nothing else acts in time"
    return None


def _not_run(run: LayerRun) -> str | None:
    """Why the program of a pod of the layer's own run is not run where it was to be; None: nobody says so."""
    said = (machineless.why_not_run(pod) for pod in run.stage.observations.pods.values())
    return next((f"what the layer does is not seen here: {why}" for why in said if why is not None), None)


def _barred(run: LayerRun, faults: Sequence[Fault], since: datetime, now: datetime) -> bool:
    """Whether nothing of the layer's own run has begun, and a fault that bit lets nothing of it begin.

    A firing of the schedule's own that no fault held up may be under way still; the next one is held up.
    """
    pods = run.stage.observations.pods.values()
    groups = ("initContainerStatuses", "containerStatuses")
    begun = any(
        dig(one, "state", "running") or dig(one, "state", "terminated") or one.get("lastState")
        for pod in pods
        for group in groups
        for one in dig(pod, "status", group, default=[])
    )
    chance = run.next_chance(since)
    return not begun and not _active(run) and (chance is None or chance > now) and any(fault.bars for fault in faults)


def _alone(progress: Progress, bystanders: Bystanders, since: datetime) -> bool:
    """Whether every other layer of the targets is seen to rest, from before the drill until the last deadline."""
    until = progress.timeline.start + timedelta(seconds=progress.last_s())
    chances = [(run, run.next_chance(since)) for run in bystanders.runs.values() if run.acts_unasked]
    return not bystanders.blind and all(
        chance is not None and chance > until and not _active(run) for run, chance in chances
    )


def _active(run: LayerRun) -> bool:
    """Whether Jobs of its CronJob were under way when it was read."""
    return bool(dig(run.cron_job, "status", "active", default=[]))
