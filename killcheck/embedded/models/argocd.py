"""Argo CD's self-heal: an Application that puts its resources back to what Git says, deleted ones too.

Source: argoproj/argo-cd v3.5 controller/appcontroller.go (autoSync: only what is automated, enabled and out of sync;
selfHeal for a revision that was synced already), util/argo/normalizers/diff_normalizer.go (group and kind of
``ignoreDifferences`` are globs, an empty name or namespace is any; what a manager of managedFieldsManagers owns is
ignored). A self-heal syncs the resources that are out of sync, no others: what is ignored alone starts none, and is
written all the same by the next sync of its resource (argo-cd#8207), unless ``RespectIgnoreDifferences=true``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.embedded.models import gitops
from killcheck.embedded.models.gitops import Drift, Git, Tracked
from killcheck.entries import Doubt
from killcheck.kube import resources as r
from killcheck.kube.argo_applications import about, is_here, respects
from killcheck.kube.informer import Change, Informer
from killcheck.kube.objects import (
    Obj,
    copy,
    dig,
    items,
    key_of,
    labels_of,
    mappings,
    name_of,
    namespace_of,
    ref_of,
)

__all__ = ["ArgoCd"]

TRACKING = gitops.INSTANCE
#: What has an Application's resources deleted with it (foreground, or in the background).
FINALIZER = "resources-finalizer.argocd.argoproj.io"
#: From a change to the sync that heals it, in seconds (the application controller's old default).
SELF_HEAL_S = 5.0
#: Kinds that a change of is followed at once; others are compared at each refresh.
FOLLOWED = (r.DEPLOYMENTS, r.STATEFULSETS, r.SCALEDOBJECTS, r.CRONJOBS, r.JOBS)


@dataclass(eq=False, repr=False)
class ArgoCd(Controller):
    """argocd-application-controller."""

    name: ClassVar[str] = "argocd-application-controller"
    takes: ClassVar[tuple[str, ...]] = ("git",)
    git: Git = field(default_factory=Git)

    def setup(self) -> None:
        """Follow Applications and what they hold."""
        #: What was marked later, or was never in a manifest: as it was when its mark was first seen.
        self._marked: dict[tuple[str, str, str], Tracked] = {}
        self.applications = self.follow(r.APPLICATIONS, self._itself_and_others, optional=True)
        for resource in FOLLOWED:
            self.follow(resource, self._apps_of, optional=True)

    def _itself_and_others(self, change: Change, old: Obj | None, new: Obj) -> list[Key]:
        """An Application, and those whose own it may be."""
        return [key_of(new), *self._apps_of(change, old, new)]

    def _apps_of(self, change: Change, old: Obj | None, new: Obj) -> list[Key]:
        identity = (str(new.get("kind")), namespace_of(new), name_of(new))
        late = old is not None and TRACKING not in labels_of(old)
        if (
            TRACKING in labels_of(new)
            and change != "deleted"
            and (late or not any(one.key == identity for one in self.git.objects))
        ):
            self._marked.setdefault(identity, Tracked(copy(new), copy(new)))
        return [key_of(app) for app in self.applications.values() if _automated(app)]

    # -- one comparison ------------------------------------------------------------------------------------
    def reconcile(self, key: Key) -> None:
        """Compare an Application with Git, and heal what differs."""
        app = self.applications.get(key[1], key[0])
        if app is not None and "deletionTimestamp" in app["metadata"] and is_here(app):
            self._take_away(app)
            return
        if app is None or not _automated(app):
            self._due.pop(key, None)
            return
        self._doubt_sources(app)
        found = [left for one in self._held_by(app) if (left := self._differs(app, one)) is not None]
        if not found:
            self._due.pop(key, None)
            return
        due = self._due.setdefault(key, self.loop.monotonic() + SELF_HEAL_S)
        if self.loop.monotonic() < due:  # whatever else changes meanwhile
            self.queue.add(key, due - self.loop.monotonic())
            return
        del self._due[key]
        self.events.emit(app, "Normal", "OperationStarted", "Initiated automated sync to '' (self-heal)")
        for left in found:
            self._doubt(app, left)
            self._doubt_windows(app, left)
            gitops.restore(self.kube, left, self._spaces(app))

    def _take_away(self, app: Obj) -> None:
        """Delete what an Application holds, as its finalizer asks; what nothing says whose it is proves nothing."""
        left = [one for one in items(dig(app, "metadata", "finalizers")) if not one.startswith(FINALIZER)]
        if len(left) == len(items(dig(app, "metadata", "finalizers"))):
            return
        held = list(self._held_by(app))
        marked = [one for one in held if gitops.marked(self._labelled(one), [name_of(app)])]
        for one in marked or held:
            if not marked:
                said = (
                    f"whether Application {name_of(app)} takes {ref_of(one.stored)} along as it is deleted is not known"
                )
                self.unproven.append(Doubt(ref_of(one.stored), f"{said}: nothing says whose it is"))
            gitops.remove(self.kube, one)
        self.kube.patch(r.APPLICATIONS, name_of(app), {"metadata": {"finalizers": left}}, namespace_of(app))

    def _spaces(self, app: Obj) -> dict[str, Obj]:
        """The namespaces that a sync makes: those in Git, and by ``CreateNamespace=true`` its own."""
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _place(app)}}
        said = "CreateNamespace=true" in map(str, items(dig(app, "spec", "syncPolicy", "syncOptions")))
        return ({_place(app): made} if said and _place(app) else {}) | self.git.spaces()

    def _held_by(self, app: Obj) -> Iterator[Tracked]:
        names = [name_of(one) for one in self.applications.values()]
        listed = {
            (row.get("kind"), row.get("namespace") or "", row.get("name"))
            for row in dig(app, "status", "resources", default=None) or ()
        }
        loaded = (one for one in self.git.workloads() if one.key not in self._marked)
        for one in (*loaded, *self._marked.values()):
            mark = gitops.marked(self._labelled(one), names)
            if mark == f"argo/{name_of(app)}" or one.key in listed or (not mark and self._deploys(app, one.key)):
                yield one
        yield from (one for one in self.git.sources(app) if gitops.marked(one.stored, names) == f"argo/{name_of(app)}")

    def _doubt_sources(self, app: Obj) -> None:
        """What is not what Git says, where this Application may deploy it and nothing says so."""
        place = _place(app)
        others = [one for one in self.git.sources(app) if one.key[0] == "Application" and one.key[1] == place]
        for one in (*others, *self._nobodys(app)):
            if not gitops.marked(one.stored, [name_of(app)]):
                found = gitops.drift(self.kube, one)
                said = f"whether Application {name_of(app)} puts {found} back is not known: nothing says whose it is"
                doubt = Doubt(ref_of(one.stored), said)
                if found is not None and doubt not in self.unproven:
                    self.unproven.append(doubt)

    def _nobodys(self, app: Obj) -> Iterator[Tracked]:
        """Workloads where no Application deploys to, which may lie in the folder of one that deploys elsewhere."""
        places = {_place(one) for one in self.applications.values()}
        if _place(app) and "" not in places:
            for one in self.git.workloads():
                if one.key[1] not in places and self.git.lies_in(one.key, _folders(app)) is None:
                    yield one

    def _labelled(self, one: Tracked) -> Obj:
        """The object with the marks that it has now: they may have come later."""
        kind, namespace, name = one.key
        live = next((i.get(name, namespace) for one_, i in self._followed.items() if one_.kind == kind), None)
        return live or one.stored

    def _deploys(self, app: Obj, key: tuple[str, str, str]) -> bool:
        """Whether what has no mark is this Application's: by its folder in Git, by its destination, or because it is
        nobody else's. A namespace that a manifest names goes before the destination."""
        own, namespace = _place(app), key[1]
        lies = self.git.lies_in(key, _folders(app)) if own != namespace else None
        if lies is not None:
            return lies
        places = {_place(one) for one in self.applications.values() if is_here(one)}
        mine = own == namespace or (not own and namespace not in places)
        if mine and namespace:
            said = (
                f"what the manifests have in namespace {namespace} is taken to be in Git of Application "
                f"{name_of(app)}: nothing says whose it is"
            )
            self.rests_on(said, f"namespace {namespace}")
        return mine

    # -- differences ---------------------------------------------------------------------------------------
    def _differs(self, app: Obj, one: Tracked) -> Drift | None:
        """What a sync would write of an object that is out of sync; None: it is in sync.

        What is ignored alone makes nothing out of sync, and a self-heal writes nothing that is in sync; of what is out
        of sync it writes all, but for what is ignored under RespectIgnoreDifferences.
        """
        found = gitops.drift(self.kube, one)
        if found is None:
            return None
        rules = list(_ignores(app, one))
        left = found.without(lambda path: any(self._ignored(rule, found.live or {}, path) for rule in rules))
        if left is None:
            self._only_until_synced(app, found)
            return None
        return left if respects(app) else found

    def _ignored(self, rule: Obj, live: Obj, path: gitops.Path) -> bool:
        """Whether a rule is about a field, or what the field is in."""
        pointers = map(gitops.path_of_pointer, rule.get("jsonPointers") or ())
        return (
            any(path[: len(one)] == one for one in pointers)
            or any(gitops.jq_reaches(str(one), path) is True for one in rule.get("jqPathExpressions") or ())
            or gitops.owned_by(self.kube, live, rule.get("managedFieldsManagers") or (), path)
        )

    def _only_until_synced(self, app: Obj, found: Drift) -> None:
        said = (
            f"Application {name_of(app)} ignores what differs in {found}, and its next sync for another reason (a "
            "commit, a person) writes it all the same (no RespectIgnoreDifferences=true): none was assumed that night"
        )
        if not respects(app):
            self.rests_on(said, ref_of(app))

    def _doubt(self, app: Obj, found: Drift) -> None:
        """A heal that a rule would have kept from happening, had it been understood, proves nothing."""
        unread = [
            expression
            for rule in _ignores(app, found.tracked)
            for expression in rule.get("jqPathExpressions") or ()
            if any(gitops.jq_reaches(str(expression), path) is None for path in found.paths)
        ]
        if found.live is not None and unread:
            said = (
                f"whether Application {name_of(app)} leaves {found} alone is not known: "
                f"ignoreDifferences by the jq expression {unread[0]} is not modelled"
            )
            self.unproven.append(Doubt(ref_of(found.live), said))

    def _doubt_windows(self, app: Obj, found: Drift) -> None:
        """A heal that a window of its project may prevent proves nothing (appcontroller.go: canSync)."""
        wanted = str(dig(app, "spec", "project", default="") or "default")
        for project in self.git.projects:
            windows = mappings(dig(project, "spec", "syncWindows"))
            if name_of(project) == wanted and any(_about(window, app) for window in windows):
                said = f"whether Application {name_of(app)} puts {found} back by then is not known: "
                said += f"the sync windows of AppProject {wanted} are not modelled"
                doubt = Doubt(str(found), said)
                if doubt not in self.unproven:
                    self.unproven.append(doubt)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._due: dict[Key, float] = {}

    @property
    def _followed(self) -> dict[r.Resource, Informer]:
        return {resource: self.informers.of(resource, optional=True) for resource in FOLLOWED}


def _place(app: Obj) -> str:
    """The namespace that an Application deploys to, where a manifest names none; empty: it says none."""
    return str(dig(app, "spec", "destination", "namespace", default=""))


def _folders(app: Obj) -> list[str]:
    """The folders of Git that an Application applies."""
    sources = [dig(app, "spec", "source"), *mappings(dig(app, "spec", "sources"))]
    return [str(one["path"]) for one in sources if isinstance(one, dict) and one.get("path")]


def _automated(app: Obj) -> bool:
    automated = dig(app, "spec", "syncPolicy", "automated")
    return (
        isinstance(automated, dict)
        and bool(automated.get("selfHeal"))
        and automated.get("enabled") is not False
        and is_here(app)
    )


def _about(window: Obj, app: Obj) -> bool:
    """Whether a sync window may be an Application's: by its name, its namespace or its cluster."""
    place = str(dig(app, "spec", "destination", "namespace", default=""))
    names = any(fnmatchcase(name_of(app), str(one)) for one in items(window.get("applications")))
    return names or any(fnmatchcase(place, str(one)) for one in items(window.get("namespaces"))) or "clusters" in window


def _ignores(app: Obj, one: Tracked) -> Iterator[Obj]:
    """The entries of ``ignoreDifferences`` that are about an object."""
    kind, namespace, name = one.key
    return about(app, one.group, kind, namespace, name)
