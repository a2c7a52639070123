"""What a stranger's program tries in a sandbox, each attempt a function whose answer says how it went.

Runs in the container, with the standard library alone: prints one JSON object, attempt -> outcome. An error's name is
an outcome. Bounded in itself, and nothing is begun whose limit has not been seen to be there.
"""

# ruff: noqa: PTH101, PTH108, PTH110, PTH114, PTH115, PTH116, PTH123, PTH207, PTH208, SIM115

import ctypes
import errno
import fcntl
import glob
import json
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import struct
import sys

OPEN = [int(name) for name in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{name}")]
FACTS = json.load(open("/program/facts.json"))
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
CALLS = {
    "ptrace": 101 if X86 else 117,
    "process_vm_readv": 310 if X86 else 270,
    "keyctl": 250 if X86 else 219,
    "add_key": 248 if X86 else 217,
    "bpf": 321 if X86 else 280,
    "perf_event_open": 298 if X86 else 241,
    "userfaultfd": 323 if X86 else 282,
    "io_uring_setup": 425,
    "open_tree": 428,
    "fsopen": 430,
    "clone3": 435,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "unshare": 272 if X86 else 97,
    "setns": 308 if X86 else 268,
    "memfd_create": 319 if X86 else 279,
    "open_by_handle_at": 304 if X86 else 265,
    "clone": 56 if X86 else 220,
    "shmget": 29 if X86 else 194,
    "open_tree_attr": 467,
}
MS_REMOUNT, MS_BIND, NEWUSER = 0x20, 0x1000, 0x10000000


def said(code):
    return "done" if code >= 0 else errno.errorcode[ctypes.get_errno()]


def call(name, *arguments):
    return said(LIBC.syscall(CALLS[name], *(ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments)))


def tried(attempt):
    try:
        return attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


def write(path):
    with open(path, "w") as file:
        file.write("1")
    return "written"


def status():
    found = dict(line.split(":\t") for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
    return [
        *(int(found[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")),
        int(found["NoNewPrivs"]),
        int(found["Seccomp"]),
    ]


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(5)
        sock.connect(address)
    return "connected"


def processes():
    """Command lines and environments of all the processes that are seen."""
    found = b""
    for path in [*glob.glob("/proc/[0-9]*/cmdline"), *glob.glob("/proc/[0-9]*/environ")]:
        with open(path, "rb") as file:
            found += file.read()
    return found.decode("utf-8", "replace")


def forks():
    """How many children there can be; nothing is tried where no limit is seen."""
    if resource.getrlimit(resource.RLIMIT_NPROC)[1] > 4096:
        return "no limit"
    children = []
    try:
        while len(children) < 5000:
            pid = os.fork()
            if pid == 0:
                signal.pause()
                os._exit(0)
            children.append(pid)
    except OSError as error:
        return [errno.errorcode[error.errno], len(children) < 600]
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return "no end"


def fill(path, most):
    """How far a disk can be filled, in MiB; ``most``: where it is given up."""
    written = 0
    try:
        with open(path, "wb", buffering=0) as file:
            while written < most:
                written += file.write(bytes(1 << 20)) >> 20
    except OSError as error:
        return [errno.errorcode[error.errno], written]
    finally:
        os.unlink(path)
    return "no end"


def outlive():
    """Two forks and two sessions away, with ears closed."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.execv(sys.executable, [sys.executable, "-ISc", "import signal; signal.pause()", FACTS["mark"]])
        os._exit(0)
    os.wait()
    return "begun"


def open_files():
    """Where what was open from the start leads, but for the container's own streams."""
    return [os.readlink(f"/proc/self/fd/{number}") for number in OPEN if number > 2]


def new_link():
    """Ask the kernel for another interface: RTM_NEWLINK, as ``ip link add`` does (rtnetlink(7))."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.settimeout(5)
        sock.send(struct.pack("IHHII", 32, 16, 5 | 0x400, 1, 0) + struct.pack("BxHiII", 0, 0, 0, 0, 0))
        return errno.errorcode.get(-struct.unpack("i", sock.recv(4096)[16:20])[0], "made")


def other_machine():
    """getpid as a program of 32 bits asks for it, whose numbers are others'."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes([0xB8, 0x14, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # mov eax, 20; int 0x80; ret
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    return errno.errorcode.get(-function(), "done")


def set_file(path, text):
    """Write at once: an error is the attempt's."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)
    return "written"


ATTEMPTS = {
    "rights": status,
    "remount": lambda: said(LIBC.mount(None, b"/usr/lib", None, MS_REMOUNT | MS_BIND, None)),
    "bind": lambda: said(LIBC.mount(b"/tmp", b"/mnt", None, MS_BIND, None)),
    "unmount": lambda: said(LIBC.umount2(b"/proc/sys", 2)),
    "write to a library": lambda: write(glob.glob("/usr/lib/python3*/os.py")[0]),
    "write to a program": lambda: write(os.path.realpath(sys.executable)),
    "mode of a program": lambda: os.chmod(os.path.realpath(sys.executable), 0o777),
    "unshare": lambda: call("unshare", NEWUSER),
    "unshare mounts": lambda: call("unshare", 0x20000),
    "clone": lambda: call("clone", NEWUSER | 17, 0, 0, 0, 0),
    "setns": lambda: call("setns", os.open("/proc/self/ns/mnt", os.O_RDONLY), 0),
    "chroot": lambda: os.chroot("/tmp"),
    "root of the first process": lambda: sorted(os.listdir("/proc/1/root")) == sorted(os.listdir("/")),
    "a host's file through it": lambda: os.stat("/proc/1/root" + FACTS["file"]) and "seen",
    "its working directory": lambda: os.stat("/proc/1/cwd/../.." + FACTS["file"]) and "seen",
    "host's processes": lambda: [word for word in (FACTS["mark"], FACTS["secret"], "pytest") if word in processes()],
    "ptrace": lambda: call("ptrace", 16, 1, 0, 0),
    "memory of another": lambda: call("process_vm_readv", 1, 0, 0, 0, 0, 0),
    "block device": lambda: os.mknod("/tmp/disk", stat.S_IFBLK | 0o600, os.makedev(254, 0)),
    "kernel's memory": lambda: os.mknod("/tmp/mem", stat.S_IFCHR | 0o600, os.makedev(1, 1)),
    "devices": lambda: sorted(os.listdir("/dev")),
    "abstract socket": lambda: connect(socket.AF_UNIX, "\0" + FACTS["mark"]),
    "loopback": lambda: connect(socket.AF_INET, ("127.0.0.1", FACTS["port"])),
    "loopback, IPv6": lambda: connect(socket.AF_INET6, ("::1", FACTS["port"])),
    "interfaces": lambda: [name for _, name in socket.if_nameindex()],
    "hypervisor": lambda: said(LIBC.socket(40, 1, 0)),
    "packets": lambda: said(LIBC.socket(17, 3, 0)),
    "kernel's ciphers": lambda: said(LIBC.socket(38, 5, 0)),
    "passwords": lambda: open("/etc/shadow").read(),
    "private keys": lambda: os.listdir("/etc/ssl/private"),
    "homes": lambda: [*os.listdir("/home"), *glob.glob("/root/.aws/*"), *glob.glob("/root/.ssh/*")],
    "a host's file": lambda: open(FACTS["file"]).read(),
    "system": lambda: os.listdir("/sys"),
    "keyring": lambda: call("keyctl", 0, -3 & (1 << 64) - 1, 0),
    "a key": lambda: call("add_key", b"user", b"x", b"y", 1, -4 & (1 << 64) - 1),
    "set-user-ID": lambda: [
        path
        for path in ("/", "/usr/lib", "/usr/share", "/.killcheck/host/usr", "/work", "/tmp")
        if os.path.exists(path) and not os.statvfs(path).f_flag & os.ST_NOSUID
    ],
    "kernel's settings": lambda: write("/proc/sys/kernel/core_pattern"),
    "sysrq": lambda: write("/proc/sysrq-trigger") if os.path.exists("/proc/sysrq-trigger") else "EROFS",
    "kernel's keys": lambda: open("/proc/keys").read(),
    "kernel's image": lambda: open("/proc/kcore", "rb").read(1),
    **{
        name: lambda name=name: call(name, 0, 0, 0, 0, 0)
        for name in (
            "bpf",
            "perf_event_open",
            "userfaultfd",
            "io_uring_setup",
            "open_tree",
            "fsopen",
            "mount_setattr",
            "pidfd_getfd",
            "open_by_handle_at",
            "clone3",
            "memfd_create",
            "shmget",
            "open_tree_attr",
        )
    },
    "open files": open_files,
    "new link": new_link,
    "raw packets": lambda: said(LIBC.socket(2, 3, 1)),
    "another machine's calls": other_machine if X86 else lambda: "ENOSYS",
    "x32's calls": lambda: said(LIBC.syscall(0x40000000 + 39)) if X86 else "ENOSYS",
    "out-of-memory score": lambda: set_file("/proc/self/oom_score_adj", b"-1000"),
    "users' map": lambda: set_file("/proc/self/uid_map", b"0 0 1"),
    "real time": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    "priority": lambda: os.nice(-5),
    "link to a program": lambda: os.link(os.path.realpath(sys.executable), "/tmp/linked"),
    "overlay's mark": lambda: os.setxattr("/tmp", "trusted.overlay.opaque", b"y"),
    "words into a terminal": lambda: fcntl.ioctl(0, 0x5412, b"x"),
    "groups of processes": lambda: glob.glob("/sys/fs/cgroup/*"),
    # Cut to its own length: that asks for the mount before it finds that the program is running.
    "first process": lambda: os.truncate("/proc/1/exe", os.stat("/proc/1/exe").st_size),
    "other user": lambda: os.setuid(1),
    "core dumps": lambda: resource.getrlimit(resource.RLIMIT_CORE)[1],
    "limits raised": lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1)),
    "forks": forks,
    "full disk": lambda: fill("/filling", 400),
    "full volume": lambda: fill("/work/filling", 20),
    "outlive": outlive,
}


def outcome(attempt):
    try:
        return tried(attempt)
    except ValueError:  # what setrlimit makes of EPERM
        return "EPERM"


print(json.dumps({name: outcome(attempt) for name, attempt in ATTEMPTS.items()}))
