"""Endpoints and EndpointSlices: the addresses behind a Service.

Source: pkg/controller/{endpoint,endpointslice} of Kubernetes v1.36, reduced to one slice a Service, IPv4.
"""

from __future__ import annotations

from killcheck.embedded.controllers.podcontrol import controller_ref, namespace_terminating
from killcheck.embedded.controllers.pods import is_ready, is_terminal, node_of
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Conflict, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, key_of, labels_of, name_of, namespace_of, uid_of
from killcheck.kube.resources import Resource

__all__ = ["EndpointSliceController", "EndpointsController"]

_SERVICE = "kubernetes.io/service-name"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


class _Behind(Controller):
    """What both have in common: Services with a selector, and the pods that it selects."""

    def _follow_services(self) -> None:
        self.in_namespace = self.informers.index(r.PODS, "namespace", lambda pod: [namespace_of(pod)])
        self.services = self.follow(r.SERVICES)
        self.follow(r.PODS, self._services_of)

    def _services_of(self, _change: Change, old: Obj | None, new: Obj) -> list[Key]:
        if old is not None and _seen(old) == _seen(new) and _change == "modified":
            return []
        return [
            key_of(service)
            for service in self.services.values()
            if namespace_of(service) == namespace_of(new)
            and any(obj is not None and _selected(service, obj) for obj in (old, new))
        ]

    def pods_of(self, service: Obj) -> list[Obj]:
        """The pods with an address, in the order of their names."""
        found = [
            pod
            for pod in self.in_namespace.get(namespace_of(service))
            if _selected(service, pod) and dig(pod, "status", "podIP") and not is_terminal(pod)
        ]
        return sorted(found, key=name_of)

    def _create(self, resource: Resource, obj: Obj) -> None:
        try:
            self.kube.create(resource, obj)
        except Conflict:
            return
        except ApiError as error:
            if not namespace_terminating(error):
                raise


class EndpointsController(_Behind):
    """The legacy Endpoints object of every Service that selects pods."""

    name = "endpoints-controller"
    component = "endpoint-controller"

    def setup(self) -> None:
        """Follow Services and pods."""
        self.endpoints = self.informers.of(r.ENDPOINTS)
        self._follow_services()

    def reconcile(self, key: Key) -> None:
        """Write the addresses of one Service."""
        service = self.services.objects.get(key)
        current = self.endpoints.objects.get(key)
        if service is None:
            if current is not None:
                self._remove(key)
            return
        if not service["spec"].get("selector"):
            return
        subsets = self._subsets(service)
        if current is None:
            meta = {"name": key[1], "namespace": key[0], "labels": labels_of(service)}
            self._create(r.ENDPOINTS, {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets})
        elif (current.get("subsets") or []) != subsets:
            self.kube.replace(r.ENDPOINTS, current | {"subsets": subsets})

    def _remove(self, key: Key) -> None:
        try:
            self.kube.delete(r.ENDPOINTS, key[1], key[0])
        except NotFound:
            return

    def _subsets(self, service: Obj) -> list[Obj]:
        ready: list[Obj] = []
        waiting: list[Obj] = []
        for pod in self.pods_of(service):
            address = {
                "ip": dig(pod, "status", "podIP"),
                "nodeName": node_of(pod),
                "targetRef": {"kind": "Pod", "namespace": namespace_of(pod), "name": name_of(pod), "uid": uid_of(pod)},
            }
            (ready if _serves(service, pod) else waiting).append(address)
        if not ready and not waiting:
            return []
        subset: Obj = {"addresses": ready} if ready else {}
        subset |= {"notReadyAddresses": waiting} if waiting else {}
        ports = _ports(service)
        return [subset | ({"ports": ports} if ports else {})]


class EndpointSliceController(_Behind):
    """One EndpointSlice for every Service that selects pods."""

    name = "endpointslice-controller"
    component = "endpoint-slice-controller"

    def setup(self) -> None:
        """Follow Services and pods."""
        self.slices = self.informers.index(
            r.ENDPOINTSLICES, "service", lambda s: [f"{namespace_of(s)}/{labels_of(s).get(_SERVICE, '')}"]
        )
        self._follow_services()

    def reconcile(self, key: Key) -> None:
        """Write the addresses of one Service; its slice goes with it, by its owner reference."""
        service = self.services.objects.get(key)
        if service is None or not service["spec"].get("selector"):
            return
        endpoints = [self._endpoint(service, pod) for pod in self.pods_of(service)]
        of_service = self.slices.get(f"{key[0]}/{key[1]}")
        own = [found for found in of_service if labels_of(found).get(_MANAGED_BY, "").startswith("endpoint")]
        ports = _ports(service)
        if own:
            current = own[0]
            if (current.get("endpoints") or []) != endpoints or (current.get("ports") or []) != ports:
                self.kube.replace(r.ENDPOINTSLICES, current | {"endpoints": endpoints, "ports": ports})
            return
        labels = labels_of(service) | {_SERVICE: key[1], _MANAGED_BY: "endpointslice-controller.k8s.io"}
        self._create(
            r.ENDPOINTSLICES,
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "addressType": "IPv4",
                "metadata": {
                    "generateName": f"{key[1]}-",
                    "namespace": key[0],
                    "labels": labels,
                    "ownerReferences": [controller_ref(service, r.SERVICES)],
                },
                "endpoints": endpoints,
                "ports": ports,
            },
        )

    def _endpoint(self, service: Obj, pod: Obj) -> Obj:
        terminating = "deletionTimestamp" in pod["metadata"]
        serving = is_ready(pod)
        placed = {"nodeName": node_of(pod)} if node_of(pod) else {}
        return {
            "addresses": [dig(pod, "status", "podIP")],
            **placed,
            "conditions": {"ready": _serves(service, pod), "serving": serving, "terminating": terminating},
            "targetRef": {"kind": "Pod", "namespace": namespace_of(pod), "name": name_of(pod), "uid": uid_of(pod)},
        }


def _selected(service: Obj, pod: Obj) -> bool:
    selector = service["spec"].get("selector")
    return bool(selector) and selector.items() <= labels_of(pod).items()


def _serves(service: Obj, pod: Obj) -> bool:
    if service["spec"].get("publishNotReadyAddresses"):
        return True
    return is_ready(pod) and "deletionTimestamp" not in pod["metadata"]


def _ports(service: Obj) -> list[Obj]:
    ports = []
    for port in service["spec"].get("ports") or ():
        target = port.get("targetPort", port["port"])
        number = target if isinstance(target, int) else port["port"]
        named = {"name": port["name"]} if port.get("name") else {}
        ports.append({**named, "port": number, "protocol": port.get("protocol", "TCP")})
    return ports


def _seen(pod: Obj) -> tuple[object, ...]:
    return (
        labels_of(pod),
        dig(pod, "status", "podIP"),
        is_ready(pod),
        is_terminal(pod),
        node_of(pod),
        "deletionTimestamp" in pod["metadata"],
    )
