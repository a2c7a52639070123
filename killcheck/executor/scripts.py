"""What the program of a command is made of, read and not run: its own script, what that calls, the locks it takes.

Only what lies beside the spec is read, as it is deployed with it. What may *not* live here: verdicts on what was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from killcheck.spec.killpath import Command
from killcheck.text import lazy_re
from killcheck.text.files import enclosed, text_of

__all__ = [
    "CLIS", "Lock", "clis", "commands_of", "files", "is_script", "locks", "own_script", "persistent", "texts", "writes",
]  # fmt: skip

#: Clouds' command lines: the program, and the words that make a call of it one that changes something.
CLIS = ("gcloud", "aws", "az", "oci", "doctl", "runpodctl", "vastai")
_CALL = lazy_re.compile(rf"(?:^|[\s;&|($`\"'\[,])({'|'.join(CLIS)})(?=[\s\"',]|$)", re.MULTILINE)
_LOCK = lazy_re.compile(r"(?<![\w.])(/[\w./-]+\.(?:lock|pid|lck))(?![\w.])")
#: What writes to a disk, or may: of a shell redirections and programs that make or change files, of Python its calls.
_SHELL_WRITES = lazy_re.compile(
    r"(?<![<&=-])>{1,2}\|?\s*(?!&|>|=|/dev/(null|stdout|stderr|tty)\b)[\w\"'$/.{~]"
    r"|\b(tee|mkdir|mktemp|touch|install|rsync|truncate|flock|logrotate|sqlite3?|sed\s+-i|dd|cp|mv|rm|ln|tar)\b"
)
_PYTHON_WRITES = lazy_re.compile(
    r"open\([^)]*['\"][wax+]|write_(text|bytes)|FileHandler|mkdir|makedirs|tempfile|shutil|os\.open|subprocess|sqlite"
)
#: What compares numbers, and redirects nothing.
_ARITHMETIC = lazy_re.compile(r"\(\(.*?\)\)|\[\[.*?\]\]", re.DOTALL)
_WORD = lazy_re.compile(r"[\w./@-]+")
_DEEP = 4
#: Scripts larger than this are not read, in bytes.
_LIMIT = 1 << 20


class Lock(Struct, frozen=True):
    """A lock file that a script names. ``folder``: it is made with mkdir."""

    path: str
    folder: bool = False


def texts(command: Command, folder: str | Path) -> Iterator[tuple[str, str]]:
    """(name, text) of a command: its own line first, then the scripts beside the spec that it comes to, each once."""
    yield str(command), "\n".join(command.argv)
    yield from ((file.name, text) for file, text in files(command, folder))


def files(command: Command, folder: str | Path) -> Iterator[tuple[Path, str]]:
    """(file, text without its comments) of each script beside the spec that a command comes to, each once."""
    seen: set[Path] = set()
    waiting = [("\n".join(command.argv), 0)]
    while waiting:
        text, depth = waiting.pop(0)
        for file in _named(text, Path(folder) / command.folder):
            if file in seen or depth >= _DEEP:
                continue
            seen.add(file)
            inner = _bare(text_of(file, errors="replace"))
            yield file, inner
            waiting.append((inner, depth + 1))


def commands_of(command: Command, folder: str | Path, *, as_shell: bool = False) -> tuple[tuple[str, ...], ...]:
    """The argument vectors of the programs that a command comes to run, as its own line and its scripts are read.

    ``as_shell``: its line is also read as its writer meant it, as one of a shell.
    """
    from killcheck.executor.reading import read

    lines = [list(command.argv), *([["/bin/sh", "-c", " ".join(command.argv)]] if as_shell else [])]
    lines += [
        ["python3" if name.endswith(".py") else "/bin/bash", "-c", text]
        for name, text in list(texts(command, folder))[1:]
    ]
    containers = [{"name": f"machine-{number}", "image": "", "command": argv} for number, argv in enumerate(lines)]
    return read({"containers": containers}, "").commands


def clis(command: Command, folder: str | Path) -> tuple[str, ...]:
    """The clouds' command lines that a command comes to call."""
    found = [name for _, text in texts(command, folder) for name in _CALL.findall(text)]
    return tuple(dict.fromkeys(found))


def locks(command: Command, folder: str | Path) -> tuple[Lock, ...]:
    """The lock files that a command's scripts name."""
    found: dict[str, Lock] = {}
    for _, text in texts(command, folder):
        made = "mkdir" in text
        for path in _LOCK.findall(text):
            found.setdefault(path, Lock(path, made and not path.endswith(".pid")))
    return tuple(found.values())


def writes(command: Command, folder: str | Path) -> bool | None:
    """Whether anything in a command's scripts writes, makes or removes a file; None: what it runs is not read."""
    if not own_script(command, folder):
        return None
    return any(
        _PYTHON_WRITES.search(text) if name.endswith(".py") else _SHELL_WRITES.search(_ARITHMETIC.sub("", text))
        for name, text in texts(command, folder)
    )


def own_script(command: Command, folder: str | Path) -> str | None:
    """The script that a command runs, as a path below the spec's folder; None where it is none that lies there."""
    for word in command.argv:
        path = Path(word)
        inner = Path(command.folder) / path
        if not path.is_absolute() and not word.startswith("-") and enclosed(Path(folder) / inner, Path(folder)):
            return str(inner)
    return None


def persistent(command: Command, folders: Sequence[Path]) -> bool | None:
    """Whether the systemd timer that starts a command makes up for slots that it missed; None: no timer is known."""
    wanted = {Path(word).name for word in command.argv[:2]}
    for folder in folders:
        for timer in sorted(folder.glob("*.timer")) if folder.is_dir() else ():
            unit = _values(timer)
            service = folder / (unit.get("Unit") or f"{timer.stem}.service")
            started = _values(service).get("ExecStart", "") if service.is_file() else ""
            if wanted & {Path(word).name for word in started.lstrip("-@+!:").split()}:
                return unit.get("Persistent", "false").lower() in ("true", "yes", "on", "1")
    return None


def _values(unit: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in text_of(unit, errors="replace").splitlines())
    return {key.strip(): value.strip() for key, found, value in lines if found and not key.lstrip().startswith("#")}


def _named(text: str, folder: Path) -> Iterator[Path]:
    for word in dict.fromkeys(_WORD.findall(text)):
        places = (folder / word, folder / word.lstrip("/"), folder / Path(word).name)  # also where its machine has it
        for place in dict.fromkeys(places) if "/" in word or "." in word else ():
            if enclosed(place, folder) and place.stat().st_size <= _LIMIT and is_script(place):
                yield place


def is_script(file: Path) -> bool:
    """Whether a file is a program's text, by its name or its first two bytes. Raises OSError."""
    if file.suffix in (".sh", ".bash", ".py", ".pl", ".rb"):
        return True
    with file.open("rb") as opened:
        return opened.read(2) == b"#!"


def _bare(text: str) -> str:
    """A script without the lines that are comments."""
    return "\n".join("" if line.lstrip().startswith("#") else line for line in text.splitlines())
