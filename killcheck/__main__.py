"""The command as a process of its own: its script, and ``python -m killcheck`` where that is not in the PATH."""

from __future__ import annotations

import os
import signal
from types import FrameType

__all__ = ["run"]


def run() -> None:
    """``killcheck``. Whoever interrupts it while it is loaded gets no traceback: Python's exit code says *exposed*."""
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else somebody has it ignored
    if heard:
        signal.signal(signal.SIGINT, _leave)
    from killcheck.cli import run as begin

    if heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    begin()


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Nothing has begun: nothing is to be put back."""
    os.write(2, b"killcheck: interrupted\n")
    os._exit(4)


if __name__ == "__main__":
    run()
