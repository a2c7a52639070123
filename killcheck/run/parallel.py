"""Work side by side in worker processes: drills, each on an embedded cluster of its own.

A worker sends back its result whole, in the order of the tasks. Only for clusters that are killcheck's own: on a real
one drills take turns.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

from killcheck.capabilities.cluster import ClusterError
from killcheck.rehearsal.forks import die_with, forking
from killcheck.run.gc_tuning import collect_seldom
from killcheck.run.lost_stops import raise_again

__all__ = ["die_with", "drilling", "forking", "mortal_workers", "processors", "received", "side_by_side"]

_T = TypeVar("_T")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def drilling() -> int:
    """How many drills are best under way at once: more than processors, for each waits for its executor at times."""
    return processors() + 2


def _context() -> BaseContext:
    """How workers come to be: forks of this process, or, where it has threads, of one that has imported what they need.

    That one is started with the first workers and ends with this process.
    """
    if forking():
        return multiprocessing.get_context("fork")
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["killcheck.run.worker"])
    return context


def _begin(environment: Mapping[str, str]) -> None:
    """In a worker: a Ctrl-C is the parent's to answer, and its SIGTERM ends a worker that has nothing to do.

    ``environment``: the parent's, which who forked this worker may not have as it is now.
    """
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise_again()
    _end_with_parent()
    if dict(os.environ) != environment:
        os.environ.clear()
        os.environ.update(environment)
    collect_seldom()


def _end_with_parent() -> None:
    """In a worker: SIGTERM when the process dies that it works for, which need not be the one that forked it."""
    made_by = multiprocessing.parent_process()
    if made_by is None or made_by.pid == os.getppid():
        die_with(os.getppid(), signal.SIGTERM)
    elif sys.platform == "linux":
        import fcntl

        # The parent alone holds the other end of this pipe: its end is told by a signal (fcntl(2)).
        fcntl.fcntl(made_by.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(made_by.sentinel, fcntl.F_SETSIG, signal.SIGTERM)
        fcntl.fcntl(made_by.sentinel, fcntl.F_SETFL, os.O_ASYNC | fcntl.fcntl(made_by.sentinel, fcntl.F_GETFL))
    if made_by is not None and wait([made_by.sentinel], 0):  # it was faster
        os._exit(1)


def _leave(_number: int, _frame: object) -> None:
    os._exit(1)


def _unwind(_number: int, _frame: object) -> None:
    raise SystemExit(1)


class _Workers(ProcessPoolExecutor):
    """Tasks that are told to end take their worker with them: a SystemExit that the pool sees is one task's result,
    and the next one begins.
    """

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """As the pool's own."""
        return super().submit(_until_told, fn, *args, **kwargs)


def _until_told(work: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """Work that SIGTERM unwinds, so that executors' processes end too."""
    try:
        signal.signal(signal.SIGTERM, _unwind)
        try:
            return work(*args, **kwargs)
        finally:
            signal.signal(signal.SIGTERM, _leave)
    except SystemExit:
        os._exit(1)  # it has unwound by now


@lru_cache(maxsize=1)
def received(sent: bytes) -> Any:
    """In a worker: what its parent packed with :mod:`pickle`, unpacked once: what is found out of it is kept."""
    return pickle.loads(sent)  # noqa: S301 - our own parent's


@contextmanager
def mortal_workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Worker processes that end, with everything they started, when the block is left by an exception or its process
    is killed. Raises ClusterError where a worker died by itself.
    """
    with _Workers(max_workers=count, mp_context=_context(), initializer=_begin, initargs=(dict(os.environ),)) as pool:
        try:
            yield pool
        except BaseException as error:
            workers = list((pool._processes or {}).values())
            manager: Any = pool._executor_manager_thread  # a thread: typeshed has another type
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.terminate()
            if manager is not None:  # at its end Python would wake it, by a pipe that it closes at that moment
                manager.join()
            if isinstance(error, BrokenProcessPool):
                raise ClusterError(f"a worker process died in the middle of a drill: {error}") from error
            raise


def side_by_side(
    work: Callable[..., _T],
    tasks: Sequence[tuple[Any, ...]],
    *,
    workers: int,
    finished: Callable[[int], None] = lambda count: None,
    second: Collection[int] = (),
    instead: Callable[[int, Mapping[int, _T]], _T | None] = lambda number, first: None,
) -> Iterator[_T]:
    """Do ``work`` with each of the tasks, ``workers`` at a time; yields what each returned, in their order.

    ``work`` is a function of a module: a fresh interpreter must find it by its name. ``finished`` is told how many are
    done. ``second``: the numbers of those that begin when all others are done; ``instead`` is asked for each of them,
    with what these returned, and what it gives stands in the place of the task. Raises what a task raises.
    """
    with mortal_workers(min(workers, len(tasks))) as pool:
        futures = {number: pool.submit(work, *task) for number, task in enumerate(tasks) if number not in second}
        first = {number: future.result() for number, future in futures.items()} if second else {}
        known = {number: instead(number, first) for number in second}
        futures |= {number: pool.submit(work, *tasks[number]) for number, found in known.items() if found is None}
        for number in range(len(tasks)):
            found = known.get(number)
            yield futures[number].result() if found is None else found
            finished(number + 1)
