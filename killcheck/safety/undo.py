"""Taking a change back: undo as data, each one *look, compare, act, look again*, so that it may be tried any number of
times, by any machine, in any state of the change.

What may not live here: undo as code that only the process which made the change could run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from killcheck.capabilities.errors import UndoProblem
from killcheck.capabilities.offered import Capabilities
from killcheck.clock import Loop
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import (
    ApiError,
    Conflict,
    Expired,
    KubeError,
    NotFound,
    ServerFault,
    TooManyRequests,
    Unreachable,
)
from killcheck.kube.objects import Obj, copy, dig, labels_of, uid_of
from killcheck.safety.changes import FORESEEN, LABEL, Entry, Undo
from killcheck.safety.marks import SHOWN, carries, without_mark
from killcheck.safety.owners import as_before
from killcheck.safety.sealing import is_sealed
from killcheck.text.values import replace

__all__ = [
    "ANY_TEXT",
    "PASSING",
    "adding",
    "holds",
    "inverse",
    "kubectl",
    "leaves",
    "recreatable",
    "retry",
    "take_back",
    "verify",
    "without",
]

#: What may pass if one waits: no connection, throttling, a server fault, an answer out of date, a write that raced.
PASSING = (Unreachable, TooManyRequests, ServerFault, Expired, Conflict)
#: Seconds before each further try, the last one repeated.
BACKOFF_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
#: How long a change is tried to be taken back while nothing but what may pass is in the way, in seconds.
PATIENCE_S = 45.0

#: The lists that several write, each its own part of it.
FINALIZERS = ("metadata", "finalizers")
TAINTS = ("spec", "taints")
_SHARED = (FINALIZERS, TAINTS)

_T = TypeVar("_T")


class _NotYetError(KubeError):
    """The change has been taken back, and its effect cannot be seen yet."""


def retry(
    loop: Loop,
    step: Callable[[], _T],
    *,
    patience_s: float = PATIENCE_S,
    passing: tuple[type[KubeError], ...] = PASSING,
) -> _T:
    """Do ``step`` again and again while it fails with what may pass; raises its last error when patience is at an end.

    ``step`` must be safe to repeat: it begins by looking.
    """
    until = loop.monotonic() + patience_s
    tries = 0
    while True:
        try:
            return step()
        except passing as error:
            told = error.retry_after_s if isinstance(error, ApiError) else None
            delay = max(BACKOFF_S[min(tries, len(BACKOFF_S) - 1)], min(told or 0.0, BACKOFF_S[-1]))
            if loop.monotonic() + delay > until:
                raise
        loop.sleep(delay)
        tries += 1


class TakenBack(Struct, frozen=True):
    """What was done with one change, in words; ``left_alone``: nothing, for it is somebody else's now."""

    words: str
    left_alone: bool = False


# -- taking back -------------------------------------------------------------------------------------------
def take_back(
    kube: Kube,
    loop: Loop,
    entry: Entry,
    capabilities: Capabilities | None = None,
    *,
    patience_s: float = PATIENCE_S,
    doubtful: bool = False,
) -> TakenBack:
    """Take one change back; returns what was done. Idempotent.

    ``doubtful``: it may have been taken back already, and what looks like our change may be somebody's since then: only
    what is certainly ours (by uid, by label, by its field manager) is touched.

    Raises UndoProblem where it cannot be put back as it was, KubeError where it could not be asked; nothing else,
    whatever a capability raises or a journal says: what else is left is to be put back all the same.
    """
    try:
        if entry.undo.action == "aws":
            return _in_account(entry, capabilities or Capabilities())
        if entry.lever:
            return _with_capability(entry, capabilities or Capabilities())
        return _call_back(kube, loop, entry, patience_s, doubtful=doubtful)
    except _NotYetError as error:
        raise UndoProblem(str(error)) from error
    except (KubeError, UndoProblem):
        raise
    except Exception as error:
        raise UndoProblem(f"{type(error).__name__}: {error}") from error


def _call_back(kube: Kube, loop: Loop, entry: Entry, patience_s: float, *, doubtful: bool) -> TakenBack:
    if doubtful and not retry(loop, lambda: _certainly_ours(kube, entry), patience_s=patience_s):
        return TakenBack(
            f"left alone: {entry.what} (put back from elsewhere already, as far as can be told)", left_alone=True
        )
    act = _ACTS.get(entry.undo.action)
    if act is None:
        raise UndoProblem(f"{entry.undo.action} is no undo that is known here (did a newer killcheck write it down?)")
    return retry(loop, lambda: act(kube, entry), patience_s=patience_s, passing=(*PASSING, _NotYetError))


def verify(kube: Kube, loop: Loop, entry: Entry, *, patience_s: float = PATIENCE_S) -> None:
    """See that the change is taken back: gone, there again, or as it was. Raises UndoProblem or KubeError."""
    if entry.lever:  # in an account it was looked at when it was done
        return
    if patience_s:
        patience_s += entry.undo.ends_s
    try:
        retry(loop, lambda: _look(kube, entry), patience_s=patience_s, passing=(*PASSING, _NotYetError))
    except _NotYetError as error:
        raise UndoProblem(str(error)) from error


def _in_account(entry: Entry, capabilities: Capabilities) -> TakenBack:
    """From any machine whose credentials may: the account is asked again whether anything of the run's is left."""
    from killcheck.cloud import account_undo
    from killcheck.cloud.session import AskError

    aws = capabilities.hands.aws if capabilities.hands is not None else None
    try:
        count = account_undo.take_back(entry.undo.path, entry.undo.body, entry.run, aws)
        remaining = account_undo.left(entry.undo.path, entry.undo.body, entry.run, aws) if count else []
    except AskError as error:
        raise UndoProblem(str(error)) from error
    if remaining:
        raise UndoProblem(f"{', '.join(remaining)} is there still")
    return TakenBack(f"undone: {entry.what} ({count})" if count else f"already gone: {entry.what}")


def _with_capability(entry: Entry, capabilities: Capabilities) -> TakenBack:
    capability = capabilities.by_name(entry.lever)
    if capability is None:
        raise UndoProblem(f"nothing here can reach the {entry.lever}")
    if entry.undo.action == "call":
        try:
            getattr(capability, entry.undo.path)(*entry.undo.body)
        except LookupError:  # the node that it was done to is gone
            return TakenBack(f"gone with what it was done to: {entry.what}")
    else:
        setattr(capability, entry.undo.path, entry.undo.body)
    return TakenBack(f"undone: {entry.what}")


def _certainly_ours(kube: Kube, entry: Entry) -> bool:
    if entry.undo.action in ("delete", "sweep"):
        return True  # tells its own by uid and label
    found = _find(kube, entry.undo.path) if entry.undo.action == "merge" else None
    if entry.undo.marked:
        return found is not None and carries(found, entry)
    paths = [path for path, _ in leaves(entry.undo.left or {})]
    return found is not None and any(
        one.get("manager") == kube.field_manager and any(_owns(one.get("fieldsV1"), path) for path in paths)
        for one in dig(found, "metadata", "managedFields", default=[])
    )


def _owns(fields: Any, path: tuple[str, ...]) -> bool:
    """Whether a managedFields entry's ``fieldsV1`` holds a path."""
    for key in path:
        if not isinstance(fields, dict) or f"f:{key}" not in fields:
            return False
        fields = fields[f"f:{key}"]
    return True


def _find(kube: Kube, path: str) -> Obj | None:
    try:
        return kube.call("GET", path, query=SHOWN).body  # type: ignore[no-any-return]
    except NotFound:
        return None


def _ours(entry: Entry, found: Obj) -> bool:
    """Killed between the call and its answer we know no uid: then the label tells whose object it is."""
    return uid_of(found) == entry.undo.uid if entry.undo.uid else labels_of(found).get(LABEL) == entry.run


def _remove(kube: Kube, entry: Entry) -> TakenBack:
    found = _find(kube, entry.undo.path)
    if found is None:
        return TakenBack(f"already gone: {entry.what}")
    if not _ours(entry, found):
        return TakenBack(f"left alone: {entry.what} (another object has that name now)", left_alone=True)
    if "deletionTimestamp" in found["metadata"]:
        return TakenBack(f"already going: {entry.what}")
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground" if entry.undo.ends_s else "Background",
        "preconditions": {"uid": uid_of(found)},
    }
    try:
        kube.call("DELETE", entry.undo.path, body=options)
    except NotFound:
        return TakenBack(f"already gone: {entry.what}")
    return TakenBack(f"deleted: {entry.what}")


def _labelled(kube: Kube, entry: Entry) -> list[Obj]:
    query = {"labelSelector": f"{LABEL}={entry.run}"}
    return kube.call("GET", entry.undo.path, query=query).body.get("items") or []


def _sweep(kube: Kube, entry: Entry) -> TakenBack:
    """What a change of ours made others make: it carries our label, and is nobody's once the change is taken back."""
    found = _labelled(kube, entry)
    for obj in found:
        one = replace(entry, undo=Undo("delete", f"{entry.undo.path}/{obj['metadata']['name']}", uid=uid_of(obj)))
        _remove(kube, one)
    return TakenBack(f"deleted: {entry.what} ({len(found)})" if found else f"already gone: {entry.what}")


def _recreate(kube: Kube, entry: Entry) -> TakenBack:
    if _there_again(kube, entry.undo):
        return TakenBack(f"already there: {entry.what}")
    _readable(entry.undo)
    kube.call("POST", entry.undo.path, query={"fieldManager": kube.field_manager}, body=entry.undo.body)
    return TakenBack(f"re-created: {entry.what}")


def _readable(undo: Undo) -> None:
    """Raises UndoProblem for what was written down with a key that is not here."""
    if is_sealed(undo.body) or is_sealed(undo.left):
        raise UndoProblem(
            "what it was is sealed, for there may be secrets in it: killcheck restore with the key of the machine "
            "that the run was on makes it again"
        )


def _there_again(kube: Kube, undo: Undo) -> bool:
    """Whether what was deleted is there, and not merely on its way out. Raises _NotYetError where it is that."""
    found = _find(kube, f"{undo.path}/{undo.body['metadata']['name']}")
    if found is not None and "deletionTimestamp" in found["metadata"]:
        held = dig(found, "metadata", "finalizers", default=[])
        raise _NotYetError("it is still going" + (f", held by {', '.join(held)}" if held else ""))
    return found is not None


def _put_back(kube: Kube, entry: Entry) -> TakenBack:
    found = _find(kube, entry.undo.path)
    if found is not None and holds(found, {"spec": entry.undo.body["spec"]}):
        return TakenBack(f"already undone: {entry.what}")
    kube.call("PUT", entry.undo.path, query={"fieldManager": kube.field_manager}, body=entry.undo.body)
    return TakenBack(f"undone: {entry.what}")


def _merge_back(kube: Kube, entry: Entry) -> TakenBack:
    undo = entry.undo
    _readable(undo)
    found = _changed_object(kube, entry)
    if found is None:
        return TakenBack(f"gone with its object: {entry.what}")
    mine, theirs = compare(found, undo.left if undo.left is not None else undo.body, undo.body)
    if mine or carries(found, entry):
        try:
            found = _patch(kube, undo.path, without_mark(mine, found, entry) if carries(found, entry) else mine, found)
        except NotFound:  # our own first try, whose answer was lost, may have let it go (a finalizer)
            if not undo.transient:
                raise UndoProblem("the object has gone meanwhile") from None
            undo = replace(undo, owners=None)
    _give_back(kube, undo, found)
    if theirs and entry.owner == FORESEEN:  # whose it is the account tells
        return TakenBack(f"left alone: {entry.what} ({'; '.join(theirs)})", left_alone=True)
    if theirs:
        raise UndoProblem("; ".join(theirs) + ": somebody else changed it, so it is left as it is")
    return TakenBack(f"undone: {entry.what}" if mine else f"already undone: {entry.what}")


def _patch(kube: Kube, path: str, patch: Obj, found: Obj) -> Obj:
    """Merge ``patch`` into the very version of an object that was ``found``; as it is then."""
    meta = (patch.get("metadata") or {}) | {"resourceVersion": found["metadata"]["resourceVersion"]}
    query, headers = {"fieldManager": kube.field_manager, **SHOWN}, {"content-type": "application/merge-patch+json"}
    return kube.call("PATCH", path, query=query, body=patch | {"metadata": meta}, headers=headers).body  # type: ignore[no-any-return]


def _give_back(kube: Kube, undo: Undo, found: Obj, tries: int = 3) -> None:
    """Its fields to whoever had them; where that is refused, they hold what they held all the same."""
    entries = as_before(found, undo.owners, kube.field_manager) if undo.owners else None
    if entries is None:
        return
    try:
        _patch(kube, undo.path, {"metadata": {"managedFields": entries}}, found)
    except Conflict:  # its controller has written its status already
        now = _find(kube, undo.path)
        if not tries or now is None or uid_of(now) != uid_of(found):
            raise
        _give_back(kube, undo, now, tries - 1)
    except PASSING:
        raise
    except ApiError:
        return


def _changed_object(kube: Kube, entry: Entry) -> Obj | None:
    """The very object; None where it is gone and was bound to go."""
    found = _find(kube, entry.undo.path)
    another = found is not None and bool(entry.undo.uid) and uid_of(found) != entry.undo.uid
    if found is not None and not another:
        return found
    if entry.undo.transient:
        return None
    raise UndoProblem("another object has that name now" if another else "the object has gone meanwhile")


def _look(kube: Kube, entry: Entry) -> None:
    undo = entry.undo
    if undo.action == "delete":
        found = _find(kube, undo.path)
        if found is not None and _ours(entry, found):
            held = dig(found, "metadata", "finalizers", default=[])
            raise _NotYetError(f"it is still there, held by {', '.join(held)}" if held else "it is still there")
    elif undo.action == "sweep":
        if _labelled(kube, entry):
            raise _NotYetError("it is still there")
    elif undo.action == "create":
        if not _there_again(kube, undo):
            raise _NotYetError("it is not there again")
    elif undo.action == "put":
        found = _find(kube, undo.path)
        if found is None or not holds(found, {"spec": undo.body["spec"]}):
            raise _NotYetError("it is not as it was")
    elif undo.action == "merge":
        found = _changed_object(kube, entry)
        if found is not None and (carries(found, entry) or not holds(found, _wanted(found, undo))):
            raise _NotYetError("it is not as it was")


_ACTS: Mapping[str, Callable[[Kube, Entry], TakenBack]] = {
    "delete": _remove,
    "sweep": _sweep,
    "create": _recreate,
    "put": _put_back,
    "merge": _merge_back,
}


# -- comparing ---------------------------------------------------------------------------------------------
def _without_ours(path: tuple[str, ...], found: Obj, left: Obj, back: Obj) -> list[Any]:
    """What is there now, without what we added and with what we took.

    Finalizers and taints are sets of several owners' marks: each takes its own away when it has done its work (the Job
    controller ``batch.kubernetes.io/job-tracking``, the node lifecycle controller
    ``node.kubernetes.io/unreachable``), and what others did meanwhile is theirs.
    """
    now, ours, was = (dig(obj, *path) or [] for obj in (found, left, back))
    return [one for one in now if one in was or one not in ours] + [
        one for one in was if one not in ours and one not in now
    ]


def _wanted(found: Obj, undo: Undo) -> Obj:
    """The patch that an object must hold to be as it was, whoever changed what is shared beside us."""
    wanted: Obj = copy(undo.body)
    for path, _ in leaves(undo.left or {}):
        if path in _SHARED:
            _put(wanted, path, _without_ours(path, found, undo.left or {}, undo.body))
    return wanted


#: Where an undo looks before it acts, and any text will do: a date, a person's name. No annotation is a list.
ANY_TEXT: list[str] = []


def compare(found: Obj, left: Obj, back: Obj) -> tuple[Obj, list[str]]:
    """What of ``back`` is still to be patched in, and what is neither as we left it nor as it was, in words."""
    mine: Obj = {}
    theirs: list[str] = []
    for path, value in leaves(left):
        marks = path in _SHARED
        now, was = dig(found, *path), _without_ours(path, found, left, back) if marks else dig(back, *path)
        text = value == ANY_TEXT and isinstance(now, str) and now != was  # an empty one is a mark too
        if (not text and _same(now, was)) or (value == {} and isinstance(was, dict) and _covers(now, was)):
            continue  # what was left to others is as it was: a write would say nothing, and could be refused
        alike = _same(now, value) or (isinstance(value, (dict, list)) and _covers(now, value))
        if marks or alike or text:
            _put(mine, path, was)
        else:
            theirs.append(f"{'.'.join(path)} was left at {json.dumps(value)} and is {json.dumps(now)} now")
    return mine, theirs


def holds(found: Obj, patch: Obj) -> bool:
    """Whether an object is as a merge patch would make it."""
    return all(
        _same(dig(found, *path), value) or (value is not None and _covers(dig(found, *path), value))
        for path, value in leaves(patch)
    )


def leaves(patch: Obj, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each field that a merge patch sets, and to what: a list is one."""
    for key, value in patch.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def without(patch: Obj, others: Iterable[Obj]) -> Obj:
    """A merge patch without the fields that others set, or what they are in or have in them."""
    theirs = [path for other in others for path, _ in leaves(other)]
    left: Obj = {}
    for path, value in leaves(patch):
        if not any(path[: len(one)] == one or one[: len(path)] == path for one in theirs):
            _put(left, path, value)
    return left


def _put(obj: Obj, path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        obj = obj.setdefault(key, {})
    obj[path[-1]] = value


def _same(one: Any, other: Any) -> bool:
    """The API leaves out zeros, empty strings, empty lists, false: to it they are the same as nothing."""
    return (one or None) == (other or None)


def _covers(found: Any, wanted: Any) -> bool:
    """Whether ``found`` is ``wanted`` with nothing but the server's defaults added."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(_covers(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(_covers(f, w) for f, w in zip(found, wanted, strict=True))
    return _same(found, wanted)


def inverse(before: Any, patch: Any) -> Any:
    """The merge patch that takes ``patch`` back from an object that was ``before``."""
    if not isinstance(patch, dict):
        return before
    return {
        key: (inverse(dig(before, key, default={}), value) if isinstance(value, dict) and value else dig(before, key))
        for key, value in patch.items()
    }


def adding(one: Any, *path: str) -> Callable[[Obj], Obj]:
    """The merge patch that adds an item to a list which others write too, made from the object as it is."""

    def patch(found: Obj) -> Obj:
        made: Obj = {}
        _put(made, path, [*(dig(found, *path) or []), one])
        return made

    return patch


#: What of an object's metadata the server sets.
_SERVERS = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def recreatable(obj: Obj) -> Obj:
    """An object as somebody would create it: without what the server sets and generates, and bound to no node."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _SERVERS}
    body = copy({key: value for key, value in obj.items() if key != "status"} | {"metadata": meta})
    if obj.get("kind") == "Pod":
        body["spec"].pop("nodeName", None)
    if obj.get("kind") == "Job" and not dig(obj, "spec", "manualSelector"):
        _forget_generated(body)
    return body


def _forget_generated(job: Obj) -> None:
    """Without the selector of a Job and the labels that it selects by, which are made of its uid."""
    job["spec"].pop("selector", None)
    for meta in (job["metadata"], dig(job, "spec", "template", "metadata", default={})):
        for label in ("controller-uid", "job-name"):
            for key in (label, f"batch.kubernetes.io/{label}"):
                (meta.get("labels") or {}).pop(key, None)


def kubectl(
    verb: str,
    resource: r.Resource,
    name: str,
    namespace: str | None,
    *,
    patch: Any = None,
    sub: str = "",
) -> str:
    """The command that a person can run instead."""
    where = f" -n {namespace}" if namespace else ""
    extra = f" --type=merge -p '{json.dumps(patch)}'" if verb == "patch" else ""
    extra += f" --subresource={sub}" if sub else ""
    return f"kubectl {verb} {resource.qualified} {name}{where}{extra}"
