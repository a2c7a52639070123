"""The steady state of a drill: what must be so before it, what is remembered of it, and what must be so again after it.

What may *not* live here: anything that a drill does to a target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from killcheck.capabilities.cluster import Cluster
from killcheck.kube import gpus
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, annotations_of, dig, key_of, name_of, ref_of, uid_of
from killcheck.kube.resources import Resource
from killcheck.kube.workloads import STOP_MARKS, has_ended, is_stopped
from killcheck.machine.programs import again, count_again
from killcheck.safety.foreseen import going_s
from killcheck.safety.guard import writable
from killcheck.safety.journal import Journal, Undo
from killcheck.safety.undo import ANY_TEXT, recreatable
from killcheck.spec.killpath import KillPath, Layer, Proof, Target
from killcheck.watch import queues, wholeness
from killcheck.watch.cost import USD_PER_HOUR
from killcheck.watch.scene import Scene

__all__ = [
    "asked_for",
    "instances",
    "never_again",
    "nothing_on",
    "remember",
    "resources",
    "steady",
    "switch_on",
    "unsteady",
]

#: How long the first answers of the count commands are waited for, in seconds.
FIRST_COUNT_S = 90.0
#: Kinds that are turned off by their ``spec.suspend``.
_SUSPENDED = ("Job", "JobSet", "RayCluster", "RayJob", "TrainJob")


def nothing_on(scene: Scene, kill_path: KillPath, layer: Layer) -> str | None:
    """Why there is nothing to turn off, where that is plain at once; None: there is, or may be."""
    covered = [t for t in kill_path.covered_by(layer) if t.kind]
    waiting = any(queues.awaits_admission(obj) for t in covered for obj in scene.objects_of(t))
    if covered and not waiting and not any(scene.replicas(t) for t in covered) and not scene.gpu_pods():
        return (
            "nothing to turn off: "
            + ", ".join(f"{t} asks for no replicas" for t in covered)
            + " and no GPU pod is there"
        )
    census = scene.census
    if not census.targets:
        return None
    scene.cluster.loop.run_until(lambda: census.broken() is None, FIRST_COUNT_S)
    error = census.broken()
    if error is not None:
        return f"no steady state to begin with: what is on is not known: {error}"
    off = [t for t in census.targets if not census.on(t)]
    if off and (scene.cluster.real or any(t.start is None for t in off)):
        return (
            "nothing to turn off: "
            + ", ".join(f"{census.counts[t.name].command} counts 0 of {t.name}" for t in off)
            + " (start it first)"
        )
    return None


def switch_on(cluster: Cluster, scene: Scene, layer: Layer) -> Iterator[str]:
    """On a cluster that is killcheck's own, what is outside Kubernetes and off is put on first; says what was done."""
    census = scene.census
    for target in [t for t in census.targets if not census.on(t)]:
        assert target.start is not None
        assert census.programs is not None
        assert not cluster.real
        ran = census.programs.run(target.start)
        census.again()
        yield f"{target.name} was put on for this drill of {layer.name}: {ran.told}"


def steady(scene: Scene, kill_path: KillPath, layer: Layer, *, healed: bool = False) -> Callable[[], bool]:
    """Whether all is as it should be before a drill, to be waited for; see :func:`unsteady`."""
    return scene.when_changed(lambda: not unsteady(scene, kill_path, layer, healed=healed, why=False))


def never_again(scene: Scene, kill_path: KillPath, layer: Layer) -> bool:
    """Whether a target on a real cluster is waited for in vain: it ended by itself, as Jobs do, or went with its
    namespace.
    """
    found = [(t, scene.objects_of(t)) for t in kill_path.covered_by(layer) if t.kind]
    return scene.cluster.real and any(
        all(map(has_ended, objects)) if objects else _without_namespace(scene, target) for target, objects in found
    )


def _without_namespace(scene: Scene, target: Target) -> bool:
    try:
        return bool(target.namespace) and scene.cluster.kube.find(r.NAMESPACES, target.namespace) is None
    except KubeError:
        return False


def unsteady(scene: Scene, kill_path: KillPath, layer: Layer, *, healed: bool = False, why: bool = True) -> str | None:
    """What is not as it should be before a drill; None: all is steady.

    ``healed``: after it; what is outside Kubernetes and has no ``start`` stays off. ``why``: with the pods' own reason,
    which takes longer to find than that there is one.
    """
    error = scene.broken()
    if error is not None:
        return f"what is on is not known: {error}" if error is scene.census.broken() else f"the watch is down: {error}"
    for target in scene.census.targets:
        if not scene.census.on(target) and not (healed and target.start is None):
            return f"{scene.census.counts[target.name].command} counts 0 of {target.name}: nothing to turn off"
    if not any(t.kind for t in kill_path.covered_by(layer)):
        return None
    return _unsteady_inside(scene, kill_path, layer, why=why)


def _unsteady_inside(scene: Scene, kill_path: KillPath, layer: Layer, *, why: bool) -> str | None:
    for target in kill_path.covered_by(layer):
        if target.kind:
            lacking = wholeness.lack(scene, target, why=why)
            if lacking:
                return lacking
    pods = scene.gpu_pods()
    if not pods:
        return "no GPU pod is running in scope"
    moving = [str(p) for p in pods if p.terminating]
    if moving:
        return f"{', '.join(moving)}: something else is under way"
    for held in pods:
        pod = scene.pods.get(held.name, held.namespace)
        if pod is None or dig(pod, "status", "phase") != "Running":
            return f"GPU pod {held} is not running yet"
    if not scene.pool_nodes() and Proof.P2 in kill_path.proof:
        return "no node of the GPU pools is there (does the spec's nodes: selector match?)"
    if Proof.P2 in kill_path.proof:
        strangers = [f"{p} on {p.node}" for p in pods if p.node not in scene.known_nodes]
        if strangers:  # nobody would see whether these nodes go
            return f"of no pool in the spec's nodes: is the node of {', '.join(strangers)}"
    leaving = [name_of(n) for n in scene.pool_nodes() if "deletionTimestamp" in n["metadata"]]
    return f"node(s) {', '.join(leaving)} are being removed already" if leaving else None


def asked_for(scene: Scene, kill_path: KillPath, layer: Layer) -> dict[str, int]:
    """How much of each target that a layer covers is on: replicas asked for, instances counted."""
    found = {t.name: scene.replicas(t) for t in kill_path.covered_by(layer) if t.kind}
    return found | {t.name: scene.census.on(t) for t in scene.census.targets}


def instances(scene: Scene) -> list[Obj]:
    """What is counted outside Kubernetes as the meter knows it: a stand-in for a node, one for each that is on."""
    found: list[Obj] = []
    for t in scene.census.targets:
        listed = scene.census.counts[t.name].machines if scene.census.on(t) else ()
        found += [_as_node(f"{t.name}-{one.id}", one.type or t.instance_type, one.usd_per_hour) for one in listed]
        found += [_as_node(f"{t.name}-{i}", t.instance_type) for i in range(scene.census.on(t) - len(listed))]
    return found


def _as_node(name: str, instance_type: str, usd_per_hour: float | None = None) -> Obj:
    said = {} if usd_per_hour is None else {"annotations": {USD_PER_HOUR: repr(usd_per_hour)}}
    return {"metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": instance_type}, **said}}


# -- remembering -------------------------------------------------------------------------------------------
def remember(
    scene: Scene,
    journal: Journal,
    target: Target,
    deleted: Callable[[Resource, Obj], bool] = lambda _resource, _obj: False,
) -> None:
    """Write down how to put a target back on, before anything can turn it off. Raises JournalError, KubeError.

    ``deleted``: whether a layer may delete it, and it may be created again. What is in a namespace that nobody named is
    left as the kill path leaves it, and told as that (:mod:`killcheck.safety.accounting`).
    """
    if target.kind:
        for obj in scene.objects_of(target):
            if writable(scene.cluster.kube, scene.resource_of(target), obj):
                _remember_object(scene, journal, target, obj, deleted)
    elif target.count is not None and target.start is not None and target in scene.census.targets:
        number = scene.census.meant.get(target.name, scene.census.on(target))
        body = [count_again(target), number, again(target.start), scene.kill_path.folder]
        undo = Undo("call", "put_back", body, manual=str(target.start))
        with journal.change(f"{target.name} was on ({number})", undo, lever="programs"):
            pass


def _remember_object(
    scene: Scene,
    journal: Journal,
    target: Target,
    obj: Obj,
    deleted: Callable[[Resource, Obj], bool],
) -> None:
    if scene.cluster.keeper is not None:
        scene.cluster.keeper.remember(journal, obj)
        return
    resource = scene.resource_of(target)
    namespace, name = key_of(obj)
    replicas = dig(obj, "spec", "replicas")
    again = obj["kind"] != "Job" and (not scene.cluster.real or deleted(resource, obj))
    if again:  # undone after what follows: what was deleted is made again as it was
        _remember_whole(journal, resource, obj)
    if replicas is not None:
        what = f"{ref_of(obj)} was on ({replicas} replica(s))"
        manual = f"kubectl scale {resource.qualified} {name} -n {namespace} --replicas={replicas}"
        # Where the cluster is killcheck's own, a scaler that woke it to another number is part of the drill.
        left: Obj = {"spec": {"replicas": 0}} if scene.cluster.real else {"spec": {}}
        back: Obj = {"spec": {"replicas": replicas}}
        journal.remember(resource, obj, back, left, what=what, manual=manual, transient=again)
    if replicas is None and obj["kind"] == "Job":
        queues.remember(scene.cluster.kube, journal, obj)
        _remember_whole(journal, resource, obj)
    # A Job that was deleted instead is made again as it was. Of one that was suspended already nothing is to be undone.
    was = dig(obj, "spec", "suspend")
    if replicas is None and obj["kind"] in _SUSPENDED and not was and not queues.queue_of(obj):
        journal.remember(
            resource,
            obj,
            {"spec": {"suspend": was}},
            {"spec": {"suspend": True}},
            what=f"{ref_of(obj)} was not suspended",
            manual=f"take spec.suspend off {ref_of(obj)}",
            transient=again or obj["kind"] == "Job",
        )
    if (mark := STOP_MARKS.get(obj["kind"])) and not is_stopped(obj):
        journal.remember(
            resource,
            obj,
            {"metadata": {"annotations": {mark: annotations_of(obj).get(mark)}}},
            {"metadata": {"annotations": {mark: ANY_TEXT}}},
            what=f"{ref_of(obj)} was not stopped",
            manual=f"kubectl annotate {resource.qualified} {name} -n {namespace} {mark}-",
            transient=again,
        )


def _remember_whole(journal: Journal, resource: Resource, obj: Obj) -> None:
    """Write down the object itself: where it is gone it is created again."""
    namespace, name = key_of(obj)
    manual = f"create {obj['kind']} {namespace}/{name} again"
    with journal.change(
        f"{ref_of(obj)} was on",
        Undo("create", resource.path(namespace), recreatable(obj), manual=manual, ends_s=going_s(obj)),
    ):
        pass


def resources(scene: Scene) -> list[str]:
    """The extended resources that its GPU pods ask for."""
    held = {pod.uid for pod in scene.gpu_pods()}
    pods = (obj for obj in scene.pods.values() if uid_of(obj) in held)
    return sorted({name for obj in pods for name in gpus.requests(obj.get("spec") or {})})
