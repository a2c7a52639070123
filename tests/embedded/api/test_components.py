"""What ``kubectl get componentstatuses`` is told, and the default roles as a fresh cluster has them."""

import pytest

from killcheck.embedded.cluster import Cluster
from killcheck.kube import resources as r
from killcheck.kube.objects import labels_of, name_of
from killcheck.kube.resources import Resource

COMPONENTS = Resource("", "v1", "componentstatuses", "ComponentStatus", False)
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(exec_mode="none")
    yield made
    made.close()


def _cells(cluster):
    answer = cluster.kube.transport.request("GET", "/api/v1/componentstatuses", {}, None, TABLE)
    assert [column["name"] for column in answer.body["columnDefinitions"]] == ["Name", "Status", "Message", "Error"]
    return [row["cells"] for row in answer.body["rows"]]


def test_a_scheduler_that_was_stopped_is_unhealthy_until_it_runs_again(cluster):
    healthy = [[name, "Healthy", "ok", ""] for name in ("scheduler", "controller-manager", "etcd-0")]
    assert _cells(cluster) == healthy
    cluster.stop_controller("default-scheduler")
    refused = 'Get "https://127.0.0.1:10259/healthz": dial tcp 127.0.0.1:10259: connect: connection refused'
    assert _cells(cluster) == [["scheduler", "Unhealthy", refused, ""], *healthy[1:]]
    cluster.start_controller("default-scheduler")
    assert _cells(cluster) == healthy


def test_every_default_binding_leads_to_a_role_and_every_controller_has_one(cluster):
    roles = {name_of(role): role for role in cluster.kube.list(r.CLUSTERROLES).items}
    bindings = cluster.kube.list(r.CLUSTERROLEBINDINGS).items
    assert {binding["roleRef"]["name"] for binding in bindings} <= set(roles)
    of_controllers = {name for name in roles if name.startswith("system:controller:")}
    assert of_controllers == {name_of(b) for b in bindings if name_of(b).startswith("system:controller:")}
    assert len(of_controllers) == 39  # as a real v1.36.2 lists them
    for name in ("view", "edit", "admin"):
        chosen = f"rbac.authorization.k8s.io/aggregate-to-{name}"
        parts = [rule for role in roles.values() if chosen in labels_of(role) for rule in role["rules"]]
        assert sorted(map(str, roles[name]["rules"])) == sorted(map(str, parts))


def test_who_made_the_roles_is_the_api_server(cluster):
    found = cluster.server.managed.sets(("rbac.authorization.k8s.io", "clusterroles"), ("", "view"))
    assert [(manager.name, manager.operation) for manager in found] == [("kube-apiserver", "Update")]
