"""Flux: Kustomizations that apply what Git says at each interval, and HelmReleases that correct drift.

Source: fluxcd/kustomize-controller v1.9 (docs/spec/v1/kustomizations.md: interval, suspend, targetNamespace, the
annotations reconcile and ssa), fluxcd/helm-controller v1.6 (driftDetection: only mode enabled corrects; ignore rules;
the key helm.toolkit.fluxcd.io/driftDetection). An interval counts from the source's own creation; jitter is off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.embedded.models import gitops
from killcheck.embedded.models.gitops import Drift, Git, Tracked
from killcheck.kube import resources as r
from killcheck.kube.informer import Informer
from killcheck.kube.objects import Obj, annotations_of, dig, key_of, labels_of, name_of, namespace_of, parse_time
from killcheck.kube.resources import Resource
from killcheck.text.durations import parse_duration

__all__ = ["HelmController", "KustomizeController"]

RECONCILE = "kustomize.toolkit.fluxcd.io/reconcile"
SSA = "kustomize.toolkit.fluxcd.io/ssa"
NO_DRIFT = "helm.toolkit.fluxcd.io/driftDetection"


@dataclass(eq=False, repr=False)
class _Source(Controller):
    """What both have: a look at each interval at what is theirs."""

    git: Git = field(default_factory=Git)

    takes: ClassVar[tuple[str, ...]] = ("git",)

    resource: ClassVar[Resource]
    tool: ClassVar[str]
    said: ClassVar[str]

    def setup(self) -> None:
        """Follow the sources."""
        self.sources: Informer = self.follow(self.resource, optional=True)

    def reconcile(self, key: Key) -> None:
        """Look at one source when its interval has passed."""
        source = self.sources.get(key[1], key[0])
        if source is None or dig(source, "spec", "suspend") or not self.corrects(source):
            return
        every = _interval(source)
        into = (self.loop.now() - parse_time(source["metadata"]["creationTimestamp"])).total_seconds() % every
        if into < 1.0:
            for one in [*self.git.workloads(), *self.git.sources(source)]:
                self._look_at(source, one)
        self.queue.add(key, every - into + 0.001)

    def _look_at(self, source: Obj, one: Tracked) -> None:
        if not self._holds(source, one):
            return
        found = gitops.drift(self.kube, one)
        left = self.left(source, found) if found is not None else None
        if left is not None:
            gitops.restore(self.kube, left, self.git.spaces())
            self.events.emit(source, "Normal", self.said, f"{left} {'created' if left.live is None else 'configured'}")

    def _holds(self, source: Obj, one: Tracked) -> bool:
        mark = gitops.marked(one.stored, [])
        if mark:
            return mark in (f"{self.tool}/{name_of(source)}", f"{self.tool}/{dig(source, 'spec', 'releaseName')}")
        if not self.deploys_to(source, one.key[1]) or (one.wanted["kind"] == "HelmRelease" and self.tool == "helm"):
            return False
        said = (
            f"what the manifests have in namespace {one.key[1]} is taken to be in Git of "
            f"{self.resource.kind} {key_of(source)[0]}/{name_of(source)}: nothing says whose it is"
        )
        if one.key[1]:
            self.rests_on(said, f"namespace {one.key[1]}")
        return True

    def corrects(self, source: Obj) -> bool:
        """Whether it writes what differs at all."""
        return True

    def deploys_to(self, source: Obj, namespace: str) -> bool:
        """Whether what has no mark there can be its own."""
        return bool(dig(source, "spec", "targetNamespace", default=namespace) == namespace)

    def left(self, source: Obj, found: Drift) -> Drift | None:
        """What of a drift it corrects."""
        return found


class KustomizeController(_Source):
    """kustomize-controller."""

    name: ClassVar[str] = "kustomize-controller"
    resource: ClassVar[Resource] = r.KUSTOMIZATIONS
    tool: ClassVar[str] = "kustomize"
    said: ClassVar[str] = "Progressing"

    def left(self, source: Obj, found: Drift) -> Drift | None:
        """Not what an annotation takes out of it: in Git, or on the live object."""
        notes = annotations_of(found.tracked.wanted) | annotations_of(found.live or {"metadata": {}})
        policy = str(notes.get(SSA, "")).lower()
        if str(notes.get(RECONCILE, "")).lower() == "disabled" or policy == "ignore":
            return None
        if policy == "ifnotpresent" and found.live is not None:
            return None
        return found.but(_ignored(dig(source, "spec", "ignore", default=None) or (), found.tracked))


class HelmController(_Source):
    """helm-controller; what a chart renders is what the manifests have."""

    name: ClassVar[str] = "helm-controller"
    resource: ClassVar[Resource] = r.HELMRELEASES
    tool: ClassVar[str] = "helm"
    said: ClassVar[str] = "DriftCorrected"

    def corrects(self, source: Obj) -> bool:
        """Only where drift is not merely looked for."""
        return bool(dig(source, "spec", "driftDetection", "mode") == "enabled")

    def deploys_to(self, source: Obj, namespace: str) -> bool:
        """Its target namespace, else its own."""
        return bool(dig(source, "spec", "targetNamespace", default=namespace_of(source)) == namespace)

    def left(self, source: Obj, found: Drift) -> Drift | None:
        """Not what is labelled or annotated out of it, nor what its rules ignore."""
        for meta in (found.tracked.wanted, found.live or {"metadata": {}}):
            if "disabled" in (annotations_of(meta).get(NO_DRIFT), labels_of(meta).get(NO_DRIFT)):
                return None
        return found.but(_ignored(dig(source, "spec", "driftDetection", "ignore", default=None) or (), found.tracked))


def _ignored(rules: Iterable[Obj], one: Tracked) -> Iterator[gitops.Path]:
    """The paths that ignore rules take out of an object."""
    kind, namespace, name = one.key
    for rule in rules:
        target = rule.get("target") or {}
        about = (("kind", kind), ("namespace", namespace), ("name", name), ("group", one.group))
        if all(target.get(key) in (None, "", value) for key, value in about) and not (
            target.get("labelSelector") or target.get("annotationSelector")
        ):
            for pointer in rule.get("paths") or ():
                yield () if pointer in ("", "/") else gitops.path_of_pointer(pointer)


def _interval(source: Obj) -> float:
    try:
        return max(1.0, parse_duration(str(dig(source, "spec", "interval", default="10m"))))
    except ValueError:
        return 600.0
