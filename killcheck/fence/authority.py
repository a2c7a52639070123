"""Who could launch past the pools: RBAC on Karpenter's own objects, and what Karpenter's cloud role may launch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from killcheck.cloud.iam import Access, PolicyError, launch
from killcheck.fence.account import Account
from killcheck.fence.pools import Pool
from killcheck.fence.rights import grants
from killcheck.instances.launchable import Launchable
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, annotations_of, name_of, namespace_of
from killcheck.kube.writers import writer_of

__all__ = ["claim_doors", "karpenter_role", "moved_by", "within_role"]

#: The annotation by which EKS gives a ServiceAccount its role.
_ROLE = "eks.amazonaws.com/role-arn"


def claim_doors(objects: Sequence[Obj], types: Launchable, allowed: int, possible: int) -> tuple[list[Pool], list[str]]:
    """(pools that stand for NodeClaims which others than Karpenter may create, notes on those who may do anything)."""
    pools, notes = [], []
    for grant in grants(objects):
        if grant.everything:
            text = f"{grant.subject} may do anything in the cluster ({grant.binding}), NodeClaims included"
            if text not in notes:
                notes.append(text)
            continue
        what = "create a NodeClaim" if grant.resource == "nodeclaims" else f"{grant.verb} {grant.resource}"
        what = f"{grant.means} ({what}), and so launch" if grant.means else what
        pools.append(
            Pool(
                f"RBAC/{grant.subject}/{grant.verb}-{grant.resource}",
                types,
                allowed,
                possible,
                door=f"{grant.subject} may {what} past every pool (binding {grant.binding})",
                remedy=f"take {grant.verb} on {grant.resource} out of what {grant.binding} grants",
                requirement=f"binding {grant.binding}",
            )
        )
    return pools, notes


#: What bounds a NodePool, and what whoever makes one writes.
_BOUNDS = (("spec", "limits"), ("spec", "template", "spec", "requirements"))
_MADE = ("spec", "template", "spec", "nodeClassRef")


def moved_by(objects: Iterable[Obj]) -> list[str]:
    """NodePools whose bounds somebody else wrote than who keeps the rest of them, a sentence each.

    Of a live cluster alone: manifests have no ``managedFields``.
    """
    found = []
    for pool in objects:
        keeper = writer_of(pool, *_MADE) if r.is_of(pool, r.NODEPOOLS) else None
        for path in _BOUNDS if keeper is not None else ():
            writer = writer_of(pool, *path)
            if writer is not None and keeper is not None and writer.manager != keeper.manager:
                found.append(
                    f"NodePool/{name_of(pool)}: {'.'.join(path)} was last written by {writer}; {keeper.manager} keeps "
                    "the rest"
                )
    return found


def karpenter_role(objects: Iterable[Obj]) -> str | None:
    """The cloud role of Karpenter's ServiceAccount (IRSA); None where the manifests do not say."""
    for one in objects:
        if one.get("kind") == "ServiceAccount" and name_of(one).startswith("karpenter"):
            role = annotations_of(one).get(_ROLE)
            if role and namespace_of(one):
                return role
    return None


def within_role(role: str, account: Account, types: Launchable, among: int) -> tuple[int, int, list[str]]:
    """(what the role may surely launch, what it possibly may, what is not known), of all types; all of them, where the
    role was not exported.

    ``surely`` keeps to what is allowed: an *undecided* type stays possible, unless the account is at hand and IAM's
    simulator decides it (asked about the types ``among`` alone).
    """
    access = account.access_of(role)
    if access is None:
        return types.all, types.all, [f"the role {role} was not exported"] if account.roles else []
    if account.unread_policies(role):
        names = ", ".join(account.unread_policies(role))
        return types.all, types.all, [f"the text of {names} was not exported"]
    sure = undecided = 0
    doubts: dict[str, str] = {}
    for one in types.types:
        effect, reason = _launch(one.name, access, account.region)
        bit = types.bits[one.name]
        if effect == "allowed":
            sure |= bit
        elif effect == "undecided":
            undecided |= bit
            doubts[one.name] = reason
    if account.simulator is not None and undecided & among and role.startswith("arn:"):
        wanted = [one.name for one in types.ordered(undecided & among, "devices")]
        for name, decision in account.simulator(role, wanted).items():
            if decision.effect == "undecided":
                doubts[name] = decision.reason
                continue
            del doubts[name]
            undecided &= ~types.bits[name]
            sure |= types.bits[name] if decision.effect == "allowed" else 0
    return sure, sure | undecided, list(dict.fromkeys(doubts.values()))


def _launch(name: str, access: Access, region: str) -> tuple[str, str]:
    try:
        decision = launch(name, access, by="CreateFleet", region=region)
    except PolicyError as error:
        return "undecided", str(error)
    return decision.effect, decision.reason
