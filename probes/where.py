"""Which field of an executor a finding points at."""

from __future__ import annotations

from killcheck.probes.world import Executor

from killcheck.text.yamlfile import Path

__all__ = ["command_path"]


def command_path(executor: Executor) -> Path:
    """What the last container is told to run: its args, its command, or else its image."""
    path, container = executor.containers[-1]
    part = next((name for name in ("args", "command") if container.get(name)), "image")
    return (*path, part)
