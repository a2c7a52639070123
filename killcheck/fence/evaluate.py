"""The evaluation: plain objects in, a report out. It asks nobody and changes nothing."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from killcheck.fence import absent, authority, automode, awsgroups, foreign_nodes, makers, otherclouds, policies
from killcheck.fence.account import Account
from killcheck.fence.ceiling import Ceiling
from killcheck.fence.ceilings import ceilings
from killcheck.fence.inside import Ask, ask, queues
from killcheck.fence.karpenter import Context, feature_gates, node_classes, read_node_claim, read_node_pool
from killcheck.fence.overlays import price_notes, read_overlays
from killcheck.fence.pools import Pool
from killcheck.fence.remedies import close
from killcheck.fence.report import FenceReport, FenceResult, worst_verdict
from killcheck.fence.verdict import judge, judge_together
from killcheck.instances.catalogue import Catalogue, shipped
from killcheck.instances.launchable import Launchable, launchable
from killcheck.kube.machine_floors import is_pattern
from killcheck.kube.objects import Obj, name_of
from killcheck.spec.killpath import NodePool
from killcheck.text.redaction import clean
from killcheck.text.values import replace

__all__ = ["evaluate", "pools_of", "would"]

#: Kinds that launch machines and are not evaluated: never passed over in silence.
UNEVALUATED = {
    "MachineDeployment": "cluster.x-k8s.io",
    "MachinePool": "cluster.x-k8s.io",
    "MachineSet": "",
    "AWSMachinePool": "infrastructure.cluster.x-k8s.io",
    "ComputeClass": "cloud.google.com",
    "Provisioner": "karpenter.sh",
    "ContainerCluster": "container.cnrm.cloud.google.com",
    "ManagedCluster": "containerservice.azure.com",
}


#: So many places are named.
_SHOWN = 3


class _World(Struct, frozen=True):
    """Everything that was read: pools by what may be patched, and what is said beside them."""

    pools: list[Pool]
    context: Context
    notes: tuple[str, ...]
    unknown: tuple[str, ...]


#: Groups whose objects name types of machines and are judged elsewhere, or launch none: pools' own, rules, queues.
_LAUNCH_NOTHING = (
    "karpenter.sh",
    "karpenter.k8s.aws",
    "karpenter.azure.com",
    "eks.amazonaws.com",
    "kyverno.io",
    "gatekeeper.sh",
    "kueue.x-k8s.io",
    "monitoring.coreos.com",
    *(
        f"{built_in}.k8s.io"
        for built_in in ("apiextensions", "authorization", "registration", "networking", "resource", "storage")
    ),
)


def evaluate(
    objects: Iterable[Obj],
    ceiling: Ceiling,
    catalogue: Catalogue | None = None,
    *,
    account: Account | None = None,
    role: str = "",
    doors: Sequence[Pool] = (),
    named: Sequence[NodePool] = (),
    unread: Iterable[str] = (),
    costing: Iterable[str] = (),
    doubts: Iterable[str] = (),
    nodes: Sequence[Obj] = (),
) -> FenceReport:
    """What could be launched at worst by everything in ``objects`` and ``account``, against ``ceiling``.

    ``objects`` are manifests or live objects; what is no pool or fence among them is passed over. ``role`` is the cloud
    role that Karpenter launches with (default: its ServiceAccount's), whose policies are those in ``account``;
    ``doors`` are further pools to judge; ``named`` those of a spec, of which nothing is proven where none was read.
    ``unread``: places of manifests that were not read: any of them may be a pool. ``costing``: those that may be one
    without GPUs, which counts where dollars or nodes have a ceiling. Of a live cluster: ``doubts``, a sentence for each
    kind that could not be listed, and the ``nodes`` that stand there: what launched them has to be among the pools.
    """
    found = list(objects)
    catalogue = shipped() if catalogue is None else catalogue
    world = _read(found, catalogue, account or Account(), role)
    world.pools.extend(doors)
    results = [close(judge(pool, ceiling), pool, ceiling, world.context) for pool in world.pools]
    every_node = ceiling.max_usd_per_hour is not None or ceiling.max_nodes is not None
    places = (*unread, *(costing if every_node else ()))
    stand = foreign_nodes.unread(nodes, world.pools, asked=account is not None)
    passed_over = [*doubts, *(one.said for one in stand if one.devices or every_node), *_not_read(places)]
    unknown = clean((*world.unknown, *absent.unread(named, found, world.pools), *passed_over))
    unknown += () if world.pools or account is not None else (absent.NO_POOL,)
    unknown += () if account is not None else tuple(absent.autoscaled(found, world.pools))
    cluster = _together(results, judge_together(world.pools, ceiling, unknown))
    standing = [pool for pool in world.pools if not pool.name.startswith("RBAC/")]
    findings = tuple(queues(found, [] if passed_over or any(pool.blind for pool in standing) else standing))
    notes = clean((*world.notes, *authority.moved_by(found), *ceilings(found, world.pools)))
    return FenceReport(tuple(results), cluster, notes, catalogue.sources, findings)


def _not_read(places: Sequence[str]) -> list[str]:
    """What nobody read, in one sentence."""
    if len(places) < 2:
        return [f"{place} was not evaluated, and may be a pool" for place in places]
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return [f"{', '.join(places[:_SHOWN])}{more} were not evaluated, and each may be a pool"]


def pools_of(
    objects: Iterable[Obj],
    catalogue: Catalogue | None = None,
    *,
    account: Account | None = None,
    role: str = "",
) -> list[Pool]:
    """Every pool, as it is judged."""
    whole = shipped() if catalogue is None else catalogue
    return _read(list(objects), whole, account or Account(), role).pools


def would(
    objects: Iterable[Obj],
    devices: int,
    *,
    namespace: str,
    resource: str = "nvidia.com/gpu",
    catalogue: Catalogue | None = None,
    account: Account | None = None,
    role: str = "",
    doubts: Iterable[str] = (),
    nodes: Sequence[Obj] = (),
) -> Ask:
    """Whether a pod that asks for so many devices would be refused, stay Pending, or launch something."""
    found = list(objects)
    world = _read(found, shipped() if catalogue is None else catalogue, account or Account(), role)
    pools = [one for one in world.pools if not one.name.startswith("RBAC/")]
    answer = ask(found, pools, devices, namespace=namespace, resource=resource)
    stand = foreign_nodes.unread(nodes, world.pools, asked=account is not None)
    unknown = (*world.unknown, *doubts, *(one.said for one in stand if one.devices))
    return Ask("unproven", unknown[0], answer.reasons) if unknown and answer.outcome == "pending" else answer


def _read(objects: list[Obj], catalogue: Catalogue, account: Account, role: str) -> _World:
    types = launchable(catalogue)
    every = launchable(catalogue, "aws", "azure")
    context = Context(every, node_classes(objects), read_overlays(objects), feature_gates(objects))
    karpenter = list(_karpenter([*objects, *automode.built_in(objects)], context))
    among = functools.reduce(operator.or_, (pool.possible for pool in karpenter), 0)
    sure, maybe, doubts, notes = _role(objects, account, role, types, among)
    elsewhere = every.all & ~types.all  # AWS' types come first in both: what a role of AWS says binds those alone
    pools = [_bound(pool, sure | elsewhere, maybe | elsewhere, doubts) for pool in karpenter]
    doors, admins = authority.claim_doors(objects, types, sure, maybe)
    pools += doors
    pools += account.pools(catalogue)
    templates = account.known_templates(catalogue)
    judged = {id(one) for one in objects if automode.is_cluster(one)}
    for one in objects:
        made = [*awsgroups.from_manifest(one, templates), *otherclouds.from_manifest(one, catalogue)]
        made = made or list(_unevaluated(one, types))
        judged |= {id(one)} if made else set()
        pools += made
    notes += price_notes(objects)
    notes += [f"Fargate profile {name}: Fargate has no devices" for name in account.fargate]
    widening, refusing = policies.told(objects)
    unknown = (*account.unknown, *widening, *makers.unevaluated(objects, judged))
    return _World(pools, context, (*notes, *refusing, *admins), unknown)


def _role(
    objects: list[Obj],
    account: Account,
    role: str,
    types: Launchable,
    among: int,
) -> tuple[int, int, list[str], list[str]]:
    """(what Karpenter's role surely may launch, possibly may, what is not known of it, what to note)."""
    known = role or authority.karpenter_role(objects)
    if known is None or not account.roles:
        return types.all, types.all, [], []
    sure, maybe, doubts = authority.within_role(known, account, types, among)
    whole = types.all.bit_count()
    kept_out = whole - maybe.bit_count()
    return sure, maybe, doubts, [f"{known} may not launch {kept_out} of {whole} types"] if kept_out else []


def _bound(pool: Pool, sure: int, maybe: int, doubts: list[str]) -> Pool:
    """What of a Karpenter pool its role lets through."""
    if sure == maybe == pool.types.all:
        return replace(pool, undecided=(*pool.undecided, *doubts)) if doubts else pool
    undecided = (*pool.undecided, *doubts) if pool.possible & maybe & ~sure else pool.undecided
    return replace(pool, certain=pool.certain & sure, possible=pool.possible & maybe, undecided=undecided)


def _karpenter(objects: Sequence[Obj], context: Context) -> Iterator[Pool]:
    for one in objects:
        if one.get("kind") == "NodePool" and str(one.get("apiVersion", "")).startswith("karpenter.sh/"):
            yield read_node_pool(one, context)
        elif one.get("kind") == "NodeClaim" and not (one.get("metadata") or {}).get("ownerReferences"):
            yield read_node_claim(one, context)


def _unevaluated(one: Obj, types: Launchable) -> Iterator[Pool]:
    """What may launch machines and nobody here evaluates: by its kind, or by a type of machine with GPUs in it."""
    kind, group = str(one.get("kind")), str(one.get("apiVersion", "")).partition("/")[0]
    foreign = kind == "NodePool" and group != "karpenter.sh"
    strange = "." in group and not group.endswith(_LAUNCH_NOTHING) and is_pattern(one)
    if foreign or strange or (kind in UNEVALUATED and group.startswith(UNEVALUATED[kind])):
        yield Pool(f"{kind}/{name_of(one)}", types, 0, 0, unknown=(f"{kind} can launch machines and is not evaluated",))


def _together(results: Sequence[FenceResult], cluster: FenceResult) -> FenceResult:
    """The whole cluster is at best what its worst pool is."""
    worst = worst_verdict([cluster.verdict, *(one.verdict for one in results)])
    if worst == cluster.verdict:
        return cluster
    first = next(one for one in results if one.verdict == worst)
    named = [f"{one.pool} is {one.verdict}" for one in results if one.verdict == worst]
    return replace(cluster, verdict=worst, door=first.door, remedy=first.remedy, reasons=(*cluster.reasons, *named))
