"""What an executor is read to change besides its targets, written down before the trigger, so that it is put back too.

A kill path's own program may delete a bare pod, suspend a Job, pause a ScaledObject. What its text says it writes
to (:mod:`killcheck.executor`) goes into the journal as the targets do: the undo is known before the change, and looks
before it acts. What no text says is told as left changed (:mod:`killcheck.safety.accounting`), not guessed at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

from killcheck.clock import Loop
from killcheck.executor import ApiCall, Reading, read
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Forbidden
from killcheck.kube.objects import Obj, copy, dig, labels_of, name_of, namespace_of, ref_of
from killcheck.safety.changes import FORESEEN, Undo
from killcheck.safety.guard import writable
from killcheck.safety.journal import Journal
from killcheck.safety.undo import holds, inverse, kubectl, recreatable, retry

__all__ = ["MOST", "going_s", "may_delete", "may_write", "reading_of", "remember"]

#: Of more objects than these nothing is written down: a journal is one ConfigMap.
MOST = 60
_DELETING = ("delete", "deletecollection")
_PATCHING = ("patch", "update")
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
_SHOWN = 200


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
    *,
    pools: Collection[str] = (),
) -> list[str]:
    """Write down how what the executor is read to write to is put back; ``pools``: NodePools that were named.

    Left out is what the journal has already, what consent does not cover, and what we have no right to put back.
    Returns what is not written down for want of room, in words. Raises KubeError, JournalError.
    """
    known = {entry.undo.path for entry in journal.entries}
    count = 0
    for resource, obj in found:
        calls = may_write(reading, resource, obj)
        place = namespace_of(obj) if resource.namespaced else ""
        if not calls or resource.path(place, name_of(obj)) in known:
            continue
        if not (writable(journal.kube, place) if place else name_of(obj) in pools):
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

    if any(call.verb in _PATCHING for call in calls) and may("patch"):
        for left in _made_of(obj, calls):
            back = inverse(obj, left)
            journal.remember(
                resource,
                obj,
                back,
                left,
                what=f"{ref_of(obj)} was without {_short(left)}",
                manual=kubectl("patch", resource, name_of(obj), place or None, patch=back),
                transient=True,
            )
    deleted = any(call.verb in _DELETING or call.subresource == "eviction" for call in calls)
    if deleted and not _ends_by_itself(obj) and may("create"):
        manual = f"re-create {ref_of(obj)} from its manifest"
        undo = Undo("create", resource.path(place or None), recreatable(obj), manual=manual, ends_s=going_s(obj))
        with journal.change(f"{ref_of(obj)} was there", undo):
            pass


def _ends_by_itself(obj: Obj) -> bool:
    """Whether it may come to its end and go within a drill without anybody's doing."""
    return obj.get("kind") == "Job" and dig(obj, "spec", "ttlSecondsAfterFinished") is not None


def going_s(obj: Obj) -> float:
    """How long a pod that was told to go may take, in seconds."""
    return float(dig(obj, "spec", "terminationGracePeriodSeconds", default=30)) if obj.get("kind") == "Pod" else 0.0


def _made_of(obj: Obj, calls: Iterable[ApiCall]) -> Iterator[Obj]:
    """What the calls make of an object, each as a merge patch that is not so already."""
    seen: list[Obj] = []
    for call in calls:
        if call.verb not in _PATCHING:
            continue
        for left in _lefts(obj, call):
            if left not in seen and not holds(obj, left):
                seen.append(left)
                yield left


def _lefts(obj: Obj, call: ApiCall) -> list[Obj]:
    if call.replicas is not None:
        return [{"spec": {"replicas": call.replicas}}]
    said = _patch(call.body)
    if said:
        return [said]
    given = dict(re.findall(r"(autoscaling\.keda\.sh/[\w-]+)=\"?([\w-]+)", call.body))
    if given:
        return [{"metadata": {"annotations": given}}]
    return [copy(one) for one in _USUAL.get(str(obj.get("kind")), ())]


def _patch(body: str) -> Obj:
    """A merge patch that stands in the text word by word: of the spec, labels and annotations; empty: none does."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    given = said.get("metadata")
    meta: Obj = given if isinstance(given, dict) else {}
    made: Obj = {"spec": said["spec"]} if isinstance(said.get("spec"), dict) and said["spec"] else {}
    kept = {part: meta[part] for part in ("labels", "annotations") if isinstance(meta.get(part), dict) and meta[part]}
    return made | ({"metadata": kept} if kept else {})


def _short(left: Obj) -> str:
    text = json.dumps(left)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
