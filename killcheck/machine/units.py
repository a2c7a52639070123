"""Who can start an instance on a machine: its systemd timers and crontabs read, and the scripts that they start.

Nothing is run. A unit is followed to its service, the service to its program, the program's text to the scripts that it
calls, down to a call that starts an instance. What cannot be followed is said: it may be one that does.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from killcheck.kube.outside_schedules import has_users, is_crontab
from killcheck.machine.starting import assignments, called, expanded, start_in, started_by, unread_in
from killcheck.spec.killpath import Command, KillPath
from killcheck.text import lazy_re
from killcheck.text.durations import parse_duration
from killcheck.text.files import enclosed, text_of

__all__ = [
    "Authorities",
    "StartAuthority",
    "environment_of",
    "folders_below",
    "is_crontab",
    "is_masked",
    "is_schedule",
    "own_programs",
    "read",
    "sections",
]

#: How deep below a folder is looked for units: a machine's whole tree may lie there, one of each host.
DEPTH = 7
#: Folders of what others wrote, in which nobody keeps units.
_NOT_UNITS = frozenset({"node_modules", "vendor", "__pycache__"})
#: Where programs of the system itself are, and files that are no programs.
_SYSTEM = ("/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/lib/", "/dev/", "/etc/", "/var/", "/run/", "/proc/")
#: Units that start a service by themselves.
_WAKING = (".timer", ".path", ".socket")
_MAX_DEPTH = 6
#: A program's limit where its unit sets none, in seconds.
DEFAULT_TIMEOUT_S = 600.0
_SYSTEMCTL = lazy_re.compile(r"systemctl\s+(?:--\S+\s+)*(?:start|restart|enable\s+--now)\s+([\w@.:-]+)")
_CRON_LINE = lazy_re.compile(r"\s*(?:@\w+|(?:[\d*/,\-A-Za-z]+\s+){4}[\d*/,\-A-Za-z]+)\s+(?P<rest>\S.*)$")


class StartAuthority(Struct, frozen=True):
    """Something that can start an instance by itself. ``found``: by which way, and the line that does it."""

    name: str
    command: Command
    found: str


class Authorities(Struct, frozen=True):
    """``masked``: units that would start something if they were not masked. ``unread``: what could not be followed."""

    starters: tuple[StartAuthority, ...] = ()
    masked: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def read(folders: Sequence[Path], *, beside: Path, deployed: bool = False) -> Authorities:
    """Read the units and crontabs in ``folders``; ``beside`` is the spec's folder, where their programs may lie too.

    ``deployed``: this is the machine itself, so that a program is run from where its unit says. Raises OSError.
    """
    reader = _Reader(list(folders), beside, deployed)
    for folder in folders:
        for file in sorted(folder.iterdir()):
            reader.file(file)
    return Authorities(tuple(reader.starters.values()), tuple(reader.masked), tuple(dict.fromkeys(reader.unread)))


def folders_below(root: Path) -> Iterator[Path]:
    """A folder and those below it that hold units (services of the boot too), crontabs or Terraform; no link is
    followed, and no name that is not plainly one: reading manifests tells of it."""
    for here, files in _walked(root):
        if any(name.endswith((".service", ".tf")) or is_schedule(here / name) for name in files):
            yield here


def _walked(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """A folder and those below it, with the names of their files."""
    for here, below, files in os.walk(root):
        depth = len(Path(here).relative_to(root).parts)
        below[:] = sorted(
            n for n in below if n not in _NOT_UNITS and not n.startswith(".") and n.isprintable() and depth < DEPTH
        )
        yield Path(here), files


def own_programs(kill_path: KillPath) -> set[str]:
    """The names of the files that the layers run: those are drilled."""
    commands = [layer.command for layer in kill_path.layers]
    commands += [command for layer in kill_path.layers if layer.sentinel for command in layer.sentinel.starters]
    words = (word for command in commands if command for word in command.argv)
    return {Path(word).name for word in words if "/" in word or "." in word}


def is_schedule(file: Path) -> bool:
    """Whether a file starts a program by itself: a timer, a unit that something wakes, a crontab."""
    return file.suffix in _WAKING or is_crontab(file)


class _Reader:
    def __init__(self, folders: list[Path], beside: Path, deployed: bool) -> None:
        self.folders = folders
        self.beside = beside
        self.deployed = deployed
        self.starters: dict[str, StartAuthority] = {}
        self.masked: list[str] = []
        self.unread: list[str] = []

    # -- units ---------------------------------------------------------------------------------------------
    def file(self, file: Path) -> None:
        """A timer, a path unit, a service that starts with the machine, a crontab; anything else is passed over."""
        if not self._ours(file):
            if is_schedule(file) or file.suffix == ".service":
                self.unread.append(
                    f"{file.name}: it is a link that leads out of its folder: what it starts is not known"
                )
            return
        if file.suffix in _WAKING:
            if is_masked(file):
                self.masked.append(file.name)
                return
            unit = sections(file)
            wanted = next((v for s, k, v in unit if k in ("Unit", "Service")), f"{file.stem}.service")
            self._unit(wanted, file.name, 0)
        elif file.suffix == ".service" and not is_masked(file):
            if any(section == "Install" and key in ("WantedBy", "RequiredBy") for section, key, _ in sections(file)):
                self._unit(file.name, file.name, 0)
        elif is_crontab(file):
            self._crontab(file)

    def _ours(self, file: Path) -> bool:
        """Whether it may be read: no link of a checkout leads out of it, but to where systemd masks a unit."""
        return self.deployed or is_masked(file) or enclosed(file, file.parent)

    def _unit(self, name: str, way: str, depth: int) -> None:
        places = [folder / name for folder in self.folders]
        file = next((one for one in places if (one.exists() or one.is_symlink()) and self._ours(one)), None)
        if file is None:
            self.unread.append(f"{way} starts {name}, which is not there")
            return
        if is_masked(file):
            self.masked.append(name)
            return
        way = way if way == name else f"{way} -> {name}"
        unit = sections(file)
        limit = next((_seconds(v) for _, k, v in unit if k == "TimeoutStartSec"), DEFAULT_TIMEOUT_S)
        known = environment_of(unit)
        for _, key, value in unit:
            if key in ("ExecStart", "ExecStartPre", "ExecStartPost") and value:
                self._command(expanded(value.lstrip("-@+!:"), known), way, limit, depth, known)

    def _crontab(self, file: Path) -> None:
        content = text_of(file, errors="replace")
        system = has_users(file, content)
        for number, line in enumerate(content.splitlines(), 1):
            found = _CRON_LINE.match(line)
            if found and not line.lstrip().startswith("#"):
                rest = found["rest"].split(None, 1)[-1] if system and " " in found["rest"] else found["rest"]
                self._command(rest, f"{file.name}:{number}", DEFAULT_TIMEOUT_S, 0)

    # -- programs ------------------------------------------------------------------------------------------
    def _command(
        self,
        line: str,
        way: str,
        limit: float,
        depth: int,
        known: Mapping[str, str] | None = None,
    ) -> None:
        try:
            argv = shlex.split(line)
        except ValueError:
            self.unread.append(f"{way}: {line}")
            return
        if not argv or depth > _MAX_DEPTH:
            return
        does = next(self._does(line, way, depth, known or {}), "")
        if does:
            command = Command(tuple(self._runnable(word) for word in argv), limit)
            self.starters.setdefault(way, StartAuthority(way, command, f"{way}: {does}"))
        else:
            self.unread += [f"{way}: {one}" for one in unread_in(line)]
            told = f" ({shlex.join(argv)})" if len(argv) > 1 else ""
            self.unread += [
                f"{way}: {word} is no script that can be read here: whether it starts anything is not known{told}"
                for word in argv
                if self._opaque(word)
            ]

    def _opaque(self, word: str) -> bool:
        """Whether a word of a command names a program of somebody's own whose text is not here, or is no text."""
        path = Path(word)
        own = word.startswith("/") and not word.startswith(_SYSTEM)
        scripted = path.suffix in (".sh", ".bash", ".py", ".pl", ".rb", ".js")
        return ((own and not path.is_dir()) or scripted) and self._script(word) is None

    def _does(self, text: str, way: str, depth: int, known: Mapping[str, str]) -> Iterator[str]:
        """How a text starts an instance, in words: by a call in it, by a script or a unit that it starts.

        ``known``: variables that its surroundings give it.
        """
        found = start_in(text)
        if found:
            yield found
        if depth > _MAX_DEPTH:
            return
        for unit in _SYSTEMCTL.findall(text):
            before = len(self.starters)
            self._unit(unit if "." in unit else f"{unit}.service", way, depth + 1)
            if len(self.starters) > before:
                yield f"systemctl start {unit}"
        for script in self._scripts(text):
            bare = _bare(text_of(script, errors="replace"))
            values = {**known, **assignments(bare)} if _is_shell(script, bare) else {}
            inner = expanded(bare, values)
            for number, line in enumerate(inner.splitlines(), 1):
                found = start_in(line)
                if found:
                    yield f"{script.name}:{number}: {found}"
            # A call over several lines, or by a function.
            whole = start_in(inner) or (started_by(inner, known) if _is_shell(script, bare) else None)
            if whole:
                yield f"{script.name}: {whole}"
            others = inner.replace(script.name, "")
            yield from (f"{script.name} -> {told}" for told in self._does(others, way, depth + 1, values))
            self.unread += [f"{way}: {script.name} {told}" for told in unread_in(inner)]
            if _is_shell(script, bare) and not whole:
                self._elsewhere(inner, f"{way}: {script.name}")

    def _elsewhere(self, text: str, way: str) -> None:
        """Programs of somebody's own that a script which starts nothing itself calls, and that are not here."""
        for words, _ in called(text):
            if self._opaque(words[0]):
                self.unread.append(
                    f"{way} calls {words[0]}, which is not here: whether it starts anything is not known"
                )

    def _scripts(self, text: str) -> Iterator[Path]:
        """The scripts that a text names and that can be read."""
        for word in dict.fromkeys(re.findall(r"[\w./@-]*[\w-]+(?:\.(?:sh|py|bash|pl|rb))?", text)):
            script = self._script(word)
            if script is not None:
                yield script

    def _script(self, word: str) -> Path | None:
        if "/" not in word and "." not in word:
            return None
        places = [self.beside / Path(word).name, *(folder / Path(word).name for folder in self.folders)]
        if self.deployed and word.startswith("/"):
            places.insert(0, Path(word))
        elif word.startswith("/"):
            places += self._like(Path(word))
        for place in places:
            ours = place.is_file() if self.deployed else enclosed(place, place.parent)
            if ours and place.suffix not in (".service", ".timer", ".yaml", ".yml") and _is_text(place):
                return place
        return None

    def _like(self, program: Path) -> list[Path]:
        """The one file below the spec's folder that is called as a program of the machine is, in a folder of the same
        name: ``/opt/ops/warm.sh`` is kept as ``ops/warm.sh``. None where two are, or where it is the system's own."""
        if str(program).startswith(_SYSTEM) or len(program.parts) < 3:
            return []
        found = [one for one in self._below.get(program.name, ()) if one.parent.name == program.parent.name]
        return found if len(found) == 1 else []

    @cached_property
    def _below(self) -> dict[str, list[Path]]:
        """The files below the spec's folder, by their names."""
        found: dict[str, list[Path]] = defaultdict(list)
        for here, files in _walked(self.beside):
            for name in files:
                found[name].append(here / name)
        return found

    def _runnable(self, word: str) -> str:
        """A program's path as it can be run here: from where its unit says, or from beside the spec."""
        if not word.startswith("/") or (self.deployed and Path(word).exists()):
            return word
        if (self.beside / Path(word).name).is_file():
            return f"./{Path(word).name}"
        like = () if self.deployed else self._like(Path(word))
        return next((f"./{one.relative_to(self.beside)}" for one in like), word)


def _is_shell(script: Path, text: str) -> bool:
    """Whether a script is a shell's: Python has no variables that are commands."""
    return script.suffix in (".sh", ".bash", "") and "python" not in text.partition("\n")[0]


def environment_of(unit: Sequence[tuple[str, str, str]]) -> dict[str, str]:
    """What a unit's ``Environment=`` lines give its programs; one that cannot be split gives nothing."""
    found: dict[str, str] = {}
    for _, key, value in unit:
        try:
            words = shlex.split(value) if key == "Environment" else []
        except ValueError:
            continue
        found |= {name: said for name, is_one, said in (word.partition("=") for word in words) if is_one}
    return found


def _bare(text: str) -> str:
    """A script without its comments."""
    return "\n".join("" if line.lstrip().startswith("#") else line for line in text.splitlines())


def is_masked(file: Path) -> bool:
    """As systemd masks a unit: a link to /dev/null, or an empty file."""
    if file.is_symlink() and os.path.realpath(file) == "/dev/null":
        return True
    return file.is_file() and file.stat().st_size == 0


def sections(file: Path) -> list[tuple[str, str, str]]:
    """(section, key, value) of a unit file, lines that go on joined."""
    found, section = [], ""
    for line in re.sub(r"\\\n", " ", text_of(file, errors="replace")).splitlines():
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif "=" in line and not line.startswith(("#", ";")):
            key, _, value = line.partition("=")
            found.append((section, key.strip(), value.strip()))
    return found


def _seconds(text: str) -> float:
    """systemd's time spans, those of one unit; anything else is the default."""
    span = re.sub(r"\s+", "", text).removesuffix("in").removesuffix("ec").removesuffix("our")
    try:
        return float(span) if span.replace(".", "").isdigit() else parse_duration(span)
    except ValueError:
        return DEFAULT_TIMEOUT_S


def _is_text(file: Path) -> bool:
    with file.open("rb") as opened:
        return b"\0" not in opened.read(512)
