"""The process that spawners are forked from, when it or somebody who shares it goes."""

import os
import signal
import tempfile

import pytest
from host_world import MODES, Host

from killcheck.embedded.nodes.forkserver import fork_server
from killcheck.embedded.nodes.own_folder import PREFIX, OwnFolder


@pytest.fixture(params=MODES)
def ran(request):
    """A program's exit code, in a new cluster each time."""

    def run():
        with Host(request.param) as world:
            return world.run_pod("exit 3")[0]

    return run


def test_clusters_share_it(ran):
    assert ran() == 3
    before = fork_server()
    assert ran() == 3
    assert fork_server() is before


def test_killed_it_is_started_anew(ran):
    assert ran() == 3
    before = fork_server()
    os.kill(before._process.pid, signal.SIGKILL)
    before._process.wait()
    assert ran() == 3
    assert fork_server() is not before
    assert ran() == 3


def test_who_is_forked_from_us_shares_it_and_leaves_it_to_us(ran):
    assert ran() == 3
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if ran() == 3 else 2
            fork_server().close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert fork_server()._process.poll() is None
    assert ran() == 3


def test_who_starts_next_takes_away_what_one_that_was_killed_left(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held, left, full = OwnFolder(), tmp_path / f"{PREFIX}left", tmp_path / f"{PREFIX}full"
    left.mkdir()
    (full / "a").mkdir(parents=True)
    other = OwnFolder()
    assert set(tmp_path.iterdir()) == {held.path, other.path, full}
    for one in (held, other):
        one.release()
    OwnFolder().release()
    assert not held.path.exists()
