"""The nodes' copies of the executor's image are garbage-collected: the next start has to pull."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from killcheck.faults.base import Plan
from killcheck.faults.executor import ExecutorFault, images
from killcheck.layers.base import LayerRun, Stage

__all__ = ["CachedCopyEvicted"]


class CachedCopyEvicted(ExecutorFault):
    """Reproduces row 5: IfNotPresent is no cache that anybody promised."""

    name = "cached-copy-evicted"
    simulates = "image garbage collection removed the executor's image from every node"
    family = "image"
    failures = (5,)
    needs = ("registry",)
    rank = 2

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The image goes from every node."""
        return Plan(tuple(f"evict {image} from every node's cache" for image in images(layer)), levers=("registry",),
                    edits=("caches of the nodes",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Evict the images, remembering which node had which."""
        registry: Any = stage.cluster.levers["registry"]
        done = []
        for node, cache in list(registry.caches.items()):
            for image in images(layer):
                had = dict(cache.images)
                what = f"evicted {image} from {node}"
                with stage.journal.lever("registry", what, ("restore_cache", node, had)):
                    if cache.evict(image):
                        done.append(what)
        return done or ["no node had the image"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str:
        """This executor's image was really pulled, or the pull failed."""
        for event in stage.testimony.events.values():
            message = str(event.get("message", ""))
            if message.startswith(("Successfully pulled image", "Failed to pull image")):
                return message[:300]
        return ""
