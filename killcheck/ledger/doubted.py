"""What models did not know while a drill ran: open where it touches the path, said where it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from killcheck.entries import Doubt, Entry, Status
from killcheck.kube.furniture import is_gitops
from killcheck.kube.objects import Obj, ref_of
from killcheck.ledger import workloads
from killcheck.ledger.references import concern
from killcheck.ledger.stakes import Stakes, home_of

__all__ = ["entries"]

_SETTLES = (
    "drill it on a cluster where its controller runs (--on CONTEXT), or say under assume: why it turns nothing on"
)


def entries(doubts: Sequence[Doubt], stakes: Stakes) -> Iterator[Entry]:
    """An entry for each doubt. One without an object is about the path itself."""
    for doubt in doubts:
        about = doubt.about or "what was not run"
        if not doubt.may_be_on:
            yield Entry(about, Status.ASSUMED, f"{doubt.said}; it could only be off where it is on here")
        elif not doubt.about or _touches(doubt.about, stakes):
            yield Entry(about, Status.NOT_MODELLED, doubt.said, doubt.settles or _SETTLES)
        else:
            yield Entry(about, Status.HARMLESS, f"{doubt.said}; it has no part in this path", told=True)


def _touches(ref: str, stakes: Stakes) -> bool:
    """Whether an object is a target, turns one off, scales or holds one, is a pool of theirs, or could start one."""
    named = {str(held) for held in stakes.targets} | {ref_of(one) for one in (*stakes.scalers, *stakes.queues)}
    named |= {f"{ref.kind}/{ref.namespace}/{ref.name}" for ref in stakes.switches}
    named |= {f"NodePool/{pool}" for pool in stakes.pools}
    if ref in named:
        return True
    found = [obj for obj in stakes.objects if ref in (ref_of(obj), f"{obj.get('kind')}/{home_of(obj)}/{_name(obj)}")]
    if not found:  # made by a controller, or by whom nobody knows: in a target's namespace it may be one of its parts
        return ref.count("/") < _WHOLE or ref.split("/")[1] in stakes.namespaces
    return any(_could(obj, stakes) for obj in found)


def _could(obj: Obj, stakes: Stakes) -> bool:
    """Whether an object of the manifests may turn a target on: it may write it, applies it, or speaks of it."""
    return bool(is_gitops(obj) or workloads.power_of(obj, stakes) or concern(obj, stakes))


def _name(obj: Obj) -> str:
    return str((obj.get("metadata") or {}).get("name", ""))


#: How many slashes the ref of an object in a namespace has.
_WHOLE = 2
