"""A killcheck that can be killed between any two steps: run as a process, it forks one real child for each command.

Reads one JSON object a line: ``argv``, ``cwd``, and ``at``/``when`` - the step at which the child kills itself with
SIGKILL, ``before`` or ``after`` it. A step is a request that changes something on the engine or in a registry, or a
write of the local journal. Answers with the child's end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

import docker
import requests
import urllib3

import killcheck.cluster.docker
import killcheck.commands.drill
import killcheck.commands.restore
import killcheck.run  # noqa: F401 - imported before the fork, so that a child starts at once
from killcheck import journal
from killcheck.cli import main

assert docker.APIClient


class Steps:
    """Counts, and dies."""

    def __init__(self, at, when, report):
        self.at, self.when, self.report, self.taken = at, when, report, []
        self.lock = threading.Lock()

    def take(self, what, act):
        with self.lock:
            self.taken.append(what)
            mine = len(self.taken) == self.at
            self.tell()
        if mine and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = act()
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def tell(self):
        os.ftruncate(self.report, 0)
        os.pwrite(self.report, json.dumps(self.taken).encode(), 0)


def install(steps):
    """Count every change."""
    session, durably, plain = requests.Session.request, journal._write_durably, urllib3.request

    def counted(self, method, url, *args, **more):
        def act():
            return session(self, method, url, *args, **more)

        if method.upper() in ("GET", "HEAD") or url.endswith("/wait"):
            return act()
        return steps.take(f"{method.upper()} {url.partition('/v1.')[2]}", act)

    def asked(method, url, **more):
        def act():
            return plain(method, url, **more)

        return act() if method in ("GET", "HEAD") else steps.take(f"{method} {url}", act)

    requests.Session.request = counted
    urllib3.request = asked
    journal._write_durably = lambda path, text: steps.take(f"journal {path.name}", lambda: durably(path, text))


def child(order, out, report):
    """What the child does; never returns."""
    os.chdir(order["cwd"])
    for stream in (1, 2):
        os.dup2(out, stream)
    install(Steps(order.get("at", 0), order.get("when", "before"), report))
    code = 70
    try:
        main(order["argv"], standalone_mode=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve():
    """One child an order."""
    for line in sys.stdin:
        order = json.loads(line)
        out, report = os.memfd_create("out"), os.memfd_create("steps")
        pid = os.fork()
        if pid == 0:
            child(order, out, report)
        _, status = os.waitpid(pid, 0)
        steps = json.loads(_text(report) or "[]")
        answer = {"code": os.waitstatus_to_exitcode(status), "out": _text(out), "steps": steps}
        print(json.dumps(answer), flush=True)


def _text(descriptor):
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, size, 0).decode(errors="replace")
    os.close(descriptor)
    return text


if __name__ == "__main__":
    serve()
