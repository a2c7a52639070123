"""How a Deployment's replicas are divided among its ReplicaSets: rolling updates, and scaling in the middle of one.

Source: pkg/controller/deployment/{rolling,sync}.go and util/deployment_util.go of Kubernetes v1.36; recording 30.
"""

from __future__ import annotations

from killcheck.embedded.controllers.events import EventRecorder
from killcheck.embedded.controllers.revisions import scaled
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, annotations_of, dig, name_of

__all__ = [
    "DESIRED",
    "MAXIMUM",
    "Sizes",
    "grow_new",
    "is_scaling",
    "max_surge",
    "max_unavailable",
    "new_size",
    "scale",
    "shrink_old",
    "size_annotations",
]

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


def is_rolling(d: Obj) -> bool:
    """Whether the strategy is RollingUpdate."""
    return bool(dig(d, "spec", "strategy", "type", default="RollingUpdate") == "RollingUpdate")


def _fenceposts(d: Obj) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) as counts; never both zero."""
    rolling = dig(d, "spec", "strategy", "rollingUpdate", default={})
    desired = int(d["spec"]["replicas"])
    surge = scaled(rolling.get("maxSurge", "25%"), desired, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), desired, up=False)
    return surge, unavailable if surge or unavailable else 1


def max_surge(d: Obj) -> int:
    """How many pods more than desired there may be."""
    return _fenceposts(d)[0] if is_rolling(d) else 0


def max_unavailable(d: Obj) -> int:
    """How many pods less than desired may be available."""
    desired = int(d["spec"]["replicas"])
    if not is_rolling(d) or not desired:
        return 0
    return min(_fenceposts(d)[1], desired)


def size_annotations(d: Obj) -> dict[str, str]:
    """What a ReplicaSet remembers of the Deployment's size when it was last scaled."""
    desired = int(d["spec"]["replicas"])
    return {DESIRED: str(desired), MAXIMUM: str(desired + max_surge(d))}


def total(sets: list[Obj]) -> int:
    """The sum of ``spec.replicas``."""
    return sum(int(rs["spec"].get("replicas", 0)) for rs in sets)


def available(sets: list[Obj]) -> int:
    """The sum of ``status.availableReplicas``."""
    return sum(int(dig(rs, "status", "availableReplicas", default=0)) for rs in sets)


def new_size(d: Obj, sets: list[Obj], current: int) -> int:
    """How many replicas the newest ReplicaSet may have now; ``sets`` are all there are."""
    desired = int(d["spec"]["replicas"])
    if not is_rolling(d):
        return desired
    room = desired + max_surge(d) - total(sets)
    return current if room <= 0 else current + min(room, desired - current)


class Sizes:
    """Writes the sizes of one Deployment's ReplicaSets, with the events that tell of it."""

    def __init__(self, kube: Kube, events: EventRecorder, d: Obj) -> None:
        self.kube = kube
        self.events = events
        self.d = d

    def set(self, rs: Obj, size: int, *, annotate: bool = False) -> Obj:
        """Scale ``rs``; with ``annotate`` also where only the remembered sizes are stale. Raises ApiError."""
        before = int(rs["spec"].get("replicas", 0))
        wanted = size_annotations(self.d)
        stale = not wanted.items() <= annotations_of(rs).items()
        if before == size and not (annotate and stale):
            return rs
        meta = rs["metadata"] | {"annotations": annotations_of(rs) | wanted}
        written = self.kube.replace(r.REPLICASETS, rs | {"metadata": meta, "spec": rs["spec"] | {"replicas": size}})
        if before != size:
            way = "up" if before < size else "down"
            message = f"Scaled {way} replica set {name_of(rs)} from {before} to {size}"
            self.events.emit(self.d, "Normal", "ScalingReplicaSet", message)
        return written


def is_scaling(d: Obj, sets: list[Obj]) -> bool:
    """Whether the Deployment was scaled since its ReplicaSets were last sized."""
    for rs in sets:
        desired = annotations_of(rs).get(DESIRED, "")
        if int(rs["spec"].get("replicas", 0)) and desired.isdigit() and int(desired) != int(d["spec"]["replicas"]):
            return True
    return False


# -- a rolling update --------------------------------------------------------------------------------------
def grow_new(sizes: Sizes, new: Obj, old: list[Obj]) -> bool:
    """One step up for the newest ReplicaSet (down, if it is too large); whether it was scaled."""
    desired, current = int(sizes.d["spec"]["replicas"]), int(new["spec"]["replicas"])
    if current == desired:
        return False
    size = desired if current > desired else new_size(sizes.d, [*old, new], current)
    sizes.set(new, size)
    return size != current


def shrink_old(sizes: Sizes, new: Obj, old: list[Obj]) -> bool:
    """One step down for the old ReplicaSets: what is not available first; whether any was scaled."""
    d = sizes.d
    active = sorted((rs for rs in old if int(rs["spec"]["replicas"])), key=_age)
    if not active:
        return False
    least = int(d["spec"]["replicas"]) - max_unavailable(d)
    unavailable = int(new["spec"]["replicas"]) - available([new])
    room = total([*old, new]) - least - unavailable
    if room <= 0:
        return False
    cleaned, active = _clean_unhealthy(sizes, active, room)
    return cleaned + _shrink_healthy(sizes, active, new, least) > 0


def _clean_unhealthy(sizes: Sizes, active: list[Obj], room: int) -> tuple[int, list[Obj]]:
    done, result = 0, []
    for rs in active:
        size, healthy = int(rs["spec"]["replicas"]), available([rs])
        surplus = min(room - done, size - healthy)
        if surplus > 0:
            rs = sizes.set(rs, size - surplus)
            done += surplus
        result.append(rs)
    return done, result


def _shrink_healthy(sizes: Sizes, active: list[Obj], new: Obj, least: int) -> int:
    room = available([*active, new]) - least
    done = 0
    for rs in active:
        size = int(rs["spec"]["replicas"])
        surplus = min(size, room - done)
        if surplus > 0:
            sizes.set(rs, size - surplus)
            done += surplus
    return done


# -- scaling in the middle of a rollout --------------------------------------------------------------------
def scale(sizes: Sizes, new: Obj | None, old: list[Obj]) -> tuple[Obj | None, list[Obj]]:
    """Follow a change of the Deployment's size; returns the ReplicaSets as they are then."""
    d = sizes.d
    desired = int(d["spec"]["replicas"])
    sets = [*old, new] if new is not None else list(old)
    active = [rs for rs in sets if int(rs["spec"]["replicas"])]
    single = _active_or_latest(new, old, active)
    wanted: dict[str, int] = {}
    annotate = False
    if single is not None:
        wanted = {name_of(single): desired}
    elif new is not None and _saturated(d, new):
        wanted = {name_of(rs): 0 for rs in old if int(rs["spec"]["replicas"])}
    elif is_rolling(d):
        wanted, annotate = _proportional(d, active), True
    result = [sizes.set(rs, wanted[name_of(rs)], annotate=annotate) if name_of(rs) in wanted else rs for rs in sets]
    return (result[-1], result[:-1]) if new is not None else (None, result)


def _active_or_latest(new: Obj | None, old: list[Obj], active: list[Obj]) -> Obj | None:
    if len(active) == 1:
        return active[0]
    if active:
        return None
    return new if new is not None else max(old, key=_age, default=None)


def _saturated(d: Obj, rs: Obj) -> bool:
    desired = int(d["spec"]["replicas"])
    return (
        int(rs["spec"]["replicas"]) == desired
        and annotations_of(rs).get(DESIRED) == str(desired)
        and available([rs]) == desired
    )


def _proportional(d: Obj, active: list[Obj]) -> dict[str, int]:
    """The change divided among the active ReplicaSets by their sizes; what is left over goes to the largest."""
    desired = int(d["spec"]["replicas"])
    change = (desired + max_surge(d) if desired else 0) - total(active)
    ages = sorted(active, key=_age, reverse=change > 0)
    largest_first = sorted(ages, key=lambda rs: -int(rs["spec"]["replicas"]))
    wanted: dict[str, int] = {}
    done = 0
    for rs in largest_first:
        share = _fraction(d, rs) if change and change != done else 0
        share = min(share, change - done) if change > 0 else max(share, change - done)
        wanted[name_of(rs)] = int(rs["spec"]["replicas"]) + share
        done += share
    if change and largest_first:
        first = name_of(largest_first[0])
        wanted[first] = max(0, wanted[first] + change - done)
    return wanted


def _fraction(d: Obj, rs: Obj) -> int:
    size, desired = int(rs["spec"]["replicas"]), int(d["spec"]["replicas"])
    if not desired:
        return -size
    text = annotations_of(rs).get(MAXIMUM, "")
    before = int(text) if text.isdigit() and int(text) else int(dig(d, "status", "replicas", default=0))
    if not before:
        return 0
    grown = size * (desired + max_surge(d)) / before
    return int(grown + 0.5) - size


def _age(rs: Obj) -> tuple[str, str]:
    return str(rs["metadata"].get("creationTimestamp") or ""), name_of(rs)
