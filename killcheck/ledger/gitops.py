"""GitOps sources: what puts a target back to what Git says, how often, and whether anything here does the same.

Sources: Argo CD's Application (syncPolicy.automated: enabled, selfHeal); Flux's Kustomization (suspend, interval, the
annotation kustomize.toolkit.fluxcd.io/reconcile) and HelmRelease (driftDetection.mode; off by default); Sveltos'
ClusterProfile and Profile (syncMode; projectsveltos/addon-controller api/v1beta1/spec.go).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from killcheck.entries import Entry, Status
from killcheck.kube import resources as r
from killcheck.kube.argo_applications import ignores_replicas, is_here, respects
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, ref_of
from killcheck.ledger.stakes import Held, Stakes
from killcheck.text.durations import parse_duration

__all__ = ["entry_of", "may_apply"]

_SETTLES = (
    "drill it on a cluster where it reconciles (--on CONTEXT), suspend it while the GPUs are off, or say under "
    "assume: why it leaves the replicas alone"
)
#: The one mode of Sveltos in which it puts back what drifts.
_SVELTOS_HEALS = "ContinuousWithDriftDetection"
#: Who acts out which kind on the embedded cluster.
_MODELS = {
    "Application": "argocd-application-controller",
    "Kustomization": "kustomize-controller",
    "HelmRelease": "helm-controller",
}


#: Versions whose fields say what is read here: ``suspend``, ``syncPolicy``, where it applies. Flux kept the words of
#: its betas; what ``driftDetection`` is when nobody says so is known of the version that is modelled alone.
_VERSIONS = {
    "argoproj.io": ("v1alpha1",),
    "kustomize.toolkit.fluxcd.io": ("v1", "v1beta2", "v1beta1"),
    "helm.toolkit.fluxcd.io": ("v2", "v2beta2", "v2beta1"),
}


def entry_of(obj: Obj, stakes: Stakes, models: Collection[str], *, live: bool) -> Entry:
    """The entry of one source."""
    ref, made = ref_of(obj), _made(obj)
    if not _is_read(obj):
        return _unread(obj, live=live)
    asleep = _asleep(made)
    if asleep:
        return Entry(ref, Status.HARMLESS, asleep)
    concerned = [held for held in stakes.targets if _may_apply(made, held)]
    if not concerned:
        return Entry(ref, Status.HARMLESS, "it applies nothing in a target's namespace")
    if all(_left_alone(made, held) for held in concerned):
        return Entry(ref, Status.HARMLESS, "it leaves replicas alone, also when it syncs (ignoreDifferences)")
    how_often = dig(obj, "spec", "interval", default="")
    every = f" every {how_often}" if how_often else ""
    if live:
        return Entry(
            ref,
            Status.EXECUTED,
            f"it may put {concerned[0]} back{every}: seen only as long as the drill watched",
            told=_longer(str(how_often), stakes),
        )
    if _modelled(obj, models):
        return Entry(ref, Status.MODELLED, "its self-heal is modelled here")
    where = f", if {_elsewhere(made)} is this cluster" if _elsewhere(made) else ""
    return Entry(ref, Status.NOT_MODELLED, f"it may put {concerned[0]} back{every} to what Git says{where}", _SETTLES)


def may_apply(obj: Obj, stakes: Stakes) -> bool:
    """Whether a target may be among what a source applies, whenever somebody asks it to."""
    return any(_may_apply(_made(obj), held) for held in stakes.targets)


def _is_read(obj: Obj) -> bool:
    """Whether it is of a version, or of a product, whose words are not taken for those of another."""
    group, _, version = str(obj.get("apiVersion")).rpartition("/")
    return version in _VERSIONS.get(group, (version,))


def _unread(obj: Obj, *, live: bool) -> Entry:
    said = f"nothing here reads {obj.get('kind')} of {obj.get('apiVersion')}"
    if live:
        return Entry(ref_of(obj), Status.EXECUTED, f"{said}; it ran on this cluster while the drill watched", told=True)
    return Entry(ref_of(obj), Status.NOT_MODELLED, f"{said}: it may put back what Git says", _SETTLES)


def _made(obj: Obj) -> Obj:
    """The Application that an ApplicationSet makes, whatever its generators put in; anything else is itself.

    What overrides the template (``templatePatch``, a generator's own ``template``) is not read.
    """
    if obj.get("kind") != "ApplicationSet" or dig(obj, "spec", "templatePatch"):
        return obj
    if _overridden(dig(obj, "spec", "generators", default=[])):
        return obj
    spec = dig(obj, "spec", "template", "spec", default={})
    return {"apiVersion": obj.get("apiVersion"), "kind": "Application", "spec": spec}


def _overridden(generators: Any) -> bool:
    """Whether a generator, or one in it (matrix, merge), has a template of its own."""
    if isinstance(generators, list):
        return any(map(_overridden, generators))
    if not isinstance(generators, dict):
        return False
    own = generators.get("template")
    return bool(isinstance(own, dict) and own.get("spec")) or any(map(_overridden, generators.values()))


def _longer(interval: str, stakes: Stakes) -> bool:
    """Whether it may come less often than everything must hold."""
    try:
        return parse_duration(interval) > stakes.kill_path.deadlines_for(stakes.layer).held_s
    except ValueError:
        return bool(interval)


def _asleep(obj: Obj) -> str | None:
    """Why it changes nothing that somebody scaled; None where it may."""
    if dig(obj, "spec", "suspend") is True:
        return "it is suspended"
    kind = obj.get("kind")
    if kind == "Application":
        automated = dig(obj, "spec", "syncPolicy", "automated")
        if automated is None or automated.get("enabled") is False:
            return "it syncs only when somebody asks (no syncPolicy.automated)"
        if automated.get("selfHeal") is not True:
            return "it leaves what drifts alone until the next commit (selfHeal is off)"
    if kind in ("ClusterProfile", "Profile") and dig(obj, "spec", "syncMode") != _SVELTOS_HEALS:
        return f"it leaves what drifts alone until what it refers to changes (syncMode is not {_SVELTOS_HEALS})"
    drifts = dig(obj, "spec", "driftDetection", "mode", default="disabled") == "enabled"
    if kind == "HelmRelease" and not drifts and r.by_kind(str(obj.get("apiVersion")), kind):
        return "it leaves what drifts alone until the next release (driftDetection is not enabled)"
    return None


def _may_apply(obj: Obj, held: Held) -> bool:
    """Whether a target may be among what it applies: by namespace, and by what the target says of itself."""
    notes = {**labels_of(held.obj or {}), **annotations_of(held.obj or {})}
    if (
        notes.get("kustomize.toolkit.fluxcd.io/reconcile") == "disabled"
        or notes.get("kustomize.toolkit.fluxcd.io/ssa") == "IfNotPresent"
    ):
        return False
    where = dig(obj, "spec", "targetNamespace") or dig(obj, "spec", "destination", "namespace")
    return where in (None, "", "*", held.namespace) or "{{" in str(where)


def _left_alone(obj: Obj, held: Held) -> bool:
    """Whether an Application leaves a target's replicas to others, also when it syncs (RespectIgnoreDifferences)."""
    return respects(obj) and ignores_replicas(obj, held.group, held.kind, held.namespace, held.name) is True


def _elsewhere(obj: Obj) -> str:
    """What an Application calls the cluster that it deploys to, where that is not Argo CD's own; else empty.

    Argo CD on another cluster knows this one by its URL, too.
    """
    to = dig(obj, "spec", "destination", default=None) or {}
    return "" if obj.get("kind") != "Application" or is_here(obj) else str(to.get("server") or to.get("name"))


def _modelled(obj: Obj, models: Collection[str]) -> bool:
    """Whether a model here does what its controller does: what it follows by its marks, or by its namespace."""
    kind, version = str(obj.get("kind")), str(obj.get("apiVersion"))
    if _elsewhere(_made(obj)) or r.by_kind(version, kind) is None:  # of another cluster, perhaps, or version
        return False
    return _MODELS.get(kind) in models
