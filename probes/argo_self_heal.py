"""Argo CD Applications that put the replicas back."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.gitops_owners import argo_applies, argo_heals
from killcheck.kube.objects import dig

__all__ = ["ArgoSelfHeal"]


class ArgoSelfHeal(Probe):
    """selfHeal restores /spec/replicas from git minutes after a layer wrote 0; what is ignored, the next sync writes.

    ``ignoreDifferences`` alone keeps a self-heal from starting, and no sync that starts for another reason.
    """

    id = "argo-self-heal"
    claim = "No Argo CD Application that owns a target's replicas heals them back."
    remedy = (
        "Add ignoreDifferences for /spec/replicas and the sync option RespectIgnoreDifferences=true, or leave replicas "
        "out of git."
    )
    failures = (30,)
    sources = ("argoproj/argo-cd#8207", "JiRaska/open-bank-oss#273")

    def ask(self, world: World) -> Iterable[Finding]:
        """Applications with automated sync whose destination is a target's namespace."""
        for app in world.of("Application"):
            for target, obj in world.targets:
                if not argo_applies(app, obj) or dig(obj, "spec", "replicas") is None or not world.zeroes(target):
                    continue
                heals = argo_heals(app, obj)
                if heals is None:
                    continue
                what = "selfHeal puts it back within minutes" if heals else "its next sync puts it back"
                yield self.finding(
                    world,
                    app,
                    ("spec", "syncPolicy", "automated"),
                    f"syncs {target}: after a scale to zero {what}",
                    severity="error" if heals else "warning",
                    also=[(obj, ("spec", "replicas"))],
                )
