"""What containers ask for that this host and this cluster do not have, and a real cluster may.

Some of it is never asked of the API server: kubectl looks a type up in discovery and gives up by itself, and a program
that an image of which nothing is known may well contain is simply not on this host.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from posixpath import join, normpath

from killcheck.embedded.api.kinds import Registry
from killcheck.embedded.limits import DRILL_IT
from killcheck.embedded.nodes.execution import Launch
from killcheck.text import lazy_re

__all__ = ["asked_of_kubectl", "lacked", "named_program"]

#: kubectl's subcommands whose first argument is a type (``kubectl VERB TYPE[/NAME]``).
_TYPED = frozenset(
    {"get", "describe", "delete", "edit", "patch", "scale", "label", "annotate", "wait", "autoscale", "expose"}
)
#: Flags whose value is a word of its own where no ``=`` follows (kubectl options, and those of the verbs above).
_VALUED = frozenset(
    """
    -n --namespace --context --kubeconfig --cluster --user -s --server --token --as --as-group --as-uid
    --request-timeout
    --certificate-authority --client-certificate --client-key --tls-server-name --cache-dir --profile -v --v --password
    --username -o --output -l --selector -p --patch --patch-file --type -f --filename -k --kustomize --field-selector
    --replicas --current-replicas --resource-version --timeout --grace-period --cascade --subresource --for --template
    --sort-by -L --label-columns --chunk-size --field-manager --dry-run --max --min --cpu-percent -c --container --raw
    --since --tail
""".split()
)
#: How alike a word must be to a type that is served to be a slip of the pen: the same everywhere.
_SLIP = 0.86
#: How shells and Python say that something is not there: dash, bash, busybox; env; Python's subprocess and import.
_NOT_THERE = (
    lazy_re.compile(r"(?:^|: )(?P<name>[\w.+-]+): (?:command )?not found\s*$"),
    lazy_re.compile(r"env: [\u2018']?(?P<name>[\w.+-]+)[\u2019']?: No such file or directory"),
    lazy_re.compile(r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<name>[\w.+-]+)'"),
    lazy_re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'"),
)
#: How programs say that a file is not there: dash, busybox, Python, and the words of strerror(3).
_NO_FILE = (
    lazy_re.compile(r"(?:^|: )(?P<name>[\w.+-]*/[\w.+/-]+): (?:command )?not found\s*$"),
    lazy_re.compile(r"cannot open (?P<name>\S+): No such file"),
    lazy_re.compile(r"can't open (?:file )?'(?P<name>[^']+)'"),
    lazy_re.compile(r"No such file or directory: '(?P<name>[^']+)'"),
    lazy_re.compile(r"(?:^|[\s'\"\u2018])(?P<name>[\w.+-]*[./][\w.+/-]*)['\"\u2019]?: No such file or directory"),
)
#: So many of the last lines tell why a program ended.
_LAST = 5
#: Folders in which a program finds what the cluster or it itself has put there, whatever its image is.
_NOT_THE_IMAGES = ("/tmp/", "/var/tmp/", "/run/", "/var/run/", "/dev/", "/proc/", "/sys/")  # noqa: S108 - never written
#: Folders of which every distribution has more than is known here.
_DISTRIBUTED = (
    *("/etc/ssl/", "/etc/pki/", "/etc/profile", "/etc/bash", "/etc/os-release"),
    *("/lib/", "/usr/lib/", "/usr/libexec/", "/usr/local/lib/", "/usr/share/", "/var/lib/"),
)
#: What dash says of what the sh of Alpine's and Red Hat's images knows.
_UNSHELLED = lazy_re.compile(
    r"(?m): \d+: (?:set: Illegal option -o (?P<option>\w+)|(?P<word>\[\[|source): not found|Bad substitution)\s*$"
)


def asked_of_kubectl(words: Sequence[str], kinds: Registry) -> tuple[str, str] | None:
    """(what it asks for that is not here, what to do) of kubectl's arguments; None: nothing of the kind."""
    plain = _arguments(words)
    if plain[:1] == ["top"]:
        return "kubectl top asks for metrics, and none are measured here", DRILL_IT
    if len(plain) < 2 or plain[0] not in _TYPED:
        return None
    for word in plain[1].split(","):
        kind = word.partition("/")[0].lower()
        if re.fullmatch(r"[a-z][a-z0-9.-]*", kind) and not _served(kind, kinds):
            return (
                f"kubectl {plain[0]} asks for type {kind}, which no CustomResourceDefinition here declares",
                f"add its CustomResourceDefinition to the manifests, or {DRILL_IT}",
            )
    return None


def _arguments(words: Sequence[str]) -> list[str]:
    """The words that are neither flags nor their values."""
    found, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word == "--":
            break
        elif word.startswith("-"):
            skip = word in _VALUED
        else:
            found.append(word)
    return found


def _served(word: str, kinds: Registry) -> bool:
    """Whether a type is served under this name, or is meant by it (a slip of the pen is one on any cluster)."""
    name, _, group = word.partition(".")
    known: set[str] = {"all"}
    for kind in kinds.all():
        resource = kind.resource
        names = {resource.plural, resource.kind.lower(), *kind.short_names, *kind.categories}
        known |= names
        if name in names and group in ("", resource.group, f"{resource.version}.{resource.group}"):
            return True
    return name in known or bool(difflib.get_close_matches(name, known, 1, _SLIP))


def named_program(launch: Launch, said: str) -> bool:
    """Whether a start failed for want of a program that the image, of which nothing is known, may contain."""
    if launch.contents.known or not launch.argv or not re.search(r"not found in \$PATH|no such file", said):
        return False
    program = launch.argv[0]
    if program in launch.contents.without:
        return False
    return not any(program.startswith(mount.path.rstrip("/") + "/") for mount in launch.mounts)


def lacked(launch: Launch, code: int, text: str) -> str | None:
    """The program, module, file or shell that a command missed, and that its image may well have; None: none.

    Of an image of which nothing is known that is whatever no manifest brings; of others, files of folders that are not
    listed here. A shell that does not know a word goes on without it, and may end well: that is a limit all the same.
    """
    unshelled = None if launch.contents.known else _UNSHELLED.search(text)
    if unshelled:
        return f"a sh that knows {unshelled['option'] or unshelled['word'] or '${name/...}'}"
    if not code:
        return None
    lines = text.splitlines()[-40:]
    named = () if launch.contents.known else _named(lines, _NOT_THERE)
    programs = (name for name in named if name not in launch.contents.without)
    files = (name for name in _named(lines[-_LAST:], _NO_FILE) if _may_hold(launch, name))
    return next(iter((*programs, *files)), None)


def _named(lines: Sequence[str], patterns: Sequence[re.Pattern[str]]) -> Iterator[str]:
    """What the lines say is not there, the last first."""
    for line in reversed(lines):
        yield from (found["name"] for found in (pattern.search(line) for pattern in patterns) if found)


def _may_hold(launch: Launch, name: str) -> bool:
    """Whether an image may hold a file that was not found: no manifest says what is at its place."""
    if not name.startswith("/") and not launch.working_dir:
        return not launch.contents.known  # from where the image starts, which is not known either
    path = normpath(join(launch.working_dir or "/", name))
    mounted = any(path == at or path.startswith(at + "/") for at in (m.path.rstrip("/") for m in launch.mounts))
    if mounted or path.startswith(_NOT_THE_IMAGES):
        return False
    return not launch.contents.known or path.startswith((*_DISTRIBUTED, *launch.contents.own_folders))
