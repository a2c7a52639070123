"""The namespace controller: a namespace that is being deleted is emptied, then let go.

Source: pkg/controller/namespace of Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.embedded.controllers.garbage import GARBAGE_COLLECTED, custom_resource
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
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
        for resource in _NAMESPACED:
            self.follow(resource, self._home_of, optional=True)

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
        left = [resource for resource in (*_NAMESPACED, *self._custom()) if self._empty(resource, key[1])]
        if left:
            return  # what ends brings us back
        try:
            self.kube.call("DELETE", r.EVENTS.path(key[1]))
            finalizers = [name for name in found["spec"]["finalizers"] if name != _FINALIZER]
            fresh = self.kube.get(r.NAMESPACES, key[1])
            self.kube.replace(r.NAMESPACES, fresh | {"spec": {"finalizers": finalizers}}, subresource="finalize")
        except (NotFound, Conflict):
            return

    def _custom(self) -> list[Resource]:
        found = [custom_resource(crd) for crd in self.crds.values()]
        return [resource for resource in found if resource is not None and resource.namespaced]

    def _empty(self, resource: Resource, namespace: str) -> bool:
        """Delete all of a type; whether something is left."""
        try:
            if not self.kube.list(resource, namespace).items:
                return False
            self.kube.call("DELETE", resource.path(namespace), body={"propagationPolicy": "Background"})
            return bool(self.kube.list(resource, namespace).items)
        except NotFound:
            return False
