"""Where the spawner of containers works: apart from this host, and apart from every container.

As root that is a mount namespace of its own; as anybody else also a user namespace, in which it may make one. Volumes
are there, on disks of a size, and nowhere on this host. Run by ``spawner.py``, which starts without killcheck: the
standard library alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from killcheck.embedded.nodes import confinement, rootfs
    from killcheck.embedded.nodes.confinement import LIBC, check
else:
    import confinement
    import rootfs
    from confinement import LIBC, check

__all__ = ["CLONE_NEWCGROUP", "CLONE_NEWNS", "CLONE_NEWUSER", "LINUX", "Place", "write"]

LINUX = sys.platform.startswith("linux")
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUSER = 0x00020000, 0x02000000, 0x10000000
#: Who containers are on a host on which we are root: nobody that it knows.
NOBODY_KNOWN = 2_000_000_000
CAP_SYS_ADMIN = 21
#: Bytes of all volumes of a run that have no limit of their own, and the most that one's limit may allow.
VOLUMES_BYTES = 1 << 30
PR_SET_DUMPABLE, PR_SET_SECUREBITS = 4, 28
NO_SETUID_FIXUP = 4
#: How a folder is opened that is not to be a link.
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Place:
    """Where the spawner works. ``user``: whom its containers are, seen from here; None: who we are ourselves.

    ``folder`` holds ``root`` and ``pods``; ``lifeline``: a pipe that ends when we do.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.user: int | None = None
        self.lifeline, self._alive = os.pipe() if LINUX else (-1, -1)

    @property
    def pods(self) -> str:
        """Where the pods' files are."""
        return f"{self.folder}/pods"

    def settle(self) -> None:
        """Take a place of our own, apart from this host's. Raises OSError where it does not allow that."""
        if not LINUX:
            raise OSError(errno.ENOSYS, "no namespaces on this system")
        mapped = _mapped_ids()
        if os.geteuid() == 0 and _may_administer():
            if mapped > 1:
                self.user = min(NOBODY_KNOWN, mapped - 1)
            check(LIBC.unshare(CLONE_NEWNS), "unshare")
        else:
            own = os.geteuid(), os.getegid()
            check(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS), "user namespaces")
            map_ids(0, own)
        rootfs.mount(None, "/", None, rootfs.MS_REC | rootfs.MS_PRIVATE)
        rootfs.mount(
            "tmpfs",
            self.folder,
            "tmpfs",
            rootfs.MS_NOSUID | rootfs.MS_NODEV,
            f"mode=755,size={VOLUMES_BYTES},nr_inodes={4 * rootfs.INODES}",
        )
        for name in ("root", "pods"):
            os.mkdir(f"{self.folder}/{name}", 0o755)  # noqa: PTH102

    def let_go(self) -> None:
        """In a child: the pipe's other end is the spawner's alone."""
        if self._alive >= 0:
            os.close(self._alive)

    def volume(self, source: str, size: int) -> None:
        """See that a volume is there, on a disk of its own where it has a limit, and that it is the container's."""
        where = f"{self.pods}/{source}"
        os.makedirs(where, exist_ok=True)  # noqa: PTH103
        if size and not os.path.ismount(where):
            rootfs.mount(
                "tmpfs",
                where,
                "tmpfs",
                rootfs.MS_NOSUID | rootfs.MS_NODEV,
                f"mode=777,size={min(size, VOLUMES_BYTES)},nr_inodes={rootfs.INODES}",
            )
        if os.stat(where).st_mode & 0o777 != 0o777:  # noqa: PTH116
            os.chmod(where, 0o777)  # noqa: PTH101, S103 - as an emptyDir is
        if self.user is not None:
            self._hand_over(where)

    def _hand_over(self, where: str) -> None:
        """Everything in it that killcheck has put there is the container's."""
        with contextlib.suppress(RecursionError):  # what is nested deeper a container has put there, and it is its own
            self._give(os.open(where, _FOLDER))

    def _give(self, folder: int) -> None:
        """The same of an open folder, which is closed. No link is followed: who follows one is seen (machine/looks)."""
        try:
            if os.fstat(folder).st_uid != self.user:
                os.fchown(folder, self.user or 0, self.user or 0)
            with os.scandir(folder) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
            for name, is_folder in found:
                if is_folder:
                    with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # its owner was quicker
                        self._give(os.open(name, _FOLDER, dir_fd=folder))
                else:
                    os.chown(name, self.user or 0, self.user or 0, dir_fd=folder, follow_symlinks=False)
        finally:
            os.close(folder)

    def release(self, pod: str) -> None:
        """A pod's volumes are nobody's any more."""
        where = f"{self.pods}/{pod}"
        volumes = f"{where}/volumes"
        for name in os.listdir(volumes) if os.path.isdir(volumes) else ():  # noqa: PTH112, PTH208
            LIBC.umount2(f"{volumes}/{name}".encode(), rootfs.MNT_DETACH)
        with contextlib.suppress(RecursionError):  # folders in folders in folders: they go with all of it, at the end
            shutil.rmtree(where, ignore_errors=True)

    def leave(self) -> None:
        """Nothing of it is left."""
        if LINUX:
            LIBC.umount2(self.folder.encode(), rootfs.MNT_DETACH)  # fails where nothing was mounted
        shutil.rmtree(self.folder, ignore_errors=True)

    def become(self) -> None:
        """In a child: be whom containers are, with all rights still."""
        if self.user is None:
            return
        check(LIBC.prctl(PR_SET_SECUREBITS, NO_SETUID_FIXUP, 0, 0, 0), "prctl")
        os.setgroups([])
        os.setresgid(self.user, self.user, self.user)
        os.setresuid(self.user, self.user, self.user)
        confinement.prctl(PR_SET_DUMPABLE, 1)  # else its own /proc/self would not be its own

    def step_down(self, uid: int) -> None:
        """In a child: into a user namespace of its own, where it is ``uid`` and the mounts made so far are locked."""
        outside = (self.user, self.user) if self.user is not None else (0, 0)
        check(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWCGROUP), "user namespaces")
        map_ids(uid, outside)


def _mapped_ids() -> int:
    """The users that there are in our user namespace, counted from 0 on."""
    first, _, count = Path("/proc/self/uid_map").read_text("ascii").split("\n")[0].split()
    return int(first) + int(count)


def _may_administer() -> bool:
    status = Path("/proc/self/status").read_text("ascii")
    return bool(int(status.partition("CapEff:")[2].split()[0], 16) >> CAP_SYS_ADMIN & 1)


def map_ids(inside: int, outside: tuple[int, int]) -> None:
    """Inside the namespace we are ``inside``; outside we stay who we are."""
    user, group = outside
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{inside} {user} 1")
    write("/proc/self/gid_map", f"{inside} {group} 1")


def write(path: str, text: str) -> None:
    """Write one of the kernel's own files."""
    Path(path).write_text(text, "ascii")
