"""APIServices: whether what serves a group elsewhere is there, and what is answered in its place.

A group without a Service is served here. One with a Service counts as available where the Service has ready endpoints:
that something answers behind them is assumed. Of all that, figures of containers alone are served
(:mod:`killcheck.embedded.api.resourcemetrics`). Sources:
kube-aggregator/pkg/controllers/status/remote/remote_available_controller.go, and answers of a v1.36.2 API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from killcheck.embedded.api import resourcemetrics
from killcheck.embedded.api.http import Request, Response, User
from killcheck.embedded.api.store import Change
from killcheck.kube.objects import Obj, condition, dig, format_time

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core

__all__ = ["Aggregation"]

TABLE = ("apiregistration.k8s.io", "apiservices")
_SERVICES, _SLICES = ("", "services"), ("discovery.k8s.io", "endpointslices")
_SYSTEM = User("system:apiserver", ("system:masters",))
_TEXT = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}


class _Verdict(NamedTuple):
    available: bool
    reason: str
    message: str


class Aggregation:
    """Keeps the condition Available of every APIService, and answers for the groups that are served elsewhere."""

    def __init__(self, server: Core) -> None:
        self.server = server
        self._due = False
        for table in (TABLE, _SERVICES, _SLICES):
            server.store.listen(table, self._changed)

    def elsewhere(self) -> list[Obj]:
        """The APIServices that have a Service, by group and version."""
        found = [one for one in self.server.store.values(TABLE) if dig(one, "spec", "service")]
        return sorted(found, key=lambda one: (one["spec"].get("group", ""), one["spec"].get("version", "")))

    def respond(self, request: Request) -> Response | None:
        """What is said below a group that is served elsewhere; None: it is not."""
        parts = [part for part in request.path.split("/") if part]
        if parts[:1] != ["apis"] or len(parts) < 2:
            return None
        mine = [one for one in self.elsewhere() if one["spec"].get("group") == parts[1]]
        if len(parts) == 2 and mine:
            return Response(200, {"kind": "APIGroup", "apiVersion": "v1"} | _group(parts[1], mine))
        asked = [one for one in mine if one["spec"].get("version") == parts[2]] if len(parts) > 2 else []
        if asked and _is_metrics(asked[0]) and dig(condition(asked[0], "Available"), "status") == "True":
            return resourcemetrics.respond(self.server, request)
        if asked:
            return Response(503, "service unavailable\n", dict(_TEXT))
        return None

    def listed(self, answer: Response) -> Response:
        """The documents of /apis with the groups that are served elsewhere, stale where nothing answers."""
        by_group: dict[str, list[Obj]] = {}
        for one in self.elsewhere():
            by_group.setdefault(str(one["spec"].get("group", "")), []).append(one)
        if not by_group or not isinstance(answer.body, dict):
            return answer
        if "groups" in answer.body:
            more = {"groups": [*answer.body["groups"], *(_group(name, ones) for name, ones in by_group.items())]}
        else:
            more = {"items": [*answer.body["items"], *(_known(name, ones) for name, ones in by_group.items())]}
        return Response(answer.status, answer.body | more, answer.headers)

    # -- inside --------------------------------------------------------------------------------------------
    def _changed(self, _change: Change) -> None:
        if not self._due and self.server.store.holds(TABLE):
            self._due = True
            self.server.loop.call_soon(self._report)

    def _report(self) -> None:
        self._due = False
        for one in list(self.server.store.values(TABLE)):
            verdict, known = self._verdict(one), condition(one, "Available")
            value = "True" if verdict.available else "False"
            said = {"type": "Available", "status": value, "reason": verdict.reason, "message": verdict.message}
            if known is not None and {key: known.get(key) for key in said} == said:
                continue
            same = known is not None and known["status"] == value
            since = known["lastTransitionTime"] if known is not None and same else format_time(self.server.loop.now())
            others = [c for c in dig(one, "status", "conditions", default=[]) if c["type"] != "Available"]
            patch = {"status": {"conditions": [*others, said | {"lastTransitionTime": since}]}}
            path = f"/apis/{TABLE[0]}/v1/{TABLE[1]}/{one['metadata']['name']}/status"
            headers = {"content-type": "application/merge-patch+json", "user-agent": "kube-apiserver/"}
            self.server.handle(Request("PATCH", path, headers=headers, body=patch, user=_SYSTEM))

    def _verdict(self, one: Obj) -> _Verdict:
        named = dig(one, "spec", "service")
        if not named:
            return _Verdict(True, "Local", "Local APIServices are always available")
        name, namespace = str(named.get("name", "")), str(named.get("namespace", ""))
        service = self.server.store.get(_SERVICES, (namespace, name))
        shown = f'service/{name} in "{namespace}"'
        if service is None:
            return _Verdict(False, "ServiceNotFound", f"{shown} is not present")
        wanted = int(named.get("port") or 443)
        port = next((p for p in dig(service, "spec", "ports", default=[]) if p.get("port") == wanted), None)
        if dig(service, "spec", "type") == "ExternalName":
            return _Verdict(True, "Passed", "all checks passed")
        if port is None:
            return _Verdict(False, "ServicePortError", f"{shown} is not listening on port {wanted}")
        if not self._ready(namespace, name):
            message = f'endpointslices for {shown} have no addresses with port name "{port.get("name", "")}"'
            return _Verdict(False, "MissingEndpoints", message)
        return _Verdict(True, "Passed", "all checks passed")

    def _ready(self, namespace: str, service: str) -> bool:
        return any(
            dig(endpoint, "conditions", "ready", default=False)
            for one in self.server.store.values(_SLICES, namespace)
            if dig(one, "metadata", "labels", "kubernetes.io/service-name") == service
            for endpoint in one.get("endpoints") or []
        )


def _group(name: str, ones: list[Obj]) -> Obj:
    versions = [str(one["spec"].get("version", "")) for one in ones]
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _is_metrics(one: Obj) -> bool:
    return (one["spec"].get("group"), one["spec"].get("version")) == (resourcemetrics.GROUP, resourcemetrics.VERSION)


def _known(name: str, ones: list[Obj]) -> Obj:
    """A group of the aggregated discovery: what it holds where that is served, and stale where it is not."""
    versions: list[Obj] = []
    for one in ones:
        version: Obj = {"version": str(one["spec"].get("version", "")), "freshness": "Stale"}
        if _is_metrics(one) and dig(condition(one, "Available"), "status") == "True":
            version |= {"freshness": "Current", "resources": list(map(_discovered, resourcemetrics.resources()))}
        versions.append(version)
    return {"metadata": {"name": name}, "versions": versions}


def _discovered(resource: Obj) -> Obj:
    kind = {"group": "", "version": "", "kind": resource["kind"]}
    scope = "Namespaced" if resource["namespaced"] else "Cluster"
    said = {"resource": resource["name"], "responseKind": kind, "scope": scope, "singularResource": ""}
    return said | {"verbs": resource["verbs"]}
