"""killcheck in processes of its own that start at once: each is forked by one that has imported all of it.

:func:`serve` reads one JSON object a line - ``argv``, ``cwd``, ``env``, statements to run ``first``, ``timeout`` - and
answers with the child's ``code`` (None: it took too long, and was killed), ``out`` and ``err``. :func:`killcheck` is
who asks.

:func:`listen` serves shells. :func:`installed` puts ``killcheck`` and ``pytest`` into a folder, each a few lines that
hand their words, environment and standard files to that process and end as its child ends.
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
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, redirect_stdout, suppress
from functools import cache
from pathlib import Path

from nursery import Served


def killcheck(cwd, *argv, first="pass", timeout=240.0, env=None):
    """The command's end, as :func:`subprocess.run` would have it. Raises TimeoutExpired."""
    return _ended("killcheck", cwd, argv, timeout, first=first, env=dict(os.environ) if env is None else env)


def pytest(cwd, *argv, timeout=240.0):
    """The same of ``python -m pytest``, with what PYTHONPATH says."""
    return _ended("pytest", cwd, argv, timeout, program="pytest", env=dict(os.environ))


def _ended(name, cwd, argv, timeout, **more):
    process = _process(more.get("program", "killcheck"))
    order = {"argv": argv, "cwd": str(cwd), "timeout": timeout, **more}
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    if answer["code"] is None:
        raise subprocess.TimeoutExpired([name, *argv], timeout, answer["out"], answer["err"])
    return subprocess.CompletedProcess([name, *argv], answer["code"], answer["out"], answer["err"])


@cache
def _process(program):
    """Who forks that program: one that is to run no tests need not know them."""
    made = Served("forked.serve", of=program)
    atexit.register(made.close)
    return made


#: What a shell starts as killcheck, or as pytest.
CLIENT = """#!{python} -IS
import json, os, socket, sys
asked = socket.socket(socket.AF_UNIX)
asked.connect({place!r})
socket.send_fds(asked, [b"."], [0, 1, 2])
order = {{"argv": sys.argv[1:], "program": {program!r}, "cwd": os.getcwd(), "env": dict(os.environ)}}
asked.sendall(json.dumps(order).encode())
asked.shutdown(socket.SHUT_WR)
sys.exit(int(asked.recv(16) or b"70"))
"""


@contextmanager
def installed(folder: Path):
    """The commands in an empty folder for a PATH, and who answers them."""
    _put(folder)
    served = Served("forked.listen", str(folder), of="pytest")
    assert served.stdout.readline()  # it is there
    try:
        yield folder
    finally:
        served.close()


def commands(folder: Path) -> str:
    """The same for a shell that sees nothing else of this machine. Returns its line that starts who answers them."""
    _put(folder)
    place = folder / "socket"
    there = f"while [ ! -S '{place}' ]; do sleep 0.05; done"
    return f"'{sys.executable}' '{__file__}' '{folder}' < /dev/null > /dev/null & {there}"


def _put(folder):
    for program in ("killcheck", "pytest"):
        file = folder / program
        file.write_text(CLIENT.format(python=sys.executable, place=str(folder / "socket"), program=program))
        file.chmod(0o755)


# -- the process -------------------------------------------------------------------------------------------
#: What killcheck imports where it is needed, of others.
OF_OTHERS = (
    "cryptography.hazmat.backends.openssl",
    "cryptography.hazmat.primitives.serialization",
    "cryptography.x509",
    "docker",
    "encodings.idna",
    "jinja2",
    "jsonschema",
    "rich._emoji_codes",
    "securesystemslib.signer",
    "tzdata",
    "urllib3",
    "yaml",
)


def everything():
    """Imports all of killcheck but what runs inside containers, so that a child starts at once."""
    import lacking

    import killcheck
    from killcheck import faults
    from killcheck.embedded.nodes.forkserver import fork_server
    from killcheck.run.session import Session
    from killcheck.text import lazy_re, redaction

    for module in pkgutil.walk_packages(killcheck.__path__, "killcheck."):
        if not module.name.startswith("killcheck.embedded.nodes."):  # the host's side of them is imported by others
            importlib.import_module(module.name)
    for name in (*OF_OTHERS, "killcheck.fixtures"):
        importlib.import_module(name)
    lacking.watch()
    redaction.load()
    lazy_re.compile_all()
    faults.every()
    Session(fixture="dead-man").kill_path.layers  # noqa: B018 - types that are made when the first spec is read
    fork_server()  # what the children share
    gc.collect()
    gc.freeze()


def tests_too():
    """Imports pytest with all of its plugins, by its own hand, and what a test of a user's may import."""
    import pytest

    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as null, redirect_stdout(null):
        pytest.main(["--collect-only", "-p", "no:cacheprovider", "--rootdir", folder, folder])
    for name in ("kubernetes.client", "kubernetes.config", "kubernetes.dynamic"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def become(order, *files):
    """The child: killcheck, started as ``python -c`` would start it, or pytest."""
    for number, descriptor in enumerate(files):
        os.dup2(descriptor, number)
    # Whether they can seek is asked when they are opened.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1, closefd=False)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = [order.get("program", "-c"), *order["argv"]]
    if order.get("program") == "pytest":
        import pytest

        sys.path[:0] = [order["cwd"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        sys.exit(pytest.main())
    exec(order.get("first", "pass"), {"__name__": "__main__"})
    from killcheck.cli import main

    main()


def live(order, *files):
    """:func:`become` to the end of the process. Python takes its own modules apart then, and each page that it shares
    with who forked it would be copied for that: all else that it does at its end is done here.
    """
    try:
        become(order, *files)
    except SystemExit as end:
        if not isinstance(end.code or 0, int):
            raise
        code = end.code or 0
    else:
        code = 0
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # as Python itself tells of it
    os._exit(code & 0xFF)


def serve():
    """One child an order; a child leaves by SystemExit, as any Python process."""
    for line in sys.stdin:
        order = json.loads(line)
        out, err = os.memfd_create("out"), os.memfd_create("err")
        pid = os.fork()
        if pid == 0:
            live(order, os.open(os.devnull, os.O_RDONLY), out, err)
        ended = os.pidfd_open(pid)
        in_time = bool(select.select([ended], [], [], order["timeout"])[0])
        if not in_time:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(ended)
        code = os.waitstatus_to_exitcode(status) if in_time else None
        print(json.dumps({"code": code, "out": _text(out), "err": _text(err)}), flush=True)


def listen(folder, last=0):
    """One child an order of a shell's; side by side, as a shell starts them. All end when ``last`` can be read: at the
    end of the standard input, or of a process.
    """
    os.setpgrp()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{folder}/socket")
        door.listen()
        print("here", flush=True)
        while last not in select.select([door, last], [], [])[0]:
            asked, _ = door.accept()
            with asked:
                if os.fork() == 0:
                    door.close()
                    _attend(asked)
            with suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
    os.killpg(0, signal.SIGTERM)


def _attend(asked):
    """Who waits for one child, and tells its end; the child itself."""
    _, files, _, _ = socket.recv_fds(asked, 1, 3)
    order = json.loads(b"".join(iter(lambda: asked.recv(1 << 16), b"")))
    pid = os.fork()
    if pid == 0:
        asked.close()
        live(order, *files)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):
        asked.sendall(str(code % 256).encode())
    os._exit(0)


def _text(descriptor):
    text = os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")
    os.close(descriptor)
    return text


if __name__ == "__main__":
    shell = os.pidfd_open(os.getppid())
    everything()
    tests_too()
    listen(sys.argv[1], shell)
