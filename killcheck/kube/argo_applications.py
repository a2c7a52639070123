"""What an Argo CD Application says of differences that it leaves alone.

Sources: argo-cd util/argo/normalizers/diff_normalizer.go (group and kind of an entry are globs, name and namespace are
texts), controller/appcontroller.go (a self-heal starts where something is out of sync, and what is ignored is not),
docs/user-guide/sync-options.md (``RespectIgnoreDifferences``: a sync leaves it alone too).
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from killcheck.kube.objects import Obj, dig, items

__all__ = ["HERE", "about", "ignores_replicas", "is_here", "respects"]

#: What a destination calls the cluster that Argo CD itself runs in.
HERE = ("", "in-cluster", "https://kubernetes.default.svc", "https://kubernetes.default")


def is_here(app: Obj) -> bool:
    """Whether it deploys to the cluster that Argo CD runs in: of another name nobody here knows which cluster it is."""
    to = dig(app, "spec", "destination", default=None) or {}
    return str(to.get("server") or to.get("name") or "") in HERE


def respects(app: Obj) -> bool:
    """Whether a sync leaves alone what is ignored; else it writes all of what it syncs."""
    return "RespectIgnoreDifferences=true" in items(dig(app, "spec", "syncPolicy", "syncOptions"))


def about(app: Obj, group: str, kind: str, namespace: str, name: str) -> Iterator[Obj]:
    """The entries of ``ignoreDifferences`` that are about an object."""
    rules = dig(app, "spec", "ignoreDifferences", default=None)
    for entry in rules if isinstance(rules, list) else ():  # a real API server takes nothing else
        if (
            isinstance(entry, dict)
            and fnmatchcase(group, str(entry.get("group") or ""))
            and fnmatchcase(kind, str(entry.get("kind") or ""))
            and entry.get("name") in (None, "", name)
            and entry.get("namespace") in (None, "", namespace)
        ):
            yield entry


def ignores_replicas(app: Obj, group: str, kind: str, namespace: str, name: str) -> bool | None:
    """Whether ``spec.replicas`` of an object is among what is ignored; None: it goes by what is not read here."""
    entries = list(about(app, group, kind, namespace, name))
    said = [str(one) for entry in entries for one in (*_texts(entry, "jsonPointers"), *_texts(entry, _JQ))]
    if any(one in ("/spec/replicas", "/spec", ".spec.replicas", ".spec") for one in said):
        return True
    unread = any("replicas" in one for one in said) or any(_texts(entry, "managedFieldsManagers") for entry in entries)
    return None if unread else False


_JQ = "jqPathExpressions"


def _texts(entry: Obj, key: str) -> list[object]:
    found = entry.get(key)
    return found if isinstance(found, list) else []
