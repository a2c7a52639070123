"""How well what runs on this host is kept in: the levels, and the ways to one of them.

A level is what it promises or it is not offered. Landlock with a filter of system calls, without any namespace, is
none: it cannot hide this host's processes and what is listening here, bound what is written, or end what leaves its
session once killcheck is gone.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["BWRAP", "LEVELS", "WAYS_OUT", "Level"]


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

WAYS_OUT = (
    "use a Docker Engine (--exec docker), run as root, allow user namespaces "
    "(Ubuntu: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0), "
    "or trust the manifests with this machine (--exec unisolated)"
)
