"""Which field of an executor a finding points at, and the kubectl commands that it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import basename

from killcheck.probes.world import Executor

from killcheck.executor.kubectl_calls import CommandLine, command_line
from killcheck.executor.shell_script import UNKNOWN
from killcheck.text.yamlfile import Path

__all__ = ["calls_by_name", "command_path", "complaints", "kubectl"]

#: Characters of a line that are quoted.
_QUOTED = 160


def command_path(executor: Executor) -> Path:
    """What the last container is told to run: its args, its command, or else its image."""
    path, container = executor.containers[-1]
    part = next((name for name in ("args", "command") if container.get(name)), "image")
    return (*path, part)


def complaints(log: str, wrong: re.Pattern[str]) -> Iterator[str]:
    """Lines in which a program says that something went ``wrong``, the first first, and each at most so long."""
    for line in log.splitlines():
        if wrong.search(line):
            yield " ".join(line.split())[:_QUOTED]


def calls_by_name(executor: Executor) -> bool:
    """Whether it calls by name: curl does with the name in its URL; client libraries and kubectl use the address."""
    return "kubernetes.default" in executor.text or "//kubernetes/" in executor.text


def kubectl(executor: Executor, verb: str) -> Iterator[CommandLine]:
    """Its kubectl commands of one verb, taken apart. One whose flags are only known when it runs is left out."""
    for words in executor.reading.commands:
        if basename(words[0]) not in ("kubectl", "oc"):
            continue
        found = command_line(words[1:])
        unknown = [word for word in found.words if word == UNKNOWN]  # one is the object, another may be flags
        if found.words[:1] == [verb] and len(unknown) < 2:
            yield found
