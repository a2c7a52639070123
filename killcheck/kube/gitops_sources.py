"""What GitOps sources apply that is not among what is read: charts, and folders of other repositories.

Sources: Argo CD's Application (spec.source, spec.sources: chart, path) and ApplicationSet; Flux's Kustomization
(spec.path) and HelmRelease (spec.chart.spec.chart, a folder where its source is a repository of Git).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from posixpath import normpath
from typing import Any, NamedTuple

from killcheck.kube.furniture import is_gitops
from killcheck.kube.objects import Obj, dig, mappings, namespace_of, ref_of
from killcheck.text import lazy_re
from killcheck.text.files import text_of
from killcheck.text.shown import brief

__all__ = ["elsewhere", "is_furniture_chart"]

#: Charts of well-known projects, none of which has a pool of nodes unless its values say so.
_CHARTS = frozenset(
    """
    alertmanager argo-cd argo-events argo-rollouts argo-workflows aws-ebs-csi-driver aws-efs-csi-driver
    aws-for-fluent-bit aws-load-balancer-controller cert-manager cilium cluster-autoscaler coredns dcgm-exporter
    descheduler external-dns external-secrets falco fluent-bit gatekeeper gpu-operator grafana harbor ingress-nginx
    istiod base jaeger karpenter karpenter-crd keda keda-add-ons-http kube-green kube-prometheus-stack
    kube-state-metrics kueue kyverno loki metrics-server minio nvidia-device-plugin nvidia-dra-driver-gpu
    opentelemetry-collector opentelemetry-operator postgresql prometheus prometheus-adapter prometheus-operator-crds
    promtail redis rabbitmq reloader sealed-secrets secrets-store-csi-driver tempo thanos traefik vault velero volcano
    """.split()
)
_POOLS = lazy_re.compile(r"(?i)node_?(pool|class|claim|group)|karpenter\.sh|instance_?types?|machine_?(type|pool)")
#: Flux's sources that have folders.
_SOURCES = frozenset({"GitRepository", "Bucket", "OCIRepository"})
#: Kind, namespace, name.
_Place = tuple[str, str, str]
_REMOTE = lazy_re.compile(r"(?m)^[ \t]*url[ \t]*=[ \t]*(\S+)")
#: So many folders above what was named belong to its repository at the most.
_HIGHEST = 12


class _Applied(NamedTuple):
    """``path``: of a folder in the repository ``url``; None: it is no folder."""

    said: str
    path: str | None = None
    url: str = ""


def elsewhere(objects: Sequence[Obj], roots: Sequence[Path]) -> Iterator[str]:
    """What each of them applies that nobody read, in a few words. ``roots``: what is read."""
    urls = {
        _place(obj, obj): str(dig(obj, "spec", "url", default="")) for obj in objects if obj.get("kind") in _SOURCES
    }
    for obj in filter(is_gitops, objects):
        if obj.get("kind") not in ("HelmRepository", "AppProject"):
            for one in dict.fromkeys(_applied(obj, urls)):
                if one is not None and (one.path is None or not any(_reads(root, one.path, one.url) for root in roots)):
                    yield f"what {ref_of(obj)} applies ({one.said})"


def _applied(obj: Obj, urls: Mapping[_Place, str]) -> Iterator[_Applied | None]:
    """Charts and paths; None for a chart that makes no pools. ``urls``: of the sources that Flux's objects refer to."""
    spec, kind = obj.get("spec") or {}, obj.get("kind")
    if kind == "ApplicationSet":
        spec = dig(spec, "template", "spec", default={})
    if kind in ("Application", "ApplicationSet"):
        sources = [*mappings(spec.get("sources")), *([spec["source"]] if isinstance(spec.get("source"), dict) else [])]
        yield from (_chart(one["chart"], one.get("helm")) if one.get("chart") else _of_argo(one) for one in sources)
    elif kind == "HelmRelease":
        chart = dig(spec, "chart", "spec", default={})
        source = dig(chart, "sourceRef", default={})
        of_git = dig(source, "kind") in _SOURCES
        name, url = chart.get("chart"), urls.get(_place(obj, source), "")
        yield _path(name, url) if of_git else _chart(name, spec.get("values"))
    elif kind == "Kustomization":
        yield _path(spec.get("path"), urls.get(_place(obj, dig(spec, "sourceRef", default={})), ""))
    else:
        yield _Applied(f"by {str(obj.get('apiVersion')).rpartition('/')[0]}")


def _place(beside: Obj, ref: Obj) -> _Place:
    """Kind, namespace and name of an object, or of one that is referred to: where no namespace is said, beside it."""
    meta = ref.get("metadata") or ref
    return str(ref.get("kind")), str(meta.get("namespace") or namespace_of(beside)), str(meta.get("name"))


def _of_argo(source: Obj) -> _Applied | None:
    if source.get("ref") and not source.get("path"):
        return None  # values of another source
    return _path(source.get("path"), str(source.get("repoURL") or ""))


def _path(path: Any, url: str) -> _Applied:
    return _Applied(f"path {brief(str(path or '.'))}", str(path or "."), url)


def is_furniture_chart(name: str) -> bool:
    """Whether a chart is a well-known project's, which brings what a cluster is furnished with and no workload."""
    return name.rpartition("/")[2] in _CHARTS


def _chart(name: Any, values: Any) -> _Applied | None:
    known = is_furniture_chart(str(name)) and not _POOLS.search(json.dumps(values, default=str))
    return None if known else _Applied(f"chart {brief(str(name))}")


def _reads(root: Path, path: str, url: str) -> bool:
    """Whether a path of a repository is a folder of what is read, or one above it that has nothing else of the kind.

    Another repository may have a folder of that name: the checkout's own remotes say which it is. All of a repository
    is read only where they say that it is this one.
    """
    if "{" in path:
        return False
    try:
        here = root.resolve()
        above = [here, *list(here.parents)[:_HIGHEST]]
        top = next((i for i, one in enumerate(above) if (one / ".git").exists()), 0)
        own = _remotes(above[top] / ".git" / "config")
        wanted = normpath(path.strip("/"))
        whole = wanted == "."
        if (url and own and _name(url) not in own) or (whole and not (url and own)):
            return False
        targets = [(one / wanted).resolve() for one in above[top if whole else 0 : top + 1]]
        return any(target.exists() and target.is_relative_to(here) for target in targets)
    except (OSError, ValueError):  # no path of any file
        return False


def _remotes(config: Path) -> frozenset[str]:
    """The names of the repositories that a checkout has as remotes; empty: it does not say."""
    try:
        return frozenset(map(_name, _REMOTE.findall(text_of(config) if config.is_file() else "")))
    except (OSError, ValueError):
        return frozenset()


def _name(url: str) -> str:
    """What a repository is called, whoever has it, and by whichever way it is reached."""
    return url.rstrip("/").removesuffix(".git").replace(":", "/").rpartition("/")[2].lower()
