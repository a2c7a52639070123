"""Pods of our own on a cluster that is somebody's: of an image that is on the node, and never waited for in silence."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from faults_world import World

from killcheck import events, faults
from killcheck.faults.kubernetes import helper_pod
from killcheck.faults.kubernetes.helper_pod import PAUSE, Helper
from killcheck.kube import resources as r
from killcheck.kube.objects import labels_of
from killcheck.spec.killpath import Proof

SERVED = "vllm/vllm-openai:v0.11.0"


@pytest.fixture
def world():
    """What is on the nodes is all that can be had: no registry answers."""
    made = World(real=True)
    made.settle()
    registry = made.cluster.embedded.registry
    for host in ("registry.k8s.io", "docker.io", "public.ecr.aws"):
        registry.set_state(host, "refusing")
    yield made
    made.close()


def noted(world):
    return [event.text for event in world.seen if isinstance(event, events.Noted)]


def images_of(world, label):
    """The images of the pods of our own that a drill made, as they come."""
    seen = []

    def told(_change, _old, pod):
        if label in labels_of(pod) and pod["spec"]["containers"][0]["image"] not in seen:
            seen.append(pod["spec"]["containers"][0]["image"])

    world.cluster.embedded.informers.of(r.PODS).handlers.append(told)
    return seen


def test_a_bystander_is_of_what_the_node_runs_already(world):
    seen = images_of(world, "killcheck.dev/bystander")
    result = world.drill(faults.PdbBlocks, horizon_s=1800.0)
    assert str(result.verdict) == "exposed", result.why
    assert len(seen) == 1
    assert seen[0].startswith("docker.io/vllm/vllm-openai@sha256:")


def test_a_pause_that_the_node_says_it_has_goes_first():
    node = {"status": {"images": [{"names": ["r.io/app@sha256:1", "r.io/app:1"]}, {"names": ["x/mirrored-pause:3.6"]}]}}
    assert [helper.image for helper in helper_pod._listed([node])] == ["x/mirrored-pause:3.6"]


def test_where_none_can_be_had_it_is_said_within_thirty_seconds(world, monkeypatch):
    monkeypatch.setattr("killcheck.faults.kubernetes.drain.helpers", lambda *_: [Helper(PAUSE)])
    began = world.cluster.loop.monotonic()
    result = world.drill(faults.DoNotDisrupt)
    assert str(result.verdict) == "inconclusive"
    assert f"does not start within 30 s ({PAUSE}: ErrImagePull: " in result.why
    assert "connection refused" in result.why
    assert world.cluster.loop.monotonic() - began < 120.0
    assert result.problems == ()


def test_what_is_waited_for_is_told_with_its_end(world, monkeypatch):
    world.cluster.embedded.registry.set_state("registry.k8s.io", "timing-out")
    monkeypatch.setattr("killcheck.faults.kubernetes.drain.helpers", lambda *_: [Helper(PAUSE)])
    world.drill(faults.DoNotDisrupt)
    [told] = [text for text in noted(world) if "to start" in text]
    assert told.startswith(f"waits for a pod of our own ({PAUSE}) to start, since 03:")
    assert " and until 03:" in told


def test_a_run_of_our_own_starts_without_a_registry(world):
    result = world.drill(faults.RunNeverFinishes, horizon_s=1800.0)
    assert list(result.bites) == ["run-never-finishes"], result.why


@pytest.mark.parametrize(
    ("proof", "how"),
    [({Proof.P1, Proof.P2}, "required"), ({Proof.P1, Proof.P4}, "preferred")],  # who asks for no node gives none back
)
def test_a_run_of_our_own_keeps_off_gpu_nodes_as_far_as_it_must(proof, how):
    nodes = [{"metadata": {"name": "gpu-1"}}]
    pod = {"spec": {"tolerations": [{"key": "gpu"}, {"key": "hollow"}]}}
    scene = SimpleNamespace(
        pool_nodes=lambda: nodes,
        gpu_pods=lambda: [SimpleNamespace(name="a", namespace="b")],
        pods=SimpleNamespace(get=lambda *_: pod),
    )
    path = SimpleNamespace(nodes=[SimpleNamespace(floor=0, node_pool="gpu")], proof=proof)
    layer = SimpleNamespace(cron_job={"spec": {"jobTemplate": {"spec": {"template": {"spec": SPEC}}}}})
    stage = SimpleNamespace(scene=scene, kill_path=path, cluster=SimpleNamespace(real=True))
    made = faults.RunNeverFinishes._job(stage, layer, "b", "run", Helper(PAUSE))["spec"]["template"]["spec"]
    assert [*made["affinity"]["nodeAffinity"]] == [f"{how}DuringSchedulingIgnoredDuringExecution"]
    assert made["tolerations"] == [{"key": "hollow"}, {"key": "gpu"}]


SPEC = {"tolerations": [{"key": "hollow"}]}
