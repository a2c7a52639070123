"""Programs that turn targets off and are fired by what is not drilled: workflows, pipelines, Jobs, images' own code.

They are told by name: "nothing here turns off" is only said where no such program is either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from killcheck import executor
from killcheck.discover.stopping import Stopping
from killcheck.executor import Reading
from killcheck.executor.api_calls import ApiCall, replicas_in
from killcheck.executor.reading import ConfigMaps
from killcheck.kube import cron_workflows
from killcheck.kube.gpus import spec_devices
from killcheck.kube.objects import Obj, dig, namespace_of, ref_of
from killcheck.kube.plurals import plural_of
from killcheck.text.yamlfile import YamlError, documents

__all__ = ["Elsewhere", "fired_elsewhere", "told_as_opaque"]

#: Kinds whose programs are read as layers, or that are made by others.
_READ_AS_LAYERS = frozenset({"CronJob", "Deployment", "StatefulSet", "DaemonSet"})
#: Kinds that run once, or for as long as they are left alone: nothing brings them back each night.
_RUN_ONCE = frozenset({"Job", "Pod", "ReplicaSet"})
#: Kinds that hold text, or describe other kinds.
_NO_PROGRAMS = frozenset({"ConfigMap", "Secret", "CustomResourceDefinition", "Node", "Event"})
#: Actions of Argo's ``resource`` templates, as the API has them.
_ACTIONS = {"delete": "delete", "patch": "patch", "apply": "patch", "replace": "update"}
#: So many are named in one line before the rest is a number.
_NAMED = 4
_MAX_DEPTH = 12


class _Program(Struct, frozen=True):
    """A program of an object: the pod spec that it runs in, or the API calls that are written out without one."""

    spec: Obj
    calls: tuple[ApiCall, ...] = ()


class Elsewhere(Struct, frozen=True):
    """An object of which a program turns off the targets of these names, or may; ``said``: in a sentence."""

    obj: Obj
    targets: tuple[str, ...]
    said: str


def fired_elsewhere(stopping: Stopping, config_maps: ConfigMaps) -> Iterator[Elsewhere]:
    """Each object of which a program turns a target off, or may, whoever fires it."""
    stood_for = set(map(id, cron_workflows.stood_for(list(stopping.objects))))
    for obj in stopping.objects:
        if id(obj) in stood_for:
            continue
        if obj.get("kind") in _READ_AS_LAYERS | _NO_PROGRAMS or dig(obj, "metadata", "ownerReferences"):
            continue
        for program in _programs(obj, obj, str(_account(obj)), 0):
            yield from _told(obj, program, stopping, config_maps)


def told_as_opaque(opaque: Sequence[Obj]) -> Iterator[str]:
    """One sentence on the programs that may turn targets off by their rights, and whose code is in their images."""
    if opaque:
        names = ", ".join(ref_of(obj) for obj in opaque[:_NAMED])
        more = f", and {len(opaque) - _NAMED} more" if len(opaque) > _NAMED else ""
        yield f"what these do is in their images, and their rights allow them to turn targets off: {names}{more}"


def _told(obj: Obj, program: _Program, stopping: Stopping, config_maps: ConfigMaps) -> Iterator[Elsewhere]:
    if spec_devices(program.spec):
        return  # a holder itself
    namespace = namespace_of(obj) or "default"
    reading = Reading(program.calls) if program.calls else executor.read(program.spec, namespace, config_maps)
    covers = stopping.named_by(reading, ref_of(obj))
    if covers:
        how = next(iter((*map(str, reading.writes), *reading.outside, *reading.not_understood)), "")
        alone = obj.get("kind") in _RUN_ONCE and str(obj.get("apiVersion")) in ("v1", "batch/v1", "apps/v1")
        why = "it is drilled as a CronJob, or as a Deployment that loops" if alone else "what fires it is not drilled"
        said = f"{ref_of(obj)} turns off {', '.join(covers)} ({how}): {why}"
        yield Elsewhere(obj, covers, said)
    elif reading.not_understood:
        may = [t for t in stopping.targets if stopping.may_stop(obj, program.spec, t)]
        if may:
            named = ", ".join(str(t) for t in may[:_NAMED])
            said = f"{ref_of(obj)} may turn off {named} by its rights: {reading.not_understood[0]}"
            yield Elsewhere(obj, tuple(t.name for t in may), said)


def _account(node: Obj) -> object:
    """The ServiceAccount that an object of Argo's or Tekton's names for its pods, wherever it does."""
    places = (("spec", "serviceAccountName"), ("spec", "workflowSpec", "serviceAccountName"))
    return next((dig(node, *path) for path in places if dig(node, *path)), "default")


def _programs(obj: Obj, node: object, account: str, depth: int) -> Iterator[_Program]:
    """Wherever a container, a script, or a list of steps is below a node."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(node, list):
        for item in node:
            yield from _programs(obj, item, account, depth + 1)
    elif isinstance(node, dict):
        calls = _resource_calls(obj, node)
        containers = _containers(node)
        if calls:
            yield _Program({}, calls)
        if containers:
            yield _Program({"serviceAccountName": node.get("serviceAccountName") or account, "containers": containers})
            return
        for value in node.values():
            yield from _programs(obj, value, account, depth + 1)


def _containers(node: Obj) -> list[Obj]:
    """The containers that a node has by one of the names they have: a pod's, Argo's, Tekton's."""
    given = [node.get("container"), node.get("script")]
    for key in ("initContainers", "containers", "steps"):
        value = node.get(key)
        given += value if isinstance(value, list) else []
    return [_as_container(one) for one in given if isinstance(one, dict) and isinstance(one.get("image"), str)]


def _as_container(one: Obj) -> Obj:
    """A container whose text to run is its command: Argo's ``source``, Tekton's ``script``."""
    text = one.get("source") or one.get("script")
    if not isinstance(text, str):
        return {"name": "step", **one}
    command = one.get("command") or ["sh"]
    shell = [*command, "-c", text] if isinstance(command, list) else ["sh", "-c", text]
    return {**{key: value for key, value in one.items() if key != "args"}, "name": "step", "command": shell}


def _resource_calls(obj: Obj, node: Obj) -> tuple[ApiCall, ...]:
    """What an Argo template of type ``resource`` does to the object in its ``manifest``."""
    given = node.get("resource")
    verb = _ACTIONS.get(str(given.get("action"))) if isinstance(given, dict) else None
    if verb is None or not isinstance(given, dict) or not isinstance(given.get("manifest"), str):
        return ()
    try:
        objects = [doc.value for doc in documents(given["manifest"], ref_of(obj)) if isinstance(doc.value, dict)]
    except YamlError:
        return ()
    return tuple(_call(verb, one, namespace_of(obj), given["manifest"]) for one in objects)


def _call(verb: str, one: Obj, namespace: str, body: str) -> ApiCall:
    group, _, _ = str(one.get("apiVersion", "")).rpartition("/")
    name, where = str(dig(one, "metadata", "name", default="")), str(dig(one, "metadata", "namespace", default=""))
    plural = plural_of(str(one.get("kind", "")))
    return ApiCall(verb, group, plural, "", name, where or namespace, replicas_in(body), named=bool(name), body=body)
