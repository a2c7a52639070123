"""Flux: Kustomizations that apply what Git says at each interval, and HelmReleases that correct drift.

Source: fluxcd/kustomize-controller v1.9 (docs/spec/v1/kustomizations.md: interval, suspend, targetNamespace, the
annotations reconcile and ssa; prune, deletionPolicy: what becomes of its objects as it is deleted),
fluxcd/helm-controller v1.6 (driftDetection: only mode enabled corrects; ignore rules; the key
helm.toolkit.fluxcd.io/driftDetection; storageNamespace: a release whose record is gone is installed anew, into a
namespace that is made for it where install.createNamespace says so; one that is deleted is uninstalled, unless it is
suspended). An interval counts from the source's own creation; jitter is off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.embedded.models import gitops
from killcheck.embedded.models.gitops import Drift, Git, Tracked
from killcheck.entries import Doubt
from killcheck.kube import resources as r
from killcheck.kube.informer import Change, Informer
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    dig,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    parse_time,
    ref_of,
)
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
        #: Those that were deleted, until what they take along has gone, too.
        self._leaving: dict[Key, Obj] = {}
        self.sources: Informer = self.follow(self.resource, self._itself, optional=True)

    def _itself(self, change: Change, _old: Obj | None, new: Obj) -> list[Key]:
        if change == "deleted" and dig(new, "spec", "suspend") is not True and self.takes_along(new):
            self._leaving[key_of(new)] = new
        return [key_of(new)]

    def _take_away(self, source: Obj) -> None:
        """Delete what was a source's own; what nothing says whose it is goes too, and is no proof."""
        held = [one for one in (*self.git.workloads(), *self.git.sources(source)) if self._holds(source, one)]
        marked = [one for one in held if gitops.marked(one.stored, [])]
        for one in marked or held:  # what has marks was rendered by it, and what has none beside that was not
            if not marked:
                what = f"{self.resource.kind} {key_of(source)[0]}/{name_of(source)} takes {ref_of(one.stored)} along"
                said = f"whether {what} as it is deleted is not known: nothing says whose it is"
                self.unproven.append(Doubt(ref_of(one.stored), said))
            gitops.remove(self.kube, one)

    def reconcile(self, key: Key) -> None:
        """Look at one source when its interval has passed."""
        if key in self._leaving:
            self._take_away(self._leaving[key])
            del self._leaving[key]
        source = self.sources.get(key[1], key[0])
        if source is None or dig(source, "spec", "suspend") or not self.corrects(source):
            return
        every = _interval(source)
        into = (self.loop.now() - parse_time(source["metadata"]["creationTimestamp"])).total_seconds() % every
        if into < 1.0:
            for one in [*self.git.workloads(), *self.git.sources(source)]:
                self._look_at(source, one)
            self.looked(source)
        self.queue.add(key, every - into + 0.001)

    def _look_at(self, source: Obj, one: Tracked) -> None:
        if not self._holds(source, one):
            return
        found = gitops.drift(self.kube, one)
        left = self.left(source, found) if found is not None else None
        if left is not None:
            gitops.restore(self.kube, left, self.spaces(source))
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

    def looked(self, source: Obj) -> None:
        """All of it is as it wants it."""

    def corrects(self, source: Obj) -> bool:
        """Whether it writes what differs at all."""
        return True

    def deploys_to(self, source: Obj, namespace: str) -> bool:
        """Whether what has no mark there can be its own."""
        return bool(dig(source, "spec", "targetNamespace", default=namespace) == namespace)

    def left(self, source: Obj, found: Drift) -> Drift | None:
        """What of a drift it corrects."""
        return found

    def takes_along(self, source: Obj) -> bool:
        """Whether what it applied is deleted with it."""
        return True

    def spaces(self, source: Obj) -> dict[str, Obj]:
        """The namespaces that it makes again with what lies in them."""
        return self.git.spaces()


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

    def takes_along(self, source: Obj) -> bool:
        """As ``deletionPolicy`` says; by default where it prunes."""
        policy = dig(source, "spec", "deletionPolicy", default="MirrorPrune")
        return policy != "Orphan" and (policy != "MirrorPrune" or dig(source, "spec", "prune") is True)


class HelmController(_Source):
    """helm-controller; what a chart renders is what the manifests have."""

    name: ClassVar[str] = "helm-controller"
    resource: ClassVar[Resource] = r.HELMRELEASES
    tool: ClassVar[str] = "helm"
    said: ClassVar[str] = "DriftCorrected"

    def setup(self) -> None:
        """Follow the namespaces that hold releases' records as well."""
        #: Releases that are not installed: their record went with its namespace, or they were uninstalled.
        self._absent: set[Key] = set()
        super().setup()
        self.follow(r.NAMESPACES, self._recorded_in)

    def _recorded_in(self, change: Change, _old: Obj | None, new: Obj) -> list[Key]:
        """The releases whose records went with a namespace."""
        gone = [key_of(one) for one in self.sources.values() if change == "deleted" and _storage(one) == name_of(new)]
        self._absent.update(gone)
        return gone

    def _take_away(self, source: Obj) -> None:
        super()._take_away(source)
        self._absent.add(key_of(source))

    def looked(self, source: Obj) -> None:
        """It is installed."""
        self._absent.discard(key_of(source))

    def corrects(self, source: Obj) -> bool:
        """Only where drift is not merely looked for, or where it has to be installed anew."""
        enabled = bool(dig(source, "spec", "driftDetection", "mode") == "enabled")
        return enabled or key_of(source) in self._absent

    def spaces(self, source: Obj) -> dict[str, Obj]:
        """Its own, by ``install.createNamespace``, and what its chart has."""
        place = str(dig(source, "spec", "targetNamespace", default=namespace_of(source)))
        own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}
        charts = {name: one for name, one in self.git.spaces().items() if gitops.marked(one, [])}
        return charts | ({place: own} if dig(source, "spec", "install", "createNamespace") is True else {})

    def deploys_to(self, source: Obj, namespace: str) -> bool:
        """Its target namespace, else its own."""
        return bool(dig(source, "spec", "targetNamespace", default=namespace_of(source)) == namespace)

    def left(self, source: Obj, found: Drift) -> Drift | None:
        """Not what is labelled or annotated out of it, nor what its rules ignore; all of what is installed anew."""
        if key_of(source) in self._absent:
            return found
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


def _storage(source: Obj) -> str:
    """The namespace that holds a release's record."""
    return str(dig(source, "spec", "storageNamespace", default=namespace_of(source)))


def _interval(source: Obj) -> float:
    try:
        return max(1.0, parse_duration(str(dig(source, "spec", "interval", default="10m"))))
    except ValueError:
        return 600.0
