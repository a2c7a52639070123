"""``--on envtest``: a real control plane of this machine's binaries, with hollow nodes, thrown away after the run.

API server, controllers and scheduler are Kubernetes' own, in real time. Nodes are killcheck's kubelets, tended in a
thread beside the drill. What is loaded is what was named, or the kind cluster's reference kill path.
"""

from __future__ import annotations

import atexit
import json
import math
import threading
from collections.abc import Mapping, Sequence
from typing import ClassVar

from killcheck.capabilities.cluster import ClusterError
from killcheck.clock import WallLoop
from killcheck.cluster.binaries import ControlPlane
from killcheck.cluster.hollow_nodes import HollowNodes, Shape
from killcheck.cluster.kubeconfig import KubeconfigCluster
from killcheck.cluster.naming import ENVTEST
from killcheck.entries import Assumption
from killcheck.kube import gpus
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.config import connect
from killcheck.kube.errors import Conflict, KubeError, NotFound
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of, ref_of
from killcheck.safety.consent import LABEL

__all__ = ["EnvtestCluster"]

#: GPUs of a node, unless a pod wants more; and most nodes that are made.
GPUS, MOST = 8, 50
#: How long what is loaded may take to be there, seconds.
PATIENCE_S = 90.0
LOOK_S = 0.5
_FIRST = ("CustomResourceDefinition", "Namespace", "PriorityClass", "ServiceAccount", "ConfigMap", "Secret")


class _Place:
    """One control plane with what was loaded, for all drills of a run."""

    def __init__(self, objects: Sequence[Obj], pools: Sequence[Mapping[str, str]], home: str, exec_mode: str) -> None:
        self.plane = ControlPlane(ENVTEST)
        self.notes: list[Assumption] = []
        self._over = threading.Event()
        self._hollow: list[HollowNodes] = []
        self._tending = WallLoop()
        self._thread: threading.Thread | None = None
        atexit.register(self.close)
        self.plane.start()
        try:
            self._fill(objects, pools, home, exec_mode)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End everything; idempotent."""
        atexit.unregister(self.close)
        self._over.set()
        if self._thread is not None:
            self._tending.post(lambda: None)
            self._thread.join()
            self._thread = None
        for nodes in self._hollow:
            nodes.kubelets.stop()
        self._hollow.clear()
        self.plane.stop()

    # -- inside --------------------------------------------------------------------------------------------
    def _fill(self, objects: Sequence[Obj], pools: Sequence[Mapping[str, str]], home: str, exec_mode: str) -> None:
        loop = WallLoop()
        kube = connect(ENVTEST, kubeconfig=self.plane.kubeconfig, loop=loop)
        spaces = {home, *(namespace_of(obj) for obj in objects if namespace_of(obj))}
        given = {name_of(obj) for obj in objects if obj.get("kind") == "Namespace"}
        made = [_namespace(name) for name in sorted(spaces - given - {"default"})]
        for obj in sorted((*made, *map(copy, objects)), key=_order):
            self._create(kube, loop, obj)
        tends = connect(ENVTEST, kubeconfig=self.plane.kubeconfig, loop=self._tending)
        for shape in (Shape(1, 0, taints=()), *_shapes(objects, pools)):
            nodes = HollowNodes(tends, self._tending, shape, home=home, context=ENVTEST, exec_mode=exec_mode)
            nodes.up()
            self._hollow.append(nodes)
        self._thread = threading.Thread(target=self._tend, name="killcheck-envtest-nodes", daemon=True)
        self._thread.start()
        self._settle(kube, loop, objects)

    def _tend(self) -> None:
        self._tending.run_until(self._over.is_set)

    def _create(self, kube: Kube, loop: WallLoop, obj: Obj) -> None:
        if obj.get("kind") == "Namespace":
            labels = obj["metadata"].setdefault("labels", {})
            labels.setdefault(LABEL, "true")  # it is nobody's, and gone after the run
        until = loop.monotonic() + PATIENCE_S
        while True:
            try:
                resource = kube.resource_for(obj["apiVersion"], obj["kind"])
                kube.create(resource, obj, (namespace_of(obj) or "default") if resource.namespaced else None)
            except Conflict:
                return
            except NotFound as error:
                self.notes.append(Assumption(f"{ref_of(obj)} was not loaded: {error}", ref_of(obj)))
            except KubeError as error:
                if loop.monotonic() < until and "serviceaccount" in str(error):  # its controller is still making it
                    loop.sleep(LOOK_S)
                    continue
                raise ClusterError(f"--on envtest: {ref_of(obj)}: {error}") from error
            return

    def _settle(self, kube: Kube, loop: WallLoop, objects: Sequence[Obj]) -> None:
        """Until what holds GPUs is there, or :data:`PATIENCE_S` are over: the drill's steady state says what lacks."""
        wanted = [obj for obj in objects if obj.get("kind") == "Deployment" and dig(obj, "spec", "replicas", default=1)]
        until = loop.monotonic() + PATIENCE_S
        while wanted and loop.monotonic() < until:
            there = kube.find(r.DEPLOYMENTS, name_of(wanted[-1]), namespace_of(wanted[-1]) or "default")
            if there is None or dig(there, "status", "readyReplicas"):
                wanted.pop()
            else:
                loop.sleep(LOOK_S)


class EnvtestCluster(KubeconfigCluster):
    """The place of this run, started when it is first asked for. Raises ClusterError, KubeError."""

    _places: ClassVar[dict[str, _Place]] = {}

    def __init__(
        self, objects: Sequence[Obj], *, pools: Sequence[Mapping[str, str]], home: str, exec_mode: str = "none"
    ) -> None:
        key = json.dumps([objects, list(map(dict, pools)), home, exec_mode], sort_keys=True, default=str)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _Place(objects, pools, home, exec_mode)
        self.notes = place.notes
        super().__init__(ENVTEST, kubeconfig=place.plane.kubeconfig)

    def assumptions(self) -> Sequence[Assumption]:
        """As on any cluster with nodes that have no machine; and what was not loaded."""
        own = "the control plane is this machine's binaries, without a network plugin: there is nothing in it but this"
        return [*super().assumptions(), Assumption(own), *self.notes]

    @classmethod
    def end(cls) -> None:
        """End every place; what the end of the process does too."""
        for place in cls._places.values():
            place.close()
        cls._places.clear()


def _namespace(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _order(obj: Obj) -> int:
    kind = obj.get("kind", "")
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


def _shapes(objects: Sequence[Obj], pools: Sequence[Mapping[str, str]]) -> list[Shape]:
    """GPU nodes on which what is loaded fits: a shape for each way in which its templates choose nodes."""
    found: dict[str, tuple[dict[str, str], bool, int, int]] = {}
    for obj in objects:
        template = dig(obj, "spec", "template", "spec")
        each = sum(gpus.requests(template).values()) if isinstance(template, dict) else 0
        if not each or obj.get("kind") not in ("Deployment", "StatefulSet", "ReplicaSet", "Job"):
            continue
        labels = dict(dig(template, "nodeSelector", default={}))
        tolerant = any(one.get("key") == "nvidia.com/gpu" for one in template.get("tolerations") or ())
        count = int(dig(obj, "spec", "replicas", default=1) or 1)
        key = json.dumps([labels, tolerant], sort_keys=True)
        _, _, most, total = found.get(key, (labels, tolerant, GPUS, 0))
        found[key] = (labels, tolerant, max(most, each), total + each * count)
    taint = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
    shapes = []
    for labels, tolerant, size, total in found.values():
        pool = next((one for one in pools if all(labels.get(k, v) == v for k, v in one.items())), {})
        count = min(MOST, math.ceil(total / size))
        shapes.append(Shape(count, size, labels=labels | dict(pool), taints=(taint,) if tolerant else ()))
    return shapes
