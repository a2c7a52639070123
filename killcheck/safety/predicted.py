"""What an executor's request makes of an object, as a merge patch: the API server is asked, as a dry run.

So JSON patches by index, lists that merge by a key, defaults and admission come out as they will. Where it cannot be
asked, or the text does not say the request word by word, stands what a kill path usually makes of such a kind.

What may *not* live here: a write of which anything is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from killcheck.clock import Loop
from killcheck.executor import ApiCall
from killcheck.kube import resources as r
from killcheck.kube.client import Kube, PatchType
from killcheck.kube.errors import ApiError
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of
from killcheck.safety.undo import ANY_TEXT, PASSING, leaves, retry

__all__ = ["WRITING", "any_text", "between", "made_of"]

#: The verbs that change an object that is there, and leave it there.
WRITING = ("patch", "update")
#: What kubectl's own apply writes beside what it is told.
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
#: What of an object is never anybody's wish.
_NOT_ASKED = ("apiVersion", "kind", "metadata", "status")
#: What of its metadata is.
_ASKED = ("labels", "annotations")
#: What a kill path makes of an object where its text does not say so word by word.
_USUAL: Mapping[str, tuple[Obj, ...]] = {
    "Job": ({"spec": {"suspend": True}},),
    "CronJob": ({"spec": {"suspend": True}},),
    "Deployment": ({"spec": {"replicas": 0}},),
    "StatefulSet": ({"spec": {"replicas": 0}},),
    "ScaledObject": (
        {"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}},
        {"metadata": {"annotations": {"autoscaling.keda.sh/paused-replicas": "0"}}},
    ),
    "NodePool": ({"spec": {"limits": {"cpu": "0"}}}, {"spec": {"limits": {"nvidia.com/gpu": "0"}}}),
}


def made_of(kube: Kube, loop: Loop, resource: r.Resource, obj: Obj, call: ApiCall) -> Iterator[Obj]:
    """What a call may make of an object as it is now, each as a merge patch. Raises KubeError for what may pass."""
    said = call.document
    if said is None or call.subresource:
        usual = (
            _USUAL.get(str(obj.get("kind")), ()) if call.replicas is None else ({"spec": {"replicas": call.replicas}},)
        )
        yield from map(copy, usual)
        return
    answers = () if any_text(said) else _answers(kube, loop, resource, obj, call)
    asked = [between(obj, after) for after in answers]
    if not asked and isinstance(said, dict):
        asked = [_of_manifest(said)]
    for left in asked:
        if call.applied:
            left.setdefault("metadata", {}).setdefault("annotations", {})[_APPLIED] = ANY_TEXT
        if left:
            yield left


def any_text(said: Any) -> bool:
    """Whether a part of it is only known when it is sent: a date."""
    return isinstance(said, dict) and any(value == ANY_TEXT and "annotations" in path for path, value in leaves(said))


def _answers(kube: Kube, loop: Loop, resource: r.Resource, obj: Obj, call: ApiCall) -> Iterator[Obj]:
    """The object as each way to read a request makes it; one that the server refuses makes nothing."""
    name, namespace, said = name_of(obj), namespace_of(obj) or None, call.document
    whole = call.verb == "update" or call.applied
    kinds: tuple[PatchType, ...] = ("json",) if isinstance(said, list) else ("strategic", "merge")
    tries = [partial(kube.patch, resource, name, _sent(said), namespace, kind=kind, dry_run=True) for kind in kinds]
    if call.verb == "update" and isinstance(said, dict):
        put = said | {"metadata": (said.get("metadata") or {}) | _identity(obj)}
        tries.insert(0, partial(kube.replace, resource, put, dry_run=True))
    for once in tries:
        try:
            yield retry(loop, once, passing=PASSING)
        except PASSING:
            raise
        except ApiError:
            continue
        if whole:
            return


def _sent(said: Any) -> Any:
    """A patch without what ties a manifest to a version of its object."""
    if not isinstance(said, dict) or "metadata" not in said:
        return said
    meta = {key: value for key, value in (said["metadata"] or {}).items() if key in _ASKED}
    return {key: value for key, value in said.items() if key not in _NOT_ASKED} | ({"metadata": meta} if meta else {})


def _identity(obj: Obj) -> Obj:
    return {
        key: obj["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion") if key in obj["metadata"]
    }


def _of_manifest(said: Obj) -> Obj:
    """What a patch or a manifest says word by word."""
    made = {key: value for key, value in said.items() if key not in _NOT_ASKED and value not in (None, {})}
    given = said.get("metadata")
    kept = {
        key: given[key] for key in _ASKED if isinstance(given, dict) and isinstance(given.get(key), dict) and given[key]
    }
    return copy(made) | ({"metadata": copy(kept)} if kept else {})


def between(before: Obj, after: Obj) -> Obj:
    """The merge patch that makes one object of another, as far as somebody asks for it: lists whole, null removes."""
    asked = [key for key in {**before, **after} if key not in _NOT_ASKED]
    made = {key: _between(before.get(key), after.get(key)) for key in asked if before.get(key) != after.get(key)}
    marks = {
        key: _between(dig(before, "metadata", key, default={}), dig(after, "metadata", key, default={}))
        for key in _ASKED
        if dig(before, "metadata", key, default={}) != dig(after, "metadata", key, default={})
    }
    return made | ({"metadata": marks} if marks else {})


def _between(before: Any, after: Any) -> Any:
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return {key: _between(before.get(key), after.get(key)) for key in keys}
