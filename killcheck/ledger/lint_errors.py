"""What lint calls an error about an object of a drill, set against what the drill saw of it.

An error about the executor's own run is disproved by a drill in which it ran and the GPUs went off; one about nodes,
where their going was part of the proof. That a start which the spec declares runs until a later stop is what was meant.
Any other is not answered by one night, and stands; so does one about what an embedded cluster has no measure of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from killcheck.capabilities.inventory import Inventory
from killcheck.entries import Entry, Status
from killcheck.kube.objects import Obj, ref_of
from killcheck.ledger import workloads
from killcheck.ledger.stakes import Stakes
from killcheck.spec.killpath import KillPath, Proof
from killcheck.watch import starts

if TYPE_CHECKING:
    from killcheck.probes import Finding

__all__ = ["entries"]

#: Probes whose claim is that an executor does its work, or shows that it did not: the drill ran it, and it did.
_RAN = frozenset(
    {
        "false-green",
        "image-missing",
        "image-quota",
        "image-unpinned",
        "image-unusable",
        "rbac-missing",
        "rbac-excess",
        "command-missing",
        "config-missing",
        "egress-blocked",
        "pod-refused",
        "unschedulable",
        "pull-trap",
        "no-such-object",
        "spec-mismatch",
        "human-credentials",
        "dead-token",
        "forbid-hung-job",
        "no-retry",
        "tight-deadline",
        "slow-stop",
        "stale-success",
        "certificate-expiry",
        "webhook-down",
        "shared-fate",
        "open-fence",
        "not-understood",
        "no-alarm",
        "no-owner",
        "keda-trigger",
        "own-node",
        "manifest-refused",
        "suspended",
        "schedule-trap",
        "queue-not-drained",
        "exit-restarts",
        "drain-flags",
    }
)
#: Probes whose claim is that something stays off which ought to wake.
_ASLEEP = frozenset({"unanswered"})
#: Probes whose claim is that an image can be pulled, which only a real cluster does.
_PULLED = frozenset({"image-gone"})
#: Probes whose claim is that nodes drain and go: disproved where they were seen to.
_DRAINED = frozenset(
    {
        "pdb-blocks-drain",
        "do-not-disrupt",
        "no-consolidation",
        "unbounded-drain",
        "autoscaler-holds",
        "gpu-node-guest",
        "volume-holds-node",
        "pool-floor",
        "ghost-gpu",
        "autoscaler-dead",
        "spot-queue",
        "node-object-deleted",
        "force-delete",
    }
)
_SETTLES = (
    "mend what lint found (killcheck lint), suppress it there with a reason and a date, or say under assume: "
    "why it is none here"
)


def entries(inventory: Inventory, stakes: Stakes, *, pulled: bool = True) -> Iterator[Entry]:
    """One for each error about a target, the layer's executor, a scaler of a target or a node pool of the path.

    ``pulled``: on a real cluster, whether images came from registries.
    Of what else may turn a target on (a second starter), those count that do not say that it fails.
    """
    about = _about(stakes)
    by_ref = {ref_of(obj): obj for obj in inventory.objects if obj.get("kind") in workloads.KINDS}
    for found in _errors(inventory, stakes.kill_path):
        if found.object in about or _starts(found, by_ref.get(found.object), stakes):
            live = inventory.live and (pulled or found.probe not in _PULLED)
            yield _entry(found, stakes, live=live, meant=_meant(found, by_ref.get(found.object), stakes))


def _starts(found: Finding, obj: Obj | None, stakes: Stakes) -> bool:
    """Whether an error is about what may turn a target on, and is not that it fails."""
    return obj is not None and found.probe not in _RAN | _PULLED | _DRAINED and bool(workloads.power_of(obj, stakes))


def _meant(found: Finding, obj: Obj | None, stakes: Stakes) -> bool:
    """Whether an error is about a start that the spec declares and that a layer's schedule stops later."""
    start = starts.of_cron_job(obj) if obj and obj.get("kind") == "CronJob" else None
    if start is None or found.probe != "second-starter":
        return False
    path, covered = stakes.kill_path, set(stakes.layer.covers)
    stopped = any(layer.cron_job and covered <= set(layer.covers) for layer in path.layers)
    return stopped and starts.declared(path, start)


def _entry(found: Finding, stakes: Stakes, *, live: bool, meant: bool) -> Entry:
    said = f"lint says {found.probe}: {found.message}"
    seen = "the drill saw it turn the GPUs off all the same" if found.probe in _RAN else ""
    if found.probe in _DRAINED and Proof.P2 in stakes.kill_path.proof:
        seen = "the drill saw the nodes go all the same"
    if found.probe in _ASLEEP:
        seen = "it keeps nothing on"
    if found.unmeasured:
        seen = ""
    if meant:
        seen = "the spec declares this start"
    if live:
        seen = seen or "the drill saw the GPUs go and stay off on this cluster, for as long as it watched"
    if seen:
        return Entry(found.object, Status.MODELLED if meant else Status.EXECUTED, f"{said}; {seen}", told=True)
    why = "nothing was pulled here" if found.probe in _PULLED else "one night without it does not disprove that"
    why = found.unmeasured or why
    return Entry(found.object, Status.NOT_MODELLED, f"{said}; {why}", _SETTLES)


def _about(stakes: Stakes) -> set[str]:
    """The refs of the objects that a drill's verdict is about."""
    layer = stakes.layer
    found = {str(held) for held in stakes.targets} | {ref_of(scaler) for scaler in stakes.scalers}
    found |= {str(ref) for ref in (layer.ref, layer.cron_job, layer.workload, layer.scaler) if ref}
    return found | {f"NodePool/{pool}" for pool in stakes.pools}


def _errors(inventory: Inventory, kill_path: KillPath) -> list[Finding]:
    """What lint calls an error, found out once for all drills of a run."""
    kept = inventory.kept.setdefault("errors", [])
    for known, errors in kept:
        if known is kill_path or known == kill_path:
            return list(errors)
    errors = _asked(inventory, kill_path)
    kept.append((kill_path, errors))
    return errors


def _asked(inventory: Inventory, kill_path: KillPath) -> list[Finding]:
    from killcheck.clock import wall_now
    from killcheck.lint import asking

    if not inventory.objects:
        return []
    world, _ = asking.world_of(
        inventory.loaded or list(inventory.objects),
        wall_now(),
        kill_path=kill_path,
        live=inventory.live,
        unread=dict(inventory.unread),
    )
    return [f for f in asking.lint(world).findings if f.severity == "error" and not f.unproven]
