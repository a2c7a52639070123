"""killcheck in processes of its own that start at once: each is forked by one that has imported all of it.

Run as a process: reads one JSON object a line - ``argv``, ``cwd``, ``env``, statements to run ``first``, ``timeout`` -
and answers with the child's ``code`` (None: it took too long, and was killed), ``out`` and ``err``.
:func:`killcheck` is who asks.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
from functools import cache


def killcheck(cwd, *argv, first="pass", timeout=240.0):
    """The command's end, as :func:`subprocess.run` would have it. Raises TimeoutExpired."""
    process = _process()
    order = {"argv": argv, "cwd": str(cwd), "env": dict(os.environ), "first": first, "timeout": timeout}
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    if answer["code"] is None:
        raise subprocess.TimeoutExpired(["killcheck", *argv], timeout, answer["out"], answer["err"])
    return subprocess.CompletedProcess(["killcheck", *argv], answer["code"], answer["out"], answer["err"])


@cache
def _process():
    made = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end():
        made.stdin.close()
        made.wait()
        made.stdout.close()

    atexit.register(end)
    return made


# -- the process -------------------------------------------------------------------------------------------
#: What killcheck imports where it is needed, of others.
OF_OTHERS = ("cryptography.x509", "docker", "encodings.idna", "tzdata", "urllib3", "yaml")


def everything():
    """Imports all of killcheck but what runs inside containers, so that a child starts at once."""
    import killcheck
    from killcheck import faults

    for module in pkgutil.walk_packages(killcheck.__path__, "killcheck."):
        if not module.name.startswith("killcheck.embedded.nodes."):  # the host's side of them is imported by others
            importlib.import_module(module.name)
    for name in (*OF_OTHERS, "killcheck.fixtures"):
        importlib.import_module(name)
    faults.every()
    gc.collect()
    gc.freeze()


def become(order, out, err):
    """The child: killcheck, started as ``python -c`` would start it."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, out, err)):
        os.dup2(descriptor, number)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = ["-c", *order["argv"]]
    exec(order["first"], {"__name__": "__main__"})
    from killcheck.cli import main

    main()


def serve():
    """One child an order; a child leaves by SystemExit, as any Python process."""
    for line in sys.stdin:
        order = json.loads(line)
        out, err = os.memfd_create("out"), os.memfd_create("err")
        pid = os.fork()
        if pid == 0:
            become(order, out, err)
            sys.exit(0)
        ended = os.pidfd_open(pid)
        in_time = bool(select.select([ended], [], [], order["timeout"])[0])
        if not in_time:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(ended)
        code = os.waitstatus_to_exitcode(status) if in_time else None
        print(json.dumps({"code": code, "out": _text(out), "err": _text(err)}), flush=True)


def _text(descriptor):
    text = os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")
    os.close(descriptor)
    return text


if __name__ == "__main__":
    everything()
    serve()
