"""Real binaries, where they are (``KUBEBUILDER_ASSETS`` or the PATH): ``--on envtest``, and real controllers on our API server."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from killcheck.capabilities.cluster import ClusterError
from killcheck.clock import wall_now
from killcheck.cluster import binaries
from killcheck.cluster.envtest import EnvtestCluster, _shapes
from killcheck.embedded import Cluster
from killcheck.kube import resources as r
from killcheck.kube.objects import dig, name_of
from killcheck.run.public import run_drill
from killcheck.run.session import Session, _thrown_away
from killcheck.safety import consent
from killcheck.text.values import replace


def _there() -> bool:
    try:
        return bool(binaries.found())
    except ClusterError:
        return False


given = pytest.mark.skipif(not _there(), reason="no etcd, kube-apiserver, kube-controller-manager and kube-scheduler")


@given
def test_the_reference_night_survives_on_a_real_control_plane(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        result = run_drill(layer="nightly-off", on="envtest", approve=lambda _plan: True)
    finally:
        EnvtestCluster.end()
    assert (str(result.verdict), list(result.problems)) == ("survived", [])


@given
def test_real_controllers_run_a_night_on_the_embedded_api_server(tmp_path):
    """They take the not-ready taint from nodes, make and place the pods; Karpenter's model brings the GPU node."""
    parts = Cluster.components()
    off = frozenset(parts["kube-controller-manager"]) | frozenset(parts["kube-scheduler"])
    config, running = tmp_path / "kubeconfig", []
    with Cluster(start=wall_now().replace(microsecond=0), speed=1.0, exec_mode="none", disabled=off) as cluster:
        cluster.load(Session(fixture="dead-man").objects)
        cluster.wire.start()
        cluster.wire.write_kubeconfig(config)
        try:
            for name in ("kube-controller-manager", "kube-scheduler"):
                told = [f"--{one}={config}" for one in ("kubeconfig", "authentication-kubeconfig")]
                told += [f"--authorization-kubeconfig={config}", "--bind-address=127.0.0.1", "--leader-elect=false"]
                told += [f"--secure-port={binaries._free_ports(1)[0]}", f"--cert-dir={tmp_path}"]
                with (tmp_path / f"{name}.log").open("wb") as log:
                    program = [str(binaries.found()[name]), *told]
                    running.append(subprocess.Popen(program, stdout=log, stderr=log))
            on = cluster.loop.run_until(lambda: _on(cluster), 240)
        finally:
            for process in running:
                process.kill()
                process.wait()
        tainted = [name_of(node) for node in cluster.kube.list(r.NODES).items if "not-ready" in str(dig(node, "spec"))]
    assert (on, tainted) == (True, [])


def _on(cluster: Cluster) -> bool:
    found = cluster.kube.find(r.DEPLOYMENTS, "vllm", "inference")
    return bool(dig(found or {}, "status", "readyReplicas"))


def test_what_is_missing_is_named_with_where_it_was_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(binaries.ASSETS, str(tmp_path))
    with pytest.raises(ClusterError, match=r"^--on envtest: etcd, .* is neither in KUBEBUILDER_ASSETS \(/"):
        EnvtestCluster([], pools=[], home="a")


def test_a_program_that_does_not_come_up_is_told_with_its_last_words_and_leaves_nothing(monkeypatch, tmp_path):
    for name in binaries.PROGRAMS:
        _program(tmp_path / name, "echo no such flag >&2; exit 3" if name == "kube-apiserver" else "exec sleep 60")
    monkeypatch.setenv(binaries.ASSETS, str(tmp_path))
    plane = binaries.ControlPlane("envtest")
    kept = []
    monkeypatch.setattr(binaries.tempfile, "mkdtemp", lambda prefix: kept.append(tmp_path / prefix) or _made(kept[0]))
    with pytest.raises(ClusterError, match=r"--on envtest: .*/kube-apiserver ended: no such flag$"):
        plane.start()
    assert not kept[0].exists()
    assert plane._processes == []


def _made(path: Path) -> str:
    path.mkdir()
    return str(path)


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_nodes_are_made_for_what_is_loaded():
    def holder(name: str, gpus: int, replicas: int, **pod: object) -> dict:
        limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
        spec = {"containers": [{"name": "c", "resources": limits}]} | pod
        return {
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "template": {"spec": spec}},
        }

    tolerant = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "nodeSelector": {"pool": "a"}}
    shapes = _shapes(
        [holder("a", 8, 3, **tolerant), holder("b", 4, 2, **tolerant), holder("c", 16, 1), holder("d", 0, 5)],
        [{"pool": "a", "zone": "z"}],
    )
    assert [(one.count, one.gpus, dict(one.labels), bool(one.taints)) for one in shapes] == [
        (4, 8, {"pool": "a", "zone": "z"}, True),
        (1, 16, {"pool": "a", "zone": "z"}, False),
    ]


def test_where_every_node_is_the_runs_own_no_pool_has_to_be_named():
    path = Session(fixture="dead-man").kill_path
    unnamed = replace(path, nodes=())
    assert list(consent._pools(unnamed)) == ["no node pool is named: list the GPU pools under nodes:"]
    assert list(consent._pools(_thrown_away(unnamed))) == []
