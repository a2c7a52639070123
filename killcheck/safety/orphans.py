"""What runs that are no more have left behind - found by label and in local journals - and putting it back.

A run is an orphan when its process is known to be dead (same host) or its Leases have lapsed. Orphans are restored
before anything new is changed. ``killcheck restore`` and the janitor are this.
"""

from __future__ import annotations

import errno
import math
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct, field

from killcheck.capabilities.offered import Capabilities
from killcheck.clock import Loop
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Conflict, Forbidden, KubeError, NotFound
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of, parse_time, uid_of
from killcheck.safety.changes import LABEL
from killcheck.safety.finished import finish, is_finished
from killcheck.safety.journal import (
    DATA,
    JOURNAL_LABEL,
    Dirty,
    Entry,
    Header,
    Journal,
    config_map_name,
    process_began,
)
from killcheck.safety.keys import known_keys
from killcheck.safety.lease import LEASE_LABEL, Claim, lapsed, left_s, run_of, take_over
from killcheck.safety.local_programs import capabilities, ended
from killcheck.safety.still_open import guarded_for, standing
from killcheck.safety.undo import retry
from killcheck.safety.untrusted_journal import Answer, Judged, UntrustedJournal
from killcheck.safety.vocabulary import by_hand, place_of
from killcheck.safety.written import LONGEST, Read, read
from killcheck.text.files import opened
from killcheck.text.values import replace

__all__ = ["Orphan", "Outcome", "find", "local", "restore", "runs", "settle"]

#: What opening tells of pipes, sockets, devices, folders, links that lead nowhere or in a circle: nobody's journal.
_NO_FILE = (errno.EINVAL, errno.ENXIO, errno.EISDIR, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.ENODEV)
#: Seconds for which what is done on the word of untrusted journals is waited for, all of it together; sentences told of
#: one such journal; and changes that are looked at where no Lease says that its run was here.
UNTRUSTED_S = 120.0
TOLD = 20
LOOKED_AT = 200
_ORDER = {"intent": 0, "applied": 1, "failed": 2, "undone": 3, "verified": 4}


class Orphan(Struct):
    """What one run has left: its journal (local, in the cluster, or both), its Leases, objects that carry its label.

    ``believed``: the journal is signed by a key of this machine; else ``source`` says who else it may be of, and
    ``asks_file`` that it is a file. ``count``: how many entries it is to have; ``broken``: why fewer can be read.
    ``other_leases``: Leases of it in namespaces that nobody named; ``blind``: there nobody here may look. ``kept``: the
    ConfigMap that is its journal. ``filed``: a file of this machine's speaks of it. ``another``: its run has a journal
    that is believed, and this is not it.
    """

    run: str
    header: Header | None = None
    entries: dict[int, Entry] = field(default_factory=dict)
    path: Path | None = None
    home: str = ""
    leases: list[Obj] = field(default_factory=list)
    believed: bool = False
    source: str = ""
    asks_file: bool = False
    count: int = 0
    broken: list[str] = field(default_factory=list)
    other_leases: list[Obj] = field(default_factory=list)
    blind: bool = False
    kept: Obj | None = None
    filed: bool = False
    another: bool = False

    @property
    def was_here(self) -> bool:
        """Whether more than its journal says that its run was here: a file of ours, or a Lease that nobody released.

        A run takes its Leases before its first change, and they go when everything is back.
        """
        return self.filed or (not self.another and bool(self.leases or self.other_leases))

    def merge(self, header: Header, entries: Iterable[Entry]) -> None:
        """Add a copy of the journal, from the same hand: of each entry the state that is furthest on counts."""
        self.header = self.header or header
        self.home = self.home or header.home
        self.count = max(self.count, header.count)
        for entry in entries:
            known = self.entries.get(entry.number)
            if known is None or _ORDER[entry.state] > _ORDER[known.state]:
                self.entries[entry.number] = entry

    def open(self) -> list[Entry]:
        """What is not known to be put back."""
        told = [entry for _, entry in sorted(self.entries.items())]
        # What somebody says was put back is looked at all the same, if it is not our own word.
        return [entry for entry in told if entry.state != "verified" or not self.believed]

    def unread(self) -> list[str]:
        """What may be left that nobody can tell, a sentence each."""
        if self.believed and len(self.entries) >= self.count:
            return []
        lost = f"{len(self.entries)} of {self.count} changes can be read" if self.believed else ""
        return [
            f"{self.source}: {why}: whether more is left of run {self.run} is not known"
            for why in self.broken or ([lost] if lost else [])
        ]

    def untrusted(self, kube: Kube, loop: Loop) -> UntrustedJournal:
        """What judges what is asked for by nobody who is known."""
        return UntrustedJournal(kube, loop, self.run, self.home, self.source)

    def refused(self, kube: Kube, loop: Loop) -> list[str]:
        """What is not done on its word, and what cannot be read; a sentence each."""
        if self.believed:
            return self.unread()
        judge = self.untrusted(kube, loop)
        return [*self.unread(), *(judge.told(one) for one in judge.judged(self.open()) if one.answer is Answer.ASK)]

    def alive(self, now: datetime) -> bool:
        """Whether its process may still be at work."""
        if (
            self.believed
            and self.header
            and self.header.host == platform.node()
            and self.header.pid
            and not runs(self.header.pid, self.header.began)
        ):
            return False
        return self.blind or any(not lapsed(lease, now) for lease in (*self.leases, *self.other_leases))

    def lapses_s(self, now: datetime) -> float:
        """Seconds after which it counts as dead unless it renews its Leases; 0 where nobody here can tell."""
        return max((left_s(lease, now) for lease in (*self.leases, *self.other_leases)), default=0.0)

    def expired(self, now: datetime) -> bool:
        """Whether any change of it has outlived its expiry."""
        return any(parse_time(entry.expires) <= now for entry in self.open())


class Outcome(Struct):
    """What restoring did: in words, by run. ``skipped``: runs that are alive.

    ``unknown``: what asks for something on no other word than its own - a file that is not this machine's, a ConfigMap
    without a Lease of its run. It is told, and keeps nobody from anything: who may write those shall not stop drills.
    """

    undone: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    #: Seconds after which a run that was skipped counts as dead, unless it is not.
    lapses_s: dict[str, float] = field(default_factory=dict)


def local(folder: Path) -> list[tuple[Path, Read]]:
    """The journals under ``folder`` whose runs did not come to their end, whoever wrote them.

    What has a journal's name and is no file says nothing, and is told. Raises OSError: what may not be read here
    (another user's, say) may have something left.
    """
    found = []
    keys = known_keys()
    folders = sorted((folder / "runs").iterdir()) if (folder / "runs").exists() else []
    for path in (file for run in folders for file in _files(run)):
        if not path.match("journal-*.jsonl"):
            continue
        said = _read(path, keys)
        if not said.over:
            found.append((path, said))
    return found


def _files(run: Path) -> list[Path]:
    """What is in a run's folder; nothing where another killcheck, which tidies up, has just removed it."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(run.iterdir())
    return []


def _read(path: Path, keys: Sequence[bytes]) -> Read:
    try:
        with opened(path) as file:
            return read(file.read(LONGEST + 1).decode("utf-8", "replace"), keys)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        return Read(problems=["it is no regular file"], missing=None)


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
    told: list[Orphan] = []
    for lease in _labelled(kube, loop, r.LEASES, LEASE_LABEL, namespaces):
        run = run_of(lease) or labels_of(lease).get(LABEL, "")
        found.setdefault(run, Orphan(run)).leases.append(lease)
    for config_map in _labelled(kube, loop, r.CONFIGMAPS, JOURNAL_LABEL, namespaces):
        _add_config_map(found, told, config_map)
    for path, said in local(folder) if folder is not None else ():
        if said.header is None or said.header.context == context:
            _add_file(found, told, path, said)
    _share_leases(found, told)
    every = [*(one for one in found.values() if one.leases or one.believed), *told]
    if namespaces:
        _look_elsewhere(kube, loop, every, namespaces)
    return sorted(every, key=lambda orphan: (orphan.run, not orphan.believed))


def _add_config_map(found: dict[str, Orphan], told: list[Orphan], config_map: Obj) -> None:
    run, home = labels_of(config_map).get(LABEL, ""), namespace_of(config_map)
    source = f"the ConfigMap {home}/{name_of(config_map)}"
    text = dig(config_map, "data", DATA)
    said = read(text if isinstance(text, str) else "", known_keys())
    header = said.header
    if header is not None and (header.run != run or name_of(config_map) != config_map_name(run)):
        said, header = Read(problems=["it is not the journal that its name and label say"]), None
    if header is not None and said.signed and header.home == home:
        _believe(found, said, source).kept = config_map
    if header is None or not said.signed or header.home != home or said.told:
        orphan = Orphan(run, header, home=home, source=source, broken=list(said.problems), kept=config_map)
        orphan.entries = {entry.number: entry for entry in (said.told if said.signed else said.entries)}
        told.append(orphan)


def _add_file(found: dict[str, Orphan], told: list[Orphan], path: Path, said: Read) -> None:
    if said.signed and said.header is not None:
        left = said.header.run in found or not said.whole or any(entry.state != "verified" for entry in said.own)
        if left:
            orphan = _believe(found, said, str(path))
            orphan.filed = True
            orphan.header = said.header  # it alone knows of this machine's kubeconfig
            orphan.path = path if said.whole else None  # what is left of it is not written over
    if not said.signed or said.told:
        header = said.header
        orphan = Orphan(
            header.run if header else path.parent.name,
            header,
            source=str(path),
            asks_file=True,
            home=header.home if header else "",
            broken=list(said.problems),
        )
        orphan.entries = {entry.number: entry for entry in said.told}
        told.append(orphan)


def _believe(found: dict[str, Orphan], said: Read, source: str) -> Orphan:
    assert said.header is not None
    orphan = found.setdefault(said.header.run, Orphan(said.header.run))
    orphan.believed = True
    orphan.source = orphan.source or source
    orphan.broken += said.problems
    orphan.merge(said.header, said.own)
    return orphan


def _share_leases(found: dict[str, Orphan], told: Sequence[Orphan]) -> None:
    """The Leases of a run are those of its own journal; where it has none, of the first that speaks of it."""
    for orphan in told:
        known = found.get(orphan.run)
        if known is None:
            continue
        orphan.another = known.believed
        if known.believed or not known.leases:
            orphan.other_leases += known.leases
        else:
            orphan.leases, known.leases = known.leases, []
            orphan.other_leases += known.other_leases


def _look_elsewhere(kube: Kube, loop: Loop, found: Sequence[Orphan], namespaces: Sequence[str]) -> None:
    """Leases of these runs in namespaces that nobody named: its journal beside ours does not make a run a dead one."""
    for place in sorted({p for o in found if o.header for p in o.header.places if p} - set(namespaces)):
        try:
            leases = _labelled(kube, loop, r.LEASES, LEASE_LABEL, [place])
        except KubeError as error:
            if not isinstance(error.__cause__, Forbidden):
                raise
            for orphan in found:
                orphan.blind = orphan.blind or (orphan.header is not None and place in orphan.header.places)
            continue
        for lease in leases:
            for orphan in found:
                if orphan.run == run_of(lease):
                    orphan.other_leases.append(lease)


def _labelled(kube: Kube, loop: Loop, resource: r.Resource, label: str, namespaces: Sequence[str]) -> list[Obj]:
    places: Sequence[str | None] = list(namespaces) or [None]
    found: list[Obj] = []
    for place in places:
        try:
            found += retry(loop, lambda where=place: kube.list(resource, where, labels=f"{label}=true").items)  # type: ignore[misc]
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
    believe: Callable[[Judged], bool] = lambda judged: False,
) -> Outcome:
    """Put back what dead runs left, newest change first; goes on past failures.

    ``named``: this run, dead or alive (its process, if there is one, loses its Leases and stops). ``expired_only``:
    those that outlived their expiry, dead or alive. ``believe``: asks a person about what nobody known asks for.
    """
    outcome = Outcome()
    until_s = math.inf  # for all that is done for untrusted journals together
    for orphan in sorted(orphans, key=lambda one: not one.believed):
        now = loop.now()
        if named and orphan.run != named:
            continue
        if expired_only and not orphan.expired(now) and not _leftover(orphan, now):
            continue
        if not named and not (expired_only and orphan.expired(now)) and orphan.alive(now):
            outcome.skipped.append(orphan.run)
            outcome.lapses_s[orphan.run] = orphan.lapses_s(now)
            continue
        if orphan.believed and is_finished(orphan.run):
            _old_copy(kube, loop, orphan, outcome)
        elif orphan.believed:
            _restore_own(kube, loop, orphan, outcome, named=bool(named))
        else:
            until_s = min(until_s, loop.monotonic() + UNTRUSTED_S)
            _restore_told(kube, loop, orphan, outcome, until_s=until_s if orphan.was_here else -1.0, believe=believe)
    return outcome


def _leftover(orphan: Orphan, now: datetime) -> bool:
    """Nothing of it is left but our own bookkeeping."""
    return not orphan.open() and not orphan.alive(now)


def _old_copy(kube: Kube, loop: Loop, orphan: Orphan, outcome: Outcome) -> None:
    """A journal of a run that is known here to have come to its end: nothing is done on its word, and it goes."""
    outcome.runs.append(orphan.run)
    outcome.undone.append(f"left alone: run {orphan.run} came to its end, and {orphan.source} is an old copy")
    if orphan.path is not None:
        past = Journal(orphan.run, loop, kube, path=orphan.path, context=orphan.header.context if orphan.header else "")
        past.entries = [replace(entry, state="verified") for _, entry in sorted(orphan.entries.items())]
        past.close()
    judge = orphan.untrusted(kube, loop)
    if orphan.kept is not None and not judge.without_consent(orphan.home):
        _drop(guarded_for(kube, orphan.run, (), [orphan.home]), loop, orphan.kept)
    for claim in _take_over(kube, loop, orphan.run, _consenting(judge, orphan, outcome)) or ():
        claim.release()


def _restore_own(kube: Kube, loop: Loop, orphan: Orphan, outcome: Outcome, *, named: bool) -> None:
    """What this machine's own journal says, as far as it holds still."""
    judge = orphan.untrusted(kube, loop)
    claims = _take_over(kube, loop, orphan.run, orphan.leases if named else _consenting(judge, orphan, outcome))
    if claims is None:
        outcome.skipped.append(orphan.run)
        return
    outcome.runs.append(orphan.run)
    assert orphan.header is not None
    here_too = orphan.header.host == platform.node()
    if here_too and not runs(orphan.header.pid, orphan.header.began):
        outcome.undone += ended(orphan.run)
    still = standing(judge, orphan.open(), host=orphan.header.host, named=named)
    journal = Journal(
        orphan.run,
        loop,
        guarded_for(kube, orphan.run, still.do, _places(judge, orphan, still.do, named=named)),
        path=orphan.path,
        home=orphan.home,
        capabilities=capabilities(loop) if here_too else Capabilities(),
        context=orphan.header.context,
        kubeconfig=orphan.header.kubeconfig,
    )
    unread = orphan.unread()
    journal.adopt(still.do, keep=bool(unread or still.told))
    done, problems = journal.undo_all()
    outcome.undone += done
    outcome.problems += problems
    told = [*still.told, *unread]
    (outcome.problems if orphan.was_here else outcome.unknown).extend(told)
    _let_go(claims, done=not (problems or told))
    if not problems and not told:
        if orphan.path is not None:
            journal.close()
        if orphan.home:
            finish(orphan.run)


def _places(judge: UntrustedJournal, orphan: Orphan, entries: Iterable[Entry], *, named: bool) -> set[str]:
    """The namespaces that may be written to for a run: those that consent, or all of them where a person named it."""
    said = {orphan.home, *(namespace_of(lease) for lease in orphan.leases)}
    for entry in entries:
        place = None if entry.lever else place_of(entry.undo.path)
        said |= {place.within} if place is not None else set()
    consenting = judge.kube.transport.keeps_labels
    return {place for place in said - {""} if named or not consenting or not judge.without_consent(place)}


def _restore_told(
    kube: Kube,
    loop: Loop,
    orphan: Orphan,
    outcome: Outcome,
    *,
    until_s: float,
    believe: Callable[[Judged], bool],
) -> None:
    """What somebody says: only what the objects themselves say too. Nothing of it is written down as our own word."""
    judge = orphan.untrusted(kube, loop)
    claims = _take_over(kube, loop, orphan.run, _consenting(judge, orphan, outcome))
    if claims is None:
        outcome.skipped.append(orphan.run)
        return
    outcome.runs.append(orphan.run)
    entries = orphan.open() if orphan.was_here else orphan.open()[:LOOKED_AT]
    judged = judge.judged(entries)
    asked = [one for one in judged if one.answer is Answer.ASK and not believe(one)]
    doing = [one.entry for one in judged if one.answer is not Answer.NOTHING and one not in asked]
    kube = guarded_for(kube, orphan.run, doing, _places(judge, orphan, doing, named=False))
    journal = Journal(orphan.run, loop, kube, until_s=until_s)
    journal.adopt([_heard(entry) for entry in doing])
    done, problems = journal.undo_all()
    outcome.undone += done
    told = _first([*orphan.unread(), *(judge.told(one) for one in asked)], orphan, len(orphan.open()) - len(entries))
    (outcome.problems if orphan.was_here and not orphan.asks_file else outcome.unknown).extend([*problems, *told])
    if not problems and not told and orphan.kept is not None and not judge.without_consent(orphan.home):
        _drop(kube, loop, orphan.kept)
    _let_go(claims, done=not (problems or told))


def _heard(entry: Entry) -> Entry:
    """What somebody says, as far as it is taken over.

    What it says was put back is looked at all the same; neither what it says to run by hand is passed on, nor waited
    for as long as it says.
    """
    ends_s = min(entry.undo.ends_s, UNTRUSTED_S)
    undo = replace(entry.undo, manual=by_hand(entry.undo, entry.run), ends_s=ends_s, owners=None)
    return replace(entry, state="applied", undo=undo)


def _first(told: list[str], orphan: Orphan, unlooked: int) -> list[str]:
    """The first sentences, and how many changes there are besides: a stranger's journal can have thousands."""
    more = max(0, len(told) - TOLD) + unlooked
    return [*told[:TOLD], f"{orphan.source}: and {more} more of run {orphan.run}"] if more else told


def _consenting(judge: UntrustedJournal, orphan: Orphan, outcome: Outcome) -> list[Obj]:
    """The Leases in namespaces that may be written to; the others are told."""
    kept = []
    for lease in orphan.leases:
        why = judge.without_consent(namespace_of(lease))
        if why:
            outcome.problems.append(
                f"Lease {namespace_of(lease)}/{name_of(lease)} of run {orphan.run}: left, for {why}"
            )
        else:
            kept.append(lease)
    return kept


def _take_over(kube: Kube, loop: Loop, run: str, leases: Iterable[Obj]) -> list[Claim] | None:
    """A dead run's Leases, or None: it is alive after all, or somebody else is faster."""
    claims: list[Claim] = []
    try:
        for lease in leases:
            claims.append(take_over(kube, loop, run, lease))
    except Conflict:
        for claim in claims:
            claim.release()
        return None
    return claims


def _let_go(claims: Iterable[Claim], *, done: bool) -> None:
    """Release a dead run's Leases; while something is left they stay, for they say that its run was here."""
    for claim in claims:
        if done:
            claim.release()
        else:
            claim.give_back()


def _drop(kube: Kube, loop: Loop, config_map: Obj) -> None:
    """Everything that a ConfigMap asked for is as it was: it goes, unless it says something else by now."""

    def once() -> None:
        """Delete it as it was read."""
        with suppress(NotFound):
            kube.delete(
                r.CONFIGMAPS,
                name_of(config_map),
                namespace_of(config_map),
                uid=uid_of(config_map),
                resource_version=dig(config_map, "metadata", "resourceVersion", default=""),
            )

    with suppress(KubeError):  # whoever comes next finds it again
        retry(loop, once, patience_s=0.0)


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
