"""What the probes ask: objects by kind, the kill path, what executors do, where things were written, what was not read.

Built once from manifests or from a live listing; after that no probe goes near the network.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from killcheck import executor
from killcheck.discover import Holder, holders
from killcheck.discover.other_programs import Elsewhere, fired_elsewhere
from killcheck.discover.stopping import Stopping
from killcheck.executor import ApiCall, Reading
from killcheck.kube import gpus
from killcheck.kube.manifests import Loaded, Manifest
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of, owners
from killcheck.kube.permissions import Permissions
from killcheck.kube.selectors import from_match_labels, parse_labels
from killcheck.kube.workloads import PodTemplate, templates
from killcheck.spec.killpath import KillPath, Layer, LayerType, Target
from killcheck.text.yamlfile import Path

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Rehearsed

__all__ = ["SCALED", "Answers", "Executor", "World", "namespace_or_default", "owners_of", "selected"]

#: Kinds whose pods can be executors: scheduled ones, and controllers that watch.
_EXECUTORS = frozenset({"CronJob", "Deployment", "StatefulSet", "DaemonSet"})
#: Resources whose replicas a kill path sets.
SCALED = frozenset({"deployments", "statefulsets", "replicasets"})
_NODES = frozenset({"nodes", "nodeclaims", "nodepools"})


def namespace_or_default(obj: Obj) -> str:
    """Where a namespaced object lives; a manifest may leave ``default`` out."""
    return namespace_of(obj) or "default"


class Executor(Struct, frozen=True):
    """The pods of an object that change something. ``layer`` is None for one that turns no target off.

    ``path`` leads to its pod spec, ``text`` is all that its containers are told to run, scripts included.
    """

    owner: Obj
    path: Path
    template: PodTemplate
    reading: Reading
    text: str
    layer: Layer | None = None
    #: What a rehearsal saw of it; None: it was not rehearsed, or could not be run.
    seen: Rehearsed | None = None

    @property
    def spec(self) -> Obj:
        """Its pod spec."""
        return self.template.spec

    @property
    def namespace(self) -> str:
        """Where its pods run."""
        return namespace_or_default(self.owner)

    @property
    def account(self) -> str:
        """Its ServiceAccount."""
        return str(self.spec.get("serviceAccountName") or "default")

    @property
    def containers(self) -> list[tuple[Path, Obj]]:
        """Every container with its path, init containers first."""
        return [
            ((*self.path, kind, index), container)
            for kind in ("initContainers", "containers")
            for index, container in enumerate(dig(self.spec, kind, default=[]))
        ]


@dataclass(slots=True)
class Answers:
    """What the API server was asked, by :mod:`killcheck.probes.live`.

    ``reviews``: whether (namespace, ServiceAccount) may make a call; ``dry_runs``: why an executor's pod would be
    refused, empty where it would be made; ``injected``: the containers that admission adds to it; ``unanswered``: why
    something could not be asked; these three by the executor's owner. ``pull_secrets`` by namespace and name: read only
    where registries are to be asked, shown nowhere.
    """

    reviews: dict[tuple[str, str, ApiCall], bool] = field(default_factory=dict)
    dry_runs: dict[str, str] = field(default_factory=dict)
    injected: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unanswered: dict[str, str] = field(default_factory=dict)
    pull_secrets: dict[tuple[str, str], Obj] = field(default_factory=dict, repr=False)


class World(Struct, dict=True):
    """``live``: from a cluster, so what is absent does not exist. ``listed``: the kinds of which
    everything is here; ``unread``: why a kind could not be read. ``rehearsed``: programs that were fired once and
    watched, by their references.
    """

    objects: Sequence[Obj]
    kill_path: KillPath
    now: datetime
    loaded: Loaded | None = None
    live: bool = False
    unread: Mapping[str, str] = {}
    listed: frozenset[str] = frozenset()
    answers: Answers = msgspec.field(default_factory=Answers)
    rehearsed: Mapping[str, Rehearsed] = {}

    def __post_init__(self) -> None:
        self.asked: set[str] = set()  #: the kinds that somebody asked for
        self._by_kind: dict[str, list[Obj]] = defaultdict(list)
        self._by_key: dict[tuple[str, str, str], Obj] = {}
        for obj in self.objects:
            kind = str(obj.get("kind"))
            self._by_kind[kind].append(obj)
            self._by_key[kind, namespace_of(obj), name_of(obj)] = obj

    # -- objects -------------------------------------------------------------------------------------------
    def of(self, *kinds: str) -> Iterator[Obj]:
        """Every object of these kinds."""
        self.asked.update(kinds)
        for kind in kinds:
            yield from self._by_kind.get(kind, ())

    def find(self, kind: str, namespace: str, name: str) -> Obj | None:
        """One object; namespace ``default`` finds those that say none too."""
        self.asked.add(kind)
        found = self._by_key.get((kind, namespace, name))
        return found or (self._by_key.get((kind, "", name)) if namespace in ("", "default") else None)

    def in_namespace(self, kind: str, namespace: str) -> Iterator[Obj]:
        """Every object of a kind in a namespace."""
        return (obj for obj in self.of(kind) if namespace_or_default(obj) == namespace)

    def knows(self, kind: str) -> bool:
        """Whether what is not here of this kind does not exist."""
        return self.live and kind in self.listed

    @property
    def incomplete(self) -> bool:
        """Whether an object that is not here may be in manifests that were not read."""
        return self.loaded is not None and bool(self.loaded.unseen)

    @cached_property
    def _places(self) -> dict[tuple[str, str, str], Manifest]:
        manifests = self.loaded.manifests if self.loaded else ()
        return {(str(m.obj.get("kind")), namespace_of(m.obj), name_of(m.obj)): m for m in manifests}

    def place(self, obj: Obj, path: Path) -> tuple[str, int]:
        """(file, line) of a field; ('', 0) for what came from a cluster."""
        manifest = self._places.get((str(obj.get("kind")), namespace_of(obj), name_of(obj)))
        return (manifest.file, manifest.line_of(path)) if manifest else ("", 0)

    def place_within(self, obj: Obj, path: Path, number: int) -> tuple[str, int]:
        """(file, line) of line ``number`` of a text; ('', 0) for what came from a cluster."""
        manifest = self._places.get((str(obj.get("kind")), namespace_of(obj), name_of(obj)))
        return manifest.place_within(path, number) if manifest else ("", 0)

    # -- the kill path -------------------------------------------------------------------------------------
    @cached_property
    def holders(self) -> list[Holder]:
        """Every root workload that asks for GPUs."""
        return holders(self.objects)

    @cached_property
    def targets(self) -> list[tuple[Target, Obj]]:
        """The targets with their objects, those that are here."""
        return [(t, obj) for t in self.kill_path.targets for obj in self.objects_of(t)]

    def objects_of(self, target: Target) -> list[Obj]:
        """The objects that a target names."""
        if target.object:
            found = self.find(target.kind, target.namespace, target.object)
            return [found] if found else []
        if not target.selector:
            return []
        selector = parse_labels(target.selector)
        return [o for o in self.in_namespace(target.kind, target.namespace) if selector.matches(labels_of(o))]

    @cached_property
    def target_templates(self) -> list[tuple[Obj, PodTemplate]]:
        """(target, one of its pod templates) for every target that is here."""
        return [(obj, template) for _, obj in self.targets for template in templates(obj)]

    def may_call(self, one: Executor, call: ApiCall) -> bool:
        """Whether an executor's account is granted a call by the bindings that are here."""
        return self.permissions.allows(
            one.account,
            one.namespace,
            verb=call.verb,
            group=call.group,
            resource=call.resource,
            subresource=call.subresource,
            name=call.name,
            namespace=call.namespace,
            everywhere=call.everywhere,
        )

    @cached_property
    def schedules(self) -> list[tuple[Layer, Obj]]:
        """The CronJobs that are layers."""
        refs = ((layer, layer.cron_job) for layer in self.kill_path.layers if layer.cron_job)
        found = ((layer, self.find("CronJob", ref.namespace, ref.name)) for layer, ref in refs)
        return [(layer, obj) for layer, obj in found if obj is not None]

    def zeroes(self, target: Target) -> list[Layer]:
        """The layers other than a scaler's own that turn a target off."""
        return [
            layer
            for layer in self.kill_path.layers
            if target.name in layer.covers and layer.type is not LayerType.SCALE_TO_ZERO
        ]

    # -- executors -----------------------------------------------------------------------------------------
    @cached_property
    def config_maps(self) -> dict[tuple[str, str], Obj]:
        """ConfigMaps by (namespace, name)."""
        return {(namespace_or_default(o), name_of(o)): o for o in self.of("ConfigMap")}

    @property
    def permissions(self) -> Permissions:
        """What RBAC objects say."""
        self.asked |= {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
        return self._permissions

    @cached_property
    def _permissions(self) -> Permissions:
        return Permissions(self.objects)

    @cached_property
    def executors(self) -> list[Executor]:
        """Everything here whose pods change something, and whatever the kill path names as a layer."""
        found = []
        for obj in self.of(*sorted(_EXECUTORS)):
            layer = self._layer_of(obj)
            if owners_of(obj) and layer is None:
                continue
            made = self._executor(obj, layer)
            reading = made.reading if made else Reading()
            if made and (layer or reading.writes or reading.outside or reading.false_green):
                found.append(made)
        return found

    @property
    def layer_executors(self) -> list[Executor]:
        """Those that are layers of the kill path."""
        return [one for one in self.executors if one.layer is not None]

    @cached_property
    def fired_elsewhere(self) -> list[Elsewhere]:
        """Objects of other kinds of which a program turns targets off, or may: workflows, pipelines."""
        path, by_target = self.kill_path, {target.name: obj for target, obj in self.targets}
        named = [target for target in path.targets if target.name in by_target]
        stopping = Stopping(self.objects, named, by_target, self.permissions)
        return [one for one in fired_elsewhere(stopping, self.config_maps) if one.obj.get("kind") != "Job"]

    def _layer_of(self, obj: Obj) -> Layer | None:
        key = (str(obj.get("kind")), namespace_or_default(obj), name_of(obj))
        for layer in self.kill_path.layers:
            ref = layer.cron_job or layer.workload
            if ref and (ref.kind, ref.namespace, ref.name) == key:
                return layer
        return None

    @cached_property
    def _readings(self) -> dict[int, Reading]:
        """What was read of pods, by the objects that have them."""
        return {}

    def _executor(self, obj: Obj, layer: Layer | None) -> Executor | None:
        found = templates(obj)
        if not found or any(gpus.spec_devices(t.spec) for t in found):
            return None
        template = found[0]
        reading = self._readings.get(id(obj))
        if reading is None:
            reading = executor.read(template.spec, namespace_or_default(obj), self.config_maps)
            self._readings[id(obj)] = reading
        return Executor(obj, template.path, template, reading, self._text(obj, template.spec), layer, self.seen_of(obj))

    def seen_of(self, obj: Obj) -> Rehearsed | None:
        """What a rehearsal saw of a program; None: it was not rehearsed, or could not be run."""
        found = self.rehearsed.get(f"{obj.get('kind')}/{namespace_or_default(obj)}/{name_of(obj)}")
        return found if found is not None and found.known else None

    def why_not_rehearsed(self, obj: Obj) -> str | None:
        """Why a program that was to be rehearsed could not be; None: it was, or nobody wanted it to be."""
        found = self.rehearsed.get(f"{obj.get('kind')}/{namespace_or_default(obj)}/{name_of(obj)}")
        return None if found is None or found.known else found.why_unknown or "it could not be run here"

    @cached_property
    def watched(self) -> list[Executor]:
        """The programs that a rehearsal saw and that are asked what came of it: the layers; whatever asked for a
        holder of GPUs; and, where a target is turned off by nothing, who has the right to."""
        found = []
        for obj in self.of("CronJob", "Job", "Deployment", "StatefulSet", "DaemonSet"):
            seen, layer = self.seen_of(obj), self._layer_of(obj)
            made = self._executor(obj, layer) if seen is not None else None
            if (
                made is not None
                and seen is not None
                and (layer or self._concerns(seen) or self._drains(made) or self._could(made))
                and (layer or not self._lifts(made))
            ):
                found.append(made)
        return found

    @staticmethod
    def _lifts(one: Executor) -> bool:
        """Whether all that it writes is read to take something away again, a pause or a hold: a morning's starter."""
        written = one.reading.writes
        return bool(written) and all(call.removes for call in written)

    def _concerns(self, seen: Rehearsed) -> bool:
        """Whether it wanted to change something that holds GPUs, or something of such a name or kind beside it."""
        names = {name_of(holder.obj) for holder in self.holders}
        spaces = {holder.namespace for holder in self.holders}
        wanted = [call for call in seen.first.calls if (call.writes or call.refused) and not call.replicas]
        return any(
            call.name in names or (call.namespace in spaces and call.resource in SCALED) for call in wanted
        ) and not any((call.replicas or 0) > 0 and not call.refused for call in seen.first.writes)

    @staticmethod
    def _drains(one: Executor) -> bool:
        """Whether it takes nodes away, and was refused something on the way there."""
        ends = any(call.resource in _NODES or call.subresource == "eviction" for call in one.reading.writes)
        return ends and one.seen is not None and any(call.resource in _NODES for call in one.seen.first.refused)

    def _could(self, one: Executor) -> bool:
        covered = {name for layer in self.kill_path.layers for name in layer.covers}
        return any(
            target.name not in covered
            and self.permissions.allows(
                one.account,
                one.namespace,
                verb="patch",
                group=target.api_version.rpartition("/")[0],
                resource=target.kind.lower() + "s",
                subresource="scale",
                name=target.object,
                namespace=target.namespace,
            )
            for target, _ in self.targets
        )

    def _text(self, obj: Obj, spec: Obj) -> str:
        """All that the containers are told to run."""
        words = [
            str(word)
            for kind in ("initContainers", "containers")
            for container in dig(spec, kind, default=[])
            for part in ("command", "args")
            for word in container.get(part) or ()
        ]
        for volume in spec.get("volumes") or ():
            for source in (volume, *dig(volume, "projected", "sources", default=[])):
                name = dig(source, "configMap", "name")
                found = self.config_maps.get((namespace_or_default(obj), str(name))) if name else None
                words += [str(text) for text in dig(found, "data", default={}).values()] if found else []
        return "\n".join(words)

    # -- nodes ---------------------------------------------------------------------------------------------
    @cached_property
    def gpu_pools(self) -> list[Obj]:
        """The Karpenter NodePools of the kill path."""
        named = {pool.node_pool for pool in self.kill_path.nodes if pool.node_pool}
        return [pool for pool in self.of("NodePool") if name_of(pool) in named]

    @cached_property
    def gpu_nodes(self) -> list[Obj]:
        """Nodes that have GPUs."""
        return [node for node in self.of("Node") if gpus.node_devices(node)]


def owners_of(obj: Obj) -> list[Obj]:
    """Who owns an object."""
    return list(owners(obj))


def selected(selector: Obj | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector object (empty: everything) matches labels."""
    return from_match_labels(selector or {}).matches(labels)
