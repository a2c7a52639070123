"""Which flavor each of a Workload's resources would get, and why none does, in Kueue's words.

Source: kubernetes-sigs/kueue pkg/scheduler/flavorassigner/flavorassigner.go (August 2026). Left out: partial
admission, topology, flavors' slots within one resource group tried from where the last cycle ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

from msgspec import Struct, field

from killcheck.embedded.controllers.scheduler.filters import matches_node_terms, tolerates
from killcheck.embedded.models.karpenter.pods import requests
from killcheck.embedded.models.kueue.quota import EPSILON, FlavorResource, Quotas
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.kube.quantities import format_quantity
from killcheck.kube.selectors import node_terms

__all__ = ["Assignment", "assign", "quantity", "reserved"]

Mode = Literal["fit", "preempt", "no-fit"]
_RANK: dict[Mode, int] = {"fit": 2, "preempt": 1, "no-fit": 0}


class PodSet(Struct):
    """What one pod set gets; ``reasons`` say why it does not fit."""

    name: str
    count: int
    flavors: dict[str, str] = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    mode: Mode = "fit"
    exceeds: bool = False


class Assignment(Struct):
    """What a Workload gets of one ClusterQueue."""

    pod_sets: list[PodSet]

    @property
    def mode(self) -> Mode:
        """The worst of its pod sets'."""
        return min((one.mode for one in self.pod_sets), key=_RANK.__getitem__, default="fit")

    @property
    def usage(self) -> dict[FlavorResource, float]:
        """What it would reserve."""
        found: dict[FlavorResource, float] = {}
        for one in self.pod_sets:
            for resource, flavor in one.flavors.items():
                key = (flavor, resource)
                found[key] = found.get(key, 0.0) + one.usage[resource]
        return found

    @property
    def message(self) -> str:
        """Why it does not fit now; empty where it does."""
        return "; ".join(
            f"couldn't assign flavors to pod set {one.name}: {', '.join(sorted(one.reasons))}"
            for one in self.pod_sets
            if one.reasons
        )

    @property
    def reason(self) -> str:
        """The reason of a QuotaReserved condition that is False."""
        if any(one.exceeds for one in self.pod_sets):
            return "ExceedsMaxQuota"
        short = any("insufficient" in reason for one in self.pod_sets for reason in one.reasons)
        return "WaitingForQuota" if short else "NoMatchingFlavor"

    def admission(self, queue: str) -> Obj:
        """``status.admission`` of a Workload that is given this."""
        return {
            "clusterQueue": queue,
            "podSetAssignments": [
                {
                    "name": one.name,
                    "count": one.count,
                    "flavors": dict(one.flavors),
                    "resourceUsage": {name: quantity(name, value) for name, value in one.usage.items()},
                }
                for one in self.pod_sets
            ],
        }


def assign(workload: Obj, queue: Obj, flavors: Mapping[str, Obj], quotas: Quotas) -> Assignment:
    """Try the queue's flavors in their order for every pod set of a Workload."""
    done = Assignment([])
    for entry in dig(workload, "spec", "podSets", default=[]):
        found = _pod_set(entry, workload)
        for name in [name for name, value in found.usage.items() if not value]:
            del found.usage[name]
        for group in dig(queue, "spec", "resourceGroups", default=[]):
            covered = [name for name in group.get("coveredResources") or () if name in found.usage]
            if covered:
                _try_group(found, entry, queue, group, covered, flavors, quotas, done.usage)
        for name in found.usage:
            if not any(
                name in (group.get("coveredResources") or ())
                for group in dig(queue, "spec", "resourceGroups", default=[])
            ):
                found.reasons.append(f"resource {name} unavailable in ClusterQueue")
                found.mode = "no-fit"
        done.pod_sets.append(found)
    return done


def _pod_set(entry: Obj, workload: Obj) -> PodSet:
    given_back = {one["name"]: int(one["count"]) for one in dig(workload, "status", "reclaimablePods", default=[])}
    count = max(0, int(entry.get("count", 1)) - given_back.get(str(entry["name"]), 0))
    each = requests(entry["template"]["spec"])
    each.pop("pods", None)
    return PodSet(str(entry["name"]), count, usage={name: value * count for name, value in each.items()})


def _try_group(  # noqa: PLR0917 - one search, told in full
    found: PodSet,
    entry: Obj,
    queue: Obj,
    group: Obj,
    covered: list[str],
    flavors: Mapping[str, Obj],
    quotas: Quotas,
    assumed: Mapping[FlavorResource, float],
) -> None:
    best: tuple[Mode, str] = ("no-fit", "")
    reasons: list[str] = []
    stops = dig(queue, "spec", "flavorFungibility", "whenCanPreempt", default="TryNextFlavor") in (
        "Preempt",
        "MayStopSearch",
    )
    for declared in group.get("flavors") or ():
        name = str(declared["name"])
        refused = _refusal(flavors.get(name), name, entry["template"]["spec"])
        if refused:
            reasons.append(refused)
            continue
        mode: Mode = "fit"
        for resource in covered:
            key = (name, resource)
            told = _room(key, assumed.get(key, 0.0), found.usage[resource], name_of(queue), quotas)
            if told is not None:
                reasons.append(told[1])
                found.exceeds |= told[2]
                mode = min(mode, told[0], key=_RANK.__getitem__)
        if _RANK[mode] > _RANK[best[0]]:
            best = (mode, name)
        if mode == "fit" or (mode == "preempt" and stops):
            break
    mode, flavor = best
    if flavor:
        found.flavors |= dict.fromkeys(covered, flavor)
    if mode != "fit":
        found.reasons += reasons
        found.mode = min(found.mode, mode, key=_RANK.__getitem__)
        found.exceeds = found.exceeds and mode == "no-fit"


def _room(
    key: FlavorResource,
    assumed: float,
    asked: float,
    queue: str,
    quotas: Quotas,
) -> tuple[Mode, str, bool] | None:
    """None: it fits; else what could be done, why not now, and whether it never could."""
    flavor, resource = key
    wanted, most, left = assumed + asked, quotas.most(queue, key), quotas.available(queue, key)
    if wanted > most + EPSILON:
        return (
            "no-fit",
            (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
                f"({quantity(resource, assumed)}) + current podset request ({quantity(resource, asked)}) > maximum "
                f"capacity ({quantity(resource, most)})"
            ),
            True,
        )
    if wanted <= left + EPSILON:
        return None
    more = quantity(resource, wanted - left)
    return "preempt", f"insufficient unused quota for {resource} in flavor {flavor}, {more} more needed", False


def _refusal(flavor: Obj | None, name: str, spec: Obj) -> str | None:
    """Why a flavor is none for these pods; None where it may be."""
    if flavor is None:
        return f"flavor {name} not found"
    tolerations = [*(spec.get("tolerations") or ()), *dig(flavor, "spec", "tolerations", default=[])]
    for taint in dig(flavor, "spec", "nodeTaints", default=[]):
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerates(tolerations, taint):
            shown = f"{{{taint['key']} {taint.get('value', '')} {taint['effect']} <nil>}}"
            return f"untolerated taint {shown} in flavor {name}"
    labels = dig(flavor, "spec", "nodeLabels", default={})
    if not _matches(spec, labels):
        return f"flavor {name} doesn't match node affinity"
    return None


def _matches(spec: Obj, labels: Mapping[str, str]) -> bool:
    """The pod's selector and required affinity, as far as they speak of labels that the flavor has."""
    if any(key in labels and labels[key] != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    narrowed = [[e for e in term.get("matchExpressions") or () if e["key"] in labels] for term in node_terms(spec)]
    if not narrowed or not all(narrowed):
        return True
    return matches_node_terms([{"matchExpressions": one} for one in narrowed], {"metadata": {"name": ""}}, labels)


def reserved(workload: Obj) -> dict[FlavorResource, float]:
    """What a Workload with a reservation holds, without what its finished pods have given back."""
    admission = dig(workload, "status", "admission", default={})
    chosen = {one["name"]: one.get("flavors") or {} for one in admission.get("podSetAssignments") or ()}
    found: dict[FlavorResource, float] = {}
    for entry in dig(workload, "spec", "podSets", default=[]):
        pods = _pod_set(entry, workload)
        for resource, flavor in chosen.get(pods.name, {}).items():
            key = (str(flavor), resource)
            found[key] = found.get(key, 0.0) + pods.usage.get(resource, 0.0)
    return found


def quantity(resource: str, value: float) -> str:
    """A number as Kueue writes it: memory and storage in binary units, cores down to thousandths."""
    binary = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return format_quantity(Fraction(round(value * 1000), 1000), "binary" if binary else "decimal")
