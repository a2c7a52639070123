"""``--kubeconfig F``: ask the API server that F leads to in place of the embedded one."""

import shlex
import subprocess
import threading

import pytest
from servers import Embedded, Real

from killcheck.embedded.cluster import Cluster


def pytest_addoption(parser):
    parser.addoption("--kubeconfig", default=None, help="ask this API server in place of the embedded one")
    parser.addoption("--report", default=None, help="where the side-by-side report of drills is written (Markdown)")


@pytest.fixture(scope="module")
def api_server(request):
    path = request.config.getoption("--kubeconfig", default=None)
    server = Real(path) if path else Embedded()
    yield server
    server.close()


@pytest.fixture
def control_plane(request):
    """The kubeconfig of a real control plane."""
    path = request.config.getoption("--kubeconfig", default=None)
    if not path:
        pytest.skip("needs a real control plane: --kubeconfig")
    return path


@pytest.fixture(autouse=True)
def _embedded_clock(request):
    anywhere = {"asked", "control_plane"} & set(request.fixturenames)
    if not anywhere and request.config.getoption("--kubeconfig", default=None):
        pytest.skip("needs the embedded cluster's clock")


@pytest.fixture(scope="module")
def cluster(request):
    """A cluster whose clock runs thirty times as fast as the wall's; a module's ``EXEC_MODE`` says what runs on it."""
    from killcheck.embedded.default_objects import node

    made = Cluster(exec_mode=getattr(request.module, "EXEC_MODE", "none"), speed=30)
    made.load(
        [
            node("gpu-1", "g6.4xlarge", cpu=16, memory="64Gi", devices={"nvidia.com/gpu": 1}),
            node("cpu-1", "m6i.xlarge", cpu=4, memory="16Gi"),
        ]
    )
    stop = threading.Event()
    made.kubeconfig()

    def pump():
        while not stop.is_set():
            made.loop.run_until(stop.is_set, 1.0)

    thread = threading.Thread(target=pump)
    thread.start()
    yield made
    stop.set()
    thread.join()
    made.close()


@pytest.fixture(scope="module")
def kubeconfig(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("kube") / "config"
    path.write_text(cluster.kubeconfig())
    return path


@pytest.fixture(scope="module")
def kubectl(kubeconfig, tmp_path_factory):
    """Run kubectl; returns its output (stderr included), and fails unless it ended as expected (None: however)."""
    home = tmp_path_factory.mktemp("home")

    def run(command, stdin=None, rc=0, env=None):
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(kubeconfig), *shlex.split(command)],
            check=False,
            input=stdin,
            text=True,
            capture_output=True,
            timeout=150,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), **(env or {})},
        )
        said = done.stdout + done.stderr
        assert rc is None or done.returncode == rc, f"kubectl {command}: {done.returncode}\n{said}"
        return said

    return run
