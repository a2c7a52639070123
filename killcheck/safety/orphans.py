"""What runs that are no more have left behind - found by label and in local journals - and putting it back.

A run is an orphan when its process is known to be dead (same host) or its Leases have lapsed. Orphans are restored
before anything new is changed. ``killcheck restore`` and the janitor are this.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from killcheck.clock import Loop
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Conflict, Forbidden, KubeError
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of, parse_time
from killcheck.safety.journal import DATA, JOURNAL_LABEL, Dirty, Entry, Header, Journal, parse, process_began
from killcheck.safety.lease import LEASE_LABEL, Claim, holder_of, lapsed, take_over
from killcheck.safety.undo import LABEL, insist
from killcheck.safety.untrusted_journal import Hearsay

__all__ = ["Orphan", "Outcome", "find", "local", "restore", "runs", "settle"]

_ORDER = {"intent": 0, "applied": 1, "failed": 2, "undone": 3, "verified": 4}


@dataclass
class Orphan:
    """What one run has left: its journal (local, in the cluster, or both), its Leases, objects that carry its label.

    ``own``: the entries that this machine's own journal has. ``unreadable``: why the copy in the cluster says nothing.
    ``elsewhere``: Leases of it in namespaces that nobody named; ``blind``: there nobody here may look. ``since``: how
    long the copy in the cluster has been there (RFC 3339).
    """

    run: str
    header: Header | None = None
    entries: dict[int, Entry] = field(default_factory=dict)
    path: Path | None = None
    home: str = ""
    leases: list[Obj] = field(default_factory=list)
    own: dict[int, Entry] = field(default_factory=dict)
    unreadable: str = ""
    elsewhere: list[Obj] = field(default_factory=list)
    blind: bool = False
    since: str = ""

    def merge(self, header: Header, entries: Iterable[Entry], *, own: bool = False) -> None:
        """Add a copy of the journal: of each entry the state that is furthest on counts.

        ``own``: it is this machine's own. What is to be done, and whose it is, is believed of no other then: whoever
        may write a ConfigMap may have written the copy in the cluster.
        """
        self.header = header if own else self.header or header
        self.home = self.home or header.home
        for entry in entries:
            if own:
                self.own[entry.number] = entry
            known = self.entries.get(entry.number)
            if known is None or _ORDER[entry.state] > _ORDER[known.state]:
                self.entries[entry.number] = entry
        for number, mine in self.own.items():
            known = self.entries[number]
            self.entries[number] = replace(mine, state=known.state, problem=known.problem)

    def open(self) -> list[Entry]:
        """What is not known to be put back."""
        return [entry for _, entry in sorted(self.entries.items()) if entry.state != "verified"]

    def hearsay(self, kube: Kube, loop: Loop) -> list[str]:
        """What is asked for by nothing but a ConfigMap, and is not done on its word; a sentence each."""
        told = [entry for entry in self.open() if entry.number not in self.own]
        return Hearsay(kube, loop, self.run, self.home, self.since).refused(told)

    def alive(self, now: datetime) -> bool:
        """Whether its process may still be at work."""
        if (
            self.header
            and self.header.host == platform.node()
            and self.header.pid
            and not runs(self.header.pid, self.header.began)
        ):
            return False
        return self.blind or any(not lapsed(lease, now) for lease in (*self.leases, *self.elsewhere))

    def expired(self, now: datetime) -> bool:
        """Whether any change of it has outlived its expiry."""
        return any(parse_time(entry.expires) <= now for entry in self.open())


@dataclass
class Outcome:
    """What restoring did: in words, by run. ``skipped``: runs that are alive."""

    undone: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)


def local(folder: Path) -> list[tuple[Path, Header, list[Entry]]]:
    """The journals under ``folder`` whose runs did not come to their end; a file that is none is passed over.

    Raises OSError: what may not be read here (another user's, say) may have something left.
    """
    found = []
    folders = sorted((folder / "runs").iterdir()) if (folder / "runs").exists() else []
    for path in (file for run in folders if run.is_dir() for file in sorted(run.iterdir())):
        if not path.match("journal-*.jsonl"):
            continue
        try:
            header, entries = parse(path.read_text(encoding="utf-8"))
        except ValueError:
            continue  # cut short before its first change, or not ours
        if not header.closed or any(entry.state != "verified" for entry in entries):
            found.append((path, header, entries))
    return found


def find(
    kube: Kube,
    loop: Loop,
    *,
    context: str = "",
    namespaces: Sequence[str] = (),
    folder: Path | None = None,
) -> list[Orphan]:
    """Every run of which something is left on this cluster, dead or alive, oldest first.

    ``namespaces``: where to look (none: everywhere). ``folder``: local journals of the same ``context`` count too.
    Raises KubeError: what could not be asked is not nothing.
    """
    found: dict[str, Orphan] = {}
    for lease in _labelled(kube, loop, r.LEASES, LEASE_LABEL, namespaces):
        run = holder_of(lease) or labels_of(lease).get(LABEL, "")
        found.setdefault(run, Orphan(run)).leases.append(lease)
    for config_map in _labelled(kube, loop, r.CONFIGMAPS, JOURNAL_LABEL, namespaces):
        run = labels_of(config_map).get(LABEL, "")
        orphan = found.setdefault(run, Orphan(run))
        orphan.home = namespace_of(config_map)
        orphan.since = dig(config_map, "metadata", "creationTimestamp", default="")
        try:
            orphan.merge(*parse(dig(config_map, "data", DATA, default="")))
        except ValueError as error:
            orphan.unreadable = (
                f"the journal of run {run} in {orphan.home}/{name_of(config_map)} cannot be read ({error}): restore "
                "with the killcheck that wrote it, and delete it when all is as it was"
            )
    for path, header, entries in local(folder) if folder is not None else ():
        left = header.run in found or any(entry.state != "verified" for entry in entries)
        if header.context == context and left:
            orphan = found.setdefault(header.run, Orphan(header.run))
            orphan.path = path
            orphan.merge(header, entries, own=True)
    if namespaces:
        _look_elsewhere(kube, loop, found, namespaces)
    return sorted(found.values(), key=lambda orphan: orphan.run)


def _look_elsewhere(kube: Kube, loop: Loop, found: dict[str, Orphan], namespaces: Sequence[str]) -> None:
    """Leases of these runs in namespaces that nobody named: its journal beside ours does not make a run a dead one."""
    for place in sorted({p for o in found.values() if o.header for p in o.header.places} - set(namespaces)):
        try:
            leases = _labelled(kube, loop, r.LEASES, LEASE_LABEL, [place])
        except KubeError as error:
            if not isinstance(error.__cause__, Forbidden):
                raise
            for orphan in found.values():
                orphan.blind = orphan.blind or (orphan.header is not None and place in orphan.header.places)
            continue
        for lease in leases:
            if holder_of(lease) in found:
                found[holder_of(lease)].elsewhere.append(lease)


def _labelled(kube: Kube, loop: Loop, resource: r.Resource, label: str, namespaces: Sequence[str]) -> list[Obj]:
    places: Sequence[str | None] = list(namespaces) or [None]
    found: list[Obj] = []
    for place in places:
        try:
            found += insist(loop, lambda where=place: kube.list(resource, where, labels=f"{label}=true").items)  # type: ignore[misc]
        except Forbidden as error:
            raise KubeError(f"{error} (name the namespaces to look in with --namespace)") from error
    return found


def restore(
    kube: Kube,
    loop: Loop,
    orphans: Iterable[Orphan],
    *,
    named: str = "",
    expired_only: bool = False,
    by: str = "restore",
) -> Outcome:
    """Put back what dead runs left, newest change first; goes on past failures.

    ``named``: this run, dead or alive (its process, if there is one, loses its Leases and stops). ``expired_only``:
    those that outlived their expiry, dead or alive.
    """
    outcome = Outcome()
    for orphan in orphans:
        now = loop.now()
        if named and orphan.run != named:
            continue
        if expired_only and not orphan.expired(now) and not _leftover(orphan, now):
            continue
        if not named and not (expired_only and orphan.expired(now)) and orphan.alive(now):
            outcome.skipped.append(orphan.run)
            continue
        _restore_one(kube, loop, orphan, outcome, by)
    return outcome


def _leftover(orphan: Orphan, now: datetime) -> bool:
    """Nothing of it is left but our own bookkeeping."""
    return not orphan.open() and not orphan.alive(now)


def _restore_one(kube: Kube, loop: Loop, orphan: Orphan, outcome: Outcome, by: str) -> None:
    if orphan.unreadable and not orphan.own:
        outcome.problems.append(orphan.unreadable)
        return
    told = orphan.hearsay(kube, loop)
    if told:
        outcome.problems += told
        return
    claims: list[Claim] = []
    try:
        for lease in orphan.leases:
            claims.append(take_over(kube, loop, f"{by}-{orphan.run}", lease))
    except Conflict:
        outcome.skipped.append(orphan.run)
        for claim in claims:
            claim.release()
        return
    outcome.runs.append(orphan.run)
    if orphan.own and orphan.header and not runs(orphan.header.pid, orphan.header.began):
        from killcheck.safety import local_locks

        outcome.undone += local_locks.ended(orphan.run)
    journal = Journal(
        orphan.run,
        loop,
        kube,
        path=orphan.path,
        home=orphan.home,
        levers=_levers_here(orphan, loop),
        context=orphan.header.context if orphan.header else "",
        kubeconfig=orphan.header.kubeconfig if orphan.header else "",
    )
    journal.adopt([entry for _, entry in sorted(orphan.entries.items())])
    done, problems = journal.undo_all()
    outcome.undone += done
    outcome.problems += problems
    for claim in claims:
        claim.release()
    if orphan.path is not None and not problems:
        journal.close()


def _levers_here(orphan: Orphan, loop: Loop) -> dict[str, object]:
    """Files and programs of the machine that the run was on can be reached on that machine only.

    And only on the word of its own journal: nobody's ConfigMap says what is run here.
    """
    from killcheck.safety import local_locks

    asked = {number for number, entry in orphan.entries.items() if entry.lever and entry.undo.action != "aws"}
    known = orphan.header is not None and orphan.header.host == platform.node() and asked <= orphan.own.keys()
    return local_locks.levers(loop) if known else {}


def settle(
    kube: Kube,
    loop: Loop,
    *,
    context: str,
    namespaces: Sequence[str],
    folder: Path | None,
) -> Outcome:
    """Restore orphans before anything new is changed. Raises Dirty where something could not be put back."""
    found = find(kube, loop, context=context, namespaces=namespaces, folder=folder)
    outcome = restore(kube, loop, found)
    if outcome.problems:
        raise Dirty(outcome.problems)
    return outcome


def runs(pid: int, began: str = "") -> bool:
    """Whether a process of this machine has that number, and, where both are known, began when that one did."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    now = process_began(pid) if began else ""
    return not now or now == began
