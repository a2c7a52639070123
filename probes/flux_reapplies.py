"""Flux Kustomizations and HelmReleases that put the replicas back."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of

__all__ = ["FluxReapplies"]

_KUSTOMIZE = "kustomize.toolkit.fluxcd.io"
_HELM = "helm.toolkit.fluxcd.io"


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
        """Sources that nobody suspends, and that a target's marks or its namespace name."""
        if any("suspend" in one.text or f"{_KUSTOMIZE}/reconcile" in one.text for one in world.layer_executors):
            return  # a drill tells whether it holds
        for kind, group, corrects in (("Kustomization", _KUSTOMIZE, _applies), ("HelmRelease", _HELM, _corrects)):
            for source in world.of(kind):
                ours = str(source.get("apiVersion")).startswith(f"{group}/")
                if not ours or dig(source, "spec", "suspend") is True or not corrects(source):
                    continue
                yield from self._about(world, source, group)

    def _about(self, world: World, source: Obj, group: str) -> Iterable[Finding]:
        for target, obj in world.targets:
            if not _holds(source, obj, group) or dig(obj, "spec", "replicas") is None or not world.zeroes(target):
                continue
            every = str(dig(source, "spec", "interval", default="its interval"))
            yield self.finding(
                world,
                source,
                ("spec", "interval"),
                f"applies {target}: after a scale to zero it is put back within {every}",
                also=[(obj, ("spec", "replicas"))],
            )


def _applies(_source: Obj) -> bool:
    return True


def _corrects(source: Obj) -> bool:
    """Whether a HelmRelease corrects drift, also of replicas."""
    rules = dig(source, "spec", "driftDetection", "ignore", default=[])
    paths = [path for rule in rules if isinstance(rule, dict) for path in rule.get("paths") or ()]
    return dig(source, "spec", "driftDetection", "mode") == "enabled" and "/spec/replicas" not in paths


def _holds(source: Obj, obj: Obj, group: str) -> bool:
    """Whether a target is the source's: by its labels, else by the namespace that the source says."""
    labels, notes = labels_of(obj), annotations_of(obj)
    policy = str(notes.get(f"{_KUSTOMIZE}/ssa", "")).lower()
    off = str(notes.get(f"{_KUSTOMIZE}/reconcile", "")).lower() == "disabled" or policy in ("ifnotpresent", "ignore")
    if (off and group == _KUSTOMIZE) or notes.get(f"{_HELM}/driftDetection") == "disabled":
        return False
    if f"{group}/name" in labels:
        mine = (name_of(source), namespace_of(source))
        return (labels[f"{group}/name"], labels.get(f"{group}/namespace", mine[1])) == mine
    return bool(dig(source, "spec", "targetNamespace") == namespace_or_default(obj))
