"""``pods|services|nodes/NAME/proxy``: where a request would go, and what is said where it cannot.

What a place that is found would answer is not modelled, and said by name. Sources: ``ResourceLocation`` of pods and
nodes (pkg/registry/core/{pod,node}/strategy.go) and of services (pkg/registry/core/service/storage/storage.go) of
Kubernetes v1.36.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from killcheck.embedded.api import status
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.status import StatusError
from killcheck.kube.objects import Obj, dig

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core

__all__ = ["proxy"]

_ENDPOINTS = ("", "endpoints")
_WHAT = {"pods": "pod", "services": "service", "nodes": "node"}


class _Place(NamedTuple):
    name: str
    port: str


def proxy(server: Core, call: Call) -> Response:
    """Answer in the place's stead. Raises StatusError: 400, 404 or 503 as there, 501 where somebody would answer."""
    plural = call.kind.resource.plural
    asked = call.name
    place = _place(asked, plural)
    call.name = place.name
    found = server.find(call) if plural != "services" or place.port.isdigit() or not place.port else None
    server.admit(call, "CONNECT", None, found, dry_run=False, subresource="proxy")
    if plural == "services":
        _service(server, call, place, found, asked)
    elif plural == "pods" and not dig(found, "status", "podIP"):
        raise status.bad_request("address not allowed")
    raise StatusError(501, "NotImplemented", f"nothing answers {plural} through the API server's proxy here")


def _place(text: str, plural: str) -> _Place:
    """NAME, NAME:PORT or SCHEME:NAME:PORT (apimachinery/pkg/util/net/port_split.go).

    Raises StatusError 400 for what names no place.
    """
    parts = text.split(":")
    scheme, name, port = ["", *parts, ""][:3] if len(parts) < 3 else parts[:3]
    if len(parts) > 3 or not name or scheme not in ("", "http", "https"):
        raise status.bad_request(f'invalid {_WHAT[plural]} request "{text}"')
    return _Place(name, port)


def _service(server: Core, call: Call, place: _Place, service: Obj | None, asked: str) -> None:
    """Raises StatusError 503 where nobody is behind the port, 404 where there are no endpoints at all."""
    name = place.port
    if place.port.isdigit():
        ports = dig(service, "spec", "ports", default=[])
        port = next((one for one in ports if one.get("port") == int(place.port)), None)
        if port is None:
            raise _unavailable(f'no service port {place.port} found for service "{place.name}"')
        name = str(port.get("name", ""))
    endpoints = server.store.get(_ENDPOINTS, call.key)
    if endpoints is None:
        raise status.not_found("services", "", place.name)
    if not endpoints.get("subsets"):
        raise _unavailable(f'no endpoints available for service "{place.name}"')
    behind = [
        port
        for subset in endpoints.get("subsets") or []
        if subset.get("addresses")
        for port in subset.get("ports") or []
        if port.get("name", "") == name
    ]
    if not behind:
        raise _unavailable(f'no endpoints available for service "{asked}"')


def _unavailable(message: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", message)
