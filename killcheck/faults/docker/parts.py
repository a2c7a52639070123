"""What faults on a Docker Engine have in common: where they apply, and whose containers they may touch."""

from __future__ import annotations

from killcheck.capabilities.offered import Capability
from killcheck.engine.projection import CONSENT, CONTAINERS, NAMESPACE
from killcheck.engine.registry import registry_of
from killcheck.faults.base import Fault, FaultError
from killcheck.faults.kubernetes.executor import images
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, labels_of, name_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import Layer

__all__ = ["EngineFault", "changing", "consenting", "executor_image", "registry_container"]


class EngineFault(Fault):
    """A fault of what a Docker Engine runs."""

    needs = (Capability.ENGINE,)

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only to layers that are containers."""
        return None if layer.container else "the layer is no container of a Docker Engine"


def changing(*names: str) -> tuple[Permission, ...]:
    """What changing these containers needs."""
    return tuple(Permission("patch", CONTAINERS.group, CONTAINERS.plural, "", NAMESPACE, name) for name in names)


def consenting(stage: Stage, name: str) -> Obj:
    """A container that says it may be touched. Raises FaultError for one that does not."""
    try:
        found = stage.cluster.kube.get(CONTAINERS, name, NAMESPACE)
    except NotFound as error:
        raise FaultError(f"there is no container {name}") from error
    if labels_of(found).get(CONSENT) != "true":
        raise FaultError(f"container {name} has not opted in: make it with the label {CONSENT}=true")
    return found


def executor_image(layer: LayerRun) -> str:
    """The image that a firing is made from. Raises FaultError where it runs inside a container that is there."""
    if layer.layer.container is not None and layer.layer.container.argv:
        raise FaultError(
            f"{layer.layer.name} runs inside {layer.layer.container.name}, which is there: no image is needed to fire"
        )
    found = images(layer)
    if not found:
        raise FaultError(f"{layer.layer.name} has no image")
    return found[0]


def registry_container(stage: Stage, image: str) -> Obj:
    """The registry of an image, a container of this engine that may be touched. Raises FaultError where it is not."""
    from killcheck.engine.api import EngineApi

    api = stage.cluster.kube.transport
    assert isinstance(api, EngineApi)
    found = registry_of(api.inspected(), image)
    if found is None:
        raise FaultError(f"the registry of {image} is no container of this engine: it is left alone")
    return consenting(stage, name_of({"metadata": {"name": str(found["Name"]).lstrip("/")}}))
