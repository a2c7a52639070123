"""What bills although no Node stands for it, or comes back when it is off: ghosts, floors, requests, reservations.

Rows 45, 49, 50, 51 of the catalogue of failures. Reads only; what could not be read is told, as *unproven*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain, product
from typing import Any

from msgspec import Struct

from killcheck.cloud.instances import access_of, region_of
from killcheck.cloud.session import AskError, Aws, pages
from killcheck.instances.catalogue import Catalogue, shipped
from killcheck.spec.cloud_access import CloudAccess
from killcheck.text.values import replace

__all__ = ["Billed", "billed", "ghosts", "names_instances"]

_ON = ("pending", "running")


class Billed(Struct, frozen=True):
    """One thing that costs money, or will again. ``what``: ghost-gpu, cloud-floor, comes-back, unused-reservation.

    ``usd_per_hour`` None: not known. ``unproven``: the question could not be answered.
    """

    what: str
    object: str
    message: str
    remedy: str
    failures: tuple[int, ...]
    usd_per_hour: float | None = None
    unproven: bool = False
    #: When it was launched, where that is known.
    since: datetime | None = None


def billed(
    access: CloudAccess,
    provider_ids: Iterable[str],
    *,
    aws: Aws | None = None,
    catalogue: Catalogue | None = None,
    prices: Mapping[str, float] | None = None,
) -> list[Billed]:
    """Everything found; ``provider_ids`` are those of all Nodes and NodeClaims there are.

    Without ``cluster``, ``tags`` or ``launch_templates`` nobody can say which instances are the cluster's: unproven.
    """
    look = _Look(access, aws or access_of(access), set(provider_ids), catalogue or shipped(), dict(prices or {}))
    return [
        *_answers("ghost-gpu", look.ghosts),
        *_answers("comes-back", look.spot_requests),
        *_answers("cloud-floor", look.groups),
        *_answers("unused-reservation", look.reservations),
    ]


def names_instances(access: CloudAccess) -> bool:
    """Whether a spec says which instances belong to its cluster, Node or not."""
    return bool(access.cluster or access.tags or access.launch_templates)


def ghosts(
    access: CloudAccess,
    provider_ids: Iterable[str],
    *,
    aws: Aws,
    prices: Mapping[str, float] | None = None,
    stood: Iterable[str] = (),
) -> list[Billed]:
    """The cluster's instances with GPUs that are on although no Node and no NodeClaim stands for them.

    ``stood``: provider ids of machines that one stood for earlier; where they were, others may be.
    Raises AskError where EC2 could not be asked, or where nobody says which instances are the cluster's.
    """
    return list(_Look(access, aws, set(provider_ids), shipped(), dict(prices or {}), frozenset(stood)).ghosts())


def _answers(what: str, ask: Callable[[], Iterable[Billed]]) -> Iterator[Billed]:
    try:
        yield from list(ask())
    except AskError as error:
        yield Billed(
            what, "account", f"could not be asked: {error}", "Grant what ci/aws-policy.json lists.", (), unproven=True
        )


class _Look(Struct):
    access: CloudAccess
    aws: Aws
    known: set[str]
    catalogue: Catalogue
    prices: dict[str, float]
    stood: frozenset[str] = frozenset()

    # -- ghosts --------------------------------------------------------------------------------------------
    def ghosts(self) -> Iterator[Billed]:
        """Instances of the cluster that are on and that no Node and no NodeClaim stands for."""
        filters = list(self._filters())
        if not filters:
            raise AskError("which instances belong to the cluster is not said: give cluster, tags or launchTemplates")
        ids, seen = {one.rpartition("/")[2] for one in self.known}, set()
        on = {"Name": "instance-state-name", "Values": list(_ON)}
        for aws, wanted in product(self._places(), filters):
            for page in pages(aws, "ec2", "describe_instances", Filters=[*wanted, on]):
                for reservation in page["Reservations"]:
                    for one in reservation["Instances"]:
                        name = str(one["InstanceId"])
                        if name not in ids and name not in seen:
                            seen.add(name)
                            yield from self._ghost(one)

    def _places(self) -> list[Aws]:
        """Where the cluster's machines are: in the region that is said, else in each of its nodes' own."""
        regions = sorted({found for found in map(region_of, self.known | self.stood) if found})
        if self.aws.region or not regions:
            return [self.aws]
        return [replace(self.aws, region=region, _session=None, _clients={}) for region in regions]

    def _filters(self) -> Iterator[list[dict[str, Any]]]:
        """Karpenter and EKS tag their instances for the cluster; the groups' have their template's id."""
        if self.access.cluster:
            yield [{"Name": f"tag:kubernetes.io/cluster/{self.access.cluster}", "Values": ["owned"]}]
            yield [{"Name": "tag:eks:cluster-name", "Values": [self.access.cluster]}]
        if self.access.tags:
            yield [{"Name": f"tag:{key}", "Values": [value]} for key, value in sorted(self.access.tags.items())]
        for template in self.access.launch_templates:
            yield [{"Name": "tag:aws:ec2launchtemplate:id", "Values": [template]}]

    def _ghost(self, one: Mapping[str, Any]) -> Iterator[Billed]:
        kind, name = str(one["InstanceType"]), str(one["InstanceId"])
        devices = self._devices(kind)
        since = f"since {one['LaunchTime']:%Y-%m-%d %H:%M} UTC" if one.get("LaunchTime") else ""
        if devices is None:
            yield Billed(
                "ghost-gpu",
                name,
                f"{kind} is on {since} without a Node, and how many GPUs it has is not known",
                f"Give {kind} in a catalogue (fences.catalogues).",
                (49,),
                unproven=True,
            )
        elif devices:
            yield Billed(
                "ghost-gpu",
                name,
                f"{kind} ({devices} devices) is on {since}, tagged for this cluster, and no Node or NodeClaim stands "
                "for it",
                f"aws ec2 terminate-instances --instance-ids {name}, once you know what left it.",
                (49,),
                self._price(kind),
                since=one.get("LaunchTime"),
            )

    # -- what comes back -----------------------------------------------------------------------------------
    def spot_requests(self) -> Iterator[Billed]:
        """Persistent spot requests: what they launched comes back when it is terminated."""
        asked = (pages(aws, "ec2", "describe_spot_instance_requests") for aws in self._places())
        for page in chain.from_iterable(asked):
            for one in page["SpotInstanceRequests"]:
                kind = str((one.get("LaunchSpecification") or {}).get("InstanceType", ""))
                if one.get("Type") != "persistent" or one.get("State") not in ("open", "active"):
                    continue
                if kind and self._devices(kind) == 0:
                    continue
                yield Billed(
                    "comes-back",
                    str(one["SpotInstanceRequestId"]),
                    f"a persistent spot request for {kind or 'an unknown type'}: terminating its instance launches the "
                    "next",
                    "Cancel the request before its instance: aws ec2 cancel-spot-instance-requests "
                    f"--spot-instance-request-ids {one['SpotInstanceRequestId']}",
                    (50,),
                    self._price(kind),
                )

    def groups(self) -> Iterator[Billed]:
        """Floors of Auto Scaling groups, and settings that keep or bring back an instance."""
        asked = (pages(aws, "autoscaling", "describe_auto_scaling_groups") for aws in self._places())
        for page in chain.from_iterable(asked):
            for group in page["AutoScalingGroups"]:
                if self._ours(group):
                    yield from self._group(group)

    def _ours(self, group: Mapping[str, Any]) -> bool:
        tags = {str(tag.get("Key")): str(tag.get("Value")) for tag in group.get("Tags") or ()}
        name = self.access.cluster
        if name and (f"kubernetes.io/cluster/{name}" in tags or tags.get("eks:cluster-name") == name):
            return True
        wanted = self.access.tags.items()
        template = group.get("LaunchTemplate") or (
            (group.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
        ).get("LaunchTemplateSpecification")
        return (bool(wanted) and wanted <= tags.items()) or (
            (template or {}).get("LaunchTemplateId") in self.access.launch_templates
        )

    def _group(self, group: Mapping[str, Any]) -> Iterator[Billed]:
        name, kinds = str(group["AutoScalingGroupName"]), self._types(group)
        if kinds and not any(self._devices(kind) is None or self._devices(kind) for kind in kinds):
            return
        price = max((p for p in map(self._price, kinds) if p is not None), default=None)
        floor = int(group.get("MinSize") or 0)
        known = ", ".join(sorted(kinds)) or "types that are not known"
        if floor:
            yield Billed(
                "cloud-floor",
                name,
                f"its minimum is {floor}: that many of {known} stay on for good",
                f"aws autoscaling update-auto-scaling-group --auto-scaling-group-name {name} --min-size 0",
                (45,),
                None if price is None else price * floor,
            )
        suspended = {str(one.get("ProcessName")) for one in group.get("SuspendedProcesses") or ()}
        if "Terminate" in suspended:
            yield Billed(
                "comes-back",
                name,
                "its Terminate process is suspended: a lower desired size removes nothing",
                f"aws autoscaling resume-processes --auto-scaling-group-name {name} --scaling-processes Terminate",
                (50,),
            )
        if group.get("NewInstancesProtectedFromScaleIn"):
            yield Billed(
                "comes-back",
                name,
                "new instances are protected from scale-in: a lower desired size removes none",
                "Unset NewInstancesProtectedFromScaleIn, and the protection of those that are on.",
                (50,),
            )
        pool = group.get("WarmPoolConfiguration") or {}
        if pool.get("PoolState") == "Running":
            yield Billed(
                "cloud-floor",
                name,
                "its warm pool keeps instances running: they bill beside the group's own",
                "Let the pool keep them Stopped or Hibernated, or delete it.",
                (45,),
            )
        # A ReplaceUnhealthy group puts back what is terminated behind its back, as long as it wants it.
        if int(group.get("DesiredCapacity") or 0) > floor and "ReplaceUnhealthy" not in suspended:
            yield Billed(
                "comes-back",
                name,
                f"it wants {group['DesiredCapacity']}: an instance that is terminated without lowering that is "
                "replaced",
                "Turn off through the group: terminate-instance-in-auto-scaling-group "
                "--should-decrement-desired-capacity, or set-desired-capacity.",
                (50,),
                price,
            )

    @staticmethod
    def _types(group: Mapping[str, Any]) -> set[str]:
        found = {str(one["InstanceType"]) for one in group.get("Instances") or () if one.get("InstanceType")}
        overrides = ((group.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}).get("Overrides") or ()
        return found | {str(one["InstanceType"]) for one in overrides if one.get("InstanceType")}

    # -- reservations --------------------------------------------------------------------------------------
    def reservations(self) -> Iterator[Billed]:
        """Capacity reservations of accelerated types that nothing uses: they bill as if something did."""
        active = [{"Name": "state", "Values": ["active"]}]
        asked = (pages(aws, "ec2", "describe_capacity_reservations", Filters=active) for aws in self._places())
        for page in chain.from_iterable(asked):
            for one in page["CapacityReservations"]:
                kind, free = str(one["InstanceType"]), int(one.get("AvailableInstanceCount") or 0)
                if not free or self._devices(kind) == 0:
                    continue
                price = self._price(kind)
                yield Billed(
                    "unused-reservation",
                    str(one["CapacityReservationId"]),
                    f"{free} of {one.get('TotalInstanceCount')} reserved {kind} are unused and billed",
                    f"aws ec2 cancel-capacity-reservation --capacity-reservation-id {one['CapacityReservationId']}",
                    (51,),
                    None if price is None else price * free,
                )

    # -- inside --------------------------------------------------------------------------------------------
    def _devices(self, kind: str) -> int | None:
        found = self.catalogue.get(kind)
        return None if found is None else found.devices

    def _price(self, kind: str) -> float | None:
        found = self.catalogue.get(kind)
        return self.prices.get(kind, found.usd_per_hour if found else None)
