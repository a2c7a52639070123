"""What a drill's verdict is about: the targets that its layer covers, what scales them, and their node pools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from killcheck.executor import ApiCall, Reading, read
from killcheck.kube import resources as r
from killcheck.kube.container_logs import given_to
from killcheck.kube.gpus import spec_devices
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.permissions import Permissions
from killcheck.kube.selectors import SelectorError, parse_labels
from killcheck.kube.workloads import PodTemplate, templates
from killcheck.spec.killpath import KillPath, Layer, Ref, Target

#: Resources whose objects are work that is under way, and what is told of it.
_AT_WORK = frozenset(
    {"pods", "events", "deployments", "statefulsets", "daemonsets", "replicasets", "jobs", "cronjobs", "endpoints"}
)
#: Groups of questions that the API server answers, and keeps no object of.
_ANSWERS = frozenset({"authorization.k8s.io", "authentication.k8s.io"})

__all__ = ["Held", "Stakes", "group_of", "home_of", "plural_of", "scaled_by"]


def home_of(obj: Obj) -> str:
    """The namespace that a namespaced object lives in; a manifest may leave ``default`` out."""
    return namespace_of(obj) or "default"


def group_of(obj: Obj) -> str:
    """The API group of an object; empty for the core group."""
    return str(obj.get("apiVersion", "")).rpartition("/")[0]


def plural_of(api_version: str, kind: str) -> str:
    """The resource name of a kind: as the API has it where it is known here, else by the rules of English."""
    known = r.by_kind(api_version, kind)
    if known is not None:
        return known.plural
    lower = kind.lower()
    if lower.endswith(("s", "x", "ch", "sh")):
        return lower + "es"
    return lower[:-1] + "ies" if lower.endswith("y") else lower + "s"


class Held(Struct, frozen=True):
    """One object that must go off. ``obj`` is None where it is not among what is known."""

    api_version: str
    kind: str
    namespace: str
    name: str
    obj: Obj | None = None

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def group(self) -> str:
        """Its API group."""
        return self.api_version.rpartition("/")[0]

    @property
    def plural(self) -> str:
        """Its resource's name."""
        return plural_of(self.api_version, self.kind)

    @property
    def labels(self) -> list[Mapping[str, str]]:
        """Its own labels, and those of its pods."""
        if self.obj is None:
            return []
        return [labels_of(self.obj), *(dict(t.metadata.get("labels") or {}) for t in templates(self.obj))]


class Stakes:
    """``objects`` is everything known; ``layer`` the one whose trigger is pulled.

    ``by``: the one that turned the targets off; None: that one did.
    """

    def __init__(self, objects: Sequence[Obj], kill_path: KillPath, layer: Layer, by: Layer | None = None) -> None:
        self.objects = objects
        self.kill_path = kill_path
        self.layer = layer
        self.targets = [held for target in kill_path.covered_by(layer) for held in self._held(target)]
        self.namespaces = {held.namespace for held in self.targets}
        self.pools: set[str] = {pool.node_pool for pool in kill_path.nodes if pool.node_pool}
        #: What turns the targets off: the objects that these layers name.
        named = (ref for one in (layer, by or layer) for ref in (one.cron_job, one.workload) if ref is not None)
        self.switches: tuple[Ref, ...] = tuple(dict.fromkeys(named))
        #: The scalers that are layers themselves, as ``Kind/namespace/name``.
        self.scaling = {str(one.scaler) for one in (layer, by or layer) if one.scaler is not None}
        #: What an account may write, by (account, namespace): asked for each of its workloads.
        self.written: dict[tuple[str, str], str | None] = {}

    def about(self, held: Held) -> Stakes:
        """The same with another object in the targets' place, and nothing that turns it off."""
        other = Stakes(self.objects, self.kill_path, self.layer)
        other.targets, other.namespaces, other.pools, other.switches = [held], {held.namespace}, set(), ()
        return other

    def _held(self, target: Target) -> Iterator[Held]:
        if not target.kind:
            return
        found = [
            obj
            for obj in self.objects
            if obj.get("kind") == target.kind and home_of(obj) == target.namespace and self._named(target, obj)
        ]
        if target.object and not found:
            yield Held(target.api_version, target.kind, target.namespace, target.object)
        for obj in found:
            yield Held(str(obj.get("apiVersion")), target.kind, target.namespace, name_of(obj), obj)

    @staticmethod
    def _named(target: Target, obj: Obj) -> bool:
        if target.object:
            return name_of(obj) == target.object
        try:
            return parse_labels(target.selector).matches(labels_of(obj))
        except SelectorError:
            return True

    @cached_property
    def permissions(self) -> Permissions:
        """Who may do what, with the roles that every cluster has."""
        from killcheck.embedded import roles

        return Permissions([*roles(), *self.objects])

    @cached_property
    def words(self) -> re.Pattern[str]:
        """The names of the targets and of their namespaces, as words of a text."""
        names = sorted({*(held.name for held in self.targets), *self.namespaces} - {""}, key=len, reverse=True)
        return re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, names)) or '(?!)'})(?![\w-])")

    @cached_property
    def config_maps(self) -> dict[tuple[str, str], Obj]:
        """ConfigMaps by (namespace, name)."""
        return {(home_of(o), name_of(o)): o for o in self.objects if o.get("kind") == "ConfigMap"}

    @cached_property
    def pod_templates(self) -> set[tuple[str, str]]:
        """(namespace, name) of the PodTemplates whose pods ask for GPUs: what names one may make them, or hold room."""
        found = (obj for obj in self.objects if obj.get("kind") == "PodTemplate" and group_of(obj) == "")
        return {(home_of(obj), name_of(obj)) for obj in found if spec_devices(dig(obj, "template", "spec", default={}))}

    @cached_property
    def accounts(self) -> dict[tuple[str, str], Obj]:
        """ServiceAccounts by (namespace, name)."""
        return {(home_of(o), name_of(o)): o for o in self.objects if o.get("kind") == "ServiceAccount"}

    @cached_property
    def read_by_switches(self) -> set[tuple[str, str, str]]:
        """(resource, namespace, name) of the ConfigMaps and Secrets that the switches' programs are given."""
        return {
            (resource.plural, home_of(obj), name)
            for obj in self.switching()
            for template in templates(obj)
            for resource, name in given_to({"spec": {**template.spec, "imagePullSecrets": []}})
        }

    @cached_property
    def leaned_on(self) -> list[ApiCall]:
        """What the switches' programs are read to ask of the API, and to write: whoever writes it may keep them off.

        Not pods and what makes them: targets are asked for by themselves, and what becomes of others says nothing.
        Nor nodes that are only looked at: all that runs on them writes them.
        """
        readings = (self.reading(obj, template) for obj in self.switching() for template in templates(obj))
        own = {(held.group, held.plural) for held in self.targets}
        own |= {(group_of(o), plural_of(str(o.get("apiVersion")), str(o.get("kind")))) for o in self.scalers}
        return [
            call
            for one in readings
            for call in one.calls
            if call.resource not in _AT_WORK and call.group not in _ANSWERS and (call.group, call.resource) not in own
            if call.writes or call.resource != "nodes"
        ]

    @cached_property
    def written_by_switches(self) -> list[ApiCall]:
        """What the switches' programs are read to write."""
        readings = (self.reading(obj, template) for obj in self.switching() for template in templates(obj))
        return [call for one in readings for call in one.writes]

    def run_as(self, namespace: str, account: str) -> list[Obj]:
        """The workloads of the manifests whose pods run as an account."""
        return self._by_account.get((namespace, account), [])

    @cached_property
    def _by_account(self) -> dict[tuple[str, str], list[Obj]]:
        found: dict[tuple[str, str], list[Obj]] = {}
        for obj in self.objects:
            for template in templates(obj):
                account = str(template.spec.get("serviceAccountName") or "default")
                found.setdefault((home_of(obj), account), []).append(obj)
        return found

    def switching(self) -> Iterator[Obj]:
        """The switches' objects, as far as they are known."""
        named = {(ref.kind, ref.namespace, ref.name) for ref in self.switches}
        yield from (o for o in self.objects if (str(o.get("kind")), home_of(o), name_of(o)) in named)

    @cached_property
    def scalers(self) -> list[Obj]:
        """What scales a target: ScaledObjects, HTTPScaledObjects, HPAs."""
        return [obj for obj in self.objects if scaled_by(obj) and any(self.scales(obj, held) for held in self.targets)]

    @cached_property
    def queues(self) -> list[Obj]:
        """Kueue's queues, one of which may hold a target: whoever lets them go lets it on."""
        held = any("kueue.x-k8s.io/queue-name" in labels for target in self.targets for labels in target.labels)
        return [o for o in self.objects if held and o.get("kind") in ("ClusterQueue", "LocalQueue")]

    def scales(self, scaler: Obj, held: Held) -> bool:
        """Whether a scaler's ``scaleTargetRef`` names a target."""
        kind, name = scaled_by(scaler) or ("", "")
        return home_of(scaler) == held.namespace and name == held.name and kind in (held.kind, "")

    def namespace(self, name: str) -> Obj:
        """A Namespace by name, as every cluster labels it where it is not known."""
        found = next((o for o in self.objects if o.get("kind") == "Namespace" and name_of(o) == name), None)
        return found or {"kind": "Namespace", "metadata": {"name": name}}

    def only_scales(self, held: Held) -> bool:
        """Whether all that the switches write to a target is its scale, as far as every one of them could be read."""
        readings = [self.reading(obj, template) for obj in self.switching() for template in templates(obj)]
        writes = [
            call for one in readings for call in one.writes if (call.group, call.resource) == (held.group, held.plural)
        ]
        understood = not any(one.not_understood or one.outside for one in readings)
        return understood and bool(writes) and all(call.subresource == "scale" for call in writes)

    def reading(self, obj: Obj, template: PodTemplate) -> Reading:
        """What the program of a pod template asks of the API, as far as it can be read."""
        return read(template.spec, home_of(obj), self.config_maps)

    def is_target(self, obj: Obj) -> Held | None:
        """The target that an object is."""
        return next(
            (
                held
                for held in self.targets
                if (held.kind, held.namespace, held.name) == (obj.get("kind"), home_of(obj), name_of(obj))
            ),
            None,
        )


#: Scalers by kind, and the kind that they scale where they do not say.
_SCALERS = {"ScaledObject": "Deployment", "HTTPScaledObject": "Deployment", "HorizontalPodAutoscaler": ""}


def scaled_by(obj: Obj) -> tuple[str, str] | None:
    """(kind, name) of what a scaler scales; None for what is no scaler."""
    kind = str(obj.get("kind"))
    if kind not in _SCALERS:
        return None
    ref = dig(obj, "spec", "scaleTargetRef", default={})
    name = ref.get("name") or ref.get("deployment") or ""
    return str(ref.get("kind") or _SCALERS[kind]), str(name)
