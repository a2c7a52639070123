"""Where the interceptor of KEDA's HTTP add-on sends a request: an HTTPScaledObject's Service, its port, its pods.

The interceptor holds a request until the Service has a ready endpoint, and then connects to `service.namespace:port`.
A Service or a port that is not there answers nobody, however well the workload wakes.

Source: kedacore/http-add-on interceptor/middleware/endpoint_resolver.go, routing.go, pkg/k8s/scaledobject.go,
interceptor/config/timeouts.go (releases with KEDA_HTTP_READINESS_TIMEOUT wait for ever where nobody says; those
before, for 20 s).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from killcheck.kube import selectors
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.text.durations import PATTERN, parse_duration

__all__ = ["UNSAID_S", "broken", "gives_up", "past", "says_when_ready", "target_name"]

#: After how long older interceptors give up where nobody says, as their chart and their manifests install them.
UNSAID_S = 20.0
#: Its own variables, the one that wins first.
_PATIENCE = ("KEDA_CONDITION_WAIT_TIMEOUT", "KEDA_HTTP_READINESS_TIMEOUT")
_IMAGE = "http-add-on-interceptor"


def target_name(declared: Obj) -> str | None:
    """The workload that is scaled; None where none is named."""
    return dig(declared, "spec", "scaleTargetRef", "name") or None


def gives_up(declared: Obj, deployments: Iterable[Obj] = ()) -> tuple[float | None, str]:
    """After how many seconds the interceptor stops waiting for a pod, and who says so.

    None: it waits for ever. Empty words: neither the object says, nor an interceptor among ``deployments``.
    """
    said = dig(declared, "spec", "timeouts", "conditionWait")
    if said:
        return parse_duration(str(said)) or None, "timeouts.conditionWait"
    for deployment in deployments:
        for container in dig(deployment, "spec", "template", "spec", "containers", default=[]):
            env = {str(one.get("name")): str(one.get("value") or "") for one in container.get("env") or ()}
            name = next((name for name in _PATIENCE if env.get(name) and re.match(PATTERN, env[name])), None)
            if name and _IMAGE in str(container.get("image")):
                return parse_duration(env[name]) or None, f"{name} of Deployment {name_of(deployment)}"
    return None, ""


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


def says_when_ready(pod: Obj) -> bool:
    """Whether a probe tells that a pod is ready: else it is as soon as it has started, whatever it has yet to load."""
    containers = [*dig(pod, "spec", "containers", default=[]), *dig(pod, "spec", "initContainers", default=[])]
    return any(one.get("readinessProbe") or one.get("startupProbe") for one in containers)


def past(declared: Obj, routes: Iterable[Obj]) -> str | None:
    """Which route leads its hosts to its Service itself, past the interceptor; None: none does.

    Such a request wakes nothing: while the workload sleeps it finds no endpoint. Ingresses, HTTPRoutes of the Gateway
    API and VirtualServices of Istio are read.
    """
    where, wanted = namespace_of(declared), str(dig(declared, "spec", "scaleTargetRef", "service", default=""))
    hosts = [str(host) for host in dig(declared, "spec", "hosts", default=[])]
    ways = [(route, *way) for route in routes for way in _ways(route)]
    for host in hosts or [""]:
        # The most exact name has the request: a host's own rule, else a wildcard's, else one for all hosts.
        fit = [(_exactness(way[1], host), *way) for way in ways if not way[1] or any(_covers(p, host) for p in way[1])]
        best = max((exact for exact, *_ in fit), default=(False, 0))
        for exact, route, _, backends in fit:
            if wanted and exact == best and (where, wanted) in backends:
                kind, to = f"{route.get('kind')} {namespace_of(route)}/{name_of(route)}", f"Service {where}/{wanted}"
                return f"{kind} leads {host or 'every host'} to {to} itself, past the interceptor"
    return None


def _ways(route: Obj) -> Iterator[tuple[list[str], set[tuple[str, str]]]]:
    """(hosts, none: all of them; the Services that they lead to) of each rule."""
    spec, home, kind = route.get("spec") or {}, namespace_of(route), route.get("kind")
    if kind == "Ingress":
        for rule in spec.get("rules") or ():
            paths = dig(rule, "http", "paths", default=[])
            named = {(home, str(dig(one, "backend", "service", "name", default=""))) for one in paths}
            yield [str(rule["host"])] if rule.get("host") else [], named
        if dig(spec, "defaultBackend", "service", "name"):
            yield [], {(home, str(dig(spec, "defaultBackend", "service", "name")))}
    elif kind == "HTTPRoute":
        refs = [ref for rule in spec.get("rules") or () for ref in rule.get("backendRefs") or ()]
        named = {(str(ref.get("namespace") or home), str(ref.get("name"))) for ref in refs}
        yield [str(host) for host in spec.get("hostnames") or ()], named
    elif kind == "VirtualService":
        ways = [way for one in spec.get("http") or () for way in one.get("route") or ()]
        named = {_service(str(dig(way, "destination", "host", default="")), home) for way in ways}
        yield [str(host) for host in spec.get("hosts") or () if host != "*"], named


def _service(host: str, home: str) -> tuple[str, str]:
    """(namespace, name) of a Service by the name that DNS has for it."""
    name, _, rest = host.partition(".")
    return rest.partition(".")[0] or home, name


def _covers(pattern: str, host: str) -> bool:
    return pattern == host or (pattern.startswith("*.") and host.endswith(pattern[1:]))


def _exactness(patterns: list[str], host: str) -> tuple[bool, int]:
    """The name itself before a wildcard, a longer wildcard before a shorter one, and nothing named last."""
    return max(((one == host, len(one)) for one in patterns if _covers(one, host)), default=(False, 0))


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
