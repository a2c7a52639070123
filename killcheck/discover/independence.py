"""Independence: what each layer depends on, and what all of them share - one such thing gone, and none is left.

Dependencies are read from what the layers' executors are made of; the API server, which every layer needs that acts in
Kubernetes, is not listed: no spec can do without it. What is read is then *drilled*: the fault that takes away just
that one thing must leave a layer standing. What may *not* live here: calls to a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from killcheck.executor import scripts
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.spec.killpath import KillPath, Layer, LayerType

__all__ = ["Dependency", "Shared", "dependencies", "drilled", "shared"]

#: Which controller a layer of that type cannot do without, besides what its workload needs.
_CONTROLLERS = {
    LayerType.DEAD_MAN: "kube-controller-manager (CronJobs)",
    LayerType.IDLE_MONITOR: "kube-controller-manager (CronJobs)",
    LayerType.SCALE_TO_ZERO: "keda-operator",
}
#: The fault that takes away one dependency and nothing else, by its kind. Those that act on one layer's own executor
#: alone have to be each layer's at once: the others would go on with what is said to be gone.
FAULTS: Mapping[str, tuple[str, ...]] = {
    "image": ("image-gone",),
    "registry": ("registry-unreachable",),
    "identity": ("rolebinding-gone",),
    "pull secret": ("pull-secret-expired",),
    "network": ("egress-denied",),
    "controller": ("controller-manager-down",),
    "host": ("machine-off",),
    # On a real machine only the drilled program meets another command line: that is no proof of all of them.
    "command line": (),
    "credentials": (),
}
#: Those that take it away from everybody.
FROM_ALL = frozenset({"registry-unreachable", "rolebinding-gone", "controller-manager-down", "machine-off"})
_REMEDIES = {
    "image": "give one layer an image of its own",
    "registry": "pull one layer's image from another registry",
    "identity": "give one layer a ServiceAccount and a binding of its own",
    "pull secret": "give one layer a pull secret of its own, or an image that needs none",
    "network": "put one layer's executor into a namespace of its own",
    "controller": "add a layer that another controller fires: a worker that ends itself, a timer outside the cluster",
    "host": "run one layer somewhere else",
    "command line": "let one layer ask the cloud by other means: its own scheduler, a function, another program",
    "credentials": "let one layer sign in as somebody else: another machine's own identity",
}


class Dependency(Struct, frozen=True, order=True):
    """``kind``: image, registry, identity, pull secret, network, controller, host, command line or credentials."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Shared(Struct, frozen=True):
    """Something that every layer of a target needs: its loss leaves none. ``evidence``: what drills showed of that."""

    target: str
    dependency: Dependency
    layers: tuple[str, ...]
    evidence: tuple[str, ...] = ()
    #: Whether drills took it away from every layer, and whether the GPUs went off all the same.
    was_drilled: bool = False
    survived: bool = False

    @property
    def message(self) -> str:
        """One sentence."""
        return (
            f"every layer of {self.target} ({', '.join(self.layers)}) depends on {self.dependency}: "
            "without it none turns the GPUs off"
        )

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return _REMEDIES[self.dependency.kind]

    @property
    def removals(self) -> tuple[tuple[str, ...], ...]:
        """What takes it away from every layer, and nothing else: faults that have to be there at once."""
        return tuple(
            (fault,) if fault in FROM_ALL else tuple(f"{fault}@{layer}" for layer in self.layers)
            for fault in FAULTS[self.dependency.kind]
        )

    def to_json(self) -> dict[str, Any]:
        """An entry of ``findings`` in killcheck.result/v1: an error where a drill showed it, else a warning."""
        severity = "note" if self.survived else "error" if self.was_drilled else "warning"
        return {
            "probe": "shared-dependency",
            "severity": severity,
            "object": self.target,
            "message": self.message,
            "remedy": self.remedy,
            "evidence": [
                {"object": f"layer {layer}", "path": self.dependency.kind, "value": self.dependency.name}
                for layer in self.layers
            ]
            + [{"object": "drill", "path": "", "value": said} for said in self.evidence],
            "patch": None,
            "file": None,
            "line": None,
            "unproven": not self.was_drilled,
            "failures": [57],
        }


def dependencies(layer: Layer, objects: Iterable[Obj], folder: str = "") -> frozenset[Dependency]:
    """What a layer needs, from the manifests (or live objects) of its executor, or its scripts in the spec's folder."""
    found: set[Dependency] = set()
    # A monitor that is a Deployment is not fired by the CronJob controller; it runs.
    if layer.type in _CONTROLLERS and layer.command is None and layer.workload is None:
        found.add(Dependency("controller", _CONTROLLERS[layer.type]))
    if layer.command is not None or (layer.sentinel is not None and layer.sentinel.path):
        found.add(Dependency("host", "the one that the commands run on"))
    for name in scripts.clis(layer.command, folder) if layer.command is not None and folder else ():
        found |= {Dependency("command line", name), Dependency("credentials", f"of {name}")}
    executor = layer.cron_job or (layer.workload if layer.type is not LayerType.SELF_TERMINATING else None)
    if executor is None:
        return frozenset(found)
    for obj in objects:
        if (obj.get("kind"), namespace_of(obj), name_of(obj)) == (executor.kind, executor.namespace, executor.name):
            found |= set(_of_pod(_pod_spec(obj), namespace_of(obj)))
    return frozenset(found)


def shared(kill_path: KillPath, objects: Sequence[Obj]) -> list[Shared]:
    """For each target with two layers or more that turn it off (a sentinel does not): what all of them depend on."""
    found = []
    for target in kill_path.targets:
        layers = [
            layer for layer in kill_path.layers if target.name in layer.covers and layer.type is not LayerType.SENTINEL
        ]
        if len(layers) < 2:
            continue
        common = frozenset.intersection(*(dependencies(layer, objects, kill_path.folder) for layer in layers))
        found += [Shared(target.name, one, tuple(layer.name for layer in layers)) for one in sorted(common)]
    return found


def drilled(found: Sequence[Shared], outcomes: Mapping[tuple[str, str], str]) -> list[Shared]:
    """The same, with what drills say: ``outcomes`` are verdicts by (layer, faults joined by ``+``).

    The GPUs go off without it where taking it away from all of them left a layer standing, whichever trigger was
    pulled.
    """
    judged = []
    for one in found:
        said: list[str] = []
        complete = survived = False
        for fault in map("+".join, one.removals):
            verdicts = {layer: outcomes[layer, fault] for layer in one.layers if (layer, fault) in outcomes}
            said += [f"{layer} under {fault}: {verdict}" for layer, verdict in verdicts.items()]
            known = len(verdicts) == len(one.layers) and "inconclusive" not in verdicts.values()
            complete |= known
            survived |= known and all(verdict != "exposed" for verdict in verdicts.values())
        judged.append(Shared(one.target, one.dependency, one.layers, tuple(said), complete, complete and survived))
    return judged


def _pod_spec(obj: Obj) -> Obj:
    for path in (("spec", "jobTemplate", "spec", "template", "spec"), ("spec", "template", "spec"), ("spec",)):
        found: Obj | None = dig(obj, *path)
        if found:
            return found
    return {}


def _of_pod(spec: Obj, namespace: str) -> Iterable[Dependency]:
    account = spec.get("serviceAccountName") or "default"
    yield Dependency("identity", f"ServiceAccount {namespace}/{account}")
    yield Dependency("network", f"egress of namespace {namespace}")
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        image = str(container.get("image", ""))
        yield Dependency("image", image)
        yield Dependency("registry", _registry(image))
    for secret in spec.get("imagePullSecrets") or ():
        yield Dependency("pull secret", f"{namespace}/{secret.get('name')}")
    if spec.get("nodeName"):
        yield Dependency("host", f"node {spec['nodeName']}")


def _registry(image: str) -> str:
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"
