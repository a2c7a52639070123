"""How long a large cluster takes: 500 nodes and 5,000 pods loaded, scheduled and running, and taken down again.

Run: python benchmarks/scheduling.py [--profile] [NODES [PODS]]
"""

from __future__ import annotations

import cProfile
import os
import pstats
import sys

from killcheck.clock import wall_seconds
from killcheck.embedded.cluster import Cluster
from killcheck.embedded.default_objects import node
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, dig
from killcheck.run.gc_tuning import collect_seldom

#: One Deployment holds so many pods.
EACH = 500


def deployment(number: int, replicas: int) -> Obj:
    """A model server with a GPU to every pod."""
    name = f"server-{number}"
    pod = {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": "registry.example.internal/server:1",
                "resources": {"requests": {"cpu": "2"}, "limits": {"nvidia.com/gpu": "1"}},
            }
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


def phases(cluster: Cluster) -> dict[str, int]:
    """How many pods are in which phase, and how many have a node."""
    found: dict[str, int] = {}
    for pod in cluster.kube.list(r.PODS, "default").items:
        for word in (dig(pod, "status", "phase"), "bound" if dig(pod, "spec", "nodeName") else "waiting"):
            found[word] = found.get(word, 0) + 1
    return found


def play(nodes: int, pods: int) -> None:
    """Load, schedule, run, take down; prints what each took."""
    begun = last = (wall_seconds(), os.times().user)

    def said(what: str, since: tuple[float, float] | None = None) -> None:
        nonlocal last
        wall, cpu = since or last
        last = (wall_seconds(), os.times().user)
        print(f"{what:<44} {last[0] - wall:7.2f} s   {last[1] - cpu:7.2f} s on a CPU", flush=True)

    cluster = Cluster(exec_mode="none")
    said("cluster up")
    cluster.load(
        node(f"gpu-{i}", "p4d.24xlarge", cpu=96, memory="1152Gi", devices={"nvidia.com/gpu": 16}) for i in range(nodes)
    )
    cluster.loop.sleep(5)
    said(f"{nodes} nodes loaded and ready")
    cluster.load(deployment(i, min(EACH, pods - i * EACH)) for i in range(-(-pods // EACH)))
    watched = cluster.informers.of(r.PODS)

    def bound() -> bool:
        return len(watched.objects) >= pods and all(dig(p, "spec", "nodeName") for p in watched.objects.values())

    for _ in range(60):
        cluster.loop.sleep(1)
        if bound():
            break
    said(f"{pods} pods made and scheduled")
    assert phases(cluster).get("bound") == pods, phases(cluster)
    for _ in range(120):
        cluster.loop.sleep(5)
        if phases(cluster).get("Running") == pods:
            break
    said("all running")
    assert phases(cluster)["Running"] == pods, phases(cluster)
    for i in range(-(-pods // EACH)):
        cluster.kube.patch(r.DEPLOYMENTS, f"server-{i}", {"spec": {"replicas": 0}}, "default", subresource="scale")
    for _ in range(120):
        cluster.loop.sleep(5)
        if not phases(cluster):
            break
    said("scaled to zero, all gone")
    assert not phases(cluster), phases(cluster)
    cluster.close()
    said("altogether", begun)


def main() -> None:
    """Play, with or without a profile."""
    collect_seldom()  # as in killcheck's own processes
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()]
    nodes, pods = (sizes + [500, 5000][len(sizes) :])[:2]
    if "--profile" not in sys.argv:
        play(nodes, pods)
        return
    with cProfile.Profile() as profile:
        play(nodes, pods)
    pstats.Stats(profile).sort_stats(os.environ.get("SORT", "cumulative")).print_stats(45)


if __name__ == "__main__":
    main()
