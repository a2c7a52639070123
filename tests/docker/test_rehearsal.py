"""``lint --pull`` and ``drill --preflight``: an executor's image run for real.

And an engine that falls silent in the middle of a drill.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from docker_host import CRON_LAYER, ONE_SHOT_LAYER, killcheck

from killcheck.clock import WallLoop
from killcheck.engine.connection import Engine
from killcheck.engine.rehearsal import rehearse


@pytest.mark.parametrize(
    ("argv", "starts", "why"),
    [
        (["sh", "-c", "exit 0"], True, "it starts"),
        (["curl", "-f", "https://x"], False, "executable file not found"),
        (["sh", "-c", "curl https://x"], False, "curl: not found"),
        (["sh", "-c", "curl https://x; true"], False, "goes on without curl"),
        (["sh", "-c", "set -u; echo $TOKEN"], True, "for want of a variable"),
        (["sh", "-c", "wget -q http://10.96.0.1/ || exit 7"], True, "exit code 7 without a network"),
        (["sh", "-c", "test ! -e /var/run/docker.sock && test $(ip -o link | wc -l) -eq 1"], True, "exit code 0"),
    ],
)
def test_whether_a_command_can_start_in_its_image(host, argv, starts, why, monkeypatch):
    monkeypatch.setattr("killcheck.engine.rehearsal.PATIENCE_S", 120)  # each of them ends: on a busy machine, later
    engine = Engine(host.address)
    came = rehearse(engine, host.busybox, argv)
    engine.api.close()
    assert (came.starts, why in came.why) == (starts, True), came
    assert host.client.containers.list(all=True, ignore_removed=True) == []


def test_lint_pull_finds_the_executor_whose_image_lacks_its_command(host, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", host.address)
    (tmp_path / "switch.yaml").write_text(f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: vllm, namespace: a}}
spec:
  selector: {{matchLabels: {{app: vllm}}}}
  template:
    metadata: {{labels: {{app: vllm}}}}
    spec: {{containers: [{{name: v, image: "vllm:1", resources: {{limits: {{nvidia.com/gpu: "1"}}}}}}]}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {{name: gpu-off, namespace: a}}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: x
              image: "{host.busybox}"
              command: [kubectl, scale, deployment/vllm, --replicas=0, -n, a]
""")
    before = host.picture()
    code, out, document = killcheck(tmp_path, "lint", "--manifests", "switch.yaml", "--pull", "--json")
    found = [f for f in document["findings"] if f["probe"] == "image-unusable"]
    assert code == 1, out
    assert len(found) == 1
    assert '"kubectl": executable file not found' in found[0]["message"]
    assert host.picture() == before


def test_a_preflight_ends_a_drill_before_its_trigger_and_leaves_nothing(host, path):
    """The executor's image lacks the command: the server stays on, untouched; mended, it is drilled."""
    server = host.gpu_server()
    server.reload()
    started = server.attrs["State"]["StartedAt"]
    host.run("gpu-off", "docker", "stop", "vllm", start=False)
    spec, before = path.write(ONE_SHOT_LAYER), host.picture()
    argv = ("drill", str(spec), "--on", f"docker:{host.address}", "--yes", "--json", "--preflight")
    code, out, document = killcheck(spec.parent, *argv)
    assert (code, document["drills"], document["not_drilled"]) == (1, [], ["nightly-off"]), out
    assert '"docker": executable file not found' in document["findings"][0]["message"]
    server.reload()
    assert (host.picture(), server.attrs["State"]["StartedAt"]) == (before, started)

    host.client.containers.get("gpu-off").remove()
    host.run(
        "gpu-off",
        "docker",
        "stop",
        "vllm",
        image=host.cli,
        start=False,
        volumes=[f"{host.socket}:/var/run/docker.sock"],
    )
    code, out, document = killcheck(spec.parent, *argv)
    assert (code, document["drills"][0]["verdict"], document["findings"]) == (0, "survived", []), out


def test_a_command_inside_a_container_that_is_on_has_no_image_to_try_and_that_is_said(host, path):
    host.gpu_server()
    host.cron()
    spec, before = path.write(CRON_LAYER), host.picture()
    code, out, _ = killcheck(
        spec.parent, "drill", str(spec), "--on", f"docker:{host.address}", "--preflight", "--dry-run"
    )
    assert code == 0, out
    assert "preflight: nightly-off has no image of its own to try" in out
    assert host.picture() == before


class Line:
    """A way to the engine that can be cut, and mended."""

    def __init__(self, path: Path, target: str) -> None:
        self.path, self.target, self.up, self.over = path, target, True, False
        self.sockets: list[socket.socket] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(64)
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self) -> None:
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            if not self.up or self.over:
                here.close()
                continue
            there = socket.socket(socket.AF_UNIX)
            there.connect(self.target)
            self.sockets += [here, there]
            for source, sink in ((here, there), (there, here)):
                threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    def carry(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            self.end(end)

    @staticmethod
    def end(one: socket.socket) -> None:
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def cut(self) -> None:
        self.up = False
        for one in self.sockets:
            self.end(one)

    def close(self) -> None:
        self.over = True
        self.cut()
        self.end(self.listener)
        self.listener.close()
        self.thread.join()
        for one in self.sockets:
            one.close()


def test_what_an_engine_out_of_reach_does_not_say_is_no_zero(host, path, tmp_path):
    """The server really stops, while the engine cannot be asked: nothing was seen, so nothing is proven."""
    host.gpu_server()
    line = Line(tmp_path / "engine.sock", host.socket)
    flag, off = tmp_path / "cut", tmp_path / "off"
    loop = WallLoop()

    def cut_when_asked() -> None:
        while not flag.exists() and not line.over:
            loop.sleep(0.02)
        line.cut()
        off.touch()
        loop.sleep(6.0)
        line.up = not line.over

    watcher = threading.Thread(target=cut_when_asked)
    watcher.start()
    stops = f"touch {flag}; until [ -e {off} ]; do sleep 0.05; done; docker --host {host.address} stop vllm"
    spec = path.write(f"""
  - name: stopper
    type: command
    covers: [vllm]
    command: {{argv: [sh, -c, "{stops}"]}}
""")
    try:
        code, out, document = killcheck(
            tmp_path, "drill", str(spec), "--on", f"docker:unix://{line.path}", "--watch", "3s", "--yes", "--json"
        )
    finally:
        flag.touch()
        line.over = True
        watcher.join()
        line.close()
    assert document, out
    result = document["drills"][0]
    assert (code, result["verdict"], result["problems"]) == (3, "inconclusive", []), result
    assert host.client.containers.get("vllm").status == "running"
