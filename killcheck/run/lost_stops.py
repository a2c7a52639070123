"""A stop that Python itself would lose is raised again.

A signal is answered by an exception, wherever the main thread is. Where that is a hook that Python runs around a fork
(logging has one), or an object's end, Python prints the exception and goes on (``sys.unraisablehook``): of thirty
Ctrl-C in a loop of forks thirty were lost so. Only for processes that are killcheck's own.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType

__all__ = ["raise_again"]

#: So much later it is raised, in seconds: where Python loses it again, it is raised again.
LATER_S = 0.01


def raise_again() -> None:
    """From now on what tells this process to end and Python would only print ends it all the same.

    It takes the alarm (``SIGALRM``) of this process for it, where there is one.
    """
    before = sys.unraisablehook

    def hook(lost: sys.UnraisableHookArgs, /) -> None:
        error, here = lost.exc_value, threading.current_thread() is threading.main_thread()
        if not here or not isinstance(error, KeyboardInterrupt | SystemExit):
            before(lost)
            return

        def again(_number: int, _frame: FrameType | None) -> None:
            raise error

        signal.signal(signal.SIGALRM, again)
        signal.setitimer(signal.ITIMER_REAL, LATER_S)

    if hasattr(signal, "setitimer"):
        sys.unraisablehook = hook
