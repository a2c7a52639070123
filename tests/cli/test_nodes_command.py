"""``killcheck nodes``: hollow GPU nodes on a cluster over TLS, and none of them left behind."""

from __future__ import annotations

import threading

import pytest
from click.testing import CliRunner

from killcheck.cli import main
from killcheck.clock import WallLoop, wall_now
from killcheck.cluster.hollow_nodes import HollowNodes, Shape
from killcheck.embedded.cluster import Cluster
from killcheck.kube import resources as r
from killcheck.kube.config import connect
from killcheck.kube.objects import dig, labels_of, name_of
from killcheck.safety.changes import LABEL
from killcheck.safety.journal import JOURNAL_LABEL
from killcheck.safety.lease import LEASE_LABEL

CONTEXT = "killcheck-embedded"
SPEC = """
apiVersion: killcheck/v1
kind: KillPath
name: render
targets: [{name: render, kind: Deployment, namespace: studio, object: render}]
layers: []
nodes: [{name: gpu, selector: studio/pool=gpu, instanceType: p5.48xlarge}]
consent: {contexts: [%s], protected: ["*live*"], namespaces: [studio], pools: [gpu], maxGpuNodes: 4}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A cluster over TLS whose namespace `studio` has opted in, and its kubeconfig."""
    cluster = Cluster(start=wall_now(), exec_mode="none", speed=1.0)
    cluster.load(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            for name, labels in (("studio", {"killcheck.dev/consent": "true"}), ("other", {}))
        ]
    )
    file = tmp_path_factory.mktemp("served") / "kubeconfig"
    cluster.wire.start()
    cluster.wire.write_kubeconfig(file)
    over = threading.Event()
    thread = threading.Thread(target=lambda: cluster.loop.run_until(over.is_set), daemon=True)
    thread.start()
    yield cluster, file
    over.set()
    with cluster.loop.entered():
        pass
    thread.join()
    cluster.close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "killcheck.yaml").write_text(SPEC % CONTEXT)
    return tmp_path


def run(served, *argv):
    return CliRunner().invoke(main, ["nodes", *argv, "--kubeconfig", str(served[1])])


def up(served, *argv):
    return run(served, "up", "--on", CONTEXT, "--yes", *argv)


def traces(cluster):
    """What is there of any run."""
    with cluster.loop.entered():
        kube = cluster.kube
        return [
            *(name_of(node) for node in kube.list(r.NODES).items if LABEL in labels_of(node)),
            *(name_of(one) for one in kube.list(r.LEASES, labels=LEASE_LABEL).items),
            *(name_of(one) for one in kube.list(r.LEASES, "kube-node-lease").items if "hollow" in name_of(one)),
            *(name_of(one) for one in kube.list(r.CONFIGMAPS, labels=JOURNAL_LABEL).items),
        ]


def ended_when(monkeypatch, seen):
    """``nodes up`` is interrupted at its first look; ``seen`` gets the Nodes as they are then."""

    def check(hollow):
        seen.extend(hollow.kube.list(r.NODES, labels=f"{LABEL}={hollow.run}").items)
        raise KeyboardInterrupt

    monkeypatch.setattr(HollowNodes, "check", check)
    monkeypatch.setattr("killcheck.commands.nodes.LOOK_S", 0.0)


def test_they_are_registered_kept_and_taken_away(served, folder, monkeypatch):
    seen = []
    ended_when(monkeypatch, seen)
    result = up(served, "--count", "2", "--label", "studio/rack=7")
    assert result.exit_code == 0, result.output
    assert [dig(node, "status", "capacity", "nvidia.com/gpu") for node in seen] == ["8", "8"]
    for node in seen:
        assert {
            "studio/pool": "gpu",
            "studio/rack": "7",
            "node.kubernetes.io/instance-type": "p5.48xlarge",
        }.items() <= (labels_of(node).items())
        assert {"key": "killcheck.dev/hollow", "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
        assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
    assert "the hollow nodes are gone" in result.output
    assert traces(served[0]) == []


def test_nodes_without_gpus_are_of_no_pool(served, folder, monkeypatch):
    seen = []
    ended_when(monkeypatch, seen)
    assert up(served, "--gpus", "0").exit_code == 0
    assert not {"studio/pool", "node.kubernetes.io/instance-type"} & {*labels_of(seen[0])}


def test_a_process_that_was_killed_leaves_them_to_down(served, folder, monkeypatch):
    loop = WallLoop()
    kube = connect(CONTEXT, kubeconfig=served[1], loop=loop)
    hollow = HollowNodes(kube, loop, Shape(2), home="studio", context=CONTEXT, folder=folder / ".killcheck" / "runs")
    names = hollow.up()
    hollow.kubelets.stop()
    hollow.claim.abandon()
    assert {*names} <= {*traces(served[0])}
    kept = run(served, "down")
    assert f"restore --on {CONTEXT} --run {hollow.run}; if it died, ask again in" in kept.output
    assert {*names} <= {*traces(served[0])}, "its process, this one, is alive"
    monkeypatch.setattr("killcheck.safety.orphans.runs", lambda pid, began="": False)
    result = run(served, "down")
    assert result.exit_code == 0, result.output
    assert hollow.run in result.output
    assert not {*traces(served[0])} - {*names}  # their own Leases are the garbage collector's
    assert "there are no hollow nodes" in run(served, "down").output


@pytest.mark.parametrize(
    ("spec", "argv", "said"),
    [
        (SPEC % "elsewhere", [], "is not among consent.contexts"),
        (SPEC % "'*'", ["--on", "live-1"], "is protected"),
        (SPEC % CONTEXT, ["--namespace", "other"], "namespace other is not named in the spec"),
        ((SPEC % CONTEXT).replace("studio]", "other]"), [], "namespace other has not opted in"),
        (SPEC % CONTEXT, ["--count", "5"], "the spec allows 4 (consent.maxGpuNodes)"),
        (SPEC % CONTEXT, ["--type", "p5.49xlarge"], "did you mean p5"),
        (SPEC % CONTEXT, ["--taint", "gpu"], "--taint takes KEY[=VALUE]:EFFECT"),
        (SPEC % CONTEXT, ["--taint", "gpu:PreferNoSchedule"], "nothing that does not tolerate"),
        (SPEC % CONTEXT, ["--label", "gpu"], "--label takes KEY=VALUE"),
        (SPEC % CONTEXT, ["--pool", "cpu"], "the spec has no node pool cpu"),
    ],
)
def test_what_nobody_agreed_to_is_refused_and_nothing_is_made(served, folder, spec, argv, said):
    (folder / "killcheck.yaml").write_text(spec)
    result = up(served, *argv)
    assert result.exit_code == 2
    assert said in result.output
    assert traces(served[0]) == []


def test_without_a_spec_nobody_has_consented(served, folder):
    (folder / "killcheck.yaml").unlink()
    result = up(served)
    assert result.exit_code == 2
    assert "killcheck.yaml" in result.output


def test_a_person_is_asked(served, folder):
    result = run(served, "up", "--on", CONTEXT)
    assert result.exit_code == 4
    assert "say --yes" in result.output
    assert traces(served[0]) == []
