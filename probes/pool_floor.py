"""Node pools that never go to zero."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.world import World

from killcheck.kube.objects import Obj, dig, name_of
from killcheck.text import lazy_re
from killcheck.text.numbers import whole
from killcheck.text.yamlfile import Path

__all__ = ["PoolFloor"]


class PoolFloor(Probe):
    """A minimum above zero bills whether or not a pod runs: the GPUs are off, the instances are not."""

    id = "pool-floor"
    claim = "No GPU pool keeps more nodes than the kill path says it may (floor, default 0)."
    remedy = "Set the pool's minimum to 0, or say in the spec that you pay for a warm node (nodes[].floor)."
    failures = (45,)
    sources = ("XenitAB/node-ttl#16", "karpenter.sh/docs: static capacity", "cluster-autoscaler FAQ: minimum size")

    def ask(self, world: World) -> Iterable[Finding]:
        """Static Karpenter pools, capacity buffers, and the node groups of infrastructure operators."""
        allowed = {pool.node_pool or pool.name: pool.floor for pool in world.kill_path.nodes}
        for pool in world.gpu_pools:
            count = int(dig(pool, "spec", "replicas", default=0))
            if count > allowed.get(name_of(pool), 0):
                yield self.finding(
                    world,
                    pool,
                    ("spec", "replicas"),
                    f"a static pool: {count} node(s) stay on, pods or not",
                    patch=merge_patch(pool, {"spec": {"replicas": 0}}),
                )
        for buffer in world.of("CapacityBuffer"):
            if int(dig(buffer, "spec", "replicas", default=1)):
                yield self.finding(
                    world,
                    buffer,
                    ("spec", "replicas"),
                    "keeps capacity warm for pods that do not exist",
                    severity="warning",
                )
        for group in world.of(*_MINIMA):
            yield from self._group(world, group, allowed)

    def _group(self, world: World, group: Obj, allowed: dict[str, int]) -> Iterable[Finding]:
        for path in _MINIMA[str(group.get("kind"))]:
            minimum = whole(dig(group, *path))
            if minimum is None or not _has_gpus(group):
                continue
            if minimum > allowed.get(name_of(group), 0):
                yield self.finding(world, group, path, f"never goes below {minimum} node(s): they bill all night")


def _has_gpus(group: Obj) -> bool:
    """Whether the machine types that a node group names have GPUs."""
    text = str({key: value for key, value in group.items() if key != "status"})
    return bool(_GPU_TYPES.search(text))


#: Where kinds of infrastructure operators (Crossplane, ASO, Config Connector, Cluster API) say their minimum.
_MINIMA: dict[str, tuple[Path, ...]] = {
    "NodeGroup": (
        ("spec", "forProvider", "scalingConfig", "minSize"),
        ("spec", "forProvider", "scalingConfig", 0, "minSize"),
    ),
    "Nodegroup": (("spec", "scalingConfig", "minSize"),),
    "ManagedClustersAgentPool": (("spec", "minCount"),),
    "ContainerNodePool": (("spec", "autoscaling", "minNodeCount"), ("spec", "autoscaling", "totalMinNodeCount")),
    "MachineDeployment": (("metadata", "annotations", "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"),),
    "MachinePool": (("metadata", "annotations", "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"),),
    "AWSManagedMachinePool": (("spec", "scaling", "minSize"),),
}
_GPU_TYPES = lazy_re.compile(
    r"\b(p[2-6]\w*|g[4-7]\w*|gr6\w*|trn\d\w*|inf\d|dl\d\w*)\.\w+|\b(a2|a3|a4|g2)-|Standard_N[CDV]|nvidia|(?i:gpu)"
)
