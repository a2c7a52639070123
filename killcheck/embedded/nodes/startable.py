"""Whether a program of this host can start where nothing but the host's libraries and programs is shown.

A container sees ``/usr``, the libraries and one file for each program that lies elsewhere. What needs more than that
(an interpreter or libraries in somebody's home, a file beside it) would end with 127 or 1 there, and nobody could
tell this from a program that its image lacks. Source: execve(2), elf(5) (PT_INTERP), ld.so(8) (``--list``).
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from functools import cache

from killcheck.text import lazy_re

__all__ = ["interpreter", "unseen"]

#: Folders that a container sees as they are here.
_SHOWN = ("/usr/", "/bin/", "/sbin/", "/lib", "/nix/store/", "/gnu/store/")
#: Programs that start another one by the name under which they are called, out of folders of their own.
_STARTERS = frozenset({"aqua-proxy", "asdf", "hermit", "mise", "proto-shim", "rtx", "rustup", "snap", "volta-shim"})
#: An absolute path in a script.
_PATH = lazy_re.compile(rb"(?<![\w./$}-])/[\w.+/-]+")
#: So much of a script is read.
_MOST = 65536
_PT_INTERP = 3
#: The loader answers within that; no file of the program's own is run.
_LOADER_S = 5.0


def unseen(path: str) -> str | None:
    """What keeps the program at ``path`` (absolute, links followed) from starting in a container; None: nothing."""
    if os.path.basename(path) in _STARTERS:  # noqa: PTH119 - as hostprograms has it: hundreds of names are looked for
        return f"it starts what {os.path.basename(path)} keeps in folders of its own"  # noqa: PTH119
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            head = file.read(_MOST)
    except OSError:
        return None  # it can be run and not read
    if head.startswith(b"#!"):
        return _of_script(path, head)
    return None if _shown(path) or not head.startswith(b"\x7fELF") else _of_binary(path, head)


@cache
def interpreter(path: str) -> str | None:
    """What starts a script, ``env`` left out; None: it is no script, or cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return _interpreter(file.read(256))
    except OSError:
        return None


def _interpreter(head: bytes) -> str | None:
    if not head.startswith(b"#!"):
        return None
    words = [os.fsdecode(word) for word in head.split(b"\n", 1)[0][2:].split()]
    if words and os.path.basename(words[0]) == "env":  # noqa: PTH119
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else None


def _of_script(path: str, text: bytes) -> str | None:
    """A script is alone in a container where it lies elsewhere, and Python is another one there."""
    starts = _interpreter(text) or ""
    name = os.path.basename(starts)  # noqa: PTH119
    found = starts if os.path.isabs(starts) else shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")  # noqa: PTH117
    if name.startswith("python"):
        return f"it is a script of {starts} with this machine's packages"
    if found is None or not _shown(found):
        return f"it is started by {starts}"
    if not _shown(path):
        return f"it is a script in {os.path.dirname(path)}, alone without what is beside it"  # noqa: PTH120
    for called in _PATH.findall(text):
        other = os.path.realpath(os.fsdecode(called))
        if not _shown(other) and os.path.isfile(other) and os.access(other, os.X_OK):  # noqa: PTH113
            return f"it calls {os.fsdecode(called)}"
    return None


def _of_binary(path: str, head: bytes) -> str | None:
    """The loader says which libraries a program takes, and from where."""
    loader = _loader(head)
    if loader is None:
        return None  # linked statically
    loader = os.path.realpath(loader)  # the file names it, and is not to lead to another one of its own choice
    if not _shown(loader):
        return f"it is started by {loader}"
    try:
        listed = subprocess.run(
            [loader, "--list", path], capture_output=True, text=True, check=False, timeout=_LOADER_S, env={}
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"{loader} does not tell its libraries"
    missing = re.search(r"(?m)^\s*(\S+) => not found|: (\S+): cannot open shared object", listed.stdout + listed.stderr)
    if missing:
        return f"it needs {missing[1] or missing[2]}"
    for library in re.findall(r"=> (/\S+)", listed.stdout):
        if not _shown(os.path.realpath(library)):
            return f"it needs {os.path.realpath(library)}"
    return None


def _loader(head: bytes) -> str | None:
    """The dynamic loader that an ELF file of 64 bits names; None: it names none."""
    if len(head) < 64 or head[4] != 2:
        return None
    order = "<" if head[5] == 1 else ">"
    at, (size, number) = struct.unpack_from(f"{order}Q", head, 32)[0], struct.unpack_from(f"{order}HH", head, 54)
    for start in range(at, min(at + size * number, len(head) - size + 1), size):
        kind, _, offset, _, _, length = struct.unpack_from(f"{order}IIQQQQ", head, start)
        if kind == _PT_INTERP:
            return os.fsdecode(head[offset : offset + length].rstrip(b"\0")) or "a loader that cannot be read"
    return None


def _shown(path: str) -> bool:
    return path.startswith((*_SHOWN, f"{sys.base_prefix}/"))
