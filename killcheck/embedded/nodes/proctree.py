"""Whether a process and everything below it is asleep.

On Linux out of /proc: the state of every thread, and how long each has been on a CPU. Elsewhere out of ``ps``, which is
slower, and so asked less often.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from killcheck.clock import wall_seconds

__all__ = ["Activity", "activity", "memory", "memory_shared_out", "runs", "settled", "tree"]

#: (whether anything runs, a value that changes whenever anything has run, how many live processes have no child); where
#: anything runs, the value is what to ask :func:`runs` about, if there is one.
Activity = tuple[bool, object, int]

_ASLEEP = frozenset("SZTtIX")
_ENDED = frozenset("ZX")
#: Of a task's flags (include/linux/sched.h): it is on its way out. A container's first process sleeps there until the
#: others have died (kernel/pid_namespace.c, zap_pid_ns_processes): it waits for the host, and for no hour.
_PF_EXITING = 0x4
#: What such a task is said to do; no state of the kernel's.
_LEAVING = "leaving"
#: Wall seconds between two looks with ``ps``.
_PS_PERIOD_S = 0.05
_ps_seen: tuple[float, dict[int, tuple[int, str, str]]] = (-1.0, {})


def activity(pid: int) -> Activity:
    """What the processes of a tree are doing; one whose root has ended counts as working until somebody is told."""
    return _from_proc(pid) if _has_children_files() else _from_ps(pid)


def runs(task: str) -> bool:
    """Whether a thread that :func:`activity` saw running still does: one file, in place of all that a tree has."""
    try:
        return _state(task) not in _ASLEEP
    except OSError:
        return False


def settled(pid: int) -> bool:
    """Whether every process of a tree that looks asleep is; waits for those that are about to be.

    A process that has lost its CPU on its way to sleep (wait4 reaping a child, say) is shown as asleep, and yet it only
    waits for its turn, however long that takes on a busy host. The kernel tells by which system call one sleeps only
    once it does (proc(5), ``/proc/pid/syscall``; lib/syscall.c, wait_task_inactive). True where this host does not say.
    """
    if not _has_children_files():
        return True
    for known in _descendants(pid):
        try:
            for task in _tasks(known):
                if _read(f"{task}/syscall").startswith(b"running"):
                    return False
        except OSError:
            continue  # it has gone, or is none of ours to ask about
    return True


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    return [*_descendants(pid)] if _has_children_files() else [found for found, _, _ in _ps_tree(pid)]


def memory(pid: int) -> int:
    """Bytes of memory of its own that a tree holds (not what files back); 0 where this host does not say."""
    if not _has_children_files():
        return 0
    return sum(_own(known) for known in _descendants(pid))


def _own(pid: int) -> int:
    try:
        status = _read(f"/proc/{pid}/status")
    except OSError:
        return 0
    _, found, rest = status.partition(b"RssAnon:")
    return int(rest.split(None, 1)[0]) * 1024 if found else 0


def memory_shared_out(pid: int) -> int:
    """Bytes as :func:`memory`, each page once: what children share with their parents is not theirs too. Slow."""
    total = 0
    for known in _descendants(pid):
        try:
            rollup = _read(f"/proc/{known}/smaps_rollup")
        except OSError:  # it has gone, or this host does not say: then all that it holds counts as its own
            total += _own(known)
            continue
        for name in (b"Pss_Anon:", b"Pss_Shmem:"):
            _, found, rest = rollup.partition(name)
            total += int(rest.split(None, 1)[0]) * 1024 if found else 0
    return total


@cache
def _has_children_files() -> bool:
    """Whether this is a Linux whose kernel lists a thread's children (CONFIG_PROC_CHILDREN)."""
    return any(Path("/proc/self/task").glob("*/children"))


def _read(path: str) -> bytes:
    """A file of /proc, looked at thousands of times a night: no object between us and the kernel.

    To its end: the kernel hands out a list of many children by the page.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = b""
        while more := os.read(descriptor, 65536):
            text += more
        return text
    finally:
        os.close(descriptor)


def _tasks(pid: int) -> list[str]:
    """Where each thread of a process is told of."""
    folder = f"/proc/{pid}/task"
    return [f"{folder}/{task}" for task in os.listdir(folder)]  # noqa: PTH208 - as above


def _state(task: str) -> str:
    return _state_of(_read(f"{task}/stat"))


def _state_of(stat: bytes) -> str:
    """The state of a task by its line of ``/proc/pid/stat`` (proc(5): its first word, and the flags)."""
    fields = stat.rpartition(b") ")[2].split(None, 7)
    state = fields[0].decode()
    return _LEAVING if state not in _ENDED and int(fields[6]) & _PF_EXITING else state


def _descendants(pid: int) -> dict[int, int]:
    """The processes of a tree, each with its parent (the first: 0)."""
    return {known: parent for known, parent, _ in _walk(pid)}


def _walk(pid: int) -> Iterator[tuple[int, int, list[str]]]:
    """Each process of a tree with its parent (the first: 0) and its threads; one that has gone meanwhile has none."""
    order = [(pid, 0)]
    seen = {pid}
    for known, parent in order:
        tasks: list[str] = []
        try:
            tasks = _tasks(known)
            for task in tasks:
                children = [int(child) for child in _read(f"{task}/children").split()]
                order += [(child, known) for child in children if child not in seen]
                seen.update(children)
        except (OSError, ValueError):
            pass
        yield known, parent, tasks


def _from_proc(pid: int) -> Activity:
    marks: list[object] = []
    live: dict[int, int] = {}
    for known, parent, tasks in _walk(pid):
        live[known] = parent
        try:
            for task in tasks or _tasks(known):
                state = _state(task)
                if state not in _ASLEEP:
                    return True, task, 0
                if known == pid and state in _ENDED:
                    return True, None, 0  # one that has ended is news that is on its way
                if state in _ENDED:
                    live.pop(known, None)
                marks.append((task, _read(f"{task}/schedstat")))
        except OSError:
            if known == pid:
                return True, None, 0
            marks.append(known)
            live.pop(known, None)
    return False, tuple(marks), _childless(live)


def _childless(live: dict[int, int]) -> int:
    """How many of some processes, given with their parents, are the parent of none."""
    return len(live.keys() - set(live.values()))


def _from_ps(pid: int) -> Activity:
    marks = []
    listed = _ps_tree(pid)
    if not listed or listed[0][1].startswith("Z"):
        return True, None, 0
    for found, state, used in listed:
        if state[:1] not in ("S", "I", "T", "Z"):
            return True, None, 0
        marks.append((found, used))
    live = {found: _ps_seen[1][found][0] for found, state, _ in listed if state[:1] != "Z"}
    return False, tuple(marks), _childless(live)


def _ps_tree(pid: int) -> list[tuple[int, str, str]]:
    global _ps_seen  # noqa: PLW0603 - one look at the process table serves every container
    when, table = _ps_seen
    if wall_seconds() - when > _PS_PERIOD_S:
        table = _ps_table()
        _ps_seen = (wall_seconds(), table)
    found = [pid]
    for known in found:
        found += [child for child, (parent, _, _) in table.items() if parent == known]
    return [(p, table[p][1], table[p][2]) for p in found if p in table]


def _ps_table() -> dict[int, tuple[int, str, str]]:
    listed = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,stat=,time="], capture_output=True, text=True, check=False
    ).stdout
    table: dict[int, tuple[int, str, str]] = {}
    for line in listed.splitlines():
        parts = line.split()
        if len(parts) == 4:
            table[int(parts[0])] = (int(parts[1]), parts[2], parts[3])
    return table
