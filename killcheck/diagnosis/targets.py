"""Why the targets' pods are still there: Terminating for long, held by a finalizer, scaled back, not covered."""

from __future__ import annotations

import re

from killcheck.diagnosis.case import Case, Diagnosis, said
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, dig, format_time, name_of, namespace_of, owners, uid_of
from killcheck.layers.rivals import lighter
from killcheck.spec.killpath import Target
from killcheck.text import lazy_re
from killcheck.watch import queues
from killcheck.watch.scene import still_running

__all__ = ["RULES"]

#: How kubectl says that it has deleted or evicted a pod (kubectl/pkg/cmd/delete, drain).
_DELETED = lazy_re.compile(r'^pod[/ ]"?[^"\s]+"? (?:force )?(?:deleted|evicted)', re.MULTILINE)
_BY_SCALE = "kubectl scale --replicas=0"
#: How a workload is turned off whose replicas nobody scales, by kind.
_OFF = {
    "Job": "suspend or delete the Job",
    "JobSet": "spec.suspend: true, or delete it",
    "RayCluster": "spec.suspend: true, or delete it",
    "RayJob": "spec.suspend: true, or delete it",
    "RayService": "delete the RayService: its RayClusters are its own",
    "Notebook": "the annotation kubeflow-resource-stopped",
    "InferenceService": "the annotation serving.kserve.io/stop: 'true'",
    "PyTorchJob": "spec.runPolicy.suspend: true, or delete it",
    "MPIJob": "spec.runPolicy.suspend: true, or delete it",
}
#: Who writes replicas, by the field manager they use.
RIVALS = {
    "keda": (
        "KEDA",
        "let KEDA hold it at zero while it is killed: annotation autoscaling.keda.sh/paused-replicas: '0'",
        27,
    ),
    "argocd": (
        "Argo CD",
        "take spec.replicas out of the Application (ignoreDifferences, RespectIgnoreDifferences)",
        30,
    ),
    "kustomize-controller": (
        "Flux (kustomize-controller)",
        "leave spec.replicas out of Git, or annotate the object "
        "kustomize.toolkit.fluxcd.io/reconcile: disabled while it is off",
        30,
    ),
    "helm-controller": (
        "Flux (helm-controller)",
        "suspend the HelmRelease while it is off, or ignore /spec/replicas under its driftDetection.ignore",
        30,
    ),
    "horizontal-pod-autoscaler": ("the HPA", "delete or pause the HPA while it is killed", 29),
    "kube-controller-manager": ("a controller", "scale the owner, not the child", 31),
    "killcheck-operator": (
        "an operator",
        "turn off what the operator reads (its custom resource), not what it makes",
        31,
    ),
    "killcheck-starter": (
        "a second starter",
        "give every starter a stopper that outlives it, and one lock for both",
        55,
    ),
}


def scaled_back(case: Case) -> Diagnosis | None:
    """It was zero, and then something lit it again."""
    if case.stuck_at != "held" and not case.relit:
        return None
    scene = case.scene
    for target in scene.kill_path.covered_by(case.layer.layer):
        if not target.kind:
            continue
        for obj in scene.objects_of(target):
            if dig(obj, "spec", "replicas") is None:  # a Job: nobody writes its replicas, its controller makes pods
                made = _in_place(case, obj)
                if made is not None:
                    return made
            elif scene.replicas(target):
                manager = lighter(case.layer.stage, obj, case.timeline.start) or ""
                who, remedy, row = _rival(case, obj, manager)
                return Diagnosis(
                    cause=f"scaled back: {who} set {obj['kind']} {name_of(obj)} to {scene.replicas(target)} replica(s)",
                    evidence=(
                        f"spec.replicas last written by field manager {manager or 'unknown'}",
                        *(said(e) for e in scene.events_about(obj)[-3:]),
                    ),
                    remedy=remedy,
                    failures=(row,),
                )
    return None


def _rival(case: Case, obj: Obj, manager: str) -> tuple[str, str, int]:
    """Who wrote an object's replicas, what to do about it, and the row of the failure catalogue."""
    pod_of = case.scaled_by.get(uid_of(obj))
    if pod_of is not None:
        return pod_of, f"take from {pod_of} what lets it start this, or let it ask whether the night is over", 55
    if "horizontal-pod-autoscaler" in manager.lower() and _keda_owns(case, obj):
        return "KEDA, by its HPA,", RIVALS["keda"][1], RIVALS["keda"][2]
    known = (entry for mark, entry in RIVALS.items() if mark in manager.lower())
    return next(known, (manager or "something", "find who owns spec.replicas and let only one own it", 31))


def _keda_owns(case: Case, obj: Obj) -> bool:
    """Whether an HPA of the object is a ScaledObject's: whoever deletes it gets another."""
    try:
        found = case.scene.cluster.kube.list(r.HPAS, namespace_of(obj)).items
    except KubeError:
        return False
    named = (obj["kind"], name_of(obj))
    return any(
        (dig(hpa, "spec", "scaleTargetRef", "kind"), dig(hpa, "spec", "scaleTargetRef", "name")) == named
        and any(owner.get("kind") == "ScaledObject" for owner in owners(hpa))
        for hpa in found
    )


def made_again(case: Case) -> Diagnosis | None:
    """Its pods were deleted, evicted or restarted, and whoever owns them made others: nobody asked for fewer."""
    reached, lost = case.timeline.reached, case.timeline.lost
    went = "pods_terminating" in reached or "pods_gone" in lost
    written = "scale_written" in reached or "scale_written" in lost
    if not went or written or "scale_written" not in case.timeline.phases or not _has_deleted(case):
        return None
    covered = [t for t in case.scene.kill_path.covered_by(case.layer.layer) if t.kind]
    anew = {target: made for target in covered if case.scene.replicas(target) and (made := _made_since(case, target))}
    if not anew:
        return None
    target = next(iter(anew))
    return Diagnosis(
        cause=f"pods of {target} went, and as it still asks for {case.scene.replicas(target)}, others were made",
        evidence=tuple(
            f"{one}: asks for {case.scene.replicas(one)} replica(s); {', '.join(made)}: created after the trigger"
            for one, made in anew.items()
        ),
        remedy=f"turn the workload itself off ({_OFF.get(target.kind, _BY_SCALE)}): deleting its pods or draining its "
        "nodes leaves it asking for them",
        failures=(31,),
    )


def _has_deleted(case: Case) -> bool:
    """Whether the executor has ended well, or says itself that it deleted pods: kubectl's delete goes on and waits."""
    return case.job_condition("Complete") is not None or _DELETED.search(case.log()) is not None


def _made_since(case: Case, target: Target) -> list[str]:
    """The pods of a target that are younger than the trigger."""
    start = format_time(case.timeline.start)
    return [
        f"pod {name_of(pod)}"
        for pod in case.scene.pods.values()
        if case.scene.is_of(target, pod) and pod["metadata"]["creationTimestamp"] > start
    ]


def _in_place(case: Case, obj: Obj) -> Diagnosis | None:
    """Pods that its controller made anew after the trigger, because nobody ended what makes them."""
    new = []
    for held in case.scene.gpu_pods():
        pod = case.scene.pods.get(held.name, held.namespace)
        if (
            pod is not None
            and not held.terminating
            and case.scene.root_owner(pod) == (obj["kind"], name_of(obj))
            and pod["metadata"]["creationTimestamp"] > format_time(case.timeline.start)
        ):
            new.append(held)
    if not new:
        return None
    if queues.queue_of(obj) is not None and case.layer.stage.rival:
        return Diagnosis(
            cause=f"scaled back: a second starter opened its queue again, and {obj['kind']} {name_of(obj)} was "
            "admitted",
            evidence=tuple(f"{held}: created after the trigger" for held in new),
            remedy="let whoever opens the queue ask whether the night is over",
            failures=(32, 55),
        )
    return Diagnosis(
        cause=f"{obj['kind']} {name_of(obj)} made new pods in place of those that went: nobody ended the {obj['kind']} "
        "itself",
        evidence=tuple(f"{held}: created after the trigger" for held in new),
        remedy="turn off what makes the pods: delete or suspend the Job, or hold its queue",
        failures=(32,),
    )


def ghosts(case: Case) -> Diagnosis | None:
    """Objects were force-deleted; their processes are not known to be gone."""
    found = [pod for pod in case.scene.gpu_pods() if pod.ghost]
    if not found or case.stuck_at not in ("pods_gone", "node_drained", "node_gone"):
        return None
    return Diagnosis(
        cause=f"force-deleted: {len(found)} GPU pod(s) left the API while their containers were running; the processes "
        "may hold the GPUs still",
        evidence=tuple(str(pod) for pod in found),
        remedy="do not use --force --grace-period=0 in a kill path; only the node's end frees the GPUs now",
        failures=(38,),
    )


def terminating(case: Case) -> Diagnosis | None:
    """The pods are told to go and stay; a Job asks for them for as long."""
    jobs = any(t.kind == "Job" for t in case.scene.kill_path.covered_by(case.layer.layer))
    early = ("scale_written", "pods_terminating") if jobs else ()
    if case.stuck_at not in (*early, "pods_gone", "node_drained", "node_gone"):
        return None
    for held in case.scene.gpu_pods():
        pod = case.scene.pods.get(held.name, held.namespace)
        if pod is None or not held.terminating:
            continue
        finalizers = dig(pod, "metadata", "finalizers", default=[])
        where = f"pod {namespace_of(pod)}/{name_of(pod)} on {held.node}"
        if finalizers and not still_running(pod):
            return Diagnosis(
                cause=f"{where} is held by finalizer(s) {', '.join(finalizers)}: its containers are dead, it stays",
                evidence=(
                    f"metadata.finalizers: {finalizers}",
                    f"deletionTimestamp: {pod['metadata']['deletionTimestamp']}",
                ),
                remedy="bring back the controller that owns the finalizer, or have it removed",
                failures=(36,),
            )
        node = case.scene.nodes.get(held.node)
        if node is None or not _ready(node):
            return Diagnosis(
                cause=f"{where} stays Terminating: its node does not answer",
                evidence=(f"node {held.node}: Ready {_ready_word(node)}",),
                remedy="terminate the instance: only that stops the GPUs of a node that does not answer",
                failures=(37,),
            )
        grace = dig(pod, "metadata", "deletionGracePeriodSeconds")
        return Diagnosis(
            cause=f"{where} is still Terminating: terminationGracePeriodSeconds {grace} and preStop run out first",
            evidence=(
                f"deletionTimestamp: {pod['metadata']['deletionTimestamp']}",
                f"grace: {grace} s",
                "status.replicas is 0 all the while: it does not count Terminating pods",
            ),
            remedy="shorten terminationGracePeriodSeconds and preStop, handle SIGTERM, or set the deadline to what the "
            "grace allows",
            failures=(35, 36),
        )
    return None


def deletion_refused(case: Case) -> Diagnosis | None:
    """Zero is written, and the API server refuses its controller the deletion of the pods."""
    if case.stuck_at not in ("pods_terminating", "pods_gone"):
        return None
    owned = [
        obj for t in case.scene.kill_path.covered_by(case.layer.layer) if t.kind for obj in case.scene.objects_of(t)
    ]
    theirs = {uid_of(obj) for obj in owned}
    owned += [rs for rs in case.scene.replicasets.values() if any(one.get("uid") in theirs for one in owners(rs))]
    refused = [event for event in case.scene.events_about(*owned) if event.get("reason") == "FailedDelete"]
    if not refused:
        return None
    why = str(refused[-1].get("message")).removeprefix("Error deleting: ")
    return Diagnosis(
        cause=f"the API server refuses the deletion of the pods: {why}",
        evidence=tuple(said(event) for event in refused[-3:]),
        remedy="let the policy or webhook except the controllers of kube-system: they end the pods",
        failures=(11,),
    )


def nobody_scales(case: Case) -> Diagnosis | None:
    """Zero is written, and the controller that would end the pods has not even seen it."""
    if case.stuck_at not in ("pods_terminating", "pods_gone"):
        return None
    for target in case.scene.kill_path.covered_by(case.layer.layer):
        for obj in case.scene.objects_of(target) if target.kind else ():
            seen, wanted = dig(obj, "status", "observedGeneration", default=0), dig(obj, "metadata", "generation")
            if dig(obj, "spec", "replicas") == 0 and wanted is not None and seen < wanted:
                return Diagnosis(
                    cause=f"zero is written, and no controller ends the pods of {obj['kind']} {name_of(obj)}: it has "
                    "not seen its new spec",
                    evidence=(f"spec.replicas: 0, metadata.generation: {wanted}", f"status.observedGeneration: {seen}"),
                    remedy="see to kube-controller-manager; let something outside the cluster turn the GPUs off too",
                    failures=(15,),
                )
    return None


def not_covered(case: Case) -> Diagnosis | None:
    """Zero was written for the targets, but other GPU pods in scope were never told to go."""
    if case.stuck_at != "pods_gone" or "scale_written" not in case.timeline.reached:
        return None
    left = [held for held in case.scene.gpu_pods() if not held.terminating and not held.ghost]
    if not left:
        return None
    roots = set()
    for held in left:
        pod = case.scene.pods.get(held.name, held.namespace)
        if pod is not None and uid_of(pod) == held.uid:
            kind, name = case.scene.root_owner(pod)
            roots.add(f"{kind} {held.namespace}/{name}")
    return Diagnosis(
        cause=f"coverage gap: the layer turned its targets off, but {', '.join(sorted(roots))} still hold(s) GPUs",
        evidence=tuple(f"{held}: {held.devices} device(s) on {held.node}" for held in left),
        remedy="let the layer cover every GPU holder in its scope, or fence them out of the pool",
        failures=(39,),
    )


def _ready(node: Obj) -> bool:
    return _ready_word(node) == "True"


def _ready_word(node: Obj | None) -> str:
    conditions = dig(node or {}, "status", "conditions", default=[])
    unknown = "gone" if node is None else "Unknown"
    return next((str(c.get("status")) for c in conditions if c.get("type") == "Ready"), unknown)


RULES = (scaled_back, deletion_refused, nobody_scales, ghosts, terminating, not_covered)
