"""A machine with kind on it: a stand-in for its command, node containers on a real engine, an API behind its kubeconfig."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from pathlib import Path

from docker_host import IDLE

from killcheck.clock import WallLoop, wall_now
from killcheck.embedded.cluster import Cluster
from killcheck.kube import resources as r

NODES = ("killcheck-control-plane", "killcheck-worker", "killcheck-worker2")


class Stand:
    """A machine with kind on it: the command, node containers, an API, and a kubelet that registers its node."""

    def __init__(self, host, folder: Path) -> None:
        self.host, self.folder = host, folder
        home = folder / "home"
        home.mkdir()
        program = folder / "bin" / "kind"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).parent / "fake_kind.py"} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.environment = {
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "FAKE_KIND_HOME": str(home),
            "DOCKER_HOST": host.address,
        }
        self.home = home
        (home / "nodes").write_text(json.dumps(NODES))
        host.client.networks.create("kind")
        image = host.image("kind-node", [], {"etc/containerd/.keep": "", "usr/bin/kubectl": "kubectl"})
        registry = host.image(
            "kind-registry",
            ["docker-registry"],
            {"config.yml": host.registry_config, "tmp/.keep": "", "var/lib/registry/.keep": ""},
            "EXPOSE 5000",
            'CMD ["docker-registry", "serve", "/config.yml"]',
        )
        host.client.images.get(registry).tag("registry", "3")
        for name in NODES:
            host.run(
                name,
                *IDLE,
                image=image,
                network="kind",
                labels={"io.x-k8s.kind.cluster": "killcheck", "io.x-k8s.kind.role": name.split("-")[1].rstrip("2")},
            )
        self.cluster = Cluster(start=wall_now(), exec_mode="host", speed=1.0)
        self.cluster.registry.only_tags("localhost:5001/kubectl", ["1"])
        self.over = False
        for name in NODES:
            self.register(name)
        self.cluster.wire.start()
        self.cluster.wire.write_kubeconfig(home / "kubeconfig")
        text = (home / "kubeconfig").read_text().replace("killcheck-embedded", "kind-killcheck")
        (home / "kubeconfig").write_text(text)
        self.threads = [threading.Thread(target=t, daemon=True) for t in (self.live, self.kubelets)]
        for thread in self.threads:
            thread.start()

    def register(self, name: str) -> None:
        labels = {"killcheck.dev/gpu": "true"} if name.endswith("2") else {}
        capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        self.cluster.kube.create(
            r.NODES,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"capacity": capacity, "allocatable": capacity},
            },
        )

    def live(self) -> None:
        self.cluster.loop.run_until(lambda: self.over)

    def kubelets(self) -> None:
        """A node whose container is on registers by itself, as a kubelet does that has started.

        One whose container does nothing, or reaches nobody, posts no status any more.
        """
        loop = WallLoop()
        silent = False
        while not self.over:
            loop.sleep(0.3)
            found = self.host.client.api.inspect_container(NODES[2])
            state = found["State"]
            cut = state["Paused"] or not state["Running"] or not found["NetworkSettings"]["Networks"]
            with self.cluster.loop.entered():
                there = self.cluster.kube.find(r.NODES, NODES[2])
                if state["Running"] and there is None:
                    self.register(NODES[2])
                if cut != silent and there is not None:
                    silent = cut
                    (self.cluster.nodes.pause if cut else self.cluster.nodes.start)(NODES[2])

    def calls(self) -> list[list[str]]:
        return [json.loads(line)["argv"] for line in (self.home / "calls").read_text().splitlines()]

    def ask(self, resource, name, namespace=None):
        with self.cluster.loop.entered():
            return self.cluster.kube.find(resource, name, namespace)

    def close(self) -> None:
        self.over = True
        with self.cluster.loop.entered():
            pass
        for thread in self.threads:
            thread.join()
        self.cluster.close()
