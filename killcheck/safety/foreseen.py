"""What an executor is read to change besides its targets, written down before the trigger, so that it is put back too.

A kill path's own program may delete a bare pod, suspend a Job, pause a ScaledObject. What its text says it writes
to (:mod:`killcheck.executor`) goes into the journal as the targets do: the undo is known before the change, and looks
before it acts. What no text says is told as left changed (:mod:`killcheck.safety.accounting`), not guessed at.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from killcheck.clock import Loop
from killcheck.executor import ApiCall, Reading, read
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Forbidden
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of, ref_of
from killcheck.safety.changes import FORESEEN, Undo
from killcheck.safety.guard import writable
from killcheck.safety.journal import Journal
from killcheck.safety.predicted import WRITING, any_text, made_of
from killcheck.safety.sealing import holds_secrets
from killcheck.safety.undo import holds, inverse, leaves, recreatable, retry, without

__all__ = ["LONGEST", "MOST", "by_hand", "going_s", "may_delete", "may_write", "reading_of", "remember"]

#: Of more objects than these nothing is written down: a journal is one ConfigMap.
MOST = 60
_DELETING = ("delete", "deletecollection")
_SHOWN = 200
#: Longer commands are not shown, in characters.
LONGEST = 2000
_ABSENT = object()


def reading_of(kube: Kube, loop: Loop, owner: Obj | None) -> Reading | None:
    """What the executor does that ``owner`` (a CronJob, a workload) starts. None: its text is not there.

    Raises KubeError.
    """
    if owner is None:
        return None
    template = dig(owner, "spec", "jobTemplate", "spec", "template") or dig(owner, "spec", "template")
    spec = dig(template, "spec") if template else None
    if not spec:
        return None
    namespace = namespace_of(owner)
    return read(spec, namespace, _config_maps(kube, loop, spec, namespace))


def _config_maps(kube: Kube, loop: Loop, spec: Obj, namespace: str) -> dict[tuple[str, str], Obj]:
    """Those that the containers mount or take variables from, as far as they may be read."""
    found = {}
    for name in sorted(set(_named_maps(spec))):
        try:
            obj = retry(loop, partial(kube.find, r.CONFIGMAPS, name, namespace))
        except Forbidden:
            continue
        if obj is not None:
            found[(namespace, name)] = obj
    return found


def _named_maps(spec: Obj) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        for source in (volume, *dig(volume, "projected", "sources", default=[])):
            yield from _name(source.get("configMap"))
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for source in container.get("envFrom") or ():
            yield from _name(source.get("configMapRef"))
        for variable in container.get("env") or ():
            yield from _name(dig(variable, "valueFrom", "configMapKeyRef"))


def _name(reference: object) -> Iterator[str]:
    name = reference.get("name") if isinstance(reference, dict) else None
    if isinstance(name, str) and name:
        yield name


def may_write(reading: Reading, resource: r.Resource, obj: Obj) -> list[ApiCall]:
    """The calls of an executor that may change an object, as far as its text says which they are about."""
    return [
        call
        for call in reading.writes
        if (call.group, call.resource) == (resource.group, resource.plural)
        and call.subresource in ("", "scale", "eviction")
        and call.about(namespace_of(obj) if resource.namespaced else "", name_of(obj), labels_of(obj))
    ]


def may_delete(kube: Kube, loop: Loop, reading: Reading, resource: r.Resource, obj: Obj) -> bool:
    """Whether an executor may delete an object, and we may create it again. Raises KubeError."""
    if not any(call.verb in _DELETING for call in may_write(reading, resource, obj)):
        return False
    ask = partial(kube.may, "create", resource.plural, group=resource.group, namespace=namespace_of(obj))
    return retry(loop, ask)


def remember(
    journal: Journal,
    reading: Reading,
    found: Iterable[tuple[r.Resource, Obj]],
) -> list[str]:
    """Write down how what the executor is read to write to is put back.

    Left out is what the journal has already, what consent does not cover, and what we have no right to put back.
    Returns what is not written down for want of room, in words. Raises KubeError, JournalError.
    """
    count = 0
    for resource, obj in found:
        calls = may_write(reading, resource, obj)
        if not calls or not writable(journal.kube, resource, obj):
            continue
        if count >= MOST:
            return [f"the executor may change more than {MOST} objects: not all of them would be put back"]
        count += 1
        journal.owner = FORESEEN
        _remember(journal, resource, obj, calls)
        journal.owner = ""
    return []


def _remember(journal: Journal, resource: r.Resource, obj: Obj, calls: list[ApiCall]) -> None:
    place = namespace_of(obj) if resource.namespaced else ""

    def may(verb: str) -> bool:
        ask = partial(journal.kube.may, verb, resource.plural, group=resource.group, namespace=place, name=name_of(obj))
        return retry(journal.loop, ask)

    if any(call.verb in WRITING for call in calls) and may("patch"):
        now = retry(journal.loop, partial(journal.kube.find, resource, name_of(obj), place or None))
        for left in _made_of(journal, resource, now, calls) if now is not None else ():
            back = inverse(now, left)
            journal.remember(
                resource,
                obj,
                back,
                left,
                what=f"{ref_of(obj)} was without {_short(left)}",
                manual=by_hand(resource, obj, back),
                transient=True,
            )
    deleted = any(call.verb in _DELETING or call.subresource == "eviction" for call in calls)
    if deleted and not _ends_by_itself(obj) and not _made_again(journal, resource, obj) and may("create"):
        manual = f"re-create {ref_of(obj)} from its manifest"
        undo = Undo("create", resource.path(place or None), recreatable(obj), manual=manual, ends_s=going_s(obj))
        with journal.change(f"{ref_of(obj)} was there", undo):
            pass


def _made_again(journal: Journal, resource: r.Resource, obj: Obj) -> bool:
    """Whether the journal has it already that an object is made again where it is gone."""
    path = resource.path((namespace_of(obj) if resource.namespaced else "") or None)
    return any(
        entry.undo.action == "create" and entry.undo.path == path and name_of(entry.undo.body) == name_of(obj)
        for entry in journal.entries
    )


def _ends_by_itself(obj: Obj) -> bool:
    """Whether it may come to its end and go within a drill without anybody's doing."""
    return obj.get("kind") == "Job" and dig(obj, "spec", "ttlSecondsAfterFinished") is not None


def going_s(obj: Obj) -> float:
    """How long a pod that was told to go may take, in seconds."""
    return float(dig(obj, "spec", "terminationGracePeriodSeconds", default=30)) if obj.get("kind") == "Pod" else 0.0


def _made_of(journal: Journal, resource: r.Resource, obj: Obj, calls: Iterable[ApiCall]) -> Iterator[Obj]:
    """What the calls make of an object, each as a merge patch that is not so already; the journal's own left out."""
    path = resource.path(namespace_of(obj) or None, name_of(obj))
    seen: list[Obj] = []
    for call in calls:
        if call.verb not in WRITING:
            continue
        for made in made_of(journal.kube, journal.loop, resource, obj, call):
            known = [e.undo for e in journal.entries if e.undo.action == "merge" and e.undo.path == path]
            left = without(made, [undo.left or undo.body for undo in known])
            if left and left not in seen and (any_text(left) or not holds(obj, left)):
                seen.append(left)
                yield left


def by_hand(resource: r.Resource, obj: Obj, back: Obj, now: Obj | None = None) -> str:
    """The command that puts fields of an object back; where these may be secrets, what to do instead.

    ``now``: the object as it is, so that of a list only the items that differ are named.
    """
    kind: str = "merge"
    patch: Any = back
    if now is not None and any(isinstance(value, list) for _, value in leaves(back)):
        kind, patch = "json", list(_operations(now, back))
    if holds_secrets(patch) or len(json.dumps(patch)) > LONGEST:
        return f"apply the manifest of {ref_of(obj)} again"
    place = namespace_of(obj) if resource.namespaced else ""
    where = f" -n {place}" if place else ""
    return f"kubectl patch {resource.qualified} {name_of(obj)}{where} --type={kind} -p {shlex.quote(json.dumps(patch))}"


def _operations(now: Any, back: Any, path: str = "") -> Iterator[Obj]:
    """The JSON patch that sets what a merge patch names, item by item where a list has kept its length."""
    if isinstance(now, dict) and isinstance(back, dict) and (back or not path):
        for key, value in back.items():
            yield from _operations(now.get(key, _ABSENT), value, f"{path}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(now, list) and isinstance(back, list) and len(now) == len(back):
        for i, (one, other) in enumerate(zip(now, back, strict=True)):
            if one != other:
                yield from _operations(one, _whole(one, other), f"{path}/{i}")
    elif back is None and now is not _ABSENT:
        yield {"op": "remove", "path": path}
    elif back is not None and back != now:
        yield {"op": "add" if now is _ABSENT else "replace", "path": path, "value": back}


def _whole(now: Any, was: Any) -> Any:
    """The merge patch that makes ``was`` of an item."""
    if not isinstance(now, dict) or not isinstance(was, dict):
        return was
    return {**{key: None for key in now if key not in was}, **{key: _whole(now.get(key), was[key]) for key in was}}


def _short(left: Obj) -> str:
    text = json.dumps(left) if not holds_secrets(left) else f"a change of {', '.join(left)}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
