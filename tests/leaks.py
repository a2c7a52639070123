"""What a test leaves behind in its own process: threads, child processes, another folder, other variables.

The fixture of ``tests/conftest.py`` looks around every test, within whatever a module or the session shares. Open files
and sockets need no look: warnings are errors, and an unclosed one warns.
"""

from __future__ import annotations

import os
import re
import select
import threading
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Around", "look"]

#: How long what is ending may take to end, in seconds.
ENDS_S = 20.0
TASKS = "/proc/self/task"
TASKS_ARE_TOLD = Path(TASKS).exists()
#: Threads by name and children by command line that serve the whole session once a test has asked for them, and why.
SERVE_ALL = {
    r"^killcheck-hostio$": "reads what programs of this host print",
    r"^Kr8sSyncRunnerThread$|^AnyIO worker thread$": "a client's own, which it never ends",
    r"^killcheck-watch of conformance-nodes$": "a watch of the hollow nodes that drills side by side share, begun anew",
    r"import spawner; spawner\.serve": "starts the containers of every embedded cluster",
    r"^killcheck-connection$|\(process_request_thread\)$": "a server's, for a client that the collector closes",
    r"multiprocessing\.(forkserver|resource_tracker)": "forks the workers of runs side by side",
}
#: What is left and should not be: by name or command line, why, and the last day on which that is excused.
UNTIL: dict[str, tuple[str, str]] = {}


@dataclass(frozen=True)
class Around:
    """What is there at one moment: ``threads`` alive, ``children`` by process id, the folder and the environment."""

    threads: frozenset[threading.Thread]
    children: frozenset[int]
    folder: str
    environment: dict[str, str]

    def left(self) -> list[str]:
        """What is there now and was not then, a sentence each; waits for what is ending."""
        now = look()
        said = [f"thread {one.name} runs on" for one in now.threads - self.threads if _stays(one)]
        said += [f"child {pid} runs on: {_command(pid)}" for pid in now.children - self.children if _lives_on(pid)]
        if now.folder != self.folder:
            said.append(f"the working directory is {now.folder}, and was {self.folder}")
        changed = {key for key, _ in now.environment.items() ^ self.environment.items()} - {"PYTEST_CURRENT_TEST"}
        return said + [f"variable {key} is not what it was" for key in sorted(changed)]


def look() -> Around:
    """What is there now."""
    return Around(frozenset(threading.enumerate()), frozenset(_children()), _folder(), dict(os.environ))


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - twice for every test: a Path costs more than the look
    except FileNotFoundError:
        return "gone"


def _children() -> list[int]:
    """Of every thread of this process; none where the kernel does not tell."""
    found: list[int] = []
    for task in os.listdir(TASKS) if TASKS_ARE_TOLD else ():  # noqa: PTH208 - as above
        try:
            with open(f"{TASKS}/{task}/children", "rb") as children:  # noqa: PTH123
                found += map(int, children.read().split())
        except FileNotFoundError:
            continue  # the thread has ended, or this kernel keeps no such list
    return found


def _stays(thread: threading.Thread) -> bool:
    if _excused(thread.name):
        return False
    thread.join(ENDS_S)
    return thread.is_alive()


def _lives_on(pid: int) -> bool:
    if _excused(_command(pid)):
        return False
    try:
        ended = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        return not poll.poll(ENDS_S * 1000)
    finally:
        os.close(ended)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _excused(name: str) -> bool:
    return any(re.search(pattern, name) for pattern in [*SERVE_ALL, *UNTIL])
