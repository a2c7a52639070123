"""How long after a write an informer hears of it, over TLS: the embedded API server's, or a real one's.

Run: python benchmarks/watch_latency.py [CONTEXT [KUBECONFIG]]
With a context a ConfigMap is written and removed in its namespace ``default``.
To reach: under 100 ms for 99 of 100. The figure includes the write itself.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from killcheck.clock import WallLoop, wall_seconds
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.config import connect
from killcheck.kube.informer import Informer
from killcheck.kube.objects import Obj, dig

WRITES = 500
NAME = "killcheck-watch-latency"


@contextmanager
def embedded() -> Iterator[tuple[str, Path]]:
    """(context, kubeconfig) of an embedded cluster whose loop runs on a thread, at the wall's pace."""
    from killcheck.embedded.cluster import Cluster

    cluster = Cluster(exec_mode="none", speed=1.0)
    over = threading.Event()
    thread = threading.Thread(target=cluster.loop.run_until, args=(over.is_set,))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        thread.start()
        try:
            yield "killcheck-embedded", path
        finally:
            over.set()
            cluster.loop.call_soon(lambda: None)
            thread.join()
            cluster.close()


def write(kube: Kube) -> None:
    """Write the time into a ConfigMap, again and again, on a connection of its own."""
    metadata = {"name": NAME, "namespace": "default"}
    kube.create(r.CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    try:
        for _ in range(WRITES):
            kube.patch(r.CONFIGMAPS, NAME, {"data": {"written": repr(wall_seconds())}}, "default")
    finally:
        kube.delete(r.CONFIGMAPS, NAME, "default")


def measure(context: str, kubeconfig: Path | None) -> list[float]:
    """Milliseconds from each write's beginning to ``on_change``, sorted."""
    loop, took = WallLoop(), []

    def heard(change: str, _old: Obj | None, new: Obj) -> None:
        written = dig(new, "data", "written")
        if change == "modified" and written:
            took.append((wall_seconds() - float(written)) * 1000)

    informer = Informer(
        connect(context, kubeconfig=kubeconfig, loop=loop), loop, r.CONFIGMAPS, namespace="default", on_change=heard
    )
    informer.start()
    loop.sleep(0.3)
    writer = threading.Thread(target=write, args=(connect(context, kubeconfig=kubeconfig, loop=WallLoop()),))
    writer.start()
    loop.run_until(lambda: len(took) >= WRITES, 120)
    writer.join()
    informer.stop()
    return sorted(took)


def report(took: list[float]) -> None:
    cuts = statistics.quantiles(took, n=100)
    print(
        f"{len(took)} of {WRITES} writes heard of: median {cuts[49]:.1f} ms, 99 % {cuts[98]:.1f} ms, "
        f"worst {took[-1]:.1f} ms (to reach: 99 % under 100 ms)"
    )


def main() -> None:
    if len(sys.argv) > 1:
        report(measure(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None))
        return
    with embedded() as (context, path):
        report(measure(context, path))


if __name__ == "__main__":
    main()
