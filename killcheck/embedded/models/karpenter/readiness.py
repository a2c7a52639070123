"""NodePools' status: valid or not, NodeClass ready or not, what they hold. And EC2NodeClasses, which are always ready.

Source: sigs.k8s.io/karpenter pkg/controllers/nodepool/{readiness,validation,counter}, v1.14.
"""

from __future__ import annotations

from killcheck.embedded.models.karpenter import names as n
from killcheck.embedded.models.karpenter.conditions import put, rooted
from killcheck.embedded.models.karpenter.pool import PoolError, read_pool
from killcheck.embedded.models.karpenter.state import Part, State
from killcheck.instances.amounts import text
from killcheck.kube import resources as r
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, copy, dig, labels_of, name_of

__all__ = ["PoolStatus"]

#: What a real EC2NodeClass resolves in the account; here nothing can be missing.
_CLASS_CONDITIONS = ("AMIsReady", "InstanceProfileReady", "SecurityGroupsReady", "SubnetsReady", "ValidationSucceeded")


class PoolStatus(Part):
    """One NodePool, or (namespace ``class``) one EC2NodeClass, at a time."""

    def setup(self) -> None:
        """Follow pools, classes and claims."""
        self.follow(r.NODEPOOLS, optional=True)
        self.follow(r.EC2NODECLASSES, self._pools_of, optional=True)
        self.follow(r.NODECLAIMS, self._pool_of, optional=True)

    @property
    def _state(self) -> State:
        assert self.state is not None
        return self.state

    def _pools_of(self, change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        keys = [("", name_of(pool)) for pool in self.state.pools.values()]
        return keys if change == "deleted" else [*keys, ("class", name_of(new))]

    def _pool_of(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        pool = labels_of(new).get(n.NODEPOOL)
        counted = change != "modified" or dig(old, "status", "capacity") != dig(new, "status", "capacity")
        return [("", pool)] if pool and counted else []

    def reconcile(self, key: tuple[str, str]) -> None:
        """Bring one status up to date."""
        if key[0] == "class":
            self._class(key[1])
            return
        found = self.state.pools.get(key[1])
        if found is None:
            return
        pool = copy(found)
        before = copy(pool.get("status") or {})
        now = self.state.now
        try:
            read_pool(pool)
            put(pool, "ValidationSucceeded", "True", now)
        except PoolError as error:
            put(pool, "ValidationSucceeded", "False", now, reason="NodePoolValidationFailed", message=str(error))
        missing = self._class_missing(pool)
        if missing:
            put(
                pool,
                "NodeClassReady",
                "False",
                now,
                reason="NodeClassNotFound",
                message="NodeClass not found on cluster",
            )
        else:
            put(pool, "NodeClassReady", "True", now)
        rooted(pool, n.POOL_CONDITIONS, now)
        pool["status"]["resources"] = {
            name: text(name, value) for name, value in sorted(self.state.used(key[1]).items())
        }
        if pool["status"] != before:
            self.state.write_status(r.NODEPOOLS, pool)

    def _class_missing(self, pool: Obj) -> bool:
        """Whether its EC2NodeClass is not there. Manifests that bring no class at all are taken as they are."""
        ref = dig(pool, "spec", "template", "spec", "nodeClassRef", default={})
        classes = self.state.classes.values()
        return (
            bool(classes)
            and ref.get("kind") == "EC2NodeClass"
            and ref.get("name") not in {name_of(one) for one in classes}
        )

    def _class(self, name: str) -> None:
        found = self.state.classes.get(name)
        if found is None:
            return
        one = copy(found)
        before = copy(one.get("status") or {})
        for kind in _CLASS_CONDITIONS:
            put(one, kind, "True", self.state.now)
        rooted(one, _CLASS_CONDITIONS, self.state.now)
        if one["status"] != before:
            self.state.write_status(r.EC2NODECLASSES, one)
