"""What is taken from a container's process right before its program begins: rights, system calls, resources.

No capability and none to be had, no new privileges, no system call by which a kernel's namespaces, mounts, keys or
other processes are reached, limits, and a death that comes with its parent's. Run by ``spawner.py``, which starts
without killcheck: the standard library alone.

Sources: capabilities(7), seccomp(2), user_namespaces(7), Docker's default seccomp profile; the numbers are the kernel's
(arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
from functools import cache

__all__ = [
    "LIBC",
    "PROCESSES",
    "Unsupported",
    "check",
    "confine",
    "die_with_parent",
    "limit",
    "no_new_privileges",
    "prctl",
    "prepare",
    "undumpable",
]

#: PyDLL keeps the interpreter's lock, so that a clone is as good as a fork.
LIBC = ctypes.PyDLL(None, use_errno=True)

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS = (
    1,
    4,
    22,
    24,
    28,
    38,
)
#: NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, each locked, and KEEP_CAPS locked as it is (off).
SECURE_BITS = 0xEF
CAPABILITY_VERSION = 0x20080522

#: Processes and threads of one container; seconds of CPU time of one process; bytes of one file, and of one process.
PROCESSES = 512
CPU_S = 900
FILE_BYTES = 1 << 30
DATA_BYTES = 4 << 30
OPEN_FILES = 4096

#: By machine: AUDIT_ARCH, and the numbers that the filter needs.
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CALLS: dict[str, dict[str, int]] = {
    "x86_64": {
        "ioctl": 16,
        "shmget": 29,
        "shmat": 30,
        "shmctl": 31,
        "socket": 41,
        "clone": 56,
        "semget": 64,
        "shmdt": 67,
        "msgget": 68,
        "ptrace": 101,
        "syslog": 103,
        "capset": 126,
        "uselib": 134,
        "personality": 135,
        "ustat": 136,
        "sysfs": 139,
        "vhangup": 153,
        "modify_ldt": 154,
        "pivot_root": 155,
        "_sysctl": 156,
        "adjtimex": 159,
        "chroot": 161,
        "acct": 163,
        "settimeofday": 164,
        "mount": 165,
        "umount2": 166,
        "swapon": 167,
        "swapoff": 168,
        "reboot": 169,
        "sethostname": 170,
        "setdomainname": 171,
        "iopl": 172,
        "ioperm": 173,
        "create_module": 174,
        "init_module": 175,
        "delete_module": 176,
        "quotactl": 179,
        "nfsservctl": 180,
        "lookup_dcookie": 212,
        "clock_settime": 227,
        "mbind": 237,
        "set_mempolicy": 238,
        "get_mempolicy": 239,
        "kexec_load": 246,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "migrate_pages": 256,
        "unshare": 272,
        "move_pages": 279,
        "perf_event_open": 298,
        "fanotify_init": 300,
        "name_to_handle_at": 303,
        "open_by_handle_at": 304,
        "clock_adjtime": 305,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "kcmp": 312,
        "finit_module": 313,
        "memfd_create": 319,
        "kexec_file_load": 320,
        "bpf": 321,
        "userfaultfd": 323,
    },
    "aarch64": {
        "lookup_dcookie": 18,
        "ioctl": 29,
        "umount2": 39,
        "mount": 40,
        "pivot_root": 41,
        "nfsservctl": 42,
        "chroot": 51,
        "vhangup": 58,
        "quotactl": 60,
        "acct": 89,
        "capset": 91,
        "personality": 92,
        "unshare": 97,
        "kexec_load": 104,
        "init_module": 105,
        "delete_module": 106,
        "clock_settime": 112,
        "syslog": 116,
        "ptrace": 117,
        "reboot": 142,
        "sethostname": 161,
        "setdomainname": 162,
        "settimeofday": 170,
        "adjtimex": 171,
        "msgget": 186,
        "semget": 190,
        "shmget": 194,
        "shmctl": 195,
        "shmat": 196,
        "shmdt": 197,
        "socket": 198,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "clone": 220,
        "swapon": 224,
        "swapoff": 225,
        "mbind": 235,
        "get_mempolicy": 236,
        "set_mempolicy": 237,
        "migrate_pages": 238,
        "move_pages": 239,
        "perf_event_open": 241,
        "fanotify_init": 262,
        "name_to_handle_at": 264,
        "open_by_handle_at": 265,
        "clock_adjtime": 266,
        "setns": 268,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "kcmp": 272,
        "finit_module": 273,
        "memfd_create": 279,
        "bpf": 280,
        "userfaultfd": 282,
        "kexec_file_load": 294,
    },
}
#: From 424 on every machine has the same numbers.
_COMMON_CALLS = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
}
#: The first call that did not exist when this was written (open_tree_attr; x32's numbers lie far above it): not there.
_FIRST_UNKNOWN = 467
#: Answered with ENOSYS, upon which a C library does without: their arguments cannot be looked at, or memory escapes.
_NOT_THERE = ("clone3", "memfd_create", "memfd_secret")
#: Looked at more closely, or needed.
_LOOKED_AT = ("clone", "socket", "ioctl", "capset")
#: CLONE_NEWTIME is unshare's alone; the rest of CLONE_NEW*.
_NEW_NAMESPACES = 0x7E020000
#: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: all that a network namespace keeps in (vsock reaches the hypervisor).
_FAMILIES = (1, 2, 10, 16)
#: Words into a terminal's input: TIOCSTI, TIOCLINUX.
_TERMINAL_INPUT = (0x5412, 0x541C)

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
#: Where seccomp_data has the number, the machine, and the low half of the first arguments.
_NUMBER, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24


class Unsupported(OSError):
    """This machine has no filter of system calls that is known here."""


def check(code: int, what: str) -> None:
    """Raise OSError for a C call that failed."""
    if code:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def prctl(option: int, value: int = 0) -> None:
    """prctl(2). Raises OSError."""
    check(
        LIBC.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)),
        f"prctl {option}",
    )


def confine() -> None:
    """Give everything up for good: capabilities, system calls, resources. Raises OSError; nothing may run then."""
    limit()
    _drop_capabilities()
    no_new_privileges()
    _filter_calls()


def prepare() -> None:
    """Reckon once what every child needs. Raises Unsupported."""
    filter_program()
    _others()


def no_new_privileges() -> None:
    """From here on no program gives more than its caller had, whatever its mode bits say."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def undumpable() -> None:
    """Nobody else may look into this process (its ``/proc/pid/exe`` is a program of this host) until it executes."""
    prctl(PR_SET_DUMPABLE, 0)


def limit(processes: int | None = None) -> None:
    """What a process, and what it starts, may use of this host."""
    wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: CPU_S, resource.RLIMIT_FSIZE: FILE_BYTES}
    if processes is None:
        wanted |= {
            resource.RLIMIT_NPROC: PROCESSES + _others(),
            resource.RLIMIT_NOFILE: OPEN_FILES,
            resource.RLIMIT_DATA: DATA_BYTES,
        }
        if hasattr(resource, "RLIMIT_MSGQUEUE"):
            wanted[resource.RLIMIT_MSGQUEUE] = 0
    for kind, most in wanted.items():
        hard = resource.getrlimit(kind)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (allowed, allowed))


@cache
def _others() -> int:
    """Processes of this user that count against the limit too: since Linux 5.14 a user namespace counts its own."""
    release = [int(part) for part in platform.release().replace("-", ".").split(".")[:2]]
    if release >= [5, 14]:
        return 0
    own = os.getuid()
    return sum(_threads(entry) for entry in os.listdir("/proc") if entry.isdigit() and _owner(entry) == own)  # noqa: PTH208


def _owner(process: str) -> int:
    try:
        return os.stat(f"/proc/{process}").st_uid  # noqa: PTH116
    except OSError:
        return -1


def _threads(process: str) -> int:
    try:
        return len(os.listdir(f"/proc/{process}/task"))  # noqa: PTH208
    except OSError:
        return 0


def die_with_parent(lifeline: int) -> None:
    """Be killed when the process that started us ends; at once where it has ended already.

    After every change of credentials, each of which the kernel takes for a reason to forget it. ``lifeline``: a pipe
    whose other end only the parent has.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    import select

    poll = select.poll()
    poll.register(lifeline, 0)
    if poll.poll(0):  # POLLHUP
        os.kill(os.getpid(), signal.SIGKILL)


def _drop_capabilities() -> None:
    number = 0
    while LIBC.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) == 0:
        number += 1
    if not number:
        check(-1, "the bounding set")
    prctl(PR_SET_SECUREBITS, SECURE_BITS)
    header, nothing = struct.pack("Ii", CAPABILITY_VERSION, 0), bytes(24)
    check(LIBC.syscall(_calls()["capset"], header, nothing), "capset")


def _filter_calls() -> None:
    program = filter_program()
    buffer = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    check(LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), described, 0, 0), "seccomp")


def _calls() -> dict[str, int]:
    found = _CALLS.get(platform.machine())
    if found is None:
        raise Unsupported(errno.ENOSYS, f"no filter of system calls for {platform.machine()}")
    return found | _COMMON_CALLS


@cache
def filter_program() -> bytes:
    """The filter as classic BPF, eight bytes an instruction. Raises Unsupported."""
    calls = _calls()
    code = [_step(_LOAD, _MACHINE), *_unless(_ARCHITECTURES[platform.machine()], errno.ENOSYS), _step(_LOAD, _NUMBER)]
    code += [_step(_AT_LEAST, _FIRST_UNKNOWN, 0, 1), _refuse(errno.ENOSYS)]
    for name in _NOT_THERE:
        if name in calls:
            code += _when(calls[name], [_refuse(errno.ENOSYS)])
    code += _when(
        calls["clone"], [_step(_LOAD, _FIRST), _step(_ANY_BIT, _NEW_NAMESPACES, 0, 1), _refuse(errno.EPERM), _allow()]
    )
    code += _when(
        calls["socket"],
        [
            _step(_LOAD, _FIRST),
            *(step for family in _FAMILIES for step in _when(family, [_allow()])),
            _refuse(errno.EAFNOSUPPORT),
        ],
    )
    code += _when(
        calls["ioctl"],
        [
            _step(_LOAD, _SECOND),
            *(step for word in _TERMINAL_INPUT for step in _when(word, [_refuse(errno.EPERM)])),
            _allow(),
        ],
    )
    for name, number in calls.items():
        if name not in _LOOKED_AT and name not in _NOT_THERE:
            code += _when(number, [_refuse(errno.EPERM)])
    return b"".join([*code, _allow()])


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("HBBI", code, then, otherwise, value)


def _when(value: int, steps: list[bytes]) -> list[bytes]:
    return [_step(_EQUAL, value, 0, len(steps)), *steps]


def _unless(value: int, error: int) -> list[bytes]:
    return [_step(_EQUAL, value, 1, 0), _refuse(error)]


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _ERRNO | error)


def _allow() -> bytes:
    return _step(_RETURN, _ALLOW)
