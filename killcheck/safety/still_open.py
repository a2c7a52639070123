"""What of this machine's own journal is to be done *now*: a signature says who wrote it, not that it holds still.

Consent may have been withdrawn since, and who may write ConfigMaps can put a journal of long ago there again. So what
consent no longer covers is told and left, a change whose mark is gone was taken back once, and an object is made again
by the machine that saw it there. A person who names the run says yes to all of it.
"""

from __future__ import annotations

import copy
import platform
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import dig
from killcheck.safety.changes import Entry
from killcheck.safety.guard import Consented, guarded
from killcheck.safety.marks import carries
from killcheck.safety.undo import compare
from killcheck.safety.untrusted_journal import UntrustedJournal
from killcheck.safety.vocabulary import place_of

__all__ = ["Standing", "guarded_for", "standing"]


class Standing(Struct):
    """``do``: entries to take back. ``past``: those that were taken back once. ``told``: what is left, and why."""

    do: list[Entry] = field(default_factory=list)
    past: list[Entry] = field(default_factory=list)
    told: list[str] = field(default_factory=list)


def standing(judge: UntrustedJournal, entries: Iterable[Entry], *, host: str, named: bool) -> Standing:
    """What becomes of each entry of a journal of ours; ``host``: the machine that wrote it; ``named``: by a person."""
    found = Standing()
    if named or not judge.kube.transport.keeps_labels:
        found.do = list(entries)
        return found
    for entry in entries:
        try:
            why = _objection(judge, entry, host)
        except KubeError as error:
            why = f"whether it may be could not be asked: {error}"
        if why is None:
            found.do.append(entry)
        elif why:
            found.told.append(
                f"{entry.what}: not undone, for {why} (killcheck restore --run {entry.run} does it all the same)"
            )
        else:
            found.past.append(entry)
    return found


def _objection(judge: UntrustedJournal, entry: Entry, host: str) -> str | None:
    """Why an entry is not taken back; empty: it was, once; None: it is to be."""
    place = None if entry.lever else place_of(entry.undo.path)
    if place is None:
        return None
    why = judge.without_consent(place.within) if place.within else ""
    if why:
        return why
    if entry.undo.action == "create":
        there = judge.look(f"{entry.undo.path}/{dig(entry.undo.body, 'metadata', 'name')}") is not None
        if not there and host != platform.node():
            return f"it is gone, and only the machine {host} saw that it was there"
        return None
    if entry.undo.action != "merge" or not entry.undo.marked:
        return None
    now = judge.look(entry.undo.path)
    if now is None or carries(now, entry):
        return None
    as_left = bool(compare(now, entry.undo.left or {}, entry.undo.body)[0])
    return "it does not carry the mark of that change any more" if as_left else ""


def guarded_for(kube: Kube, run: str, entries: Sequence[Entry], namespaces: Iterable[str]) -> Kube:
    """A client that writes to nothing but what these entries name, and what is in ``namespaces``."""
    if not kube.transport.keeps_labels:
        return kube
    objects = set()
    for entry in entries:
        place = None if entry.lever else place_of(entry.undo.path)
        if place is not None and not place.within:
            body = entry.undo.body if isinstance(entry.undo.body, dict) else {}
            objects.add((place.plural, place.name or str(dig(body, "metadata", "name", default=""))))
    own = copy.copy(kube)
    guarded(own, Consented(run, frozenset(namespaces) - {""}, objects=frozenset(objects)))
    return own
