"""Flux Kustomizations and HelmReleases that put the replicas back."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.gitops_owners import HELM, KUSTOMIZE, puts_back
from killcheck.kube.objects import Obj, dig

__all__ = ["FluxReapplies"]


class FluxReapplies(Probe):
    """kustomize-controller applies what Git says at each interval, helm-controller where drift is corrected."""

    id = "flux-reapplies"
    claim = "No Flux Kustomization or HelmRelease puts a target's replicas back."
    remedy = (
        "Leave replicas out of git, or let the layer set kustomize.toolkit.fluxcd.io/reconcile: disabled meanwhile "
        "(HelmRelease: an ignore rule for /spec/replicas)."
    )
    failures = (30,)
    sources = (
        "fluxcd/kustomize-controller docs/spec/v1/kustomizations.md",
        "fluxcd/helm-controller docs/spec/v2/helmreleases.md",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """Sources that nobody suspends, and that a target's marks, its namespace or its folder name."""
        if any("suspend" in one.text or f"{KUSTOMIZE}/reconcile" in one.text for one in world.layer_executors):
            return  # a drill tells whether it holds
        for kind, group in (("Kustomization", KUSTOMIZE), ("HelmRelease", HELM)):
            for source in world.of(kind):
                if str(source.get("apiVersion")).startswith(f"{group}/"):
                    yield from self._about(world, source)

    def _about(self, world: World, source: Obj) -> Iterable[Finding]:
        for target, obj in world.targets:
            if not puts_back(source, obj, world.place(obj, ())[0].replace("\\", "/")) or not world.zeroes(target):
                continue
            every = str(dig(source, "spec", "interval", default="its interval"))
            yield self.finding(
                world,
                source,
                ("spec", "interval"),
                f"applies {target}: after a scale to zero it is put back within {every}",
                also=[(obj, ("spec", "replicas"))],
            )
