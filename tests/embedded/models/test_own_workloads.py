"""A model rests while the workload of its own program is at zero."""

from __future__ import annotations

from killcheck.embedded.cluster import Cluster
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj


def _deployment(name: str, image: str, *args: str) -> Obj:
    labels = {"app": name}
    pods = {"containers": [{"name": "main", "image": image, "args": list(args)}]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels}, "spec": pods}
    meta = {"name": name, "namespace": "kube-system"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def test_model_rests_while_its_workload_is_at_zero() -> None:
    argo, keda = "argocd-application-controller", "keda-operator"
    with Cluster(exec_mode="none") as cluster:
        cluster.load(
            [
                _deployment("karpenter", "public.ecr.aws/karpenter/controller:1.6.2"),
                _deployment("server", "quay.io/argoproj/argocd:v3.1.0", "argocd-server"),
                _deployment("webhooks", "ghcr.io/kedacore/keda-admission-webhooks:2.17.2"),
            ]
        )

        def scaled(name: str, replicas: int) -> set[str]:
            cluster.kube.patch(r.DEPLOYMENTS, name, {"spec": {"replicas": replicas}}, "kube-system")
            cluster.advance(1.0)
            return {"karpenter", argo, keda} - set(cluster.controllers)

        assert scaled("server", 0) == scaled("webhooks", 0) == set()
        assert scaled("karpenter", 0) == {"karpenter"}
        assert scaled("karpenter", 2) == set()
        cluster.kube.delete(r.DEPLOYMENTS, "karpenter", "kube-system")
        cluster.advance(1.0)
        assert "karpenter" not in cluster.controllers
