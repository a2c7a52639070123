"""metrics.k8s.io: what a metrics-server answers where one is registered, with the figures of a model.

Nothing is measured: each container is told to use what it asks for. So whoever goes by it is told of as a limit
(:mod:`killcheck.embedded.api.ours`). Sources: staging/src/k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go of
Kubernetes v1.36, and metrics-server's pkg/api (v0.8).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from killcheck.embedded.api import status
from killcheck.embedded.api.call import Route, route
from killcheck.embedded.api.http import Request, Response
from killcheck.kube.objects import Obj, dig, format_time, labels_of, name_of, namespace_of
from killcheck.kube.quantities import form_of, format_quantity, parse
from killcheck.kube.selectors import SelectorError, parse_labels

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core

__all__ = ["GROUP", "VERSION", "is_figure", "resources", "respond"]

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"
#: Over how long usage is averaged (metrics-server's default resolution).
WINDOW = "15s"
_PODS, _NODES = ("", "pods"), ("", "nodes")
_KINDS = {"nodes": "NodeMetrics", "pods": "PodMetrics"}
#: What is told of a container that asks for nothing.
_LEAST = {"cpu": "1m", "memory": "8Mi"}


def resources() -> list[Obj]:
    """The types of the group, as an APIResourceList has them."""
    return [
        {"name": plural, "singularName": "", "namespaced": plural == "pods", "kind": kind, "verbs": ["get", "list"]}
        for plural, kind in _KINDS.items()
    ]


def is_figure(path: str) -> bool:
    """Whether figures are asked for there, and not what there is."""
    at = route(path)
    return at.group == GROUP and at.plural in _KINDS


def respond(server: Core, request: Request) -> Response:
    """What is said below the group's version. Raises StatusError 400, 404, 405."""
    at = route(request.path)
    if not at.plural:
        listed = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION, "resources": resources()}
        return Response(200, listed)
    if at.plural not in _KINDS or at.subresource:
        raise status.path_not_found()
    if request.method != "GET":
        raise status.method_not_allowed()
    try:
        selector = parse_labels(request.param("labelSelector"))
    except SelectorError as error:
        raise status.bad_request(str(error)) from error
    found = list(_nodes(server) if at.plural == "nodes" else _pods(server, at))
    if at.name:
        one = next((one for one in found if name_of(one) == at.name), None)
        if one is None:
            shown = f"{at.namespace}/{at.name}" if at.namespace else at.name
            raise status.not_found(_KINDS[at.plural].lower(), GROUP, shown)
        return Response(200, {"kind": _KINDS[at.plural], "apiVersion": API_VERSION} | one)
    items = [one for one in found if selector.matches(labels_of(one))]
    return Response(
        200, {"kind": f"{_KINDS[at.plural]}List", "apiVersion": API_VERSION, "metadata": {}, "items": items}
    )


def _pods(server: Core, at: Route) -> Iterable[Obj]:
    now = server.loop.now()
    for pod in server.store.values(_PODS, at.namespace):
        if dig(pod, "status", "phase") == "Running":
            used = [{"name": one["name"], "usage": _usage(one)} for one in pod["spec"]["containers"]]
            yield _timed(pod, now) | {"containers": used}


def _nodes(server: Core) -> Iterable[Obj]:
    now = server.loop.now()
    running: dict[str, list[Obj]] = {}
    for pod in server.store.values(_PODS):
        if dig(pod, "status", "phase") == "Running":
            running.setdefault(dig(pod, "spec", "nodeName", default=""), []).extend(pod["spec"]["containers"])
    for node in server.store.values(_NODES):
        used = [_usage(one) for one in running.get(name_of(node), ())]
        usage = {
            name: format_quantity(sum((parse(one[name]) for one in used), parse("0")), form_of(least))
            for name, least in _LEAST.items()
        }
        yield _timed(node, now) | {"usage": usage}


def _usage(container: Obj) -> Obj:
    asked = dig(container, "resources", "requests", default={})
    return {name: str(asked.get(name, least)) for name, least in _LEAST.items()}


def _timed(obj: Obj, now: datetime) -> Obj:
    meta: Obj = {"name": name_of(obj), "creationTimestamp": format_time(now), "labels": labels_of(obj)}
    meta |= {"namespace": namespace_of(obj)} if namespace_of(obj) else {}
    return {"metadata": meta, "timestamp": format_time(now), "window": WINDOW}
