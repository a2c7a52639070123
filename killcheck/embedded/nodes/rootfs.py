"""Builds the root that a container sees, in a mount namespace of its own, and leaves this host's behind.

What the steps name comes from manifests, and what lies in a volume was written by the container itself: nothing below a
volume is reached through a symbolic link, so nothing of this host is ever mounted, written or made by such a path. Run
by ``spawner.py``, which starts without killcheck: the standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from killcheck.embedded.nodes.confinement import LIBC, check
else:
    from confinement import LIBC, check

__all__ = ["MNT_DETACH", "MS_NODEV", "MS_NOSUID", "MS_PRIVATE", "MS_REC", "PIVOT_ROOT", "Root", "mount", "walk"]

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    0x1,
    0x2,
    0x4,
    0x8,
    0x20,
    0x1000,
    0x4000,
    0x40000,
)
MNT_DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
#: Bytes of a container's own disk; inodes of one.
ROOT_BYTES = 256 << 20
INODES = 1 << 16
#: Of /proc, what speaks of this host and not of the container: not to be read, or not to be written (runc's lists).
_HIDDEN = (
    "acpi",
    "asound",
    "interrupts",
    "kcore",
    "key-users",
    "keys",
    "latency_stats",
    "sched_debug",
    "scsi",
    "timer_list",
)
_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")


class Root:
    """One container's root, at ``where`` on this host, until :meth:`enter`. ``pods``: where the volumes are."""

    def __init__(self, where: str, pods: str) -> None:
        self.where = where
        self.pods = pods
        #: Folders that are known to be inside it.
        self._inside: set[str] = set()
        #: Volumes that can be written, by their paths: how each is reached without its path.
        self._volumes: dict[str, int] = {}

    def build(self, steps: list[list[Any]]) -> None:
        """Everything that the steps list, on a disk of its own. Raises OSError."""
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        mount("tmpfs", self.where, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={ROOT_BYTES},nr_inodes={INODES}")
        for what, path, *rest in steps:
            getattr(self, f"_{what}")(self._target(path), path, *rest)
        for descriptor in self._volumes.values():
            os.close(descriptor)

    def enter(self) -> None:
        """Make it the root, and nothing else reachable. Raises OSError."""
        os.chdir(self.where)
        check(LIBC.syscall(PIVOT_ROOT[platform.machine()], b".", b"."), "pivot_root")
        check(LIBC.umount2(b".", MNT_DETACH), "umount")
        os.chdir("/")

    def _target(self, path: str) -> str:
        """Where a path of the container is on this host now; its folder is made.

        Raises OSError where that leads out.
        """
        volume = next((v for v in self._volumes if path == v or path.startswith(f"{v}/")), None)
        if volume is not None and path != volume:
            descriptor = walk(self._volumes[volume], os.path.dirname(path[len(volume) + 1 :]))  # noqa: PTH120
            name = os.path.basename(path)  # noqa: PTH119
            if name == ".." or _is_link(name, descriptor):
                raise OSError(errno.ELOOP, "leads through a symbolic link in a volume", path)
            return f"/proc/self/fd/{descriptor}/{name}"  # open until the process is another program
        target = self.where + path
        folder = os.path.dirname(target)  # noqa: PTH120 - strings all the way: hundreds of links a container
        if folder not in self._inside:
            inside = os.path.realpath(folder)
            if inside != self.where and not inside.startswith(self.where + "/"):
                raise OSError(errno.EXDEV, "leads out of the container's root", path)
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            self._inside.add(folder)
        return target

    # -- the steps -----------------------------------------------------------------------------------------
    def _dir(self, target: str, _path: str, mode: int | None = None) -> None:
        Path(target).mkdir(parents=True, exist_ok=True)
        if mode is not None:
            Path(target).chmod(mode)

    def _link(self, target: str, path: str, aim: str) -> None:
        # Relative always: an absolute one would lead out of the root while it is being built.
        if aim.startswith("/"):
            aim = _way(aim, path)
        with contextlib.suppress(FileExistsError):
            os.symlink(aim, target)  # noqa: PTH211

    def _file(self, target: str, _path: str, text: str, mode: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            os.fchmod(file.fileno(), mode & 0o777)

    def _bind(self, target: str, _path: str, source: str, read_only: bool) -> None:
        bind(source, target, read_only=read_only)

    def _pod(self, target: str, _path: str, source: str) -> None:
        """A file of the pod's that is not the container's to replace."""
        bind(f"{self.pods}/{source}", target, read_only=False)

    def _volume(self, target: str, path: str, source: str, *more: Any) -> None:
        """A volume, or what is at a path in it; ``full``: a copy, on a disk that has no room left."""
        sub_path, read_only, full, _size = more
        base = os.open(f"{self.pods}/{source}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        found = walk(base, sub_path, file=True)
        seen = f"/proc/self/fd/{found}"
        if full:
            without_room(f"{self.where}/.killcheck/disks{path}", target, seen)
        else:
            bind(seen, target, read_only=read_only)
        if os.path.isdir(target):  # noqa: PTH112
            self._volumes = {path.rstrip("/"): os.open(target, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)} | (
                self._volumes
            )
        for descriptor in {base, found}:
            os.close(descriptor)

    def _tmpfs(self, target: str, _path: str, options: str) -> None:
        Path(target).mkdir(parents=True, exist_ok=True)
        mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, f"{options},nr_inodes={INODES}")

    def _seal(self, target: str, _path: str) -> None:
        """From here on nothing can be written there."""
        mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)

    def _proc(self, target: str, _path: str) -> None:
        """The container's processes, and of this host what does no harm. There is no other way: its own shows all."""
        Path(target).mkdir(exist_ok=True)
        mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        for name in _HIDDEN:
            hidden = f"{target}/{name}"
            if os.path.isdir(hidden):  # noqa: PTH112
                mount("tmpfs", hidden, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "size=0,mode=555")
            elif os.path.exists(hidden):  # noqa: PTH110
                mount("/dev/null", hidden, None, MS_BIND)
        for name in _READ_ONLY:
            if os.path.exists(f"{target}/{name}"):  # noqa: PTH110
                bind(f"{target}/{name}", f"{target}/{name}", read_only=True)


def _way(aim: str, path: str) -> str:
    """From the folder of a link at ``path`` to ``aim``: down to the root, and up from there."""
    plain = "//" not in aim + path and not any(part in (".", "..") for part in (*aim.split("/"), *path.split("/")))
    if not plain:
        return os.path.relpath(aim, os.path.dirname(path))  # noqa: PTH120
    return "../" * (path.count("/") - 1) + aim[1:]


def walk(base: int, path: str, *, file: bool = False) -> int:
    """An O_PATH descriptor of what is at a path below ``base``, its folders made, symbolic links never followed.

    ``file``: the last of it may be something other than a folder. Raises OSError (ELOOP, ENOTDIR).
    """
    here = os.dup(base)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for number, part in enumerate(parts, 1):
        if part == ".." or _is_link(part, here):
            raise OSError(errno.ELOOP, "leads through a symbolic link in a volume", path)
        last = file and number == len(parts)
        if not _exists(part, here):
            os.mkdir(part, 0o777, dir_fd=here)
        # A link that has come in between is opened as such, and is no folder.
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | (0 if last else os.O_DIRECTORY)
        below = os.open(part, flags, dir_fd=here)
        os.close(here)
        here = below
        if stat.S_ISLNK(os.fstat(here).st_mode):
            raise OSError(errno.ELOOP, "leads through a symbolic link in a volume", path)
    return here


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def bind(source: str, target: str, *, read_only: bool) -> None:
    """Show a file or directory of this host at another place: no set-user-ID bit counts there, and no device."""
    if os.path.isdir(source):  # noqa: PTH112
        os.makedirs(target, exist_ok=True)  # noqa: PTH103
    elif not os.path.lexists(target):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
    if LIBC.mount(source.encode(), target.encode(), None, ctypes.c_ulong(MS_BIND), None):
        mount(source, target, None, MS_BIND | MS_REC)  # it has mounts below it that may not be uncovered
    flags = MS_BIND | MS_REMOUNT | MS_NOSUID | (MS_RDONLY if read_only else 0)
    device = stat.S_ISCHR(os.stat(target).st_mode)  # noqa: PTH116
    # What the host forbids on that mount must be forbidden here too, else the kernel refuses.
    kept = os.statvfs(target).f_flag & (MS_RDONLY | MS_NODEV | MS_NOEXEC)
    mount(None, target, None, flags | kept | (0 if device else MS_NODEV))


def without_room(disk_at: str, target: str, source: str) -> None:
    """Show a copy of a folder on a disk of its own, every block of which is taken."""
    disk = Path(disk_at)
    disk.mkdir(parents=True)
    everything = sorted(Path(f"{source}/.").rglob("*"))
    files = [file for file in everything if file.is_file() and not file.is_symlink()]
    blocks = 1 + sum(-(-file.stat().st_size // 4096) for file in files)
    mount("tmpfs", str(disk), "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={blocks * 4096}")
    for file in files:
        copy = disk / "data" / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy, follow_symlinks=False)
    (disk / "data").mkdir(exist_ok=True)
    for other in everything:
        copy = disk / "data" / other.relative_to(source)
        if other.is_symlink():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.symlink_to(os.readlink(other))  # noqa: PTH115
        elif other.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
    try:
        with (disk / "taken").open("wb", buffering=0) as taken:
            while True:
                taken.write(bytes(4096))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    bind(str(disk / "data"), target, read_only=False)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2). Raises OSError."""
    code = LIBC.mount(
        source.encode() if source else None,
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() if data else None,
    )
    check(code, f"mount {target}")
