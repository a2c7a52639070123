"""What a container sees of this host's own files: libraries, certificates of authorities, devices, its programs.

All of it read-only, and nothing that is somebody's. As steps, in the words of ``rootfs``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["HIDDEN", "Step", "base", "of_root", "thinned"]

Step = list[Any]

#: Where a container keeps what is not of its image.
HIDDEN = "/.killcheck"
#: Of the host, read-only at the same place: libraries and data that programs need, nothing that is somebody's.
_LIBRARIES = (
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/share",
    "/usr/local/lib",
    "/nix/store",
    "/gnu/store",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/services",
    "/etc/protocols",
    "/etc/mime.types",
    "/etc/perl",
)
#: Where distributions have the certificates that programs trust, and what OpenSSL reads beside them.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf",
)
#: Where programs look for time zones (tzset(3), PEP 615).
_ZONES = "/usr/share/zoneinfo"
#: Where programs put what they have fetched.
_ADDED_TO = frozenset({"/usr/local/bin", "/usr/local/sbin"})
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def base(mounted: Iterable[str], *, zones: bool = True) -> Iterator[Step]:
    """What every container has, whatever its image; ``mounted``: the paths of its volumes.

    ``zones``: whether the image has time zones.
    """
    places = {_on_host(path.rstrip("/")) for path in mounted}
    for path in (*_LIBRARIES, *_trust()):
        within = {place for place in places if place.startswith(f"{path}/") and not os.path.exists(place)}  # noqa: PTH110
        yield from _opened(path, within) if within and path.startswith("/usr/") else _as_on_host(path)
    if not zones and os.path.isdir(_ZONES):  # noqa: PTH112
        yield ["tmpfs", _ZONES, "mode=755,size=16k"]
    prefix = sys.base_prefix
    if not prefix.startswith("/usr"):
        yield ["bind", prefix, prefix, True]
    for directory in ("/usr", "/bin", "/sbin"):
        if not os.path.islink(directory):  # noqa: PTH114
            yield ["bind", f"{HIDDEN}/host{directory}", directory, True]
    for path, mode in (
        ("/tmp", 0o1777),  # noqa: S108 - the container's own
        ("/var/tmp", 0o1777),  # noqa: S108
        ("/root", 0o700),
        ("/home", 0o755),
        *((path, 0o755) for path in _ROOTS),
    ):
        yield ["dir", path, mode]
    yield ["link", "/var/run", "/run"]
    for name in _DEVICES:
        yield ["bind", f"/dev/{name}", f"/dev/{name}", False]
    for name, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ):
        yield ["link", f"/dev/{name}", target]
    yield ["tmpfs", "/dev/shm", "mode=1777,size=64m"]  # noqa: S108 - the container's own


#: Folders that are root's in any image.
_ROOTS = (
    *("/run", "/media", "/opt", "/srv", "/mnt", "/sys", "/usr/local/bin", "/usr/local/sbin"),
    *(f"/var/{name}" for name in ("cache", "lib", "log", "spool")),
)


def of_root(mounted: Collection[str]) -> Iterator[Step]:
    """What is root's is not to be written by whoever else a container runs as: here all of it is one user's."""
    for path in ("/etc", "/var", *_ROOTS, "/", "/root"):
        if path not in mounted:
            yield ["dir", path, 0o555]  # /root too: this host's Python may be in there


@cache
def _trust() -> tuple[str, ...]:
    """This host's certificates of authorities: the bundles alone, and none that somebody has put a key into."""
    return tuple(path for path in _BUNDLES if _is_public(path))


def _is_public(path: str) -> bool:
    try:
        return b"PRIVATE KEY" not in Path(path).read_bytes()
    except OSError:
        return False


def _as_on_host(path: str) -> Iterator[Step]:
    if os.path.islink(path):  # noqa: PTH114
        yield ["link", path, os.readlink(path)]  # noqa: PTH115
    elif os.path.exists(path):  # noqa: PTH110
        yield ["bind", path, path, True]


def _on_host(path: str) -> str:
    """A path of a container as it would be on this host, links of its folders followed."""
    folder, _, name = path.rpartition("/")
    return f"{os.path.realpath(folder or '/').rstrip('/')}/{name}"


def _opened(folder: str, within: Collection[str]) -> Iterator[Step]:
    """A folder of this host in which volumes find their place: links to what is in it, and so all the way to them."""
    yield ["dir", folder, 0o755]
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        leads = {place for place in within if place.startswith(f"{entry.path}/")}
        if leads and entry.is_dir(follow_symlinks=False):
            yield from _opened(entry.path, leads)
        else:
            yield ["link", entry.path, f"{HIDDEN}/host{entry.path}"]


def thinned(directory: str, without: Collection[str], *, adding: bool = False) -> Iterator[Step]:
    """A directory of this host's programs; where some are left out, or others are put, each is a link."""
    names = _named(directory)
    if os.path.islink(directory) or not (adding or directory in _ADDED_TO or not names.isdisjoint(without)):  # noqa: PTH114
        yield from _as_on_host(directory)
        return
    yield ["dir", directory, 0o755]
    for name in sorted(names.difference(without)):
        yield ["link", f"{directory}/{name}", f"{HIDDEN}/host{directory}/{name}"]


def _named(directory: str) -> frozenset[str]:
    """What is in it: one look for all the names that may be left out of it."""
    try:
        return frozenset(os.listdir(directory))  # noqa: PTH208
    except OSError:
        return frozenset()
