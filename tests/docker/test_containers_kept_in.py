"""``--exec docker``: a stranger's program in a container of the engine has no rights, and an end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from docker_host import until

from killcheck.embedded import Cluster
from killcheck.embedded.nodes import container_bounds, container_guardian
from killcheck.kube import resources as r

#: What it says of itself, and what it tries; each line is one attempt.
TRIES = r"""
grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status
say() { echo "$1: $(shift; "$@" 2>&1 | tail -n 1)"; }
say mount mount -t tmpfs none /bin
say device mknod /disk b 254 0
say owner chown 7 /bin/busybox
say chroot chroot /bin sh
say socket ls /var/run/docker.sock
say hostname hostname elsewhere
say core sh -c 'ulimit -Hc'
dd if=/dev/zero of=/big bs=1M count=12 2>/dev/null
say big wc -c /big
i=0; while [ $i -lt 600 ]; do sleep 60 & i=$((i+1)); done
"""
REFUSED = ("Operation not permitted", "Permission denied", "(are you root?)")


def pod(image, script, **more):
    container = {"name": "main", "image": image, "command": ["sh", "-c", script], **more}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "job", "namespace": "team", "annotations": {"killcheck.dev/execute": "true"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


@pytest.fixture
def ran(host, monkeypatch):
    """Runs a pod to its end: (its phase, its log, what is not known of it)."""
    monkeypatch.setenv("DOCKER_HOST", host.address)

    def run(script, **more):
        with Cluster(exec_mode="docker") as cluster:
            cluster.load(
                [
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
                    pod(host.busybox, script, **more),
                ]
            )

            def phase():
                return cluster.kube.get(r.PODS, "job", "team")["status"].get("phase")

            cluster.loop.run_until(lambda: bool(cluster.unknowns) or phase() in ("Succeeded", "Failed"), 600)
            log = "\n".join(kept.text for kept in logs(cluster))
            return phase(), log, list(cluster.unknowns)

    return run


def logs(cluster):
    """What its containers have said."""
    running = cluster.nodes.runtime.running
    return [one.log() for each in running.values() for one in each]


def test_it_has_no_rights_and_limits(ran, monkeypatch):
    monkeypatch.setattr(container_bounds, "FILE_MOST", 8 << 20)
    _, log, unknown = ran(TRIES)
    assert unknown == []
    said = dict(line.split(":", 1) for line in log.splitlines() if ":" in line and "fork" not in line)
    assert {int(said[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert (said["NoNewPrivs"].strip(), said["Seccomp"].strip()) == ("1", "2")
    refused = [name for name in ("mount", "device", "owner", "chroot", "hostname") if not said[name].endswith(REFUSED)]
    assert {name: said[name] for name in refused} == {}
    assert said["socket"].endswith("No such file or directory")
    assert said["core"].strip() == "0"
    assert said["big"].split()[0] == str(8 << 20)
    assert "fork" in log


def test_its_manifest_says_how_much_memory_it_has(ran):
    greedy = "dd if=/dev/zero of=/dev/null bs=64M count=1"
    assert ran(greedy, resources={"limits": {"memory": "16Mi"}})[0] == "Failed"
    assert ran(greedy, resources={"limits": {"memory": "256Mi"}})[0] == "Succeeded"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("yes", "it filled more than 1 MiB with its output"),
        ("i=0; while :; do i=$((i+1)); dd if=/dev/zero of=/$i bs=1M count=4 2>/dev/null; done", "to its disk"),
        ("sleep 1000", "it ran for more than"),
    ],
    ids=["output", "disk", "time"],
)
@pytest.mark.one_in(3)
def test_what_takes_too_much_is_stopped_and_told(ran, script, why, monkeypatch):
    monkeypatch.setattr(container_bounds, "DISK_MOST", 32 << 20)
    monkeypatch.setattr(container_bounds, "OUTPUT_LIMIT", 1 << 20)
    monkeypatch.setattr(container_bounds, "LOOK_S", 0.1)
    if script.startswith("sleep"):
        monkeypatch.setattr(container_bounds, "WALL_MOST_S", 0.5)
    _, _, unknown = ran(script)
    assert len(unknown) == 1
    assert why in unknown[0]
    assert unknown[0].endswith("and was stopped")


KILLED = """
import sys
from killcheck.embedded import Cluster
from test_containers_kept_in import pod
cluster = Cluster(exec_mode="docker")
cluster.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, pod(sys.argv[1], "sleep 3600")])
cluster.loop.run_until(lambda: bool(cluster.nodes.runtime.running), 600)
print("running", flush=True)
sys.stdin.read()
"""


def test_it_does_not_outlive_a_killcheck_that_was_killed(host):
    marked = {"label": container_guardian.LABEL}
    environment = {**os.environ, "DOCKER_HOST": host.address, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, host.busybox], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout.readline() == b"running\n"
        assert len(host.client.containers.list(filters=marked)) == 1
        process.send_signal(signal.SIGKILL)
    left = {"all": True, "filters": marked, "ignore_removed": True}
    until(lambda: not host.client.containers.list(**left), "its container goes")
    until(lambda: not host.client.networks.list(filters=marked), "its network goes")
