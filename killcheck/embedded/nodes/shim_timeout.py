"""In a container: timeout(1), in the cluster's time."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys

from killcheck.embedded.nodes.shim_agent import answer, complain, send

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str) -> float:
    """A duration. Raises ValueError."""
    if text[-1:] in UNITS:
        return float(text[:-1]) * UNITS[text[-1]]
    return float(text)


def parse(argv: list[str]) -> tuple[int, float, bool, list[str]]:
    """(signal, kill-after or 0, preserve status, duration and command)."""
    number, kill_after, preserve = int(_signal.SIGTERM), 0.0, False
    while argv and argv[0].startswith("-"):
        word = argv.pop(0)
        name, equals, value = word.partition("=")
        if name in ("-s", "--signal", "-k", "--kill-after") and not equals:
            value = argv.pop(0)
        if name in ("-s", "--signal"):
            number = int(value) if value.isdigit() else getattr(_signal, f"SIG{value.removeprefix('SIG')}")
        elif name in ("-k", "--kill-after"):
            kill_after = seconds(value)
        elif name == "--preserve-status":
            preserve = True
    return number, kill_after, preserve, argv


def main(argv: list[str]) -> int:
    """As timeout."""
    number, kill_after, preserve, rest = parse(argv)
    limit, command = seconds(rest[0]), rest[1:]
    pid = os.fork()
    if pid == 0:
        try:
            os.execvp(command[0], command)  # noqa: S606
        except FileNotFoundError:
            complain(f"timeout: failed to run command '{command[0]}': No such file or directory")
            os._exit(127)
        except OSError as error:
            complain(f"timeout: failed to run command '{command[0]}': {error.strerror}")
            os._exit(126)
    watcher = os.fork() if limit > 0 else 0
    if limit > 0 and watcher == 0:
        answer(send(f"sleep {limit}"))
        os.kill(pid, number)
        if kill_after:
            answer(send(f"sleep {kill_after}"))
            os.kill(pid, _signal.SIGKILL)
        os._exit(124)
    _, code = os.waitpid(pid, 0)
    late = False
    if watcher:
        done, _ = os.waitpid(watcher, os.WNOHANG)
        late = bool(done) or os.waitstatus_to_exitcode(code) == -number
        if not done:
            os.kill(watcher, _signal.SIGKILL)
            os.waitpid(watcher, 0)
    ended = os.waitstatus_to_exitcode(code)
    if late and not preserve:
        return 137 if ended == -_signal.SIGKILL else 124
    return ended if ended >= 0 else 128 - ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
