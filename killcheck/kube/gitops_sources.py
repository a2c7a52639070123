"""What GitOps sources apply that is not among what is read: charts, and folders of other repositories.

Sources: Argo CD's Application (spec.source, spec.sources: chart, path) and ApplicationSet; Flux's Kustomization
(spec.path) and HelmRelease (spec.chart.spec.chart, a folder where its source is a repository of Git).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from killcheck.kube.furniture import is_gitops
from killcheck.kube.objects import Obj, dig, mappings, ref_of
from killcheck.text import lazy_re

__all__ = ["elsewhere"]

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
#: So many folders above what was named belong to its repository at the most.
_HIGHEST = 12


def elsewhere(objects: Iterable[Obj], roots: Sequence[Path]) -> Iterator[str]:
    """What each of them applies that nobody read, in a few words. ``roots``: what is read."""
    for obj in objects:
        if is_gitops(obj) and obj.get("kind") not in ("HelmRepository", "AppProject"):
            for what in dict.fromkeys(_applied(obj)):
                if what is not None and not (what.startswith("path ") and _is_read(what[5:], roots)):
                    yield f"what {ref_of(obj)} applies ({what})"


def _applied(obj: Obj) -> Iterator[str | None]:
    """Charts and paths; None for a chart that makes no pools."""
    spec, kind = obj.get("spec") or {}, obj.get("kind")
    if kind == "ApplicationSet":
        spec = dig(spec, "template", "spec", default={})
    if kind in ("Application", "ApplicationSet"):
        sources = [*mappings(spec.get("sources")), *([spec["source"]] if isinstance(spec.get("source"), dict) else [])]
        yield from (_chart(one["chart"], one.get("helm")) if one.get("chart") else _path(one) for one in sources)
    elif kind == "HelmRelease":
        chart = dig(spec, "chart", "spec", default={})
        of_git = dig(chart, "sourceRef", "kind") in ("GitRepository", "Bucket")
        yield f"path {chart.get('chart')}" if of_git else _chart(chart.get("chart"), spec.get("values"))
    elif kind == "Kustomization":
        yield _path(spec)
    else:
        yield f"by {str(obj.get('apiVersion')).rpartition('/')[0]}"


def _path(source: Obj) -> str | None:
    if source.get("ref") and not source.get("path"):
        return None  # values of another source
    return f"path {source.get('path') or '.'!s}"


def _chart(name: Any, values: Any) -> str | None:
    known = str(name).rpartition("/")[2] in _CHARTS and not _POOLS.search(json.dumps(values, default=str))
    return None if known else f"chart {name}"


def _is_read(path: str, roots: Sequence[Path]) -> bool:
    """Whether a path of a repository is a folder of what is read, or one above it that has nothing else of the kind."""
    wanted = path.removeprefix("./").strip("/")
    if "{" in path:
        return False
    for root in roots:
        here = root.resolve()
        above = [here, *list(here.parents)[:_HIGHEST]]
        top = next((i for i, one in enumerate(above) if (one / ".git").exists()), 0)
        for parent in above[: top + 1]:
            target = (parent / wanted).resolve()
            if target.exists() and target.is_relative_to(here):
                return True
    return False
