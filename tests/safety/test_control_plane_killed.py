"""``--on envtest``, killed with SIGKILL: neither its programs nor its folder, which holds keys, are left."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from killcheck.cluster import binaries

#: Starts programs that only wait, tells of its guardian, of its folder and of them, and waits to be killed.
_RUN = """
import signal
from killcheck.cluster.binaries import ControlPlane

plane = ControlPlane("here")
plane._write_certificates = lambda _url: None
plane._until_ready = lambda: (
    print(plane._guardian.pid, plane.folder, *(process.pid for _, process in plane._processes), flush=True),
    signal.pause(),
)
plane.start()
"""


@pytest.fixture
def assets(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in binaries.PROGRAMS:
        (folder / name).write_text("#!/bin/sh\nexec sleep 600\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv(binaries.ASSETS, str(folder))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="there is no waiting for another's child here")
def test_a_killed_run_leaves_no_program_and_no_folder(assets):
    with subprocess.Popen([sys.executable, "-c", _RUN], stdout=subprocess.PIPE, text=True) as run:
        guardian, folder, *programs = run.stdout.readline().split()
        waiting = [os.pidfd_open(int(pid)) for pid in (guardian, *programs)]
        assert Path(folder).is_dir()
        os.kill(run.pid, signal.SIGKILL)
    try:
        for one in waiting:
            ended, _, _ = select.select([one], [], [], 30)
            assert ended
    finally:
        for one in waiting:
            os.close(one)
    assert not Path(folder).exists()


def test_what_a_killed_guardian_left_goes_with_the_next_start(assets):
    left, used, others = (assets / f"{binaries._PREFIX}{name}" for name in ("left", "used", "others"))
    for folder in (left, used, others):
        folder.mkdir()
    (left / binaries._OWNED).touch()
    with (used / binaries._OWNED).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert binaries.sweep() == [left]
    assert (left.exists(), used.exists(), others.exists()) == (False, True, True)
