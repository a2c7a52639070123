"""A pool against the ceiling: safe, exposed through which door, or unproven and why."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct, field

from killcheck.fence.bounds import Bound, Measure, most
from killcheck.fence.ceiling import Ceiling
from killcheck.fence.pools import Pool
from killcheck.fence.report import FenceResult, FenceVerdict, whole
from killcheck.instances.catalogue import InstanceType
from killcheck.text.values import replace

__all__ = ["UNSTATED", "Totals", "judge", "judge_together", "totals"]


class Totals(Struct, frozen=True):
    """How large a pool can become: devices, dollars an hour, nodes; ``unpriced`` is the mask of types without a price,
    which the dollars do not count."""

    devices: Bound
    usd: Bound
    nodes: float
    unpriced: int = 0


def totals(pool: Pool) -> Totals:
    """The totals of everything that the pool may possibly launch."""
    limits = pool.all_limits()
    priced = pool.possible & pool.types.priced
    devices, usd = _most(pool, pool.possible, limits, "devices"), _most(pool, priced, limits, "usd")
    return Totals(devices, usd, _nodes(pool, limits), pool.possible & ~priced)


def _most(pool: Pool, mask: int, limits: dict[str, float], measure: Measure) -> Bound:
    """What types add up to; a limit that a NodeOverlay makes miscount bounds nothing for sure."""
    found = most(pool.types, mask, limits, measure)
    if not pool.loose:
        return found
    trusted = {name: limit for name, limit in limits.items() if name not in pool.loose}
    return Bound(0.0 if pool.raised else found.reached, most(pool.types, mask, trusted, measure).ceiling)


def _nodes(pool: Pool, limits: dict[str, float]) -> float:
    """The most nodes: the smallest type that passes, as often as the limits let it."""
    least = limits.get("nodes", math.inf)
    for resource, limit in limits.items():
        if resource == "nodes" or resource in pool.loose:
            continue
        smallest = pool.types.smallest(pool.possible, resource)
        if smallest:
            least = min(least, limit // smallest)
    return least if pool.possible else 0.0


class _Case(Struct):
    """What is found while a pool is judged."""

    exposed: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def weigh(self, over: bool, maybe: bool, text: str) -> None:
        """Put a violation where it belongs."""
        if over:
            self.exposed.append(text)
        elif maybe:
            self.doubts.append(text)


def judge(pool: Pool, ceiling: Ceiling) -> FenceResult:
    """One pool's result, without a patch."""
    case, sums = _Case(), totals(pool)
    _per_node(pool, ceiling, case)
    _forbidden(pool, ceiling, case)
    _sums(pool, ceiling, sums, case)
    sure, maybe = pool.worst(pool.certain), pool.worst(pool.possible)
    worst = maybe if maybe and (sure is None or maybe.devices > sure.devices) else sure
    dearest = pool.types.first(pool.possible, "usd")
    reasons = [*case.exposed, *case.doubts, *pool.unknown]
    if pool.undecided and (case.doubts or not case.exposed):
        reasons += pool.undecided if _matters(pool, case) else []
    verdict = _verdict(pool, ceiling, case)
    blind = pool.blind
    if verdict == "unproven" and not ceiling.stated:
        reasons.append(UNSTATED)
    return FenceResult(
        pool.name,
        verdict,
        worst.name if worst else "",
        None if blind else worst.devices if worst else 0,
        dearest.usd_per_hour if dearest else None,
        *((None, None, None) if blind else (*_money(sums), whole(sums.nodes))),
        not math.isinf(sums.devices.ceiling),
        door=_door(pool, worst, case) if case.exposed else "",
        requirement=pool.requirement if case.exposed else "",
        reasons=tuple(dict.fromkeys(reasons)),
        notes=pool.notes,
        worst_now=_worst_now(pool),
        type_count=pool.possible.bit_count(),
        floor=pool.floor,
    )


def _matters(pool: Pool, case: _Case) -> bool:
    return bool(case.doubts) or pool.certain != pool.possible


def _verdict(pool: Pool, ceiling: Ceiling, case: _Case) -> FenceVerdict:
    if case.exposed:
        return "exposed"
    return "unproven" if case.doubts or pool.unknown or not ceiling.stated else "safe"


def _money(sums: Totals) -> tuple[float | None, int | None]:
    usd = None if math.isinf(sums.usd.ceiling) or sums.unpriced else round(sums.usd.ceiling, 4)
    return usd, whole(sums.devices.ceiling)


def _per_node(pool: Pool, ceiling: Ceiling, case: _Case) -> None:
    most_of = ceiling.max_devices_per_node
    if most_of is None:
        return
    sure, maybe = pool.worst(pool.certain), pool.worst(pool.possible)
    over = sure is not None and sure.devices > most_of
    worst = sure if over else maybe
    if worst is not None and worst.devices > most_of:
        says = f"{worst.name} has {worst.devices} devices ({worst.describe()}), the ceiling is {most_of} a node"
        case.weigh(over, True, says)


def _forbidden(pool: Pool, ceiling: Ceiling, case: _Case) -> None:
    if not ceiling.forbidden_types:
        return
    mask = pool.types.matching(ceiling.forbidden_types)
    for chosen, over in ((pool.certain & mask, True), (pool.possible & ~pool.certain & mask, False)):
        if chosen:
            found = [one.name for one in pool.types.ordered(chosen, "devices")]
            shown = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
            case.weigh(over, True, f"forbidden types can be launched: {shown}")


def _sums(pool: Pool, ceiling: Ceiling, sums: Totals, case: _Case) -> None:
    sure = pool if pool.certain == pool.possible else replace(pool, possible=pool.certain)
    certain = sums if sure is pool else totals(sure)
    for what, limit, bound, reached in (
        ("devices", ceiling.max_devices, sums.devices.ceiling, certain.devices.reached),
        ("dollars an hour", ceiling.max_usd_per_hour, sums.usd.ceiling, certain.usd.reached),
        ("nodes", ceiling.max_nodes, sums.nodes, certain.nodes),
    ):
        if limit is None:
            continue
        if reached > limit or bound > limit:
            amount = reached if reached > limit else bound
            says = "nothing bounds how many" if math.isinf(amount) else f"up to {_number(amount)}"
            case.weigh(reached > limit, True, f"{says} {what} together, the ceiling is {_number(limit)}")
        elif bound * pool.overrun > limit:
            case.weigh(
                False,
                True,
                (
                    f"limits hold it to {_number(bound)} {what}, but do not count nodes on their way out: up to "
                    f"{_number(bound * pool.overrun)} while nodes are replaced, the ceiling is {_number(limit)}"
                ),
            )
    if ceiling.max_usd_per_hour is not None and sums.unpriced:
        case.weigh(False, True, _without_price(pool, sums))


def _without_price(pool: Pool, sums: Totals) -> str:
    """Which types' dollars are not known, and what is known of the others'."""
    missing = pool.types.ordered(sums.unpriced, "devices")
    names = ", ".join(one.name for one in missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    says = f"{names} {'have' if len(missing) > 1 else 'has'} no price in the catalogue"
    if not missing[0].devices:
        says += ", and no devices either: types with devices are all priced"
    known = (pool.possible & ~sums.unpriced).bit_count()
    if known:
        most_of = "any amount" if math.isinf(sums.usd.ceiling) else f"${_number(sums.usd.ceiling)} an hour"
        says += f"; the {known} types with a price come to {most_of} at most"
    return f"{says} (prices: or fences.catalogues: can give one)"


def _number(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _door(pool: Pool, worst: InstanceType | None, case: _Case) -> str:
    what = f"{worst.name} ({worst.describe()})" if worst else "nothing"
    how = pool.door or pool.requirement or "nothing keeps it out"
    return f"{pool.name} can launch {what}: {how}" if worst else f"{pool.name}: {case.exposed[0]}"


def _worst_now(pool: Pool) -> str:
    if not pool.used or not pool.limits:
        return ""
    left = {name: limit - pool.used.get(name, 0.0) for name, limit in pool.limits.items()}
    worst = pool.worst(pool.types.within(pool.possible, left))
    return worst.name if worst else "none"


#: Why nothing is proven where the spec has no ceiling.
UNSTATED = (
    "no ceiling is stated: say under fences: in the spec (or by --max-devices and --max-usd) what may be launched"
)


def judge_together(pools: Sequence[Pool], ceiling: Ceiling, unknown: Sequence[str] = ()) -> FenceResult:
    """All pools at once: each may be at its largest at the same time."""
    case, sums = _Case(), [totals(pool) for pool in pools]
    sure = all(pool.certain == pool.possible for pool in pools)
    nodes = sum(one.nodes for one in sums)
    devices, usd = sum(one.devices.ceiling for one in sums), sum(one.usd.ceiling for one in sums)
    for what, limit, bound, reached, each in (
        ("devices", ceiling.max_devices, devices, sum(one.devices.reached for one in sums), _devices),
        ("dollars an hour", ceiling.max_usd_per_hour, usd, sum(one.usd.reached for one in sums), _usd),
        ("nodes", ceiling.max_nodes, nodes, nodes, _count),
    ):
        while_replaced = sum(each(one) * pool.overrun for one, pool in zip(sums, pools, strict=True))
        if limit is not None and bound > limit:
            text = "nothing bounds the" if math.isinf(bound) else f"{_number(bound)}"
            case.weigh(sure and reached > limit, True, f"{text} {what} in all, the ceiling is {_number(limit)}")
        elif limit is not None and while_replaced > limit:
            says = f"{_number(bound)} {what} in all, and up to {_number(while_replaced)} while nodes are replaced"
            case.weigh(False, True, f"{says}, the ceiling is {_number(limit)}")
    unpriced = [pool.name for pool, one in zip(pools, sums, strict=True) if one.unpriced]
    if ceiling.max_usd_per_hour is not None and unpriced:
        case.weigh(False, True, f"not every type that {', '.join(unpriced)} can launch has a price")
    worst = max((one for pool in pools if (one := pool.worst(pool.possible))), key=_worse, default=None)
    dearest = max((_price(pool) for pool in pools), default=0.0)
    verdict: FenceVerdict = "safe"
    if case.exposed:
        verdict = "exposed"
    elif case.doubts or unknown or not ceiling.stated:
        verdict = "unproven"
    blind = any(pool.blind for pool in pools) or (verdict == "unproven" and not pools)
    return FenceResult(
        "cluster",
        verdict,
        worst.name if worst else "",
        None if blind else worst.devices if worst else 0,
        dearest or None,
        None if blind or math.isinf(usd) or unpriced else round(usd, 4),
        None if blind else whole(devices),
        None if blind else whole(nodes),
        not math.isinf(devices),
        door="every pool at its largest at the same time" if case.exposed else "",
        remedy="limit each pool so that they stay under the ceiling together" if case.exposed else "",
        reasons=(
            *case.exposed,
            *case.doubts,
            *unknown,
            *(() if ceiling.stated else (UNSTATED,)),
        ),
        floor=sum(pool.floor for pool in pools),
    )


def _devices(one: Totals) -> float:
    return one.devices.ceiling


def _usd(one: Totals) -> float:
    return one.usd.ceiling


def _count(one: Totals) -> float:
    return one.nodes


def _worse(one: InstanceType) -> tuple[int, float]:
    return one.devices, one.usd_per_hour or 0.0


def _price(pool: Pool) -> float:
    dearest = pool.types.first(pool.possible, "usd")
    return (dearest.usd_per_hour or 0.0) if dearest else 0.0
