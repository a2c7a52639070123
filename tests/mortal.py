"""A killcheck that can be killed between any two steps: :func:`serve` forks one real child for each command.

It is told what a step is: ``api``, a write to a Kubernetes API; ``engine``, a request that changes something on a
Docker Engine or in a registry; ``machine``, the start of a program, or a change of a file or folder of this machine. A
write of the local journal is a step everywhere. Reads one JSON object a line:
``argv``, ``cwd``, ``at``/``when`` - the step at which the child kills itself with SIGKILL, ``before`` or ``after`` it -
and ``settings`` of faults by name, for those that would wait. Answers with the child's end. :class:`Mortals` is who
asks.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from nursery import Served


class Mortals:
    """The process that forks children, seen from the test."""

    def __init__(self, steps_of, environment=None):
        self.process = Served("mortal.serve", steps_of, environment=environment)

    def order(self, cwd, *argv, at=0, when="before", settings=None, state=None):
        """The child's ``code`` (-9: it was killed), what it said (``out``), and the ``steps`` that it took.

        ``state``: another machine's folder of what is kept between runs, the key of its journals with it.
        """
        cwd.mkdir(exist_ok=True)
        order = {
            "argv": argv,
            "cwd": str(cwd),
            "at": at,
            "when": when,
            "settings": settings or {},
            "state": str(state or ""),
        }
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.close()


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


def kill_points(steps):
    """Every (step, before or after it): after only where an answer can be lost."""
    return [
        (n, when)
        for n, what in enumerate(steps, 1)
        for when in ("before", "after")
        if when == "before" or not what.startswith("journal")
    ]


def count_api(steps):
    """Every write to a Kubernetes API is a step."""
    from killcheck.kube.wire import WireTransport

    request = WireTransport.request

    def counted(self, method, path, query, body, headers):
        def act():
            return request(self, method, path, query, body, headers)

        if method == "GET" or path.endswith(("accessreviews",)) or "dryRun" in query:
            return act()
        return steps.take(f"{method} {path}", act)

    WireTransport.request = counted


def count_engine(steps):
    """Every request that changes something on a Docker Engine or in a registry is a step."""
    import requests
    import urllib3

    session, plain = requests.Session.request, urllib3.request

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


def count_machine(steps):
    """Every start of a program is a step, and every change of a sentinel, or of a folder of programs."""
    from pathlib import Path

    from killcheck.machine import programs

    def counted(name, act):
        return lambda self, *args, **more: steps.take(f"{name} {self}"[:200], lambda: act(self, *args, **more))

    folder = type(
        "Folder",
        (type(Path()),),
        {
            name: counted(name, getattr(Path, name))
            for name in ("mkdir", "touch", "write_text", "chmod", "symlink_to", "unlink", "rmdir")
        },
    )
    programs.Path = folder
    for kind, names in ((programs.LocalPrograms, ("start",)), (programs.Files, ("put", "take_away"))):
        for name in names:
            setattr(kind, name, counted(name, getattr(kind, name)))


def count_journal(steps):
    """Every write of the local journal is a step."""
    from killcheck.safety import journal

    durably = journal._write_durably
    journal._write_durably = lambda path, text: steps.take(f"journal {path.name}", lambda: durably(path, text))


def child(order, count, out, report):
    """What the child does; never returns."""
    from killcheck import faults
    from killcheck.cli import main

    os.chdir(order["cwd"])
    os.environ["XDG_STATE_HOME"] = order["state"] or os.environ["XDG_STATE_HOME"]
    for stream in (1, 2):
        os.dup2(out, stream)
    steps = Steps(order["at"], order["when"], report)
    count(steps)
    count_journal(steps)
    for name, values in order["settings"].items():
        for setting, value in values.items():
            setattr(type(faults.named(name)), setting, value)
    code = 70
    try:
        main(order["argv"], standalone_mode=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve(steps_of):
    """One child an order."""
    count = {"api": count_api, "engine": count_engine, "machine": count_machine}[steps_of]
    for line in sys.stdin:
        order = json.loads(line)
        out, report = os.memfd_create("out"), os.memfd_create("steps")
        pid = os.fork()
        if pid == 0:
            child(order, count, out, report)
        _, status = os.waitpid(pid, 0)
        steps = json.loads(_text(report) or "[]")
        answer = {"code": os.waitstatus_to_exitcode(status), "out": _text(out), "steps": steps}
        print(json.dumps(answer), flush=True)


def _text(descriptor):
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, size, 0).decode(errors="replace")
    os.close(descriptor)
    return text
