"""A killcheck that can be killed between any two steps: run as a process, it forks one real child for each command.

Reads one JSON object a line: ``argv``, ``cwd``, and ``at``/``when`` - the step at which the child kills itself with
SIGKILL, ``before`` or ``after`` it. A step is a write to the API or to the local journal. Answers with the child's end.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import killcheck.commands.drill
import killcheck.commands.restore
import killcheck.kube.wire
import killcheck.run
import killcheck.session  # noqa: F401 - imported before the fork, so that a child starts at once
from killcheck import faults, journal, orphans  # noqa: F401
from killcheck.cli import main
from killcheck.kube.wire import WireTransport


class Steps:
    """Counts, and dies."""

    def __init__(self, at, when, report):
        self.at, self.when, self.report, self.taken = at, when, report, []

    def take(self, what, act):
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
    """Count every write."""
    request, durably = WireTransport.request, journal._write_durably

    def counted(self, method, path, query, body, headers):
        def act():
            return request(self, method, path, query, body, headers)

        if method == "GET" or path.endswith(("accessreviews",)) or "dryRun" in query:
            return act()
        return steps.take(f"{method} {path}", act)

    WireTransport.request = counted
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
