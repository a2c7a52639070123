"""Discovery and OpenAPI, as kubectl reads them."""

from __future__ import annotations

from typing import Any

import pytest

from killcheck.embedded.api import discovery, openapi
from killcheck.embedded.api.http import Request, Response
from killcheck.embedded.api.kinds import Registry, from_crd
from killcheck.embedded.api.status import StatusError
from killcheck.kube.objects import Obj

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
CRD: Obj = {
    "spec": {
        "group": "karpenter.sh",
        "scope": "Cluster",
        "names": {"plural": "nodepools", "singular": "nodepool", "kind": "NodePool", "categories": ["karpenter"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"weight": {"type": "integer"}}}},
                    }
                },
            }
        ],
    }
}


def ask(module: Any, path: str, accept: str = "", registry: Registry | None = None, **headers: str) -> Response | None:
    url, _, query = path.partition("?")
    asked = {name: [value] for name, _, value in (pair.partition("=") for pair in query.split("&") if pair)}
    sent = {"accept": accept, "host": "127.0.0.1:6443"} | {k.replace("_", "-"): v for k, v in headers.items()}
    found: Response | None = module.respond(registry or Registry(), Request("GET", url, asked, sent))
    return found


def body(module: Any, path: str, accept: str = "", registry: Registry | None = None) -> Any:
    response = ask(module, path, accept, registry)
    assert response is not None
    assert response.status == 200
    return response.body


def with_crd() -> Registry:
    registry = Registry()
    for kind in from_crd(CRD):
        registry.add(kind)
    return registry


def test_the_roots() -> None:
    core = body(discovery, "/api")
    assert core["versions"] == ["v1"]
    assert core["serverAddressByClientCIDRs"][0]["serverAddress"] == "127.0.0.1:6443"
    groups = {group["name"]: group for group in body(discovery, "/apis")["groups"]}
    assert "" not in groups
    assert groups["batch"]["preferredVersion"] == {"groupVersion": "batch/v1", "version": "v1"}
    assert [v["version"] for v in groups["autoscaling"]["versions"]] == ["v2", "v1"]


def test_one_group_and_one_version() -> None:
    assert body(discovery, "/apis/apps")["kind"] == "APIGroup"
    apps = body(discovery, "/apis/apps/v1")
    assert (apps["kind"], apps["apiVersion"], apps["groupVersion"]) == ("APIResourceList", "v1", "apps/v1")
    resources = {resource["name"]: resource for resource in apps["resources"]}
    assert resources["deployments"] == {
        "name": "deployments",
        "singularName": "deployment",
        "namespaced": True,
        "kind": "Deployment",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["deploy"],
        "categories": ["all"],
        "storageVersionHash": "8aSe+NMegvE=",
    }
    assert resources["deployments/scale"] == {
        "name": "deployments/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }
    pods = {resource["name"]: resource for resource in body(discovery, "/api/v1")["resources"]}
    assert pods["pods/eviction"]["kind"] == "Eviction"
    assert pods["serviceaccounts/token"]["group"] == "authentication.k8s.io"


@pytest.mark.parametrize("path", ["/apis/nothing", "/apis/apps/v2", "/api/v2", "/apis/batch/v1/cronjobs/x", "/nothing"])
def test_what_is_not_there(path: str) -> None:
    assert ask(discovery, path) is None


def test_the_aggregated_document_for_who_asks_for_it() -> None:
    response = ask(discovery, "/apis", AGGREGATED, with_crd())
    assert response is not None
    assert response.headers["Content-Type"] == ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    assert isinstance(response.body, dict)
    assert response.body["apiVersion"] == "apidiscovery.k8s.io/v2"
    groups = {item["metadata"]["name"]: item["versions"] for item in response.body["items"]}
    pools = groups["karpenter.sh"][0]
    assert pools["freshness"] == "Current"
    assert pools["resources"] == [
        {
            "resource": "nodepools",
            "responseKind": {"group": "karpenter.sh", "version": "v1", "kind": "NodePool"},
            "scope": "Cluster",
            "singularResource": "nodepool",
            "categories": ["karpenter"],
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "subresources": [
                {
                    "subresource": "status",
                    "verbs": ["get", "patch", "update"],
                    "responseKind": {"group": "karpenter.sh", "version": "v1", "kind": "NodePool"},
                }
            ],
        }
    ]
    core = body(discovery, "/api", AGGREGATED)
    assert [item["metadata"] for item in core["items"]] == [{}]
    assert body(discovery, "/apis", "application/json")["kind"] == "APIGroupList"


# -- OpenAPI ---------------------------------------------------------------------------------------------------
def document(group_version: str, registry: Registry | None = None) -> Any:
    paths = body(openapi, "/openapi/v3", "", registry)["paths"]
    return body(openapi, paths[group_version]["serverRelativeURL"], "", registry)


def gvk_of(operation: Obj) -> tuple[str, str, str]:
    gvk = operation["x-kubernetes-group-version-kind"]
    return gvk["group"], gvk["version"], gvk["kind"]


@pytest.mark.parametrize(
    ("where", "gvk"),
    [
        ("apis/batch/v1", ("batch", "v1", "CronJob")),
        ("api/v1", ("", "v1", "Pod")),
        ("apis/karpenter.sh/v1", ("karpenter.sh", "v1", "NodePool")),
    ],
)
def test_kubectl_learns_that_the_server_validates_fields(where: str, gvk: tuple[str, str, str]) -> None:
    patches = [path["patch"] for path in document(where, with_crd())["paths"].values() if "patch" in path]
    options = next(patch["parameters"] for patch in patches if gvk_of(patch) == gvk)
    assert {"dryRun", "fieldValidation"} <= {option["name"] for option in options if option["in"] == "query"}


def test_kubectl_explain_finds_the_kind_and_every_reference_resolves() -> None:
    apps = document("apis/apps/v1")
    listed = apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["get"]
    assert gvk_of(listed) == ("apps", "v1", "Deployment")
    schemas = apps["components"]["schemas"]
    deployment = schemas["io.k8s.api.apps.v1.Deployment"]
    assert deployment["x-kubernetes-group-version-kind"] == [{"group": "apps", "version": "v1", "kind": "Deployment"}]
    assert schemas["io.k8s.api.core.v1.Container"]["properties"]["image"]["description"].startswith("Container image")
    wanted = set(references(schemas))
    assert wanted
    assert {name.removeprefix("#/components/schemas/") for name in wanted} <= schemas.keys()


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for inner in value.values() for ref in references(inner)]
    return [ref for inner in value for ref in references(inner)] if isinstance(value, list) else []


def test_kubectl_apply_merges_lists_by_key() -> None:
    schemas = document("apis/apps/v1")["components"]["schemas"]
    pod, container = schemas["io.k8s.api.core.v1.PodSpec"]["properties"], schemas["io.k8s.api.core.v1.Container"]
    assert pod["containers"]["x-kubernetes-patch-merge-key"] == "name"
    assert pod["containers"]["x-kubernetes-patch-strategy"] == "merge"
    assert pod["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    assert container["properties"]["ports"]["x-kubernetes-patch-merge-key"] == "containerPort"
    assert "x-kubernetes-patch-merge-key" not in container["properties"]["args"]
    meta = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]
    assert meta["finalizers"]["x-kubernetes-patch-strategy"] == "merge"


def test_custom_resources_keep_their_own_schema() -> None:
    pools = document("apis/karpenter.sh/v1", with_crd())["components"]["schemas"]
    pool = pools["sh.karpenter.v1.NodePool"]
    assert pool["properties"]["spec"] == {"type": "object", "properties": {"weight": {"type": "integer"}}}
    assert pool["properties"]["metadata"]["allOf"][0]["$ref"].endswith(".ObjectMeta")
    assert "metadata" not in CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def test_documents_are_cached_by_their_hash_and_the_hash_follows_the_definition() -> None:
    first = body(openapi, "/openapi/v3", "", with_crd())["paths"]["apis/karpenter.sh/v1"]["serverRelativeURL"]
    response = ask(openapi, first, "", with_crd())
    assert response is not None
    assert "immutable" in response.headers["Cache-Control"]
    unchanged = ask(openapi, first, "", with_crd(), if_none_match=response.headers["Etag"])
    assert unchanged is not None
    assert unchanged.status == 304
    changed = Registry()
    for kind in from_crd({"spec": CRD["spec"] | {"names": CRD["spec"]["names"] | {"shortNames": ["np"]}}}):
        changed.add(kind)
    assert body(openapi, "/openapi/v3", "", changed)["paths"]["apis/karpenter.sh/v1"]["serverRelativeURL"] != first


def test_version_two_is_there_in_json_and_protobuf_and_in_nothing_else() -> None:
    swagger = body(openapi, "/openapi/v2", "application/json", with_crd())
    assert swagger["swagger"] == "2.0"
    assert {name.removeprefix("#/definitions/") for name in references(swagger)} <= swagger["definitions"].keys()
    with pytest.raises(StatusError) as caught:
        ask(openapi, "/openapi/v2", "application/x-protobuf+gzip")
    assert caught.value.code == 406
    assert ask(openapi, "/openapi/v3/apis/nothing/v1") is None
