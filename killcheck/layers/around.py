"""What stands around a switch's program on its cluster: which objects there are, and whose pods a selector chooses."""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.executor.guards import Around
from killcheck.executor.resting import Kind
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import dig, labels_of
from killcheck.kube.resources import Resource
from killcheck.kube.selectors import SelectorError, parse_labels
from killcheck.kube.workloads import templates
from killcheck.layers.base import Stage
from killcheck.spec.killpath import Layer

__all__ = ["of"]

#: What a monitor goes by, since that is what it is for.
_OF_MONITORS = frozenset({Kind.LOOKS, Kind.PROGRAM})


def of(stage: Stage, layer: Layer, *, loops: bool = False, monitors: bool = False) -> Around:
    """What stands around the program of a layer. ``monitors``: to look at what there is, is what it is for."""
    kube, covered = stage.cluster.kube, stage.kill_path.covered_by(layer)

    def has(group: str, plural: str, name: str, namespace: str) -> bool:
        if any(target.name == name for target in covered):
            return True  # though it was deleted since
        try:
            return any(
                kube.find(one, name, namespace if one.namespaced else "") for one in _served(kube, group, plural)
            )
        except KubeError:
            return False

    def own_pods(selector: str, _namespace: str) -> bool:
        objects = [obj for target in covered for obj in stage.scene.objects_of(target)]
        made = [one for obj in objects for one in templates(obj)]
        try:
            chosen = parse_labels(selector)
        except SelectorError:
            return False
        labels = [dig(dict(one.metadata), "labels", default={}) for one in made] + [labels_of(obj) for obj in objects]
        return any(chosen.matches(one) for one in labels)

    granted = _OF_MONITORS if monitors else frozenset()
    return Around(has, own_pods, loops, granted | ({Kind.STATE} if stage.cluster.real else frozenset()))


def _served(kube: Kube, group: str, plural: str) -> Iterator[Resource]:
    """What serves a kind, also by its short names."""
    yield from (one for one in r.built_in() if one.plural == plural and group in ("", one.group))
    for crd in kube.list(r.CRDS).items:
        spec = crd.get("spec") or {}
        names = spec.get("names") or {}
        called = {str(names.get("plural")), str(names.get("singular")), str(names.get("kind")).lower()}
        called |= set(map(str, names.get("shortNames") or ()))
        versions = [str(one.get("name")) for one in spec.get("versions") or () if one.get("served")]
        if plural in called and group in ("", str(spec.get("group"))) and versions:
            scoped = str(spec.get("scope")) != "Cluster"
            yield Resource(
                str(spec.get("group")), versions[0], str(names.get("plural")), str(names.get("kind")), scoped
            )
