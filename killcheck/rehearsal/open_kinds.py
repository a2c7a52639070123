"""Custom resources whose definitions are not among the manifests: served all the same, with any field.

Calls are then answered as for any custom resource: 403 without a right, 404 for another name, 409, 415 for a strategic
merge patch. What their schemas would refuse or drop is not known here, and nothing acts on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from killcheck.embedded import builtin, crds
from killcheck.kube.objects import Obj, dig, namespace_of
from killcheck.kube.plurals import plural_of

__all__ = ["open_definitions"]

#: So many kinds at most are served in this way.
KINDS = 40
_DEFINITION = "CustomResourceDefinition"


def open_definitions(objects: Sequence[Obj]) -> list[Obj]:
    """A definition for each kind of custom resource among ``objects`` that neither they nor the cluster define."""
    defined = {(kind.resource.group, kind.resource.kind) for kind in builtin()} | set(_defined([*crds(), *objects]))
    found: dict[tuple[str, str], list[Obj]] = defaultdict(list)
    for obj in objects:
        group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
        key = group, str(obj.get("kind", ""))
        if "." in group and version and key not in defined and not group.endswith(".k8s.io"):
            found[key].append(obj)
    return [_definition(group, kind, of) for (group, kind), of in sorted(found.items())[:KINDS]]


def _defined(objects: Iterable[Obj]) -> Iterator[tuple[str, str]]:
    for obj in objects:
        if obj.get("kind") == _DEFINITION:
            yield str(dig(obj, "spec", "group", default="")), str(dig(obj, "spec", "names", "kind", default=""))


def _definition(group: str, kind: str, objects: Sequence[Obj]) -> Obj:
    plural = plural_of(kind)
    versions = sorted({str(obj["apiVersion"]).rpartition("/")[2] for obj in objects})
    scaled = all(isinstance(dig(obj, "spec", "replicas"), int) for obj in objects)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": _DEFINITION,
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if any(namespace_of(obj) for obj in objects) else "Cluster",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [_version(name, name == versions[0], scaled) for name in versions],
        },
    }


def _version(name: str, stored: bool, scaled: bool) -> Obj:
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    return {
        "name": name,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}, **({"scale": scale} if scaled else {})},
    }
