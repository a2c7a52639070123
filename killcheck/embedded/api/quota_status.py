"""``status`` of ResourceQuotas: what is limited, and what of it is used now.

In Kubernetes admission and the resourcequota controller write it together. Here admission counts live, and this
follows a moment later; where no namespace has a quota, it does nothing.
"""

from __future__ import annotations

from killcheck.clock import Loop
from killcheck.embedded.api.admission.resourcequota import CLAIMS, PODS, QUOTAS, SERVICES, usage
from killcheck.embedded.api.pod_resources import quantity
from killcheck.embedded.api.store import Change, Store
from killcheck.kube.objects import dig

__all__ = ["QuotaStatus"]

#: What a change of can change what is used.
TABLES = (
    QUOTAS,
    PODS,
    CLAIMS,
    SERVICES,
    ("", "configmaps"),
    ("", "secrets"),
    ("", "replicationcontrollers"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
)


class QuotaStatus:
    """Keeps the status of every quota true, from its construction until :meth:`stop`."""

    def __init__(self, store: Store, loop: Loop) -> None:
        self.store = store
        self.loop = loop
        self._limited: set[str] = set()
        self._due: set[str] = set()
        self._stop = [store.listen(table, self._changed) for table in TABLES]

    def stop(self) -> None:
        """Leave quotas alone from now on."""
        for stop in self._stop:
            stop()

    def _changed(self, change: Change) -> None:
        namespace = change.key[0]
        if change.table == QUOTAS:
            self._limited.add(namespace)
            if dig(change.old or {}, "spec") == dig(change.new or {}, "spec"):
                return  # who writes the status is heard, until what is used changes (resource_quota_controller.go)
        if namespace in self._limited and namespace not in self._due:
            self._due.add(namespace)
            self.loop.call_soon(self._settle, namespace)

    def _settle(self, namespace: str) -> None:
        self._due.discard(namespace)
        quotas = list(self.store.items(QUOTAS, namespace))
        if not quotas:
            self._limited.discard(namespace)
        for key, quota in quotas:
            hard = {name: str(quantity(value)) for name, value in dig(quota, "spec", "hard", default={}).items()}
            status = {"hard": hard, "used": usage(self.store, quota, self.loop.now())}
            if quota.get("status") != status:
                self.store.put(QUOTAS, key, quota | {"metadata": dict(quota["metadata"]), "status": status})
