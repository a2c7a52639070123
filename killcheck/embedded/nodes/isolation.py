"""How well what runs on this host is kept in: the levels, and the ways to one of them.

A level is what it promises or it is not offered. Landlock with a filter of system calls, without any namespace, is
none: it cannot hide this host's processes and what is listening here, bound what is written, or end what leaves its
session once killcheck is gone.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path

__all__ = ["BWRAP", "LEVELS", "Level", "here", "ways_out"]


class Level(StrEnum):
    """``namespaces``: the kernel's, made by whoever runs killcheck; ``bubblewrap``: made by bubblewrap, which a host
    may allow where it allows nobody else; ``docker``: containers of an engine; ``unisolated``: programs of this host.
    """

    NAMESPACES = "namespaces"
    BUBBLEWRAP = "bubblewrap"
    DOCKER = "docker"
    UNISOLATED = "unisolated"


#: Those of this host that keep strangers in, the strongest first.
LEVELS = (Level.NAMESPACES, Level.BUBBLEWRAP)

#: A user namespace around the helper, in which it may do what it does as root elsewhere.
BWRAP = (
    "bwrap",
    "--unshare-user",
    "--uid",
    "0",
    "--gid",
    "0",
    "--cap-add",
    "ALL",
    "--dev-bind",
    "/",
    "/",
    "--die-with-parent",
    "--",
)

#: Settings of kernels by which nobody but root may make user namespaces: the value that refuses, and the one that does
#: not. Ubuntu's since 23.10, Debian's, and every Linux's.
_REFUSING = {
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "user.max_user_namespaces": ("0", "15000"),
}


def here() -> str:
    """This system, as ``sys.platform`` has it: ``linux``, ``darwin``."""
    return sys.platform


def ways_out(system: Path = Path("/")) -> str:
    """What somebody can do where strangers cannot be kept in, the easiest first; ``system``: the root of this one."""
    found = ["use a Docker Engine (--exec docker)"]
    if here().startswith("linux"):
        if any((system / name).exists() for name in (".dockerenv", "run/.containerenv")):
            found.append("run killcheck in a privileged container")
        found += [
            f"allow user namespaces (sudo sysctl -w {name}={allowing})"
            for name, (refusing, allowing) in _REFUSING.items()
            if _setting(system, name) == refusing
        ]
        if os.geteuid() != 0:
            found.append("run as root")
    return ", ".join(found) + ", or trust the manifests with this machine (--exec unisolated)"


def _setting(system: Path, name: str) -> str:
    try:
        return (system / "proc/sys" / name.replace(".", "/")).read_text("ascii").strip()
    except OSError:
        return ""
