"""Programs that end well and leave on what they should turn off."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from killcheck.probes.base import Finding, Probe
from killcheck.probes.rehearsed import complaint_of
from killcheck.probes.script_lines import of_call
from killcheck.probes.where import command_path
from killcheck.probes.world import World, owners_of

from killcheck.spec.killpath import LayerType

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Call, Firing

__all__ = ["NoEffect"]

#: Characters of a program's last words that are quoted.
_QUOTED = 160


class NoEffect(Probe):
    """Fired once in a rehearsal, every call was taken: 200 for another object, for 1 instead of 0, for no field."""

    id = "no-effect"
    rehearsed = True
    claim = "An executor that ends well has turned something off."
    remedy = "Let it set spec.replicas to 0 on the object that holds the GPUs."
    failures = (14, 39)
    sources = ("robbeverhelst/unifi-reactor#63", "k8s.io/apiserver: unknown fields are dropped with a warning")

    def ask(self, world: World) -> Iterable[Finding]:
        """Layers, and what asked for something of that kind."""
        for one in world.watched:
            first = one.seen.first if one.seen else None
            if first is None or first.exit_code != 0 or first.off or any(True for _ in first.refused):
                continue
            if not first.changes:
                continue
            if not any(change.before or change.pods_before for change in first.changes):
                yield self.unproven(world, one.owner, "whether it turns anything off: all was off before it fired")
                continue
            how = _how(world, first)
            if how is None:
                continue
            watches = one.layer is None or one.layer.type is LayerType.IDLE_MONITOR
            if watches and not first.writes:
                yield self.unproven(world, one.owner, f"whether it turns anything off when it should: {how}")
            elif first.outside and not first.writes:
                yield self.unproven(
                    world,
                    one.owner,
                    f"it asks {first.outside[0]}, outside the cluster, which a rehearsal has not: {how}",
                )
            elif first.services and not first.writes:
                yield self.unproven(
                    world, one.owner, f"it asks Service {first.services[0]}, and nothing answers there: {how}"
                )
            else:
                at = of_call(world, one, first.writes[-1]) if first.writes else None
                yield self.finding(world, one.owner, command_path(one), f"ends with exit code 0, and {how}", at=at)


def _how(world: World, first: Firing) -> str | None:
    """What it did instead of turning off; None: nothing that says so."""
    for call in first.writes:
        if call.warnings:
            return f"{call} with a warning: {call.warnings[0]}; nothing went off"
    for change in first.changes:
        if change.gone and change.pods_after:
            what = f"{change.kind}/{change.namespace}/{change.name}"
            return f"deletes {what} and leaves its {change.pods_after} pods, which nobody owns any more"
        if change.after < change.before:
            number = [call for call in first.writes if call.name == change.name and call.replicas]
            said = f" ({number[-1].method} writes {number[-1].replicas})" if number else ""
            what = f"{change.kind}/{change.namespace}/{change.name}"
            return f"leaves {change.after} of {change.before} pods of {what}{said}"
    calls = first.writes
    tried = [call for call in first.calls if call.dry_run]
    if tried and not calls:
        return f"it asked for a dry run alone: {tried[-1]}; nothing went off"
    cordoned = [call for call in calls if call.resource == "nodes" and "unschedulable" in call.body]
    if cordoned and len(cordoned) == len(calls):
        return f"it only cordons {len(cordoned)} node(s), and pods stay on a cordoned node: {_shown(calls[-1])}"
    if calls:
        return f"nothing went off: {_shown(calls[-1])}{_kept(world, calls[-1])}"
    complaint = complaint_of(first) or next((e.last_words[:_QUOTED] for e in first.endings if e.last_words), None)
    said = f'; it says "{complaint}"' if complaint else ""
    return f"it asked for no change at all: nothing went off{said}"


def _kept(world: World, call: Call) -> str:
    """Of a ReplicaSet: that a Deployment sets it back. One that stands by itself is among the manifests."""
    alone = world.find("ReplicaSet", call.namespace, call.name)
    return (
        "" if call.resource != "replicasets" or (alone and not owners_of(alone)) else ", which its Deployment sets back"
    )


def _shown(call: Call) -> str:
    body = f" with {call.body[:120]}" if call.body else ""
    return f"{call}{body}"
