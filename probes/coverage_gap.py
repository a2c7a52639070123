"""GPU holders that nothing turns off."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import Obj, name_of
from killcheck.kube.workloads import templates

__all__ = ["CoverageGap"]


class CoverageGap(Probe):
    """Every holder in every namespace, up to its root, minus what the layers cover."""

    id = "coverage-gap"
    claim = "Everything that holds GPUs is turned off by at least one layer."
    remedy = "Add it to what a layer turns off, or give it a layer of its own."
    failures = (39,)
    sources = ("google/cybernetic-agent-governance-engine#74", "kubeflow/kubeflow#6920")
    needs = ("Pod", "Deployment", "StatefulSet", "ReplicaSet", "Job")

    def ask(self, world: World) -> Iterable[Finding]:
        """Holders that are no target, and targets that no layer covers."""
        covered = {name for layer in world.kill_path.layers for name in layer.covers}
        guarded = {id(obj) for target, obj in world.targets if target.name in covered}
        unread = _unread_timers(world)
        for holder in world.holders:
            if id(holder.obj) in guarded or self._is_named(world, holder.obj, covered):
                continue
            path = templates(holder.obj)[0].path if templates(holder.obj) else ()
            devices = f"{holder.devices} GPU{'s' if holder.devices != 1 else ''}"
            if unread:
                why = f"{unread[0]} was not fired" + (f", nor {len(unread) - 1} more" if len(unread) > 1 else "")
                yield self.unproven(
                    world, holder.obj, f"whether anything turns off its {devices}: no layer does, and {why}"
                )
            else:
                yield self.finding(world, holder.obj, path, f"holds {devices}, and no layer turns it off")

    @staticmethod
    def _is_named(world: World, obj: Obj, covered: set[str]) -> bool:
        """Whether a covered target says its name (a stand-in for an owner that could not be read)."""
        wanted = (str(obj.get("kind")), namespace_or_default(obj), name_of(obj))
        return any((t.kind, t.namespace, t.object) == wanted for t in world.kill_path.targets if t.name in covered)


def _unread_timers(world: World) -> list[str]:
    """The systemd timers beside the manifests whose programs nobody fired: one of them may turn anything off."""
    fired = {Path(one.beside.file).with_suffix("") for one in world.rehearsed.values() if one.beside and one.known}
    unseen = [Path(one.file) for one in world.loaded.unseen] if world.loaded else []
    return [str(file) for file in unseen if file.suffix == ".timer" and file.with_suffix("") not in fired]
