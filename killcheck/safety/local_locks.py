"""One run at a time on this machine, and what a dead one left here: what Leases and labels are to a cluster.

A drill of something outside Kubernetes has no API server to keep a Lease or a journal in: a locked file and the local
journal stand for them. The lock goes with its process, so that whoever can take it knows the other is dead.
"""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from killcheck.clock import Loop
from killcheck.kube.client import Kube
from killcheck.safety.journal import Journal
from killcheck.safety.lease import Busy
from killcheck.safety.local_programs import capabilities, ended
from killcheck.safety.orphans import Orphan, Outcome, local, runs
from killcheck.text.files import own

__all__ = ["Locks", "orphans_here", "restore_here"]


class Locks:
    """A lock for each target, held by this process until it is let go or ends."""

    def __init__(self, folder: Path, run: str, leases: Sequence[tuple[str, str, str]]) -> None:
        self.folder = folder / "locks"
        self.run = run
        self.leases = list(leases)
        self._held: list[int] = []

    def acquire(self) -> None:
        """Take every lock, or none. Raises Busy where another run holds one, OSError."""
        own(self.folder).mkdir(parents=True, exist_ok=True)
        try:
            for _, name, what in self.leases:
                self._held.append(self._take(name, what))
        except BaseException:
            self.release()
            raise

    def _take(self, name: str, what: str) -> int:
        file = own(self.folder / f"{name}.lock")
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 200).decode("utf-8", "replace").strip()
            os.close(descriptor)
            raise Busy(f"run {holder} is drilling {what} on this machine: wait for it, or end it") from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{self.run}\n".encode())
        return descriptor

    def check(self) -> None:
        """A lock cannot be lost while its process lives."""

    def release(self) -> None:
        """Let go of all of them; idempotent."""
        held, self._held = self._held, []
        for descriptor in held:
            os.close(descriptor)

    abandon = release


def orphans_here(folder: Path, context: str) -> list[Orphan]:
    """The runs of which something is left on this machine by the journals under ``folder``, oldest first.

    A journal that this machine has not signed is one of them too, with nothing in it that could be done.
    """
    found = []
    for path, said in local(folder):
        header = said.header
        if header is not None and (header.context != context or (said.signed and header.host != platform.node())):
            continue
        if (
            header is not None
            and said.signed
            and (not said.whole or any(entry.state != "verified" for entry in said.own))
        ):
            orphan = Orphan(
                header.run, path=path if said.whole else None, believed=True, source=str(path), broken=said.problems
            )
            orphan.merge(header, said.own)
            found.append(orphan)
        elif not said.signed:
            found.append(
                Orphan(
                    header.run if header else path.parent.name,
                    source=str(path),
                    asks_file=True,
                    broken=[*said.problems, *_unsigned(len(said.told))],
                )
            )
    return sorted(found, key=lambda orphan: orphan.run)


def _unsigned(count: int) -> list[str]:
    return [f"{count} change(s) are not signed by this machine, and none is taken back on its word"] if count else []


def restore_here(loop: Loop, kube: Kube, orphans: Iterable[Orphan], *, named: str = "") -> Outcome:
    """Put back what dead runs left on this machine; one that is alive is left alone unless it is ``named``."""
    outcome = Outcome()
    for orphan in orphans:
        if named and orphan.run != named:
            continue
        header = orphan.header
        if not orphan.believed:
            outcome.unknown += orphan.unread()
            continue
        if not named and header is not None and header.pid != os.getpid() and runs(header.pid, header.began):
            outcome.skipped.append(orphan.run)
            continue
        outcome.runs.append(orphan.run)
        if header is not None and not runs(header.pid, header.began):
            outcome.undone += ended(orphan.run)
        journal = Journal(
            orphan.run,
            loop,
            kube,
            path=orphan.path,
            capabilities=capabilities(loop),
            context=header.context if header else "",
        )
        unread = orphan.unread()
        journal.adopt([entry for _, entry in sorted(orphan.entries.items())], keep=bool(unread))
        done, problems = journal.undo_all()
        outcome.undone += done
        outcome.problems += [*problems, *unread]
        if not problems and not unread:
            journal.close()
    return outcome
