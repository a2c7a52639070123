"""metrics.k8s.io where a metrics-server is registered and ready: figures of a model, and told as that."""

from __future__ import annotations

from killcheck.embedded.api.authn import peer_header
from killcheck.embedded.api.http import Request
from killcheck.embedded.cluster import Cluster
from killcheck.embedded.default_objects import node

_SPEC = {"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100}
_POD = {
    "containers": [
        {"name": "m", "image": "registry.k8s.io/metrics-server/metrics-server:v0.8.0"}
        | {"ports": [{"name": "https", "containerPort": 10250}], "resources": {"requests": {"cpu": "100m"}}}
    ]
}


def _made(kind, api_version, name, **more):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "kube-system"}} | more


def _server():
    labels = {"k8s-app": "metrics-server"}
    template = {"metadata": {"labels": labels}, "spec": _POD}
    deployment = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    service = {"selector": labels, "ports": [{"name": "https", "port": 443, "targetPort": "https"}]}
    registered = _made("APIService", "apiregistration.k8s.io/v1", "v1beta1.metrics.k8s.io")
    del registered["metadata"]["namespace"]
    where = {"service": {"name": "metrics-server", "namespace": "kube-system"}, "insecureSkipTLSVerify": True}
    return [
        node("cpu-1", "m6i.xlarge", cpu=4, memory="16Gi"),
        _made("Deployment", "apps/v1", "metrics-server", spec=deployment),
        _made("Service", "v1", "metrics-server", spec=service),
        registered | {"spec": _SPEC | where},
    ]


def test_figures_are_what_containers_ask_for_and_are_said_to_be_nobodys_measure():
    root = "/apis/metrics.k8s.io/v1beta1"
    with Cluster(exec_mode="none") as cluster:
        cluster.load(_server())

        def ask(path):
            peer = peer_header("somebody", ("system:masters",))
            return cluster.server.handle(Request("GET", path, headers=peer))

        before = ask(f"{root}/nodes").status
        cluster.advance(60)
        nodes, pods, missing = (
            ask(f"{root}/{path}") for path in ("nodes", "namespaces/kube-system/pods", "namespaces/a/pods/b")
        )
        met = [what for _, what in cluster.server.limits.met]
    assert (before, missing.status, missing.body["message"]) == (503, 404, 'podmetrics.metrics.k8s.io "a/b" not found')
    assert nodes.body["items"][0]["usage"] == {"cpu": "100m", "memory": "8Mi"}
    assert [one["usage"] for one in pods.body["items"][0]["containers"]] == [{"cpu": "100m", "memory": "8Mi"}]
    assert f"GET {root}/nodes: its figures are what containers ask for, and none was measured" in met
