"""A machine's tree as it is kept in a repository: which file of a folder lies where on the machine.

Nothing is run. What may *not* live here: what the files say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from killcheck.text.files import enclosed

__all__ = ["files", "home", "is_root"]

#: Where units and crontabs lie below a machine's root.
_PLACES = (
    ("usr", "lib", "systemd", "system"),
    ("etc", "systemd", "system"),
    ("etc", "systemd", "user"),
    ("lib", "systemd", "system"),
    ("etc", "cron.d"),
    ("var", "spool", "cron", "crontabs"),
)
#: Folders of a root in which somebody's own files lie (hier(7)); whatever else a repository holds is no machine's.
_OWN = ("etc", "home", "opt", "root", "srv", "usr", "var")
#: So many files are put in their places at most, and none larger than this, in bytes.
MOST, FILE_LIMIT = 200, 1 << 20


def home(folder: Path) -> Path:
    """The folder that stands for a machine's root, where its tree is kept as it is there; else the units' own."""
    for place in _PLACES:
        if folder.parts[-len(place) :] == place:
            return folder.parents[len(place) - 1]
    return folder


def is_root(folder: Path) -> bool:
    """Whether a folder stands for a machine's root: units or crontabs lie in it where a machine has them."""
    return any(folder.joinpath(*place).is_dir() for place in _PLACES)


def files(root: Path) -> dict[str, Path]:
    """The files of a tree by their paths on the machine: the first :data:`MOST`, no link that leads out followed."""
    if not is_root(root):
        return {}
    found: dict[str, Path] = {}
    for file in _below(root):
        if len(found) == MOST:
            break
        if enclosed(file, root) and file.stat().st_size <= FILE_LIMIT:
            found[f"/{file.relative_to(root).as_posix()}"] = file
    return found


def _below(root: Path) -> Iterator[Path]:
    for top in _OWN:
        for here, below, names in os.walk(root / top):
            below[:] = sorted(name for name in below if name != ".git")
            yield from (Path(here, name) for name in sorted(names))
