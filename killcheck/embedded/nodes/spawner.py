"""Starts containers' processes on behalf of killcheck: a small program of its own, with the standard library alone.

It reads jobs from a socket, forks a child for each, and reports how each ended. A child gets namespaces of its own
(user, mount, PID, network, IPC, host name) where the job asks for them, and a root made of what the job lists. When the
socket closes - killcheck has ended, however - every child is killed and the spawner ends: nothing outlives killcheck.

Run as ``python -I -S spawner.py FD FOLDER``; nothing of killcheck may be imported here.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import platform
import select
import shutil
import signal
import socket
import struct
import sys
import termios
from pathlib import Path
from typing import Any

Job = dict[str, Any]

LINUX = sys.platform.startswith("linux")
#: (clone, pivot_root) by machine, from the kernel's tables.
SYSCALLS = {"x86_64": (56, 155), "aarch64": (220, 41)}
#: CLONE_NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
CLONE = 0x00020000 | 0x04000000 | 0x08000000 | CLONE_NEWUSER | 0x20000000 | CLONE_NEWNET
CLONE_PARENT = 0x00008000
STARTED_AS = (os.geteuid(), os.getegid())

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
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
SIOCSIFADDR, SIOCSIFFLAGS = 0x8916, 0x8914
IFF_UP, IFF_RUNNING = 0x1, 0x40

#: PyDLL keeps the interpreter's lock, so that a clone is as good as a fork.
LIBC = ctypes.PyDLL(None, use_errno=True)


class Refused(Exception):
    """The child could not become what the job asks for. ``kind``: not-found, missing, denied, format, setup."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(what)
        self.kind = kind


# -- the child ---------------------------------------------------------------------------------------------
def child(job: Job, files: list[int], report: socket.socket) -> None:
    """Become the job's program; never returns. ``job["stdio"]`` says which of the files is its 0, 1, 2; -1: none."""
    try:
        prepare(job, report)
        if job.get("pause"):
            pause(report)
        program = resolve(job["argv"][0], job["env"].get("PATH", os.defpath), job.get("cwd") or "/")
        null = os.open(os.devnull, os.O_RDWR)
        for target, source in enumerate(job["stdio"]):
            os.dup2(null if source < 0 else files[source], target)
        if job.get("tty"):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.umask(0o022)
        try:
            os.execve(program, job["argv"], job["env"])  # noqa: S606 - that is what it is for
        except OSError as error:
            if error.errno == errno.ENOEXEC:  # runc has started by then: a line in the log, and exit code 1
                os.write(1, f"exec {job['argv'][0]}: exec format error\n".encode())
                os._exit(1)
            raise
    except Refused as error:
        tell(report, {"refused": error.kind, "what": str(error)})
    except OSError as error:
        tell(report, {"refused": "setup", "what": f"{error.strerror}: {error.filename or ''}"})
    os._exit(127)


def prepare(job: Job, report: socket.socket) -> None:
    """Everything before the program: session, namespaces' insides, root, directory."""
    os.setsid()
    if LINUX:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    listeners: list[socket.socket] = []
    if job.get("pause"):
        map_ids(0)
        any_port()
        listeners = listen(job["addresses"], job["listen"])
    elif job["isolated"] and job.get("inside"):
        LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    elif job["isolated"]:
        map_ids(job.get("uid") or 0, (0, 0) if job.get("network") else STARTED_AS)
        set_hostname(job.get("hostname") or "container")
        if not job.get("network"):
            listeners = listen(job.get("addresses", ()), job.get("listen", ()))
        enter_root(job)
        LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.chdir(job.get("cwd") or "/")
    tell(report, {"ready": len(listeners)}, [sock.fileno() for sock in listeners])
    for sock in listeners:
        sock.close()


def pause(report: socket.socket) -> None:
    """Keep what there is, the network of a pod, until somebody kills us; never returns."""
    signal.set_wakeup_fd(-1)
    report.close()
    while True:
        signal.pause()


def any_port() -> None:
    """Low ports are for everybody in this network, as container runtimes have it."""
    with contextlib.suppress(OSError):
        write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")


def map_ids(inside: int, outside: tuple[int, int] = STARTED_AS) -> None:
    """Inside the namespace we are ``inside``; outside we stay who we are."""
    user, group = outside
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{inside} {user} 1")
    write("/proc/self/gid_map", f"{inside} {group} 1")


def set_hostname(name: str) -> None:
    """The UTS namespace's own name."""
    encoded = name.encode()
    LIBC.sethostname(encoded, len(encoded))


def listen(addresses: list[str], wanted: list[list[Any]]) -> list[socket.socket]:
    """Bring the loopback interface up, give it ``addresses``, and open [kind, address, port] on them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))
        for index, address in enumerate(addresses):
            label = f"lo:{index}".encode()
            request = struct.pack("16sHH4s8x", label, socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(control, SIOCSIFADDR, request)
    opened = []
    for kind, address, port in wanted:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        sock.bind((address, port))
        if kind == "tcp":
            sock.listen(128)
        opened.append(sock)
    return opened


# -- its root ----------------------------------------------------------------------------------------------
def enter_root(job: Job) -> None:
    """Build the root that the job lists on a tmpfs, and leave the host's behind."""
    root = job["root"]
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={job.get('size', '256m')}")
    checked: set[str] = set()
    for step in job["steps"]:
        build(root, step, checked)
    os.chdir(root)
    machine = SYSCALLS[platform.machine()]
    check(LIBC.syscall(machine[1], b".", b"."), "pivot_root")
    check(LIBC.umount2(b".", MNT_DETACH), "umount")
    os.chdir("/")


def build(root: str, step: list[Any], checked: set[str]) -> None:
    """One thing of the root: [what, path, ...]; ``checked`` holds the folders that are known to be inside it."""
    what, path, *rest = step
    target = root + path
    folder = os.path.dirname(target)  # noqa: PTH120 - strings all the way: hundreds of links a container
    if folder not in checked:
        inside = os.path.realpath(folder)
        if inside != root and not inside.startswith(root + "/"):
            raise OSError(errno.EXDEV, "leads out of the container's root", path)
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        checked.add(folder)
    if what == "dir":
        Path(target).mkdir(parents=True, exist_ok=True)
        if rest:
            Path(target).chmod(rest[0])
        return
    if what == "link":
        # Relative always: an absolute one would lead out of the root while it is being built.
        aim = os.path.relpath(rest[0], os.path.dirname(path)) if rest[0].startswith("/") else rest[0]  # noqa: PTH120
        if not os.path.lexists(target):
            os.symlink(aim, target)  # noqa: PTH211
    elif what == "file":
        with open(target, "wb") as file:  # noqa: PTH123
            file.write(rest[0].encode("utf-8", "surrogateescape"))
        os.chmod(target, rest[1])  # noqa: PTH101
    elif what == "bind":
        bind(rest[0], target, read_only=rest[1])
    elif what == "full":
        without_room(root, path, rest[0])
    elif what == "proc":
        Path(target).mkdir(exist_ok=True)
        if LIBC.mount(b"proc", target.encode(), b"proc", ctypes.c_ulong(MS_NOSUID | MS_NODEV | MS_NOEXEC), None):
            bind("/proc", target, read_only=False)  # a container engine around us hides parts of /proc
    elif what == "tmpfs":
        Path(target).mkdir(parents=True, exist_ok=True)
        mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, rest[0])
    elif what == "seal":  # from here on nothing can be written there
        mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)


def bind(source: str, target: str, *, read_only: bool) -> None:
    """Show a file or directory of the host at another place."""
    if os.path.isdir(source):  # noqa: PTH112
        os.makedirs(target, exist_ok=True)  # noqa: PTH103
    elif not os.path.lexists(target):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    if LIBC.mount(source.encode(), target.encode(), None, ctypes.c_ulong(MS_BIND), None):
        mount(source, target, None, MS_BIND | MS_REC)  # it has mounts below it that may not be uncovered
    if read_only:
        # What the host forbids on that mount must be forbidden here too, else the kernel refuses.
        kept = os.statvfs(target).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
        mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | kept)


def without_room(root: str, path: str, source: str) -> None:
    """Show a copy of a folder on a disk of its own, every block of which is taken."""
    disk = Path(f"{root}/.killcheck/disks{path}")
    disk.mkdir(parents=True)
    everything = sorted(Path(source).rglob("*"))
    files = [file for file in everything if file.is_file() and not file.is_symlink()]
    blocks = 1 + sum(-(-file.stat().st_size // 4096) for file in files)
    mount("tmpfs", str(disk), "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={blocks * 4096}")
    for file in files:
        copy = disk / "data" / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)
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
    bind(str(disk / "data"), root + path, read_only=False)


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


def check(code: int, what: str) -> None:
    """Raise OSError for a C call that failed."""
    if code:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def write(path: str, text: str) -> None:
    """Write one of the kernel's own files."""
    Path(path).write_text(text, "ascii")


# -- its program -------------------------------------------------------------------------------------------
def resolve(program: str, path: str, cwd: str) -> str:
    """The file to execute. Raises Refused as runc does."""
    if "/" in program:
        full = os.path.join(cwd, program)  # noqa: PTH118
        if not os.path.exists(full):  # noqa: PTH110
            raise Refused("missing", program)
        if os.path.isdir(full) or not os.access(full, os.X_OK):  # noqa: PTH112
            raise Refused("denied", program)
        return full
    for directory in path.split(":"):
        full = os.path.join(directory, program)  # noqa: PTH118
        if os.path.isfile(full) and os.access(full, os.X_OK):  # noqa: PTH113
            return full
    raise Refused("not-found", program)


# -- the spawner -------------------------------------------------------------------------------------------
def tell(sock: socket.socket, message: Job, descriptors: list[int] | None = None) -> None:
    """Send one message, with descriptors."""
    payload = json.dumps(message).encode()
    framed = struct.pack("!I", len(payload)) + payload
    try:
        if descriptors:
            sent = socket.send_fds(sock, [framed], descriptors)
            framed = framed[sent:]
        sock.sendall(framed)
    except OSError:
        return  # nobody listens any more


class Spawner:
    """The loop over jobs and deaths."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.children: dict[int, str] = {}
        self.grouped: set[int] = set()
        self._buffer = b""
        self._descriptors: list[int] = []

    def run(self) -> None:
        """Until killcheck closes its end."""
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        if LINUX:
            LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(woken, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == woken.fileno():
                    woken.recv(4096)
                elif not self._read():
                    return
            self._reap()

    def end(self, folder: str) -> None:
        """Kill what is left, and everything it started, and remove the folder that it worked in."""
        signal.set_wakeup_fd(-1)
        for pid in list(self.children):
            self._signal(pid, signal.SIGKILL)
        for pid in list(self.children):
            os.waitpid(pid, 0)
        shutil.rmtree(folder, ignore_errors=True)

    def _read(self) -> bool:
        try:
            data, descriptors, _, _ = socket.recv_fds(self.control, 65536, 16)
        except OSError:
            return False
        if not data:
            return False
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        self._buffer += data
        self._descriptors += descriptors
        while len(self._buffer) >= 4:
            size = struct.unpack("!I", self._buffer[:4])[0]
            if len(self._buffer) < 4 + size:
                break
            job = json.loads(self._buffer[4 : 4 + size])
            self._buffer = self._buffer[4 + size :]
            self._handle(job)
        return True

    def _handle(self, job: Job) -> None:
        if job["do"] == "signal":
            for pid, name in self.children.items():
                if name == job["id"]:
                    self._signal(pid, job["signal"], group=job.get("group", False))
            tell(self.control, {"signalled": job["id"]})
            return
        count = max(job.get("stdio", ()), default=-1) + 1
        files, report = self._descriptors[:count], self._descriptors[count]
        self._descriptors = self._descriptors[count + 1 :]
        with socket.socket(fileno=report) as sock:
            try:
                if job["do"] == "connect":
                    self._connect(job, sock)
                else:
                    self._spawn(job, files, sock)
            except OSError as error:
                tell(sock, {"refused": "setup", "what": f"{job['do']}: {error.strerror}", "errno": error.errno})
        for file in files:
            os.close(file)

    def _spawn(self, job: Job, files: list[int], report: socket.socket) -> None:
        inside = job["isolated"] and job.get("inside")
        pid = fork_for(job)
        if pid == 0:
            self.control.close()
            child(job, files, report)
        self.children[pid] = job["id"]
        if inside or not job["isolated"]:
            self.grouped.add(pid)
        tell(report, {"pid": pid})

    def _connect(self, job: Job, report: socket.socket) -> None:
        """Connect to an address from inside a container's network, and hand the socket over."""
        if os.fork():
            return  # it is reaped as the orphans are
        try:
            enter(job["inside"], ("user", "net"))
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
                sock.settimeout(job["limit_s"])
                sock.connect((job["address"], job["port"]))
                tell(report, {"pid": os.getpid()}, [sock.fileno()])
        except TimeoutError:
            tell(report, {"refused": "connect", "what": "timed out", "errno": errno.ETIMEDOUT})
        except OSError as error:
            tell(report, {"refused": "connect", "what": error.strerror, "errno": error.errno})
        finally:
            os._exit(0)

    def _signal(self, pid: int, number: int, *, group: bool = True) -> None:
        if pid in self.grouped and group:
            for member in session(pid):
                send(member, number)
            send(-pid, number)
        else:
            send(pid, number)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while LINUX:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if found is None:
                    return
                self._kill_rest(found.si_pid)  # while its number is still its own, and nobody else's
                pid, code, used = os.wait4(found.si_pid, 0)
                self._gone(pid, code, used.ru_maxrss * 1024)
            while True:
                pid, code = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._kill_rest(pid)
                self._gone(pid, code, 0)

    def _kill_rest(self, pid: int) -> None:
        """A container's processes end with its first one."""
        if pid in self.grouped:
            self._signal(pid, signal.SIGKILL)
            self.grouped.discard(pid)

    def _gone(self, pid: int, code: int, peak: int) -> None:
        name = self.children.pop(pid, None)
        if name is not None:  # else an orphan that came to us
            ended = os.waitstatus_to_exitcode(code)
            tell(
                self.control,
                {"exited": name, "code": ended if ended >= 0 else 128 - ended, "signal": max(0, -ended), "peak": peak},
            )


def send(pid: int, number: int) -> None:
    """A signal to a process, or to a group of them (-pid), if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def session(leader: int) -> list[int]:
    """The processes of a session, where /proc tells."""
    found = []
    for entry in os.listdir("/proc") if LINUX else ():  # noqa: PTH208
        if entry.isdigit():
            try:
                text = Path(f"/proc/{entry}/stat").read_text("latin-1")
            except OSError:
                continue
            if int(text.rpartition(") ")[2].split()[3]) == leader:
                found.append(int(entry))
    return found


def clone(flags: int = CLONE) -> int:
    """Fork, by default into new namespaces. Raises OSError."""
    number = SYSCALLS.get(platform.machine(), (None, None))[0]
    if number is None:
        raise OSError(errno.ENOSYS, "no namespaces on this machine")
    pid = int(LIBC.syscall(number, ctypes.c_ulong(flags | signal.SIGCHLD), None, None, None, None))
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid


def enter(pid: int, kinds: tuple[str, ...]) -> None:
    """Join a process's namespaces, its user's first. Raises OSError."""
    opened = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    for descriptor in opened:
        check(LIBC.setns(descriptor, 0), "setns")
        os.close(descriptor)


def fork_for(job: Job) -> int:
    """Fork into the namespaces that a job asks for, new ones or such as there are. Raises OSError."""
    network, inside = job.get("network"), job.get("inside")
    if not job["isolated"]:
        return os.fork()
    if job.get("pause"):
        return clone(CLONE_NEWUSER | CLONE_NEWNET)
    if inside and network:  # whoever is in its user namespace alone may not join the pod's network
        return fork_inside([(network, ("user", "net")), (inside, ("user", "ipc", "uts", "pid", "mnt"))])
    if inside:
        return fork_inside([(inside, ("user", "ipc", "uts", "net", "pid", "mnt"))])
    return fork_inside([(network, ("user", "net"))], CLONE & ~CLONE_NEWNET) if network else clone()


def fork_inside(places: list[tuple[int, tuple[str, ...]]], flags: int = 0) -> int:
    """Fork into namespaces that processes are in, and new ones; the child is ours all the same. Raises OSError."""
    read, write_end = os.pipe()
    helper = os.fork()
    if helper == 0:
        made = -1
        try:
            for pid, kinds in places:
                enter(pid, kinds)
            # A process enters a PID namespace only by its children; its parent is to be the spawner (as runc does it).
            made = clone(flags | CLONE_PARENT)
        except OSError as error:
            os.write(write_end, f"-{error.errno}".encode())
        if made == 0:
            os.close(read)
            os.close(write_end)
            return 0
        if made > 0:
            os.write(write_end, f"{made}".encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read, "rb") as pipe:
        told = int(pipe.read() or b"-1")
    os.waitpid(helper, 0)
    if told < 0:
        raise OSError(-told, os.strerror(-told))
    return told


if __name__ == "__main__":
    spawner = Spawner(socket.socket(fileno=int(sys.argv[1])))
    try:
        spawner.run()
    finally:
        spawner.end(sys.argv[2])
