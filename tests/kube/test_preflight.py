"""Permissions asked for at once, and rules that grant exactly them."""

from __future__ import annotations

from collections.abc import Callable

import yaml
from https_server import HttpsServer, Reply, Seen

from killcheck.kube.client import Kube
from killcheck.kube.permissions import Permissions
from killcheck.kube.preflight import Permission, in_words, missing, rules

LOGS = Permission("get", "", "pods", "log", namespace="night")
SCALE = Permission("patch", "apps", "deployments", "scale", namespace="night", name="vllm")
NODES = Permission("list", "", "nodes")
JOBS = [Permission(verb, "batch", "jobs", namespace="night") for verb in ("create", "delete")]
NAMED = Permission("create", "batch", "cronjobs", namespace="night", name="off")


def test_everything_that_is_missing_is_listed_at_once(server: HttpsServer, kube_for: Callable[..., Kube]) -> None:
    asked = []

    def review(seen: Seen) -> Reply:
        attributes = seen.body["spec"]["resourceAttributes"]
        asked.append(attributes)
        return Reply(201, {**seen.body, "status": {"allowed": attributes["resource"] == "nodes"}})

    server.answer = review
    assert missing(kube_for(), [LOGS, NODES, SCALE, LOGS]) == [LOGS, SCALE]
    assert asked == [
        {"verb": "get", "resource": "pods", "subresource": "log", "namespace": "night"},
        {"verb": "list", "resource": "nodes"},
        {
            "verb": "patch",
            "group": "apps",
            "resource": "deployments",
            "subresource": "scale",
            "namespace": "night",
            "name": "vllm",
        },
    ]
    assert str(SCALE) == "patch deployments.apps/scale vllm in namespace night"
    assert str(NODES) == "list nodes cluster-wide"


def test_a_plan_says_each_object_once_with_all_that_is_done_to_it() -> None:
    assert in_words([*JOBS, NODES, LOGS, *JOBS]) == [
        "jobs.batch in namespace night: create, delete",
        "nodes cluster-wide: list",
        "pods/log in namespace night: get",
    ]


def test_the_rules_grant_what_is_missing_and_no_more() -> None:
    wanted = [LOGS, NODES, SCALE, *JOBS, NAMED]
    roles = list(yaml.safe_load_all(rules(wanted)))
    assert [(role["kind"], role["metadata"].get("namespace")) for role in roles] == [
        ("ClusterRole", None),
        ("Role", "night"),
    ]
    subject = {"kind": "ServiceAccount", "name": "sa", "namespace": "night"}
    bindings = [
        {
            "kind": f"{role['kind']}Binding",
            "metadata": role["metadata"],
            "subjects": [subject],
            "roleRef": {"kind": role["kind"], "name": "killcheck"},
        }
        for role in roles
    ]
    granted = Permissions([*roles, *bindings])

    def allows(verb: str, group: str, resource: str, sub: str = "", name: str = "", namespace: str = "") -> bool:
        return granted.allows(
            "sa", "night", verb=verb, group=group, resource=resource, subresource=sub, name=name, namespace=namespace
        )

    for permission in wanted:
        assert allows(
            permission.verb,
            permission.group,
            permission.resource,
            permission.subresource,
            permission.name,
            permission.namespace,
        ), permission
    assert not allows("patch", "apps", "deployments", "scale", "other", "night")
    assert not allows("patch", "apps", "deployments", "", "vllm", "night")
    assert not allows("get", "", "pods", "log", "", "elsewhere")
    assert not allows("delete", "", "nodes")
    # A name cannot narrow `create`: the object has none yet when it is asked.
    assert all("resourceNames" not in rule for rule in roles[1]["rules"] if "cronjobs" in rule["resources"])
