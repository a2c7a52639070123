"""Finds the kill path in a cluster or in manifests: what holds GPUs, what turns it off, where, and by when.

Nothing is run and nothing is changed. What could not be understood is said, and every guess is a note: a spec that is
written here is a proposal for a person to read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING

from msgspec import Struct

from killcheck.discover import deadlines as deadline_sums
from killcheck.discover import everywhere, machines, made_runs, starters
from killcheck.discover import layers as discover_layers
from killcheck.discover import nodes as discover_nodes
from killcheck.discover.everywhere import how_it_holds
from killcheck.discover.unknown import Unknown, referenced_devices, templates_among, unknown_holders
from killcheck.kube import gpus
from killcheck.kube.custom_holders import STARTERS, TEMPLATES, is_capacity, mention
from killcheck.kube.manifests import BY_HAND, Loaded
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of, ref_of, uid_of
from killcheck.kube.passed_over import Cause, Skipped, summed_up
from killcheck.kube.selectors import is_requirement
from killcheck.kube.workloads import devices_of, root_of, templates
from killcheck.spec import killpath
from killcheck.text import lazy_re
from killcheck.text.values import replace

if TYPE_CHECKING:
    from killcheck.kube.client import Kube
    from killcheck.rehearsal.record import Rehearsed

#: What is to be done where what names GPUs was read, and is no holder that is understood.
NAME_IT = "next: name under targets, in a killcheck.yaml, what is to go off"
#: What renders a chart or a kustomization by hand, as it is told.
#: What containers of a Docker host are written in. Source: Compose Specification, 03-compose-file.
_COMPOSE = lazy_re.compile(r"(?:^|/)(?:docker-)?compose(?:\.[\w.-]+)?\.ya?ml$")
_RENDER = lazy_re.compile(r"(?:helm template|kubectl kustomize|envsubst <) (?!\.\.\. )\S[^()]*? > rendered\.yaml")

__all__ = [
    "NAME_IT",
    "Discovery",
    "DiscoveryError",
    "Holder",
    "from_cluster",
    "from_objects",
    "holders",
    "next_step",
]


class DiscoveryError(Exception):
    """There is no kill path to be found; the message says what was looked at and what came nearest.

    ``something``: whether GPUs are named all the same, or something was not read that may ask for them.
    """

    def __init__(self, message: str, *, something: bool = False) -> None:
        super().__init__(message)
        self.something = something


class Holder(Struct, frozen=True):
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
    #: Objects that may hold accelerators in ways that are not understood.
    unknown: tuple[Unknown, ...] = ()
    #: What was looked at.
    objects: Sequence[Obj] = field(default=(), repr=False, compare=False)
    #: Files of timers and crontabs that it was made of, though they are no manifests.
    taken: Collection[str] = ()

    @property
    def spec(self) -> str:
        """The commented ``killcheck.yaml``."""
        from killcheck.spec.specfile import dump

        return dump(replace(self.kill_path, layers=self.written), self.comments)

    @property
    def written(self) -> tuple[killpath.Layer, ...]:
        """The layers that a spec can hold: no watch whose idle time nobody wrote down."""
        return tuple(layer for layer in self.kill_path.layers if not _timeless(layer))

    @property
    def timeless(self) -> tuple[killpath.Ref, ...]:
        """The workloads that watch, and of which nobody wrote down after how long they act."""
        return tuple(one.workload for one in self.kill_path.layers if _timeless(one) and one.workload is not None)


def _timeless(layer: killpath.Layer) -> bool:
    return layer.type is killpath.LayerType.IDLE_MONITOR and layer.cron_job is None and layer.idle_s is None


#: Kinds that hold GPUs as long as their node lives, or that are made of other holders.
_NOT_TARGETS = frozenset({"DaemonSet"}) | STARTERS | TEMPLATES


#: Kinds that speak of GPUs which workloads elsewhere ask for.
_FOR_OTHERS = frozenset({"Provisioner", "ClusterQueue", "ResourceFlavor", "ResourceQuota", "Workload", "NodeClaim"})
#: What stands above the list of contexts, which nobody but a person fills in.
_NO_CONTEXT = (
    "No kubeconfig context: no cluster is touched until yours is named here. namespaces and pools are a proposal."
)
#: So many targets are named in a message before the rest is a number.
_NAMED = 5


def from_objects(
    objects: Iterable[Obj] | Loaded,
    name: str = "",
    rehearsed: Mapping[str, Rehearsed] | None = None,
    *,
    complete: bool = True,
    strays: bool = False,
    listed: Collection[str] = (),
) -> Discovery:
    """The kill path in manifests or in a live listing; programs that were ``rehearsed`` are known by what they did.

    Raises DiscoveryError where there is no target, and if it is to be ``complete`` where there is no layer; else what
    was looked at is among the notes. ``strays``: switches that miss are layers of what nothing else turns off.
    ``listed``: the kinds of which a cluster was read and all is among ``objects``.
    """
    notes = list(objects.notes) if isinstance(objects, Loaded) else []
    found = objects.objects if isinstance(objects, Loaded) else list(objects)
    if isinstance(objects, Loaded):
        found = [*found, *made_runs.of(found)]
    every = holders(found)
    held = [holder for holder in every if name_of(holder.obj) or labels_of(holder.obj)]
    held += [Holder(obj, devices_of(obj, wanted=True)) for obj in everywhere.turned_off(found)]
    notes += [*_odd_holders(found), *_nameless(every)]
    unknown = unknown_holders(found)
    alone = machines.found(rehearsed or {}, name, found) if not held else None
    if alone is not None:
        return _of_machines(alone, found, notes, unknown)
    if not held:
        raise _no_target(found, notes, unknown, objects.unseen if isinstance(objects, Loaded) else ())
    targets = _targets(held)
    by_target = {target.name: holder.obj for target, holder in zip(targets, held, strict=True)}
    seen = discover_layers.find(found, targets, by_target, rehearsed, strays=strays)
    if not seen.layers:
        most = sorted(zip(targets, held, strict=True), key=lambda one: -one[1].devices)
        nothing = _no_layer(
            tuple(target for target, _ in most), seen, objects.unseen if isinstance(objects, Loaded) else ()
        )
        if complete:
            raise DiscoveryError(nothing)
        notes += nothing.splitlines()[:1] + [f"looked at: {miss}" for miss in seen.misses]
    pools = discover_nodes.find(found, [holder.obj for holder in held], listed=listed)
    deadlines, comments = deadline_sums.suggest(
        found, list(by_target.values()), seen.cron_jobs, pools, _ran_s(seen, rehearsed or {})
    )
    comments = {**comments, **_known_by(seen), "consent.contexts": _NO_CONTEXT}
    if not seen.layers:
        comments = {**comments, "layers": _nothing_fires(seen)}
    covered = {name for layer in seen.layers for name in layer.covers}
    uncovered = tuple(target.name for target in targets if target.name not in covered)
    again = list(starters.named(found, targets, by_target, _files(objects)))
    notes += [*seen.notes, *again, *pools.notes, *deadlines.notes]
    if seen.layers:
        notes += [f"no layer turns {target} off" for target in targets if target.name in uncovered]
    path = killpath.KillPath(
        name=name or targets[0].namespace or "kill-path",
        targets=targets,
        folder=seen.folder or "",
        nodes=pools.pools,
        layers=tuple(deadline_sums.after_idling(layer, deadlines.deadlines) for layer in seen.layers),
        deadlines=deadlines.deadlines,
        starts=made_runs.started_by(found),
        proof=killpath.DEFAULT_PROOF - (set() if pools.described else {killpath.Proof.P2}),
        consent=killpath.Consent(
            namespaces=tuple(
                dict.fromkeys([*_written_to(targets, seen.layers), *_touched(targets, seen, rehearsed or {})])
            ),
            pools=tuple(pool.name for pool in pools.pools),
        ),
    )
    said, taken = tuple(dict.fromkeys(notes)), fired_files(rehearsed or {})
    return Discovery(path, said, seen.not_understood, uncovered, comments, tuple(unknown), found, taken)


def fired_files(rehearsed: Mapping[str, Rehearsed]) -> frozenset[str]:
    """The files of timers and crontabs of which it is known what they do, though they are no manifests.

    Of Terraform's there is more in a file than what fires.
    """
    known = [one.beside.by for one in rehearsed.values() if one.beside and (one.known or one.first.clouds)]
    return frozenset(file for file in known if not file.endswith(".tf"))


def _files(objects: Iterable[Obj] | Loaded) -> Callable[[Obj], str]:
    """Where a manifest lies; nothing of a cluster lies anywhere."""

    def file_of(obj: Obj) -> str:
        found = objects.find(obj) if isinstance(objects, Loaded) else None
        return found.file if found else ""

    return file_of


def _of_machines(
    alone: machines.Alone, objects: list[Obj], notes: Sequence[str], unknown: Sequence[Unknown]
) -> Discovery:
    """The kill path of machines, which has no part in Kubernetes."""
    path = alone.kill_path
    comments = {f"layers[{number}]": alone.evidence[layer.name] for number, layer in enumerate(path.layers)}
    covered = {name for layer in path.layers for name in layer.covers}
    uncovered = tuple(target.name for target in path.targets if target.name not in covered)
    comments["targets"] = "What holds GPUs and must be off. The commands are proposals: each counts what is on."
    said = tuple(dict.fromkeys([*notes, *alone.notes]))
    return Discovery(path, said, (), uncovered, comments, tuple(unknown), objects, alone.taken)


def _written_to(targets: Iterable[killpath.Target], layers: Iterable[killpath.Layer]) -> tuple[str, ...]:
    """Every namespace that a drill writes to: the targets', and those of what triggers a layer."""
    triggers = [ref.namespace for layer in layers for ref in _refs(layer) if ref.namespace]
    return tuple(dict.fromkeys([*(target.namespace for target in targets), *triggers]))


def _refs(layer: killpath.Layer) -> list[killpath.Ref]:
    held = [layer.sentinel.config_map, *layer.sentinel.start_jobs] if layer.sentinel else []
    return [ref for ref in (layer.ref, *held) if ref is not None]


def _known_by(seen: discover_layers.Found) -> dict[str, str]:
    """How each layer is known, for the spec's comments."""
    return {
        f"layers[{number}]": seen.evidence.get(layer.name, "read: what its commands and fields say; nothing was run")
        for number, layer in enumerate(seen.layers)
    }


def _ran_s(seen: discover_layers.Found, rehearsed: Mapping[str, Rehearsed]) -> list[float]:
    """How many seconds the programs of the layers took that were fired in a rehearsal and ended well."""
    refs = [f"{layer.ref.kind}/{layer.ref.namespace}/{layer.ref.name}" for layer in seen.layers if layer.ref]
    return [rehearsed[ref].first.seconds for ref in refs if ref in rehearsed and rehearsed[ref].first.exit_code == 0]


def _touched(
    targets: tuple[killpath.Target, ...],
    seen: discover_layers.Found,
    rehearsed: Mapping[str, Rehearsed],
) -> tuple[str, ...]:
    """The namespaces of the targets, and those in which a layer was seen to change something."""
    refs = {f"{layer.ref.kind}/{layer.ref.namespace}/{layer.ref.name}" for layer in seen.layers if layer.ref}
    changed = [
        call.namespace
        for ref in sorted(refs)
        if ref in rehearsed
        for call in rehearsed[ref].first.writes
        if call.namespace and not call.refused
    ]
    return tuple(dict.fromkeys([*(target.namespace for target in targets), *changed]))


def holders(objects: Iterable[Obj]) -> list[Holder]:
    """Every root workload among ``objects`` that asks for accelerators, DaemonSets and CronJobs excepted.

    A Job that a CronJob started is its own root: the Job is what can be stopped.
    """
    everything = list(objects)
    claims = gpus.claims_of(everything)
    patterns = templates_among(everything)
    by_uid = {uid_of(obj): obj for obj in everything if uid_of(obj)}
    roots: dict[tuple[str, str, str], Holder] = {}
    for obj in everything:
        devices = (
            0 if _is_over(obj) else (devices_of(obj, claims, wanted=True) or referenced_devices(obj, patterns, claims))
        )
        if not devices:
            continue
        root = root_of(obj, lambda owner, _: by_uid.get(str(owner.get("uid"))), stop_at=("CronJob", "Node"))
        if root.get("kind") in _NOT_TARGETS or gpus.is_daemon(obj):
            continue
        key = (str(root.get("kind")), namespace_of(root), _told_apart(root))
        known = roots.get(key)
        more = known.devices if known else 0
        roots[key] = Holder(root, max(devices, more) if name_of(root) else devices + more)
    return list(roots.values())


def _told_apart(root: Obj) -> str:
    """What tells an object from others of its kind: its name; where that is generated, the labels that select it.

    Those of the same labels are one target together.
    """
    return name_of(root) or (f"/{_selector(root)}" if labels_of(root) else f"//{id(root)}")


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
    labels = () if name_of(obj) else sorted(labels_of(obj).items())
    return ",".join(f"{key}={value}" for key, value in labels if is_requirement(key, value))


def _names(objects: list[Obj]) -> list[str]:
    """A name for each: its own, with its namespace, its kind and a number where that is not enough."""
    plain = [name_of(obj) or str(dig(obj, "metadata", "generateName", default="")).rstrip("-") for obj in objects]
    spaced = [f"{namespace_of(obj)}-{name}".strip("-") for obj, name in zip(objects, plain, strict=True)]
    full = [f"{obj.get('kind', '')}-{long}".lower() for obj, long in zip(objects, spaced, strict=True)]
    fitting = [
        short if plain.count(short) == 1 else (long if spaced.count(long) == 1 else longest)
        for short, long, longest in zip(plain, spaced, full, strict=True)
    ]
    used: set[str] = set()
    for at, name in enumerate(fitting):
        fitting[at] = next(one for one in chain([name], (f"{name}-{i}" for i in count(2))) if one not in used)
        used.add(fitting[at])
    return fitting


def _odd_holders(objects: list[Obj]) -> list[str]:
    """GPUs that are used without being asked for, and schedules that start GPU work."""
    notes = []
    for obj in objects:
        if obj.get("kind") == "DaemonSet" and devices_of(obj, wanted=True):
            notes.append(f"{ref_of(obj)} {how_it_holds(obj)}, and is no target: name it if it is to go off")
        if obj.get("kind") in STARTERS and devices_of(obj, wanted=True):
            notes.append(f"{ref_of(obj)} starts Jobs that hold GPUs: it can light them again after they went off")
        if obj.get("kind") == "DaemonSet" or dig(obj, "metadata", "ownerReferences"):
            continue
        for template in templates(obj):
            how = gpus.unaccounted(template.spec)
            if how:
                notes.append(f"{ref_of(obj)} may use GPUs that it does not ask for: {how}")
    return notes


def _nameless(every: Iterable[Holder]) -> list[str]:
    """Holders whose name is generated, and that no label tells from others."""
    nameless = [one.obj for one in every if not name_of(one.obj) and not labels_of(one.obj)]
    begun = [f"{obj.get('kind')} {dig(obj, 'metadata', 'generateName', default='')}..." for obj in nameless]
    lacks = "holds GPUs and has neither a name nor labels: give it a label, so that a target can select it"
    return [f"{who} {lacks}" for who in begun]


def _no_target(
    objects: list[Obj],
    notes: list[str],
    unknown: Sequence[Unknown],
    unseen: Sequence[Skipped],
) -> DiscoveryError:
    """Why there is no target; that nothing asks for a GPU is only said where nothing names one."""
    count: dict[str, int] = {}
    for obj in objects:
        if templates(obj):
            count[str(obj.get("kind"))] = count.get(str(obj.get("kind")), 0) + 1
    looked = ", ".join(f"{number} {kind}{'s' if number > 1 else ''}" for kind, number in sorted(count.items()))
    named = [one for one in unseen if one.names_gpus]
    patterns = [obj for obj in objects if obj.get("kind") in STARTERS | TEMPLATES and devices_of(obj, wanted=True)]
    daemons = [obj for obj in objects if obj.get("kind") == "DaemonSet" and devices_of(obj, wanted=True)]
    said = [
        *map(str, unknown),
        *(f"{ref_of(obj)} is a pattern for what asks for GPUs" for obj in patterns),
        *(f"{ref_of(obj)} {how_it_holds(obj)}: name it under targets: if it is to go off" for obj in daemons),
    ]
    if not said and not named:
        message = f"no target found: nothing here asks for a GPU (looked at {looked or 'no workload at all'})"
        notes = [*_first(list(machines.refused(objects))), *notes]
        capacity = [f"{ref_of(obj)} names GPUs: {where}" for obj in objects for where in _capacity(obj)]
        if capacity:
            message = (
                f"no target found: no workload here asks for a GPU (looked at {looked or 'none at all'}), and "
                f"{len(capacity)} object(s) name GPUs for workloads that are elsewhere; add those with --manifests"
            )
            notes = [*_first(capacity), *notes]
        if unseen:
            message = (
                f"no target found: nothing that could be read asks for a GPU (looked at "
                f"{looked or 'no workload'}); not everything could be read"
            )
        by_hand = (
            [BY_HAND] if any(one.cause is Cause.OUTSIDE for one in unseen) and not objects else [next_step(unseen)]
        )
        lines = "\n  ".join([message, *notes, *summed_up(unseen)])
        return DiscoveryError("\n".join([lines, *by_hand]), something=bool(unseen))
    where = [f"by {len(said)} object(s) that are not understood as holders"] if said else []
    where += [f"in {len(named)} file(s) or documents that were not read"] if named else []
    message = (
        f"no target found, and GPUs are named here: {', and '.join(where)} (looked at {looked or 'no workload at all'})"
    )
    twice = tuple(f"{ref_of(obj)} " for obj in daemons)
    notes = [note for note in notes if not note.startswith(twice)]
    last = next_step(named) if named else NAME_IT
    lines = "\n  ".join([message, *_first(said), *notes, *summed_up(named)])
    return DiscoveryError("\n".join([lines, last]), something=True)


def next_step(unseen: Sequence[Skipped]) -> str:
    """The one thing to do next: render a chart or kustomization, or mend a file; what names GPUs first."""
    first = sorted(unseen, key=lambda one: not one.names_gpus)
    rendered = [(one, found[0]) for one in first if (found := _RENDER.search(one.why))]
    if len(rendered) > 1 and not rendered[0][0].names_gpus:  # the first of them is as good as any: no guess
        return f"next: render what holds your GPUs (none of these {len(rendered)} names any) and give it to --manifests"
    if rendered:
        render = rendered[0][1]
        beside = "   (with its variables set)" if render.startswith("envsubst") else ""
        return f"next: {render} && killcheck drill --manifests rendered.yaml --exec host{beside}"
    broken = next((one for one in first if one.cause.is_fault), None)
    if broken and broken.cause is Cause.TEMPLATE:
        return f"next: render {broken.place}, and give what comes of it to killcheck drill --manifests"
    if broken:
        return f"next: mend {broken.place}"
    compose = next((one.file for one in first if one.names_gpus and _COMPOSE.search(one.file)), None)
    if compose:
        by_hand = "in a killcheck.yaml, for drills --on docker (docs/kind-and-docker.md)"
        return f"next: name the containers of {compose} {by_hand}"
    return "next: give --manifests the folder with your GPU workloads, or see how it works with killcheck demo"


def _capacity(obj: Obj) -> Iterator[str]:
    """Where an object that holds no GPU itself names some that others use: machines, quota, admitted work."""
    if is_capacity(str(obj.get("kind"))) or obj.get("kind") in _FOR_OTHERS:
        where = mention(obj)
        if where:
            yield where


def _first(said: Sequence[str]) -> list[str]:
    """The first few, and how many more there are."""
    more = len(said) - _NAMED
    return [*said[:_NAMED], *([f"and {more} more"] if more > 0 else ())]


def _nothing_fires(seen: discover_layers.Found) -> str:
    """What stands above an empty list of layers: what was looked at, and what to do next."""
    looked = "; ".join((*seen.misses, *seen.not_understood)) or "no CronJob, scaler or controller that acts on a target"
    return (
        f"What turns it off: none was found. Looked at: {looked}. Name here what turns the targets off "
        "(docs/layers.md), then run killcheck lint and killcheck drill with this file."
    )


def _no_layer(targets: tuple[killpath.Target, ...], seen: discover_layers.Found, unseen: Sequence[Skipped] = ()) -> str:
    """That nothing turns them off: plainly only where all was read, and nothing acts on anything."""
    names = ", ".join(str(target) for target in targets[:_NAMED])
    names += f", and {len(targets) - _NAMED} more" if len(targets) > _NAMED else ""
    nothing = "nothing that could be read" if unseen else "nothing here"
    if seen.not_understood or seen.misses:
        nothing = "nothing that is understood here"
    lines = [f"no layer found: {nothing} turns off what holds GPUs ({names})"]
    lines += [f"  {line}" for line in (*seen.misses, *seen.not_understood, *seen.notes)]
    return "\n".join(lines)


# -- a live cluster ------------------------------------------------------------------------------------------
def from_cluster(
    kube: Kube,
    name: str = "",
    rehearse: Callable[[list[Obj]], Mapping[str, Rehearsed]] | None = None,
) -> Discovery:
    """The kill path of a live cluster: one list for each kind, however many objects there are.

    ``rehearse`` is given what was listed; what it answers of programs goes before what is read of them.

    Raises DiscoveryError, and KubeError where what holds GPUs cannot be listed; where what might *help* cannot, it is
    ``not_understood``.
    """
    from killcheck.kube import listing

    listed = listing.read(kube)
    unread = [f"{kind}s could not be listed: {why}" for kind, why in listed.unread.items()]
    rehearsed = rehearse(listed.objects) if rehearse else None
    found = from_objects(listed.objects, name, rehearsed, complete=False, listed=listed.kinds)
    return replace(found, not_understood=(*found.not_understood, *unread))
