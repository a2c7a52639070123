"""Helm charts beside a kill path that were not rendered: what may turn a target on may be in one of their templates.

A chart concerns a drill where its text names a target or a switch, or gives somebody a right to write a target's kind.
One whose templates are Services, ConfigMaps and the like holds no program. One whose output is among the manifests was
rendered: helm writes each file's name above it (``# Source: CHART/templates/...``), charts label what they make.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from killcheck.capabilities.inventory import Inventory
from killcheck.kube.objects import labels_of
from killcheck.kube.passed_over import Skipped
from killcheck.ledger.kinds import INERT
from killcheck.ledger.stakes import Stakes
from killcheck.text.files import text_of

__all__ = ["concern"]

_KIND = re.compile(r"^\s*(?:- )?kind:\s*[\"']?([\w{][^\s\"']*)", re.M)
_ROLE = re.compile(r"^kind:\s*(?:Cluster)?Role\s*$", re.M)
_WRITES = re.compile(r"\b(?:patch|update)\b|[\"']\*[\"']")


def concern(chart: Skipped, inventory: Inventory, stakes: Stakes) -> str:
    """What an unrendered chart has to do with a drill, as the beginning of a sentence; empty: nothing is seen."""
    texts = dict(_texts(chart))
    templates = [text for file, text in texts.items() if "templates" in Path(file).parts]
    if all(_is_inert(text) for text in templates) or _was_rendered(Path(chart.file).name, inventory):
        return ""
    at_stake = [*(f"{one.kind}/{one.namespace}/{one.name}" for one in stakes.targets), *map(str, stakes.switches)]
    for said in at_stake:
        name = said.rpartition("/")[2]
        if any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for text in texts.values()):
            return f"it names {said}"
    for held in stakes.targets:
        resource = re.compile(rf"\b{held.plural}(?:/scale)?\b|resources:.*\*")
        if any(_ROLE.search(text) and resource.search(text) and _WRITES.search(text) for text in templates):
            return f"it gives somebody the right to write {held.plural}, of which {held} is one"
    return ""


def _texts(chart: Skipped) -> Iterator[tuple[str, str]]:
    for file in chart.files:
        try:
            yield file, text_of(Path(file), errors="replace")
        except OSError as error:
            yield file, f"kind: {type(error).__name__}"  # what cannot be read may be anything


def _is_inert(text: str) -> bool:
    """Whether a template makes nothing that has a program or acts: its kinds are data, names and rights."""
    return not _ROLE.search(text) and set(_KIND.findall(text)) <= INERT


def _was_rendered(name: str, inventory: Inventory) -> bool:
    """Whether what a chart makes is among the manifests."""
    if any(labels_of(obj).get("helm.sh/chart", "").startswith(f"{name}-") for obj in inventory.objects):
        return True
    files = {one.file for one in inventory.loaded.manifests} if inventory.loaded is not None else set()
    return any(
        f"# Source: {name}/" in text for file in files for _, text in _texts(Skipped(file, 0, "", files=(file,)))
    )
