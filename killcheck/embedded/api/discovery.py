"""What is served, told to clients: /api, /apis, groups, versions, and the aggregated document that kubectl asks for.

Source: k8s.io/apiserver/pkg/endpoints/discovery of Kubernetes v1.36.
"""

from __future__ import annotations

import base64
import hashlib

from killcheck.embedded.api.http import Request, Response
from killcheck.embedded.api.kinds import Kind, Registry, Subresource, subresource_of
from killcheck.kube.objects import Obj, dig
from killcheck.kube.resources import Resource

__all__ = ["respond"]

_AGGREGATED = "apidiscovery.k8s.io"
_VERSIONS = ("v2", "v2beta1")


def respond(registry: Registry, request: Request) -> Response | None:
    """The document at a discovery path; None: there is none."""
    parts = [part for part in request.path.split("/") if part]
    if parts[:1] not in (["api"], ["apis"]):
        return None
    core = parts[0] == "api"
    if len(parts) == 1:
        version = _aggregated_version(request)
        if version:
            return _aggregated(registry, version, core=core)
        return Response(200, _api_versions(request) if core else _groups(registry))
    if core:
        listed = _resources(registry, "", parts[1]) if len(parts) == 2 else None
    elif len(parts) == 2:
        listed = _group(registry, parts[1])
    else:
        listed = _resources(registry, parts[1], parts[2]) if len(parts) == 3 else None
    return None if listed is None else Response(200, listed)


def _aggregated_version(request: Request) -> str | None:
    """The first version of the aggregated document that Accept names before plain JSON."""
    for clause in request.headers.get("accept", "").split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        given = dict(part.split("=", 1) for part in parameters if "=" in part)
        if media in ("application/json", "*/*"):
            if not given or "q" in given:
                return None
            if (
                given.get("g") == _AGGREGATED
                and given.get("v") in _VERSIONS
                and (given.get("as") == "APIGroupDiscoveryList")
            ):
                return given["v"]
    return None


#: Kubernetes' groups by the priorities of their APIServices (pkg/controlplane/apiserver/aggregator.go); those of custom
#: resources have one and the same, and come by name.
_RANK = {
    group: number
    for number, group in enumerate(
        " apiregistration.k8s.io apps events.k8s.io authentication.k8s.io authorization.k8s.io autoscaling batch "
        "certificates.k8s.io networking.k8s.io policy rbac.authorization.k8s.io storage.k8s.io "
        "admissionregistration.k8s.io apiextensions.k8s.io scheduling.k8s.io coordination.k8s.io node.k8s.io "
        "discovery.k8s.io resource.k8s.io flowcontrol.apiserver.k8s.io".split(" ")
    )
}


def _by_group(registry: Registry) -> dict[str, dict[str, list[Kind]]]:
    """group -> version -> kinds, as a client looks for a name: the preferred group and version first."""
    found: dict[str, dict[str, list[Kind]]] = {}
    for kind in registry.all():
        resource = kind.resource
        found.setdefault(resource.group, {}).setdefault(resource.version, []).append(kind)
    return dict(sorted(found.items(), key=lambda entry: (_RANK.get(entry[0], len(_RANK)), entry[0])))


# -- the plain documents ---------------------------------------------------------------------------------------
def _api_versions(request: Request) -> Obj:
    address = request.headers.get("host", "127.0.0.1")
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def _groups(registry: Registry) -> Obj:
    groups = [_group_body(name, list(versions)) for name, versions in _by_group(registry).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(registry: Registry, name: str) -> Obj | None:
    versions = _by_group(registry).get(name)
    if not versions or not name:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group_body(name, list(versions))


def _group_body(name: str, versions: list[str]) -> Obj:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(registry: Registry, group: str, version: str) -> Obj | None:
    kinds = [kind for kind in registry.all() if (kind.resource.group, kind.resource.version) == (group, version)]
    if not kinds:
        return None
    resources: list[Obj] = []
    for kind in kinds:
        resources.append(_resource(kind))
        resources += [_subresource(kind, name) for name in sorted(kind.subresources)]
    group_version = f"{group}/{version}" if group else version
    body: Obj = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if group else {})
    return body | {"groupVersion": group_version, "resources": resources}


def _resource(kind: Kind) -> Obj:
    resource = kind.resource
    entry: Obj = {
        "name": resource.plural,
        "singularName": kind.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if "create" in kind.verbs and "get" in kind.verbs:
        entry["storageVersionHash"] = _storage_hash(kind)
    return entry


def _storage_hash(kind: Kind) -> str:
    """Of the type as it is stored (apiserver/pkg/endpoints/discovery/storageversionhash.go)."""
    resource = kind.resource
    own = (resource.group, resource.plural)
    group, version = _STORED_ELSEWHERE.get(own, (resource.group, _stored_version(kind)))
    digest = hashlib.sha256(f"{group}/{version}/{resource.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _stored_version(kind: Kind) -> str:
    versions = dig(kind.crd or {}, "spec", "versions", default=[])
    return next((str(one["name"]) for one in versions if one.get("storage")), kind.resource.version)


#: Types that are stored in another group or version than they are served in.
_STORED_ELSEWHERE = {
    ("events.k8s.io", "events"): ("", "v1"),
    ("apiextensions.k8s.io", "customresourcedefinitions"): ("apiextensions.k8s.io", "v1beta1"),
    ("autoscaling", "horizontalpodautoscalers"): ("autoscaling", "v2"),
}


def _subresource(kind: Kind, name: str) -> Obj:
    resource, sub = kind.resource, subresource_of(kind, name)
    assert sub is not None
    entry: Obj = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
    if (sub.group, sub.version) != (resource.group, resource.version):
        entry |= {"group": sub.group, "version": sub.version} if sub.group else {"version": sub.version}
    return entry | {"kind": sub.kind, "verbs": list(sub.verbs)}


# -- the aggregated document -----------------------------------------------------------------------------------
def _aggregated(registry: Registry, version: str, *, core: bool) -> Response:
    items = [_group_item(name, versions) for name, versions in _by_group(registry).items() if bool(name) is not core]
    body: Obj = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{_AGGREGATED}/{version}",
        "metadata": {},
        "items": items,
    }
    content_type = f"application/json;g={_AGGREGATED};v={version};as=APIGroupDiscoveryList"
    return Response(200, body, {"Content-Type": content_type, "Vary": "Accept"})


def _group_item(name: str, versions: dict[str, list[Kind]]) -> Obj:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {"version": version, "resources": [_resource_item(kind) for kind in kinds], "freshness": "Current"}
            for version, kinds in versions.items()
        ],
    }


def _resource_item(kind: Kind) -> Obj:
    resource = kind.resource
    item: Obj = {
        "resource": resource.plural,
        "responseKind": _response_kind(kind, resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        item["shortNames"] = list(kind.short_names)
    if kind.categories:
        item["categories"] = list(kind.categories)
    if kind.subresources:
        item["subresources"] = [_subresource_item(kind, name) for name in sorted(kind.subresources)]
    return item


def _response_kind(kind: Kind, answered: Resource | Subresource) -> Obj:
    """What is answered; of a built-in type the group and version only where they are not those that are asked."""
    own = (answered.group, answered.version) == (kind.resource.group, kind.resource.version)
    group, version = ("", "") if own and kind.crd is None else (answered.group, answered.version)
    return {"group": group, "version": version, "kind": answered.kind}


def _subresource_item(kind: Kind, name: str) -> Obj:
    sub = subresource_of(kind, name)
    assert sub is not None
    return {
        "subresource": name,
        "responseKind": _response_kind(kind, sub),
        "verbs": list(sub.verbs),
    }
