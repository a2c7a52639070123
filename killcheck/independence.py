"""Independence: what each layer depends on, and what all of them share - one such thing gone, and none is left.

Dependencies are read from what the layers' executors are made of; the API server, which every layer needs that acts in
Kubernetes, is not listed: no spec can do without it. What may *not* live here: calls to a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from killcheck.killpath import KillPath, Layer, LayerType
from killcheck.kube.objects import Obj, dig, name_of, namespace_of

__all__ = ["Dependency", "Shared", "dependencies", "shared"]

#: Which controller a layer of that type cannot do without, besides what its workload needs.
_CONTROLLERS = {
    LayerType.DEAD_MAN: "kube-controller-manager (CronJobs)",
    LayerType.IDLE_MONITOR: "kube-controller-manager (CronJobs)",
    LayerType.SCALE_TO_ZERO: "keda-operator",
}


@dataclass(frozen=True, slots=True, order=True)
class Dependency:
    """``kind``: image, registry, identity, network, controller or host."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Shared:
    """Something that every layer of a target needs: its loss leaves none."""

    target: str
    dependency: Dependency
    layers: tuple[str, ...]

    @property
    def message(self) -> str:
        """One sentence."""
        return (f"every layer of {self.target} ({', '.join(self.layers)}) depends on {self.dependency}: "
                "without it none turns the GPUs off")


def dependencies(layer: Layer, objects: Iterable[Obj]) -> frozenset[Dependency]:
    """What a layer needs, from the manifests (or live objects) of its executor."""
    found: set[Dependency] = set()
    if layer.type in _CONTROLLERS and layer.command is None:
        found.add(Dependency("controller", _CONTROLLERS[layer.type]))
    if layer.command is not None or (layer.sentinel is not None and layer.sentinel.path):
        found.add(Dependency("host", "the one that the commands run on"))
    if layer.cron_job is None:
        return frozenset(found)
    for obj in objects:
        if obj.get("kind") == "CronJob" and (namespace_of(obj), name_of(obj)) == (
                layer.cron_job.namespace, layer.cron_job.name):
            spec = dig(obj, "spec", "jobTemplate", "spec", "template", "spec", default={})
            found |= set(_of_pod(spec, namespace_of(obj)))
    return frozenset(found)


def shared(kill_path: KillPath, objects: Sequence[Obj]) -> list[Shared]:
    """For each target with two layers or more: what all of them depend on."""
    found = []
    for target in kill_path.targets:
        layers = [layer for layer in kill_path.layers if target.name in layer.covers]
        if len(layers) < 2:
            continue
        common = frozenset.intersection(*(dependencies(layer, objects) for layer in layers))
        found += [Shared(target.name, one, tuple(layer.name for layer in layers)) for one in sorted(common)]
    return found


def _of_pod(spec: Obj, namespace: str) -> Iterable[Dependency]:
    account = spec.get("serviceAccountName") or "default"
    yield Dependency("identity", f"ServiceAccount {namespace}/{account}")
    yield Dependency("network", f"egress of namespace {namespace}")
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        image = str(container.get("image", ""))
        yield Dependency("image", image)
        yield Dependency("registry", _registry(image))
    if spec.get("nodeName"):
        yield Dependency("host", f"node {spec['nodeName']}")


def _registry(image: str) -> str:
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"
