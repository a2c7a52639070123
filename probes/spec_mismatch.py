"""What the spec names and nobody finds."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

__all__ = ["SpecMismatch"]


class SpecMismatch(Probe):
    """A target or a layer that was renamed or removed: every other question about it would be answered by silence."""

    id = "spec-mismatch"
    claim = "Every target, layer and pool that the spec names is there."
    remedy = "Put the name right in killcheck.yaml, or bring the object back ('killcheck init' shows what there is)."
    failures = (39,)
    sources = ("killcheck.spec.killpath: what a spec can name",)

    def ask(self, world: World) -> Iterable[Finding]:
        """By kind, namespace and name. In manifests, what is not among them may still be on the cluster."""
        path = world.kill_path
        for target in path.targets:
            if not target.outside and not world.objects_of(target):
                yield self._absent(world, target.kind, f"target {target.name}: {target}")
        for layer in path.layers:
            ref = layer.ref
            if ref is not None and world.find(ref.kind, ref.namespace, ref.name) is None:
                yield self._absent(world, ref.kind, f"layer {layer.name}: {ref}")
        for pool in path.nodes:
            if pool.node_pool and world.find("NodePool", "", pool.node_pool) is None:
                yield self._absent(world, "NodePool", f"pool {pool.name}: NodePool/{pool.node_pool}")

    def _absent(self, world: World, kind: str, what: str) -> Finding:
        if not world.knows(kind):
            return self.unproven(world, None, f"{what} is not among what was read: nothing was asked about it")
        return Finding(
            self.id,
            self.severity,
            what.rpartition(": ")[2],
            f"{what} does not exist",
            self.remedy,
            failures=self.failures,
        )
