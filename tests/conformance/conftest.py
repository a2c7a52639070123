"""``--kubeconfig F``: ask the API server that F leads to in place of the embedded one."""

import pytest
from servers import Embedded, Real


def pytest_addoption(parser):
    parser.addoption("--kubeconfig", default=None, help="ask this API server in place of the embedded one")


@pytest.fixture(scope="module")
def api_server(request):
    path = request.config.getoption("--kubeconfig", default=None)
    server = Real(path) if path else Embedded()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _embedded_clock(request):
    if "asked" not in request.fixturenames and request.config.getoption("--kubeconfig", default=None):
        pytest.skip("needs the embedded cluster's clock")
