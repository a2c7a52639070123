"""EndpointSlices of Endpoints that somebody wrote, for Services that select nothing.

Source: pkg/controller/endpointslicemirroring of Kubernetes v1.36, for IPv4 and up to a thousand addresses a port.
"""

from __future__ import annotations

from typing import Any

from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, annotations_of, dig, key_of, labels_of, name_of, namespace_of
from killcheck.kube.owner_references import controller_ref

__all__ = ["SliceMirroring"]

_SERVICE, _MANAGED_BY = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
_MANAGER, _SKIP = "endpointslicemirroring-controller.k8s.io", "endpointslice.kubernetes.io/skip-mirror"
_LEADER = "control-plane.alpha.kubernetes.io/leader"
_OF_OTHERS = ("endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration")


class SliceMirroring(Controller):
    """Keys are those of Endpoints, which are their Service's."""

    name = "endpointslice-mirroring-controller"

    def setup(self) -> None:
        """Follow Endpoints and Services."""
        self.services = self.informers.of(r.SERVICES)
        self.slices = self.informers.index(r.ENDPOINTSLICES, "service", _of_service)
        self.endpoints = self.follow(r.ENDPOINTS)
        self.follow(r.SERVICES)

    def reconcile(self, key: Key) -> None:
        """Mirror one Service's Endpoints; without these its slices go, by their owner reference."""
        found, service = self.endpoints.objects.get(key), self.services.objects.get(key)
        there = [one for one in self.slices.get("/".join(key)) if labels_of(one).get(_MANAGED_BY) == _MANAGER]
        if found is None:
            return
        mirrored = service is not None and not service["spec"].get("selector") and _may_be(found)
        wanted = [_slice(found, subset) for subset in found.get("subsets") or ()] if mirrored else []
        for current in there:
            same = next((one for one in wanted if _told(one) == _told(current)), None)
            if same is None:
                self._drop(current)
            else:
                wanted.remove(same)
        for one in wanted:
            self.kube.create(r.ENDPOINTSLICES, one)

    def _drop(self, current: Obj) -> None:
        try:
            self.kube.delete(r.ENDPOINTSLICES, name_of(current), namespace_of(current))
        except NotFound:
            return


def _of_service(one: Obj) -> list[str]:
    name = labels_of(one).get(_SERVICE)
    return [f"{namespace_of(one)}/{name}"] if name else []


def _may_be(endpoints: Obj) -> bool:
    return labels_of(endpoints).get(_SKIP) != "true" and _LEADER not in annotations_of(endpoints)


def _told(one: Obj) -> tuple[Any, ...]:
    return labels_of(one), one.get("endpoints") or [], one.get("ports") or []


def _slice(endpoints: Obj, subset: Obj) -> Obj:
    namespace, name = key_of(endpoints)
    labels = labels_of(endpoints) | {_SERVICE: name, _MANAGED_BY: _MANAGER}
    notes = {key: value for key, value in annotations_of(endpoints).items() if key not in _OF_OTHERS}
    meta: Obj = {"generateName": f"{name}-", "namespace": namespace, "labels": labels}
    meta |= {"annotations": notes} if notes else {}
    meta["ownerReferences"] = [controller_ref(endpoints, r.ENDPOINTS)]
    ready = [(one, True) for one in subset.get("addresses") or ()]
    late = [(one, False) for one in subset.get("notReadyAddresses") or ()]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": meta,
        "addressType": "IPv4",
        "endpoints": [_endpoint(one, ready=on) for one, on in (*ready, *late)],
        "ports": [{"name": "", "protocol": "TCP", **port} for port in subset.get("ports") or ()],
    }


def _endpoint(address: Obj, *, ready: bool) -> Obj:
    kept = {key: address[key] for key in ("hostname", "nodeName", "targetRef") if address.get(key)}
    return {"addresses": [dig(address, "ip")], "conditions": {"ready": ready}} | kept
