"""Who may start a target from outside: accounts, users and groups that a binding lets, and as which nothing here runs.

A pipeline's account, an on-call group, a bot of another repository: nobody here knows when they act. That is said in
one line, and opens nothing: somebody may always start what he may start.
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.entries import Entry, Status
from killcheck.kube.objects import Obj
from killcheck.kube.permissions import Permissions
from killcheck.ledger import identities, rights
from killcheck.ledger.stakes import Stakes, home_of

__all__ = ["entries"]

#: So many are named.
_NAMED = 5
#: The account that stands for somebody else while it is asked what he may do.
_ANYBODY = "killcheck-anybody"


def entries(stakes: Stakes) -> Iterator[Entry]:
    """One line for all of them; none where there is nobody."""
    found = list(dict.fromkeys(_outsiders(stakes)))
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        said = (
            f"{', '.join(found[:_NAMED])}{more} may turn a target on, as nobody here does: taken not to do it at night"
        )
        yield Entry("who may start from outside", Status.ASSUMED, said)


def _outsiders(stakes: Stakes) -> Iterator[str]:
    named = {one for obj in stakes.objects for one in identities.named_in(obj, stakes)}
    roles = [obj for obj in stakes.objects if str(obj.get("kind")).endswith("Role")]
    for binding in stakes.objects:
        if not str(binding.get("kind")).endswith("RoleBinding"):
            continue
        for subject in binding.get("subjects") or ():
            kind, name = str(subject.get("kind")), str(subject.get("name"))
            home = str(subject.get("namespace") or home_of(binding)) if kind == "ServiceAccount" else ""
            inside = kind == "ServiceAccount" and ((home, name) in named or stakes.run_as(home, name))
            if not (inside or name.startswith("system:")) and _may(binding, roles, stakes):
                yield f"{kind} {home}/{name}" if home else f"{kind} {name}"


def _may(binding: Obj, roles: list[Obj], stakes: Stakes) -> bool:
    """Whether whom a binding names may write a target, or its scale."""
    from killcheck.embedded import roles as usual

    anybody = {"kind": "ServiceAccount", "name": _ANYBODY, "namespace": _ANYBODY}
    permissions = Permissions([*usual(), *roles, {**binding, "subjects": [anybody]}])
    return any(how for held in stakes.targets for how in rights.of_target(permissions, _ANYBODY, _ANYBODY, held))
