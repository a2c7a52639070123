"""Before a drill on killcheck's own cluster: targets that sleep are woken, others that share nodes are put to bed.

On a cluster that is somebody's nothing of this happens: there, what is on is on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from killcheck.capabilities.cluster import Cluster
from killcheck.clock import wall_now
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, KubeError
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of
from killcheck.kube.workloads import STOP_MARKS, is_stopped
from killcheck.layers.scale_to_zero import ACTIVE, READING
from killcheck.ledger import left_on
from killcheck.spec.killpath import KillPath, Layer, LayerType, Target
from killcheck.watch.scene import Scene

__all__ = ["WOKEN_S", "namespaces_again", "put_to_bed", "wake"]

#: How long the first replicas may take to be asked for, in seconds: a few polls of a scaler.
WOKEN_S = 300.0
#: What says that a queue decides when a workload runs.
_QUEUED = "kueue.x-k8s.io/queue-name"


def wake(cluster: Cluster, scene: Scene, kill_path: KillPath, layer: Layer) -> Iterator[str]:
    """Put on what a layer covers and manifests leave at zero; says what was done."""
    if cluster.real:
        return
    for target in kill_path.covered_by(layer):
        if not target.kind or scene.replicas(target):
            continue
        for obj in scene.objects_of(target):
            said = _by_scaler(cluster, layer, target) or _by_hand(cluster, scene, target, obj)
            if said:
                yield f"{target} asks for no replicas in the manifests: {said} for this drill"


def _by_scaler(cluster: Cluster, layer: Layer, target: Target) -> str | None:
    """What scales to zero itself wakes it: its triggers read more than what activates it."""
    if layer.type is not LayerType.SCALE_TO_ZERO or layer.scaler is None:
        return None
    for scaled in cluster.kube.list(r.SCALEDOBJECTS, target.namespace).items:
        ref = dig(scaled, "spec", "scaleTargetRef", default={})
        if (ref.get("kind") or "Deployment", ref.get("name")) != (target.kind, target.object):
            continue
        if annotations_of(scaled).get(READING) in ("0", ""):  # without a word of it what is live counts as active
            body = {"metadata": {"annotations": {READING: ACTIVE}}}
            cluster.kube.patch(r.SCALEDOBJECTS, name_of(scaled), body, namespace_of(scaled))
        return f"woken by ScaledObject {name_of(scaled)}, whose triggers are taken to read work"
    return None


def _by_hand(cluster: Cluster, scene: Scene, target: Target, obj: Obj) -> str | None:
    spec: Obj = obj.get("spec") or {}
    change: Obj | None = None
    if spec.get("suspend") is True and _QUEUED not in labels_of(obj):
        change = {"spec": {"suspend": False}}
    elif (mark := STOP_MARKS.get(obj["kind"])) and is_stopped(obj):
        change = {"metadata": {"annotations": {mark: None}}}
    elif spec.get("replicas") == 0:
        change = {"spec": {"replicas": max(1, _least(cluster, target))}}
    if change is None:
        return None
    try:
        cluster.kube.patch(scene.resource_of(target), name_of(obj), change, namespace_of(obj))
    except ApiError:
        return None
    asked = dig(change, "spec", "replicas")
    return f"woken to {asked} replica(s)" if asked else "woken"


def _least(cluster: Cluster, target: Target) -> int:
    """The minimum of the HorizontalPodAutoscaler on a target."""
    for scaler in cluster.kube.list(r.HPAS, target.namespace).items:
        ref = dig(scaler, "spec", "scaleTargetRef", default={})
        if (ref.get("kind"), ref.get("name")) == (target.kind, target.object):
            return int(dig(scaler, "spec", "minReplicas", default=1))
    return 1


def put_to_bed(cluster: Cluster, scene: Scene, kill_path: KillPath, layer: Layer) -> Iterator[str]:
    """Scale down what a layer does not cover and what shares nodes with its targets; says what was done.

    Those nodes could never be seen to go otherwise, and they are that layer's to free all the same. What no layer turns
    off stays as it is: it keeps them on, unless a person says that it is meant to.
    """
    shared = scene.spared_nodes() & {pod.node for pod in scene.gpu_pods()}
    if cluster.real or not shared:
        return
    kept = {t.name for t in left_on.uncovered(kill_path) if not left_on.meant_to_stay(kill_path, t, wall_now().date())}
    for target in kill_path.targets:
        if target.name in {*layer.covers, *kept} or not target.kind:
            continue
        on = {str(dig(pod, "spec", "nodeName")) for pod in scene.pods.values() if scene.is_of(target, pod)}
        for obj in scene.objects_of(target) if on & shared else ():
            if not dig(obj, "spec", "replicas"):
                continue
            cluster.kube.patch(scene.resource_of(target), name_of(obj), {"spec": {"replicas": 0}}, namespace_of(obj))
            yield (
                f"{target} is off during this drill: it shares {', '.join(sorted(on & shared))} with what "
                f"{layer.name} turns off, and is not its own to turn off"
            )


def namespaces_again(cluster: Cluster, scene: Scene) -> None:
    """Make the namespaces again that a kill path deleted, with all that was in them: targets are to be put back there.

    What was deleted and is held by finalizers of controllers that are not here is let go, for the same reason. Never
    raises KubeError: what cannot be put back for want of one is the journal's to say.
    """
    for target in () if cluster.real else scene.kill_path.targets:
        for obj in scene.objects_of(target) if target.kind else ():
            if "deletionTimestamp" in obj["metadata"]:
                with suppress(KubeError):
                    _let_go(cluster, scene, target, obj)
    for name in () if cluster.real else scene.namespaces:
        try:
            _made_again(cluster, name)
        except KubeError:
            continue


def _let_go(cluster: Cluster, scene: Scene, target: Target, obj: Obj) -> None:
    """Take the finalizers off that nothing here takes off: the garbage collector's own are left to it."""
    held = dig(obj, "metadata", "finalizers", default=[])
    kept = [name for name in held if name in ("foregroundDeletion", "orphan")]
    if kept != held:
        change = {"metadata": {"finalizers": kept or None}}
        cluster.kube.patch(scene.resource_of(target), name_of(obj), change, namespace_of(obj))


def _made_again(cluster: Cluster, name: str) -> None:
    found = cluster.kube.find(r.NAMESPACES, name)
    if found is not None and "deletionTimestamp" in found["metadata"]:
        cluster.loop.run_until(lambda: cluster.kube.find(r.NAMESPACES, name) is None, WOKEN_S)
        found = cluster.kube.find(r.NAMESPACES, name)
    if found is None:
        cluster.kube.create(r.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
