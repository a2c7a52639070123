"""The nodes' copies of the executor's image are garbage-collected: the next start has to pull."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.capabilities.offered import Capability, present
from killcheck.faults.base import Evidence, Plan
from killcheck.faults.kubernetes.executor import ExecutorFault, cron_job_of, images
from killcheck.kube.objects import dig, format_time, name_of
from killcheck.layers.base import LayerRun, Stage
from killcheck.watch.scene import event_time

__all__ = ["CachedCopyEvicted"]

_TRIED = ("Successfully pulled", "Failed to pull")


class CachedCopyEvicted(ExecutorFault):
    """Reproduces row 5: IfNotPresent is no cache that anybody promised."""

    name = "cached-copy-evicted"
    simulates = "image garbage collection removed the executor's image from every node"
    family = "image"
    failures = (5,)
    needs = (Capability.REGISTRY,)
    rank = 2
    #: When it was evicted; what was pulled before is nothing.
    _since = "9999"
    shows = Evidence.OTHERS

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The image goes from every node."""
        return Plan(
            tuple(f"evict {image} from every node's cache" for image in images(layer)),
            edits=("caches of the nodes",),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Evict the images, remembering which node had which."""
        registry = present(stage.cluster.capabilities.registry)
        self._since = format_time(stage.cluster.loop.now())
        done = []
        for node, cache in list(registry.caches.items()):
            for image in images(layer):
                had = dict(cache.images)
                what = f"evicted {image} from {node}"
                with stage.journal.acting_on(Capability.REGISTRY, what, ("restore_cache", node, had)):
                    if cache.evict(image):
                        done.append(what)
        return done or ["no node had the image"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The executor's image was really pulled, or the pull failed: by the drill's Job, or by a firing before it."""
        own = name_of(cron_job_of(layer))[:40]
        tried = tuple(f'{word} image "{i}"' for i in images(layer) for word in _TRIED)
        for event in (*stage.observations.events.values(), *stage.scene.events.values()):
            message, about = str(event.get("message", "")), str(dig(event, "involvedObject", "name", default=""))
            if message.startswith(tried) and about.startswith(own) and event_time(event) >= self._since:
                return f"{about}: {message[:300]}"
        return None
