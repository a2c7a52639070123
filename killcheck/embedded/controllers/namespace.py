"""The namespace controller: a namespace that is being deleted is emptied, then let go.

Source: pkg/controller/namespace of Kubernetes v1.36.
"""

from __future__ import annotations

from collections import Counter

from killcheck.embedded.controllers.garbage import GARBAGE_COLLECTED, custom_resource
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, condition, dig, format_time, name_of, namespace_of
from killcheck.kube.resources import Resource

__all__ = ["NamespaceController"]

_FINALIZER = "kubernetes"
_NAMESPACED = tuple(resource for resource in GARBAGE_COLLECTED if resource.namespaced)


class NamespaceController(Controller):
    """Empties namespaces."""

    name = "namespace-controller"

    def setup(self) -> None:
        """Follow namespaces, and the end of what is in them."""
        self.namespaces = self.follow(r.NAMESPACES)
        self.crds = self.informers.of(r.CRDS, optional=True)
        self.follow(r.APISERVICES, self._ending, optional=True)
        self.apiservices = self.informers.of(r.APISERVICES, optional=True)
        self._followed: set[Resource] = set(_NAMESPACED)
        for resource in _NAMESPACED:
            self.follow(resource, self._home_of, optional=True)

    def _ending(self, _change: Change, _old: Obj | None, _new: Obj) -> list[Key]:
        return [
            ("", name_of(one)) for one in self.namespaces.objects.values() if "deletionTimestamp" in one["metadata"]
        ]

    def _home_of(self, change: Change, _old: Obj | None, new: Obj) -> list[Key]:
        home = self.namespaces.get(namespace_of(new)) if change == "deleted" else None
        return [("", name_of(home))] if home is not None and "deletionTimestamp" in home["metadata"] else []

    def reconcile(self, key: Key) -> None:
        """Delete all content; when none is left, the namespace may go."""
        found = self.namespaces.get(key[1])
        if found is None or "deletionTimestamp" not in found["metadata"]:
            return
        if _FINALIZER not in dig(found, "spec", "finalizers", default=[]):
            return
        left = {
            resource: kept for resource in (*_NAMESPACED, *self._custom()) if (kept := self._left(resource, key[1]))
        }
        stale = self._stale()
        if left or stale:
            self._follow_custom(left)
            self._say(key[1], left, stale)
            return  # what ends brings us back, and so does an APIService that comes back
        try:
            self.kube.call("DELETE", r.EVENTS.path(key[1]))
            finalizers = [name for name in found["spec"]["finalizers"] if name != _FINALIZER]
            fresh = self.kube.get(r.NAMESPACES, key[1])
            self.kube.replace(r.NAMESPACES, fresh | {"spec": {"finalizers": finalizers}}, subresource="finalize")
        except (NotFound, Conflict):
            return

    def _follow_custom(self, left: dict[Resource, list[Obj]]) -> None:
        """Custom resources that others' finalizers hold: their end has to bring us back too."""
        for resource in left:
            if resource not in self._followed:
                self._followed.add(resource)
                self.follow(resource, self._home_of, optional=True)

    def _stale(self) -> list[str]:
        """Groups and versions that nobody can be asked about: what they hold here cannot be known."""
        return sorted(
            f"{one['spec']['group']}/{one['spec']['version']}"
            for one in self.apiservices.values()
            if dig(condition(one, "Available"), "status") == "False"
        )

    def _say(self, name: str, left: dict[Resource, list[Obj]], stale: list[str]) -> None:
        """Why the namespace stays (deletion/status_condition_utils.go)."""
        said = _conditions(left, stale)
        try:
            fresh = self.kube.get(r.NAMESPACES, name)
            known = {one["type"]: one for one in dig(fresh, "status", "conditions", default=[])}
            now = format_time(self.loop.now())
            conditions = []
            for one in said:
                before = known.get(one["type"])
                same = before is not None and before["status"] == one["status"]
                conditions.append(
                    one | {"lastTransitionTime": before["lastTransitionTime"] if same and before else now}
                )
            if conditions != dig(fresh, "status", "conditions", default=[]):
                state = fresh["status"] | {"conditions": conditions}
                self.kube.replace(r.NAMESPACES, fresh | {"status": state}, subresource="status")
        except (NotFound, Conflict):
            return

    def _custom(self) -> list[Resource]:
        found = [custom_resource(crd) for crd in self.crds.values()]
        return [resource for resource in found if resource is not None and resource.namespaced]

    def _left(self, resource: Resource, namespace: str) -> list[Obj]:
        """Delete all of a type; what is left of it."""
        try:
            if not self.kube.list(resource, namespace).items:
                return []
            self.kube.call("DELETE", resource.path(namespace), body={"propagationPolicy": "Background"})
            return self.kube.list(resource, namespace).items
        except NotFound:
            return []


def _conditions(left: dict[Resource, list[Obj]], stale: list[str]) -> list[Obj]:
    """The five conditions of a namespace that is being deleted, in their order."""
    kept = {
        f"{resource.plural}.{resource.group} has {len(objects)} resource instances"
        for resource, objects in left.items()
    }
    counts = Counter(
        name for objects in left.values() for one in objects for name in one["metadata"].get("finalizers", ())
    )
    held = [f"{name} in {count} resource instances" for name, count in sorted(counts.items())]
    failing = (
        f"Discovery failed for some groups, {len(stale)} failing: unable to retrieve the complete list of server APIs: "
    )
    failing += ", ".join(f"{one}: stale GroupVersion discovery: {one}" for one in stale)
    told = (
        ("DeletionDiscoveryFailure", "DiscoveryFailed", failing if stale else "", "ResourcesDiscovered", _DISCOVERED),
        ("DeletionGroupVersionParsingFailure", "", "", "ParsedGroupVersions", _PARSED),
        ("DeletionContentFailure", "", "", "ContentDeleted", _DELETED),
        (
            "ContentRemaining",
            "SomeResourcesRemain",
            f"Some resources are remaining: {', '.join(sorted(kept))}" if kept else "",
            "ContentRemoved",
            "All content successfully removed",
        ),
        (
            "FinalizersRemaining",
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {', '.join(held)}" if held else "",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    )
    return [
        {"type": f"Namespace{kind}", "status": "True", "reason": reason, "message": message}
        if message
        else {"type": f"Namespace{kind}", "status": "False", "reason": well, "message": words}
        for kind, reason, message, well, words in told
    ]


_DISCOVERED = "All resources successfully discovered"
_PARSED = "All legacy kube types successfully parsed"
_DELETED = "All content successfully deleted, may be waiting on finalization"
