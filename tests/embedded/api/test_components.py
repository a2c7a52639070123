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


def _ask(cluster, path):
    return cluster.kube.transport.request("GET", path, {}, None, {})


def test_an_api_service_that_nothing_answers_for_keeps_namespaces(cluster):
    spec = {"group": "gone.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    named = {"service": {"name": "gone", "namespace": "kube-system"}}
    made = {"metadata": {"name": "v1.gone.example.com"}, "spec": spec | named}
    cluster.kube.create(r.APISERVICES, made)
    for name in ("held", "kept"):
        cluster.kube.create(r.NAMESPACES, {"metadata": {"name": name}})
    cluster.kube.create(r.CONFIGMAPS, {"metadata": {"name": "a", "finalizers": ["a.b/c"]}}, "kept")
    cluster.advance(2)
    for name in ("held", "kept"):
        cluster.kube.delete(r.NAMESPACES, name)
    cluster.advance(60)
    told = cluster.kube.get(r.APISERVICES, "v1.gone.example.com")["status"]["conditions"][0]
    assert (told["status"], told["message"]) == ("False", 'service/gone in "kube-system" is not present')
    assert (_ask(cluster, "/apis/gone.example.com/v1").status, _ask(cluster, "/apis/none.example.com").status) == (
        503,
        404,
    )
    assert _ask(cluster, "/apis").body["groups"][-1]["name"] == "gone.example.com"
    conditions = cluster.kube.get(r.NAMESPACES, "held")["status"]["conditions"]
    assert [one["reason"] for one in conditions if one["status"] == "True"] == ["DiscoveryFailed"]
    assert "gone.example.com/v1: stale GroupVersion discovery" in conditions[0]["message"]
    kept = {one["type"]: one["message"] for one in cluster.kube.get(r.NAMESPACES, "kept")["status"]["conditions"]}
    assert kept["NamespaceContentRemaining"] == "Some resources are remaining: configmaps. has 1 resource instances"
    assert kept["NamespaceFinalizersRemaining"].endswith("finalizers remaining: a.b/c in 1 resource instances")
    cluster.kube.delete(r.APISERVICES, "v1.gone.example.com")
    cluster.kube.patch(r.CONFIGMAPS, "a", {"metadata": {"finalizers": None}}, "kept")
    cluster.advance(60)
    assert {"held", "kept"}.isdisjoint(map(name_of, cluster.kube.list(r.NAMESPACES).items))


def test_an_api_service_is_available_where_its_service_has_ready_endpoints(cluster):
    port = {"name": "https", "port": 443}
    cluster.kube.create(r.SERVICES, {"metadata": {"name": "there"}, "spec": {"ports": [port]}}, "default")
    spec = {"group": "there.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    named = {"service": {"name": "there", "namespace": "default"}}
    cluster.kube.create(r.APISERVICES, {"metadata": {"name": "v1.there.example.com"}, "spec": spec | named})
    cluster.advance(1)

    def reason():
        return cluster.kube.get(r.APISERVICES, "v1.there.example.com")["status"]["conditions"][0]["reason"]

    assert reason() == "MissingEndpoints"
    made = {
        "metadata": {"name": "there-1", "labels": {"kubernetes.io/service-name": "there"}},
        "addressType": "IPv4",
        "ports": [port],
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
    }
    cluster.kube.create(r.ENDPOINTSLICES, made, "default")
    cluster.advance(1)
    assert reason() == "Passed"
    cluster.kube.delete(r.APISERVICES, "v1.there.example.com")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/healthz/etcd", 200),
        ("/livez/poststarthook/rbac/bootstrap-roles", 200),
        ("/livez/shutdown", 404),
        ("/readyz/shutdown", 200),
    ],
)
def test_each_check_has_a_page_of_its_own(cluster, path, status):
    assert _ask(cluster, path).status == status


def test_metrics_count_what_is_stored_and_what_was_asked(cluster):
    page = _ask(cluster, "/metrics").body
    assert 'apiserver_resource_objects{resource="configmaps"}' in page
    assert 'kubernetes_build_info{git_version="v1.36.2"' in page


def test_extension_servers_find_how_clients_are_known(cluster):
    held = cluster.kube.get(r.CONFIGMAPS, "extension-apiserver-authentication", "kube-system")["data"]
    assert held["client-ca-file"] == cluster.pki.ca_pem
    assert held["requestheader-username-headers"] == '["X-Remote-User"]'


def test_a_pods_class_is_told_from_what_a_limit_range_gave_it(cluster):
    limits = [{"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}}]
    cluster.kube.create(r.NAMESPACES, {"metadata": {"name": "limited"}})
    cluster.advance(1)
    cluster.kube.call(
        "POST", "/api/v1/namespaces/limited/limitranges", body={"metadata": {"name": "l"}, "spec": {"limits": limits}}
    )
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    assert cluster.kube.create(r.PODS, pod, "limited")["status"]["qosClass"] == "Guaranteed"
