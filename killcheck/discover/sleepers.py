"""Layers that are somebody else's controllers, by the clock: kube-green's SleepInfos, and the kube-downscalers.

What may *not* live here: how they read their words (:mod:`killcheck.kube.downtimes`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from killcheck.kube import downtimes
from killcheck.kube.objects import Obj, annotations_of, name_of, namespace_of
from killcheck.spec.killpath import Layer, LayerType, Ref, Target

__all__ = ["find", "takes_down"]

#: The week that is asked: one like any other.
_ANY_MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def find(
    objects: Sequence[Obj], targets: Sequence[Target], by_target: Mapping[str, Obj], covered: Collection[str]
) -> Iterator[Layer]:
    """A layer for each that puts a target to sleep; or that is plainly meant for one of which nothing else is known."""
    spaces = {name_of(obj): obj for obj in objects if obj.get("kind") == "Namespace"}
    for obj in objects:
        if downtimes.is_sleep_info(obj):
            meant = [t for t in targets if t.namespace == (namespace_of(obj) or "default")]
        elif downtimes.is_downscaler(obj):
            meant = [t for t in targets if _is_marked(by_target[t.name], spaces.get(t.namespace))]
        else:
            continue
        own = [t for t in targets if takes_down(obj, by_target[t.name], objects)]
        covers = own or [target for target in meant if target.name not in covered]
        if covers:
            ref = Ref(str(obj["apiVersion"]), str(obj["kind"]), namespace_of(obj) or "default", name_of(obj))
            yield Layer(name_of(obj), LayerType.DEAD_MAN, tuple(t.name for t in covers), workload=ref)


def takes_down(sleeper: Obj, obj: Obj, objects: Sequence[Obj]) -> bool | None:
    """Whether a sleeper takes a workload down at some hour of a week; None: it is no sleeper. ``objects``: all."""
    if downtimes.is_sleep_info(sleeper):
        return downtimes.puts_to_sleep(sleeper, obj)
    if not downtimes.is_downscaler(sleeper):
        return None
    home = namespace_of(obj) or "default"
    nowhere: Obj = {"metadata": {}}
    space = next((o for o in objects if o.get("kind") == "Namespace" and name_of(o) == home), nowhere)
    try:
        read = downtimes.Downscaler.of(sleeper, [o for o in objects if o.get("kind") == "ConfigMap"])
        if not read.reaches(obj, space):
            return False
        return read.is_down(obj, space, _ANY_MONDAY) or any(True for _ in read.changes(obj, space, _ANY_MONDAY))
    except ValueError:
        return False


def _is_marked(*objects: Obj | None) -> bool:
    return any(key.startswith("downscaler/") for one in objects if one for key in annotations_of(one))
