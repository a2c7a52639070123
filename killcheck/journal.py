"""The journal: what was changed and how to put it back, written before the change happens.

An undo is data - one API call with its precondition - never code. Entries go intent -> applied -> undone -> verified.
They are written to a local file (fsync) and, on a real cluster, to a ConfigMap in the namespace that consented, so that
another machine can undo what this one left. If a write of the journal fails, the change does not happen.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from killcheck.clock import Loop
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import ApiError, Conflict, KubeError, NotFound
from killcheck.kube.objects import Obj, dig, format_time, parse_time, uid_of

__all__ = ["LABEL", "Entry", "Journal", "JournalError", "Undo", "UndoProblem", "undo_entry"]

#: Label on everything that killcheck creates; the value is the run's id.
LABEL = "killcheck.dev/run"

State = Literal["intent", "applied", "undone", "verified", "failed"]


class JournalError(Exception):
    """The journal could not be written: nothing may be changed."""


class UndoProblem(Exception):
    """Something could not be put back; the message has the command that a person can run instead."""


@dataclass(frozen=True, slots=True)
class Undo:
    """One API call that takes a change back.

    ``action``: *delete* the object, *merge*-patch ``body`` into it, or *create* ``body`` again. ``uid``: only the
    object we changed.
    ``expect``: a path of keys and the value we left there; somebody else's later change is not overwritten.
    """

    action: Literal["delete", "merge", "create"]
    path: str
    body: Any = None
    uid: str = ""
    expect: tuple[tuple[str, ...], Any] | None = None
    manual: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One change. ``lever`` entries name a lever of the cluster (a registry, a container) instead of an API call."""

    run: str
    number: int
    what: str
    undo: Undo
    expires: str
    state: State = "intent"
    problem: str = ""
    lever: str = ""

    def to_json(self) -> Obj:
        """A JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Obj) -> Entry:
        """What :meth:`to_json` wrote. Raises KeyError or TypeError for anything else."""
        undo = dict(data["undo"])
        if undo.get("expect") is not None:
            path, value = undo["expect"]
            undo["expect"] = (tuple(path), value)
        return cls(**{**data, "undo": Undo(**undo)})


@dataclass
class Journal:
    """The journal of one run.

    ``path``: the local file. ``home``: the namespace for the copy in the cluster; empty for none (the embedded
    cluster, which dies with its process). ``lifetime_s``: seconds after which the janitor may undo what is left.
    """

    run: str
    loop: Loop
    kube: Kube
    path: Path | None = None
    home: str = ""
    lifetime_s: float = 6 * 3600.0
    levers: dict[str, Callable[[Undo], None]] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)

    # -- writing -------------------------------------------------------------------------------------------
    @contextmanager
    def change(self, what: str, undo: Undo, *, lever: str = "") -> Iterator[Callable[[Undo], None]]:
        """Write the intent, let the caller act, write that it was applied.

        Yields a function that makes the undo more exact once the answer is known (the uid of what was created).
        Raises JournalError before anything has happened.
        """
        expires = format_time(self.loop.now() + timedelta(seconds=self.lifetime_s))
        number = len(self.entries)
        self.entries.append(Entry(self.run, number, what, undo, expires, lever=lever))
        try:
            self._write()
        except JournalError:
            self.entries.pop()
            raise

        def refine(better: Undo) -> None:
            self.entries[number] = replace(self.entries[number], undo=better)

        yield refine
        self._set(number, state="applied")

    def create(self, resource: r.Resource, obj: Obj, what: str = "") -> Obj:
        """Create an object, journalled; it is labelled with the run."""
        meta = obj.setdefault("metadata", {})
        meta.setdefault("labels", {})[LABEL] = self.run
        path = resource.path(meta.get("namespace"), meta["name"])
        manual = _kubectl("delete", resource, meta["name"], meta.get("namespace"))
        undo = Undo("delete", path, manual=manual)
        with self.change(what or f"created {resource.kind} {meta['name']}", undo) as refine:
            created = self.kube.create(resource, obj)
            refine(replace(undo, uid=uid_of(created)))
        return created

    def merge(
        self, resource: r.Resource, name: str, namespace: str | None, patch: Obj, what: str, *,
        subresource: str | None = None,
    ) -> Obj:
        """Merge-patch an object, journalled: the undo restores exactly the fields the patch touches."""
        before = self.kube.get(resource, name, namespace)
        undo = Undo(
            "merge", resource.path(namespace, name, subresource), body=inverse(before, patch), uid=uid_of(before),
            expect=_leaf(patch), manual=_kubectl("patch", resource, name, namespace, inverse(before, patch)),
        )
        with self.change(what, undo):
            return self.kube.patch(resource, name, patch, namespace, subresource=subresource)

    def delete(self, resource: r.Resource, name: str, namespace: str | None, what: str) -> Obj:
        """Delete an object, journalled: the undo creates it again as it was."""
        before = self.kube.get(resource, name, namespace)
        manual = f"re-create {resource.kind} {name}: its manifest is in the journal"
        undo = Undo("create", resource.path(namespace), body=recreatable(before), manual=manual)
        with self.change(what, undo):
            self.kube.delete(resource, name, namespace, uid=uid_of(before))
        return before

    # -- undoing -------------------------------------------------------------------------------------------
    def undo_all(self) -> tuple[list[str], list[str]]:
        """Undo everything that is left, newest first, going on past failures.

        Returns what was undone and what could not be, in words. Idempotent.
        """
        done: list[str] = []
        problems: list[str] = []
        for entry in reversed(list(self.entries)):
            if entry.state == "verified":
                continue
            try:
                said = undo_entry(self.kube, entry, self.levers)
            except (UndoProblem, KubeError) as error:
                manual = f" - by hand: {entry.undo.manual}" if entry.undo.manual else ""
                problems.append(f"{entry.what}: {error}{manual}")
                self._set(entry.number, state="failed", problem=str(error), strict=False)
                continue
            done.append(said)
            self._set(entry.number, state="verified", strict=False)
        if not problems:
            self._clear()
        return done, problems

    @property
    def open(self) -> list[Entry]:
        """What has not been put back yet."""
        return [entry for entry in self.entries if entry.state != "verified"]

    # -- where it is kept ----------------------------------------------------------------------------------
    def _set(self, number: int, *, strict: bool = True, **changes: Any) -> None:
        self.entries[number] = replace(self.entries[number], **changes)
        try:
            self._write()
        except JournalError:
            if strict:
                raise

    def _write(self) -> None:
        text = "".join(json.dumps(entry.to_json()) + "\n" for entry in self.entries)
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                temporary = self.path.with_suffix(".tmp")
                with temporary.open("w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.chmod(0o600)
                temporary.replace(self.path)
            except OSError as error:
                raise JournalError(f"cannot write the journal {self.path}: {error}; nothing was changed") from error
        if self.home:
            self._write_in_cluster(text)

    def _write_in_cluster(self, text: str) -> None:
        name = f"killcheck-journal-{self.run}"
        body = {
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"entries.jsonl": text},
            "metadata": {
                "name": name, "namespace": self.home, "labels": {LABEL: self.run, "killcheck.dev/journal": "true"}},
        }
        try:
            try:
                self.kube.patch(r.CONFIGMAPS, name, {"data": body["data"]}, self.home)
            except NotFound:
                self.kube.create(r.CONFIGMAPS, body)
        except KubeError as error:
            raise JournalError(
                f"cannot write the journal to ConfigMap {self.home}/{name}: {error}; nothing was changed") from error

    def _clear(self) -> None:
        """Everything is back: the copy in the cluster goes, so that nothing of ours is left; the local file stays."""
        if self.home:
            try:
                self.kube.delete(r.CONFIGMAPS, f"killcheck-journal-{self.run}", self.home)
            except NotFound:
                return
            except KubeError:
                return  # the janitor finds it, all its entries verified


def undo_entry(kube: Kube, entry: Entry, levers: dict[str, Callable[[Undo], None]] | None = None) -> str:
    """Take one change back; returns what was done, in words.

    Idempotent. Raises UndoProblem (with the command to run by hand) or KubeError where it could not be put back.
    """
    if entry.lever:
        lever = (levers or {}).get(entry.lever)
        if lever is None:
            raise UndoProblem(f"nothing here can reach the {entry.lever}")
        lever(entry.undo)
        return f"undone: {entry.what}"
    undo = entry.undo
    if undo.action == "delete":
        return _undo_create(kube, entry)
    if undo.action == "create":
        return _undo_delete(kube, entry)
    return _undo_merge(kube, entry)


def _undo_create(kube: Kube, entry: Entry) -> str:
    try:
        if not entry.undo.uid:  # killed between the call and its answer: ours only if it carries our label
            found = kube.call("GET", entry.undo.path).body
            if dig(found, "metadata", "labels", LABEL) != entry.run:
                return f"left alone: {entry.what} (somebody else's object has that name)"
        options: Obj = {"propagationPolicy": "Background"}
        if entry.undo.uid:
            options["preconditions"] = {"uid": entry.undo.uid}
        kube.call("DELETE", entry.undo.path, body={"apiVersion": "v1", "kind": "DeleteOptions", **options})
    except NotFound:
        return f"already gone: {entry.what}"
    except Conflict:
        return f"already gone: {entry.what} (another object has that name now)"
    return f"deleted: {entry.what}"


def _undo_delete(kube: Kube, entry: Entry) -> str:
    try:
        kube.call("POST", entry.undo.path, body=entry.undo.body)
    except Conflict:
        return f"already there: {entry.what}"
    return f"re-created: {entry.what}"


def _undo_merge(kube: Kube, entry: Entry) -> str:
    undo = entry.undo
    try:
        now = kube.call("GET", undo.path).body
    except NotFound:
        raise UndoProblem("the object has gone meanwhile") from None
    if undo.uid and uid_of(now) != undo.uid:
        raise UndoProblem("another object has that name now")
    if undo.expect is not None and entry.state != "intent":
        path, left = undo.expect
        found = dig(now, *path)
        if _zero(found) != _zero(left):
            if _zero(found) == _zero(dig(undo.body, *path)):
                return f"already back: {entry.what}"
            raise UndoProblem(f"{'.'.join(path)} was left at {left!r} and is {found!r} now: somebody else changed it")
    try:
        kube.call(
            "PATCH", undo.path, body=undo.body, headers={"content-type": "application/merge-patch+json"})
    except ApiError as error:
        raise UndoProblem(str(error)) from error
    return f"restored: {entry.what}"


def _zero(value: Any) -> Any:
    """The API leaves out zeros, empty strings, false: to it they are the same as nothing."""
    return value or None


def inverse(before: Any, patch: Any) -> Any:
    """The merge patch that takes ``patch`` back from an object that was ``before``."""
    if not isinstance(patch, dict):
        return before
    return {
        key: (inverse(dig(before, key, default={}), value) if isinstance(value, dict) and dig(before, key) is not None
              else dig(before, key))
        for key, value in patch.items()
    }


def recreatable(obj: Obj) -> Obj:
    """An object without what the server sets, so that it can be created again."""
    meta = {
        key: value for key, value in obj["metadata"].items()
        if key not in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink",
                       "deletionTimestamp", "deletionGracePeriodSeconds")
    }
    return {key: value for key, value in obj.items() if key != "status"} | {"metadata": meta}


def expired(entry: Entry, now: datetime) -> bool:
    """Whether the janitor may undo it."""
    return parse_time(entry.expires) <= now


def _leaf(patch: Obj) -> tuple[tuple[str, ...], Any] | None:
    """The path and value of a patch's first leaf."""
    path: list[str] = []
    value: Any = patch
    while isinstance(value, dict) and value:
        key, value = next(iter(value.items()))
        path.append(key)
    return (tuple(path), value) if path else None


def _kubectl(verb: str, resource: r.Resource, name: str, namespace: str | None, patch: Any = None) -> str:
    where = f" -n {namespace}" if namespace else ""
    extra = f" --type=merge -p '{json.dumps(patch)}'" if verb == "patch" else ""
    return f"kubectl {verb} {resource.qualified} {name}{where}{extra}"
