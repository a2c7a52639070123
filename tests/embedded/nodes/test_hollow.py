"""Hollow nodes as clients: what is scheduled there, how it lives and ends, and whose kubelet a Node has."""

from __future__ import annotations

import http.client
import ssl
from types import SimpleNamespace

import pytest

from killcheck.clock import WallLoop
from killcheck.cluster.hollow_nodes import HollowNodes, Shape
from killcheck.embedded.cluster import Cluster
from killcheck.embedded.containerlog import ContainerLog
from killcheck.embedded.nodes.kubelet_api import KubeletApi, Trust
from killcheck.embedded.pki import Pki
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound, ServerFault
from killcheck.kube.objects import condition, dig, name_of

TOLERATED = [{"key": "killcheck.dev/hollow", "operator": "Exists"}]


@pytest.fixture
def world():
    with Cluster(exec_mode="none") as cluster:
        cluster.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "studio"}}])
        hollow = HollowNodes(cluster.kube, cluster.loop, Shape(2, 8), home="studio", context="c")
        hollow.up()
        cluster.advance(5)
        yield cluster, hollow
        hollow.down()


def pod(name, gpus=8, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "studio"},
        "spec": {
            "tolerations": TOLERATED,
            "terminationGracePeriodSeconds": 7,
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        }
        | spec,
    }


def placed(cluster, body):
    cluster.kube.create(r.PODS, body)
    cluster.advance(8)
    return cluster.kube.get(r.PODS, name_of(body), "studio")


def test_only_what_tolerates_them_is_scheduled_there(world):
    cluster, hollow = world
    there = placed(cluster, pod("a"))
    assert there["spec"]["nodeName"] in hollow.names
    assert there["status"]["phase"] == "Running"
    assert there["status"]["podIP"].startswith("198.18.")  # routed nowhere
    node = cluster.kube.get(r.NODES, hollow.names[0])  # an API server asks by its Hostname first
    assert hollow.names[0] not in {one["address"] for one in node["status"]["addresses"]}
    elsewhere = placed(cluster, pod("b", tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]))
    assert elsewhere["spec"].get("nodeName") not in hollow.names


def test_pods_of_two_processes_have_addresses_of_their_own(world):
    cluster, hollow = world
    other = HollowNodes(cluster.kube, cluster.loop, Shape(2, 8), home="studio", context="c")
    other.up()
    cluster.advance(5)
    try:
        pods = [
            placed(cluster, pod(name, nodeName=node))
            for name, node in zip("abcd", hollow.names + other.names, strict=True)
        ]
    finally:
        other.down()
    assert len({one["status"]["podIP"] for one in pods}) == 4


def test_what_runs_there_meets_network_policies(world):
    """Their network is this process's, and no plugin of the cluster's has it."""
    cluster, _ = world
    labelled = pod("executor") | {"metadata": {"name": "executor", "namespace": "studio", "labels": {"a": "b"}}}
    egress = {"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Egress"], "egress": []}
    other = HollowNodes(cluster.kube, cluster.loop, Shape(1, 0), home="studio", context="c", exec_mode="host")
    other.up()
    try:
        cluster.advance(5)
        network = other.kubelets.agents.network(cluster.kube.create(r.PODS, labelled))
        before = network.api, network.dns
        policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "deny"}}
        cluster.kube.create(r.NETWORKPOLICIES, policy | {"spec": egress}, "studio")
        cluster.advance(1)
        assert (before, (network.api, network.dns)) == (("allow", "allow"), ("drop", "drop"))
    finally:
        other.down()


def test_its_pods_say_whether_their_programs_ran(world):
    cluster, _ = world
    for body, reason in ((pod("a"), "Hollow"), (pod("b", gpus=0, restartPolicy="Never"), "NotRun")):
        body["spec"]["containers"][0] |= {"command": ["true"]}
        said = condition(placed(cluster, body), "killcheck.dev/Ran")
        assert (said["status"], said["reason"]) == ("False", reason)
    elsewhere = pod("c", nodeName="cpu-1")
    assert condition(placed(cluster, elsewhere), "killcheck.dev/Ran") is None


def test_a_node_has_one_kubelet(world):
    cluster, hollow = world
    assert not {*hollow.names} & {*cluster.nodes.kubelets}
    assert {*hollow.kubelets.agents.kubelets} == {*hollow.names}


def test_a_grace_is_honoured_and_a_finalizer_holds(world):
    cluster, _ = world
    placed(cluster, pod("a"))
    cluster.kube.patch(r.PODS, "a", {"metadata": {"finalizers": ["studio/held"]}}, "studio")
    cluster.kube.delete(r.PODS, "a", "studio")
    cluster.advance(20)
    held = cluster.kube.get(r.PODS, "a", "studio")
    assert dig(held, "status", "containerStatuses", 0, "state", "terminated") is not None
    cluster.kube.patch(r.PODS, "a", {"metadata": {"finalizers": None}}, "studio")
    cluster.advance(1)
    with pytest.raises(NotFound):
        cluster.kube.get(r.PODS, "a", "studio")


def test_what_was_on_them_goes_with_them(world):
    cluster, hollow = world
    placed(cluster, pod("a"))
    assert hollow.down() == []
    assert [node for node in cluster.kube.list(r.NODES).items if name_of(node) in hollow.names] == []
    with pytest.raises(NotFound):
        cluster.kube.get(r.PODS, "a", "studio")
    leases = {name_of(one) for one in cluster.kube.list(r.LEASES).items}
    assert not leases & {*hollow.names, f"killcheck-{hollow.run}"}


@pytest.fixture(scope="module")
def guarded():
    """Kubelets without a pod that answer as off the loopback; the CA of those whom they may answer, and their port."""
    pki = Pki()
    asked = []

    def may(who, node):
        asked.append((who.name, who.groups, node))
        if who.name == "ghost":
            raise ServerFault(503, {"message": "no route"})
        return "kubelet-readers" in who.groups

    life = SimpleNamespace(key=("studio", "a"), pod={}, everything=())
    kubelet = SimpleNamespace(name="gpu-1", pods={"": life}, log=lambda *_, **__: ContainerLog())
    api = KubeletApi(lambda: [kubelet], WallLoop(), "127.0.0.1", Trust(pki.ca_pem, may))
    port = api.start()
    yield pki, port, asked
    api.stop()


def answer(port, tmp_path, identity=None):
    """What a client of that identity gets for a log: a status and a text; None where TLS ends it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if identity is not None:
        file = tmp_path / "client.pem"
        file.write_text(identity.certificate_pem + identity.key_pem)
        context.load_cert_chain(file)
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
    try:
        connection.request("GET", "/containerLogs/studio/a/main")
        got = connection.getresponse()
        return got.status, got.read().decode()
    except (ssl.SSLError, ConnectionError):
        return None
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("name", "groups", "status", "says"),
    [
        ("apiserver", ("kubelet-readers",), 200, ""),
        ("system:node:gpu-7", ("system:nodes",), 403, "Forbidden (user=system:node:gpu-7, verb=get, resource=nodes"),
        ("ghost", ("kubelet-readers",), 500, "Authorization error"),
    ],
)
def test_off_the_loopback_a_log_is_for_whom_the_cluster_lets(guarded, tmp_path, name, groups, status, says):
    pki, port, asked = guarded
    code, text = answer(port, tmp_path, pki.client(name, groups))
    assert (code, says in text) == (status, True)
    assert asked[-1] == (name, (*groups, "system:authenticated"), "gpu-1")


@pytest.mark.parametrize("stranger", [None, "another authority's"])
def test_off_the_loopback_nobody_else_is_spoken_to(guarded, tmp_path, stranger):
    _, port, asked = guarded
    before = len(asked)
    assert answer(port, tmp_path, Pki().client("apiserver", ("kubelet-readers",)) if stranger else None) is None
    assert len(asked) == before
