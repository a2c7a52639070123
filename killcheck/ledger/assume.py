"""What a person vouches for: an entry of the ledger that ``assume:`` in the spec settles, until a date."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from fnmatch import fnmatchcase

from killcheck.entries import Entry, Status
from killcheck.spec.killpath import Assumption
from killcheck.text.values import replace

__all__ = ["settled"]


def settled(entries: Iterable[Entry], assumptions: Iterable[Assumption], today: date) -> Iterator[Entry]:
    """The entries, the open ones as *assumed* where somebody vouches for them; an expired word settles nothing."""
    assumptions = tuple(assumptions)
    for entry in entries:
        if entry.status is not Status.NOT_MODELLED:
            yield entry
            continue
        said = [one for one in assumptions if _about(one, entry.object)]
        holds = next((one for one in said if one.until >= today), None)
        if holds is not None:
            yield Entry(entry.object, Status.ASSUMED, f"{holds.reason} ({entry.because})", until=str(holds.until))
        elif said:
            ended = max(one.until for one in said)
            yield replace(entry, because=f"{entry.because} (an assumption about it ended on {ended})")
        else:
            yield entry


def _about(assumption: Assumption, ref: str) -> bool:
    """Whether it speaks of an object, by its ref: ``Kind/namespace/name``, or ``Kind/name`` outside namespaces."""
    kind, _, rest = ref.partition("/")
    namespace, slash, name = rest.partition("/")
    if not slash:
        namespace, name = "", rest
    return (
        fnmatchcase(kind, assumption.kind)
        and fnmatchcase(name, assumption.name)
        and fnmatchcase(namespace, assumption.namespace)
    )
