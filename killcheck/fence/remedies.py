"""How to close a fence: a patch to the NodePool, kept only where evaluating the patched pool proves that it does."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from killcheck.fence.ceiling import Ceiling
from killcheck.fence.karpenter import Context, read_node_pool
from killcheck.fence.pools import Pool
from killcheck.fence.report import FenceResult
from killcheck.fence.verdict import judge
from killcheck.instances.catalogue import InstanceType
from killcheck.instances.launchable import AUTO_MODE, KARPENTER_AWS, KARPENTER_AZURE, Launchable
from killcheck.kube.objects import Obj, copy, dig
from killcheck.text.values import replace

__all__ = ["close"]

#: A list of types longer than this is no remedy that anyone would keep.
NAMED = 60


class _Change(Struct, frozen=True):
    """What is added to a pool, and the sentence for it."""

    says: str
    requirements: tuple[Obj, ...] = ()
    limits: tuple[tuple[str, str], ...] = ()


def close(result: FenceResult, pool: Pool, ceiling: Ceiling, context: Context) -> FenceResult:
    """The result with a remedy and, where one was found that proves safe, a merge patch."""
    if result.verdict != "exposed":
        return result
    if pool.obj is None or pool.obj.get("kind") != "NodePool":
        return replace(result, remedy=pool.remedy)
    for change in [_Change(""), *_changes(pool, ceiling)]:
        opened = _with(pool, change, context)
        if not opened.possible or _per_node_over(opened, ceiling):
            continue
        for limited in (change, _limited(change, opened, ceiling)):
            if limited is None or not limited.says:
                continue
            judged = judge(_with(pool, limited, context), ceiling)
            if judged.verdict == "safe" and judged.type_count:
                return replace(result, remedy=limited.says, patch=_patch(pool.obj, limited))
    if not pool.possible & _fitting(pool.types, ceiling):
        return replace(result, remedy="none of its types stays under the ceiling: delete the pool, or give it others")
    remedy = "name the types that may be launched in node.kubernetes.io/instance-type, and limit how many"
    return replace(result, remedy=remedy)


def _changes(pool: Pool, ceiling: Ceiling) -> Iterator[_Change]:
    """Single changes, the least intrusive first."""
    group = dig(pool.obj, "spec", "template", "spec", "nodeClassRef", "group")
    prefix = AUTO_MODE if group == AUTO_MODE else KARPENTER_AWS
    most = ceiling.max_devices_per_node
    if group == KARPENTER_AZURE:
        if most is not None:
            count = {"key": f"{group}/sku-gpu-count", "operator": "Lt", "values": [str(most + 1)]}
            yield _Change(f"add requirement sku-gpu-count Lt {most + 1}", (count,))
    elif most:
        count = {"key": f"{prefix}/instance-gpu-count", "operator": "Lt", "values": [str(most + 1)]}
        says = f"add requirement instance-gpu-count Lt {most + 1} (which keeps out types without GPUs, too)"
        yield _Change(says, (count,))
    if most == 0 and group != KARPENTER_AZURE:
        yield _Change(
            "add requirements that keep out GPUs, accelerators, FPGAs and media cards",
            (
                {"key": f"{prefix}/instance-gpu-count", "operator": "DoesNotExist"},
                {"key": f"{prefix}/instance-accelerator-count", "operator": "DoesNotExist"},
                {"key": f"{prefix}/instance-category", "operator": "NotIn", "values": ["f", "vt"]},
            ),
        )
    fitting = _fitting(pool.types, ceiling)
    refused, allowed = pool.possible & ~fitting, pool.certain & fitting
    key = "node.kubernetes.io/instance-type"
    if 0 < refused.bit_count() <= NAMED:
        above = refused.bit_count()
        yield _Change(
            f"keep out the {above} type{'s' if above > 1 else ''} above the ceiling by name",
            ({"key": key, "operator": "NotIn", "values": [one.name for one in pool.types.members(refused)]},),
        )
    if 0 < allowed.bit_count() <= NAMED:
        yield _Change(
            f"name the {allowed.bit_count()} types that may be launched",
            ({"key": key, "operator": "In", "values": [one.name for one in pool.types.members(allowed)]},),
        )


def _fitting(types: Launchable, ceiling: Ceiling) -> int:
    """The types of which a single node stays under the ceiling; kept on the index."""
    return types.kept(("under", ceiling), lambda: types.mask(one for one in types.types if _fits(one, ceiling)))


def _fits(one: InstanceType, ceiling: Ceiling) -> bool:
    """Whether a single node of a type stays under every ceiling."""
    if ceiling.forbids(one.name):
        return False
    if any(most is not None and one.devices > most for most in (ceiling.max_devices_per_node, ceiling.max_devices)):
        return False
    usd = one.usd_per_hour
    return ceiling.max_usd_per_hour is None or (usd is not None and 2 * usd <= ceiling.max_usd_per_hour)


def _with(pool: Pool, change: _Change, context: Context) -> Pool:
    assert pool.obj is not None
    return read_node_pool(_patched(pool.obj, _patch(pool.obj, change)), context) if change.says else pool


def _per_node_over(pool: Pool, ceiling: Ceiling) -> bool:
    """Whether a single node of it is above the ceiling: no limit could help."""
    worst = pool.worst(pool.possible)
    if worst is None or pool.possible & pool.types.matching(ceiling.forbidden_types):
        return True
    return ceiling.max_devices_per_node is not None and worst.devices > ceiling.max_devices_per_node


def _limited(change: _Change, pool: Pool, ceiling: Ceiling) -> _Change | None:
    """The change with so few nodes that their sums stay under the ceiling, replacements counted."""
    dearest, worst = pool.types.first(pool.possible, "usd"), pool.worst(pool.possible)
    each = (
        (ceiling.max_usd_per_hour, (dearest.usd_per_hour or 0.0) if dearest else 0.0),
        (ceiling.max_devices, worst.devices if worst else 0),
        (ceiling.max_nodes, 1),
    )
    nodes = min((int(most / (2 * one)) for most, one in each if most is not None and one), default=0)
    if nodes < 1:
        return None
    says = "; ".join(part for part in (change.says, f"set limits.nodes to {nodes}") if part)
    return replace(change, says=says, limits=(("nodes", str(nodes)),))


def _patch(obj: Obj, change: _Change) -> Obj:
    """A JSON merge patch: a list is replaced whole, so the old requirements are in it."""
    patch: Obj = {"spec": {}}
    if change.requirements:
        kept = [copy(one) for one in dig(obj, "spec", "template", "spec", "requirements", default=[])]
        patch["spec"]["template"] = {"spec": {"requirements": [*kept, *change.requirements]}}
    if change.limits:
        patch["spec"]["limits"] = dict(change.limits)
    return patch


def _patched(obj: Obj, patch: Obj) -> Obj:
    changed = copy(obj)
    inner = dig(patch, "spec", "template", "spec", "requirements")
    if inner is not None:
        changed["spec"].setdefault("template", {}).setdefault("spec", {})["requirements"] = inner
    if "limits" in patch["spec"]:
        changed["spec"]["limits"] = {**(changed["spec"].get("limits") or {}), **patch["spec"]["limits"]}
    return changed
