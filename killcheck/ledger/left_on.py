"""GPUs that nothing of a kill path turns off: targets that no layer covers, and what the spec names nowhere.

A layer that turns off all that it covers proves nothing of what it does not. A target of the path that no layer covers
stays on, unless a person says that it is meant to; what is no target is out of scope, and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime

from killcheck.capabilities.inventory import Inventory
from killcheck.discover import nodes as pools
from killcheck.discover.everywhere import how_it_holds
from killcheck.discover.finding import holders
from killcheck.discover.unknown import unknown_holders
from killcheck.entries import Entry, Status
from killcheck.kube import gpus, provider_pools
from killcheck.kube.machine_floors import floors, is_pattern
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, ref_of
from killcheck.kube.pod_annotations import EXECUTE, IGNORES_SIGTERM, STOPS_AFTER
from killcheck.kube.workloads import PodTemplate, devices_of, templates
from killcheck.ledger import identities, rights, workloads
from killcheck.ledger.assume import settled
from killcheck.ledger.references import gpus_in
from killcheck.ledger.stakes import Stakes, home_of
from killcheck.spec.killpath import KillPath, Proof, Target
from killcheck.watch import starts

__all__ = ["entries", "meant_to_stay", "of_schedule", "uncovered"]

_ENDS = "give its Job an activeDeadlineSeconds, let a layer cover it, or say under assume: what ends it"
_SETTLES = "let a layer cover it, or say under assume: why it stays on"
_DESCRIBED = "describe the nodes (NodePool, Node), or say under assume: why it holds none"
_SHARES = "name it under targets: where it holds one, or say under assume: why it holds none"
_NAMED_OR_NODES = "name it under targets:, have the nodes judged (nodes:, P2), or say under assume: why it may stay"
_FLOOR = "let it go down to none, have the nodes judged (nodes:, P2), or say under assume: why they may stay"
_UNREAD = "name what it makes under targets:, or say under assume: why it holds no GPU, or who ends it"
_SLOW = "shorten the grace period, say podsGone under deadlines:, or annotate its pods with killcheck.dev/stops-after-s"
_HANDS_ON = (
    "take the right from its account, drill it on a cluster where it runs (--on CONTEXT), or say under assume: why it "
    "makes no pods as it ends"
)
#: Annotations by which pods say how their programs stop on the embedded cluster.
_STOPPING = {IGNORES_SIGTERM, STOPS_AFTER}
#: So many are named of those on a real cluster.
_NAMED = 5


def uncovered(kill_path: KillPath) -> tuple[Target, ...]:
    """The targets that no layer turns off."""
    covered = {name for layer in kill_path.layers for name in layer.covers}
    return tuple(target for target in kill_path.targets if target.name not in covered)


def meant_to_stay(kill_path: KillPath, target: Target, today: date) -> bool:
    """Whether a person says, for today still, that a target that no layer covers stays on."""
    (entry,) = settled([_entry(target)], kill_path.assume, today)
    return entry.status is not Status.NOT_MODELLED


def entries(inventory: Inventory, stakes: Stakes) -> Iterator[Entry]:
    """One for each target that no layer covers, and for what holds GPUs outside the path."""
    for target in uncovered(stakes.kill_path):
        if target.kind:
            yield _entry(target)
    outside = [ref_of(obj) for obj in _outside(inventory.objects, stakes.kill_path)]
    if inventory.live and outside:
        more = f" and {len(outside) - _NAMED} more" if len(outside) > _NAMED else ""
        said = f"{', '.join(outside[:_NAMED])}{more} hold GPUs, and the spec names them nowhere: out of scope"
        yield Entry("GPUs outside the kill path", Status.EXECUTED, said, told=True)
    elif outside:
        for ref in outside:
            yield Entry(ref, Status.ASSUMED, "it holds GPUs, and the spec names it nowhere: taken to be out of scope")
    yield from _on_each_node(inventory.objects, stakes)
    if Proof.P2 in stakes.kill_path.proof and stakes.pools:
        yield from _pools(inventory, stakes)
    if not inventory.live:
        yield from _floors(inventory, stakes)
        yield from _kept_nodes(inventory.objects, stakes)
        yield from _unread_holders(inventory.objects, stakes)
        yield from _unaccounted(inventory.objects, stakes)
        yield from _slow(stakes)
        yield from _leaving(stakes)
    waived = {name for obj in inventory.objects for one in templates(obj) for name in gpus.waived(one.spec)}
    for name in sorted(waived):
        yield Entry(f"resource {name}", Status.ASSUMED, "the spec says that it is no accelerator: its holders may stay")


def of_schedule(obj: Obj, now: datetime) -> Entry | None:
    """The entry of a CronJob whose own pods hold GPUs, and that did not fire while the drill watched; None: of others.

    What its Jobs put on, no firing that was seen turned off.
    """
    template = dig(obj, "spec", "jobTemplate", default={})
    if not devices_of(obj, wanted=True) or dig(obj, "spec", "suspend") is True:
        return None
    when = f"its schedule {dig(obj, 'spec', 'schedule', default='')}"
    ended = starts.bounded(obj, template, now)
    if ended:
        return Entry(ref_of(obj), Status.MODELLED, f"{ended}, on {when}", told=True)
    said = f"on {when} it puts pods on GPUs itself, and what ends them was not seen: no firing came in this drill"
    return Entry(ref_of(obj), Status.NOT_MODELLED, said, _ENDS)


def _on_each_node(objects: Iterable[Obj], stakes: Stakes) -> Iterator[Entry]:
    """DaemonSets that ask for GPUs and are no target: they hold some for as long as there is a node, and go with it."""
    if Proof.P2 in stakes.kill_path.proof:
        return
    for obj in objects:
        if obj.get("kind") != "DaemonSet" or _is_named(obj, stakes.kill_path) or not devices_of(obj, wanted=True):
            continue
        if home_of(obj) in stakes.kill_path.namespaces:
            said = f"it {how_it_holds(obj)}, is no target, and whether those nodes go is not judged"
            yield Entry(ref_of(obj), Status.NOT_MODELLED, said, _NAMED_OR_NODES)
        else:
            said = f"it {how_it_holds(obj)}, and the spec names it nowhere: taken to be out of scope"
            yield Entry(ref_of(obj), Status.ASSUMED, said)


def _is_named(obj: Obj, kill_path: KillPath) -> bool:
    """Whether it is a target, whichever layer covers it."""
    return any(
        (target.kind, target.namespace) == (obj.get("kind"), home_of(obj)) and target.object in ("", name_of(obj))
        for target in kill_path.targets
    )


def _unaccounted(objects: Iterable[Obj], stakes: Stakes) -> Iterator[Entry]:
    """What reaches GPUs without asking for any: it is counted where it lands on them, on nodes that are described."""
    described = any(obj.get("kind") in ("Node", "NodePool") for obj in objects)
    for obj in objects:
        if obj.get("kind") in ("DaemonSet", "Job", "CronJob") or stakes.is_target(obj):
            continue
        how = next((said for one in templates(obj) if one.count and (said := gpus.unaccounted(one.spec))), "")
        if how and not described:
            said = f"it may use GPUs that it does not ask for ({how}), and no manifest says which nodes it runs on"
            yield Entry(ref_of(obj), Status.NOT_MODELLED, said, _DESCRIBED)
        by = next((key for one in templates(obj) if one.count and (key := gpus.shared(one.metadata))), None)
        if by and not devices_of(obj, wanted=True):
            said = f"its pods may hold a part of a GPU, by an annotation that no sharer known here reads ({by})"
            yield Entry(ref_of(obj), Status.NOT_MODELLED, said, _SHARES)


def _slow(stakes: Stakes) -> Iterator[Entry]:
    """Targets that may take longer to end than the deadline: their programs do not run here, their grace is theirs."""
    limit = stakes.kill_path.deadlines_for(stakes.layer).pods_gone_s
    for held in stakes.targets:
        for one in templates(held.obj or {}):
            grace = float(one.spec.get("terminationGracePeriodSeconds") or 0)
            notes = one.metadata.get("annotations") or {}
            told = _STOPPING & set(notes) or notes.get(EXECUTE) == "true"  # how it stops is seen then
            if grace > limit and not told:
                said = (
                    f"its grace period lets it run for {grace:.0f} s after it is told to stop; whether its program "
                    f"ends by the deadline (podsGone, {limit:.0f} s) was not seen: GPU programs do not run here"
                )
                yield Entry(str(held), Status.NOT_MODELLED, said, _SLOW)


def _leaving(stakes: Stakes) -> Iterator[Entry]:
    """Targets that may make pods themselves, as a worker does that hands its work on when it is told to stop."""
    for held in stakes.targets:
        for one in templates(held.obj or {}):
            if (one.metadata.get("annotations") or {}).get(EXECUTE) == "true" or not one.count:
                continue
            for home, account in identities.of_pod(one.spec, held.namespace, stakes):
                made = rights.may_create(stakes, account, home)
                if made and held.obj is not None and not workloads.harmless_by_reading(held.obj, stakes):
                    said = f"{identities.told(home, account)} may {made}, and what it does as it is ended was not seen"
                    yield Entry(str(held), Status.NOT_MODELLED, f"{said}: GPU programs do not run here", _HANDS_ON)


def _entry(target: Target) -> Entry:
    said = "it holds GPUs, and no layer of the kill path turns it off"
    return Entry(str(target), Status.NOT_MODELLED, said, _SETTLES)


def _outside(objects: Iterable[Obj], kill_path: KillPath) -> Iterator[Obj]:
    """Workloads that hold GPUs in namespaces that the path does not watch."""
    for holder in holders(objects):
        if home_of(holder.obj) not in kill_path.namespaces:
            yield holder.obj


def _floors(inventory: Inventory, stakes: Stakes) -> Iterator[Entry]:
    """Machines with GPUs that stay whatever the pods do, and bill, and whose nodes nobody judges."""
    patterns = [obj for obj in inventory.objects if is_pattern(obj) and next(floors(obj), None) is None]
    named = {(str(obj.get("kind")), name_of(obj)) for obj in patterns}
    unjudged = (obj for obj in inventory.objects if not _is_judged(obj, stakes))
    kept = [(ref_of(obj), group) for obj in unjudged for group in floors(obj, named)]
    if inventory.loaded is not None:
        kept += [(one.place, group) for one in inventory.loaded.skipped for group in one.floors]
    for where, (group, least) in kept:
        said = f"{group} always keeps {least} machine(s) with GPUs, and whether they go is not judged"
        yield Entry(where, Status.NOT_MODELLED, said, _FLOOR)


def _is_judged(obj: Obj, stakes: Stakes) -> bool:
    """Whether an object makes nodes of a pool that this drill must see go."""
    if Proof.P2 not in stakes.kill_path.proof:
        return False
    own = provider_pools.selector(obj)
    pools = stakes.kill_path.nodes
    return (obj.get("kind") == "NodePool" and name_of(obj) in stakes.pools) or any(
        own == one.selector for one in pools if own
    )


def _kept_nodes(objects: Iterable[Obj], stakes: Stakes) -> Iterator[Entry]:
    """Nodes with GPUs of which the manifests say that nobody takes them away."""
    judged = Proof.P2 in stakes.kill_path.proof
    for obj in objects:
        mark = next((f"{key}: {value}" for key, value in _STAYS.items() if annotations_of(obj).get(key) == value), None)
        kind, said = obj.get("kind"), ""
        if kind == "Node" and gpus.node_devices(obj) and mark and not judged:
            said = f"it has GPUs and carries {mark}: nothing takes it away, and whether nodes go is not judged"
        elif kind == "NodeClaim" and _is_alone(obj, stakes) and pools.has_gpus({"spec": {"template": obj}}):
            said = "a machine with GPUs of no pool that is judged: it stays for as long as it is there"
        elif not judged and any(map(_keeps_nodes, templates(obj))):
            said = "it never takes a node away (--scale-down-enabled=false), and whether nodes go is not judged"
        if said:
            yield Entry(ref_of(obj), Status.NOT_MODELLED, said, _FLOOR)


def _is_alone(claim: Obj, stakes: Stakes) -> bool:
    return labels_of(claim).get("karpenter.sh/nodepool") not in stakes.pools


def _keeps_nodes(template: PodTemplate) -> bool:
    """Whether a cluster autoscaler is told to scale nothing down (kubernetes/autoscaler, FAQ)."""
    words = (
        str(one)
        for c in template.spec.get("containers") or ()
        for key in ("command", "args")
        for one in c.get(key) or ()
    )
    return any("scale-down-enabled=false" in word.replace(" ", "=") for word in words)


#: What keeps a node (kubernetes/autoscaler, FAQ; karpenter.sh, Disruption).
_STAYS = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true", "karpenter.sh/do-not-disrupt": "true"}


def _unread_holders(objects: Iterable[Obj], stakes: Stakes) -> Iterator[Entry]:
    """Custom resources that name accelerators in a way that nobody here reads: what discovery tells of them, too."""
    for one in unknown_holders(objects):
        if not (stakes.is_target(one.obj) or gpus_in(one.obj)):
            yield Entry(ref_of(one.obj), Status.NOT_MODELLED, f"it {one.why}", _UNREAD)


def _pools(inventory: Inventory, stakes: Stakes) -> Iterator[Entry]:
    for obj in inventory.objects:
        if obj.get("kind") == "NodePool" and name_of(obj) not in stakes.pools and pools.has_gpus(obj):
            said = "a pool of nodes with GPUs that the spec names nowhere: what it keeps on is out of scope"
            yield Entry(ref_of(obj), Status.EXECUTED if inventory.live else Status.ASSUMED, said, told=True)
