"""Argo CD Applications that put the replicas back."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.argo_applications import ignores_replicas, respects
from killcheck.kube.objects import Obj, dig, name_of

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
            automated = dig(app, "spec", "syncPolicy", "automated")
            if not isinstance(automated, dict) or automated.get("enabled") is False:
                continue
            for target, obj in world.targets:
                if self._owns(app, obj) and dig(obj, "spec", "replicas") is not None and world.zeroes(target):
                    place = (namespace_or_default(obj), name_of(obj))
                    ignored = ignores_replicas(app, _group(obj), str(obj.get("kind")), *place)
                    if ignored is not False and respects(app):
                        continue
                    heals = bool(automated.get("selfHeal")) and ignored is False
                    what = "selfHeal puts it back within minutes" if heals else "its next sync puts it back"
                    yield self.finding(
                        world,
                        app,
                        ("spec", "syncPolicy", "automated"),
                        f"syncs {target}: after a scale to zero {what}",
                        severity="error" if heals else "warning",
                        also=[(obj, ("spec", "replicas"))],
                    )

    @staticmethod
    def _owns(app: Obj, obj: Obj) -> bool:
        listed = dig(app, "status", "resources")
        key = (obj.get("kind"), namespace_or_default(obj), name_of(obj))
        if listed is not None:
            return any((r.get("kind"), r.get("namespace"), r.get("name")) == key for r in listed)
        return bool(dig(app, "spec", "destination", "namespace") == key[1])


def _group(obj: Obj) -> str:
    return str(obj.get("apiVersion")).rpartition("/")[0]
