"""The journal: what was changed and how to put it back, written before the change happens.

Entries go intent -> applied -> undone -> verified. They are written to a local file (fsync) and, on a real cluster,
to a ConfigMap in the namespace that consented, so that another machine can undo what this one left
(:mod:`killcheck.safety.orphans`). If a write of the journal fails, the change does not happen.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from killcheck.capabilities.errors import UndoProblem
from killcheck.capabilities.offered import Capabilities, Capability, present
from killcheck.clock import Loop
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Conflict, Forbidden, KubeError, NotFound
from killcheck.kube.objects import Obj, copy, dig, format_time, labels_of, namespace_of, uid_of
from killcheck.kube.permissions import Permission
from killcheck.safety import marks, written
from killcheck.safety.changes import LABEL, Entry, Undo
from killcheck.safety.finished import finish
from killcheck.safety.keys import KeyProblem, signing_key
from killcheck.safety.owners import owners_of
from killcheck.safety.undo import PATIENCE_S, compare, holds, inverse, kubectl, recreatable, retry, take_back, verify
from killcheck.safety.vocabulary import ENGINE, objection, place_of
from killcheck.safety.written import Header
from killcheck.text.files import own
from killcheck.text.redaction import redact
from killcheck.text.values import replace

__all__ = [
    "JOURNAL_LABEL",
    "LABEL",
    "Dirty",
    "Entry",
    "Header",
    "Journal",
    "JournalError",
    "Undo",
    "UndoProblem",
    "config_map_name",
    "permissions",
    "process_began",
    "state_dir",
]

#: Label of the ConfigMaps that are journals.
JOURNAL_LABEL = "killcheck.dev/journal"
#: Data key of such a ConfigMap.
DATA = "journal.jsonl"
#: What a pod's end takes beyond its grace, in seconds.
ENDING_S = 15.0
#: Seconds for which a write of the journal is tried while nothing but what may pass is in the way.
WRITE_PATIENCE_S = 10.0


class JournalError(Exception):
    """The journal could not be written: nothing may be changed."""


class Dirty(Exception):
    """Something that killcheck changed could not be put back: one line each, with what a person can run instead."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("could not be put back:\n" + "\n".join(f"  {problem}" for problem in problems))


def process_began(pid: int) -> str:
    """When a process of this machine began, in ticks since which boot; empty where that cannot be told.

    Source: proc(5), ``/proc/pid/stat`` field 22 and ``/proc/sys/kernel/random/boot_id``.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        return f"{boot[:8]}-{after_name.split()[19]}"
    except (OSError, IndexError, ValueError):
        return ""


def state_dir() -> Path:
    """Where run records and journals are kept: ``.killcheck/`` in the working folder. Raises OSError for a link."""
    folder = Path(".killcheck")
    for below in ("runs", "locks"):
        own(folder / below)
    return folder


def config_map_name(run: str) -> str:
    """The name of a run's journal in the cluster."""
    return f"killcheck-journal-{run}"


def permissions(home: str) -> list[Permission]:
    """What keeping a journal in namespace ``home`` needs."""
    return [Permission(verb, "", "configmaps", namespace=home) for verb in ("get", "list", "create", "patch", "delete")]


class Journal(Struct):
    """The journal of one run.

    ``path``: the local file. ``home``: the namespace for the copy in the cluster; empty for none (the embedded
    cluster, which dies with its process). ``lifetime_s``: seconds after which the janitor may undo what is left.
    ``places``: the namespaces of its run's Leases.
    ``capabilities``: what of the cluster is reached besides the API. ``guard`` is asked before every change and raises
    JournalError where the run may not go on (its Lease was lost).
    """

    run: str
    loop: Loop
    kube: Kube
    path: Path | None = None
    home: str = ""
    places: Sequence[str] = ()
    lifetime_s: float = 6 * 3600.0
    capabilities: Capabilities = field(default_factory=Capabilities)
    entries: list[Entry] = field(default_factory=list)
    context: str = ""
    kubeconfig: str = ""
    guard: Callable[[], None] = lambda: None
    #: Its copy in the cluster is gone: another machine may have put everything back.
    doubtful: bool = False
    #: Whose changes they are: the fault that is being injected.
    owner: str = ""
    #: On the loop's clock: from then on nothing is waited for, each undo is tried once. None: each has its time.
    until_s: float | None = None
    _in_cluster: bool = False
    _closed: bool = False

    # -- life ----------------------------------------------------------------------------------------------
    def open_locally(self) -> None:
        """Put the first line on disk, before anything is in the cluster: who it was can be told from it."""
        self._write_locally()

    def close(self) -> None:
        """The run has come to its end. Where that cannot be written, the next run finds everything back as it was."""
        self._closed = True
        with suppress(JournalError):
            self._write_locally()
        if self.home and self.entries and not self.open:
            finish(self.run)

    # -- writing -------------------------------------------------------------------------------------------
    @contextmanager
    def change(self, what: str, undo: Undo, *, lever: str = "") -> Iterator[Callable[[Undo], None]]:
        """Write the intent, let the caller act, write that it was applied.

        Yields a function that makes the undo more exact once the answer is known (the uid of what was created).
        Raises JournalError before anything has happened.
        """
        self.guard()
        why = objection(undo, lever) if self.path is not None or self.home else None
        if why:
            raise JournalError(f"{why}: no other process could take it back; nothing was changed by it: {what}")
        expires = format_time(self.loop.now() + timedelta(seconds=self.lifetime_s))
        number = len(self.entries)
        self.entries.append(Entry(self.run, number, what, undo, expires, lever=lever, owner=self.owner))
        try:
            self._write()
        except JournalError as error:
            self.entries.pop()
            raise JournalError(f"{error}; nothing was changed by it: {what}") from error

        def refine(better: Undo) -> None:
            self.entries[number] = replace(self.entries[number], undo=better)

        yield refine
        self._set(number, state="applied")

    def create(self, resource: r.Resource, obj: Obj, what: str = "") -> Obj:
        """Create an object, journalled; it is labelled with the run. Raises KubeError, JournalError."""
        obj = copy(obj)
        meta = obj.setdefault("metadata", {})
        meta.setdefault("labels", {})[LABEL] = self.run
        path = resource.path(meta.get("namespace"), meta["name"])
        undo = Undo(
            "delete",
            path,
            manual=kubectl("delete", resource, meta["name"], meta.get("namespace")),
            ends_s=_ends_s(obj) if resource == r.JOBS else 0.0,
        )
        with self.change(what or f"created {resource.kind} {meta['name']}", undo) as refine:
            created = retry(self.loop, lambda: self._create(resource, obj), patience_s=WRITE_PATIENCE_S)
            refine(replace(undo, uid=uid_of(created)))
        return created

    def _create(self, resource: r.Resource, obj: Obj) -> Obj:
        try:
            return self.kube.create(resource, obj)
        except Conflict:
            # A request that was carried out and whose answer was lost looks like this when it is made again.
            meta = obj["metadata"]
            found = self.kube.find(resource, meta["name"], meta.get("namespace"))
            if found is not None and labels_of(found).get(LABEL) == self.run:
                return found
            raise

    def merge(
        self,
        resource: r.Resource,
        name: str,
        namespace: str | None,
        change: Obj | Callable[[Obj], Obj],
        what: str,
        *,
        subresource: str | None = None,
        transient: bool = False,
    ) -> Obj:
        """Merge-patch an object, journalled: the undo restores exactly the fields the patch touches.

        ``change``: the patch, or what makes it from the object as it is. ``transient``: an object that may be gone by
        then (a pod), and the change with it.
        The patch only goes into the very version of the object that the undo was made from. Raises KubeError.
        """
        path = resource.path(namespace, name, subresource)

        def once() -> Obj:
            """Read, write the undo down, patch that very version; a conflict means: all of it once more."""
            before = self._shown(path)
            patch = change(before) if callable(change) else change
            back = inverse(before, patch)
            manual = kubectl("patch", resource, name, namespace, patch=back, sub=subresource or "")
            undo = self._marking(
                Undo("merge", path, back, uid_of(before), patch, manual, transient, owners=self._owners(before))
            )
            exact = self._marked(len(self.entries), undo, patch, before)
            exact.setdefault("metadata", {})["resourceVersion"] = before["metadata"]["resourceVersion"]
            with self.change(what, undo):
                return self._patch(resource, exact, patch, before, subresource)

        return retry(self.loop, once, patience_s=WRITE_PATIENCE_S)

    def remember(
        self, resource: r.Resource, obj: Obj, back: Obj, left: Obj, *, what: str, manual: str, transient: bool = False
    ) -> None:
        """Write down how ``obj`` is put back from what another is about to make of it: ``back``, where it is ``left``.

        ``transient``: an object that may be gone by then. Raises KubeError, JournalError. Where it may not be
        marked only this machine's journal can ask for it.
        """
        namespace, name = obj["metadata"].get("namespace"), obj["metadata"]["name"]
        owners = self._owners(obj)
        bare = Undo("merge", resource.path(namespace, name), back, uid_of(obj), left, manual, transient, owners=owners)
        undo = self._marking(bare)
        with self.change(what, undo) as refine:
            try:
                if undo.marked:
                    retry(self.loop, partial(self._mark, resource, undo), patience_s=WRITE_PATIENCE_S)
            except Forbidden:
                refine(bare)  # an undo that speaks of a mark is believed where the mark is

    def _mark(self, resource: r.Resource, undo: Undo) -> None:
        """Mark the object of the newest change, once. Raises KubeError."""
        now, newest = self._shown(undo.path), self.entries[-1]
        if uid_of(now) == undo.uid and not marks.carries(now, newest):
            patch = self._marked(newest.number, undo, {}, now)
            self.kube.patch(resource, now["metadata"]["name"], patch, namespace_of(now) or None)

    def _shown(self, path: str) -> Obj:
        return self.kube.call("GET", path, query=marks.SHOWN).body  # type: ignore[no-any-return]

    def _owners(self, before: Obj) -> list[Obj] | None:
        """Whose its fields are, where the object outlives the run."""
        return owners_of(before) if self.home else None

    def _marking(self, undo: Undo) -> Undo:
        """The next change's undo; its object is marked where the journal is kept where others could write one.

        A subresource takes no mark, nor does a container.
        """
        place = place_of(undo.path)
        may = self.home and self.kube.transport.keeps_labels and place is not None and not place.part
        return replace(undo, marked=True) if may and place is not None and place.group != ENGINE else undo

    def _marked(self, number: int, undo: Undo, patch: Obj, found: Obj) -> Obj:
        """The patch of a change with its mark, where it has one."""
        return marks.with_mark(patch, found, marks.mark_of(self.run, number, undo)) if undo.marked else copy(patch)

    def _patch(self, resource: r.Resource, exact: Obj, patch: Obj, before: Obj, subresource: str | None) -> Obj:
        name, namespace = before["metadata"]["name"], before["metadata"].get("namespace")
        try:
            return self.kube.patch(resource, name, exact, namespace, subresource=subresource)
        except Conflict:
            found = self._shown(resource.path(namespace, name, subresource))
            newest = self.entries[-1]
            if marks.carries(found, newest) if newest.undo.marked else holds(found, patch):  # ours, carried out twice
                return found
            self.never_happened()
            raise

    def never_happened(self) -> None:
        """The newest change was refused: there is nothing of it to take back."""
        self._set(len(self.entries) - 1, state="verified", problem="refused: nothing was changed", strict=False)

    def delete(self, resource: r.Resource, name: str, namespace: str | None, what: str) -> Obj:
        """Delete an object, journalled: the undo creates it again as it was (with another uid)."""
        before = retry(self.loop, lambda: self.kube.get(resource, name, namespace), patience_s=WRITE_PATIENCE_S)
        manual = f"re-create {resource.kind} {name} from the manifest in the journal"
        undo = Undo("create", resource.path(namespace), body=recreatable(before), manual=manual)
        with self.change(what, undo):
            retry(self.loop, lambda: self._delete(resource, before, namespace), patience_s=WRITE_PATIENCE_S)
        return before

    def _delete(self, resource: r.Resource, before: Obj, namespace: str | None) -> None:
        try:
            self.kube.delete(resource, before["metadata"]["name"], namespace, uid=uid_of(before))
        except NotFound:
            return

    @contextmanager
    def acting_on(self, capability: Capability, what: str, back: Sequence[Any]) -> Iterator[None]:
        """Let the caller do something to a capability, journalled; ``back``: the method, and its arguments, that undo
        it.
        """
        with self.change(what, Undo("call", back[0], list(back[1:])), lever=capability):
            yield

    def call(self, capability: Capability, what: str, call: Sequence[Any], back: Sequence[Any]) -> Any:
        """Call a capability's method, journalled: ``call`` is its name and arguments, ``back`` those that take it
        back. Raises what it raises.
        """
        with self.acting_on(capability, what, back):
            return getattr(present(self.capabilities.by_name(capability)), call[0])(*call[1:])

    def set_attribute(self, capability: Capability, what: str, attribute: str, value: Any) -> None:
        """Set an attribute of a capability, journalled; the undo sets what it was."""
        found = present(self.capabilities.by_name(capability))
        with self.change(what, Undo("set", attribute, getattr(found, attribute)), lever=capability):
            setattr(found, attribute, value)

    # -- undoing -------------------------------------------------------------------------------------------
    def undo_all(self) -> tuple[list[str], list[str]]:
        """Undo everything that is left, newest first, going on past failures.

        What could not be seen to be back is looked at once more when all the rest is: a fault that is healed last
        (a controller that is down) may have been in the way. Returns what was undone and what could not be, in words.
        Idempotent. A first KeyboardInterrupt is raised when all is done (Dirty, where something could not be undone);
        one that ``insists`` at once.
        """
        try:
            return self._undo_rest()
        except KeyboardInterrupt as stop:
            if getattr(stop, "insists", False):
                raise
            problems = self._undo_rest()[1]
            if problems:
                raise Dirty(problems) from stop
            raise

    def undo_of(self, owner: str) -> list[str]:
        """Undo what one fault changed, newest first, while everything else stays. Returns what could not be, in words:
        it is tried again with all the rest.
        """
        problems = []
        for entry in reversed([one for one in self.open if one.owner == owner]):
            try:
                self._undo(entry, PATIENCE_S)
            except (UndoProblem, KubeError) as error:
                problems.append(self._failed(entry, error))
        return problems

    def _undo_rest(self) -> tuple[list[str], list[str]]:
        done: list[str] = []
        problems: dict[int, str] = {}
        patience_s = PATIENCE_S
        for entry in reversed(list(self.entries)):
            if entry.state == "verified":
                continue
            if self.until_s is not None and self.loop.monotonic() > self.until_s:
                patience_s = 0.0
            try:
                done.append(self._undo(entry, patience_s))
            except (UndoProblem, KubeError) as error:
                if isinstance(error, KubeError):
                    patience_s = 0.0  # the rest is tried once: the cluster has had its time
                problems[entry.number] = self._failed(entry, error)
        for number in list(problems):
            try:
                done.append(self._undo(self.entries[self._at(number)], patience_s if done else 0.0))
            except (UndoProblem, KubeError) as error:
                problems[number] = self._failed(self.entries[self._at(number)], error)
            else:
                del problems[number]
        if not problems:
            self._clear()
        return done, list(problems.values())

    def _undo(self, entry: Entry, patience_s: float) -> str:
        said = take_back(self.kube, self.loop, entry, self.capabilities, patience_s=patience_s, doubtful=self.doubtful)
        self._set(entry.number, state="undone", strict=False)
        if not said.left_alone:
            verify(self.kube, self.loop, entry, patience_s=patience_s)
        self._set(entry.number, state="verified", problem="", strict=False)
        return said.words

    def _failed(self, entry: Entry, error: Exception) -> str:
        self._set(entry.number, state="failed", problem=redact(str(error)), strict=False)
        manual = f" - by hand: {entry.undo.manual}" if entry.undo.manual else ""
        return redact(f"{entry.what}: {error}{manual}")

    def check(self) -> list[str]:
        """What undoing would do now, in words; changes nothing."""
        return [f"{entry.state}: {entry.what} - {self._check(entry)}" for entry in reversed(self.open)]

    def _check(self, entry: Entry) -> str:
        if entry.undo.action == "merge" and not entry.lever:
            found = retry(self.loop, lambda: self.kube.call("GET", entry.undo.path).body, patience_s=WRITE_PATIENCE_S)
            mine, theirs = compare(found, entry.undo.left or entry.undo.body, entry.undo.body)
            return f"patch {json.dumps(mine)} back" if mine else ("; ".join(theirs) or "already as it was")
        return entry.undo.manual or entry.undo.action

    @property
    def open(self) -> list[Entry]:
        """What has not been put back yet."""
        return [entry for entry in self.entries if entry.state != "verified"]

    # -- where it is kept ----------------------------------------------------------------------------------
    def _set(self, number: int, *, strict: bool = True, **changes: Any) -> None:
        at = self._at(number)
        self.entries[at] = replace(self.entries[at], **changes)
        try:
            self._write()
        except JournalError:
            if strict:
                raise

    def _at(self, number: int) -> int:
        """The place of the entry with that number: what another process left may have gaps."""
        return next(at for at, entry in enumerate(self.entries) if entry.number == number)

    def _text(self, *, local: bool) -> str:
        header = {
            "run": self.run,
            "context": self.context,
            "home": self.home,
            "host": platform.node(),
            "pid": os.getpid(),
            "began": process_began(os.getpid()),
            "closed": self._closed,
        }
        header |= {"places": list(self.places)} | ({"kubeconfig": self.kubeconfig} if local else {})
        try:
            return written.signed(header, (entry.to_json() for entry in self.entries), signing_key())
        except KeyProblem as error:
            raise JournalError(str(error)) from error

    def _write_locally(self) -> None:
        if self.path is not None:
            try:
                _write_durably(self.path, self._text(local=True))
            except OSError as error:
                raise JournalError(f"cannot write the journal {self.path}: {error.strerror or error}") from error

    def _write(self) -> None:
        self._write_locally()
        if self.home:
            try:
                retry(self.loop, self._write_in_cluster, patience_s=WRITE_PATIENCE_S)
            except KubeError as error:
                where = f"{self.home}/{config_map_name(self.run)}"
                raise JournalError(f"cannot write the journal to ConfigMap {where}: {error}") from error

    def _write_in_cluster(self) -> None:
        name = config_map_name(self.run)
        data = {DATA: self._text(local=False)}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": data,
            "metadata": {"name": name, "namespace": self.home, "labels": {LABEL: self.run, JOURNAL_LABEL: "true"}},
        }
        if not self._in_cluster:
            try:
                self.kube.create(r.CONFIGMAPS, body)
                self._in_cluster = True
                return
            except Conflict:
                self._in_cluster = True
        try:
            self.kube.patch(r.CONFIGMAPS, name, {"data": data}, self.home)
        except NotFound:
            self.kube.create(r.CONFIGMAPS, body)

    def _clear(self) -> None:
        """Everything is back: the copy in the cluster goes, so that nothing of ours is left; the local file stays."""
        if not self.home:
            return

        def once() -> None:
            try:
                self.kube.delete(r.CONFIGMAPS, config_map_name(self.run), self.home)
            except NotFound:
                return

        try:
            retry(self.loop, once)
        except KubeError:
            return  # the next start and the janitor find it, all its entries verified

    def adopt(self, entries: Sequence[Entry], *, keep: bool = False) -> None:
        """Take over what another process left; ``keep``: what is written of it stays as it is, for more is to be told.

        Entries keep their numbers, which their marks are of.
        """
        self.entries = list(entries)
        self._in_cluster = bool(self.home) and self._exists()
        if self.home and not self._in_cluster:
            self.doubtful, self.home = True, ""  # what is written down here is for this machine alone now
        if keep:
            self.path, self.home = None, ""

    def _exists(self) -> bool:
        found = retry(self.loop, lambda: self.kube.find(r.CONFIGMAPS, config_map_name(self.run), self.home))
        return found is not None and dig(found, "data", DATA) is not None


def _ends_s(job: Obj) -> float:
    """How long a Job's pods may take to end once they are told to, in seconds."""
    return float(dig(job, "spec", "template", "spec", "terminationGracePeriodSeconds", default=30)) + ENDING_S


def _write_durably(path: Path, text: str) -> None:
    """Replace a file so that after a crash it is either the old or the new one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
