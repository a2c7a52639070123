"""What containers ask for that this host and this cluster do not have, and a real cluster may.

Some of it is never asked of the API server: kubectl looks a type up in discovery and gives up by itself, and a program
that an image of which nothing is known may well contain is simply not on this host.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from killcheck.embedded.api.kinds import Registry
from killcheck.embedded.limits import DRILL_IT
from killcheck.embedded.nodes.execution import Launch

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
    re.compile(r"(?:^|: )(?P<name>[\w.+-]+): (?:command )?not found\s*$"),
    re.compile(r"env: [\u2018']?(?P<name>[\w.+-]+)[\u2019']?: No such file or directory"),
    re.compile(r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<name>[\w.+-]+)'"),
    re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'"),
)
#: What dash says of what the sh of Alpine's and Red Hat's images knows.
_UNSHELLED = re.compile(
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
    return not any(program.startswith(mount.path.rstrip("/") + "/") for mount in launch.mounts)


def lacked(launch: Launch, code: int, text: str) -> str | None:
    """The program, module or shell that a command missed, in an image of which nothing is known; None: none.

    A shell that does not know a word goes on without it, and may end well: that is a limit all the same.
    """
    if launch.contents.known:
        return None
    unshelled = _UNSHELLED.search(text)
    if unshelled:
        return f"a sh that knows {unshelled['option'] or unshelled['word'] or '${name/...}'}"
    if not code:
        return None
    for line in reversed(text.splitlines()[-40:]):
        for pattern in _NOT_THERE:
            found = pattern.search(line)
            if found:
                return found["name"]
    return None
