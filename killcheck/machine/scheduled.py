"""The programs that a machine's own schedule starts: systemd timers and crontab lines that lie beside manifests, and
what a cloud does by Terraform's.

Only what could turn something off is of interest: a program that names a Kubernetes or cloud command line, itself or in
a script beside it. What may *not* live here: running any of them.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from msgspec import Struct

from killcheck.clock import wall_now
from killcheck.entries import Becomes, leaves
from killcheck.executor.scripts import CLIS, is_script, texts
from killcheck.kube.outside_schedules import has_users, is_user
from killcheck.kube.schedule import ScheduleError, parse
from killcheck.machine import service_lines, terraform_schedules
from killcheck.machine.calendar import as_cron, impossible, is_over
from killcheck.machine.trees import home as home_of
from killcheck.machine.trees import is_root
from killcheck.machine.units import environment_of, folders_below, is_crontab, is_masked, sections
from killcheck.spec.killpath import Command
from killcheck.text import lazy_re
from killcheck.text.files import enclosed, text_of
from killcheck.text.suggestions import did_you_mean, nearest
from killcheck.text.values import replace

__all__ = ["Scheduled", "find"]

#: How long such a program may run, in the cluster's seconds.
LIMIT_S = 1800.0
#: From how many seconds on a timer that is late at random is told of.
LATE_S = 3600.0
#: So late it is at the most: a clock takes no number without end.
_LATEST_S = 366 * 86400.0
_ACTS = lazy_re.compile(rf"\b(kubectl|oc|helm|curl|wget|kubernetes|requests|httpx|boto3|{'|'.join(CLIS)})\b")
_CRON = lazy_re.compile(r"\s*(@\w+|(?:[\d*/,\-A-Za-z]+\s+){4}[\d*/,\-A-Za-z]+)\s+(\S.*)$")
_ASSIGNED = lazy_re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.*)$")
#: An assignment that systemd and a shell read alike.
_PLAIN = lazy_re.compile(r"[A-Za-z_]\w*=(?:[\w./:@%+,=-]*|\"[^\"\\$`]*\"|'[^']*')")
_SPECIFIER = lazy_re.compile(r"%([iIpnN%])")
#: How alike names of units are of which one is the other misspelt (0 to 1).
_MISSPELT = 0.8
_USER = lazy_re.compile(r"[a-z_][\w-]*")
#: Units that start a service by themselves.
WAKING = (".timer", ".path", ".socket")
#: An absolute path in a line of shell.
_PATH = lazy_re.compile(r"(?<![\w./$}])/[\w./@-]+")
_PERCENT = lazy_re.compile(r"(?<!\\)%")
_FIELDS = ("minute", "hour", "day", "month", "weekday")
#: What Kubernetes' parser says of a number that no clock or calendar has; other words of cron it may not know.
_OUT_OF_RANGE = lazy_re.compile(r"above maximum|below minimum|beyond end of range|value out of range")
#: Words that only a shell takes for its own.
_SHELLS_OWN = lazy_re.compile(r"&&|\|\||\||&|[12]?>>?\S*|2>&1|<\S*|\$\(.*|`.*")
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "env", "flock"})
#: So many files are named, and so many bytes of a script are its first line.
_NAMED, _HEAD = 3, 256
#: Programs of others: what lies in a repository under a like name (``kubectl-ns``) is a plugin of theirs.
_MACHINES_OWN = lazy_re.compile(rf"(ba|da|z|a)?sh|env|flock|python[\d.]*|kubectl|oc|helm|curl|wget|{'|'.join(CLIS)}")
_HOST_BINARIES = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/snap/bin/")
#: Conditions on a file, and where the system's own files are.
_CONDITIONS = frozenset(
    {"ConditionPathExists", "ConditionPathIsDirectory", "ConditionPathIsMountPoint", "ConditionPathIsReadWrite",
     "ConditionDirectoryNotEmpty", "ConditionFileNotEmpty", "ConditionFileIsExecutable"}
)  # fmt: skip
#: What says when a timer goes off (systemd.timer(5)).
_TIMES = (
    "OnCalendar", "OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec",
    "OnClockChange", "OnTimezoneChange",
)  # fmt: skip
_THERE = (*_HOST_BINARIES, "/usr/", "/lib/", "/proc/", "/sys/", "/dev/")


class Scheduled(Struct, frozen=True):
    """``name``: of its timer, or of its crontab and line. ``file``, ``line``: where it stands; ``folder``: the one that
    its scripts are looked for in. ``schedule`` (cron, in ``time_zone``) None: not known. ``lacks``: what of it is not
    here, so that running it would prove nothing."""

    name: str
    file: Path
    line: int
    folder: Path
    command: Command
    schedule: str | None
    time_zone: str = ""
    lacks: str | None = None
    #: The timer's own file, or the crontab; why it starts nothing, whatever its command is.
    by: Path | None = None
    broken: str | None = None
    #: What of its line its machine takes otherwise than a shell would, in a sentence.
    odd: str | None = None
    #: After how many seconds its unit stops it; None: never. Why nothing here lets its timer run, in half a sentence.
    limit_s: float | None = None
    idle: str | None = None
    #: The calendar expression that nobody here understands, where it has such a one.
    unclear: str | None = None
    #: Its line as a shell would have it, where its machine takes less of it.
    meant: str = ""
    #: How many seconds after its time it may go off (``RandomizedDelaySec=``).
    late_s: float = 0.0

    @property
    def ref(self) -> str:
        """``Timer/gpu-off``, as the record of its rehearsal is called."""
        return f"Timer/{self.name}"


@leaves("single controllers", "systemd itself: units are read, their programs run", Becomes.SAID)
def find(roots: Iterable[Path]) -> list[Scheduled]:
    """Every such program below these folders, in order. Raises OSError."""
    found = [one for root in roots if root.is_dir() for folder in folders_below(root) for one in _in(folder)]
    apart: dict[str, Scheduled] = {}
    for one in {(one.file.resolve(), one.name): one for one in found}.values():
        named = one if one.ref not in apart else replace(one, name=f"{one.folder.name}-{one.name}")
        again = sum(name.startswith(named.ref) for name in apart)  # machines whose units are called the same
        named = named if named.ref not in apart else replace(named, name=f"{named.name}-{again + 1}")
        apart[named.ref] = named
    return list(apart.values())


def _in(folder: Path) -> Iterator[Scheduled]:
    for file in sorted(folder.iterdir()):
        if not file.name.isprintable() or is_masked(file) or not file.is_file() or not enclosed(file, folder):
            continue
        made = (
            _unit(file)
            if file.suffix in WAKING
            else _crontab(file)
            if is_crontab(file)
            else _terraform(file)
            if file.suffix == ".tf"
            else ()
        )
        yield from (one for one in made if _acts(one) or one.broken)


def _unit(file: Path) -> Iterator[Scheduled]:
    """What a timer starts, or a path or socket unit: of these nobody can say when. A template: once for each instance
    that is enabled here."""
    if not file.stem.endswith("@"):
        yield from _started(file, file.stem)
        return
    for instance in _instances(file):
        yield from _started(file, f"{file.stem}{instance}")


def _instances(template: Path) -> list[str]:
    """The instances of a template unit that are enabled: linked from what wants them, else its ``DefaultInstance=``."""
    links = [
        link.stem.removeprefix(template.stem)
        for link in sorted(template.parent.glob(f"*.wants/{template.stem}*{template.suffix}"))
    ]
    default = [value for _, key, value in sections(template) if key == "DefaultInstance" and value]
    return [one for one in links if one] or default[:1]


def _started(file: Path, unit: str) -> Iterator[Scheduled]:
    """What the unit of that name (without its suffix), which is written in ``file``, starts."""
    written = _specified(sections(file), unit + file.suffix)
    calendars = [value for _, key, value in written if key == "OnCalendar" and value]
    when = as_cron(calendars[0]) if len(calendars) == 1 else None
    given = next((Path(value).name for _, key, value in written if key in ("Unit", "Service")), None)
    named = given or f"{unit}.service"
    service, broken = _service(file.parent, named), None
    if service is None and given:
        near = get_close_matches(named, [one.name for one in sorted(file.parent.glob("*.service"))], 1, _MISSPELT)
        near = near or [f"{unit}.service"]
        service = _service(file.parent, near[0]) if near else None
        broken = f"it starts {named}, which is not there{did_you_mean(named, near)}"
    if service is None:
        return
    started, home = _specified(sections(service), named), home_of(file.parent)
    lines = [value for _, key, value in started if key in ("ExecStartPre", "ExecStart", "ExecStartPost") and value]
    files, lacks = _environment_files(started, file.parent, home)
    limit_s = service_lines.limit_s(started)
    env = _identity(started) | environment_of(started)
    known = env | {name: said for one in files for name, said in _assigned(home / one).items()}
    try:
        argvs = [(line, argv) for line in lines for argv in service_lines.commands(line, known)]
    except ValueError:
        return
    command = _command(argvs, env, file.parent, home, files, unit=started)
    if command is not None:
        command = replace(command, timeout_s=min(limit_s or LIMIT_S, LIMIT_S))
        at = (file, _line(file, ("Unit", "Service"))) if broken else (service, _line(service, ("ExecStart",)))
        schedule, zone = when or (None, "")
        timeless = _over(written) or _refused(calendars) or (_never(written) if _is_whole(file) else None)
        at = (file, _line(file, _TIMES)) if timeless else at
        broken = broken or next(filter(None, (_absent(argv, home) for _, argv in argvs)), None)
        broken = broken or next(filter(None, (_carriage(argv, file.parent, home) for _, argv in argvs)), None)
        broken = broken or timeless
        odd = next(filter(None, (_no_shell(argv) or _emptied(line, argv, known) for line, argv in argvs)), None)
        odd = odd or _late(written)
        unclear = next((one for one in calendars if as_cron(one) is None), None)
        idle = _idle(file, written) or _passed_over([*written, *started], home)
        made = Scheduled(unit, *at, home, command, schedule, zone, lacks, file, broken, odd, limit_s, idle, unclear)
        yield replace(made, late_s=_late_s(written))


def _idle(timer: Path, written: list[tuple[str, str, str]]) -> str | None:
    """Why nothing here lets a timer run: ``systemctl enable`` wants to be told what for, in ``[Install]``."""
    wanted = any(part == "Install" and key in ("WantedBy", "RequiredBy", "Also") for part, key, _ in written)
    if wanted or any(timer.parent.glob(f"*.*/{timer.name}")):
        return None
    beside = (one for one in timer.parent.iterdir() if one != timer and one.is_file() and enclosed(one, timer.parent))
    if any(timer.name in text_of(one, errors="replace") for one in beside):
        return None
    return f"{timer.name} has no [Install], and nothing beside it wants it: 'systemctl enable' does nothing"


def _late(timer: list[tuple[str, str, str]]) -> str | None:
    """By how much a timer may come after its time where that is hours, in a sentence (systemd.timer(5))."""
    if _late_s(timer) <= LATE_S:
        return None
    value = [value for part, key, value in timer if (part, key) == ("Timer", "RandomizedDelaySec")][-1]
    return f"RandomizedDelaySec={value}: it fires up to so much after its time, and what it stops bills meanwhile"


def _late_s(timer: list[tuple[str, str, str]]) -> float:
    """The latest that it may go off after its time, in seconds. The last that is said counts."""
    said = [value for part, key, value in timer if (part, key) == ("Timer", "RandomizedDelaySec")]
    return min(service_lines.span_s(said[-1]) or 0.0, _LATEST_S) if said else 0.0


def _refused(calendars: Sequence[str]) -> str | None:
    """Why systemd loads no timer of such expressions."""
    wrong = [(one, impossible(one)) for one in calendars]
    told = next((f"systemd refuses OnCalendar={one}: {why}" for one, why in wrong if why), None)
    return told if told and all(why for _, why in wrong) else None


def _passed_over(unit: Sequence[tuple[str, str, str]], home: Path) -> str | None:
    """What a unit is passed over without: a file that nothing here lays down (systemd.unit(5), "Conditions")."""
    for part, key, value in unit:
        known = value.startswith(("!", "|", *_THERE)) or not value.startswith("/")
        if part == "Unit" and key in _CONDITIONS and not known and not _lies(home, value):
            return f"{key}={value} is not here: without it systemd passes the unit over, and calls that no failure"
    return None


def _lies(home: Path, path: str) -> bool:
    """Whether a file of the machine lies below its folder, wherever the path would lead."""
    return os.path.exists(home / posixpath.normpath(path).lstrip("/"))  # noqa: PTH110 - of a name that can be none, too


def _over(timer: list[tuple[str, str, str]]) -> str | None:
    """Why a timer never goes off: all its days have passed, and nothing else wakes it."""
    said = [(key, value) for part, key, value in timer if part == "Timer" and key.startswith("On") and value]
    year = wall_now().year
    if not said or not all(key == "OnCalendar" and is_over(value, year) for key, value in said):
        return None
    return f"its day has passed (OnCalendar={said[-1][1]}), and it never goes off again"


def _is_whole(file: Path) -> bool:
    """Whether a file is all that is said of a timer: what is beside it in ``NAME.timer.d`` is not read here."""
    return file.suffix == ".timer" and not file.with_name(f"{file.name}.d").is_dir()


def _never(timer: list[tuple[str, str, str]]) -> str | None:
    """Why systemd loads no timer that says no time (timer_verify in core/timer.c); a key that it does not know is
    passed over."""
    keys = [key for part, key, value in timer if part == "Timer" and value]
    if any(key in _TIMES for key in keys):
        return None
    near = next((f": {key}= is no key{did_you_mean(key, _TIMES)}" for key in keys if nearest(key, _TIMES, 1)), "")
    return f"systemd refuses a timer that says no time (OnCalendar=){near}"


def _service(folder: Path, name: str) -> Path | None:
    """The file of a service: its own, or that of the template of which it is an instance (systemd.unit(5))."""
    prefix, is_instance, _ = name.partition("@")
    files: list[Path] = [folder / name, *([folder / f"{prefix}@.service"] if is_instance else ())]
    for one in files:
        if one.is_file() and not is_masked(one) and enclosed(one, folder):
            return one
    return None


def _specified(unit: list[tuple[str, str, str]], name: str) -> list[tuple[str, str, str]]:
    """A unit's lines with the specifiers that its name gives, and ``%%`` (systemd.unit(5)); others stay as they are."""
    stem = name.rpartition(".")[0]
    prefix, _, instance = stem.partition("@")
    known = {"i": instance, "I": instance.replace("-", "/"), "p": prefix, "n": name, "N": stem, "%": "%"}
    return [(part, key, _SPECIFIER.sub(lambda found: known[found[1]], value)) for part, key, value in unit]


def _identity(unit: list[tuple[str, str, str]]) -> dict[str, str]:
    """What systemd tells a program of its ``User=`` (systemd.exec(5)), a user with a home where such homes are."""
    user = next((value for _, key, value in unit if key == "User" and value), "root")
    if user in ("root", "0") or not _USER.fullmatch(user):
        return {}
    return {"HOME": f"/home/{user}", "USER": user, "LOGNAME": user}


def _environment_files(unit: list[tuple[str, str, str]], folder: Path, home: Path) -> tuple[list[str], str | None]:
    """(those of ``EnvironmentFile=`` that are here, as paths below ``home``; why one that must be is not)."""
    found = []
    for _, key, value in unit:
        if key != "EnvironmentFile" or not value:
            continue
        path = value.removeprefix("-")
        here = next((p for p in (home / path.lstrip("/"), folder / Path(path).name) if p.is_file()), None)
        if here is None or not enclosed(here, home):
            if not value.startswith("-"):
                return [], f"its EnvironmentFile={path} is not here: what that says is not known"
        elif not _as_a_shell_has_it(text_of(here, errors="replace")):
            return [], f"its EnvironmentFile={path} has lines that a shell reads in another way"
        else:
            found.append(f"./{here.relative_to(home)}")
    return found, None


def _assigned(file: Path) -> dict[str, str]:
    """What such a file gives each name."""
    lines = [line.strip() for line in text_of(file, errors="replace").splitlines()]
    words = [word for line in lines if not line.startswith(("#", ";")) for word in shlex.split(line)]
    return {name: said for name, _, said in (word.partition("=") for word in words)}


def _as_a_shell_has_it(text: str) -> bool:
    """Whether a shell takes such a file as systemd does: names, and words that are no code."""
    lines = [line.strip() for line in text.splitlines()]
    return all(_PLAIN.fullmatch(line) for line in lines if line and not line.startswith(("#", ";")))


def _crontab(file: Path) -> Iterator[Scheduled]:
    content = text_of(file, errors="replace")
    system, env = has_users(file, content), dict[str, str]()
    for number, line in enumerate(content.splitlines(), 1):
        given, found = _ASSIGNED.match(line), _CRON.match(line)
        if line.lstrip().startswith("#"):
            continue
        if given and not found:
            env[given[1]] = given[2].strip().strip("\"'")
        elif found:
            user, _, rest = found[2].partition(" ") if system and " " in found[2] else ("", "", found[2])
            when = as_cron(found[1].removeprefix("@")) if found[1].startswith("@") else (found[1], "")
            named = not user or is_user(user)
            home, (text, odd) = home_of(file.parent), _until_percent(rest.lstrip() if named else found[2])
            inner = _PATH.sub(lambda word, home=home, at=file.parent: _in_text(word, at, home), text)  # type: ignore[misc]
            command = _command([("", ("/bin/sh", "-c", inner))], env, file.parent, home)
            if command is not None:
                zone = env.get("CRON_TZ", "")
                name = f"{file.name}-{number}"
                broken = (
                    _absent(text.split()[:2], home) or _carriage(text.split()[:1], file.parent, home)
                    if named
                    else f"cron takes {user} for a user: it fires nothing"
                )
                cron, refused = _taken(when and when[0])
                broken = broken or refused
                yield Scheduled(
                    name,
                    file,
                    number,
                    home,
                    command,
                    cron,
                    zone,
                    by=file,
                    broken=broken,
                    odd=odd,
                    meant=rest if odd else "",
                )


def _terraform(file: Path) -> Iterator[Scheduled]:
    """What a cloud does by itself at the hours that Terraform's text gives it, as the command that does the same."""
    for one in terraform_schedules.schedules(file, LIMIT_S):
        cron, refused = _taken(one.schedule)
        zone, odd = one.time_zone, one.odd
        yield Scheduled(
            one.name, file, one.line, file.parent, one.command, cron, zone, by=file, broken=refused, odd=odd
        )


def _taken(cron: str | None) -> tuple[str | None, str | None]:
    """(a crontab's schedule as Kubernetes has it, which knows no seventh day; why cron takes none of it)."""
    fields = (cron or "").split()
    if len(fields) == len(_FIELDS):
        days = re.sub(r"(?<![\d/])([1-6])-7(?![\d/])", r"\1-6,0", fields[-1])
        cron = " ".join([*fields[:-1], re.sub(r"(?<![\d/-])7(?![\d/-])", "0", days)])
    try:
        parse(cron) if cron else None
    except ScheduleError as error:
        refused = _OUT_OF_RANGE.search(str(error)) is not None
        return None, f"cron refuses {cron}, and with it the whole crontab: {error}" if refused else None
    return cron, None


def _until_percent(line: str) -> tuple[str, str]:
    """(what cron gives the shell of a line, what is odd about it): a percent sign ends it, unless it is escaped
    (crontab(5)); what follows is its standard input."""
    cut = _PERCENT.search(line)
    if cut is None:
        return line.replace("\\%", "%"), ""
    return line[: cut.start()].replace("\\%", "%"), (
        f"cron ends the command at its first %: it runs '{line[: cut.start()].strip()}'; write \\% for a percent sign"
    )


def _in_text(word: re.Match[str], folder: Path, home: Path) -> str:
    """An absolute path in a line of a crontab, as it can be run: where it lies in the machine's tree."""
    placed = _placed(word[0], folder, home, first=word.start() == 0)
    return word[0] if placed == [Path(word[0]).name] else shlex.join(placed)


def _absent(argv: Sequence[str], home: Path) -> str | None:
    """Why a command starts nothing: a machine's tree is here, with the program's folder, and without the program."""
    for word in argv[:2]:
        path = service_lines.bare(word)
        folder = home / Path(path).parent.relative_to("/") if path.startswith("/") else home
        if path.startswith("/") and folder != home and folder.is_dir():
            if (home / path.lstrip("/")).exists():
                return None
            files = sorted(one.name for one in folder.iterdir() if one.is_file())
            near = get_close_matches(Path(path).name, files, 1, _MISSPELT)
            if path.startswith(_HOST_BINARIES) and (not near or _MACHINES_OWN.fullmatch(Path(path).name)):
                continue  # not all of a machine's own programs lie in a repository
            there = ", ".join(near or files[:_NAMED])
            return f"it starts {path}, which is not in its machine's tree" + (f" ({there} is there)" if there else "")
    return None


def _no_shell(words: Sequence[str]) -> str | None:
    """What a line of a unit means to a shell alone: systemd starts one program, and each word is an argument of it
    (systemd.service(5), "Command lines")."""
    if Path(words[0]).name in _SHELLS:
        return None
    found = next((word for word in words[1:] if _SHELLS_OWN.fullmatch(word)), None)
    return found and f"systemd starts no shell: '{found}' is an argument of {Path(words[0]).name}"


def _emptied(line: str, words: Sequence[str], known: Mapping[str, str]) -> str | None:
    """What a shell's text means by its own variables: systemd fills them in before the shell sees them."""
    names = service_lines.emptied(line, known) if words and Path(words[0]).name in _SHELLS else []
    if not names:
        return None
    return f"systemd puts nothing in the place of ${{{names[0]}}} before the shell sees it: write $${{{names[0]}}}"


def _carriage(argv: Sequence[str], folder: Path, home: Path) -> str | None:
    """Why a script starts nothing that was saved with a PC's line ends: no interpreter's name ends so (execve(2))."""
    for here in (home / argv[0].lstrip("/"), folder / Path(argv[0]).name) if argv[0].startswith("/") else ():
        if here.is_file() and enclosed(here, home):
            with here.open("rb") as opened:
                head = opened.read(_HEAD).partition(b"\n")[0]
            if head.startswith(b"#!") and head.endswith(b"\r"):
                name = head[2:-1].decode(errors="replace").strip()
                return f"{argv[0]} has a PC's line ends (CR LF): no interpreter is called '{name}\\r'"
            return None
    return None


def _command(
    lines: Sequence[tuple[str, Sequence[str]]],
    env: dict[str, str],
    folder: Path,
    home: Path,
    files: Sequence[str] = (),
    *,
    unit: Sequence[tuple[str, str, str]] = (),
) -> Command | None:
    """One command for all that a unit starts, one after the other: (its line, its words) each; None: nothing.

    ``files``: with what they assign, which is read when it starts and kept nowhere else. ``unit``: the lines of it,
    which may have a failure passed over.
    """
    started = [_runnable(argv, folder, home) for _, argv in lines]
    if not started or not all(started):
        return None
    heeded = [service_lines.heeded(argv, line, unit) for argv, (line, _) in zip(started, lines, strict=True)]
    if len(started) == 1 and not files and heeded == [shlex.join(started[0])]:
        return Command(tuple(started[0]), LIMIT_S, env)
    text = [*(f"set -a; . {shlex.quote(file)}; set +a" for file in files), *heeded]
    return Command(("/bin/sh", "-ec", "\n".join(text)), LIMIT_S, env)


def _runnable(argv: Sequence[str], folder: Path, home: Path) -> list[str]:
    """Programs from where they can be run: a script beside the unit or in its machine's tree, a host's own program by
    its name."""
    return [placed for number, word in enumerate(argv) for placed in _placed(word, folder, home, first=number == 0)]


def _placed(word: str, folder: Path, home: Path, *, first: bool) -> list[str]:
    if not word.startswith("/"):
        return [word]
    for here in (home / word.lstrip("/"), folder / Path(word).name):
        if here.is_file() and enclosed(here, home):
            if not first and is_root(home) and not is_script(here):
                return [word]  # it lies there on the machine too, where what leads to a cluster goes before it
            path = f"./{here.relative_to(home)}"
            return [*_interpreter(here), path] if first else [path]
    return [Path(word).name] if first and word.startswith(_HOST_BINARIES) else [word]


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


def _line(unit: Path, keys: Sequence[str]) -> int:
    """Where a unit says one of these."""
    lines = text_of(unit, errors="replace").splitlines()
    return next((n for n, line in enumerate(lines, 1) if line.partition("=")[0].strip() in keys), 1)
