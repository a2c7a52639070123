"""Which workloads a GitOps source puts back to what Git says, by itself: Argo CD's Applications, Flux's sources.

Sources: Argo CD's Application (syncPolicy.automated, selfHeal, status.resources), fluxcd/kustomize-controller
docs/spec/v1/kustomizations.md (it applies at each interval), fluxcd/helm-controller docs/spec/v2/helmreleases.md
(driftDetection; off by default).
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.kube.argo_applications import ignores_replicas, respects
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, mappings, name_of, namespace_of

__all__ = ["HELM", "KUSTOMIZE", "argo_applies", "argo_heals", "flux_applies", "puts_back"]

KUSTOMIZE, HELM = "kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io"


def puts_back(source: Obj, obj: Obj, file: str = "") -> str | None:
    """How a source sets a workload's replicas back after somebody scaled it; None: it does not, as far as it is read.

    ``file``: where the workload's manifest lies, with slashes.
    """
    if dig(obj, "spec", "replicas") is None:
        return None
    group, kind = str(source.get("apiVersion")).rpartition("/")[0], source.get("kind")
    if (group, kind) == ("argoproj.io", "Application"):
        heals = argo_applies(source, obj) and argo_heals(source, obj)
        return "its selfHeal puts back what Git says" if heals else None
    if (group, kind) in ((KUSTOMIZE, "Kustomization"), (HELM, "HelmRelease")) and flux_applies(source, obj, file):
        return f"it applies what Git says every {dig(source, 'spec', 'interval', default='interval')}"
    return None


def argo_applies(app: Obj, obj: Obj) -> bool:
    """Whether an Application syncs a workload by itself: by what it lists, else by the namespace it deploys to."""
    automated = dig(app, "spec", "syncPolicy", "automated")
    if not isinstance(automated, dict) or automated.get("enabled") is False:
        return False
    listed = dig(app, "status", "resources")
    key = (obj.get("kind"), namespace_of(obj) or "default", name_of(obj))
    if listed is not None:
        return any((r.get("kind"), r.get("namespace"), r.get("name")) == key for r in listed)
    return bool(dig(app, "spec", "destination", "namespace") == key[1])


def argo_heals(app: Obj, obj: Obj) -> bool | None:
    """Whether an Application puts replicas back as soon as they differ; None: it leaves them alone, also in a sync."""
    group = str(obj.get("apiVersion")).rpartition("/")[0]
    place = (str(obj.get("kind")), namespace_of(obj) or "default", name_of(obj))
    ignored = ignores_replicas(app, group, *place)
    if ignored is not False and respects(app):
        return None
    return ignored is False and bool(dig(app, "spec", "syncPolicy", "automated", "selfHeal"))


def flux_applies(source: Obj, obj: Obj, file: str = "") -> bool:
    """Whether a Kustomization or a HelmRelease that is at work sets a workload's replicas back: by the workload's
    labels, else by the namespace or the folder that the source says."""
    group = str(source.get("apiVersion")).rpartition("/")[0]
    if dig(source, "spec", "suspend") is True or (group == HELM and not _corrects(source)):
        return False
    labels, notes = labels_of(obj), annotations_of(obj)
    policy = str(notes.get(f"{KUSTOMIZE}/ssa", "")).lower()
    off = str(notes.get(f"{KUSTOMIZE}/reconcile", "")).lower() == "disabled" or policy in ("ifnotpresent", "ignore")
    if (off and group == KUSTOMIZE) or notes.get(f"{HELM}/driftDetection") == "disabled":
        return False
    if f"{group}/name" in labels:
        mine = (name_of(source), namespace_of(source))
        return (labels[f"{group}/name"], labels.get(f"{group}/namespace", mine[1])) == mine
    into = dig(source, "spec", "targetNamespace")
    if into is not None:
        return bool(into == (namespace_of(obj) or "default"))
    return any(f"/{folder}/" in f"/{file}" for folder in _folders(source))


def _corrects(release: Obj) -> bool:
    """Whether a HelmRelease corrects drift, also of replicas."""
    rules = mappings(dig(release, "spec", "driftDetection", "ignore"))
    paths = [path for rule in rules for path in rule.get("paths") or ()]
    return dig(release, "spec", "driftDetection", "mode") == "enabled" and "/spec/replicas" not in paths


def _folders(source: Obj) -> Iterator[str]:
    """The folder of its repository that a Kustomization applies; none where that is all of it."""
    found = str(dig(source, "spec", "path", default="")).strip("/")
    found = found.removeprefix("./").strip("/")
    if source.get("kind") == "Kustomization" and found not in ("", "."):
        yield found
