"""The same kill path elsewhere: a reference path under other names, in other namespaces, at another minute or zone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

__all__ = ["MORE", "TWINS", "text_of"]

#: Names that others look for: a provider's or an operator's; and a layer's type, which a spec says in the same word.
_FIXED = frozenset(
    {
        *("default", "kube-system", "karpenter", "keda", "keda-add-ons-http-interceptor-proxy"),
        *("alertmanager-main", "main", "idle-monitor"),
    }
)
_OF_THE_CLUSTER = ("Namespace", "NodePool", "DeviceClass", "EC2NodeClass", "PriorityClass")
_KEPT = re.compile(r"\bimage: |^ *(?:- )?(?:kind|apiVersion): \S+$")


def _objects(folder: Path) -> Iterator[dict[str, Any]]:
    for file in folder.rglob("*.yaml"):
        yield from (one for one in yaml.safe_load_all(file.read_text()) if isinstance(one, dict))


def text_of(folder: Path) -> str:
    """All that a kill path says."""
    return "\n".join(file.read_text() for file in folder.rglob("*.yaml"))


def _namespaces(folder: Path) -> set[str]:
    return set(re.findall(r"namespace: ([\w-]+)", text_of(folder)))


def _names(folder: Path) -> set[str]:
    said = (one.get("metadata", {}).get("name") for one in _objects(folder) if one.get("kind") not in _OF_THE_CLUSTER)
    return {str(name) for name in said if name} - _namespaces(folder)


def _renamed(of: Callable[[Path], set[str]]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        longest_first = sorted(map(re.escape, of(folder) - _FIXED), key=len, reverse=True)
        no_group = r"(?<!apiGroups: \[)(?<!/apis/)"  # a namespace may be called as an API's group is: batch
        word = re.compile(rf"(?:(?<![\w.-]){no_group}|(?<=%3D))({'|'.join(longest_first)})(?![\w-])")
        _lines(folder, lambda line: line if _KEPT.search(line) else word.sub(r"x1-\1-eu", line))

    return change


def _replaced(*words: tuple[str, str]) -> Callable[[Path], None]:
    def edit(text: str) -> str:
        for before, after in words:
            text = re.sub(before, after, text)
        return text

    return lambda folder: _edited(folder, edit)


def _lines(folder: Path, edit: Callable[[str], str]) -> None:
    _edited(folder, lambda text: "".join(map(edit, text.splitlines(keepends=True))))


def _edited(folder: Path, edit: Callable[[str], str]) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_text(edit(file.read_text()))


def _later(folder: Path) -> None:
    def moved(found: re.Match[str]) -> str:
        return f"{found[1]}{(int(found[2]) + 17) % 60} {found[3]} "

    _lines(folder, lambda line: re.sub(r'(schedule: *"?)(\d+) (\d+) ', moved, line))


#: Changes that say the same of another place, name, minute, zone or number.
TWINS: dict[str, Callable[[Path], None]] = {
    "other names": _renamed(_names),
    "other namespaces": _renamed(_namespaces),
    "another minute": _later,
    "another zone": _replaced((r"timeZone: [\w/]+", "timeZone: Pacific/Auckland")),
}
#: Of a path whose target has one replica.
MORE = {
    "more replicas": _replaced(
        (r"\n  replicas: 1\n", "\n  replicas: 3\n"),
        (r"maxGpuNodes: 1", "maxGpuNodes: 3"),
        (r"\n  limits:\n    nvidia.com/gpu: 8\n", "\n  limits:\n    nvidia.com/gpu: 24\n"),
    ),
}
