"""Endpoints and EndpointSlices: the addresses behind a Service.

Sources: pkg/controller/{endpoint,endpointslice} and k8s.io/endpointslice/reconciler.go of Kubernetes v1.36, reduced to
one slice for each set of ports, IPv4.
"""

from __future__ import annotations

from killcheck.embedded.controllers.podcontrol import namespace_terminating
from killcheck.embedded.controllers.pods import is_ready, is_terminal, node_of
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Conflict, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, annotations_of, condition, dig, key_of, labels_of, name_of, namespace_of, uid_of
from killcheck.kube.owner_references import controller_ref
from killcheck.kube.resources import Resource

__all__ = ["EndpointSliceController", "EndpointsController"]

_SERVICE = "kubernetes.io/service-name"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_MANAGER = "endpointslice-controller.k8s.io"
_TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
_HEADLESS = "service.kubernetes.io/headless"


class _Triggers:
    """When that happened which a change of addresses is told to come from (trigger_time_tracker.go).

    That is the earliest of the times that are new: a Service's creation, or its pods' last change of ``Ready``.
    """

    def __init__(self) -> None:
        self._known: dict[Key, tuple[str, dict[str, str]]] = {}

    def of(self, service: Obj, pods: list[Obj]) -> str:
        """The time; empty: nothing is new."""
        made, known = self._known.get(key_of(service), ("", {}))
        ready = {name_of(pod): str(dig(condition(pod, "Ready"), "lastTransitionTime", default="")) for pod in pods}
        fresh = [time for name, time in ready.items() if time > known.get(name, "")]
        created = service["metadata"]["creationTimestamp"]
        self._known[key_of(service)] = created, {name: time for name, time in ready.items() if time}
        return min([*fresh, created] if created > made else fresh, default="")

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)


class _Behind(Controller):
    """What both have in common: Services with a selector, and the pods that it selects."""

    def _follow_services(self) -> None:
        self.triggers = _Triggers()
        self.in_namespace = self.informers.index(r.PODS, "namespace", lambda pod: [namespace_of(pod)])
        self.services = self.follow(r.SERVICES)
        self.pods = self.follow(r.PODS, self._services_of)

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
        """The pods that are selected, in the order of their names."""
        found = [pod for pod in self.in_namespace.get(namespace_of(service)) if _selected(service, pod)]
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
            self.triggers.forget(key)
            if current is not None:
                self._remove(key)
            return
        if not service["spec"].get("selector") or service["spec"].get("type") == "ExternalName":
            return
        pods = self.pods_of(service)
        since = self.triggers.of(service, pods)
        subsets = _subsets(service, pods)
        labels = _labels(service) | {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        same = current is not None and (current.get("subsets") or []) == subsets and labels_of(current) == labels
        if same:
            return
        had = annotations_of(current) if current is not None else {}
        notes = {k: v for k, v in had.items() if k != _TRIGGER} | ({_TRIGGER: since} if since else {})
        meta: Obj = {"name": key[1], "namespace": key[0], "labels": labels} | ({"annotations": notes} if notes else {})
        if current is None:
            self._create(r.ENDPOINTS, {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets})
            return
        kept = {k: v for k, v in current["metadata"].items() if k not in ("labels", "annotations")}
        self.kube.replace(r.ENDPOINTS, current | {"metadata": kept | meta, "subsets": subsets})

    def _remove(self, key: Key) -> None:
        try:
            self.kube.delete(r.ENDPOINTS, key[1], key[0])
        except NotFound:
            return


def _subsets(service: Obj, pods: list[Obj]) -> list[Obj]:
    """Addresses by the ports that are found at them."""
    by_ports: dict[tuple[tuple[str, int, str], ...], Obj] = {}
    headless_alone = service["spec"].get("clusterIP") == "None" and not service["spec"].get("ports")
    for pod in pods:
        leaving = "deletionTimestamp" in pod["metadata"] and not service["spec"].get("publishNotReadyAddresses")
        ports = _ports(service, pod)
        if leaving or not _has_address(pod) or not (ports or headless_alone):
            continue
        address = {
            "ip": dig(pod, "status", "podIP"),
            **_hostname(service, pod),
            "nodeName": node_of(pod),
            **_reference(pod),
        }
        subset = by_ports.setdefault(tuple((p.get("name", ""), p["port"], p["protocol"]) for p in ports), {})
        subset.setdefault("addresses" if _serves(service, pod) else "notReadyAddresses", []).append(address)
    return [subset | _spelled(ports) for ports, subset in by_ports.items()]


def _spelled(ports: tuple[tuple[str, int, str], ...]) -> Obj:
    found = [({"name": name} if name else {}) | {"port": port, "protocol": protocol} for name, port, protocol in ports]
    return {"ports": found} if found else {}


class EndpointSliceController(_Behind):
    """An EndpointSlice for each set of ports of every Service that selects pods; an empty one where there is none."""

    name = "endpointslice-controller"
    component = "endpoint-slice-controller"

    def setup(self) -> None:
        """Follow Services, pods and nodes."""
        self.slices = self.informers.index(
            r.ENDPOINTSLICES, "service", lambda s: [f"{namespace_of(s)}/{labels_of(s).get(_SERVICE, '')}"]
        )
        self._follow_services()
        self.nodes = self.follow(r.NODES, self._of_node)

    def _of_node(self, change: Change, _old: Obj | None, new: Obj) -> list[Key]:
        """A pod whose node is not there is left out until it is."""
        if change == "modified":
            return []
        here = {namespace_of(pod) for pod in self.pods.values() if node_of(pod) == name_of(new)}
        return [key_of(service) for service in self.services.values() if namespace_of(service) in here]

    def reconcile(self, key: Key) -> None:
        """Write the addresses of one Service; its slices go with it, by their owner reference."""
        service = self.services.objects.get(key)
        if service is None:
            self.triggers.forget(key)
            return
        if not service["spec"].get("selector") or service["spec"].get("type") == "ExternalName":
            return
        pods = self.pods_of(service)
        since = self.triggers.of(service, pods)
        wanted: dict[str, tuple[list[Obj], list[Obj]]] = {}
        for pod in pods:
            if _has_address(pod) and (self._placed(pod) or service["spec"].get("publishNotReadyAddresses")):
                ports = [{"name": "", **port} for port in _ports(service, pod)]
                wanted.setdefault(repr(ports), (ports, []))[1].append(self._endpoint(service, pod))
        wanted = wanted or {"": ([], [])}  # the place that is kept
        spare = []
        for current in self._own(key):
            found = wanted.pop(repr(current.get("ports") or []), None)
            if found is None and not current.get("ports"):
                found = wanted.pop("", None)
            if found is None:
                spare.append(current)
            else:
                self._write(service, current, *found, since)
        for ports, endpoints in wanted.values():
            self._write(service, spare.pop() if spare else None, ports, endpoints, since)
        for current in spare:
            self._drop(current)

    def _own(self, key: Key) -> list[Obj]:
        found = self.slices.get(f"{key[0]}/{key[1]}")
        return [one for one in found if labels_of(one).get(_MANAGED_BY, "").startswith("endpoint")]

    def _placed(self, pod: Obj) -> bool:
        return not node_of(pod) or self.nodes.get(node_of(pod)) is not None

    def _drop(self, current: Obj) -> None:
        try:
            self.kube.delete(r.ENDPOINTSLICES, name_of(current), namespace_of(current))
        except NotFound:
            return

    def _write(self, service: Obj, current: Obj | None, ports: list[Obj], endpoints: list[Obj], since: str) -> None:
        labels = _labels(service) | {_SERVICE: name_of(service), _MANAGED_BY: _MANAGER}
        notes = {_TRIGGER: since} if since else {}
        told = {"endpoints": endpoints or None, "ports": ports or None}
        if current is None:
            meta: Obj = {"generateName": f"{name_of(service)}-", "namespace": namespace_of(service), "labels": labels}
            meta |= {"annotations": notes} if notes else {}
            owner = {"ownerReferences": [controller_ref(service, r.SERVICES)]}
            head = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
            self._create(r.ENDPOINTSLICES, head | {"metadata": meta | owner} | told)
            return
        same = (current.get("endpoints") or []) == endpoints and (current.get("ports") or []) == ports
        if same and labels_of(current) == labels:
            return
        kept = {k: v for k, v in current["metadata"].items() if k not in ("labels", "annotations")}
        meta = kept | {"labels": labels} | ({"annotations": notes} if notes else {})
        self.kube.replace(r.ENDPOINTSLICES, current | {"metadata": meta} | told)

    def _endpoint(self, service: Obj, pod: Obj) -> Obj:
        terminating = "deletionTimestamp" in pod["metadata"]
        conditions = {"ready": _serves(service, pod), "serving": is_ready(pod), "terminating": terminating}
        placed: Obj = {"nodeName": node_of(pod)} if node_of(pod) else {}
        node = self.nodes.get(node_of(pod)) if node_of(pod) else None
        zone = labels_of(node).get("topology.kubernetes.io/zone") if node else None
        placed |= {"zone": zone} if zone else {}
        return {
            "addresses": [dig(pod, "status", "podIP")],
            "conditions": conditions,
            **_hostname(service, pod),
            **_reference(pod),
            **placed,
        }


def _selected(service: Obj, pod: Obj) -> bool:
    selector = service["spec"].get("selector")
    return bool(selector) and selector.items() <= labels_of(pod).items()


def _serves(service: Obj, pod: Obj) -> bool:
    if service["spec"].get("publishNotReadyAddresses"):
        return True
    return is_ready(pod) and "deletionTimestamp" not in pod["metadata"]


def _has_address(pod: Obj) -> bool:
    return bool(dig(pod, "status", "podIP")) and not is_terminal(pod)


def _reference(pod: Obj) -> Obj:
    return {"targetRef": {"kind": "Pod", "namespace": namespace_of(pod), "name": name_of(pod), "uid": uid_of(pod)}}


def _hostname(service: Obj, pod: Obj) -> Obj:
    """What a pod is called below its own Service (``ShouldSetHostname``)."""
    spec = pod["spec"]
    own = spec.get("hostname") and spec.get("subdomain") == name_of(service)
    return {"hostname": spec["hostname"]} if own else {}


def _labels(service: Obj) -> dict[str, str]:
    return labels_of(service) | ({_HEADLESS: ""} if service["spec"].get("clusterIP") == "None" else {})


def _ports(service: Obj, pod: Obj) -> list[Obj]:
    """The Service's ports as this pod has them; one whose name none of its containers knows is left out."""
    ports = []
    for port in service["spec"].get("ports") or ():
        number = _number(port.get("targetPort", port["port"]), port.get("protocol", "TCP"), pod)
        if number:
            named = {"name": port["name"]} if port.get("name") else {}
            ports.append({**named, "port": number, "protocol": port.get("protocol", "TCP")})
    return ports


def _number(target: int | str, protocol: str, pod: Obj) -> int:
    """0: no container has a port of that name (pkg/api/v1/pod: ``FindPort``)."""
    if isinstance(target, int):
        return target
    sidecars = [one for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in (*sidecars, *(pod["spec"].get("containers") or ())):
        for port in container.get("ports") or ():
            if port.get("name") == target and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return 0


def _seen(pod: Obj) -> tuple[object, ...]:
    return (
        labels_of(pod),
        dig(pod, "status", "podIP"),
        is_ready(pod),
        is_terminal(pod),
        node_of(pod),
        "deletionTimestamp" in pod["metadata"],
    )
