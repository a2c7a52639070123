"""Whether all of a target is on, and where it is not, the pods' own reason and what to add.

A target that never had a pod proves nothing, and one of its pods on is not all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from killcheck.kube.objects import Obj, condition, dig, name_of, namespace_of
from killcheck.kube.workloads import has_ended, holds, templates
from killcheck.spec.killpath import Target
from killcheck.text import lazy_re
from killcheck.watch import queues
from killcheck.watch.scene import Scene, asked_for, event_time

__all__ = ["is_refused", "lack", "pods_wanted"]

#: Kinds whose object says exactly how many pods it wants; of others one is what can be asked for.
_EXACT = frozenset(
    {
        "Pod",
        "Deployment",
        "StatefulSet",
        "ReplicaSet",
        "ReplicationController",
        "Job",
        "JobSet",
        "LeaderWorkerSet",
        "RayCluster",
        "RayJob",
        "RayService",
        "InferenceService",
        "Notebook",
        "Rollout",
        "PyTorchJob",
        "TFJob",
        "PaddleJob",
        "XGBoostJob",
        "JAXJob",
        "MPIJob",
    }
)
#: How the scheduler says that a node lacks what a pod asks for (kube-scheduler, noderesources/fit.go).
_NO_ROOM = lazy_re.compile(r"\bInsufficient \S+")
#: The reason of the event by which a controller says that the API server did not take a pod.
_REFUSED = "FailedCreate"
#: How Karpenter (its scheduling/events.go) and the cluster autoscaler say that they make no node for a pod.
_NO_NODE = ("Failed to schedule pod, ", "pod didn't trigger scale-up")
#: What to add where a message says what is absent.
_REMEDIES = (
    (
        r"(?:exceed limits|limits have been exhausted) for nodepool \(NodePool=([^)]+)\)",
        "raise the limits of NodePool {0}, or ask for less: it can never be wholly on",
    ),
    (r"pod didn't trigger scale-up.*max node group size reached", "raise the node group's maximum, or ask for less"),
    (r'serviceaccount "?([^" ]+)"? not found', "add ServiceAccount {0} to the manifests"),
    (r'secret "?([^" ]+)"? not found', "add Secret {0} to the manifests, empty if its content is nobody's business"),
    (r'configmap "?([^" ]+)"? not found', "add ConfigMap {0} to the manifests"),
    (r'persistentvolumeclaim "?([^" ]+)"? not found', "add PersistentVolumeClaim {0} to the manifests"),
    (r'storageclass\S* "?([^" ]+)"? not found', "add StorageClass {0} to the manifests"),
    (r"unbound immediate PersistentVolumeClaims", "add a volume or the StorageClass that its claims name"),
    (r'RuntimeClass "?([^" ]+)"? not found', "add RuntimeClass {0} to the manifests"),
    (
        r"device class (\S+) does not exist",
        "add DeviceClass {0}, and the ResourceSlices and Nodes of its driver, to the manifests: kubectl get "
        "deviceclasses,resourceslices,nodes -o yaml; or drill it where the driver runs (--on CONTEXT)",
    ),
    (
        r"cannot allocate all claims",
        "add the ResourceSlices and Nodes of its driver to the manifests: kubectl get resourceslices,nodes -o yaml; or "
        "drill it where the driver runs (--on CONTEXT)",
    ),
    (r"no PriorityClass with name (\S+) was found", "add PriorityClass {0} to the manifests"),
    (
        r"untolerated taint|didn't match Pod's node affinity|Insufficient",
        "describe the nodes that its pods fit on (NodePool, Node, or nodes: in the spec)",
    ),
    (r"exceeded quota", "raise the quota, or ask for less"),
)


def lack(scene: Scene, target: Target, *, why: bool = True) -> str | None:
    """What a target lacks to be wholly on; None: every pod that it asks for runs, and holds what it asks for.

    ``why``: with the reason, found in its pods and in what Kubernetes says of them.
    """
    objects = scene.objects_of(target)
    if not objects:
        return f"{target} is not there: nothing to turn off"
    if any(queues.awaits_admission(obj) for obj in objects):
        return f"{target} waits for its queue's admission: no GPU pod of it is on"
    if target.kind == "DaemonSet" and not scene.replicas(target):
        return (
            f"{target} has no pods: no node takes them (describe one that does: NodePool, Node, or nodes: in the spec)"
        )
    if all(has_ended(obj) for obj in objects):
        return f"{target} has ended, and does not run again: whoever submits it starts the next"
    if not scene.replicas(target):
        return f"{target} asks for no replicas: nothing to turn off (let it ask for one when the drill begins)"
    on = [pod for pod in scene.pods_of(target) if dig(pod, "status", "phase") == "Running"]
    if not on and not why:  # how many it would be is nothing to who waits for it after every callback
        return f"no GPU pod of {target} runs"
    wanted = sum(pods_wanted(obj) for obj in objects) - len(_without_room(scene, target))
    if on and len(on) >= wanted:
        return None
    missing = f"{len(on)} of {max(wanted, 1)} GPU pods of {target} run"
    if not why:
        return missing
    reason = _reason(scene, target, objects)
    return f"{missing}: {reason}" if reason else f"{missing}, and nothing says why"


def is_refused(scene: Scene, target: Target) -> bool:
    """Whether the API server does not take the pods that a target lacks: none of them says why, and its owner does."""
    newest = next(iter(_warnings(scene, target, scene.objects_of(target))), {})
    return newest.get("reason") == _REFUSED and next(_of_pods(scene, target), None) is None


def _without_room(scene: Scene, target: Target) -> list[Obj]:
    """A DaemonSet's pods for nodes that have no room for them: they hold nothing, and wait for no other node."""
    if target.kind != "DaemonSet":
        return []
    found = []
    for pod in scene.pods.values():
        placed = condition(pod, "PodScheduled") or {}
        if scene.is_of(target, pod) and placed.get("status") == "False" and _NO_ROOM.search(str(placed.get("message"))):
            found.append(pod)
    return found


def pods_wanted(obj: Obj) -> int:
    """How many pods that hold GPUs an object asks for now; 1 where its kind does not say it exactly."""
    kind = str(obj.get("kind"))
    if kind == "DaemonSet":
        return asked_for(obj)
    if kind not in _EXACT:
        return 1
    if kind == "Pod" or (kind == "Job" and "template" in (obj.get("spec") or {})):
        return min(asked_for(obj), max(1, int(dig(obj, "spec", "completions", default=asked_for(obj)))))
    return sum(template.count for template in templates(obj) if holds(template, namespace_of(obj)))


# -- why -----------------------------------------------------------------------------------------------------
def _reason(scene: Scene, target: Target, objects: list[Obj]) -> str | None:
    if any(dig(obj, "spec", "paused") for obj in objects):
        return "it is paused (spec.paused), so no pod is made for it"
    said = next(iter((*_of_pods(scene, target), *_of_events(scene, target, objects))), "")
    if not said:
        own = any(scene.is_of(target, pod) for pod in scene.pods.values())
        if not own and not scene.cluster.real:
            return (
                f"nothing on the embedded cluster makes the pods of a {target.kind}: its controller is not "
                "modelled. Drill it on a cluster where that runs"
            )
        return None
    for pattern, remedy in _REMEDIES:
        found = re.search(pattern, said, re.IGNORECASE)
        if found:
            return f"{said} ({remedy.format(*found.groups())})"
    return said


def _of_pods(scene: Scene, target: Target) -> Iterator[str]:
    """What the pods' own conditions and containers say."""
    for pod in scene.pods.values():
        if dig(pod, "status", "phase") == "Running" or not scene.is_of(target, pod):
            continue
        for said in dig(pod, "status", "conditions", default=[]):
            if said.get("type") == "PodScheduled" and said.get("status") == "False":
                told = _last(scene, pod, "FailedScheduling")
                text = "; ".join([_shortened(str(said.get("message") or told)), *_no_node_to_come(scene, pod)])
                yield f"pod {name_of(pod)} is {said.get('reason')}: FailedScheduling: {text}"
        for status in (
            *dig(pod, "status", "initContainerStatuses", default=[]),
            *dig(pod, "status", "containerStatuses", default=[]),
        ):
            waiting = dig(status, "state", "waiting", default={})
            if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                yield f"pod {name_of(pod)}: {waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
        for event in scene.events_about(pod)[::-1]:
            if event.get("type") == "Warning":
                yield f"pod {name_of(pod)}: {event.get('reason')}: {_shortened(str(event.get('message')))}"


def _of_events(scene: Scene, target: Target, objects: list[Obj]) -> Iterator[str]:
    """What is said of the target, and of what it makes: pods that were refused never come to be."""
    for event in _warnings(scene, target, objects):
        about: Obj = event["involvedObject"]
        yield (
            f"{about.get('kind')} {about.get('name')}: {event.get('reason')}: {_shortened(str(event.get('message')))}"
        )


def _warnings(scene: Scene, target: Target, objects: list[Obj]) -> list[Obj]:
    """The events about a target and what it makes, the newest first."""
    names = {name_of(obj) for obj in objects}
    found = [
        event
        for event in scene.events.values()
        if event.get("type") == "Warning"
        and dig(event, "involvedObject", "namespace", default="") == target.namespace
        and any(_begins(str(dig(event, "involvedObject", "name", default="")), name) for name in names)
        and not _of_the_past(scene, event)
    ]
    return sorted(found, key=event_time, reverse=True)


def _of_the_past(scene: Scene, event: Obj) -> bool:
    """A pod that waited for a node and is gone: it lacks none."""
    about: Obj = event["involvedObject"]
    waited = (about.get("kind"), event.get("reason")) == ("Pod", "FailedScheduling")
    return waited and scene.pods.get(about.get("name", ""), about.get("namespace", "")) is None


def _no_node_to_come(scene: Scene, pod: Obj) -> list[str]:
    """Why the autoscaler of its nodes makes none for a pod, in the autoscaler's own words."""
    for event in scene.events_about(pod)[::-1]:
        said = str(event.get("message"))
        if said.startswith(_NO_NODE):
            return [said]
    return []


def _begins(made: str, name: str) -> bool:
    return made == name or made.startswith(f"{name}-")


def _last(scene: Scene, pod: Obj, reason: str) -> str:
    found = [e for e in scene.events_about(pod) if e.get("reason") == reason]
    return str(found[-1].get("message")) if found else ""


def _shortened(text: str) -> str:
    """Without what the scheduler says of preemption, which is never the reason."""
    return re.split(r"(?: no new claims to deallocate,)? preemption: ", text)[0].strip(" .,")
