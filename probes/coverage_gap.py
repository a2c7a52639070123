"""GPU holders that nothing turns off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import Executor, World, namespace_or_default

from killcheck.discover import Holder
from killcheck.discover.machines import asked_by
from killcheck.discover.other_scalers import who_may_turn_off
from killcheck.discover.sleepers import takes_down
from killcheck.kube.objects import Obj, dig, name_of, ref_of
from killcheck.kube.passed_over import Cause
from killcheck.kube.plurals import plural_of
from killcheck.kube.workloads import templates
from killcheck.spec.killpath import Target

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Rehearsed

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
        covered = {name for layer in world.kill_path.layers for name in layer.covers} - set(_left_out(world))
        guarded = {id(obj) for target, obj in world.targets if target.name in covered}
        unfired = _unfired(world)
        for machine in world.kill_path.targets:
            if machine.outside and machine.name not in covered:
                yield self._machine(world, machine)
        for holder in world.holders:
            if id(holder.obj) in guarded or self._is_named(world, holder.obj, covered):
                continue
            path = templates(holder.obj)[0].path if templates(holder.obj) else ()
            devices = f"{holder.devices} GPU{'s' if holder.devices != 1 else ''}"
            unread = _unread(world, holder) or _others(world, holder)
            if unfired or unread:
                why = unread or f"{unfired[0]} was not fired" + (
                    f", nor {len(unfired) - 1} more" if len(unfired) > 1 else ""
                )
                asked = f"whether anything turns off its {devices}: no layer does, and {why}"
                yield replace(self.unproven(world, holder.obj, asked), gpus=holder.devices)
            else:
                who = next((who for name, who in _left_out(world).items() if _names(world, name, holder.obj)), None)
                told = f"{who} leaves it out" if who else "no layer turns it off"
                found = self.finding(world, holder.obj, path, f"holds {devices}, and {told}")
                yield replace(found, gpus=holder.devices)

    def _machine(self, world: World, target: Target) -> Finding:
        """Of a machine that a timer starts, and none stops."""
        beside = next((one.beside for one in world.rehearsed.values() if target.name in _started_by(one)), None)
        return Finding(
            self.id,
            self.severity,
            f"Machine/{target.name}",
            "is started here, and no layer turns it off" if beside else "no layer turns it off",
            self.remedy,
            (),
            "",
            beside.file if beside else "",
            beside.line if beside else 0,
            failures=self.failures,
        )

    @staticmethod
    def _is_named(world: World, obj: Obj, covered: set[str]) -> bool:
        """Whether a covered target says its name (a stand-in for an owner that could not be read)."""
        wanted = (str(obj.get("kind")), namespace_or_default(obj), name_of(obj))
        return any((t.kind, t.namespace, t.object) == wanted for t in world.kill_path.targets if t.name in covered)


def _left_out(world: World) -> dict[str, str]:
    """The targets that nothing covers but sleepers which leave them out, by name, with who that is."""
    left: dict[str, str] = {}
    kept: set[str] = set()
    for layer in world.kill_path.layers:
        ref = layer.workload
        sleeper = world.find(ref.kind, ref.namespace, ref.name) if ref else None
        for target, obj in world.targets:
            if target.name in layer.covers and sleeper and takes_down(sleeper, obj, world.objects) is False:
                left[target.name] = ref_of(sleeper)
            elif target.name in layer.covers:
                kept.add(target.name)
    return {name: who for name, who in left.items() if name not in kept}


def _names(world: World, name: str, obj: Obj) -> bool:
    return any(target.name == name and obj is one for target, one in world.targets)


def _started_by(one: Rehearsed) -> set[str]:
    """The machines that a timer's program starts."""
    return {machine.name for machine in asked_by(one) if not machine.stops} if one.beside else set()


def _unfired(world: World) -> list[str]:
    """The schedules beside the manifests that act from outside Kubernetes, and that nobody fired: any of them may turn
    something off."""
    fired = {one.beside.by for one in world.rehearsed.values() if one.beside and one.known}
    unseen = [one for one in world.loaded.unseen if one.cause is Cause.OUTSIDE] if world.loaded else []
    return list(dict.fromkeys(one.file for one in unseen if one.file not in fired))


def _unread(world: World, holder: Holder) -> str | None:
    """Why a program that nobody saw may turn a holder off: what it does could not be read, and its rights allow it;
    or what fires it is not known here. None: there is no such program."""
    named = {target.name for target, obj in world.targets if obj is holder.obj}
    for other in world.fired_elsewhere:
        if named & set(other.targets) and dig(other.obj, "spec", "suspend") is not True:
            return f"what fires {ref_of(other.obj)} is not drilled"
    for one in world.executors:
        if one.seen is None and one.reading.not_understood and _may_scale(world, one, holder):
            return f"what {ref_of(one.owner)} does could not all be read ({one.reading.not_understood[0]})"
    return None


def _others(world: World, holder: Holder) -> str | None:
    """What else may turn a holder off, by its own words or those of an object of a kind that is not drilled."""
    name = name_of(holder.obj)
    root = Target(name, kind=str(holder.obj.get("kind")), namespace=holder.namespace, object=name)
    return who_may_turn_off(world.objects, root, holder.obj)


def _may_scale(world: World, one: Executor, holder: Holder) -> bool:
    """Whether an executor's account may scale a holder."""
    return world.permissions.allows(
        one.account,
        one.namespace,
        verb="patch",
        group=str(holder.obj.get("apiVersion", "")).rpartition("/")[0],
        resource=plural_of(str(holder.obj.get("kind"))),
        subresource="scale",
        name=name_of(holder.obj),
        namespace=holder.namespace,
    )
