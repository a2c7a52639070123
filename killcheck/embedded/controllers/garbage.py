"""The garbage collector: what nobody owns any more is deleted, in the background, in the foreground, or orphaned.

Source: pkg/controller/garbagecollector of Kubernetes v1.36; recordings 30b-*. It works from a graph of owners by
uid that is kept by watching every type that owns or is owned, custom resources included.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal, cast

from msgspec import Struct

from killcheck.embedded.controllers.runtime import Controller
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, KubeError, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, key_of, name_of, namespace_of, owners, uid_of
from killcheck.kube.resources import Resource

__all__ = ["GARBAGE_COLLECTED", "GarbageCollector", "custom_resource"]

#: How often it asks which types there are, seconds: until then it does nothing for objects of a new one.
DISCOVERY_S = 30.0
ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"

CONTROLLERREVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")

#: The built-in types that own or are owned, here.
GARBAGE_COLLECTED = (
    r.PODS,
    r.REPLICASETS,
    r.DEPLOYMENTS,
    r.STATEFULSETS,
    r.DAEMONSETS,
    CONTROLLERREVISIONS,
    r.JOBS,
    r.CRONJOBS,
    r.SERVICES,
    r.ENDPOINTS,
    r.ENDPOINTSLICES,
    r.CONFIGMAPS,
    r.SECRETS,
    r.SERVICEACCOUNTS,
    r.PERSISTENTVOLUMECLAIMS,
    r.PERSISTENTVOLUMES,
    r.NODES,
    r.LEASES,
    r.PDBS,
    r.HPAS,
    r.ROLES,
    r.ROLEBINDINGS,
    r.CLUSTERROLES,
    r.CLUSTERROLEBINDINGS,
    r.RESOURCECLAIMS,
    r.RESOURCECLAIMTEMPLATES,
    r.RESOURCESLICES,
    r.NETWORKPOLICIES,
    r.REPLICATIONCONTROLLERS,
    r.RESOURCEQUOTAS,
    r.LIMITRANGES,
)


def custom_resource(crd: Obj) -> Resource | None:
    """The resource that a CustomResourceDefinition serves, in the version that is stored."""
    spec = crd["spec"]
    version = next((v["name"] for v in spec.get("versions", ()) if v.get("storage") and v.get("served", True)), None)
    if version is None:
        return None
    names = spec["names"]
    return Resource(spec["group"], version, names["plural"], names["kind"], spec.get("scope") == "Namespaced")


class _Node(Struct):
    """An object as the graph knows it."""

    resource: Resource
    obj: Obj

    @property
    def deleting(self) -> bool:
        """Whether it has been deleted, and waits for something."""
        return "deletionTimestamp" in self.obj["metadata"]

    @property
    def waits_for_dependents(self) -> bool:
        """Whether it is being deleted in the foreground."""
        return self.deleting and FOREGROUND in (self.obj["metadata"].get("finalizers") or ())


class GarbageCollector(Controller):
    """Deletes dependents whose owners have gone."""

    name = "garbage-collector-controller"

    def setup(self) -> None:
        """Build the graph from everything there is, and keep it."""
        self.nodes: dict[str, _Node] = {}
        self.dependents: dict[str, dict[str, None]] = {}
        self._custom: dict[str, Resource] = {}
        self._watched: set[Resource] = set()
        self._began = self.loop.monotonic()
        self._stopped = False
        for resource in GARBAGE_COLLECTED:
            self._watch(resource)
        self.listen(r.CRDS, self._crd_changed, optional=True)

    def _watch(self, resource: Resource) -> None:
        self.listen(resource, lambda change, old, new: self._changed(resource, change, old, new), optional=True)

    def _crd_changed(self, change: Change, _old: Obj | None, new: Obj) -> None:
        resource = custom_resource(new)
        known = self._custom.get(name_of(new))
        if change == "deleted":
            resource = None
        if known is not None and (known != resource or self._lost(known)):
            self.informers.drop(known)
            self._watched.discard(known)
            del self._custom[name_of(new)]
            known = None
        if resource is not None and known is None:
            self._custom[name_of(new)] = resource
            wait = self._discovers_in()
            if wait:
                self.loop.call_later(wait, self._discovered, name_of(new), resource)
            else:
                self._discovered(name_of(new), resource)

    def _lost(self, resource: Resource) -> bool:
        return resource in self._watched and self.informers.of(resource, optional=True).absent

    def _discovers_in(self) -> float:
        """Seconds until it asks again which types there are; those that came with the cluster it knows at once."""
        past = self.loop.monotonic() - self._began
        return DISCOVERY_S - past % DISCOVERY_S if past > DISCOVERY_S else 0.0

    def _discovered(self, crd: str, resource: Resource) -> None:
        if self._custom.get(crd) is resource and not self._stopped:
            self._watched.add(resource)
            self._watch(resource)

    def stop(self) -> None:
        """Stop working."""
        self._stopped = True
        super().stop()

    # -- the graph -----------------------------------------------------------------------------------------
    def _changed(self, resource: Resource, change: Change, old: Obj | None, new: Obj) -> None:
        uid = uid_of(new)
        if old is not None:
            for owner in owners(old):
                self._unlink(owner["uid"], uid)
        if change == "deleted":
            self._gone(uid, new)
            return
        node = self.nodes[uid] = _Node(resource, new)
        unknown = False
        for owner in owners(new):
            self.dependents.setdefault(owner["uid"], {})[uid] = None
            above = self.nodes.get(owner["uid"])
            unknown = unknown or above is None or above.waits_for_dependents or not _may_own(above, new)
        released = old is not None and list(owners(old)) != list(owners(new))
        if node.deleting:
            self._begin_deletion(uid, node)
        elif unknown or released:
            self.queue.add(("delete", uid))
        if old is not None and (released or node.deleting):
            self._wake_owners(old)

    def _unlink(self, owner: str, uid: str) -> None:
        below = self.dependents.get(owner)
        if below is not None:
            below.pop(uid, None)
            if not below:
                del self.dependents[owner]

    def _gone(self, uid: str, obj: Obj) -> None:
        self.nodes.pop(uid, None)
        for dependent in self.dependents.get(uid, ()):
            self.queue.add(("delete", dependent))
        self._wake_owners(obj)

    def _wake_owners(self, obj: Obj) -> None:
        """An owner that waits for its dependents looks again."""
        for owner in owners(obj):
            above = self.nodes.get(owner["uid"])
            if above is not None and above.waits_for_dependents:
                self.queue.add(("delete", owner["uid"]))

    def _begin_deletion(self, uid: str, node: _Node) -> None:
        finalizers = node.obj["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            self.queue.add(("orphan", uid))
        if FOREGROUND in finalizers:
            # In this order (processTransitions): a dependent that blocks nothing goes while its owner still waits.
            for dependent in self.dependents.get(uid, ()):
                self.queue.add(("delete", dependent))
            self.queue.add(("delete", uid))

    # -- the work ------------------------------------------------------------------------------------------
    def reconcile(self, key: Hashable) -> None:
        """``("delete", uid)`` or ``("orphan", uid)``: one attempt."""
        task, uid = cast(tuple[Literal["delete", "orphan"], str], key)
        node = self.nodes.get(uid)
        if node is None:
            return
        if task == "orphan":
            self._orphan_dependents(uid, node)
        else:
            self._attempt(uid, node)

    def _attempt(self, uid: str, node: _Node) -> None:
        if node.waits_for_dependents:
            self._finish_foreground(uid, node)
            return
        refs = list(owners(node.obj))
        if node.deleting or not refs:
            return
        solid, dangling, waiting = [], [], []
        for ref in refs:
            owner = self._owner(node, ref)
            if owner is None:
                dangling.append(ref)
            elif "deletionTimestamp" in owner["metadata"] and FOREGROUND in (owner["metadata"].get("finalizers") or ()):
                waiting.append(ref)
            else:
                solid.append(ref)
        if solid:
            self._drop_refs(node, dangling + waiting)
        elif waiting and self.dependents.get(uid):
            self._unblock(uid, node)
            self._delete(node, "Foreground")
        elif waiting or dangling:
            finalizers = node.obj["metadata"].get("finalizers") or ()
            foreground: Literal["Background", "Foreground"] = "Foreground" if FOREGROUND in finalizers else "Background"
            self._delete(node, "Orphan" if ORPHAN in finalizers else foreground)

    def _owner(self, node: _Node, ref: Obj) -> Obj | None:
        """The owner as it is now; None where there is none of that uid (in this namespace)."""
        above = self.nodes.get(ref["uid"])
        if above is not None and not _may_own(above, node.obj):
            text = (
                f"ownerRef [{ref['apiVersion']}/{ref['kind']}, namespace: {namespace_of(node.obj)}, name: "
                f'{ref["name"]}, uid: {ref["uid"]}] does not exist in namespace "{namespace_of(node.obj)}"'
            )
            self.events.emit(node.obj, "Warning", "OwnerRefInvalidNamespace", text)
            return None
        try:
            resource = self.kube.resource_for(ref["apiVersion"], ref["kind"])
        except NotFound:
            return ref | {"metadata": {}}  # a type that is not served: nothing can be concluded
        if resource.namespaced and not namespace_of(node.obj):
            return ref | {"metadata": {}}
        found = self.kube.find(resource, ref["name"], namespace_of(node.obj) if resource.namespaced else None)
        return found if found is not None and uid_of(found) == ref["uid"] else None

    def _delete(self, node: _Node, policy: Literal["Background", "Foreground", "Orphan"]) -> None:
        namespace, name = key_of(node.obj)
        try:
            self.kube.delete(node.resource, name, namespace, uid=uid_of(node.obj), propagation=policy)
        except NotFound:
            return
        except Conflict:
            return  # another object of that name

    def _finish_foreground(self, uid: str, node: _Node) -> None:
        """Let an owner go once nothing is left that blocks it."""
        below = [self.nodes[dependent] for dependent in self.dependents.get(uid, ()) if dependent in self.nodes]
        blocking = [dependent for dependent in below if _blocks(dependent.obj, uid)]
        if not blocking:
            self._remove_finalizer(node, FOREGROUND)
            return
        for dependent in blocking:
            if not dependent.deleting:
                self.queue.add(("delete", uid_of(dependent.obj)))

    def _orphan_dependents(self, uid: str, node: _Node) -> None:
        for dependent in list(self.dependents.get(uid, ())):
            below = self.nodes.get(dependent)
            if below is not None:
                self._drop_refs(below, [ref for ref in owners(below.obj) if ref["uid"] == uid])
        self._remove_finalizer(node, ORPHAN)

    # -- patches -------------------------------------------------------------------------------------------
    def _drop_refs(self, node: _Node, refs: list[Obj]) -> None:
        gone = {ref["uid"] for ref in refs}
        if gone:
            self._set_owners(node, [ref for ref in owners(node.obj) if ref["uid"] not in gone])

    def _unblock(self, uid: str, node: _Node) -> None:
        """Break a circle: an object whose dependents wait as well no longer blocks its owner."""
        below = (self.nodes.get(dependent) for dependent in self.dependents.get(uid, ()))
        if any(dependent is not None and dependent.waits_for_dependents for dependent in below):
            self._set_owners(node, [ref | {"blockOwnerDeletion": False} for ref in owners(node.obj)])

    def _set_owners(self, node: _Node, refs: list[Obj]) -> None:
        meta = {"uid": uid_of(node.obj), "ownerReferences": refs or None}
        self._patch(node, {"metadata": meta})

    def _remove_finalizer(self, node: _Node, finalizer: str) -> None:
        fresh = self.kube.find(node.resource, name_of(node.obj), namespace_of(node.obj) or None)
        if fresh is None or uid_of(fresh) != uid_of(node.obj):
            return
        finalizers = dig(fresh, "metadata", "finalizers", default=[])
        if finalizer in finalizers:
            left = [name for name in finalizers if name != finalizer]
            version = fresh["metadata"]["resourceVersion"]
            self._patch(node, {"metadata": {"resourceVersion": version, "finalizers": left or None}})

    def _patch(self, node: _Node, patch: Obj) -> None:
        namespace, name = key_of(node.obj)
        try:
            self.kube.patch(node.resource, name, patch, namespace or None)
        except NotFound:
            return

    def _work(self, key: Hashable) -> None:
        try:
            self.reconcile(key)
        except KubeError:
            self.queue.retry(key)
        else:
            self.queue.forget(key)


def _may_own(owner: _Node, obj: Obj) -> bool:
    """An owner is in the same namespace, or in none."""
    namespace = namespace_of(owner.obj)
    return not namespace or namespace == namespace_of(obj)


def _blocks(obj: Obj, owner: str) -> bool:
    return any(ref["uid"] == owner and ref.get("blockOwnerDeletion") for ref in owners(obj))
