"""NVIDIA's NIM operator, for NIMServices (``apps.nvidia.com``), from replicas to a Deployment.

Only what turns them on and off, as it does it (NVIDIA/k8s-nim-operator internal/controller/platform/standalone,
August 2026): a Deployment of the service's name, made again where it is deleted. Without ``scale.enabled`` its replicas
are put back to ``spec.replicas`` whoever scales it; where that is not given, they are left as they are. With it, a
HorizontalPodAutoscaler of that name, and the replicas are its own: a zero is left alone.

Left out: caches, profiles and claims that its pods read their models from. Told: services of several nodes
(LeaderWorkerSets) and on KServe, of which nothing is made here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Key
from killcheck.embedded.models.serving import HASH, Serving, hash_of
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of
from killcheck.kube.owner_references import controller_ref
from killcheck.kube.resources import Resource

__all__ = ["NimServices"]

_NIM_SERVICES = Resource("apps.nvidia.com", "v1alpha1", "nimservices", "NIMService")
#: Fields of the service that its pods have as they are.
_OF_PODS = ("nodeSelector", "tolerations", "affinity", "schedulerName", "runtimeClassName", "priorityClassName")
_OF_CONTAINERS = ("command", "args", "env", "resources")


class NimServices(Serving):
    """The NIM operator."""

    name: ClassVar[str] = "k8s-nim-operator"
    own: ClassVar[Resource] = _NIM_SERVICES
    made: ClassVar[Resource] = r.DEPLOYMENTS

    def setup(self) -> None:
        """Follow the autoscalers as well."""
        super().setup()
        self.scalers = self.follow(r.HPAS, self.owned_by(self.own.kind))

    def hands_off(self, obj: Obj) -> bool:
        """One of several nodes, or on KServe."""
        elsewhere = dig(obj, "spec", "inferencePlatform", default="standalone") != "standalone"
        apart = "multiNode" if dig(obj, "spec", "multiNode") else "inferencePlatform" if elsewhere else ""
        if apart:
            self.doubt(obj, f"spec.{apart} is not modelled")
        return bool(apart)

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """The Deployment."""
        spec = obj.get("spec") or {}
        labels = {**(spec.get("labels") or {}), "app": name_of(obj)}
        image = spec.get("image") or {}
        container = {part: spec[part] for part in _OF_CONTAINERS if part in spec}
        container |= {"name": f"{name_of(obj)}-ctr", "image": f"{image.get('repository')}:{image.get('tag')}"}
        pods = {part: spec[part] for part in _OF_PODS if spec.get(part)} | {"containers": [container]}
        replicas = dig(spec, "scale", "hpa", "minReplicas") if _is_scaled(obj) else spec.get("replicas")
        template = {"metadata": {"labels": labels, "annotations": spec.get("annotations") or {}}, "spec": pods}
        made: Obj = {"selector": {"matchLabels": {"app": name_of(obj)}}, "template": template}
        if replicas is not None:
            made["replicas"] = int(replicas)
        notes = {HASH: hash_of(template)} | ({_SCALED: "true"} if _is_scaled(obj) else {})
        yield {"metadata": {"name": name_of(obj), "labels": labels, "annotations": notes}, "spec": made}

    def adjust(self, one: Obj, wanted: Obj) -> None:
        """Its replicas, but where an autoscaler has them; its template, where the service says another."""
        self.renew(one, wanted)
        if _SCALED not in annotations_of(wanted):
            super().adjust(one, wanted)

    def reconcile(self, key: Key) -> None:
        """The Deployment, and the autoscaler beside it."""
        obj = self.objects.get(key[1], key[0])
        if obj is not None and "deletionTimestamp" not in obj["metadata"] and not self.hands_off(obj):
            self._scaler(obj)
        super().reconcile(key)

    def _scaler(self, obj: Obj) -> None:
        there = self.scalers.get(name_of(obj), namespace_of(obj))
        if there is not None and not _is_scaled(obj) and self.is_of(obj, there):
            try:
                self.kube.delete(r.HPAS, name_of(obj), namespace_of(obj))
            except NotFound:
                return
        said = dig(obj, "spec", "scale", "hpa", default={})
        spec = {part: said[part] for part in ("minReplicas", "maxReplicas", "metrics", "behavior") if part in said}
        spec["scaleTargetRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name_of(obj)}
        if there is not None and _is_scaled(obj):
            if any(dig(there, "spec", part) != value for part, value in spec.items() if part.endswith("Replicas")):
                self.kube.patch(r.HPAS, name_of(obj), {"spec": spec}, namespace_of(obj))
        elif _is_scaled(obj):
            meta: Obj = {"name": name_of(obj), "namespace": namespace_of(obj), "labels": dict(labels_of(obj))}
            meta["ownerReferences"] = [controller_ref(obj, self.own)]
            body = {"apiVersion": r.HPAS.api_version, "kind": r.HPAS.kind, "metadata": meta, "spec": spec}
            try:
                self.kube.create(r.HPAS, body)
            except Conflict:
                return


#: On a Deployment: an autoscaler has its replicas.
_SCALED = "killcheck.dev/scaled"


def _is_scaled(obj: Obj) -> bool:
    return dig(obj, "spec", "scale", "enabled", default=False) is True
