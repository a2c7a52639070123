"""ComponentStatus: what the API server says of the parts of the control plane when it is asked; nothing is stored.

Sources: pkg/registry/core/componentstatus/rest.go of Kubernetes v1.36 and answers of a real v1.36.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from killcheck.embedded.api import negotiation, status
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.fieldlabels import check_fields, value_of
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.watch import Filter
from killcheck.kube.objects import Obj
from killcheck.kube.selectors import SelectorError, parse_fields, parse_labels

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core

__all__ = ["TABLE", "respond", "statuses"]

TABLE = ("", "componentstatuses")
#: Where a server looks for those that it does not keep itself, by name.
_PORTS = {"scheduler": 10259, "controller-manager": 10257}


def statuses(down: frozenset[str] = frozenset()) -> list[Obj]:
    """The scheduler, the controller manager and etcd; of those in ``down`` nobody listens where they did."""
    return [_of(name, down=name in down) for name in (*_PORTS, "etcd-0")]


def respond(server: Core, call: Call) -> Response:
    """A get or a list. Raises StatusError 400, 404, or 405 for a watch."""
    found = statuses(server.down())
    if call.verb == "watch":
        raise status.StatusError(
            405,
            "MethodNotAllowed",
            'watch is not supported on resources of kind "componentstatuses"',
            details={"kind": "componentstatuses"},
        )
    shape = negotiation.shape_of(call)
    if call.name:
        found = [one for one in found if one["metadata"]["name"] == call.name]
        if not found:
            raise status.not_found("componentstatus", "", call.name)
    else:
        wanted = _filter(call)
        found = [one for one in found if wanted.wants(one)]
    if shape is not negotiation.PLAIN:
        return Response(200, negotiation.shaped(shape, call, found, {}, server.loop.now()))
    if call.name:
        return Response(200, found[0])
    items = [{k: v for k, v in one.items() if k not in ("apiVersion", "kind")} for one in found]
    return Response(200, {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items})


def _filter(call: Call) -> Filter:
    try:
        labels = parse_labels(call.request.param("labelSelector"))
        fields = parse_fields(call.request.param("fieldSelector"))
    except SelectorError as error:
        raise status.bad_request(str(error)) from error
    check_fields(call.kind, fields)
    return Filter("", labels, fields, value_of)


def _of(name: str, *, down: bool) -> Obj:
    condition = {"type": "Healthy", "status": "True", "message": "ok"}
    if down:
        at = f"127.0.0.1:{_PORTS[name]}"
        condition |= {
            "status": "False",
            "message": f'Get "https://{at}/healthz": dial tcp {at}: connect: connection refused',
        }
    return {"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name}, "conditions": [condition]}
