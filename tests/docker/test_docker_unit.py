"""What is true without any engine: how a container's GPUs are counted, what is said where there is no engine."""

from __future__ import annotations

import pytest

from killcheck.engine.connection import host_of, is_docker
from killcheck.engine.projection import TAGS, container_of, creation, devices, moment, pod_of, seconds
from killcheck.engine.registry import parts_of, registry_of, tag_name
from killcheck.kube.errors import KubeConfigError
from killcheck.safety.changes import Undo
from killcheck.safety.vocabulary import objection
from killcheck.spec import specfile
from killcheck.spec.killpath import ContainerRun, Proof

SPEC = """
apiVersion: killcheck/v1
name: workstation
targets: [{name: vllm, kind: Container, object: vllm}]
layers:
  - name: nightly-off
    type: dead-man
    covers: [vllm]
    container: {name: cron, argv: [docker, stop, vllm]}
    schedule: "0 20 * * *"
consent: {contexts: ["docker*"]}
"""


def inspected(host=None, config=None, **state):
    return {
        "Id": "a" * 64,
        "Name": "/vllm",
        "Created": "2026-01-01T00:00:00.123456789Z",
        "HostConfig": host or {},
        "Config": {"Image": "vllm:1", "Labels": {}, **(config or {})},
        "Mounts": [],
        "State": {"Status": "running", "Running": True, "StartedAt": "2026-01-01T00:00:01Z", **state},
        "NetworkSettings": {"Networks": {"backend": {"Aliases": ["vllm", "llm", "a" * 12], "IPAddress": "10.0.0.2"}}},
    }


@pytest.mark.parametrize(
    ("host", "config", "count"),
    [
        ({"DeviceRequests": [{"Count": 4, "Capabilities": [["gpu"]]}]}, {}, 4),
        ({"DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}]}, {}, 1),  # all of them: at least one
        ({"DeviceRequests": [{"Count": 0, "DeviceIDs": ["0", "3"], "Capabilities": [["gpu", "utility"]]}]}, {}, 2),
        ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]}, {}, 1),
        ({"DeviceRequests": [{"Driver": "tpu-vendor", "Capabilities": [["tpm"]]}]}, {}, 0),
        ({"Runtime": "nvidia"}, {"Env": ["NVIDIA_VISIBLE_DEVICES=0,1,2"]}, 3),
        ({"Runtime": "nvidia"}, {"Env": ["NVIDIA_VISIBLE_DEVICES=void"]}, 0),
        (
            {"Runtime": "runc"},
            {"Env": ["NVIDIA_VISIBLE_DEVICES=all"]},
            0,
        ),  # CUDA images say so; runc does nothing about it
        (
            {
                "Devices": [
                    {"PathOnHost": "/dev/nvidia0"},
                    {"PathOnHost": "/dev/nvidia1"},
                    {"PathOnHost": "/dev/nvidiactl"},
                ]
            },
            {},
            2,
        ),
        ({"Devices": [{"PathOnHost": "/dev/kfd"}, {"PathOnHost": "/dev/dri/renderD128"}]}, {}, 1),
        ({"Devices": [{"PathOnHost": "/dev/fuse"}]}, {}, 0),
        ({}, {"Labels": {"killcheck.dev/gpus": "8"}}, 8),
        ({}, {"Labels": {"killcheck.dev/gpus": "many"}}, 1),  # in doubt it holds one
        ({}, {}, 0),
    ],
)
def test_gpus_are_counted_however_a_container_gets_them(host, config, count):
    assert devices(inspected(host, config)) == count


def test_a_paused_container_is_on_and_one_that_has_ended_is_not():
    paused = inspected(Paused=True, Status="paused")
    assert (container_of(paused)["spec"]["replicas"], pod_of(paused, "vm")["status"]["phase"]) == (1, "Running")
    ended = inspected(Running=False, Status="exited", ExitCode=0, FinishedAt="2026-01-01T00:00:09.5Z")
    assert container_of(ended)["spec"]["replicas"] == 0
    written = container_of(ended)["metadata"]["managedFields"][0]
    assert written["time"] == "2026-01-01T00:00:09.5Z"  # the engine's own word for when it went off


def test_networks_are_remembered_as_they_were_asked_for():
    """Aliases are somebody's wish; the address that the engine chose is not."""
    assert container_of(inspected())["spec"]["networks"] == {"backend": {"aliases": ["llm"], "connected": True}}
    assert creation(inspected())["networks"]["backend"]["aliases"] == ["llm"]


def test_times_have_the_engines_nanoseconds_cut():
    assert moment("2026-01-01T00:00:00.123456789Z") == "2026-01-01T00:00:00.123456Z"
    assert moment("0001-01-01T00:00:00Z") == ""


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:00.12Z", "2026-01-01T01:00:00.120+01:00", "2025-12-31T19:00:00.120000000-05:00"]
)
def test_an_engine_may_tell_its_time_in_any_zone(text):
    assert seconds(text) == "1767225600.120000000"


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("localhost:5000/gpu-off:1", ("localhost:5000", "gpu-off", "1")),
        ("registry:5000/team/gpu-off", ("registry:5000", "team/gpu-off", "latest")),
        ("busybox:1", ("", "busybox", "1")),
    ],
)
def test_an_image_reference_names_its_registry(image, parts):
    assert parts_of(image) == parts


def test_a_registry_that_is_no_container_of_the_engine_is_none_of_ours():
    mine = inspected({"PortBindings": {"5000/tcp": [{"HostPort": "5000"}]}})
    assert registry_of([mine], "localhost:5000/x:1") is mine
    assert registry_of([mine], "localhost:5001/x:1") is None
    assert registry_of([mine], "ghcr.io/team/x:1") is None
    assert registry_of([mine], "llm:5000/x:1") is mine


@pytest.mark.parametrize(
    ("name", "known"),
    [
        (tag_name("localhost:5000/team/gpu-off:1"), True),
        ("localhost%3a5000%2Fgpu-off%3A1", False),  # not as it is written
        (tag_name("localhost:5000/../gpu-off:1"), False),
        (tag_name("localhost:5000//gpu-off:1"), False),
        (tag_name("localhost:5000/gpu-off:1?x=y"), False),
        (tag_name("localhost:5000/%2e%2e/x"), False),
    ],
)
def test_a_tag_that_is_made_again_is_named_by_its_image(name, known):
    body = {"metadata": {"name": name}, "spec": {}}
    assert (objection(Undo("create", TAGS.path(), body)) is None) == known
    assert objection(Undo("create", "/api/v1/nodes", {"metadata": {"name": tag_name("a:5/b")}})) is not None


def test_a_spec_of_containers_asks_for_no_node_to_go_and_loads_back():
    path = specfile.loads(SPEC)
    assert path.proof == {Proof.P1, Proof.P4}
    assert path.layers[0].container == ContainerRun("cron", ("docker", "stop", "vllm"))
    assert specfile.loads(specfile.dump(path)) == path
    with pytest.raises(specfile.SpecError, match="namespace is docker"):
        specfile.loads(SPEC.replace("object: vllm", "object: vllm, namespace: gpu"))
    with pytest.raises(specfile.SpecError, match="exactly one of cronJob, container"):
        specfile.loads(SPEC.replace("    container: {", "    cronJob: {namespace: a, name: b}\n    container: {"))


def test_on_names_an_engine(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://build:2375")
    assert (is_docker("docker"), is_docker("docker:/run/d.sock"), is_docker("dockerhub")) == (True, True, False)
    assert host_of("docker") == "tcp://build:2375"
    assert host_of("docker:/run/d.sock") == "unix:///run/d.sock"
    with pytest.raises(KubeConfigError, match="expected an address"):
        host_of("docker:somewhere")


@pytest.mark.parametrize("argv", [["drill", "killcheck.yaml", "--yes"], ["restore"]])
def test_without_an_engine_there_is_one_clear_error(tmp_path, argv):
    from docker_host import killcheck

    pytest.importorskip("docker")
    (tmp_path / "killcheck.yaml").write_text(SPEC)
    code, out, _ = killcheck(tmp_path, *argv, "--on", f"docker:{tmp_path}/no.sock")
    assert (code, "no Docker Engine answers" in out, "Traceback" in out) == (4, True, False), out
    said = [line for line in out.strip().splitlines() if not line.startswith("killcheck: workstation: ")]
    assert len(said) == 1


def test_a_spec_of_kubernetes_is_not_drilled_on_an_engine(tmp_path):
    from docker_host import killcheck

    code, out, _ = killcheck(tmp_path, "drill", "--on", "docker", "--yes")
    assert code == 2
    assert "docker takes a spec that names what may be touched" in out
    (tmp_path / "killcheck.yaml").write_text(
        SPEC.replace("kind: Container, object: vllm", "kind: Deployment, namespace: a, object: vllm")
    )
    code, out, _ = killcheck(tmp_path, "drill", "killcheck.yaml", "--on", "docker", "--yes")
    assert (code, "are of a Kubernetes cluster" in out, "Traceback" in out) == (4, True, False), out
