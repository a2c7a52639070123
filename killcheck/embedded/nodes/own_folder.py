"""A temporary folder that belongs to a process, and goes with it: also by the next one, where it was killed.

Nobody who is killed can take a folder away. Who holds one holds its lock, which ends with the process; one that is
empty and that nobody holds is left over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path

__all__ = ["PREFIX", "OwnFolder"]

PREFIX = "killcheck-pods-"


class OwnFolder:
    """A new folder at ``path``, held until :meth:`release`. What dead processes left empty is taken away first."""

    def __init__(self) -> None:
        _clear(Path(tempfile.gettempdir()))
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            with contextlib.suppress(FileNotFoundError):  # taken away before it was held
                self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                fcntl.flock(self._held, fcntl.LOCK_SH)
                if self.path.is_dir():
                    return
                os.close(self._held)

    def release(self) -> None:
        """Let it go; the folder itself stays."""
        os.close(self._held)


def _clear(where: Path) -> None:
    for path in where.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or gone
            held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.rmdir()  # what is in it may be somebody's still
            finally:
                os.close(held)
