"""What Git says, and where a cluster has drifted from it: shared by the models of Argo CD and Flux.

Git is what the manifests were that the cluster was loaded with: a field that they leave out is nobody's. An object is
some source's by its mark, or, where it has none (nothing that lies in Git has one), by the namespace that a source
deploys to. What may *not* live here: when anybody looks, and what is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import ApiError, NotFound
from killcheck.kube.objects import Obj, annotations_of, copy, dig, labels_of, name_of, namespace_of
from killcheck.text import lazy_re

__all__ = ["Drift", "Git", "Tracked", "jq_reaches", "marked", "owned_by", "path_of_pointer", "remove", "restore"]

#: Labels and annotations that say whose an object is.
TRACKING_ID = "argocd.argoproj.io/tracking-id"
INSTANCE = "app.kubernetes.io/instance"
KUSTOMIZATION = "kustomize.toolkit.fluxcd.io/name"
HELM_FLUX = "helm.toolkit.fluxcd.io/name"
RELEASE = "meta.helm.sh/release-name"

Path = tuple[str, ...]


class Tracked(Struct, frozen=True):
    """An object as it is in Git, and as the API server stored that when it was loaded."""

    wanted: Obj
    stored: Obj

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace, name."""
        return str(self.wanted["kind"]), namespace_of(self.stored), name_of(self.stored)

    @property
    def group(self) -> str:
        """Its API group; empty for the core one."""
        return str(self.wanted.get("apiVersion", "")).rpartition("/")[0]


class Git(Struct):
    """Everything that the cluster was loaded with, in order."""

    objects: list[Tracked] = field(default_factory=list)
    #: AppProjects of Argo CD: no API server here has them.
    projects: list[Obj] = field(default_factory=list)
    #: The file of each manifest, by kind, namespace and name, where it was read from one.
    files: Mapping[tuple[str, str, str], str] = field(default_factory=dict)

    def add(self, wanted: Obj, stored: Obj) -> None:
        """Remember a manifest and what became of it."""
        self.objects.append(Tracked(copy(wanted), copy(stored)))

    def lies_in(self, key: tuple[str, str, str], folders: Iterable[str]) -> bool | None:
        """Whether a manifest lies in one of these folders of its repository; None: none of them is among the files."""
        within = [f"/{folder.strip('./')}/" for folder in folders if folder.strip("./")]
        if not any(folder in f"/{file}" for file in self.files.values() for folder in within):
            return None
        return any(folder in f"/{self.files.get(key, '')}" for folder in within)

    def workloads(self) -> Iterator[Tracked]:
        """All but what only describes the cluster itself, and the sources."""
        for one in self.objects:
            if one.wanted["kind"] not in _NOT_DEPLOYED | _SOURCES:
                yield one

    def spaces(self) -> dict[str, Obj]:
        """The namespaces that manifests describe, by name: what applies what lies in one applies it, too."""
        return {name_of(one.wanted): one.wanted for one in self.objects if one.wanted["kind"] == "Namespace"}

    def sources(self, but: Obj) -> Iterator[Tracked]:
        """The sources that may be another source's own: all ``but`` one."""
        for one in self.objects:
            if one.wanted["kind"] in _SOURCES and one.key != (but.get("kind"), namespace_of(but), name_of(but)):
                yield one


#: What follows Git, and may lie in it itself.
_SOURCES = frozenset({"Application", "Kustomization", "HelmRelease"})
_NOT_DEPLOYED = frozenset(
    {
        "Node",
        "Namespace",
        "CustomResourceDefinition",
        "GitRepository",
        "HelmRepository",
        "OCIRepository",
        "Event",
        "ResourceSlice",
        "Pod",
    }
)


class Drift(Struct, frozen=True):
    """How a live object differs from Git: it is gone (``live`` None), or in these leaves."""

    tracked: Tracked
    live: Obj | None
    paths: tuple[Path, ...] = ()

    def but(self, ignored: Iterable[Path]) -> Drift | None:
        """The same without what is ignored; None: nothing is left."""
        skip = list(ignored)
        return self.without(lambda path: any(path[: len(one)] == one for one in skip))

    def without(self, ignored: Callable[[Path], bool]) -> Drift | None:
        """The same without the leaves that are ignored; None: nothing is left."""
        if self.live is None:
            return self
        left = tuple(path for path in self.paths if not ignored(path))
        return Drift(self.tracked, self.live, left) if left else None

    def __str__(self) -> str:
        kind, namespace, name = self.tracked.key
        return f"{kind}/{namespace}/{name}" if namespace else f"{kind}/{name}"


def drift(kube: Kube, tracked: Tracked) -> Drift | None:
    """Where an object is not what Git says; None: nowhere, or it cannot be read."""
    try:
        resource = kube.resource_for(str(tracked.wanted["apiVersion"]), str(tracked.wanted["kind"]))
        live = kube.get(resource, name_of(tracked.stored), namespace_of(tracked.stored) or None)
    except NotFound:
        return Drift(tracked, None)
    except ApiError:
        return None
    if "deletionTimestamp" in live["metadata"]:
        return None
    parts = {key: value for key, value in tracked.wanted.items() if key not in _OWN}
    paths = tuple(_leaves(parts, tracked.stored, live, ()))
    return Drift(tracked, live, paths) if paths else None


_OWN = frozenset({"apiVersion", "kind", "metadata", "status"})


def _leaves(wanted: Mapping[str, Any], stored: Any, live: Any, path: Path) -> Iterator[Path]:
    """Leaves of what Git says that are no longer as the API server stored them."""
    for key, value in wanted.items():
        was = stored.get(key) if isinstance(stored, dict) else None
        now = live.get(key) if isinstance(live, dict) else None
        if isinstance(value, dict) and value:
            yield from _leaves(value, was, now, (*path, key))
        elif was != now:
            yield (*path, key)


def restore(kube: Kube, found: Drift, spaces: Mapping[str, Obj] = MappingProxyType({})) -> None:
    """Put back what Git says; ``spaces``: the namespaces that are made again with it, by name. Raises ApiError."""
    tracked = found.tracked
    resource = kube.resource_for(str(tracked.wanted["apiVersion"]), str(tracked.wanted["kind"]))
    namespace = namespace_of(tracked.stored) or None
    if found.live is None:
        if namespace in spaces and kube.find(r.NAMESPACES, namespace or "") is None:
            kube.create(r.NAMESPACES, copy(spaces[namespace or ""]))
        kube.create(resource, copy(tracked.wanted), namespace)
        return
    body: Obj = {}
    for path in found.paths:
        at = body
        for key in path[:-1]:
            at = at.setdefault(key, {})
        at[path[-1]] = copy_of(dig(tracked.stored, *path))
    kube.patch(resource, name_of(tracked.stored), body, namespace)


def remove(kube: Kube, tracked: Tracked) -> None:
    """Delete an object that a source had applied, where it is there still. Raises ApiError."""
    with suppress(NotFound):
        resource = kube.resource_for(str(tracked.wanted["apiVersion"]), str(tracked.wanted["kind"]))
        kube.delete(resource, name_of(tracked.stored), namespace_of(tracked.stored) or None)


def copy_of(value: Any) -> Any:
    """A value that may be changed."""
    return copy(value) if isinstance(value, dict) else value


def marked(obj: Obj, names: Iterable[str]) -> str | None:
    """Whose an object is by its own marks, as ``TOOL/NAME``; None: it has none that means anything here."""
    notes, labels = annotations_of(obj), labels_of(obj)
    if TRACKING_ID in notes:
        return f"argo/{notes[TRACKING_ID].partition(':')[0].rpartition('_')[2]}"
    if KUSTOMIZATION in labels:
        return f"kustomize/{labels[KUSTOMIZATION]}"
    if HELM_FLUX in labels:
        return f"helm/{labels[HELM_FLUX]}"
    if RELEASE in notes:
        return f"helm/{notes[RELEASE]}"
    return f"argo/{labels[INSTANCE]}" if labels.get(INSTANCE) in set(names) else None


def path_of_pointer(pointer: str) -> Path:
    """A JSON pointer (RFC 6901) as keys."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.strip("/").split("/"))


#: A step of a jq path: ``.key``, ``."key"``, ``["key"]``, or one into a list (``[]``, ``[0]``), with or without ``?``.
_STEP = lazy_re.compile(r"""\s*(?:\.?\["([^"]+)"\]|\."([^"]+)"|\.([A-Za-z_]\w*)|\.?(\[(?:-?\d+)?\]))\??\s*""")
#: What only chooses among the items of a list.
_CHOICE = lazy_re.compile(r"\s*select\(.*\)\s*", re.DOTALL)


def jq_reaches(expression: str, path: Path) -> bool | None:
    """Whether a jq path expression is about a field, or what the field is in; None: it is more than can be read."""
    keys, whole = _jq_steps(expression)
    plain = keys[: keys.index("")] if "" in keys else keys  # a list is one field here, whichever items are meant
    if not plain or "," in expression:
        return None
    if whole and "" not in keys:
        return path[: len(plain)] == plain
    return None if path[: len(plain)] == plain else False


def _jq_steps(expression: str) -> tuple[Path, bool]:
    """The keys of a jq path as far as they can be read, those of a list's items empty; whether that is all of it."""
    found: list[str] = []
    parts = [part for part in re.split(r"\|(?![^(]*\))", expression) if not _CHOICE.fullmatch(part)]
    for part in parts:
        at = 0
        while at < len(part):
            step = _STEP.match(part, at)
            if step is None:
                return tuple(found), False
            found.append(step[1] or step[2] or step[3] or "")
            at = step.end()
    return tuple(found), True


def owned_by(kube: Kube, live: Obj, managers: Iterable[str], path: Path) -> bool:
    """Whether one of these field managers wrote a field of an object, by its ``managedFields``."""
    wanted = set(managers)
    if not wanted:
        return False
    resource = kube.resource_for(str(live["apiVersion"]), str(live["kind"]))
    where = resource.path(namespace_of(live) or None, name_of(live))
    live = kube.call("GET", where, query={"managedFields": "true"}).body
    return any(
        entry.get("manager") in wanted and _owns(entry.get("fieldsV1"), path)
        for entry in dig(live, "metadata", "managedFields", default=[])
    )


def _owns(fields: Any, path: Path) -> bool:
    for key in path:
        if not isinstance(fields, dict) or f"f:{key}" not in fields:
            return False
        fields = fields[f"f:{key}"]
    return True
