"""Programs that a spec names, run where killcheck runs: a cloud's CLI, a script on a VM, what a timer would start.

A program gets no shell, a clean environment, a time limit and a group of its own, which is killed whole. What it writes
is bounded, and redacted before anybody sees it. Whatever keeps its outcome from being known is said, never guessed.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from killcheck.capabilities.errors import UndoProblem
from killcheck.capabilities.programs import Programs, Ran
from killcheck.clock import Loop, wall_seconds
from killcheck.machine.counting import CountUnknown, counted, rented
from killcheck.spec.killpath import Command, Target
from killcheck.spec.machines import Machines
from killcheck.text import lazy_re
from killcheck.text.redaction import hide_environment, redact

__all__ = [
    "Files",
    "LocalPrograms",
    "again",
    "count_again",
    "end_left",
    "put_back",
    "run",
]

#: Bytes of each stream that are kept.
OUTPUT_LIMIT = 64 * 1024
#: Between SIGTERM and SIGKILL for a program that took too long, in seconds.
GRACE_S = 2.0
#: Added to a program's own limit before it is given up unheard, in seconds.
SLACK_S = 10.0
#: In the environment of what a drill starts, and what that starts: its run. What a dead run has left is found by it.
RUN = "KILLCHECK_RUN"
#: In a folder of programs that a fault puts before others: its mark, the calls that were met, links to all the rest.
OURS, CALLS, HIDING = ".killcheck", "calls", "rest"
#: What redaction leaves in the place of a secret.
_HIDDEN = lazy_re.compile(r"<(redacted|token|aws-access-key-id|private key)>")
#: Words of a command in a journal, its folder the last; what follows in a count's is how its list is read.
_WHOLE = 5
#: How long a target may take to be counted again after it was started, in seconds.
BACK_S = 180.0


def again(command: Command) -> list[Any]:
    """A command as a journal keeps it: without its secrets."""
    env = {name: redact(f"{name}={value}").partition("=")[2] for name, value in command.env.items()}
    kept = [[redact(word) for word in command.argv], command.timeout_s, env, list(command.pass_env)]
    return [*kept, command.folder] if command.folder else kept


def count_again(target: Target) -> list[Any]:
    """A target's count as a journal keeps it, with how the list that it prints is read."""
    assert target.count is not None
    kept, read = again(target.count), target.machines
    if read is None:
        return kept
    listing = [read.items, read.id, {path: list(values) for path, values in read.ended.items()}]
    return [*kept, *([""] if len(kept) == _WHOLE - 1 else []), listing]


def _number(ran: Ran, kept: list[Any]) -> int:
    """How many a count says are on, read as the journal says. Raises CountUnknown."""
    if len(kept) <= _WHOLE:
        return counted(ran)
    items, name, ended = kept[_WHOLE]
    return len(rented(ran, Machines(items, name, ended={path: tuple(values) for path, values in ended.items()})))


def _command(kept: list[Any], known: Iterable[Command]) -> Command:
    """The command that a journal means, from the spec where that is at hand. Raises UndoProblem."""
    kept = kept[:_WHOLE] if kept[_WHOLE - 1 : _WHOLE] != [""] else kept[: _WHOLE - 1]
    for command in known:
        if again(command) == kept:
            return command
    argv, timeout_s, env, pass_env, *folder = kept
    found = Command(tuple(argv), timeout_s, env, tuple(pass_env), *folder)
    if any(_HIDDEN.search(word) for word in (*argv, *env.values())):
        raise UndoProblem(f"{found} has secrets, which no journal keeps")
    return found


def put_back(
    programs: Programs,
    count: list[Any],
    number: int,
    start: list[Any],
    known: Iterable[Command] = (),
) -> None:
    """Start a target unless at least ``number`` are on already, and see that they are. Raises UndoProblem.

    ``known``: the spec's commands, where it is at hand.
    """
    known = tuple(known)
    counting, starting = _command(count, known), _command(start, known)
    try:
        if _number(programs.run(counting), count) >= number:
            return
        ran = programs.run(starting)
        if not ran.ok:
            raise UndoProblem(ran.told)
        until = programs.loop.monotonic() + BACK_S
        while _number(programs.run(counting), count) < number:
            if programs.loop.monotonic() >= until:
                raise UndoProblem(f"{ran.command} ended well, and {BACK_S:g} s later it is not on again")
            programs.loop.sleep(5.0)
    except CountUnknown as error:
        raise UndoProblem(f"whether it is on is not known: {error}") from error


class LocalPrograms:
    """Programs as processes of this machine, on its own clock. ``folder``: where they run (the spec's)."""

    real = True
    #: A real machine's timers are its own.
    firings = None

    def __init__(
        self,
        loop: Loop,
        folder: str = "",
        environment: Mapping[str, str] | None = None,
        known: Iterable[Command] = (),
        witnesses: Sequence[Command] = (),
    ) -> None:
        self.loop = loop
        #: Commands of those who look at it from outside: they meet nothing that a fault put in the way.
        self.witnesses = tuple(witnesses)
        self._before: tuple[str, ...] = ()
        #: The run that starts them; empty: none that could leave any behind.
        self.of_run = ""
        #: The spec's own commands: what a journal means is looked up among them first.
        self.known = tuple(known)
        self.folder = folder or "."
        self._environment = os.environ if environment is None else environment
        self._running: set[subprocess.Popen[bytes]] = set()

    def start(self, command: Command, on_end: Callable[[Ran], None]) -> None:
        """As the protocol says."""
        begun = self.loop.now()
        try:
            process = subprocess.Popen(
                self._found(command),
                cwd=Path(self.folder) / command.folder,
                env=self._env(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            why = f"could not be started: {(error.strerror or str(error)).lower()}"
            self.loop.call_soon(on_end, Ran(command, begun, begun, None, why=why))
            return
        self._running.add(process)
        thread = threading.Thread(
            target=self._follow, args=(process, command, begun, on_end), name="killcheck-program", daemon=True
        )
        thread.start()

    def run(self, command: Command) -> Ran:
        """As the protocol says."""
        return run(self.loop, self, command)

    def put_back(self, count: list[Any], number: int, start: list[Any], folder: str = "") -> None:
        """As the protocol says; ``folder``: the spec's, where another process undoes what a dead one did."""
        there = LocalPrograms(self.loop, folder or self.folder, self._environment)
        put_back(there, count, number, start, self.known)

    def put_before(self, texts: Mapping[str, str], folder: str) -> None:
        """As the protocol says; only what this process starts finds them."""
        lay_before(Path(folder), texts, self._path())
        hidden = {name for name, text in texts.items() if not text}
        self._before = (folder, str(Path(folder) / HIDING)) if hidden else (folder,)

    def take_from(self, names: Sequence[str], folder: str) -> None:
        """As the protocol says; ``folder`` goes, if it is one of ours."""
        self._before = ()
        take_away_folder(Path(folder))

    def met(self, folder: str) -> list[str]:
        """As the protocol says."""
        calls = Path(folder) / CALLS
        return calls.read_text("utf-8", "replace").splitlines() if calls.is_file() else []

    def held(self, layer: str) -> str | None:
        """As the protocol says."""
        return None

    def on_firing(self, heard: Callable[[], None]) -> None:
        """As the protocol says."""

    def close(self) -> None:
        """As the protocol says."""
        for process in list(self._running):
            _kill(process, signal.SIGKILL)

    # -- inside --------------------------------------------------------------------------------------------
    def _path(self) -> str:
        return self._environment.get("PATH", os.defpath)

    def _found_by_layers(self) -> str:
        """The PATH of the layers' programs: what is hidden from them is in none of its folders."""
        if len(self._before) > 1:
            return ":".join(self._before)
        return ":".join([*self._before, self._path()])

    def _env(self, command: Command) -> dict[str, str]:
        given = {
            name: self._environment[name] for name in ("PATH", "HOME", *command.pass_env) if name in self._environment
        }
        if self._before and command not in self.witnesses:
            given["PATH"] = self._found_by_layers()
        hide_environment(given | dict(command.env))
        return given | dict(command.env) | ({RUN: self.of_run} if self.of_run else {})

    def _found(self, command: Command) -> list[str]:
        """A bare name is looked up on the PATH that the program gets; a relative path is below the folder."""
        program, *rest = command.argv
        if "/" not in program:
            return [shutil.which(program, path=self._env(command).get("PATH", os.defpath)) or program, *rest]
        return [str(Path(self.folder).resolve() / command.folder / program), *rest]

    def _follow(
        self,
        process: subprocess.Popen[bytes],
        command: Command,
        begun: datetime,
        on_end: Callable[[Ran], None],
    ) -> None:
        until = wall_seconds() + command.timeout_s
        streams = _Streams(process)
        why, overdue = "", False
        try:
            if not streams.read_until(until):
                overdue = True
                why = f"took longer than {command.timeout_s:g} s and was stopped"
                _kill(process, signal.SIGTERM)
                if not streams.read_until(wall_seconds() + GRACE_S):
                    _kill(process, signal.SIGKILL)
                    streams.read_until(wall_seconds() + GRACE_S)
            _kill(process, signal.SIGKILL)  # what it left behind in its group, while the group is surely its own
            process.wait()
        finally:
            streams.close()
            self._running.discard(process)
        code: int | None = process.wait()
        if not why and code is not None and code < 0:
            # Of the real-time signals only the first and the last have a name.
            why = f"ended by signal {signal.Signals(-code).name if -code in set(signal.Signals) else -code}"
            code = None
        elif why:
            code = None
        ran = Ran(command, begun, self.loop.now(), code, streams.text(0), streams.text(1), why, streams.cut, overdue)
        self.loop.post(on_end, ran)


def run(loop: Loop, programs: Programs, command: Command) -> Ran:
    """Start a program and let the loop's time pass until it has ended, or is overdue."""
    ended: list[Ran] = []
    begun = loop.now()
    programs.start(command, ended.append)
    loop.run_until(lambda: bool(ended), command.timeout_s + SLACK_S)
    if ended:
        return ended[0]
    return Ran(command, begun, loop.now(), None, why=f"nothing was heard of it for {command.timeout_s + SLACK_S:g} s")


def end_left(run: str) -> int:
    """End what the programs of a run that is dead still do on this machine; how many processes that were.

    Source: proc(5), ``/proc/pid/environ``: what a process was started with, and handed on to what it starts.
    """
    mark, ended = f"{RUN}={run}".encode(), {os.getpid()}
    met = True
    while met:  # until nobody is met who was started since the last look
        met = False
        for environ in Path("/proc").glob("[0-9]*/environ"):
            pid = int(environ.parent.name)
            with contextlib.suppress(OSError):  # gone meanwhile, or another user's
                if pid not in ended and mark in environ.read_bytes().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)
                    ended.add(pid)
                    met = True
    return len(ended) - 1


class _Streams:
    """Both streams of a process, read as they come; of each only the beginning is kept."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._selector = selectors.DefaultSelector()
        self._kept = [bytearray(), bytearray()]
        self.cut = False
        for number, stream in enumerate((process.stdout, process.stderr)):
            assert stream is not None
            self._selector.register(stream, selectors.EVENT_READ, number)

    def read_until(self, until: float) -> bool:
        """Read until the process has ended and its streams with it, or until a moment of the wall clock."""
        while True:
            left = until - wall_seconds()
            if self._ended():
                self._read(0.0)  # its children may hold the streams open: they are not waited for
                return True
            if left <= 0:
                return False
            self._read(min(left, 0.02))

    def _ended(self) -> bool:
        """Whether it has ended; it is not reaped, so that its group's number stays taken."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _read(self, timeout: float) -> None:
        while ready := self._selector.select(timeout):
            timeout = 0.0
            for key, _ in ready:
                stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
                data = os.read(stream.fileno(), 65536)
                if not data:
                    self._selector.unregister(stream)
                    continue
                kept = self._kept[key.data]
                kept += data[: OUTPUT_LIMIT - len(kept)]
                self.cut = self.cut or (key.data == 0 and len(kept) >= OUTPUT_LIMIT)

    def text(self, number: int) -> str:
        """One stream, redacted."""
        return redact(bytes(self._kept[number]).decode("utf-8", "replace"))

    def close(self) -> None:
        """Let go of both."""
        self._selector.close()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def _kill(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def lay_before(folder: Path, texts: Mapping[str, str], path: str) -> None:
    """Make a folder of programs to be found first; where one is hidden, also one of links to all others on ``path``.

    Raises OSError, also where the folder is there.
    """
    folder.mkdir(mode=0o700)
    (folder / OURS).touch()
    for name, text in texts.items():
        if text:
            program = folder / name
            program.write_text(text.replace("@CALLS@", str(folder / CALLS)).replace("@HERE@", str(folder)))
            program.chmod(0o755)
    hidden = {name for name, text in texts.items() if not text}
    if hidden:
        (folder / HIDING).mkdir()
        for directory in path.split(":"):
            for program in Path(directory).iterdir() if directory and Path(directory).is_dir() else ():
                link = folder / HIDING / program.name
                if program.name not in hidden and not link.is_symlink():
                    link.symlink_to(program)


def take_away_folder(folder: Path) -> None:
    """Remove what :func:`lay_before` made; idempotent. Raises UndoProblem for a folder that is not one of its."""
    if not folder.exists():
        return
    if not (folder / OURS).is_file():
        if any(folder.iterdir()):
            raise UndoProblem(f"{folder} is not killcheck's: it is left as it is")
        folder.rmdir()  # the run died right after it had made it
        return
    for file in folder.iterdir():
        if file.name != OURS and not file.is_dir():
            file.unlink()
    shutil.rmtree(folder / HIDING, ignore_errors=True)
    (folder / OURS).unlink()
    folder.rmdir()


class Files:
    """Sentinel files of a machine, set and lifted through the journal: the capability ``files``.

    ``root``: where the machine's own paths begin (empty: this one's).
    """

    def __init__(self, root: Callable[[str], Path] = Path) -> None:
        self._root = root

    def there(self, path: str) -> bool:
        """Whether a file is there. Raises OSError where that cannot be told."""
        try:
            self._root(path).lstat()
        except FileNotFoundError:
            return False
        return True

    def put(self, path: str, text: str) -> None:
        """Make a file that is not there yet, whole or not at all. Raises OSError, also where it is there."""
        where = self._root(path)
        file = where.open("x", encoding="utf-8")
        try:
            with file:
                file.write(text)
        except OSError:
            where.unlink()
            raise

    def take_away(self, path: str, text: str) -> None:
        """Remove a file that :meth:`put` made; one that is gone already is as it should be. Raises UndoProblem."""
        where = self._root(path)
        try:
            if where.read_text("utf-8", "replace") != text:
                raise UndoProblem(f"{path} is somebody else's now: it is left as it is")
            where.unlink()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UndoProblem(f"{path} cannot be removed: {(error.strerror or str(error)).lower()}") from error
