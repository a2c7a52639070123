"""Fences with an account at hand: what AWS itself says where the offline evaluation cannot decide.

An account that is asked is exported as its files would be; what its policies leave *undecided* goes to IAM's simulator,
and what the caller's own credentials may launch is tried with ``DryRun``. What cannot be asked stays undecided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from killcheck.cloud.ask import AskError, dry_run, export, simulate
from killcheck.cloud.iam import Decision
from killcheck.cloud.session import Aws
from killcheck.fence.account import Account
from killcheck.fence.ceiling import Ceiling
from killcheck.fence.pools import Pool
from killcheck.instances.catalogue import Catalogue
from killcheck.instances.launchable import launchable
from killcheck.text.values import replace

__all__ = ["account_of", "own_door"]

#: More types than this are not asked about one by one: what is beyond stays undecided, and says so.
ASKED = 400


def account_of(aws: Aws, cluster: str = "") -> Account:
    """What the account says of itself. Raises AskError where a part of it may not be read."""
    account = Account.of(export(aws, cluster))
    account.region = aws.region
    account.simulator = partial(_simulated, aws)
    return account


def _simulated(aws: Aws, principal: str, names: Iterable[str]) -> Mapping[str, Decision]:
    """What the simulator says of each type; of those that it could not be asked about: why."""
    found: dict[str, Decision] = {}
    asked = list(names)
    for number, name in enumerate(asked):
        if number >= ASKED:
            found[name] = Decision("undecided", f"the simulator was asked about {ASKED} of {len(asked)} types only")
            continue
        try:
            found |= simulate(aws, principal, [name], region=aws.region)
        except AskError as error:
            return found | {left: Decision("undecided", str(error)) for left in asked[number:]}
    return found


def own_door(aws: Aws, image: str, subnet: str, catalogue: Catalogue, ceiling: Ceiling) -> Pool:
    """The caller's own credentials as a door: each type above the ceiling is tried with RunInstances and DryRun."""
    types = launchable(catalogue)
    over = types.mask(one for one in types.types if _over(one.devices, one.name, ceiling))
    certain = possible = 0
    doubts: list[str] = []
    for number, one in enumerate(types.ordered(over, "devices")):
        bit = types.bits[one.name]
        decision = (
            _tried(aws, one.name, image, subnet)
            if number < ASKED
            else Decision("undecided", f"{ASKED} of {over.bit_count()} types were tried")
        )
        if not decision.denied:
            possible |= bit
        if decision.effect == "allowed":
            certain |= bit
        elif not decision.denied and decision.reason not in doubts:
            doubts.append(decision.reason)
    pool = Pool(
        "Credentials/own",
        types,
        certain,
        possible,
        max_nodes=float("inf"),
        undecided=tuple(doubts),
        door="these credentials may launch it without any pool (RunInstances with DryRun)",
        remedy="deny ec2:RunInstances on instance types above the ceiling, by policy or SCP",
        requirement="the caller's IAM policies",
        notes=(f"{over.bit_count()} types above the ceiling were tried with DryRun: nothing was launched",),
    )
    return replace(pool, unknown=("no type is above the ceiling on devices: nothing was tried",)) if not over else pool


def _over(devices: int, name: str, ceiling: Ceiling) -> bool:
    most = [bound for bound in (ceiling.max_devices_per_node, ceiling.max_devices) if bound is not None]
    return ceiling.forbids(name) or bool(most and devices > min(most))


def _tried(aws: Aws, name: str, image: str, subnet: str) -> Decision:
    try:
        return dry_run(aws, name, image, subnet)
    except AskError as error:
        return Decision("undecided", str(error))
