"""Where the HTTP add-on's interceptor sends a request: every link of the way, and what is missing of it."""

import copy

import pytest

from killcheck.kube import http_routes

DECLARED = {
    "metadata": {"name": "comfy", "namespace": "atelier"},
    "spec": {
        "scaleTargetRef": {"name": "comfy", "kind": "Deployment", "service": "web", "port": 80},
        "timeouts": {"conditionWait": "1m30s"},
    },
}
SERVICE = {
    "metadata": {"name": "web", "namespace": "atelier"},
    "spec": {"selector": {"app": "comfy"}, "ports": [{"name": "http", "port": 80, "targetPort": "ui"}]},
}
POD = {
    "metadata": {"labels": {"app": "comfy", "pod-template-hash": "1"}},
    "spec": {"containers": [{"name": "ui", "ports": [{"name": "ui", "containerPort": 8188}]}]},
}


def changed(obj, value, *path):
    made = copy.deepcopy(obj)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return made


@pytest.mark.parametrize(
    ("declared", "service", "pod", "says"),
    [
        (DECLARED, SERVICE, POD, None),
        (
            changed(DECLARED, {"deployment": "comfy", "service": "web", "port": 80}, "spec", "scaleTargetRef"),
            SERVICE,
            POD,
            "has no name",
        ),
        (DECLARED, changed(SERVICE, "other", "metadata", "name"), POD, "Service atelier/web is not there"),
        (DECLARED, changed(SERVICE, "elsewhere", "metadata", "namespace"), POD, "Service atelier/web is not there"),
        (changed(DECLARED, 8080, "spec", "scaleTargetRef", "port"), SERVICE, POD, "has no port 8080 (it has 80)"),
        (
            changed(DECLARED, {"name": "comfy", "service": "web", "portName": "grpc"}, "spec", "scaleTargetRef"),
            SERVICE,
            POD,
            "has no port grpc (it has http)",
        ),
        (
            changed(DECLARED, {"name": "comfy", "service": "web", "portName": "http"}, "spec", "scaleTargetRef"),
            SERVICE,
            POD,
            None,
        ),
        (
            DECLARED,
            changed(SERVICE, {"app": "comfyui"}, "spec", "selector"),
            POD,
            "selects none of the workload's pods",
        ),
        (DECLARED, SERVICE, changed(POD, [], "spec", "containers"), "leads to port 'ui'"),
        (DECLARED, changed(SERVICE, 8188, "spec", "ports", 0, "targetPort"), POD, None),
        (DECLARED, changed(SERVICE, {}, "spec", "selector"), POD, None),
        (DECLARED, changed(SERVICE, "ExternalName", "spec", "type"), POD, None),
    ],
)
def test_each_link_of_the_way_to_a_pod(declared, service, pod, says):
    found = http_routes.broken(declared, [service], [pod])
    assert (found is None) if says is None else says in found


def ingress(host, service="web", namespace="atelier"):
    paths = [{"backend": {"service": {"name": service}}}]
    spec = {"rules": [{"http": {"paths": paths}} | ({"host": host} if host else {})]}
    return {"kind": "Ingress", "metadata": {"name": host or "all", "namespace": namespace}, "spec": spec}


def gateway(host, service="web", **ref):
    spec = {"hostnames": [host], "rules": [{"backendRefs": [{"name": service, **ref}]}]}
    return {"kind": "HTTPRoute", "metadata": {"name": host, "namespace": "edge"}, "spec": spec}


def istio(host, to):
    spec = {"hosts": [host], "http": [{"route": [{"destination": {"host": to}}]}]}
    return {"kind": "VirtualService", "metadata": {"name": host, "namespace": "atelier"}, "spec": spec}


@pytest.mark.parametrize(
    ("routes", "past"),
    [
        ([ingress("a.example.com")], "Ingress atelier/a.example.com"),
        ([ingress("")], "Ingress atelier/all"),
        ([ingress("*.example.com"), ingress("b.example.com", "interceptor")], "*.example.com leads a.example.com"),
        ([ingress("*.example.com"), ingress("a.example.com", "interceptor", "keda")], None),
        ([ingress("a.example.com", namespace="other"), ingress("c.example.com")], None),
        ([gateway("a.example.com", namespace="atelier")], "HTTPRoute edge/a.example.com"),
        ([gateway("a.example.com")], None),
        ([istio("a.example.com", "web.atelier.svc.cluster.local"), istio("a.example.com", "web")], "VirtualService"),
        ([istio("a.example.com", "interceptor.keda"), istio("a.example.org", "web")], None),
    ],
)
def test_a_route_past_the_interceptor_is_told(routes, past):
    declared = changed(DECLARED, ["a.example.com"], "spec", "hosts")
    found = http_routes.past(declared, routes)
    assert (found is None) if past is None else past in found


def test_how_long_the_interceptor_waits():
    assert http_routes.gives_up(DECLARED) == (90.0, "timeouts.conditionWait")
    assert http_routes.gives_up({"spec": {}}) == (None, "")
