"""A ``default`` ServiceAccount and the cluster's CA certificate in every namespace.

Source: pkg/controller/serviceaccount/serviceaccounts_controller.go and pkg/controller/certificates/rootcacertpublisher
of Kubernetes v1.36.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from killcheck.embedded.controllers.podcontrol import namespace_terminating
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Conflict
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, annotations_of, name_of, namespace_of

__all__ = ["RootCaPublisher", "ServiceAccountController"]

_CONFIGMAP = "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class _PerNamespace(Controller):
    """One object of a fixed name in every namespace that is not going away; keys are ("", namespace)."""

    def _home(self, wanted: str) -> None:
        self.wanted = wanted
        self.namespaces = self.follow(r.NAMESPACES)

    def _owner(self, _change: Change, _old: Obj | None, new: Obj) -> list[Key]:
        return [("", namespace_of(new))] if name_of(new) == self.wanted else []

    def alive(self, namespace: str) -> bool:
        """Whether the namespace is there to stay."""
        found = self.namespaces.get(namespace)
        return found is not None and "deletionTimestamp" not in found["metadata"]


class ServiceAccountController(_PerNamespace):
    """Sees to it that every namespace has a ServiceAccount named default."""

    name = "serviceaccount-controller"

    def setup(self) -> None:
        """Follow namespaces and ServiceAccounts."""
        self.accounts = self.informers.of(r.SERVICEACCOUNTS)
        self._home("default")
        self.follow(r.SERVICEACCOUNTS, self._owner)

    def reconcile(self, key: Key) -> None:
        """Make the account where it is missing."""
        namespace = key[1]
        if not self.alive(namespace) or self.accounts.get("default", namespace) is not None:
            return
        meta = {"name": "default", "namespace": namespace}
        _create(self, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})


@dataclass(eq=False, repr=False)
class RootCaPublisher(_PerNamespace):
    """Sees to it that every namespace has the ConfigMap kube-root-ca.crt, and that it holds ``ca_pem``."""

    takes: ClassVar[tuple[str, ...]] = ("ca_pem",)
    ca_pem: str = ""

    name = "root-ca-certificate-publisher-controller"

    def setup(self) -> None:
        """Follow namespaces and ConfigMaps."""
        self.maps = self.informers.of(r.CONFIGMAPS)
        self._home(_CONFIGMAP)
        self.follow(r.CONFIGMAPS, self._owner)

    def reconcile(self, key: Key) -> None:
        """Make the ConfigMap where it is missing, put it right where it was changed."""
        namespace = key[1]
        if not self.alive(namespace) or not self.ca_pem:
            return
        data = {"ca.crt": self.ca_pem}
        found = self.maps.get(_CONFIGMAP, namespace)
        annotations = {"kubernetes.io/description": _DESCRIPTION}
        if found is None:
            meta = {"name": _CONFIGMAP, "namespace": namespace, "annotations": annotations}
            _create(self, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
        elif found.get("data") != data or not annotations.items() <= annotations_of(found).items():
            meta = found["metadata"] | {"annotations": annotations_of(found) | annotations}
            self.kube.replace(r.CONFIGMAPS, found | {"metadata": meta, "data": data})


def _create(controller: Controller, obj: Obj) -> None:
    resource = r.SERVICEACCOUNTS if obj["kind"] == "ServiceAccount" else r.CONFIGMAPS
    try:
        controller.kube.create(resource, obj)
    except Conflict:
        return
    except ApiError as error:
        if not namespace_terminating(error):
            raise
