"""Disruption budgets that no drain gets past."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.world import World, namespace_or_default, selected

from killcheck.kube.objects import Obj, dig, name_of, ref_of
from killcheck.kube.workloads import PodTemplate
from killcheck.spec.killpath import LayerType
from killcheck.text.numbers import whole

__all__ = ["PdbBlocksDrain"]


class PdbBlocksDrain(Probe):
    """429 'Cannot evict pod as it would violate the pod's disruption budget', for as long as the pod is there."""

    id = "pdb-blocks-drain"
    claim = "No disruption budget makes the drain of a GPU node wait for ever."
    remedy = "Allow one disruption (maxUnavailable: 1), and bound the drain (NodePool terminationGracePeriod)."
    severity = "warning"
    failures = (41,)
    sources = ("kubernetes pkg/registry/core/pod/storage/eviction.go", "kubernetes/kubectl#172", "recording 23")
    needs = ("PodDisruptionBudget",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Budgets over pods of targets and over pods beside them; an error where a layer works by draining."""
        drains = any(
            call.subresource == "eviction" for one in world.layer_executors for call in one.reading.calls
        ) or any(layer.type is LayerType.SPOT_HANDLER for layer in world.kill_path.layers)
        bounds = [dig(pool, "spec", "template", "spec", "terminationGracePeriod") for pool in world.gpu_pools]
        bounded = bool(bounds) and all(bounds) and not drains  # whoever evicts by itself has no such bound
        for budget in world.of("PodDisruptionBudget"):
            field = _blocking(budget)
            if field is None:
                continue
            for obj, template in self._pods(world, budget):
                labels = dig(template.metadata, "labels", default={})
                if not selected(dig(budget, "spec", "selector"), labels):
                    continue
                if _always(budget) or _minimum(budget) >= template.count > 0:
                    waits = f"{bounds[0]}, the pool's terminationGracePeriod" if bounded else "ever"
                    message = f"never lets a pod of {ref_of(obj)} be evicted: a drain of its node waits for {waits}"
                    yield self.finding(
                        world,
                        budget,
                        field,
                        message,
                        severity="error" if drains else "note" if bounded else "warning",
                        patch=merge_patch(budget, {"spec": {"minAvailable": None, "maxUnavailable": 1}}),
                    )
                break

    @staticmethod
    def _pods(world: World, budget: Obj) -> list[tuple[Obj, PodTemplate]]:
        namespace = namespace_or_default(budget)
        nodes = {name_of(node) for node in world.gpu_nodes}
        beside = [
            (pod, PodTemplate(("spec",), pod["spec"], pod["metadata"], 1))
            for pod in world.in_namespace("Pod", namespace)
            if dig(pod, "spec", "nodeName") in nodes
        ]
        return [(obj, t) for obj, t in world.target_templates if namespace_or_default(obj) == namespace] + beside


def _minimum(budget: Obj) -> int:
    """minAvailable as a number of pods; a share of them always leaves one that may go, unless it is all."""
    return whole(dig(budget, "spec", "minAvailable")) or 0


def _always(budget: Obj) -> bool:
    spec = budget.get("spec") or {}
    return str(spec.get("maxUnavailable")) in ("0", "0%") or str(spec.get("minAvailable")) == "100%"


def _blocking(budget: Obj) -> tuple[str, str] | None:
    spec = budget.get("spec") or {}
    if spec.get("maxUnavailable") is not None:
        return ("spec", "maxUnavailable") if _always(budget) else None
    return ("spec", "minAvailable") if spec.get("minAvailable") not in (None, 0, "0", "0%") else None
