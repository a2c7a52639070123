"""A machine outside Kubernetes, in the embedded cluster's time: a VM with timers, scripts and a cloud's CLI.

Its programs are processes of this host, as executors are: they see the spec's folder as their working directory, what
lies in its subfolder ``machine/`` over the machine's own root, and the shims that keep the cluster's time. Programs in
``machine/bin/`` come first on the PATH: that is where a stand-in for a cloud's CLI goes. Without one, what calls a
cloud's CLI has an unknown outcome.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shlex
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from killcheck.capabilities.programs import Firing, Ran
from killcheck.clock import Loop
from killcheck.embedded import Exit, File, Launch, Mount, NotRun, Running, Runtime, StartError, Volume
from killcheck.executor import scripts
from killcheck.images.contents import Contents
from killcheck.kube import schedule
from killcheck.kube.objects import Obj
from killcheck.machine import programs, trees
from killcheck.machine.looks import Looks
from killcheck.machine.timers import Kept, Timers
from killcheck.spec.killpath import Command, Layer
from killcheck.text.files import enclosed
from killcheck.text.redaction import redact
from killcheck.text.values import replace

__all__ = ["CALLS", "STATE", "Machine"]

#: Where the spec's folder is on the machine, its stand-ins' programs, and where they may keep what they know.
FOLDER, BIN, STATE = "/opt/killpath", "/opt/machine/bin", "/var/lib/machine"
#: Where what is put before its programs is, and where that writes down each call that it met.
BEFORE, CALLS = "/opt/machine/before", f"{STATE}/.calls-met"
#: Where what a program changes on a full disk is kept for the next one.
KEPT = "/opt/machine/disks"
#: Files larger than this are not taken over, in bytes.
FILE_LIMIT = 1 << 20
_PATH = f"{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_POD: Obj = {
    "metadata": {"name": "machine", "namespace": "outside", "uid": "machine"},
    "spec": {"containers": [{"name": "machine"}]},
}
#: Runs a program with its error stream in a file of its own.
_APART = 'exec 2>"$0"; exec "$@"'
#: Writes a file into a folder, and takes it away.
_WRITES = 'date > "$1/.killcheck-tried"; code=$?; rm -f "$1/.killcheck-tried"; exit $code'
#: The same on a full disk, of which each program has a copy: what it emptied, made or removed there is kept.
_APART_FULL = """exec 2>"$0"
"$@" &
trap 'kill -TERM $!' TERM
wait $!; code=$?
while kill -0 $! 2>/dev/null; do wait $!; code=$?; done
for disk in @DISKS@; do
  cd "$disk" && find . -type f -exec sh -c 'mkdir -p "$0/${1%/*}"; cmp -s "$1" "$0/$1" || cat "$1" > "$0/$1"' \\
    "@KEPT@$disk" '{}' ';'
  cd "@KEPT@$disk" && find . -type f -exec sh -c '[ -e "$0/$1" ] || rm -f "$1"' "$disk" '{}' ';'
done
exit $code"""


@dataclass
class Machine:
    """``folder``: the spec's; ``known``: its commands. ``data``: folders of the machine that its programs and a drill
    write to (absolute). ``witnesses``: commands of those who look at it from outside, and so meet nothing that is wrong
    with it.
    """

    runtime: Runtime
    loop: Loop
    folder: Path
    data: Iterable[str] = ()
    known: Iterable[Command] = ()
    witnesses: Sequence[Command] = ()
    real: bool = False
    #: Mounted besides: what is on the machine and in no folder of the spec's.
    more: Sequence[Mount] = ()
    #: Every timer that went off by itself, in order.
    firings: list[Firing] = field(default_factory=list)
    #: Called whenever a timer's program has ended.
    heard: list[Callable[[], None]] = field(default_factory=list)
    #: What could not be run, a sentence each.
    unknowns: list[str] = field(default_factory=list)
    #: What is wrong with it: programs that others stand before (their texts; empty: the program is not there), scripts
    #: that are gone or may not be executed, disks that cannot be written to, or have no room left.
    stand_ins: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    read_only: bool = False
    full: bool = False
    timers: Timers = field(init=False)
    _locks: dict[str, int] = field(default_factory=dict)
    _looks: Looks = field(init=False)
    _made: int = 0
    _mounts: list[Mount] | None = None
    _prefilled: bool = False

    def __post_init__(self) -> None:
        self.timers = Timers(self.loop)
        self._looks = Looks(self.loop)

    # -- the Programs protocol -----------------------------------------------------------------------------
    def start(self, command: Command, on_end: Callable[[Ran], None]) -> None:
        """As the protocol says; the time limit is in the cluster's time."""
        self._made += 1
        errors = f"{STATE}/.errors-{self._made}"
        _Run(self, command, on_end, errors).begin()

    def begin(self, command: Command, on_end: Callable[[Ran], None]) -> Callable[[], None]:
        """Start a program of another machine, which a market rents out; it ends by itself, or by what is returned.

        What is wrong with this machine is not wrong with that one.
        """
        self._made += 1
        run = _Run(self, command, on_end, f"{STATE}/.errors-{self._made}", elsewhere=True)
        run.begin()
        return run.kill

    def run(self, command: Command) -> Ran:
        """As the protocol says."""
        return programs.run(self.loop, self, command)

    def on_firing(self, heard: Callable[[], None]) -> None:
        """As the protocol says."""
        self.heard.append(heard)

    def put_back(self, count: list[Any], number: int, start: list[Any], folder: str = "") -> None:
        """As the protocol says."""
        programs.put_back(self, count, number, start, self.known)

    def close(self) -> None:
        """Nothing goes off any more; what runs ends with the cluster."""
        self.timers.close()
        for path in list(self._locks):
            self.let_go(path)

    # -- its timers ----------------------------------------------------------------------------------------
    def keep(self, layer: Layer, *, persistent: bool | None = None, late_s: float = 0.0) -> None:
        """Let a layer's command go off by its schedule, as the machine's own timer does. Raises ScheduleError.

        ``persistent``: what its unit says of slots that were missed; None: no unit is known of it. ``late_s``: how
        many seconds after a slot it may go off.
        """
        command = layer.command
        if command is None or not layer.schedule:
            return

        def fire(over: Callable[[], None]) -> None:
            def ended(ran: Ran) -> None:
                self.firings.append(Firing(layer.name, ran))
                for told in self.heard:
                    told()
                over()

            self.start(command, ended)

        when = schedule.parse(layer.schedule, layer.time_zone or None)
        self.timers.keep(Kept(layer.name, when, persistent, fire, late_s))

    def held(self, layer: str) -> str | None:
        """As the protocol says."""
        return self.timers.slot(layer)

    # -- what is wrong with it -----------------------------------------------------------------------------
    def put_before(self, texts: Mapping[str, str], folder: str = "") -> None:
        """As the protocol says."""
        self.stand_ins |= {
            name: text.replace("@CALLS@", CALLS).replace("@HERE@", BEFORE) for name, text in texts.items()
        }

    def take_from(self, names: Sequence[str], folder: str = "") -> None:
        """As the protocol says."""
        for name in names:
            self.stand_ins.pop(name, None)

    def met(self, folder: str = "") -> list[str]:
        """As the protocol says."""
        return _read(self, CALLS).splitlines()

    def cannot_write(self) -> str | None:
        """What a program of the machine is told that writes to its disk; None: it can, or there is none."""
        folders = [folder for folder in self._data() if folder != STATE]
        for folder in folders:
            tried = self.run(Command(("/bin/sh", "-c", _WRITES, "sh", folder)))
            if not tried.ok:
                return (tried.errors or tried.why).strip().rpartition("\n")[2][:300] or f"exit code {tried.code}"
        return None

    def lose_script(self, name: str, how: str) -> None:
        """Let a script of the spec's folder be ``gone``, or have lost its ``mode``."""
        self.lost[name] = how

    def find_script(self, name: str) -> None:
        """Have it back."""
        self.lost.pop(name, None)

    def hold_lock(self, path: str) -> None:
        """Hold an advisory lock of a file, as a process that hangs does. Raises OSError, also where it is held."""
        held = os.open(self.path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(held)
            raise
        self._locks[path] = held
        self._looks.lay(self.path(path))

    def let_go(self, path: str) -> None:
        """Let a lock go, and its file with it where nobody wrote to it; idempotent."""
        held = self._locks.pop(path, None)
        if held is not None:
            self._looks.take_up(self._parent(path))
            if not os.fstat(held).st_size:
                self.path(path).unlink(missing_ok=True)
            os.close(held)

    def leave_lock(self, path: str, text: str, folder: bool) -> None:
        """Leave a lock behind as a process does that died: a file that holds ``text``, or a folder. Raises OSError."""
        file = self.path(path)
        if folder:
            file.mkdir()
        else:
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text)
        self._looks.lay(file)

    def is_taken(self, path: str) -> bool:
        """Whether a lock that is held or left is not free: a try to take it is refused. Raises OSError."""
        file = self._looks.lies_at(self._parent(path))
        if path not in self._locks or not file.exists():
            return os.path.lexists(file)
        tried = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)  # a program may have swapped it
        try:
            fcntl.flock(tried, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(tried)
        return False

    def remove_lock(self, path: str) -> None:
        """Remove what :meth:`leave_lock` left; what is gone already is as it should be."""
        self._looks.take_up(self._parent(path))
        file = self.path(path)
        if file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink(missing_ok=True)

    def looked_at(self, path: str) -> Mapping[Command, datetime]:
        """As the protocol says."""
        return self._looks.seen(self._parent(path))

    def _parent(self, path: str) -> Path:
        """Where a path is on this host, whatever lies there itself. Raises OSError."""
        return self.path(str(PurePosixPath(path).parent)) / PurePosixPath(path).name

    # -- its files -----------------------------------------------------------------------------------------
    def path(self, path: str) -> Path:
        """Where on this host a path below one of its data folders is. Raises OSError for any other."""
        self.mounts()  # what lies there from the beginning is there
        for folder in sorted(self._data(), key=len, reverse=True):
            if PurePosixPath(path).is_relative_to(folder):
                return _without_links(self._host(folder), PurePosixPath(path).relative_to(folder))
        raise FileNotFoundError(2, "no such folder on the machine", path)

    def _host(self, folder: str) -> Path:
        scratch = self.runtime.folder
        if scratch is None:
            raise PermissionError("it was not run: nobody allowed it to run on this host (--exec host)")
        found = scratch / "machine" / "volumes" / _volume_name(folder)
        found.mkdir(parents=True, exist_ok=True)
        return found

    def _data(self) -> list[str]:
        written = [folder for folder, files in self._overlay.items() if not _programs(files)]
        return sorted({STATE, *self.data, *written})

    @cached_property
    def _overlay(self) -> dict[str, dict[str, Path]]:
        """The files below ``machine/``, looked for once, by the folder that they are in on the machine; ``bin`` is the
        programs' own."""
        found: dict[str, dict[str, Path]] = {}
        root = self.folder / "machine"
        for file in sorted(root.rglob("*")) if root.is_dir() else ():
            if enclosed(file, self.folder):
                parent = file.parent.relative_to(root)
                where = BIN if str(parent) == "bin" else f"/{parent}"
                found.setdefault(where, {})[file.name] = file
        return found

    def mounts(self) -> list[Mount]:
        """What its programs see beside the host's own. Raises OSError."""
        if self._mounts is None:
            volumes = [Volume("folder", "configMap", _files(_own(self.folder)))]
            mounts = [Mount(volumes[0], FOLDER)]
            for where, files in self._overlay.items():
                if _programs(files):
                    mounts.append(Mount(Volume(_volume_name(where), "configMap", _files(files)), where))
            mounts += [Mount(Volume(_volume_name(f), "emptyDir", writable=True), f) for f in self._data()]
            self._mounts = [*mounts, *self.more]
        if not self._prefilled:
            self._prefilled = True
            for where, files in self._overlay.items():
                for name, file in files.items() if not _programs(files) else ():
                    (self._host(where) / name).write_bytes(file.read_bytes())
        return self._mounts

    def launch(self, command: Command, errors: str, *, elsewhere: bool = False) -> Launch:
        """A program of the machine, as it is to be started. Raises OSError."""
        mounts, contents, shell = self.mounts(), Contents(None), _APART
        own = command.env.get("PATH")  # a crontab's or unit's: what stands for a cloud's CLI comes first in that, too
        path = f"{BIN}:{own}" if own else _PATH
        disturbed = command not in self.witnesses and not elsewhere
        if disturbed:
            mounts = list(self._disturbed(mounts))
            contents = replace(contents, without=frozenset(n for n, text in self.stand_ins.items() if not text))
            path = f"{BEFORE}:{path}" if self.stand_ins else path
            disks = " ".join(shlex.quote(mount.path) for mount in mounts if mount.full)
            if disks:
                shell = _APART_FULL.replace("@DISKS@", disks).replace("@KEPT@", KEPT)
        return Launch(
            pod=_POD,
            container="machine",
            argv=["/bin/sh", "-c", shell, errors, *command.argv],
            env=dict(command.env) | {"PATH": path},
            mounts=[*mounts, *_tree(self.folder / command.folder, {mount.path for mount in mounts})],
            contents=contents,
            image="the machine",
            brings="a program that stands for it goes beside the spec, at machine/bin",
            working_dir=f"{FOLDER}/{command.folder}".rstrip("/"),
            hostname="machine",
            cluster_dns=False,
            behind_s=self.timers.behind_s if disturbed else 0.0,
        )

    def _disturbed(self, mounts: list[Mount]) -> Iterator[Mount]:
        """The same, as its own programs find them."""
        gone = {name for name, text in self.stand_ins.items() if not text}
        for mount in mounts:
            if mount.path == BIN and gone:
                left = {name: file for name, file in mount.volume.files.items() if name not in gone}
                yield replace(mount, volume=replace(mount.volume, files=left))
            elif mount.path == FOLDER and self.lost:
                kept = {
                    name: replace(file, mode=0o644) if name in self.lost else file
                    for name, file in mount.volume.files.items()
                    if self.lost.get(name) != "gone"
                }
                yield replace(mount, volume=replace(mount.volume, files=kept))
            elif mount.volume.writable and self.read_only and mount.path != STATE:  # what a cloud knows is not here
                yield replace(mount, read_only=True)
            elif mount.volume.writable and self.full and mount.path != STATE:
                yield replace(mount, full=True)
                yield replace(mount, path=f"{KEPT}{mount.path}")
            else:
                yield mount
        before = {name: File(text.encode(), 0o755) for name, text in self.stand_ins.items() if text}
        if self.stand_ins:
            yield Mount(Volume("before", "configMap", before), BEFORE)


def _without_links(base: Path, below: PurePosixPath) -> Path:
    """A path in a folder that strangers' programs write to. Raises OSError where a link of theirs lies on the way."""
    here = base
    for part in below.parts:
        here /= part
        if part == ".." or here.is_symlink():
            raise OSError(errno.ELOOP, "leads through a symbolic link on the machine", str(below))
    return here


def _read(machine: Machine, path: str) -> str:
    """A file of the machine, its beginning; empty where none is there, or a program put something else in its place:
    no link of it is followed, and no pipe waited for."""
    try:
        descriptor = os.open(machine.path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            return opened.read(FILE_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""


def _kept_in(machine: Machine, path: str) -> str:
    """The same, and it is gone: what a program left there instead goes with its machine."""
    found = _read(machine, path)
    with contextlib.suppress(OSError):
        machine.path(path).unlink()
    return found


class _Run:
    """One program on the machine."""

    def __init__(
        self, machine: Machine, command: Command, on_end: Callable[[Ran], None], errors: str, *, elsewhere: bool = False
    ) -> None:
        self.elsewhere = elsewhere
        self.machine = machine
        self.command = command
        self.errors = errors
        self._on_end = on_end
        self._begun = machine.loop.now()
        self._running: Running | None = None
        self._overdue = False
        self._over = False

    def begin(self) -> None:
        """Start it."""
        machine, command = self.machine, self.command
        with machine.loop.entered():
            try:
                launch = machine.launch(command, self.errors, elsewhere=self.elsewhere)
                if not self.elsewhere and (command not in machine.witnesses or scripts.locks(command, machine.folder)):
                    machine._looks.begun(command)
                self._running = machine.runtime.start(launch, self._exited, self._unknown)
                machine.loop.call_later(command.timeout_s, self._stop)
            except (NotRun, StartError, OSError) as error:
                machine.loop.call_soon(self._unknown, str(error))

    def _stop(self) -> None:
        if not self._over and self._running is not None:
            self._overdue = True
            self._running.terminate()
            self.machine.loop.call_later(programs.GRACE_S, self.kill)

    def kill(self) -> None:
        """End it now."""
        if not self._over and self._running is not None:
            self._running.kill()

    def _exited(self, end: Exit) -> None:
        why = f"ended by signal {end.signal}" if end.signal else ""
        if self._overdue:
            why = f"took longer than {self.command.timeout_s:g} s and was stopped"
        self._tell(None if why else end.code, why)

    def _unknown(self, why: str) -> None:
        told = f"{self.command}: {why}"
        if told not in self.machine.unknowns:
            self.machine.unknowns.append(told)
        self._tell(None, why)

    def _tell(self, code: int | None, why: str) -> None:
        if self._over:
            return
        self._over = True
        self.machine._looks.ended(self.command)
        output = self._running.log().text if self._running is not None else ""
        errors = _kept_in(self.machine, self.errors) if self._running is not None else ""
        limit = programs.OUTPUT_LIMIT
        self._on_end(
            Ran(
                self.command,
                self._begun,
                self.machine.loop.now(),
                code,
                redact(output[:limit]),
                redact(errors[:limit]),
                why,
                cut=len(output) > limit,
                overdue=self._overdue,
            )
        )


def _volume_name(folder: str) -> str:
    return folder.strip("/").replace("/", "-")


def _programs(files: dict[str, Path]) -> bool:
    """Whether a folder of the overlay holds programs: those are read, the others may be written to."""
    return any(os.access(file, os.X_OK) for file in files.values())


def _own(folder: Path) -> dict[str, Path]:
    """The files beside the spec and below, ``machine/`` left out, by their path in it."""
    found = {}
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        inner = file.relative_to(folder)
        if inner.parts[0] != "machine" and not inner.parts[0].startswith(".") and enclosed(file, folder):
            found[str(inner)] = file
    return found


def _files(files: dict[str, Path]) -> dict[str, File]:
    return {
        name: File(file.read_bytes(), 0o755 if os.access(file, os.X_OK) else 0o644)
        for name, file in files.items()
        if file.stat().st_size <= FILE_LIMIT
    }


def _tree(root: Path, taken: Collection[str]) -> list[Mount]:
    """The files of a machine's tree, each where it lies there: what its scripts call by the whole path is found. Their
    folders can be written to. ``taken``: paths at which something else is mounted, which goes before."""
    found = {
        path: File(file.read_bytes(), _installed(file))
        for path, file in trees.files(root).items()
        if not any(PurePosixPath(path).is_relative_to(other) for other in taken)
    }
    return [
        Mount(Volume("tree", "configMap", {path[1:]: file}), path, sub_path=path[1:]) for path, file in found.items()
    ]


def _installed(file: Path) -> int:
    with file.open("rb") as opened:
        return 0o755 if os.access(file, os.X_OK) or opened.read(2) == b"#!" else 0o644


def at(firings: Iterable[Firing], layer: str, moment: datetime, slack_s: float) -> Firing | None:
    """The firing of a layer's timer that was under way at a moment, or had just ended well."""
    for firing in firings:
        ran = firing.ran
        inside = ran.begun <= moment and (moment - ran.ended).total_seconds() <= slack_s
        if firing.layer == layer and ran.ok and inside:
            return firing
    return None
