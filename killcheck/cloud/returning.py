"""What brings a machine back once it is off, or goes on billing for it: its spot request, its group, its reservation.

Asked about the very machines that were turned off, and only of what each of them names: a one-time request, a group
that wants no more, a reservation that somebody else uses now are no such thing. Rows 45, 50, 51 of the catalogue of
failures. Reads only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from killcheck.cloud.session import AskError, Aws, pages

__all__ = ["GROUP_TAG", "members", "returning"]

#: The tag that Auto Scaling puts on what it launches.
GROUP_TAG = "aws:autoscaling:groupName"
#: Values in one filter (EC2 API reference: at most 200), and names in one question to Auto Scaling (100).
BATCH, GROUPS = 200, 100


def members(aws: Aws, machines: Iterable[Mapping[str, Any]]) -> dict[str, frozenset[str]]:
    """The instances of each Auto Scaling group that one of the machines (EC2's descriptions) is in. Raises AskError."""
    found = _described(aws, {name for one in machines if (name := _tags(one).get(GROUP_TAG))})
    return {
        name: frozenset(str(one.get("InstanceId")) for one in group.get("Instances") or ())
        for name, group in found.items()
    }


def returning(
    aws: Aws,
    gone: Iterable[Mapping[str, Any]],
    before: Mapping[str, Collection[str]] | None = None,
) -> Iterator[tuple[str, str]]:
    """(what is so, what to do about it) for each; ``gone`` are EC2's descriptions of the machines that are off.

    ``before``: who was in which group before they went off, see :func:`members`; what has come since took their place.
    Raises AskError where one of the questions could not be asked, or was not answered.
    """
    gone = list(gone)
    yield from _requests(aws, {str(one["SpotInstanceRequestId"]) for one in gone if one.get("SpotInstanceRequestId")})
    yield from _groups(
        aws,
        {name for one in gone if (name := _tags(one).get(GROUP_TAG))},
        {str(one["InstanceId"]) for one in gone},
        before or {},
    )
    yield from _reservations(
        aws, {str(one["CapacityReservationId"]) for one in gone if one.get("CapacityReservationId")}
    )


def _unlisted(wanted: Iterable[str], found: Collection[str], what: str) -> None:
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise AskError(f"AWS does not list {what} {', '.join(missing)}: whether it is over is not known")


def _batches(names: Iterable[str], size: int) -> Iterator[list[str]]:
    ordered = sorted(names)
    yield from (ordered[start : start + size] for start in range(0, len(ordered), size))


def _requests(aws: Aws, ids: set[str]) -> Iterator[tuple[str, str]]:
    found: dict[str, Mapping[str, Any]] = {}
    for some in _batches(ids, BATCH):
        wanted = [{"Name": "spot-instance-request-id", "Values": some}]
        for page in pages(aws, "ec2", "describe_spot_instance_requests", Filters=wanted):
            found |= {str(one["SpotInstanceRequestId"]): one for one in page["SpotInstanceRequests"]}
    _unlisted(ids, found, "spot request")
    for name, one in sorted(found.items()):
        if one.get("Type") == "persistent" and one.get("State") in ("open", "active"):
            yield (
                f"spot request {name} is persistent and {one['State']}: it launches the next instance",
                f"Cancel it first: aws ec2 cancel-spot-instance-requests --spot-instance-request-ids {name}",
            )


def _tags(machine: Mapping[str, Any]) -> dict[str, str]:
    return {str(tag["Key"]): str(tag["Value"]) for tag in machine.get("Tags") or ()}


def _described(aws: Aws, names: set[str]) -> dict[str, Mapping[str, Any]]:
    """Auto Scaling groups by name; one that was deleted is not listed any more, and brings nothing back."""
    found: dict[str, Mapping[str, Any]] = {}
    for some in _batches(names, GROUPS):
        for page in pages(aws, "autoscaling", "describe_auto_scaling_groups", AutoScalingGroupNames=some):
            found |= {str(one["AutoScalingGroupName"]): one for one in page["AutoScalingGroups"]}
    return found


def _groups(
    aws: Aws,
    names: set[str],
    gone: set[str],
    before: Mapping[str, Collection[str]],
) -> Iterator[tuple[str, str]]:
    for name, one in sorted(_described(aws, names).items()):
        there = {
            str(member.get("InstanceId"))
            for member in one.get("Instances") or ()
            if not str(member.get("LifecycleState", "")).startswith("Terminat")
        }
        fresh = sorted(there - gone - set(before[name])) if name in before else []
        if fresh:
            yield (
                f"Auto Scaling group {name} has launched {', '.join(fresh)} in place of what was turned off",
                "Lower what it wants, which terminates it: aws autoscaling set-desired-capacity "
                f"--auto-scaling-group-name {name} --desired-capacity {len(there - gone) - len(fresh)} "
                f"(its minimum is {one.get('MinSize', 0)})",
            )
        if "Launch" in {str(process.get("ProcessName")) for process in one.get("SuspendedProcesses") or ()}:
            continue
        has = there - gone
        wants = int(one.get("DesiredCapacity") or 0)
        if wants > len(has):
            yield (
                f"Auto Scaling group {name} wants {wants} and has {len(has)}: it launches the rest",
                f"Lower what it wants: aws autoscaling set-desired-capacity --auto-scaling-group-name {name} "
                f"--desired-capacity {len(has)} (its minimum is {one.get('MinSize', 0)})",
            )


def _reservations(aws: Aws, ids: set[str]) -> Iterator[tuple[str, str]]:
    found: dict[str, Mapping[str, Any]] = {}
    for some in _batches(ids, BATCH):
        for page in pages(aws, "ec2", "describe_capacity_reservations", CapacityReservationIds=some):
            found |= {str(one["CapacityReservationId"]): one for one in page["CapacityReservations"]}
    _unlisted(ids, found, "capacity reservation")
    for name, one in sorted(found.items()):
        unused = int(one.get("AvailableInstanceCount") or 0)
        # A capacity block is paid in advance, used or not.
        if one.get("State") == "active" and unused and one.get("ReservationType") != "capacity-block":
            yield (
                f"capacity reservation {name} is active: {unused} of {one.get('TotalInstanceCount')} "
                f"{one.get('InstanceType')} are unused and billed",
                f"Cancel it: aws ec2 cancel-capacity-reservation --capacity-reservation-id {name}",
            )
