"""Controllers of kinds that serve models: Knative's Service and KServe's InferenceService, from minimum to pods.

Only what turns them on and off, as their own controllers do it (August 2026):

- Knative Service (knative/serving pkg/reconciler: revision/resources/deploy.go, autoscaling/kpa/scaler.go):
  a Deployment for the revision of its template, never below ``min-scale`` (never below one in class ``hpa``), whoever
  scales it; made again where somebody deletes it. A minimum of zero is zero once nobody has asked for
  :data:`IDLE_S`: whether anybody still does is not known here, and told.
- InferenceService (kserve/kserve pkg/controller/v1beta1/inferenceservice/reconcilers): in the mode ``Standard``
  (``RawDeployment``) a Deployment of each component, made again where somebody deletes it. Its replicas are let alone,
  but with the autoscaler class ``none``; else a HorizontalPodAutoscaler keeps at least one, and leaves zero alone. In
  ``Knative`` (``Serverless``) a Knative Service with that minimum. ``serving.kserve.io/stop: "true"`` deletes both.

Left out: traffic between revisions, roll-outs, ServingRuntimes chosen by format, the class ``keda``, ModelMesh.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Key
from killcheck.embedded.models.groups import Groups
from killcheck.entries import Doubt
from killcheck.kube import resources as r
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    dig,
    labels_of,
    name_of,
    namespace_of,
    owners,
    ref_of,
    uid_of,
)
from killcheck.kube.resources import Resource
from killcheck.kube.workloads import is_stopped

__all__ = ["HASH", "IDLE_S", "InferenceServices", "KnativeInferenceServices", "KnativeServices", "Serving", "hash_of"]

_KNATIVE = Resource("serving.knative.dev", "v1", "services", "Service")
_INFERENCE = Resource("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService")
_RUNTIMES = (
    Resource("serving.kserve.io", "v1alpha1", "servingruntimes", "ServingRuntime"),
    Resource("serving.kserve.io", "v1alpha1", "clusterservingruntimes", "ClusterServingRuntime", False),
)
#: Without a request for so long, in seconds, a revision is scaled to zero: stable-window and grace period (defaults).
IDLE_S = 90.0
_AUTOSCALING = "autoscaling.knative.dev"
_MIN_SCALE = (f"{_AUTOSCALING}/min-scale", f"{_AUTOSCALING}/minScale")
_INITIAL_SCALE = (f"{_AUTOSCALING}/initial-scale", f"{_AUTOSCALING}/initialScale")
_MODE, _CLASS = (f"serving.kserve.io/{part}" for part in ("deploymentMode", "autoscalerClass"))
#: The modes of an InferenceService, by their names then and now.
_RAW, _SERVERLESS = frozenset({"RawDeployment", "Standard"}), frozenset({"Serverless", "Knative"})
#: Labels of what Knative makes, and what its revisions are told apart by here.
_SERVICE, _REVISION = "serving.knative.dev/service", "serving.knative.dev/revision"
HASH = "killcheck.dev/template-hash"
#: Fields of a revision's template that pods do not have.
_NOT_OF_PODS = frozenset(
    {"containerConcurrency", "timeoutSeconds", "responseStartTimeoutSeconds", "idleTimeoutSeconds"}
)
#: What an InferenceService serves with, and the fields of a pod's spec that each has beside its own.
_COMPONENTS = ("predictor", "transformer", "explainer")
_POD_FIELDS = frozenset(
    {"nodeSelector", "tolerations", "affinity", "serviceAccountName", "volumes", "imagePullSecrets", "schedulerName"}
    | {"priorityClassName", "runtimeClassName", "terminationGracePeriodSeconds", "hostNetwork", "resourceClaims"}
    | {"securityContext", "topologySpreadConstraints", "initContainers"}
)
_OF = "serving.kserve.io/inferenceservice"
#: Fields of a model that its container has.
_OF_MODELS = ("name", "image", "command", "args", "env", "resources")
_RUNTIME_IMAGE = "kserve/huggingfaceserver:latest"


@dataclass(eq=False, repr=False)
class Serving(Groups):
    """What the kinds have in common: replicas that somebody else scales, and what nobody here knows."""

    def doubt(self, about: Obj, said: str) -> None:
        """Note, once, what is not known of an object."""
        doubt = Doubt(ref_of(about), f"{ref_of(about)}: {said}")
        if doubt not in self.unproven:
            self.unproven.append(doubt)

    def owner_of(self, one: Obj) -> Obj:
        """Whose something is; itself where the owner is gone."""
        uids = {o.get("uid") for o in owners(one)}
        return next((obj for obj in self.objects.values() if uid_of(obj) in uids), one)

    def write(self, one: Obj, spec: Obj) -> None:
        """Change a part of the spec of what is there."""
        self.kube.patch(self.made, name_of(one), {"spec": spec}, namespace_of(one))

    def renew(self, one: Obj, wanted: Obj) -> None:
        """Another template, where what it was made of has changed."""
        made_of = annotations_of(wanted)[HASH]
        if annotations_of(one).get(HASH) != made_of:
            change = {"metadata": {"annotations": {HASH: made_of}}, "spec": {"template": wanted["spec"]["template"]}}
            self.kube.patch(self.made, name_of(one), change, namespace_of(one))


@dataclass(eq=False, repr=False)
class KnativeServices(Serving):
    """Knative Serving: its controller and its autoscaler."""

    name: ClassVar[str] = "knative-serving"
    own: ClassVar[Resource] = _KNATIVE
    made: ClassVar[Resource] = r.DEPLOYMENTS
    _since: dict[str, float] = field(default_factory=dict)

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """The Deployment of its newest revision: a change of its template makes another."""
        template = dig(obj, "spec", "template", default={})
        said: dict[str, str] = dig(template, "metadata", "annotations", default={})
        name = self._revision(obj, hash_of(template))
        labels = {"app": name, _SERVICE: name_of(obj), "serving.knative.dev/configuration": name_of(obj)}
        labels |= {**labels_of(template), **labels, _REVISION: name}
        pinned = next(
            (one["revisionName"] for one in dig(obj, "spec", "traffic", default=[]) if "revisionName" in one), ""
        )
        if pinned:
            self.doubt(obj, f"it sends requests to the revision {pinned}, and which pods that has is not modelled")
        pods = {key: value for key, value in dig(template, "spec", default={}).items() if key not in _NOT_OF_PODS}
        pods["containers"] = [{"name": "user-container", **one} for one in pods.get("containers") or ()]
        yield {
            "metadata": {"name": f"{name}-deployment", "labels": labels, "annotations": {HASH: hash_of(template)}},
            "spec": {
                "replicas": max(_least(said), _number(said, _INITIAL_SCALE, 1)),
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": labels, "annotations": said}, "spec": pods},
            },
        }

    def _revision(self, obj: Obj, made_of: str) -> str:
        for one in self.children.values():
            if self.owner_of(one) is obj and annotations_of(one).get(HASH) == made_of:
                return labels_of(one).get(_REVISION, "")
        return f"{name_of(obj)}-{int(dig(obj, 'metadata', 'generation', default=1)):05d}"

    def adjust(self, one: Obj, wanted: Obj) -> None:
        """Never below the minimum; at a minimum of zero, zero as soon as nobody asks."""
        least = _least(annotations_of(wanted["spec"]["template"]))
        now = int(dig(one, "spec", "replicas", default=1))
        if now < least:
            self.write(one, {"replicas": least})
        if least or not now:
            self._since.pop(uid_of(one), None)
            return
        left = IDLE_S - (self.loop.monotonic() - self._since.setdefault(uid_of(one), self.loop.monotonic()))
        if left > 0:
            self.queue.add((namespace_of(one), labels_of(one)[_SERVICE]), left)
            return
        self.doubt(self.owner_of(one), "it goes to zero when nobody asks for it, and whether anybody does is not known")
        self.write(one, {"replicas": 0})


class InferenceServices(Serving):
    """KServe's controller, in the mode Standard: Deployments."""

    name: ClassVar[str] = "kserve-controller-manager"
    own: ClassVar[Resource] = _INFERENCE
    made: ClassVar[Resource] = r.DEPLOYMENTS

    def setup(self) -> None:
        """Follow the runtimes as well."""
        super().setup()
        self.runtimes = [self.follow(resource, self._each, optional=True) for resource in _RUNTIMES]

    def _each(self, _change: Change, _old: Obj | None, _new: Obj) -> list[Key]:
        return [(namespace_of(obj), name_of(obj)) for obj in self.objects.values()]

    def hands_off(self, obj: Obj) -> bool:
        """One of another mode. One that says none is taken for this."""
        return _mode(obj) not in ("", *_RAW)

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """A Deployment of each component; none while it is stopped."""
        scaled = annotations_of(obj).get(_CLASS, "hpa")
        for component, section, least in _components(obj):
            name = f"{name_of(obj)}-{component}"
            labels = {**(section.get("labels") or {}), "app": f"isvc.{name}", "component": component, _OF: name_of(obj)}
            template = {"metadata": {"labels": labels}, "spec": _pods(section, self._runtime(obj, section))}
            yield {
                "metadata": {"name": name, "labels": labels, "annotations": {_CLASS: scaled, HASH: hash_of(template)}},
                "spec": {
                    "replicas": least if scaled == "none" else max(least, 1),
                    "selector": {"matchLabels": {"app": labels["app"]}},
                    "template": template,
                },
            }

    def _runtime(self, obj: Obj, section: Obj) -> Obj:
        """The container of the ServingRuntime that a component names; empty: it names none that is here."""
        name = str(dig(section, "model", "runtime", default=""))
        homes = (namespace_of(obj), "")
        found = (runtimes.get(name, home) for runtimes, home in zip(self.runtimes, homes, strict=True))
        return next((dig(one, "spec", "containers", 0, default={}) for one in found if one is not None), {})

    def adjust(self, one: Obj, wanted: Obj) -> None:
        """Replicas: of the class none as it says; of others at least that, and a zero is let alone."""
        now, asked = int(dig(one, "spec", "replicas", default=1)), int(wanted["spec"]["replicas"])
        scaled, owner = annotations_of(wanted)[_CLASS], self.owner_of(one)
        if now != asked and not _mode(owner):
            self.doubt(owner, f"no annotation {_MODE} says how it is deployed, and what scales it depends on that")
        if now != asked and scaled not in ("hpa", "none", "external"):
            self.doubt(owner, f"its autoscaler class {scaled} is not modelled")
        if now != asked and (scaled == "none" or (scaled != "external" and 0 < now < asked)):
            self.write(one, {"replicas": asked})
        self.renew(one, wanted)


class KnativeInferenceServices(Serving):
    """KServe's controller, in the mode Knative: Knative Services."""

    name: ClassVar[str] = "kserve-on-knative"
    own: ClassVar[Resource] = _INFERENCE
    made: ClassVar[Resource] = _KNATIVE

    def hands_off(self, obj: Obj) -> bool:
        """One of another mode, or of a mode that is not said."""
        return _mode(obj) not in _SERVERLESS

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """A Knative Service of each component; none while it is stopped."""
        for component, section, least in _components(obj):
            labels = {**(section.get("labels") or {}), "component": component, _OF: name_of(obj)}
            template = {
                "metadata": {"labels": labels, "annotations": {_MIN_SCALE[0]: str(least)}},
                "spec": _pods(section, {}),
            }
            meta = {"name": f"{name_of(obj)}-{component}", "labels": labels, "annotations": {HASH: hash_of(template)}}
            yield {"metadata": meta, "spec": {"template": template}}

    def adjust(self, one: Obj, wanted: Obj) -> None:
        """As it is wanted now."""
        self.renew(one, wanted)


# -- what they say -------------------------------------------------------------------------------------------
def _mode(obj: Obj) -> str:
    return annotations_of(obj).get(_MODE, "")


def _components(obj: Obj) -> Iterator[tuple[str, Obj, int]]:
    """(name, what it says, its minimum) of each component; none of one that is stopped."""
    if is_stopped(obj):
        return
    for component in _COMPONENTS:
        section = dig(obj, "spec", component)
        if isinstance(section, dict):
            least = section.get("minReplicas")
            yield component, section, 1 if least is None else int(least)


def _pods(section: Obj, runtime: Obj) -> Obj:
    """The pod of a component: its own fields, and a container for what it serves, as its runtime has it."""
    containers: list[Obj] = list(section.get("containers") or ())
    for value in section.values():
        if isinstance(value, dict) and not {"storageUri", "modelFormat", "storage", "runtime"}.isdisjoint(value):
            own = {part: value[part] for part in _OF_MODELS if part in value}
            containers.insert(0, {**{part: runtime[part] for part in _OF_MODELS if part in runtime}, **own})
    unnamed: Obj = {"name": "kserve-container", "image": _RUNTIME_IMAGE}
    named = [{**unnamed, **one} for one in containers]
    return {**{key: value for key, value in section.items() if key in _POD_FIELDS}, "containers": named}


def _least(said: Mapping[str, str]) -> int:
    """Below which number a revision is never scaled: a HorizontalPodAutoscaler's is one or more."""
    least = _number(said, _MIN_SCALE, 0)
    return max(least, 1) if str(said.get(f"{_AUTOSCALING}/class", "")).startswith("hpa.") else least


def _number(said: Mapping[str, str], keys: tuple[str, ...], default: int) -> int:
    given = next((said[key] for key in keys if key in said), "")
    return int(given) if str(given).isdecimal() else default


def hash_of(value: Obj) -> str:
    """By what a template is known to have changed."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
