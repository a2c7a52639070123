"""Finds the kill path in a cluster or in manifests: what holds GPUs, what turns it off, where, and by when.

Nothing is run and nothing is changed. What could not be understood is said, and every guess is a note: a spec that is
written here is a proposal for a person to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from killcheck.discover import deadlines as deadline_sums
from killcheck.discover import layers as discover_layers
from killcheck.discover import nodes as discover_nodes
from killcheck.kube import gpus
from killcheck.kube.manifests import Loaded
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of, ref_of, uid_of
from killcheck.kube.workloads import devices_of, root_of, templates
from killcheck.spec import killpath

if TYPE_CHECKING:
    from killcheck.kube.client import Kube

__all__ = ["Discovery", "DiscoveryError", "Holder", "from_cluster", "from_objects", "holders"]


class DiscoveryError(Exception):
    """There is no kill path to be found; the message says what was looked at and what came nearest."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A root workload that asks for accelerators. ``devices`` as it is scaled (at least one pod of each template)."""

    obj: Obj
    devices: int

    @property
    def namespace(self) -> str:
        """Its namespace; ``default`` where a manifest says none."""
        return namespace_of(self.obj) or "default"


@dataclass(frozen=True, slots=True)
class Discovery:
    """A kill path as it was found.

    ``notes`` are what a reader should know, one sentence each; ``not_understood`` what could not be read; ``uncovered``
    the names of targets that no layer turns off; ``comments`` explain single fields, for the written spec.
    """

    kill_path: killpath.KillPath
    notes: tuple[str, ...]
    not_understood: tuple[str, ...]
    uncovered: tuple[str, ...]
    comments: Mapping[str, str]

    @property
    def spec(self) -> str:
        """The commented ``killcheck.yaml``."""
        from killcheck.spec.specfile import dump

        return dump(self.kill_path, self.comments)


#: Kinds that hold GPUs as long as their node lives, or that are made of other holders.
_NOT_TARGETS = frozenset({"DaemonSet", "CronJob", "PodTemplate", "ControllerRevision", "ClusterTrainingRuntime"})


def from_objects(objects: Iterable[Obj] | Loaded, name: str = "") -> Discovery:
    """The kill path in manifests or in a live listing. Raises DiscoveryError where there is no target or no layer."""
    notes = list(objects.notes) if isinstance(objects, Loaded) else []
    found = objects.objects if isinstance(objects, Loaded) else list(objects)
    held = [holder for holder in holders(found) if name_of(holder.obj) or labels_of(holder.obj)]
    notes += _odd_holders(found)
    if not held:
        raise DiscoveryError(_no_target(found, notes))
    targets = _targets(held)
    by_target = {target.name: holder.obj for target, holder in zip(targets, held, strict=True)}
    seen = discover_layers.find(found, targets, by_target)
    if not seen.layers:
        raise DiscoveryError(_no_layer(targets, seen))
    pools = discover_nodes.find(found, [holder.obj for holder in held])
    deadlines, comments = deadline_sums.suggest(found, list(by_target.values()), seen.cron_jobs, pools)
    covered = {name for layer in seen.layers for name in layer.covers}
    uncovered = tuple(target.name for target in targets if target.name not in covered)
    notes += [*seen.notes, *pools.notes, *deadlines.notes]
    notes += [f"no layer turns {target} off" for target in targets if target.name in uncovered]
    path = killpath.KillPath(
        name=name or targets[0].namespace or "kill-path",
        targets=targets,
        nodes=pools.pools,
        layers=tuple(deadline_sums.after_idling(layer, deadlines.deadlines) for layer in seen.layers),
        deadlines=deadlines.deadlines,
        proof=killpath.DEFAULT_PROOF - (set() if pools.described else {killpath.Proof.P2}),
        consent=killpath.Consent(
            namespaces=tuple(dict.fromkeys(target.namespace for target in targets)),
            pools=tuple(pool.name for pool in pools.pools),
        ),
    )
    return Discovery(path, tuple(dict.fromkeys(notes)), seen.not_understood, uncovered, comments)


def holders(objects: Iterable[Obj]) -> list[Holder]:
    """Every root workload among ``objects`` that asks for accelerators, DaemonSets and CronJobs excepted.

    A Job that a CronJob started is its own root: the Job is what can be stopped.
    """
    everything = list(objects)
    claims = gpus.claims_of(everything)
    by_uid = {uid_of(obj): obj for obj in everything if uid_of(obj)}
    roots: dict[tuple[str, str, str], Holder] = {}
    for obj in everything:
        devices = 0 if _is_over(obj) else devices_of(obj, claims, wanted=True)
        if not devices:
            continue
        root = root_of(obj, lambda owner, _: by_uid.get(str(owner.get("uid"))), stop_at=("CronJob", "Node"))
        if root.get("kind") in _NOT_TARGETS or gpus.is_daemon(obj):
            continue
        key = (str(root.get("kind")), namespace_of(root), name_of(root))
        known = roots.get(key)
        roots[key] = Holder(root, max(devices, known.devices if known else 0))
    return list(roots.values())


def _is_over(obj: Obj) -> bool:
    """A finished pod or Job, an old ReplicaSet at zero: they hold nothing and never will again."""
    kind = obj.get("kind")
    if kind == "Pod":
        return gpus.hold(obj) is gpus.Hold.FINISHED
    if kind == "Job":
        conditions = dig(obj, "status", "conditions", default=[])
        return any(c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in conditions)
    owned = bool(dig(obj, "metadata", "ownerReferences"))
    return kind == "ReplicaSet" and owned and not dig(obj, "spec", "replicas", default=0)


def _targets(held: list[Holder]) -> tuple[killpath.Target, ...]:
    names = _names([holder.obj for holder in held])
    return tuple(
        killpath.Target(
            name=name,
            api_version=str(holder.obj.get("apiVersion", "")),
            kind=str(holder.obj.get("kind", "")),
            namespace=holder.namespace,
            object=name_of(holder.obj),
            selector=_selector(holder.obj),
        )
        for name, holder in zip(names, held, strict=True)
    )


def _selector(obj: Obj) -> str:
    """For an object whose name is generated: its labels."""
    return "" if name_of(obj) else ",".join(f"{key}={value}" for key, value in sorted(labels_of(obj).items()))


def _names(objects: list[Obj]) -> list[str]:
    """A name for each: the object's own, with namespace and then kind before it where that is not enough."""
    plain = [name_of(obj) or str(dig(obj, "metadata", "generateName", default="")).rstrip("-") for obj in objects]
    spaced = [f"{namespace_of(obj)}-{name}".strip("-") for obj, name in zip(objects, plain, strict=True)]
    full = [f"{obj.get('kind', '')}-{long}".lower() for obj, long in zip(objects, spaced, strict=True)]
    return [
        short if plain.count(short) == 1 else (long if spaced.count(long) == 1 else longest)
        for short, long, longest in zip(plain, spaced, full, strict=True)
    ]


def _odd_holders(objects: list[Obj]) -> list[str]:
    """GPUs that are used without being asked for, and schedules that start GPU work."""
    notes = []
    for obj in objects:
        if obj.get("kind") == "CronJob" and devices_of(obj, wanted=True):
            notes.append(f"{ref_of(obj)} starts Jobs that hold GPUs: it can light them again after they went off")
        if obj.get("kind") == "DaemonSet" or dig(obj, "metadata", "ownerReferences"):
            continue
        for template in templates(obj):
            how = gpus.unaccounted(template.spec)
            if how:
                notes.append(f"{ref_of(obj)} may use GPUs that it does not ask for: {how}")
    return notes


def _no_target(objects: list[Obj], notes: list[str]) -> str:
    count: dict[str, int] = {}
    for obj in objects:
        if templates(obj):
            count[str(obj.get("kind"))] = count.get(str(obj.get("kind")), 0) + 1
    looked = ", ".join(f"{number} {kind}{'s' if number > 1 else ''}" for kind, number in sorted(count.items()))
    message = f"no target found: nothing here asks for a GPU (looked at {looked or 'no workload at all'})"
    return message + "".join(f"\n  {note}" for note in notes)


def _no_layer(targets: tuple[killpath.Target, ...], seen: discover_layers.Found) -> str:
    names = ", ".join(str(target) for target in targets)
    lines = [f"no layer found: nothing here turns off what holds GPUs ({names})"]
    lines += [f"  {line}" for line in (*seen.misses, *seen.not_understood, *seen.notes)]
    return "\n".join(lines)


# -- a live cluster ------------------------------------------------------------------------------------------
def from_cluster(kube: Kube, name: str = "") -> Discovery:
    """The kill path of a live cluster: one list for each kind, however many objects there are.

    Raises DiscoveryError, and KubeError where what holds GPUs cannot be listed; where what might *help* cannot, it is
    ``not_understood``.
    """
    from killcheck.kube import listing

    listed = listing.read(kube)
    unread = [f"{kind}s could not be listed: {why}" for kind, why in listed.unread.items()]
    found = from_objects(listed.objects, name)
    return Discovery(found.kill_path, found.notes, (*found.not_understood, *unread), found.uncovered, found.comments)
