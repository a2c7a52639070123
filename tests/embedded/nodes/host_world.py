"""A world that runs executors as processes on this host, with namespaces and without."""

import subprocess
import sys
import textwrap

import pytest
from node_world import World, pod

from killcheck.embedded.nodes.host_runtime import HostRuntime

LINUX = sys.platform.startswith("linux")


class Host(World):
    """A world that runs executors; ``run_pod`` runs one to its end."""

    def __init__(self, isolation):
        super().__init__(exec_mode="none")
        self.host = HostRuntime(self.loop, self.wire, isolation=isolation)
        self.nodes.runtime = self.host
        for kubelet in self.nodes.kubelets.values():
            kubelet.runtime = self.host
        self.add(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "target", "namespace": "team"},
                "data": {"replicas": "1"},
            }
        )

    def run_pod(self, script=None, *, image="localhost:5000/rec/executor:1", timeout_s=90_000, **options):
        if script is not None:
            options["command"] = ["sh", "-c", textwrap.dedent(script)]
        self.add(pod("job", image=image, policy="Never", **options))
        over = self.run_until_over("job", timeout_s)
        ended = over["status"]["containerStatuses"][0]["state"]["terminated"]
        return ended["exitCode"], self.log("job")

    def allow(self):
        verbs = ["get", "patch", "list"]
        self.grant("target", rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}])


def namespaces_work():
    if not LINUX:
        return False
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "true"],
        check=False,
        capture_output=True,
    )
    return done.returncode == 0


MODES = [
    pytest.param("namespaces", marks=pytest.mark.skipif(not namespaces_work(), reason="no user namespaces here")),
    "unisolated",
]
