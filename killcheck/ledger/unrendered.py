"""Kustomizations and charts that were not rendered: what is deployed is not what was drilled.

A patch may suspend a switch, a prefix rename what it scales, a base that is not here bring what lights it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from killcheck.capabilities.inventory import Inventory
from killcheck.entries import Entry, Status
from killcheck.kube.objects import name_of
from killcheck.kube.passed_over import Cause, Skipped
from killcheck.ledger import charts
from killcheck.ledger.stakes import Stakes, home_of

__all__ = ["entries"]

_CAUSES = frozenset({Cause.KUSTOMIZATION, Cause.ELSEWHERE})
_SETTLES = "drill what is deployed: render it, and give that as --manifests, or say under assume: what it leaves alone"


def entries(inventory: Inventory, stakes: Stakes) -> Iterator[Entry]:
    """An open one for each that has a target or a switch among its resources, or is a chart that concerns one."""
    if inventory.loaded is None or inventory.live:
        return
    told = {where for where, _ in inventory.not_read}
    unrendered = [one for one in inventory.loaded.skipped if one.cause in _CAUSES and one.place not in told]
    at_stake = _at_stake(inventory, stakes) if unrendered else {}
    for one in unrendered:
        what = _first(one, at_stake)
        if what:
            why = f"{what} is among its resources, and what becomes of them is not what was drilled: {one.why}"
            yield Entry(one.place, Status.NOT_MODELLED, why, _SETTLES)
    unmade = [one for one in inventory.loaded.skipped if one.cause is Cause.CHART and one.place not in told]
    rendered = charts.rendered(inventory) if unmade else {}
    for one in unmade:
        what = charts.concern(one, stakes, rendered)
        if what:
            yield Entry(one.place, Status.NOT_MODELLED, f"{what}, and it was not rendered: {one.why}", _SETTLES)


def _first(skipped: Skipped, at_stake: dict[str, str]) -> str | None:
    """The first object at stake in the files of something that was not rendered."""
    return next((at_stake[file] for file in skipped.files if file in at_stake), None)


def _at_stake(inventory: Inventory, stakes: Stakes) -> dict[str, str]:
    """By file, what a drill is about: its targets, and what turns them off."""
    wanted = {(held.kind, held.namespace, held.name) for held in stakes.targets}
    wanted |= {(ref.kind, ref.namespace, ref.name) for ref in stakes.switches}
    found: dict[str, str] = {}
    for manifest in inventory.loaded.manifests if inventory.loaded is not None else ():
        key = (str(manifest.obj.get("kind")), home_of(manifest.obj), name_of(manifest.obj))
        if key in wanted:
            found.setdefault(os.path.normpath(manifest.file), "/".join(key))
    return found
