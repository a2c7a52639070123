"""Programs and files of this machine, where a journal is undone: what they are reached with, and their end."""

from __future__ import annotations

from killcheck.capabilities.offered import Capabilities
from killcheck.clock import Loop
from killcheck.machine.programs import Files, LocalPrograms, end_left

__all__ = ["capabilities", "ended"]


def capabilities(loop: Loop) -> Capabilities:
    """What a journal of this machine is undone with."""
    return Capabilities(programs=LocalPrograms(loop), files=Files())


def ended(run: str) -> list[str]:
    """End what a dead run's programs still do, before anything is put back; what was done, in words."""
    count = end_left(run)
    return [f"ended {count} program{'s' if count > 1 else ''} that run {run} had started"] if count else []
