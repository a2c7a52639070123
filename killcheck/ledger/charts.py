"""Helm charts beside a kill path that were not rendered: what may turn a target on may be in one of their templates.

A chart concerns a drill where its text names a target or a switch, or gives somebody a right to write a target's kind.
One whose templates are Services, ConfigMaps and the like, each by its own word, holds no program: one that another
chart makes, by an ``include`` or as a dependency, says nothing of what it is. One whose output is among the manifests
was rendered: helm writes each file's name above it (``# Source: CHART/templates/...``), charts label what they make.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from killcheck.capabilities.inventory import Inventory
from killcheck.kube.objects import labels_of
from killcheck.kube.passed_over import Skipped
from killcheck.ledger.kinds import INERT
from killcheck.ledger.stakes import Stakes
from killcheck.text.files import text_of

__all__ = ["concern", "rendered"]

_KIND = re.compile(r"^\s*(?:- )?kind:\s*[\"']?([\w{][^\s\"']*)", re.M)
_ROLE = re.compile(r"^kind:\s*(?:Cluster)?Role\s*$", re.M)
_WRITES = re.compile(r"\b(?:patch|update)\b|[\"']\*[\"']")
_SOURCE = re.compile(r"^# Source: ([^/\s]+)/", re.M)
_DEPENDS = re.compile(r"^dependencies:(?!\s*\[\s*\])", re.M)
#: Of a template what makes nothing: comments, and where something begins and ends. An ``include`` may make anything.
_COMMENT = r"\{\{-?\s*/\*.*?\*/\s*-?\}\}|^[ \t]*#[^\n]*$"
_CONTROL = r"\{\{-?\s*(?:(?:if|else|end|with|range)\b|\$\w+\s*:?=)[^{}]*\}\}"
_NOTHING = re.compile(f"{_COMMENT}|{_CONTROL}", re.M | re.S)
#: What a chart labels its objects with is its name and version.
_LABELLED = re.compile(r"(.+?)-v?\d")


def concern(chart: Skipped, stakes: Stakes, rendered: Collection[str]) -> str:
    """What an unrendered chart has to do with a drill, as the beginning of a sentence; empty: nothing is seen.

    ``rendered``: the names of the charts that were (:func:`rendered`).
    """
    texts = dict(_texts(chart.files))
    templates = {file: text for file, text in texts.items() if "templates" in Path(file).parts}
    inert = all(_is_inert(text) for file, text in templates.items() if not Path(file).name.startswith("_"))
    if (inert and not _depends(texts)) or Path(chart.file).name in rendered:
        return ""
    at_stake = [*(f"{one.kind}/{one.namespace}/{one.name}" for one in stakes.targets), *map(str, stakes.switches)]
    for said in at_stake:
        name = said.rpartition("/")[2]
        if any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for text in texts.values()):
            return f"it names {said}"
    for held in stakes.targets:
        resource = re.compile(rf"\b{held.plural}(?:/scale)?\b|resources:.*\*")
        if any(_ROLE.search(text) and resource.search(text) and _WRITES.search(text) for text in templates.values()):
            return f"it gives somebody the right to write {held.plural}, of which {held} is one"
    return ""


def rendered(inventory: Inventory) -> frozenset[str]:
    """The names of the charts whose output is among the manifests."""
    labelled = (_LABELLED.match(labels_of(obj).get("helm.sh/chart", "")) for obj in inventory.objects)
    files = {one.file for one in inventory.loaded.manifests} if inventory.loaded is not None else set()
    return frozenset(
        [
            *(found[1] for found in labelled if found),
            *(name for _, text in _texts(files) for name in _SOURCE.findall(text)),
        ]
    )


def _texts(files: Iterable[str]) -> Iterator[tuple[str, str]]:
    for file in files:
        try:
            yield file, text_of(Path(file), errors="replace")
        except OSError as error:
            yield file, f"kind: {type(error).__name__}"  # what cannot be read may be anything


def _is_inert(text: str) -> bool:
    """Whether each part of a template says its kind, and none has a program or acts: data, names and rights."""
    parts = [part for part in re.split(r"^---.*$", _NOTHING.sub("", text), flags=re.M) if part.strip()]
    return not _ROLE.search(text) and all((found := set(_KIND.findall(part))) and found <= INERT for part in parts)


def _depends(texts: Mapping[str, str]) -> bool:
    """Whether another chart brings some of it."""
    return any(_DEPENDS.search(text) for file, text in texts.items() if Path(file).stem in ("Chart", "requirements"))
