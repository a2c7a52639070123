"""Starts containers' processes on behalf of killcheck: a small program of its own, with the standard library alone.

It reads jobs from a socket, forks a child for each, and reports how each ended. Where it is to keep strangers in it has
a mount namespace of its own (and, where it is not root, a user namespace) that no container is in: there it builds each
container's root, network and processes' namespace, and from there the container steps down into a user namespace of
its own, in which those mounts are locked, and gives up everything (``confinement.py``). When the socket closes -
killcheck has ended, however - every child is killed and the spawner ends: nothing outlives killcheck.

Imported by the fork server (``forkserver.py``) with ``python -I -S``; nothing of killcheck may be imported here.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import gc
import json
import os
import platform
import select
import signal
import socket
import struct
import sys
import termios
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from killcheck.embedded.nodes import confinement, rootfs
    from killcheck.embedded.nodes.confinement import LIBC, check
    from killcheck.embedded.nodes.spawnplace import CLONE_NEWNS, LINUX, Place, write
else:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    import confinement
    import rootfs
    from confinement import LIBC, check
    from spawnplace import CLONE_NEWNS, LINUX, Place, write

Job = dict[str, Any]

#: clone by machine, from the kernel's tables.
CLONE_CALL = {"x86_64": 56, "aarch64": 220}
CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x04000000, 0x08000000, 0x20000000, 0x40000000
#: What a container has of its own before it steps down.
CLONE = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
CLONE_PARENT = 0x00008000
PR_SET_CHILD_SUBREAPER = 36
SIOCSIFADDR, SIOCSIFFLAGS = 0x8916, 0x8914
IFF_UP, IFF_RUNNING = 0x1, 0x40


class Refused(Exception):
    """The child could not become what the job asks for. ``kind``: not-found, missing, denied, format, setup."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(what)
        self.kind = kind


# -- the child ---------------------------------------------------------------------------------------------
def child(job: Job, files: list[int], report: socket.socket, place: Place) -> None:
    """Become the job's program; never returns. ``job["stdio"]`` says which of the files is its 0, 1, 2; -1: none."""
    try:
        place.let_go()
        prepare(job, report, place)
        if job.get("pause"):
            pause(report, place)
        null = os.open(os.devnull, os.O_RDWR)
        for target, source in enumerate(job["stdio"]):
            os.dup2(null if source < 0 else files[source], target)
        if job.get("tty"):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.umask(0o022)
        if job["isolated"]:
            confinement.confine()
        elif LINUX:
            confinement.limit(0)
            confinement.no_new_privileges()
        if LINUX:
            confinement.die_with_parent(place.lifeline)
        program = resolve(job["argv"][0], job["env"].get("PATH", os.defpath), job.get("cwd") or "/")
        try:
            os.execve(program, job["argv"], job["env"])  # noqa: S606 - that is what it is for
        except OSError as error:
            if error.errno == errno.ENOEXEC:  # runc has started by then: a line in the log, and exit code 1
                os.write(1, f"exec {job['argv'][0]}: exec format error\n".encode())
                os._exit(1)
            if error.errno == errno.ENOENT and ends_in_return(program):  # of no image: likewise
                os.write(1, f"exec {job['argv'][0]}: no such file or directory\n".encode())
                os._exit(1)
            raise
    except Refused as error:
        tell(report, {"refused": error.kind, "what": str(error)})
    except (OSError, ValueError) as error:
        why, about = getattr(error, "strerror", None) or str(error), getattr(error, "filename", None)
        tell(report, {"refused": "setup", "what": f"{why}: {about}" if about else why})
    finally:  # whatever it is: a child must never go on as a second spawner
        os._exit(127)


def ends_in_return(program: str) -> bool:
    """Whether a script's first line ends as Windows ends lines: the kernel looks for an interpreter of that name."""
    script = os.open(program, os.O_RDONLY | os.O_CLOEXEC)
    first = os.read(script, 256).partition(b"\n")[0]
    os.close(script)
    return first.startswith(b"#!") and first.endswith(b"\r")


def prepare(job: Job, report: socket.socket, place: Place) -> None:
    """Everything before the program: session, namespaces' insides, root, directory."""
    os.setsid()
    listeners: list[socket.socket] = []
    if job.get("pause"):
        place.become()
        listeners = open_network(job)
    elif job["isolated"] and not job.get("inside"):
        place.become()
        if not job.get("network"):
            listeners = open_network(job)
        set_hostname(job.get("hostname") or "container")
        root = rootfs.Root(f"{place.folder}/root", place.pods)
        root.build(job["steps"])
        root.enter()
        place.step_down(job.get("uid") or 0)
    os.chdir(job.get("cwd") or "/")
    tell(report, {"ready": len(listeners)}, [sock.fileno() for sock in listeners])
    for sock in listeners:
        sock.close()


def pause(report: socket.socket, place: Place) -> None:
    """Keep what there is, the network of a pod, until somebody kills us; never returns."""
    signal.set_wakeup_fd(-1)
    confinement.die_with_parent(place.lifeline)
    report.close()
    while True:
        signal.pause()


def open_network(job: Job) -> list[socket.socket]:
    """Make the namespace's network what the job says. Low ports are for everybody in it, as runtimes have it."""
    with contextlib.suppress(OSError):
        write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
    return listen(job.get("addresses", ()), job.get("listen", ()))


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

    def __init__(self, control: socket.socket, place: Place) -> None:
        self.control = control
        self.place = place
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

    def end(self) -> None:
        """Kill what is left, and everything it started, and remove the folder that it worked in."""
        signal.set_wakeup_fd(-1)
        for pid in list(self.children):
            self._signal(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                for pid in orphans():  # what left its session comes to us when its parent dies
                    send(pid, signal.SIGKILL)
                os.waitpid(-1, 0)
        self.place.leave()

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
        if job["do"] == "release":
            self.place.release(job["pod"])
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
        for what, _, *rest in job.get("steps", ()):
            if what == "volume":
                self.place.volume(rest[0], rest[-1])
        user = self.place.user
        for file in files if job["isolated"] and user is not None else ():
            os.fchown(file, user or 0, user or 0)  # a program may open its own standard output by name
        pid = fork_for(job, self.place)
        if pid == 0:
            self.control.close()
            child(job, files, report, self.place)
        self.children[pid] = job["id"]
        if inside or not job["isolated"]:
            self.grouped.add(pid)
        tell(report, {"pid": pid})

    def _connect(self, job: Job, report: socket.socket) -> None:
        """Connect to an address from inside a container's network, and hand the socket over."""
        if os.fork():
            return  # it is reaped as the orphans are
        try:
            enter(job["inside"], ("net",))
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


def orphans() -> list[int]:
    """Our children, where the kernel lists them."""
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii").split()]
    except OSError:
        return []


def clone(flags: int = CLONE) -> int:
    """Fork, by default into new namespaces. Raises OSError."""
    number = CLONE_CALL.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, "no namespaces on this machine")
    pid = int(LIBC.syscall(number, ctypes.c_ulong(flags | signal.SIGCHLD), None, None, None, None))
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid


def enter(pid: int, kinds: tuple[str, ...]) -> None:
    """Join a process's namespaces. Raises OSError."""
    join(open_spaces(pid, kinds))


def open_spaces(pid: int, kinds: tuple[str, ...]) -> list[int]:
    """A process's namespaces, open. Raises OSError."""
    return [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]


def join(opened: list[int]) -> None:
    """Join open namespaces in order, and close them. Raises OSError."""
    for descriptor in opened:
        check(LIBC.setns(descriptor, 0), "setns")
        os.close(descriptor)


def fork_for(job: Job, place: Place) -> int:
    """Fork into the namespaces that a job asks for, new ones or such as there are. Raises OSError."""
    network, inside = job.get("network"), job.get("inside")
    if not job["isolated"]:
        return os.fork()
    if job.get("pause"):
        return clone(CLONE_NEWNET)
    if inside:
        return fork_by(lambda: go_inside(inside, place))
    if network:
        return fork_by(lambda: enter(network, ("net",)), CLONE & ~CLONE_NEWNET)
    return clone()


def go_inside(pid: int, place: Place) -> None:
    """Join a container whole: what was made for it first, while we may, then its user and what that one owns."""
    made = open_spaces(pid, ("net", "ipc", "uts", "pid"))
    own = open_spaces(pid, ("user", "cgroup", "mnt"))
    join(made)
    place.become()
    # Its processes see the one that we fork before that has become another program: they must not look into it.
    confinement.undumpable()
    join(own)


def fork_by(go: Callable[[], None], flags: int = 0) -> int:
    """Fork, by a process that has gone somewhere first; the child is ours all the same. Raises OSError."""
    read, write_end = os.pipe()
    helper = os.fork()
    if helper == 0:
        made = -1
        try:
            go()
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


def trial(place: Place) -> str | None:
    """Make a container that does nothing; why that cannot be done here, None where it can."""
    read, write_end = os.pipe()
    try:
        pid = clone()
    except OSError as error:
        return f"namespaces: {error.strerror}"
    if pid == 0:
        try:
            place.become()
            open_network({})
            root = rootfs.Root(f"{place.folder}/root", place.pods)
            root.build([["proc", "/proc"]])
            root.enter()
            place.step_down(0)
            confinement.confine()
            os.write(write_end, b"ok")
        except OSError as error:
            os.write(write_end, f"{error.strerror}: {error.filename or ''}".encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read().decode("utf-8", "replace")
    os.waitpid(pid, 0)
    return None if told == "ok" else told or "it ended without a word"


def settled(folder: str, *, tried: bool) -> tuple[Place, str | None]:
    """A place for strangers, and why there can be none (None: there can). ``tried``: another had one."""
    place = Place(folder)
    try:
        place.settle()
        confinement.prepare()
    except OSError as error:
        return place, f"{error.filename or 'this system'}: {error.strerror}"
    return place, None if tried else trial(place)


def main(control: int, report: int, order: Job) -> None:
    """Say where containers can be kept, and start them until killcheck closes its end."""
    folder, kind = order["folder"], order["kind"]
    place, why = settled(folder, tried=order["tried"]) if kind == "sandbox" else (Place(folder), None)
    with socket.socket(fileno=report) as sock:
        if why:
            tell(sock, {"unavailable": why})
            return
        where = os.open(place.pods if kind == "sandbox" else folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        tell(sock, {"settled": kind, "pid": os.getpid()}, [where])
        os.close(where)
    spawner = Spawner(socket.socket(fileno=control), place)
    try:
        spawner.run()
    finally:
        spawner.end()


# -- the fork server ---------------------------------------------------------------------------------------
def serve(orders: int) -> None:
    """Fork a spawner for each order: its control and report sockets, and where it writes errors, come with it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries them
    gc.disable()
    gc.freeze()  # a page that nobody writes is shared by all
    with socket.socket(fileno=orders) as sock:
        while True:
            data, descriptors, _, _ = socket.recv_fds(sock, 65536, 3)
            if not data:
                return
            if os.fork() == 0:
                sock.close()
                begin(json.loads(data), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)


def begin(order: Job, descriptors: list[int]) -> None:
    """Become a spawner; never returns."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        gc.enable()
        control, report, errors = descriptors
        os.dup2(errors, 2)
        os.close(errors)
        main(control, report, order)
        code = 0
    finally:  # whatever it is: a child must never go on as a second fork server
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        os._exit(code)
