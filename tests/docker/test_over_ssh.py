"""A Docker Engine by ssh, as the page shows it: ``--on docker:ssh://USER@HOST``, over a real sshd on loopback."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SPEC = """apiVersion: killcheck/v1
name: gpu-box
targets:
  - {name: vllm, kind: Container, object: vllm, instanceType: g6.12xlarge}
layers:
  - {name: nightly-off, type: dead-man, covers: [vllm], container: {name: cron, argv: [docker, stop, vllm]}, schedule: "0 20 * * *"}
deadlines: {podsGone: 2m, held: 1s}
proof: [P1, P4]
consent: {contexts: ["ON"]}
"""


def keys(*files):
    for file in files:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)


@pytest.fixture
def server(tmp_path, host):
    """(address, home): an sshd whose commands find the engine, and a home that may log in there."""
    if SSHD is None or not shutil.which("ssh-keygen") or not shutil.which("docker"):
        pytest.skip("sshd, ssh-keygen or docker is not installed")
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    keys(tmp_path / "host_key", home / ".ssh/id_ed25519")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host_key\nStrictModes no\nUsePAM no\n"
        f"AuthorizedKeysFile {home}/.ssh/id_ed25519.pub\nPermitRootLogin yes\nSetEnv DOCKER_HOST={host.address}\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    served = subprocess.Popen([SSHD, "-D", "-e", "-f", tmp_path / "sshd_config"], stderr=subprocess.PIPE, text=True)
    try:
        assert any("listening" in line for line in served.stderr), "sshd does not start"
        yield f"{getpass.getuser()}@127.0.0.1:{port}", home
    finally:
        served.terminate()
        served.communicate()


@pytest.mark.weekly
def test_an_engine_is_drilled_by_ssh_and_what_is_in_the_way_is_one_sentence(server, host, tmp_path):
    address, home = server
    host.gpu_server()
    host.cron()
    on = f"docker:ssh://{address}"
    (tmp_path / "killcheck.yaml").write_text(SPEC.replace("ON", on))

    def drill():
        argv = [sys.executable, "-m", "killcheck", "drill", "killcheck.yaml", "--on", on, "--yes"]
        env = {**os.environ, "HOME": str(home)}
        return subprocess.run(argv, cwd=tmp_path, env=env, check=False, capture_output=True, text=True)

    stranger = drill()
    assert (stranger.returncode, "Traceback" in stranger.stderr) == (4, False), stranger.stderr
    assert f"let `ssh {address} docker version` answer without a question" in " ".join(stranger.stderr.split())
    known = f"[127.0.0.1]:{address.rpartition(':')[2]} {(tmp_path / 'host_key.pub').read_text()}"
    (home / ".ssh/known_hosts").write_text(known)
    done = drill()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SURVIVED" in done.stdout
