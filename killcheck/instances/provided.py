"""Node pools of GKE and AKS whose machines the catalogue knows: what can stand on the embedded cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from killcheck.instances.catalogue import shipped
from killcheck.kube import provider_pools
from killcheck.kube.objects import Obj

__all__ = ["is_provided", "provided"]


def provided(objects: Iterable[Obj]) -> Iterator[dict[str, Any]]:
    """Those among objects that have GPUs, as node groups are described (``provider_pools.node_group``).

    A machine with GPUs that are attached to it (GCP's N1) is no type of its own, and is left out.
    """
    for obj in objects:
        group = provider_pools.node_group(obj)
        kind = shipped().get(group["instanceType"]) if group else None
        if group is not None and kind is not None and kind.devices:
            yield group


def is_provided(obj: Obj) -> bool:
    """Whether an object is one of them."""
    return any(provided([obj]))
