"""Machines of clouds, and groups of them, as the clouds' own command lines name them: who is stopped, who is started.

Sources: ``gcloud compute instances stop|start``, ``gcloud compute tpus tpu-vm stop|start``, ``aws ec2 stop-instances``
and its like, ``az vm deallocate|start``, by their reference pages. What may *not* live here: running any of them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from msgspec import Struct

from killcheck.executor.cloud_groups import GROUPS, Group
from killcheck.executor.shell_script import UNKNOWN
from killcheck.text import lazy_re

__all__ = ["Asked", "asked", "lacks_place", "lit_again"]

#: Words before the verb -> verb -> whether it stops (True) or starts (False) what is named.
_VERBS: dict[tuple[str, ...], dict[str, bool]] = {
    ("gcloud", "compute", "instances"): {
        "stop": True, "suspend": True, "delete": True, "start": False, "resume": False,
    },
    ("gcloud", "compute", "tpus", "tpu-vm"): {"stop": True, "delete": True, "start": False},
    ("aws", "autoscaling"): {"terminate-instance-in-auto-scaling-group": True},
    ("aws", "ec2"): {"stop-instances": True, "terminate-instances": True, "start-instances": False},
    ("az", "vm"): {"deallocate": True, "stop": True, "delete": True, "start": False},
}  # fmt: skip
#: Tracks of gcloud, which change nothing here.
_TRACKS = frozenset({"alpha", "beta"})
#: Options without a value; every other takes the next word where none is joined to it by ``=``.
_FLAGS = frozenset(
    {"--quiet", "-q", "--async", "--discard-local-ssd", "--no-wait", "--hibernate", "--force", "--dry-run", "--debug",
     "--no-cli-pager", "--yes", "-y", "--skip-shutdown", "--no-paginate", "--verbose", "--only-show-errors",
     "--no-user-output-enabled"}
)  # fmt: skip
#: Options that say where a machine is, and whose account is asked: a question about it needs them too.
_WHERE = (
    "--zone", "--project", "--account", "--configuration", "--impersonate-service-account",
    "--region", "--profile", "--resource-group", "-g", "--subscription",
)  # fmt: skip
#: Of these, what a list of all machines does not take.
_PLACE = frozenset({"--zone", "--region"})
#: Of these nobody writes another one that begins alike.
_ABBREVIATED = ("--instance-ids", "--resource-group")
#: By program: what else gives it the place, the options that say it, and what is told where nothing does.
_PLACES: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "aws": (
        ("AWS_REGION", "AWS_DEFAULT_REGION", ".aws/", "AWS_CONFIG_FILE", "AWS_PROFILE"),
        ("--region", "--profile"),
        "aws is told no region (AWS_REGION, --region): only the machine's own metadata or ~/.aws could give one",
    ),
    "gcloud": (
        ("CLOUDSDK_COMPUTE_ZONE", "compute/zone", "CLOUDSDK_CONFIG", "CLOUDSDK_ACTIVE_CONFIG"),
        ("--zone", "--configuration", "--flags-file", "https://", "projects/"),
        "gcloud is told no zone (--zone): only a compute/zone of its own configuration could give one",
    ),
    "az": (
        ("AZURE_DEFAULTS_GROUP", "--defaults", "AZURE_CONFIG_DIR"),
        ("--resource-group", "-g", "--ids", "--resource-g"),
        "az is told no resource group (--resource-group): only a default of its own configuration could give one",
    ),
}
#: What a machine can be called there: of a line that is no shell's, words that mean something to one name nothing.
_MACHINE = {
    "aws": lazy_re.compile(r"m?i-[\w-]+"),
    "gcloud": lazy_re.compile(r"(?!-)[\w./:-]+"),
    "az": lazy_re.compile(r"(?!-)[\w.()-]+"),
}
#: What ends a command in a shell.
_OPERATORS = frozenset({"&&", "||", ";", "|", "&", ">", ">>", "2>&1"})
#: What a group, or the cluster that it is of, can be called: in a filter it is no word of the filter's.
_GROUP = lazy_re.compile(r"(?!-)[\w./:-]+")
_NAMES = {"aws": ("--instance-ids", "--instance-id"), "az": ("--name", "-n")}


class Asked(Struct, frozen=True):
    """A machine, or a group of them, that a command line stops or starts. ``count``: a command that prints, as a JSON
    list, those of it that are on; ``start``: one that starts it."""

    name: str
    stops: bool
    count: tuple[str, ...]
    start: tuple[str, ...]


def asked(argv: Sequence[str]) -> list[Asked]:
    """The machines and groups that a command line stops or starts; none where it names none in so many words."""
    words = [posixpath.basename(argv[0]), *argv[1:]] if argv else []
    words = [word for number, word in enumerate(words) if not (number == 1 and word in _TRACKS)]
    words = list(
        takewhile(lambda word: word not in _OPERATORS, words)
    )  # an argument where no shell is: it names nothing
    for before, verbs in _VERBS.items():
        verb = words[len(before)] if len(words) > len(before) else ""
        if tuple(words[: len(before)]) == before and verb in verbs:
            return _machines(before, verbs[verb], words[len(before) + 1 :])
    for command, group in GROUPS.items():
        inner = command.split()
        if words[: len(inner)] == inner:
            return _group(group, words[len(inner) :])
    return []


def lit_again(argvs: Iterable[Sequence[str]]) -> str | None:
    """Of commands in the order in which they were made: that the last one starts what an earlier one stops."""
    stopped: dict[str, bool] = {}
    for argv in argvs:
        for one in asked(argv):
            if not one.stops and stopped.get(one.name):
                return f"stops {one.name}, and starts it again: '{' '.join(argv)}'"
            stopped[one.name] = one.stops
    return None


def _machines(before: tuple[str, ...], stops: bool, words: Sequence[str]) -> list[Asked]:
    """The single machines that are named after such a command."""
    options, plain = _parted(words)
    names = plain
    if before[0] in _NAMES:
        names = [value for option in _NAMES[before[0]] for value in options.get(option, ())]
    where = _where(options)
    known = [name for name in dict.fromkeys(names) if UNKNOWN not in name and _MACHINE[before[0]].fullmatch(name)]
    return [Asked(name, stops, _count(name, before, where), _start(name, before, where)) for name in known]


def _group(group: Group, words: Sequence[str]) -> list[Asked]:
    """The group that is named, where it is emptied or filled."""
    options, plain = _parted(words)
    given = [value for option in group.names for value in options.get(option, ())] if group.names else plain
    of = next((value for option in group.of for value in options.get(option, ())), plain[0] if plain else "")
    size = group.size(options)
    name = given[0] if given else ""
    if size is None or UNKNOWN in name + of or not all(map(_GROUP.fullmatch, (name, *([of] if of else [])))):
        return []
    where = _where(options)
    account = tuple(word for pair in _pairs(where) for word in pair if pair[0] not in _PLACE)
    whole = {"{where}": where, "{account}": account}

    def filled(words: Sequence[str]) -> tuple[str, ...]:
        one = {"{name}": name, "{of}": of}
        return tuple(part for word in words for part in whole.get(word, (_replaced(word, one),)))

    return [Asked(name, size == 0, filled(group.count), filled(group.start.split()))]


def _replaced(word: str, values: Mapping[str, str]) -> str:
    for mark, value in values.items():
        word = word.replace(mark, value)
    return word


def _where(options: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(word for option in _WHERE for value in options.get(option, ()) for word in (option, value))


def _count(name: str, before: tuple[str, ...], where: tuple[str, ...]) -> tuple[str, ...]:
    """A command that prints, as a JSON list, the machine if it is on."""
    if before[0] == "aws":
        on = "Name=instance-state-name,Values=pending,running,stopping,shutting-down"
        query = ("--filters", on, "--query", "Reservations[].Instances[].InstanceId", "--output", "json")
        return ("aws", "ec2", "describe-instances", "--instance-ids", name, *query, *where)
    if before[0] == "az":
        which = f"[?name=='{name}' && powerState!='VM deallocated'].name"
        return ("az", "vm", "list", "--show-details", "--query", which, "--output", "json", *where)
    is_tpu = "tpus" in before
    kept = [word for option in _pairs(where) for word in option if is_tpu or option[0] != "--zone"]
    on = f"name~/{name}$ AND state!=STOPPED" if is_tpu else f"name={name} AND status!=TERMINATED"
    return (*before, "list", f"--filter={on}", "--format=json(name)", *kept)


def _start(name: str, before: tuple[str, ...], where: tuple[str, ...]) -> tuple[str, ...]:
    """A command that starts the machine."""
    if before[0] == "aws":
        return ("aws", "ec2", "start-instances", "--instance-ids", name, *where)
    if before[0] == "az":
        return ("az", "vm", "start", "--name", name, *where)
    return (*before, "start", name, "--quiet", *where)


def lacks_place(argvs: Sequence[Sequence[str]], text: str) -> str | None:
    """What a cloud's command line has to be told of the place and is not, in half a sentence; None: nothing.

    It may stand in its options, or in a ``text`` that it is started with.
    """
    for program, (marks, options, lacks) in _PLACES.items():
        calls = [argv for argv in argvs if list(argv[:1]) == [program]]
        bound = [argv for argv in calls if program == "aws" or (asked(argv) and "tpus" not in argv)]
        if not any(mark in text for mark in marks) and any(
            not any(word.startswith(options) for word in argv) for argv in bound
        ):
            return lacks
    return None


def _parted(words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """(values by option, of which ``--instance-ids`` has several; the words that belong to none)."""
    options: dict[str, list[str]] = {}
    plain: list[str] = []
    current = ""
    for word in words:
        if word.startswith("-") and len(word) > 1:
            cut, joined, value = word.partition("=")
            name = _whole(cut)
            options.setdefault(name, []).extend([value] if joined else [])
            current = "" if joined or name in _FLAGS else name
        elif current and (not options[current] or current == "--instance-ids"):
            options[current].append(word)
        else:
            plain.append(word)
    return options, plain


def _whole(option: str) -> str:
    """An option whose name is cut short: the AWS CLI and ``az`` take ``--instance-id`` (argparse, "Argument
    abbreviations")."""
    found = [one for one in _ABBREVIATED if one.startswith(option)] if len(option) > len("--in") else []
    return found[0] if len(found) == 1 else option


def _pairs(where: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from zip(where[::2], where[1::2], strict=True)
