"""``--on kind`` against the ``kind`` command's contract: a stand-in for that command, a real engine whose containers
are the nodes, and the embedded cluster as the API behind its kubeconfig. What kind's own node image does is not tested
here: ``make test-kind`` does that, where the image can be had.
"""

from __future__ import annotations

import json
import os
import shutil
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from docker_host import killcheck
from kind_stand import NODES, Stand
from pipeline import ROOT, Runner, installed

from killcheck.clock import wall_now
from killcheck.embedded.controllers import nodelifecycle
from killcheck.kube import resources as r
from killcheck.kube.objects import dig


@pytest.fixture
def stand(host, tmp_path, monkeypatch):
    made = Stand(host, tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


def test_up_makes_a_cluster_and_down_takes_down_what_it_made(stand, tmp_path):
    code, out, _ = killcheck(tmp_path, "cluster", "up", "--on", "kind", "--gpus", "4")
    assert code == 0, out
    create = next(argv for argv in stand.calls() if argv[:2] == ["create", "cluster"])
    assert create == [
        "create",
        "cluster",
        "--name",
        "killcheck",
        "--config",
        "-",
        "--kubeconfig",
        ".killcheck/kind/killcheck.kubeconfig",
        "--wait",
        "180s",
    ]
    stdin = next(
        json.loads(line)["stdin"] for line in (stand.home / "calls").read_text().splitlines() if '"create"' in line
    )
    assert [node["role"] for node in json.loads(stdin)["nodes"]] == ["control-plane", "worker", "worker"]
    assert dig(stand.ask(r.NODES, NODES[2]), "status", "capacity", "nvidia.com/gpu") == "4"
    assert stand.ask(r.CRONJOBS, "gpu-nightly-off", "inference") is not None
    _, hosts = stand.host.client.containers.get(NODES[1]).exec_run(
        ["cat", "/etc/containerd/certs.d/localhost:5001/hosts.toml"]
    )
    assert b"http://killcheck-registry:5000" in hosts
    registry = stand.host.client.containers.get("killcheck-registry")
    assert "kind" in registry.attrs["NetworkSettings"]["Networks"]

    again, out, _ = killcheck(tmp_path, "cluster", "up", "--on", "kind")
    assert again == 0, out
    assert "adopted" in out
    code, out, _ = killcheck(tmp_path, "cluster", "down", "--on", "kind")
    assert (code, "is deleted" in out) == (0, True), out
    assert stand.calls()[-1][:4] == ["delete", "cluster", "--name", "killcheck"]
    left = stand.host.client.containers.list(all=True, ignore_removed=True)
    assert not any(c.name == "killcheck-registry" for c in left)


def test_a_cluster_that_was_there_is_adopted_and_stays(stand, tmp_path):
    (stand.home / "clusters").write_text("killcheck")
    code, out, _ = killcheck(tmp_path, "cluster", "down", "--on", "kind")
    assert (code, "it is left alone" in out) == (4, True), out
    code, out, _ = killcheck(tmp_path, "cluster", "up", "--on", "kind")
    assert code == 0, out
    code, out, _ = killcheck(tmp_path, "cluster", "down", "--on", "kind")
    assert (code, "the cluster stays" in out) == (0, True), out
    assert not any(argv[:2] == ["delete", "cluster"] for argv in stand.calls())


def test_a_drill_watches_the_node_go_and_its_machine_end(stand, tmp_path):
    """P1 to P4: the empty node's container really stops, and really is on again afterwards."""
    assert killcheck(tmp_path, "cluster", "up", "--on", "kind")[0] == 0
    before = stand.host.picture()
    code, out, document = killcheck(tmp_path, "drill", str(quick(tmp_path)), "--on", "kind", "--yes", "--json")
    assert document, out
    result = document["drills"][0]
    assert (code, result["verdict"], result["off_by"]) == (0, "survived", "nightly-off"), result
    reached = {row["phase"]: row["at_s"] for row in result["phases"]}
    assert reached["pods_gone"] < reached["node_gone"] <= reached["instance_gone"]
    assert stand.host.picture() == before


@pytest.mark.parametrize(
    ("fault", "felt"),
    [("node-paused", True), ("node-disconnected", True), ("node-paused", False), ("node-stopped", True)],
)
@pytest.mark.one_in(2)
def test_a_fault_of_the_node_container_bites_once_the_cluster_felt_it_and_heals(
    stand, tmp_path, monkeypatch, fault, felt
):
    monkeypatch.setattr(nodelifecycle, "GRACE_S", 1.0 if felt else 50.0)
    monkeypatch.setattr(nodelifecycle, "PERIOD_S", 0.5)
    assert killcheck(tmp_path, "cluster", "up", "--on", "kind")[0] == 0
    before = stand.host.picture()
    code, out, document = killcheck(
        tmp_path, "drill", str(quick(tmp_path)), "--on", "kind", "--under", fault, "--watch", "5s", "--yes", "--json"
    )
    assert document, out
    result = document["drills"][0]
    told = f"node {NODES[2]}: Ready Unknown: NodeStatusUnknown: Kubelet stopped posting node status."
    assert result["bites"] == ({fault: told} if felt else {}), result
    assert (code, result["problems"]) == (3, []), result  # too short to tell more
    assert stand.host.picture() == before


#: A notice that a test can wait for.
SHORT_NOTICE = "from killcheck.faults.docker.nodes import NodeReclaimed; NodeReclaimed.notice_s = 1.0"


def test_a_reclaimed_node_has_notice_then_its_machine_ends_and_is_put_back(stand, tmp_path, monkeypatch):
    monkeypatch.setattr(nodelifecycle, "GRACE_S", 1.0)
    monkeypatch.setattr(nodelifecycle, "PERIOD_S", 0.5)
    assert killcheck(tmp_path, "cluster", "up", "--on", "kind")[0] == 0
    before, spec = stand.host.picture(), stand.ask(r.NODES, NODES[2])["spec"]
    begun = f"{wall_now().timestamp():.6f}"
    code, out, document = killcheck(
        tmp_path,
        "drill",
        str(quick(tmp_path)),
        "--on",
        "kind",
        "--under",
        "node-reclaimed",
        "--watch",
        "6s",
        "--yes",
        "--json",
        first=SHORT_NOTICE,
    )
    assert document, out
    result = document["drills"][0]
    assert result["bites"]["node-reclaimed"].startswith("its notice ended"), result
    assert f"node {NODES[2]}: Ready Unknown" in result["bites"]["node-reclaimed"], result
    assert (code, result["problems"]) == (3, []), result
    assert {f"undone: notice for {NODES[2]}", f"undone: reclaimed {NODES[2]}"} <= set(result["healed"]), result
    record = [json.loads(line) for line in (tmp_path / document["record"]).read_text().splitlines()]
    told = {one["event"]: datetime.fromisoformat(one["at"]).timestamp() for one in record}
    # The engine's own word: the machine ended once, after its notice and while the drill watched, and came back.
    told_by_engine = stand.host.client.api.events(
        since=begun,
        until=f"{wall_now().timestamp():.6f}",
        decode=True,
        filters={"container": NODES[2], "event": ["die", "start"]},
    )
    seen = [(one["Action"], one["timeNano"] / 1e9) for one in told_by_engine]
    assert [action for action, _ in seen] == ["die", "start"], seen
    assert told["FaultInjected"] + 0.9 <= seen[0][1] <= told["Judged"] <= seen[1][1] <= told["Healed"], (told, seen)
    assert stand.host.picture() == before
    assert stand.ask(r.NODES, NODES[2])["spec"] == spec


#: The shipped spec's deadlines, for a test: where a drill says none, and where it says 45 s.
SHORT = 'case " $* " in *" --under "*) set -- "$@" --watch 4s;; " drill "*) set -- drill ../quick.yaml "${@:2}";; esac'


def test_the_recipe_as_it_is_pasted(stand, tmp_path):
    """Every step of ci/github/kind.yaml, by the shipped spec; its drills wait for less."""
    home, bin_, own = (tmp_path / name for name in ("checkout", "programs", "own"))
    for folder in (home, bin_, own):
        folder.mkdir()
    with installed(bin_, own, more=SHORT) as path:
        runner = Runner(home, path)
        runner.env.update({**stand.environment, "PATH": f"{path}:{stand.environment['PATH']}"})
        before = stand.host.picture()
        quick(tmp_path)
        runner.job(yaml.safe_load((ROOT / "ci/github/kind.yaml").read_text())["jobs"]["drill"])
    assert not runner.failed, "\n".join(runner.failed)
    assert stand.host.picture() == before


def quick(folder: Path) -> Path:
    """The shipped spec with short deadlines."""
    from killcheck.cluster.kind import SPEC

    file = folder / "quick.yaml"
    file.write_text(SPEC.read_text().replace("held: 15s", "held: 1s"))
    return file


def test_without_the_command_one_clear_error(host, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", host.address)
    monkeypatch.setenv("PATH", "/nowhere")
    code, out, _ = killcheck(tmp_path, "cluster", "up", "--on", "kind")
    assert (code, "the kind command is not on the PATH" in out, "Traceback" in out) == (4, True, False), out


@pytest.mark.skipif(not os.environ.get("KILLCHECK_TEST_KIND"), reason="make test-kind: it downloads kind's node image")
def test_real_kind(tmp_path):
    """The founding story with real kubelets: survived; its image gone: exposed, in the kubelet's words; healed."""
    assert shutil.which("kind"), "the kind command is not on the PATH"
    code, out, _ = killcheck(tmp_path, "cluster", "up", "--on", "kind", timeout=1200)
    assert code == 0, out
    try:
        code, out, document = killcheck(tmp_path, "drill", "--on", "kind", "--yes", "--json", timeout=900)
        assert document, out
        assert (code, document["drills"][0]["verdict"]) == (0, "survived"), document
        code, out, document = killcheck(
            tmp_path, "drill", "--on", "kind", "--under", "image-gone", "--watch", "45s", "--yes", "--json", timeout=900
        )
        assert document, out
        result = document["drills"][0]
        assert (code, result["verdict"], result["stuck_at"]) == (1, "exposed", "image_pulled"), result
        assert result["problems"] == []
    finally:
        assert killcheck(tmp_path, "cluster", "down", "--on", "kind", timeout=300)[0] == 0
