"""How much the embedded API server answers: requests a second in process and over TLS, a watch, a large cluster, time.

Run: python benchmarks/api_server.py
500 nodes and 5,000 pods are loaded as manifests and told apart from their scheduling, which is timed with them. A night
with the reference path should stay under 1 s (``embedded.py``); here is how many virtual hours a second that makes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from killcheck.clock import WallLoop, wall_seconds
from killcheck.embedded.cluster import Cluster
from killcheck.embedded.default_objects import node
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.config import connect
from killcheck.kube.objects import Obj

REQUESTS = 3000
EVENTS = 1000
NODES, PODS = 500, 5000


def rate(count: int, act: Callable[[int], object]) -> float:
    begun = wall_seconds()
    for number in range(count):
        act(number)
    return count / (wall_seconds() - begun)


def configmap(number: int) -> Obj:
    return {"metadata": {"name": f"c{number}"}, "data": {"key": "value" * 10}}


def verbs(kube: Kube, count: int) -> Iterator[tuple[str, float]]:
    """(verb, requests a second) with ConfigMaps in the namespace ``default``."""
    yield "create", rate(count, lambda n: kube.create(r.CONFIGMAPS, configmap(n), "default"))
    yield "get", rate(count, lambda n: kube.get(r.CONFIGMAPS, f"c{n}", "default"))
    yield "patch", rate(count, lambda n: kube.patch(r.CONFIGMAPS, f"c{n}", {"data": {"key": "x"}}, "default"))
    yield "delete", rate(count, lambda n: kube.delete(r.CONFIGMAPS, f"c{n}", "default"))


@contextmanager
def over_tls(cluster: Cluster) -> Iterator[Kube]:
    """A client over the wire, while the cluster's loop runs on a thread."""
    over = threading.Event()
    thread = threading.Thread(target=cluster.loop.run_until, args=(over.is_set,))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        thread.start()
        try:
            yield connect("killcheck-embedded", kubeconfig=path, loop=WallLoop())
        finally:
            over.set()
            thread.join()


def watching(cluster: Cluster) -> float:
    """Events a second from a write in process to a watcher in process."""
    seen: list[str] = []
    cluster.kube.watch(r.CONFIGMAPS, lambda event: seen.append(event.type), lambda error: None)
    begun = wall_seconds()
    for number in range(EVENTS):
        cluster.kube.create(r.CONFIGMAPS, configmap(number) | {"metadata": {"name": f"w{number}"}}, "default")
    cluster.loop.run_until(lambda: seen.count("ADDED") >= EVENTS, 60.0)
    assert seen.count("ADDED") >= EVENTS
    return EVENTS / (wall_seconds() - begun)


def large() -> tuple[float, float]:
    """(seconds to load 500 nodes and 5,000 pods, seconds until all of them are scheduled and run)."""
    machines = [node(f"n{i}", "g6.4xlarge", cpu=16, memory="64Gi", devices={"nvidia.com/gpu": 1}) for i in range(NODES)]
    pods: list[Obj] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{i}", "namespace": "default"},
            "spec": {
                "containers": [
                    {"name": "c", "image": "nginx:1", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
                ]
            },
        }
        for i in range(PODS)
    ]
    cluster = Cluster(exec_mode="none", speed=None)
    try:
        begun = wall_seconds()
        cluster.load([*machines, *pods])
        loaded = wall_seconds() - begun
        cluster.loop.run_until(lambda: _bound(cluster) == PODS, 3600.0)
        assert _bound(cluster) == PODS
        return loaded, wall_seconds() - begun
    finally:
        cluster.close()


def _bound(cluster: Cluster) -> int:
    return sum(1 for pod in cluster.store.values(("", "pods")) if pod["spec"].get("nodeName"))


def hours(days: int = 7) -> float:
    """Virtual hours a second of the reference kill path's cluster with nothing going on but its nightly firing."""
    from killcheck.run.session import Session

    with Session(fixture="dead-man").cluster() as (cluster, _):
        begun = wall_seconds()
        cluster.loop.sleep(days * 24 * 3600.0)
        return days * 24 / (wall_seconds() - begun)


def main() -> None:
    cluster = Cluster(exec_mode="none")
    for verb, found in verbs(cluster.kube, REQUESTS):
        print(f"in process, {verb:<8} {found:>10.0f} requests/s")
    print(f"watch, {EVENTS} events     {watching(cluster):>10.0f} events/s")
    cluster.close()
    cluster = Cluster(exec_mode="none", speed=1.0)
    with over_tls(cluster) as kube:
        for verb, found in verbs(kube, REQUESTS // 3):
            print(f"over TLS, {verb:<10} {found:>10.0f} requests/s")
    cluster.close()
    loaded, scheduled = large()
    print(f"{NODES} nodes and {PODS} pods: loaded in {loaded:.1f} s, all scheduled after {scheduled:.1f} s")
    print(f"reference path, a quiet week: {hours():.0f} virtual hours a second")


if __name__ == "__main__":
    main()
