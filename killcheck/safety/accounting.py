"""What is not as it was, whoever changed it: the kill path does more than turn its targets off, and undoes none of it.

The journal knows what killcheck changed. What the executor did beside that - a pod deleted, a Job suspended, a pool
deleted, a scaler paused - is seen by looking at everything of the namespaces at stake before anything is changed and
again when all is put back. It is told as left changed; nobody is told that it was put back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from killcheck.capabilities.cluster import Cluster
from killcheck.clock import Loop
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Forbidden, KubeError, NotFound
from killcheck.kube.objects import Obj, controller_of, copy, dig, labels_of, name_of, namespace_of, uid_of
from killcheck.safety.changes import LABEL
from killcheck.safety.undo import insist
from killcheck.spec.killpath import KillPath, Layer

__all__ = ["KINDS", "Account", "Inventory", "left_changed", "taken"]

#: What a kill path may have its hands on, besides its targets.
KINDS = (
    r.PODS,
    r.DEPLOYMENTS,
    r.STATEFULSETS,
    r.DAEMONSETS,
    r.JOBS,
    r.CRONJOBS,
    r.HPAS,
    r.PDBS,
    r.SCALEDOBJECTS,
    r.NODEPOOLS,
)
#: Who changes replicas as a matter of course.
_CONTROLLERS = re.compile(r"(?i)kube-controller-manager|keda|karpenter|kueue|autoscaler|cluster-autoscaler")
#: Annotations and labels that say nothing of what somebody wants.
_NOISE = re.compile(
    r"deployment\.kubernetes\.io/|kubectl\.kubernetes\.io/(?!restartedAt)|karpenter\.sh/nodepool-hash"
    r"|killcheck\.dev/|control-plane\.alpha|cronjob\.kubernetes\.io/|autoscaling\.alpha"
)
#: How long an API server that does not answer is asked again, in seconds.
PATIENCE_S = 10.0
#: Of one object so many fields are named.
SHOWN = 4


@dataclass(frozen=True, slots=True)
class Inventory:
    """Objects by (kind, namespace, name). ``unseen``: what may not be listed here, in words."""

    objects: dict[tuple[str, str, str], Obj]
    unseen: tuple[str, ...] = ()


class Account:
    """What there was before a drill changed anything, and what of it is not as it was when all is put back."""

    def __init__(self, cluster: Cluster, kill_path: KillPath, layer: Layer) -> None:
        self.cluster = cluster
        own = layer.ref.namespace if layer.ref else ""
        self.places = {target.namespace for target in kill_path.targets} | {own}
        #: Where there is no Kubernetes there is nothing to look at.
        self.kept = kill_path.in_kubernetes and getattr(cluster, "objections", None) is None
        self._before: Inventory | None = None

    def open(self) -> None:
        """Look at what there is. Raises KubeError."""
        self._before = self._look() if self.kept else None

    def close(self, run: str, note: Callable[[str], None]) -> list[str]:
        """What is left changed on a cluster of somebody's, a sentence each; on killcheck's own it is only noted."""
        if self._before is None:
            return []
        try:
            now = self._look()
        except KubeError as error:
            note(f"whether the kill path has left anything else changed could not be seen: {error}")
            return []
        told = [
            f"left changed, by the kill path or by somebody else meanwhile: {one}"
            for one in left_changed(self._before, now, run)
        ]
        if self.cluster.real:
            return told
        for one in told:
            note(one)
        return []

    def _look(self) -> Inventory:
        return taken(self.cluster.kube, self.cluster.loop, self.places - {""})


def taken(kube: Kube, loop: Loop, namespaces: Iterable[str]) -> Inventory:
    """What there is now. Raises KubeError; a kind that is not served has no objects."""
    objects: dict[tuple[str, str, str], Obj] = {}
    unseen = []
    for resource in KINDS:
        for namespace in sorted(set(namespaces)) if resource.namespaced else [None]:
            may = partial(kube.may, "list", resource.plural, group=resource.group, namespace=namespace or "")
            if not insist(loop, may, patience_s=PATIENCE_S):
                unseen.append(f"{resource.qualified} of {namespace}" if namespace else resource.qualified)
                continue
            try:
                items = insist(loop, partial(kube.list, resource, namespace), patience_s=PATIENCE_S).items
            except NotFound:
                break
            except Forbidden:
                continue
            for obj in items:
                objects[(resource.kind, namespace_of(obj), name_of(obj))] = obj
    return Inventory(objects, tuple(unseen))


def left_changed(before: Inventory, after: Inventory, run: str) -> list[str]:
    """What is not as it was, one sentence each; what controllers make and take by themselves is theirs."""
    told = []
    for key, was in before.objects.items():
        now = after.objects.get(key)
        if _somebodys(was) and not _over(was):
            told += list(_difference(_called(key), was, now))
    for key, now in after.objects.items():
        if key not in before.objects and _somebodys(now) and labels_of(now).get(LABEL) != run:
            told.append(f"{_called(key)} was not there before, and is")
    return told


def _somebodys(obj: Obj) -> bool:
    """Whether a person or a program wants it, and no controller's own object does."""
    return controller_of(obj) is None and LABEL not in labels_of(obj) and "deletionTimestamp" not in obj["metadata"]


def _over(obj: Obj) -> bool:
    """Whether it has come to its end: what goes then, goes by itself."""
    ended = dig(obj, "status", "phase") in ("Succeeded", "Failed") or any(
        one.get("type") in ("Complete", "Failed") and one.get("status") == "True"
        for one in dig(obj, "status", "conditions", default=[]) or []
    )
    return obj.get("kind") in ("Pod", "Job") and ended


def _called(key: tuple[str, str, str]) -> str:
    return f"{key[0]} {'/'.join(part for part in key[1:] if part)}"


def _difference(name: str, was: Obj, now: Obj | None) -> Iterator[str]:
    if now is None:
        yield f"{name} is gone"
        return
    if now.get("kind") == "Pod" and uid_of(now) != uid_of(was):
        yield f"{name} is another one now"
        return
    if now.get("kind") == "Pod":
        return  # it is what it is until it goes
    fields = [
        f"{'.'.join(path)} was {_short(old)} and is {_short(new)}"
        for path, old, new in _fields(_wanted(was), _wanted(now))
        if not _by_controller(now, path)
    ]
    if fields:
        more = f" and {len(fields) - SHOWN} more" if len(fields) > SHOWN else ""
        yield f"{name}: {', '.join(fields[:SHOWN])}{more}"


def _wanted(obj: Obj) -> Obj:
    """What somebody asks of an object: its spec, labels and annotations."""
    found = {"spec": copy(obj.get("spec") or {})}
    for part in ("labels", "annotations"):
        kept = {key: value for key, value in (obj["metadata"].get(part) or {}).items() if not _NOISE.match(key)}
        found[part] = kept
    return found


def _fields(was: Any, now: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Each field that differs: its path, and both values; the API leaves out what is empty, zero or false."""
    if isinstance(was or {}, dict) and isinstance(now or {}, dict) and (was or now):
        for key in sorted({*(was or {}), *(now or {})}):
            yield from _fields((was or {}).get(key), (now or {}).get(key), (*path, str(key)))
    elif (was or None) != (now or None):
        yield path, was, now


def _by_controller(now: Obj, path: Sequence[str]) -> bool:
    """Whether how many replicas there are to be is a controller's to say."""
    if tuple(path) != ("spec", "replicas"):
        return False
    return any(
        _CONTROLLERS.search(str(one.get("manager"))) and "f:replicas" in (dig(one, "fieldsV1", "f:spec") or {})
        for one in dig(now, "metadata", "managedFields", default=[]) or []
    )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
