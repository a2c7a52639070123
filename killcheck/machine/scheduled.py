"""The programs that a machine's own schedule starts: systemd timers and crontab lines that lie beside manifests.

Only what could turn something off is of interest: a program that names a Kubernetes or cloud command line, itself or in
a script beside it. What may *not* live here: running any of them.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from killcheck.executor.scripts import CLIS, texts
from killcheck.machine.calendar import as_cron
from killcheck.machine.units import environment_of, folders_below, is_crontab, is_masked, sections
from killcheck.spec.killpath import Command
from killcheck.text.files import enclosed, text_of
from killcheck.text.values import replace

__all__ = ["Scheduled", "find"]

#: How many programs are taken at most.
MOST = 40
#: How long such a program may run, in the cluster's seconds.
LIMIT_S = 1800.0
_ACTS = re.compile(rf"\b(kubectl|oc|helm|curl|wget|kubernetes|requests|httpx|boto3|{'|'.join(CLIS)})\b")
_CRON = re.compile(r"\s*(@\w+|(?:[\d*/,\-A-Za-z]+\s+){4}[\d*/,\-A-Za-z]+)\s+(\S.*)$")
_ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.*)$")
_HOST_BINARIES = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/snap/bin/")


class Scheduled(Struct, frozen=True):
    """``name``: of its timer, or of its crontab and line. ``file``, ``line``: where it stands; ``folder``: the one that
    its scripts are looked for in. ``schedule`` (cron, in ``time_zone``) None: not known."""

    name: str
    file: Path
    line: int
    folder: Path
    command: Command
    schedule: str | None
    time_zone: str = ""

    @property
    def ref(self) -> str:
        """``Timer/gpu-off``, as the record of its rehearsal is called."""
        return f"Timer/{self.name}"


def find(roots: Iterable[Path]) -> list[Scheduled]:
    """Every such program below these folders, in order. Raises OSError."""
    found = [one for root in roots if root.is_dir() for folder in folders_below(root) for one in _in(folder)]
    apart: dict[str, Scheduled] = {}
    for one in {(one.file.resolve(), one.name): one for one in found}.values():
        named = one if one.ref not in apart else replace(one, name=f"{one.folder.name}-{one.name}")
        again = sum(name.startswith(named.ref) for name in apart)  # machines whose units are called the same
        named = named if named.ref not in apart else replace(named, name=f"{named.name}-{again + 1}")
        apart[named.ref] = named
    return list(apart.values())[:MOST]


def _in(folder: Path) -> Iterator[Scheduled]:
    for file in sorted(folder.iterdir()):
        if is_masked(file) or not file.is_file() or not enclosed(file, folder):
            continue
        made = _timer(file) if file.suffix == ".timer" else _crontab(file) if is_crontab(file) else ()
        yield from (one for one in made if _acts(one))


def _timer(file: Path) -> Iterator[Scheduled]:
    unit = sections(file)
    calendars = [value for _, key, value in unit if key == "OnCalendar" and value]
    when = as_cron(calendars[0]) if len(calendars) == 1 else None
    named = next((value for _, key, value in unit if key in ("Unit", "Service")), f"{file.stem}.service")
    service = file.parent / Path(named).name
    if not service.is_file() or is_masked(service) or not enclosed(service, file.parent):
        return
    started = sections(service)
    lines = [value for _, key, value in started if key in ("ExecStartPre", "ExecStart", "ExecStartPost") and value]
    command = _command(lines, environment_of(started), file.parent)
    if command is not None:
        yield Scheduled(
            file.stem, service, _line(service), file.parent, command, when[0] if when else None, when[1] if when else ""
        )


def _crontab(file: Path) -> Iterator[Scheduled]:
    system = file.name == "crontab" or file.parent.name == "cron.d"
    env: dict[str, str] = {}
    for number, line in enumerate(text_of(file, errors="replace").splitlines(), 1):
        given, found = _ASSIGNED.match(line), _CRON.match(line)
        if line.lstrip().startswith("#"):
            continue
        if given and not found:
            env[given[1]] = given[2].strip().strip("\"'")
        elif found:
            rest = found[2].split(None, 1)[-1] if system and " " in found[2] else found[2]
            when = as_cron(found[1].removeprefix("@")) if found[1].startswith("@") else (found[1], "")
            command = _command([f"/bin/sh -c {shlex.quote(rest)}"], env, file.parent)
            if command is not None:
                zone = env.get("CRON_TZ", "")
                yield Scheduled(f"{file.name}-{number}", file, number, file.parent, command, when and when[0], zone)


def _command(lines: list[str], env: dict[str, str], folder: Path) -> Command | None:
    """One command for all that a unit starts, one after the other; None: nothing, or what no shell takes."""
    try:
        started = [_runnable(shlex.split(line.lstrip("-@+!:")), folder) for line in lines]
    except ValueError:
        return None
    if not started or not all(started):
        return None
    if len(started) == 1:
        return Command(tuple(started[0]), LIMIT_S, env)
    return Command(("/bin/sh", "-ec", "\n".join(shlex.join(argv) for argv in started)), LIMIT_S, env)


def _runnable(argv: list[str], folder: Path) -> list[str]:
    """Programs from where they can be run: a script beside the unit, a host's own program by its name."""
    return [placed for number, word in enumerate(argv) for placed in _placed(word, folder, first=number == 0)]


def _placed(word: str, folder: Path, *, first: bool) -> list[str]:
    if not word.startswith("/"):
        return [word]
    name = Path(word).name
    if (folder / name).is_file() and enclosed(folder / name, folder):
        return [*_interpreter(folder / name), f"./{name}"] if first else [f"./{name}"]
    return [name] if first and word.startswith(_HOST_BINARIES) else [word]


def _interpreter(script: Path) -> list[str]:
    """What runs a script that lies here without the right to be executed: whoever installs it gives it that."""
    if os.access(script, os.X_OK):
        return []
    head = text_of(script, errors="replace").partition("\n")[0]
    found = shlex.split(head[2:]) if head.startswith("#!") else ["/bin/sh"]
    names = [Path(word).name if word.startswith("/") else word for word in found]
    return names[1:] if names[:1] == ["env"] else names


def _acts(one: Scheduled) -> bool:
    return any(_ACTS.search(text) for _, text in texts(one.command, one.folder))


def _line(service: Path) -> int:
    """Where a unit says what it starts."""
    lines = text_of(service, errors="replace").splitlines()
    return next((number for number, line in enumerate(lines, 1) if line.strip().startswith("ExecStart=")), 1)
