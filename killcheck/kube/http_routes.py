"""Where the interceptor of KEDA's HTTP add-on sends a request: an HTTPScaledObject's Service, its port, its pods.

The interceptor holds a request until the Service has a ready endpoint, and then connects to `service.namespace:port`.
A Service or a port that is not there answers nobody, however well the workload wakes.

Source: kedacore/http-add-on interceptor/middleware/endpoint_resolver.go, routing.go, pkg/k8s/scaledobject.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.kube import selectors
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.text.durations import parse_duration

__all__ = ["broken", "gives_up_s", "target_name"]


def target_name(declared: Obj) -> str | None:
    """The workload that is scaled; None where none is named."""
    return dig(declared, "spec", "scaleTargetRef", "name") or None


def gives_up_s(declared: Obj) -> float | None:
    """After how many seconds the interceptor stops waiting for a pod; None where the object does not say."""
    said = dig(declared, "spec", "timeouts", "conditionWait")
    return parse_duration(str(said)) if said else None


def broken(declared: Obj, services: Iterable[Obj], pods: Iterable[Obj]) -> str | None:
    """Why no request reaches a pod, in words; None where it does, as far as objects tell.

    ``pods`` are the workload's (or one made of its template): what the Service must select, and where its port leads.
    """
    ref, where = dig(declared, "spec", "scaleTargetRef", default={}), namespace_of(declared)
    if not ref.get("name"):
        was = " (deployment, its name before 0.9, is dropped)" if ref.get("deployment") else ""
        return f"its scaleTargetRef has no name: nothing is scaled{was}"
    wanted = str(ref.get("service") or "")
    service = next((one for one in services if (namespace_of(one), name_of(one)) == (where, wanted)), None)
    if service is None:
        return f"its Service {where}/{wanted} is not there"
    if dig(service, "spec", "type") == "ExternalName":
        return None
    ports = dig(service, "spec", "ports", default=[])
    key, value = ("name", ref.get("portName")) if ref.get("portName") else ("port", ref.get("port"))
    port = next((one for one in ports if one.get(key) == value), None)
    if port is None:
        has = ", ".join(str(one.get(key)) for one in ports if one.get(key) is not None) or "none"
        return f"its Service {where}/{wanted} has no port {value} (it has {has})"
    return _leads_nowhere(service, port, list(pods))


def _leads_nowhere(service: Obj, port: Obj, pods: list[Obj]) -> str | None:
    selector, what = dig(service, "spec", "selector", default={}), f"Service {namespace_of(service)}/{name_of(service)}"
    if not selector or not pods:
        return None  # endpoints that somebody keeps by hand; a workload of which nothing is known
    chosen = [pod for pod in pods if selectors.from_match_labels({"matchLabels": selector}).matches(labels_of(pod))]
    if not chosen:
        return f"its {what} selects none of the workload's pods ({', '.join(f'{k}={v}' for k, v in selector.items())})"
    named = port.get("targetPort")
    if not isinstance(named, str) or named.isdigit():
        return None
    containers = (one for pod in chosen for one in dig(pod, "spec", "containers", default=[]))
    if any(one.get("name") == named for container in containers for one in container.get("ports") or ()):
        return None
    return f"its {what} leads to port {named!r}, which no container of the workload has"
