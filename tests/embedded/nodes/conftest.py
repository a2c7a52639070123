"""``host``: a world that runs executors, in either way that a host may allow."""

import tempfile
from pathlib import Path

import pytest
from host_world import MODES, Host
from node_world import no_thread_is_left


@pytest.fixture(params=MODES)
def host(request):
    before = set(Path(tempfile.gettempdir()).glob("killcheck-*"))
    with Host(request.param) as world:
        yield world
        folder = world.host.spawner.folder if world.host.spawner else None
    assert world.host.processes == {}
    assert folder is None or not folder.exists()
    assert folder not in before
    no_thread_is_left()
