"""Dynamic resource allocation: which devices on which node satisfy a pod's ResourceClaims.

Source: pkg/scheduler/framework/plugins/dynamicresources and k8s.io/dynamic-resource-allocation/structured of Kubernetes
v1.36; recording 32. Not modelled: shared counters and consumable capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from killcheck.embedded.controllers.scheduler import cel
from killcheck.embedded.controllers.scheduler.filters import matches_node_terms, tolerates
from killcheck.embedded.controllers.scheduler.nodes import NodeInfo, Reject
from killcheck.kube.objects import Obj, dig, name_of, uid_of

__all__ = ["ClaimCheck", "claim_names", "in_use"]

_CANNOT = Reject("DynamicResources", ("cannot allocate all claims",))
_ELSEWHERE = Reject("DynamicResources", ("resourceclaim not available on the node",))
#: So many pods may share a claim.
MAX_RESERVED = 256

#: (driver, pool, device).
DeviceId = tuple[str, str, str]


def claim_names(pod: Obj) -> list[str | None]:
    """The ResourceClaims that a pod uses; None for one that is still to be made from its template."""
    made = {
        entry["name"]: entry.get("resourceClaimName") or ""
        for entry in dig(pod, "status", "resourceClaimStatuses", default=[])
    }
    names: list[str | None] = []
    for entry in pod["spec"].get("resourceClaims") or ():
        name = entry.get("resourceClaimName") or made.get(entry["name"])
        if name != "":
            names.append(name)
    return names


def in_use(claims: Iterable[Obj]) -> set[DeviceId]:
    """The devices that allocated claims hold."""
    found = set()
    for claim in claims:
        for result in dig(claim, "status", "allocation", "devices", "results", default=[]):
            if not result.get("adminAccess"):
                found.add((result["driver"], result["pool"], result["device"]))
    return found


class _Want(Struct, frozen=True):
    """One device to be found: for which request, from which class, under which selectors."""

    request: str
    device_class: str
    selectors: tuple[str, ...]
    tolerations: tuple[Obj, ...]
    admin: bool


class _Device(Struct, frozen=True):
    """A device and where it is."""

    driver: str
    pool: str
    raw: Obj

    @property
    def identity(self) -> DeviceId:
        """How an allocation names it."""
        return self.driver, self.pool, str(self.raw["name"])


class ClaimCheck:
    """The claims of one pod. ``problem`` refuses it everywhere."""

    def __init__(
        self,
        pod: Obj,
        claims: list[Obj],
        classes: Callable[[str], Obj | None],
        slices: Callable[[], Iterable[Obj]],
        taken: Callable[[], set[DeviceId]],
    ) -> None:
        self.pod = pod
        self.claims = claims
        self.classes = classes
        self.problem: str | None = None
        self.fresh = [claim for claim in claims if not dig(claim, "status", "allocation")]
        self._slices = slices
        self._taken: set[DeviceId] = set()
        self._fitting: dict[tuple[_Want, DeviceId], bool] = {}
        self._found: dict[str, list[Obj]] = {}
        for claim in claims:
            self.problem = self.problem or self._judge(claim)
        if self.fresh and not self.problem:
            self._taken = taken()

    def _judge(self, claim: Obj) -> str | None:
        if "deletionTimestamp" in claim["metadata"]:
            return f'resourceclaim "{name_of(claim)}" is being deleted'
        if dig(claim, "status", "allocation"):
            reserved = dig(claim, "status", "reservedFor", default=[])
            mine = any(entry["uid"] == uid_of(self.pod) for entry in reserved)
            return None if mine or len(reserved) < MAX_RESERVED else "resourceclaim in use"
        for request in dig(claim, "spec", "devices", "requests", default=[]):
            for choice in _choices(request):
                name = choice.get("deviceClassName", "")
                if self.classes(name) is None:
                    return f"request {_request_name(request, choice)}: device class {name} does not exist"
        return None

    def check(self, at: NodeInfo) -> Reject | None:
        """None: every claim is, or can be, satisfied on the node."""
        if not self.claims:
            return None
        for claim in self.claims:
            terms = dig(claim, "status", "allocation", "nodeSelector", "nodeSelectorTerms")
            if terms and not matches_node_terms(terms, at.node or {}, at.labels):
                return _ELSEWHERE
        if not self.fresh:
            return None
        found = self._allocate(at)
        if found is None:
            return _CANNOT
        self._found[at.name] = found
        return None

    def allocations(self, node: str) -> list[tuple[Obj, Obj]]:
        """What each fresh claim would get on a node that was checked."""
        return list(zip(self.fresh, self._found.get(node, ()), strict=True)) if self.fresh else []

    # -- allocation ----------------------------------------------------------------------------------------
    def _allocate(self, at: NodeInfo) -> list[Obj] | None:
        devices = list(self._devices_for(at))
        taken = set(self._taken)
        results = []
        for claim in self.fresh:
            chosen = self._satisfy(claim, devices, taken)
            if chosen is None:
                return None
            taken |= {device.identity for want, device in chosen if not want.admin}
            results.append(_allocation(chosen, at.name))
        return results

    def _devices_for(self, at: NodeInfo) -> Iterator[_Device]:
        """What the newest generation of every pool offers on a node."""
        newest: dict[tuple[str, str], int] = {}
        for piece in self._slices():
            pool = (piece["spec"]["driver"], dig(piece, "spec", "pool", "name", default=""))
            newest[pool] = max(newest.get(pool, 0), int(dig(piece, "spec", "pool", "generation", default=0)))
        for piece in self._slices():
            spec = piece["spec"]
            pool = (spec["driver"], dig(spec, "pool", "name", default=""))
            if int(dig(spec, "pool", "generation", default=0)) != newest[pool]:
                continue
            for raw in spec.get("devices") or ():
                if _reachable(raw if spec.get("perDeviceNodeSelection") else spec, at):
                    yield _Device(*pool, raw)

    def _satisfy(
        self,
        claim: Obj,
        devices: list[_Device],
        taken: set[DeviceId],
    ) -> list[tuple[_Want, _Device]] | None:
        constraints = [
            (frozenset(entry.get("requests") or ()), entry["matchAttribute"])
            for entry in dig(claim, "spec", "devices", "constraints", default=[])
            if entry.get("matchAttribute")
        ]
        for wants in self._ways(dig(claim, "spec", "devices", "requests", default=[]), devices, taken):
            found = self._search(wants, devices, taken, constraints, [])
            if found is not None:
                return found
        return None

    def _ways(
        self,
        requests: list[Obj],
        devices: list[_Device],
        taken: set[DeviceId],
    ) -> Iterator[list[_Want]]:
        """Every combination of first, second ... choices; one want for each device."""
        if not requests:
            yield []
            return
        first, rest = requests[0], requests[1:]
        for choice in _choices(first):
            want = _Want(
                _request_name(first, choice),
                choice.get("deviceClassName", ""),
                tuple(_selectors(choice)),
                _Tolerations(choice.get("tolerations") or ()),
                bool(choice.get("adminAccess")),
            )
            count = int(choice.get("count") or 1)
            if choice.get("allocationMode") == "All":
                fitting = [device for device in devices if self._fits(want, device)]
                if not fitting or any(device.identity in taken for device in fitting):
                    continue
                count = len(fitting)
            for others in self._ways(rest, devices, taken):
                yield [want] * count + others

    def _search(
        self,
        wants: list[_Want],
        devices: list[_Device],
        taken: set[DeviceId],
        constraints: list[tuple[frozenset[str], str]],
        chosen: list[tuple[_Want, _Device]],
    ) -> list[tuple[_Want, _Device]] | None:
        if len(chosen) == len(wants):
            return list(chosen)
        want = wants[len(chosen)]
        used = {device.identity for _, device in chosen}
        for device in devices:
            busy = device.identity in used or (device.identity in taken and not want.admin)
            if busy or not self._fits(want, device) or not _agrees(want, device, constraints, chosen):
                continue
            found = self._search(wants, devices, taken, constraints, [*chosen, (want, device)])
            if found is not None:
                return found
        return None

    def _fits(self, want: _Want, device: _Device) -> bool:
        key = (want, device.identity)
        known = self._fitting.get(key)
        if known is None:
            known = self._fitting[key] = self._judge_device(want, device)
        return known

    def _judge_device(self, want: _Want, device: _Device) -> bool:
        for taint in (device.raw.get("basic") or device.raw).get("taints") or ():
            if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(want.tolerations, taint):
                return False
        device_class = self.classes(want.device_class) or {}
        expressions = [*_selectors(device_class.get("spec") or {}), *want.selectors]
        return all(cel.matches(expression, device.driver, device.raw) for expression in expressions)


class _Tolerations(tuple[Any, ...]):
    """Tolerations that can stand in a key: equal where they say the same."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(str(tuple(self)))


def _choices(request: Obj) -> list[Obj]:
    """The alternatives of a request (v1 wraps a single one in ``exactly``, v1beta1 does not)."""
    return list(request.get("firstAvailable") or [request.get("exactly") or request])


def _request_name(request: Obj, choice: Obj) -> str:
    name = str(request["name"])
    return f"{name}/{choice['name']}" if request.get("firstAvailable") else name


def _selectors(holder: Obj) -> Iterator[str]:
    for selector in holder.get("selectors") or ():
        expression = dig(selector, "cel", "expression")
        if expression:
            yield expression


def _reachable(where: Mapping[str, Any], at: NodeInfo) -> bool:
    if where.get("nodeName"):
        return bool(where["nodeName"] == at.name)
    terms = dig(where, "nodeSelector", "nodeSelectorTerms")
    if terms:
        return matches_node_terms(terms, at.node or {}, at.labels)
    return bool(where.get("allNodes"))


def _agrees(
    want: _Want,
    device: _Device,
    constraints: list[tuple[frozenset[str], str]],
    chosen: list[tuple[_Want, _Device]],
) -> bool:
    """``matchAttribute``: the devices of the requests it names have one value in common."""
    for requests, attribute in constraints:
        if requests and want.request.partition("/")[0] not in requests and want.request not in requests:
            continue
        value = _attribute(device, attribute)
        if value is None:
            return False
        for other, its in chosen:
            meant = not requests or other.request.partition("/")[0] in requests or other.request in requests
            if meant and _attribute(its, attribute) != value:
                return False
    return True


def _attribute(device: _Device, name: str) -> Any:
    attributes = (device.raw.get("basic") or device.raw).get("attributes") or {}
    domain, _, short = name.rpartition("/")
    return attributes.get(name, attributes.get(short) if domain == device.driver else None)


def _allocation(chosen: list[tuple[_Want, _Device]], node: str) -> Obj:
    results = []
    for want, device in chosen:
        driver, pool, name = device.identity
        result = {"request": want.request, "driver": driver, "pool": pool, "device": name}
        results.append(result | ({"adminAccess": True} if want.admin else {}))
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }


def reservation(pod: Obj) -> Obj:
    """The entry of ``status.reservedFor`` that says that a pod uses a claim."""
    return {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
