"""Which program has looked at a file: asking whether it is there, opening, reading or locking it.

The file is put aside, and a link to it takes its place. Whoever looks at the file follows the link, and the kernel
writes down when that was done last (``touch_atime`` in fs/namei.c, ``pick_link``; with ``relatime`` the first time
after the link was made older). What makes a file of its own there (``mkdir``, ``O_EXCL``) follows nothing; nor is
anything written down where the disk is mounted without access times: no look is seen then, and none is claimed. What
may *not* live here: what it means.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from killcheck.clock import Loop
from killcheck.spec.killpath import Command

__all__ = ["Looks"]

#: How the name of the file begins that a link was laid before.
ASIDE = ".killcheck-aside-"


class Looks:
    """The links that were laid, and who has followed them. ``loop`` is the clock of what is told."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._seen: dict[Path, dict[Command, datetime]] = {}
        self._running: list[Command] = []

    def lay(self, file: Path) -> None:
        """Put a file or folder aside, with a link in its place. Raises OSError."""
        aside = file.with_name(f"{ASIDE}{file.name}")
        file.rename(aside)
        file.symlink_to(aside.name)
        self._seen[file] = {}
        self._forget(file)

    def take_up(self, file: Path) -> None:
        """Put it back, unless somebody has put something else in its place; idempotent."""
        self._sweep()
        self._seen.pop(file, None)
        aside = file.with_name(f"{ASIDE}{file.name}")
        if not os.path.lexists(aside):
            return
        if file.is_symlink() and file.readlink() == Path(aside.name):
            file.unlink()
            aside.rename(file)
        elif aside.is_dir():
            aside.rmdir()
        else:
            aside.unlink()

    def lies_at(self, file: Path) -> Path:
        """Where a file is itself: looked at there, it was followed by nobody."""
        aside = file.with_name(f"{ASIDE}{file.name}")
        return aside if file.is_symlink() and os.path.lexists(aside) else file

    def seen(self, file: Path) -> Mapping[Command, datetime]:
        """Who has looked at it, and when last, as far as one program alone was running then."""
        self._sweep()
        return self._seen.get(file, {})

    def begun(self, command: Command) -> None:
        """A program starts."""
        self._sweep()
        self._running.append(command)

    def ended(self, command: Command) -> None:
        """A program has ended, or was never started."""
        self._sweep()
        if command in self._running:
            self._running.remove(command)

    def _sweep(self) -> None:
        for file, by in self._seen.items():
            with contextlib.suppress(OSError):
                followed = file.is_symlink() and os.lstat(file).st_atime_ns > 0
                if followed and len(self._running) == 1:
                    by[self._running[0]] = self._loop.now()
                if followed:
                    self._forget(file)

    @staticmethod
    def _forget(file: Path) -> None:
        """From here on a look is one that comes later."""
        os.utime(file, ns=(0, os.lstat(file).st_mtime_ns), follow_symlinks=False)
