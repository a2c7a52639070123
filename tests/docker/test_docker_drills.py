"""Whole drills on a real Docker Engine without Kubernetes: the same sequence, the same proof, nothing left behind."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event, Thread

from docker_host import CONSENT, CRON_LAYER, IDLE, ONE_SHOT_LAYER, killcheck


def drill(host, spec, *argv):
    code, out, document = killcheck(
        spec.parent, "drill", str(spec), "--on", f"docker:{host.address}", "--yes", "--json", *argv
    )
    assert document, out
    return code, document["drills"][0]


@contextmanager
def told_when_triggered(folder):
    """A folder in which a file ``now`` appears once a drill that was begun meanwhile watches."""
    made, over, known = folder / f"idle-{len(list(folder.iterdir()))}", Event(), set(folder.rglob("*.jsonl"))
    made.mkdir()

    def tell():
        while not over.wait(0.05):
            if any('"Triggered"' in file.read_text() for file in set(folder.rglob("*.jsonl")) - known):
                (made / "now").touch()
                return

    telling = Thread(target=tell)
    telling.start()
    try:
        yield made
    finally:
        over.set()
        telling.join()


def phases(result):
    return {row["phase"]: row["at_s"] for row in result["phases"]}


def test_a_cron_container_stops_a_server_with_gpus_and_it_is_on_again_afterwards(host, path):
    host.gpu_server(gpus=4)
    host.cron()
    before = host.picture()
    code, result = drill(host, path.write(CRON_LAYER))
    assert (code, result["verdict"], result["off_by"]) == (0, "survived", "nightly-off"), result
    seen = phases(result)
    assert 0 <= seen["container_started"] <= seen["scale_written"] <= seen["held"]
    assert "node_gone" not in seen  # a Docker host stays on; nobody asked for P2
    assert host.picture() == before


def test_the_tag_of_a_one_shot_executor_is_deleted_for_real_and_given_back(host, path):
    """The founding story: the real pull fails, the drill says exposed with the registry's words; then it survives."""
    where = host.registry()
    host.push(host.cli, f"{where}/gpu-off:1")
    host.gpu_server()
    host.run(
        "gpu-off",
        "docker",
        "stop",
        "vllm",
        image=f"{where}/gpu-off:1",
        start=False,
        volumes=[f"{host.socket}:/var/run/docker.sock"],
    )
    spec, before = path.write(ONE_SHOT_LAYER), host.picture()

    code, result = drill(host, spec, "--under", "tag-deleted", "--watch", "5s")
    assert (code, result["verdict"], result["stuck_at"]) == (1, "exposed", "image_pulled"), result
    assert "manifest unknown" in result["cause"]
    assert f"{where}/gpu-off:1" in result["bites"]["tag-deleted"]
    assert result["gpu_pods"] == ["docker/vllm"]
    assert host.picture() == before

    code, result = drill(host, spec)
    assert (code, result["verdict"]) == (0, "survived"), result
    assert host.picture() == before


def test_a_container_that_its_end_removes_is_made_again_as_it_was(host, path):
    """docker run --rm: stopped, it is gone; its environment stays on the engine and in no journal."""
    host.gpu_server(
        environment={"HF_TOKEN": "hf_notforjournals"},
        auto_remove=True,
        labels={**CONSENT, "com.docker.compose.service": "vllm"},
    )
    host.cron()
    before = host.picture()
    spec = path.write(CRON_LAYER, targets="[{name: vllm, kind: Container, selector: com.docker.compose.service=vllm}]")
    code, result = drill(host, spec)
    assert (code, result["verdict"], result["problems"]) == (0, "survived", []), result
    assert host.picture() == before
    written = [file.read_text() for file in spec.parent.rglob("*.jsonl")]
    assert written
    assert not any("hf_notforjournals" in text for text in written)


def test_a_worker_that_ends_itself_and_one_that_is_started_again(host, path):
    layer = "\n  - {name: idle-exit, type: self-terminating, covers: [vllm]}\n"
    idle = ["sh", "-c", "until [ -e /idle/now ]; do sleep 0.1; done; sleep 1; exit 0"]
    with told_when_triggered(path.folder) as folder:
        host.gpu_server("vllm", *idle, volumes=[f"{folder}:/idle"])
        code, result = drill(host, path.write(layer))
    assert (code, result["verdict"]) == (0, "survived"), result
    host.client.containers.get("vllm").remove(force=True)

    with told_when_triggered(path.folder) as folder:
        host.gpu_server("vllm", *idle, volumes=[f"{folder}:/idle"], restart_policy={"Name": "always"})
        code, result = drill(host, path.write(layer), "--watch", "12s")
    assert (code, result["verdict"]) == (1, "exposed"), result
    assert "exit 0 is no end" in result["cause"]


def test_a_command_of_the_host_as_a_systemd_timer_runs_it(host, path):
    host.gpu_server()
    before = host.picture()
    layer = f"""
  - name: gpu-off.timer
    type: command
    covers: [vllm]
    schedule: "0 20 * * *"
    command: {{argv: [docker, --host, "{host.address}", stop, vllm]}}
"""
    code, result = drill(host, path.write(layer))
    assert (code, result["verdict"], result["off_by"]) == (0, "survived", "gpu-off.timer"), result
    assert host.picture() == before


def test_another_container_with_gpus_that_nobody_stops_is_no_proof(host, path):
    """What nobody named is watched all the same: the GPUs of this host are not off while a notebook holds one."""
    host.gpu_server()
    host.gpu_server("notebook", gpus=1, labels={})
    host.cron()
    code, result = drill(host, path.write(CRON_LAYER, started="10s", gone="10s"), "--watch", "14s")
    assert (code, result["verdict"], result["stuck_at"]) == (1, "exposed", "pods_gone"), result
    assert result["gpu_pods"] == ["docker/notebook"]


def test_what_is_off_already_proves_nothing(host, path):
    host.gpu_server(start=False)
    host.cron()
    code, result = drill(host, path.write(CRON_LAYER))
    assert (code, result["verdict"]) == (3, "inconclusive"), result
    assert "nothing to turn off" in result["why"]


def test_a_container_that_did_not_opt_in_is_not_touched(host, path):
    host.gpu_server(labels={})
    host.cron()
    before = host.picture()
    spec = path.write(CRON_LAYER)
    code, out, _ = killcheck(spec.parent, "drill", str(spec), "--on", f"docker:{host.address}", "--yes")
    assert code == 2
    assert "container vllm has not opted in" in out
    assert "Traceback" not in out
    assert host.picture() == before


def test_the_executor_fails_and_its_own_words_are_the_cause(host, path):
    host.gpu_server()
    host.cron()
    spec = path.write(CRON_LAYER.replace("docker, stop, vllm", "docker, stop, vlm"))
    code, result = drill(host, spec, "--watch", "8s")
    assert (code, result["verdict"]) == (1, "exposed"), result
    assert "No such container: vlm" in result["cause"]


def test_two_targets_of_which_the_layer_forgets_one(host, path):
    host.gpu_server()
    host.gpu_server("embedder", gpus=1)
    host.cron()
    spec = path.write(
        CRON_LAYER.replace("covers: [vllm]", "covers: [vllm, embedder]"),
        targets="[{name: vllm, kind: Container, object: vllm}, {name: embedder, kind: Container, object: embedder}]",
        started="6s",
        gone="6s",
    )
    code, result = drill(host, spec, "--watch", "8s")
    assert (code, result["verdict"]) == (1, "exposed"), result
    assert result["gpu_pods"] == ["docker/embedder"]


def test_idle_is_what_ends_at_term(host):
    made = host.run("idle", *IDLE)
    made.stop(timeout=5)
    made.reload()
    assert made.attrs["State"]["ExitCode"] == 0
