"""Worker processes: none is left by who made them, and one that died is told in one sentence."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading

import pytest

from killcheck.capabilities.cluster import ClusterError
from killcheck.run import parallel

#: A process with two workers, each at work with a child of its own.
MADE = """
import os, signal, sys, threading
from killcheck.run import parallel

def at_work():
    if os.fork() == 0:
        parallel.die_with(os.getppid(), signal.SIGKILL)
        os.write(1, b"child ")
        signal.pause()
    os.write(1, b"worker ")
    signal.pause()

def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it
    if sys.argv[1] == "threads":  # it cannot be forked then
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    with parallel.mortal_workers(2) as pool:
        for _ in range(4):  # more than there are workers: nobody begins the others when told to end
            pool.submit(at_work)
        signal.pause()

if __name__ == "__main__":
    main()
"""


#: A process that is told to end while Python runs a hook of a fork: there it prints what is raised, and goes on.
LOST = """
import os, signal
from killcheck.run.lost_stops import raise_again

raise_again()
signal.signal(signal.SIGTERM, lambda *_: exec("raise SystemExit(7)"))
os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGTERM))
if os.fork():
    signal.sigtimedwait([], 60)
"""


def test_a_stop_that_comes_in_the_middle_of_a_fork_is_not_lost():
    done = subprocess.run([sys.executable, "-c", LOST], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.parametrize(
    ("how", "end"), [("alone", signal.SIGKILL), ("alone", signal.SIGINT), ("threads", signal.SIGKILL)]
)
def test_no_worker_outlives_who_made_it(how, end, tmp_path):
    program = tmp_path / "made.py"
    program.write_text(MADE)
    with subprocess.Popen(
        [sys.executable, str(program), how], stdout=subprocess.PIPE, bufsize=0, stderr=subprocess.DEVNULL
    ) as made:
        told = b""
        while told.count(b" ") < 4:
            said = made.stdout.read(64)
            assert said, "it ended before its workers were at work"
            told += said
        made.send_signal(end)
        # All of them hold the other end of this pipe: it ends with the last.
        assert select.select([made.stdout], [], [], 120)[0], "somebody is still there"
        assert made.stdout.read() == b""


def test_a_worker_that_dies_is_told_in_one_sentence():
    with pytest.raises(ClusterError, match="a worker process died"), parallel.mortal_workers(1) as pool:
        pool.submit(os._exit, 3).result()
    assert not [thread for thread in threading.enumerate() if "ExecutorManager" in type(thread).__name__]


def test_workers_have_the_environment_that_their_parent_has_now(monkeypatch):
    for value in ("one", "two"):  # the process that they are forked from may be older
        monkeypatch.setenv("KILLCHECK_TESTS_WORKERS", value)
        with parallel.mortal_workers(1) as pool:
            assert pool.submit(os.getenv, "KILLCHECK_TESTS_WORKERS").result() == value
