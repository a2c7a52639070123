"""Targets, switches and what stands beside them, each with the truth of its own: whole folders are drawn of them.

The truth of each part is what the real controller does, with its source; a folder is ``off`` where every part of it is,
``on`` where one of them bills, and ``unknown`` where one of them is (nobody here could tell, so no pass).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from composed import WATCHED, Obj, account

from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.verdict import DrillResult

NS = "gpu-apps"
CARD = {"nvidia.com/gpu": 1}
OFF, ON, UNKNOWN = "off", "on", "unknown"


@dataclass
class Scene:
    """A folder of manifests that is being put together."""

    #: What the target is called; its ways off: a style, what it comes to, and the line of a shell.
    name: str = "llm"
    objects: list[Obj] = field(default_factory=list)
    ways: dict[str, tuple[str, str]] = field(default_factory=dict)
    #: Part by part: what it comes to.
    truths: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    #: Where the objects lie that no file of its own holds.
    main: str = "all.yaml"
    #: What a folder alone does not say.
    spec: Obj = field(default_factory=dict)

    @property
    def truth(self) -> str:
        """``unknown`` stands before ``on``: such a folder may be called either, and never passes."""
        found = set(self.truths.values())
        return ON if ON in found else UNKNOWN if UNKNOWN in found else OFF

    def one(self, kind: str, name: str = "") -> Obj:
        """The object of that kind, or of that name too."""
        return next(o for o in self.objects if o["kind"] == kind and name in ("", o["metadata"]["name"]))

    def write(self, folder: Path) -> None:
        """Write it down."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755 if text.startswith("#!") else 0o644)
        if self.objects:
            file = folder / self.main
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(yaml.safe_dump_all(self.objects))

    def drill(self, folder: Path) -> list[DrillResult]:
        """Drill every layer that is found in it, as who brings a folder; a spec where the scene has one."""
        self.write(folder)
        spec = None
        if self.spec:
            spec = folder / "killcheck.yaml"
            spec.write_text(yaml.safe_dump(self.spec))
        session = Session(spec=spec, manifests=[folder] if self.objects or not spec else [], exec_mode="host")
        planned = [PlannedDrill(name, options=WATCHED) for name in session.layer_names]
        return list(Run(session, planned, folder=folder.parent / f"{folder.name}-runs").execute().drills)


def pod(**more: Any) -> Obj:
    """The spec of a pod with one card."""
    container = {"name": "server", "image": "registry.example.net/engine:7", "resources": {"limits": dict(CARD)}}
    return {"terminationGracePeriodSeconds": 10, "containers": [container]} | more


def made(api: str, kind: str, name: str, spec: Obj, **meta: Any) -> Obj:
    """An object in the namespace of the path."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": NS} | meta, "spec": spec}


def _apps(scene: Scene, kind: str, replicas: int, **more: Any) -> None:
    labels = {"app": scene.name}
    spec: Obj = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod()},
    }
    if kind == "StatefulSet":
        spec["serviceName"] = scene.name
    scene.objects.append(made("apps/v1", kind, scene.name, spec | more, labels=labels))
    kind = kind.lower()
    scene.ways = {
        "scale": (OFF, f"kubectl -n {NS} scale {kind}/{scene.name} --replicas=0"),
        "patch": (OFF, f'kubectl -n {NS} patch {kind} {scene.name} -p \'{{"spec":{{"replicas":0}}}}\''),
        "delete": (OFF, f"kubectl -n {NS} delete {kind} {scene.name} --wait=false"),
        "pods alone": (ON, f"kubectl -n {NS} delete pods -l app={scene.name} --wait=false"),
        "to one": (ON, f"kubectl -n {NS} scale {kind}/{scene.name} --replicas=1"),
        "another": (ON, f"kubectl -n {NS} scale {kind}/{scene.name}-v1 --replicas=0 || true"),
        "another namespace": (ON, f"kubectl -n {NS}-old scale {kind} --all --replicas=0 || true"),
    }


def deployment(scene: Scene) -> None:
    """One replica, or three."""
    _apps(scene, "Deployment", 1)


def deployment_of_three(scene: Scene) -> None:
    """Three, whose pods go one after another."""
    _apps(scene, "Deployment", 3)


def statefulset(scene: Scene) -> None:
    """With a volume of each pod's own, which is protected (pvc-protection) and no matter to the cards."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": "models", "finalizers": ["kubernetes.io/pvc-protection"]}
    _apps(scene, "StatefulSet", 2, volumeClaimTemplates=[{"metadata": meta, "spec": claim}])


def deployment_with_a_finalizer(scene: Scene) -> None:
    """Scaled as any other. Deleted it stays, and its pods with it: the collector deletes what an owner *left*."""
    _apps(scene, "Deployment", 1)
    scene.objects[-1]["metadata"]["finalizers"] = ["ops.example.io/hold"]
    scene.ways["delete"] = (ON, scene.ways["delete"][1])


def pods_with_a_finalizer(scene: Scene) -> None:
    """They are Terminating for good: the device is free once the kubelet has ended it, the pod is not gone."""
    _apps(scene, "Deployment", 1)
    scene.objects[-1]["spec"]["template"]["metadata"]["finalizers"] = ["ops.example.io/hold"]
    scene.truths["finalizer"] = UNKNOWN


def jobset(scene: Scene) -> None:
    """jobset_controller.go: suspend suspends each Job, whose pods are deleted; a Job makes its lost pods again."""
    job = {
        "parallelism": 2,
        "completions": 2,
        "backoffLimit": 6,
        "template": {"spec": pod(restartPolicy="Never")},
    }
    spec = {"replicatedJobs": [{"name": "worker", "replicas": 1, "template": {"spec": job}}]}
    scene.objects.append(made("jobset.x-k8s.io/v1alpha2", "JobSet", scene.name, spec))
    label = f"jobset.sigs.k8s.io/jobset-name={scene.name}"
    scene.ways = {
        "suspend": (
            OFF,
            f'kubectl -n {NS} patch jobset {scene.name} --type merge -p \'{{"spec":{{"suspend":true}}}}\'',
        ),
        "delete": (OFF, f"kubectl -n {NS} delete jobset {scene.name} --wait=false"),
        "pods alone": (ON, f"kubectl -n {NS} delete pods -l {label} --wait=false"),
        "another": (ON, f"kubectl -n {NS} delete jobset {scene.name}-old --ignore-not-found"),
    }


def lws(scene: Scene) -> None:
    """leaderworkerset_controller.go: replicas of groups; a lost pod comes again, and its group with it."""
    worker = {"metadata": {"labels": {"app": scene.name}}, "spec": pod()}
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": worker}}
    scene.objects.append(made("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", scene.name, spec))
    label = f"leaderworkerset.sigs.k8s.io/name={scene.name}"
    merge = f"kubectl -n {NS} patch lws {scene.name} --type merge -p"
    scene.ways = {
        "scale": (OFF, f"kubectl -n {NS} scale lws/{scene.name} --replicas=0"),
        "patch": (OFF, f'{merge} \'{{"spec":{{"replicas":0}}}}\''),
        "delete": (OFF, f"kubectl -n {NS} delete lws {scene.name} --wait=false"),
        "pods alone": (ON, f"kubectl -n {NS} delete pods -l {label} --wait=false"),
        "its StatefulSet": (ON, f"kubectl -n {NS} scale sts/{scene.name} --replicas=0"),
    }


def raycluster(scene: Scene) -> None:
    """raycluster_controller.go: suspend deletes all pods; a lost worker comes again, for replicas says so."""
    group = {
        "groupName": "gpu",
        "replicas": 2,
        "minReplicas": 0,
        "maxReplicas": 4,
        "rayStartParams": {},
        "template": {"spec": pod()},
    }
    head = {"name": "head", "image": "rayproject/ray:2.46.0", "resources": {"limits": {"cpu": "1", "memory": "2Gi"}}}
    spec = {
        "rayVersion": "2.46.0",
        "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [head]}}},
        "workerGroupSpecs": [group],
    }
    scene.objects.append(made("ray.io/v1", "RayCluster", scene.name, spec))
    merge = f"kubectl -n {NS} patch raycluster {scene.name} --type"
    scene.ways = {
        "suspend": (OFF, f'{merge} merge -p \'{{"spec":{{"suspend":true}}}}\''),
        "delete": (OFF, f"kubectl -n {NS} delete raycluster {scene.name} --wait=false"),
        "workers to zero": (
            OFF,
            f'{merge} json -p \'[{{"op":"replace","path":"/spec/workerGroupSpecs/0/replicas","value":0}}]\'',
        ),
        "pods alone": (ON, f"kubectl -n {NS} delete pods -l ray.io/cluster={scene.name} --wait=false"),
    }


def notebook(scene: Scene) -> None:
    """notebook_controller.go: the annotation makes replicas 0; a StatefulSet that differs is set again."""
    spec = {"template": {"spec": pod()}}
    spec["template"]["spec"]["containers"][0]["name"] = scene.name
    scene.objects.append(made("kubeflow.org/v1", "Notebook", scene.name, spec))
    scene.ways = {
        "annotate": (OFF, f"kubectl -n {NS} annotate notebook {scene.name} kubeflow-resource-stopped=2026 --overwrite"),
        "delete": (OFF, f"kubectl -n {NS} delete notebook {scene.name} --wait=false"),
        "its StatefulSet": (ON, f"kubectl -n {NS} scale sts/{scene.name} --replicas=0"),
        "pods alone": (ON, f"kubectl -n {NS} delete pods -l notebook-name={scene.name} --wait=false"),
    }


def claimed(scene: Scene) -> None:
    """By a ResourceClaim of a class that no manifest holds: no pod of it was ever on, here."""
    _apps(scene, "Deployment", 1)
    spec = scene.objects[-1]["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "card", "resourceClaimTemplateName": "card"}]
    spec["containers"][0]["resources"] = {"claims": [{"name": "card"}]}
    asked = {"name": "card", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    claim = {"spec": {"devices": {"requests": [asked]}}}
    scene.objects.append(made("resource.k8s.io/v1", "ResourceClaimTemplate", "card", claim))
    scene.truths["DRA"] = UNKNOWN


def plain_job(scene: Scene) -> None:
    """job_controller.go: suspend deletes the pods; one that is deleted alone comes again."""
    spec = {"backoffLimit": 4, "template": {"spec": pod(restartPolicy="OnFailure")}}
    scene.objects.append(made("batch/v1", "Job", scene.name, spec))
    scene.ways = {
        "suspend": (OFF, f'kubectl -n {NS} patch job {scene.name} -p \'{{"spec":{{"suspend":true}}}}\''),
        "delete": (OFF, f"kubectl -n {NS} delete job {scene.name} --wait=false"),
        "pods alone": (ON, f"kubectl -n {NS} delete pods -l job-name={scene.name} --wait=false"),
        "orphans": (ON, f"kubectl -n {NS} delete job {scene.name} --cascade=orphan"),
    }


TARGETS: dict[str, Callable[[Scene], None]] = {
    "a Deployment": deployment,
    "a Deployment of three": deployment_of_three,
    "a StatefulSet with volumes": statefulset,
    "a Deployment with a finalizer": deployment_with_a_finalizer,
    "pods with a finalizer": pods_with_a_finalizer,
    "a JobSet": jobset,
    "a LeaderWorkerSet": lws,
    "a RayCluster": raycluster,
    "a Notebook": notebook,
    "a claim without its class": claimed,
    "a Job": plain_job,
}

EVERYTHING = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch", "patch", "update", "delete"]},
]


def _runs(line: str, **more: Any) -> Obj:
    container = {"name": "off", "image": "alpine/k8s:1.32.0", "command": ["/bin/sh", "-ec"], "args": [line]}
    return {"serviceAccountName": "lights-out", "containers": [container]} | more


def cron(scene: Scene, line: str) -> None:
    """Each night."""
    job = {
        "backoffLimit": 2,
        "activeDeadlineSeconds": 600,
        "template": {"spec": _runs(line, restartPolicy="Never")},
    }
    spec = {"schedule": "30 21 * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job}}
    scene.objects += [*account("lights-out", NS, EVERYTHING), made("batch/v1", "CronJob", "lights-out", spec)]


def cron_that_is_suspended(scene: Scene, line: str) -> None:
    """It never fires."""
    cron(scene, line)
    scene.objects[-1]["spec"]["suspend"] = True
    scene.truths["switch"] = ON


def cron_without_its_account(scene: Scene, line: str) -> None:
    """The pod is refused until somebody makes it, who may have: asked for."""
    cron(scene, line)
    scene.objects = [o for o in scene.objects if o["kind"] != "ServiceAccount"]
    scene.truths["switch"] = UNKNOWN


def cron_with_a_secret_from_elsewhere(scene: Scene, line: str) -> None:
    """CreateContainerConfigError where it is not there; it may be."""
    cron(scene, line)
    container = scene.objects[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    container["envFrom"] = [{"secretRef": {"name": "made-by-hand"}}]
    scene.truths["switch"] = UNKNOWN


def cron_with_a_priority_that_is_not_there(scene: Scene, line: str) -> None:
    """The priority admission refuses its pods (no PriorityClass with name ... was found), where nobody made it."""
    cron(scene, line)
    scene.objects[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["priorityClassName"] = "night-jobs"
    scene.truths["switch"] = UNKNOWN


def loop(scene: Scene, line: str) -> None:
    """A Deployment that is the switch: each fifty minutes, without looking at anything."""
    labels = {"app": "lights-out"}
    text = f"while true; do sleep 3000; {line}; done".replace("\n", "; ")
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": _runs(text)},
    }
    scene.objects += [*account("lights-out", NS, EVERYTHING), made("apps/v1", "Deployment", "lights-out", spec)]
    target = {"name": scene.name, "kind": scene.objects[0]["kind"], "namespace": NS, "object": scene.name}
    target["apiVersion"] = scene.objects[0]["apiVersion"]
    watch = {"kind": "Deployment", "namespace": NS, "name": "lights-out"}
    layer = {"name": "lights-out", "type": "idle-monitor", "covers": [scene.name], "workload": watch, "idle": "10m"}
    layer["deadlines"] = {"podsGone": "70m", "scaleWritten": "60m"}
    scene.spec = {
        "apiVersion": "killcheck/v1",
        "name": "looped",
        "targets": [target],
        "layers": [layer],
        "proof": ["P1", "P4"],
    }


def loop_by_the_clock(scene: Scene, line: str) -> None:
    """The same, at ten at night: no idling ends it, and no schedule here says when it fires."""
    loop(scene, line)
    scene.truths["switch"] = UNKNOWN
    container = scene.objects[-1]["spec"]["template"]["spec"]["containers"][0]
    text = line.replace("\n", "; ")
    container["args"] = [f'while true; do if [ "$(date +%H)" = 22 ]; then {text}; fi; sleep 1500; done']


def loop_with_a_volume(scene: Scene, line: str) -> None:
    """The same as a StatefulSet with a claim of its own: of a class that every cluster has."""
    loop(scene, line)
    scene.objects[-1]["kind"] = "StatefulSet"
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    scene.objects[-1]["spec"] |= {
        "serviceName": "lights-out",
        "volumeClaimTemplates": [{"metadata": {"name": "state"}, "spec": claim}],
    }
    scene.spec["layers"][0]["workload"]["kind"] = "StatefulSet"


def loop_at_zero(scene: Scene, line: str) -> None:
    """It is switched off itself."""
    loop(scene, line)
    scene.objects[-1]["spec"]["replicas"] = 0
    scene.truths["switch"] = ON


SWITCHES: dict[str, Callable[[Scene, str], None]] = {
    "a CronJob": cron,
    "a CronJob that is suspended": cron_that_is_suspended,
    "a CronJob without its account": cron_without_its_account,
    "a CronJob with a Secret from elsewhere": cron_with_a_secret_from_elsewhere,
    "a CronJob with a priority that is not there": cron_with_a_priority_that_is_not_there,
    "a loop": loop,
    "a loop by the clock": loop_by_the_clock,
    "a loop with a volume": loop_with_a_volume,
    "a loop at zero": loop_at_zero,
}


# -- beside them --------------------------------------------------------------------------------------------------
def _argo(scene: Scene, sync: Obj, **more: Any) -> None:
    spec: Obj = {
        "project": "default",
        "source": {"repoURL": "https://git.example.net/gpu.git", "path": "apps", "targetRevision": "HEAD"},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": NS},
        "syncPolicy": sync,
    }
    meta = {"name": "gpu", "namespace": "argocd"}
    app = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": meta, "spec": spec | more}
    scene.objects.append(app)


def argo_heals(scene: Scene, style: str) -> None:
    """selfHeal undoes what differs from Git within seconds (appcontroller.go, autoSync), and makes what was deleted.

    A field that Git does not have is no difference (gitops-engine, diff.ThreeWayDiff).
    """
    _argo(scene, {"automated": {"selfHeal": True, "prune": True}})
    scene.truths["argo"] = ON if _field_of_git(scene, style) else OFF


def argo_at_zero(scene: Scene, style: str) -> None:
    """It would heal, and nobody runs it."""
    argo_heals(scene, style)
    scene.truths["argo"] = OFF
    labels = {"app": "argocd"}
    container = {"name": "main", "image": "quay.io/argoproj/argocd:v3.1.0", "args": ["argocd-application-controller"]}
    spec = {
        "replicas": 0,
        "serviceName": "argocd",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    scene.objects.append(made("apps/v1", "StatefulSet", "argocd-application-controller", spec))


def argo_by_hand(scene: Scene, style: str) -> None:
    """It tells OutOfSync, and waits for somebody."""
    _argo(scene, {})


def argo_without_heal(scene: Scene, style: str) -> None:
    """Automated alone syncs a new revision once, and no drift (autoSync: alreadyAttempted)."""
    _argo(scene, {"automated": {"prune": True}})


def argo_that_ignores_replicas(scene: Scene, style: str) -> None:
    """Out of sync by replicas alone it is not; what is deleted it makes again."""
    ignored = [{"group": "*", "kind": "*", "jsonPointers": ["/spec/replicas"]}]
    _argo(scene, {"automated": {"selfHeal": True}}, ignoreDifferences=ignored)
    scene.truths["argo"] = ON if style not in ("scale", "patch") and _field_of_git(scene, style) else OFF


def argo_turned_off(scene: Scene, style: str) -> None:
    """``enabled: false`` (v3.1) is as none."""
    _argo(scene, {"automated": {"enabled": False, "selfHeal": True}})


def _flux(scene: Scene, **more: Any) -> None:
    spec: Obj = {
        "interval": "10m",
        "path": "./apps",
        "prune": True,
        "sourceRef": {"kind": "GitRepository", "name": "gpu"},
    }
    meta = {"name": "gpu", "namespace": "flux-system"}
    api = "kustomize.toolkit.fluxcd.io/v1"
    labels = {"kustomize.toolkit.fluxcd.io/name": "gpu", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
    for obj in scene.objects:
        obj["metadata"]["labels"] = {**obj["metadata"].get("labels", {}), **labels}
    scene.objects.append({"apiVersion": api, "kind": "Kustomization", "metadata": meta, "spec": spec | more})


def _field_of_git(scene: Scene, style: str) -> bool:
    """Whether what a way writes is in the manifest: server-side apply leaves fields alone that are not."""
    kind = scene.objects[0]["kind"]
    if style in ("scale", "patch"):
        return "replicas" in scene.objects[0]["spec"]
    if style == "its StatefulSet" or (kind == "RayCluster" and style == "workers to zero"):
        return True
    return style == "delete"  # suspend and annotate add a field that Git does not have


def flux(scene: Scene, style: str) -> None:
    """Every ten minutes all that is in Git, by server-side apply; what Git does not say stays as it is."""
    scene.truths["flux"] = ON if _field_of_git(scene, style) else OFF
    _flux(scene)


def flux_suspended(scene: Scene, style: str) -> None:
    """It applies nothing."""
    _flux(scene, suspend=True)


def flux_passes_it_by(scene: Scene, style: str) -> None:
    """The annotation in Git ends its reconciliation: what was deleted stays so (pkg/ssa, shouldSkipApply)."""
    _flux(scene)
    meta = scene.objects[0]["metadata"]
    meta["annotations"] = {**meta.get("annotations", {}), "kustomize.toolkit.fluxcd.io/reconcile": "disabled"}


def kyverno_over_the_switch(scene: Scene, style: str) -> None:
    """It asks for a label that no pod of the switch has, and enforces: what it says nobody evaluates here."""
    spec = {
        "validationFailureAction": "Enforce",
        "rules": [
            {
                "name": "team",
                "match": {"any": [{"resources": {"kinds": ["Pod"]}}]},
                "validate": {"message": "team", "pattern": {"metadata": {"labels": {"team": "?*"}}}},
            }
        ],
    }
    _cluster(scene, "kyverno.io/v1", "ClusterPolicy", "team", spec)
    scene.truths["policy"] = UNKNOWN


def kyverno_that_audits(scene: Scene, style: str) -> None:
    """It writes a report."""
    kyverno_over_the_switch(scene, style)
    scene.objects[-1]["spec"]["validationFailureAction"] = "Audit"
    scene.truths.pop("policy")


def gatekeeper_over_the_switch(scene: Scene, style: str) -> None:
    """A constraint on pods, which denies."""
    spec = {"match": {"kinds": [{"apiGroups": [""], "kinds": ["Pod"]}]}, "parameters": {"labels": ["team"]}}
    _cluster(scene, "constraints.gatekeeper.sh/v1beta1", "K8sRequiredLabels", "team", spec)
    scene.truths["policy"] = UNKNOWN


def _cluster(scene: Scene, api: str, kind: str, name: str, spec: Obj) -> None:
    scene.objects.append({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec})


def _vap(scene: Scene, rule: Obj, cel: str, actions: Sequence[str] = ("Deny",)) -> None:
    api = "admissionregistration.k8s.io/v1"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": cel, "message": "not so"}],
    }
    _cluster(scene, api, "ValidatingAdmissionPolicy", "guard", spec)
    bound = {"policyName": "guard", "validationActions": list(actions)}
    _cluster(scene, api, "ValidatingAdmissionPolicyBinding", "guard", bound)


def vap_over_the_jobs(scene: Scene, style: str) -> None:
    """Jobs without a team are refused: that of the switch too; a loop makes none."""
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
    _vap(scene, rule, "has(object.metadata.labels) && 'team' in object.metadata.labels")
    if any(o["kind"] == "CronJob" for o in scene.objects):
        scene.truths["policy"] = ON
    if scene.objects[0]["kind"] in ("JobSet", "Job"):  # its own Jobs are refused too: never on
        scene.truths["policy"] = UNKNOWN


def vap_that_warns(scene: Scene, style: str) -> None:
    """It says so, and lets it through."""
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
    _vap(scene, rule, "has(object.metadata.labels) && 'team' in object.metadata.labels", ["Warn", "Audit"])


def vap_on_the_scale(scene: Scene, style: str) -> None:
    """Nothing may be scaled below one: scale is refused, a patch of the object is not asked."""
    rule = {
        "apiGroups": ["apps", "leaderworkerset.x-k8s.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["*/scale"],
    }
    _vap(scene, rule, "object.spec.replicas > 0")
    if style == "scale":
        scene.truths["policy"] = ON
    if style == "its StatefulSet":
        scene.truths["policy"] = ON


def budget(scene: Scene, style: str) -> None:
    """A PodDisruptionBudget stands before evictions alone."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": scene.name}}}
    scene.objects.append(made("policy/v1", "PodDisruptionBudget", "llm", spec))


def quota_of_jobs(scene: Scene, style: str) -> None:
    """There is no room for a Job: the controller is refused each time; a loop needs none."""
    scene.objects.append(made("v1", "ResourceQuota", "jobs", {"hard": {"count/jobs.batch": "0"}}))
    if any(o["kind"] == "CronJob" for o in scene.objects):
        scene.truths["quota"] = ON
    if scene.objects[0]["kind"] in ("JobSet", "Job"):
        scene.truths["quota"] = UNKNOWN


def quota_of_cpu(scene: Scene, style: str) -> None:
    """A pod without requests is refused where a quota speaks of them ("must specify"): the target's too."""
    scene.objects.append(made("v1", "ResourceQuota", "cpu", {"hard": {"requests.cpu": "100"}}))
    scene.truths["quota"] = UNKNOWN


def quota_with_defaults(scene: Scene, style: str) -> None:
    """A LimitRange gives them."""
    scene.objects.append(made("v1", "ResourceQuota", "cpu", {"hard": {"requests.cpu": "100"}}))
    limits = [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}]
    scene.objects.append(made("v1", "LimitRange", "defaults", {"limits": limits}))


def autoscaler(scene: Scene, style: str) -> None:
    """At zero an HPA is off (horizontal.go: ScalingDisabled); at one it goes to its floor. It reads no load here."""
    ref = {"apiVersion": scene.objects[0]["apiVersion"], "kind": scene.objects[0]["kind"], "name": scene.name}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    spec = {
        "scaleTargetRef": ref,
        "minReplicas": 2,
        "maxReplicas": 4,
        "metrics": [{"type": "Resource", "resource": cpu}],
    }
    scene.objects.append(made("autoscaling/v2", "HorizontalPodAutoscaler", "llm", spec))


def _keda(scene: Scene, **spec: Any) -> None:
    kind = scene.objects[0]["kind"]
    ref = {"apiVersion": scene.objects[0]["apiVersion"], "kind": kind, "name": scene.name}
    trigger = {"type": "cron", "metadata": {"timezone": "Etc/UTC", "start": "0 6 * * *", "end": "0 20 * * *"}}
    trigger["metadata"]["desiredReplicas"] = "1"
    said = {"scaleTargetRef": ref, "triggers": [trigger]} | spec
    scene.objects.append(made("keda.sh/v1alpha1", "ScaledObject", "llm", said))


def keda_floor(scene: Scene, style: str) -> None:
    """scale_scaledobjects.go: below the minimum, without an idle count, it scales to the minimum."""
    _keda(scene, minReplicaCount=1)
    scene.truths["scaler"] = OFF if style == "delete" else ON


def keda_paused_at_one(scene: Scene, style: str) -> None:
    """paused-replicas holds it there, whatever a switch writes."""
    keda_floor(scene, style)
    scene.objects[-1]["metadata"]["annotations"] = {"autoscaling.keda.sh/paused-replicas": "1"}


def keda_that_knows_a_queue(scene: Scene, style: str) -> None:
    """Zero is its idle; a message lights it again, which only a live source knows."""
    trigger = {"type": "rabbitmq", "metadata": {"queueName": "work", "mode": "QueueLength", "value": "5"}}
    _keda(scene, minReplicaCount=0, maxReplicaCount=2, triggers=[trigger])
    scene.truths["scaler"] = OFF if style == "delete" else UNKNOWN


def unknown_scaler(scene: Scene, style: str) -> None:
    """Of a kind never heard of."""
    ref = {"apiVersion": scene.objects[0]["apiVersion"], "kind": scene.objects[0]["kind"], "name": scene.name}
    scene.objects.append(made("scaling.example.io/v1", "PredictiveScaler", "llm", {"scaleTargetRef": ref, "floor": 1}))
    scene.truths["stranger"] = UNKNOWN


def template_of_a_chart(scene: Scene, style: str) -> None:
    """What it makes of the target, its values say, which nobody gave."""
    kind = scene.objects[0]["kind"]
    scene.files |= {
        "charts/warm/Chart.yaml": "apiVersion: v2\nname: warm\nversion: 0.1.0\n",
        "charts/warm/templates/warm.yaml": (
            "{{- if .Values.warm }}\napiVersion: batch/v1\nkind: CronJob\nmetadata: {name: warm-{{ .Release.Name }}, "
            f"namespace: {NS}}}\nspec:\n  schedule: {{{{ .Values.when | quote }}}}\n  jobTemplate:\n    spec:\n      template:\n"
            "        spec:\n          restartPolicy: Never\n          serviceAccountName: lights-out\n          containers:\n"
            '            - {name: a, image: "alpine/k8s:1.32.0", command: [kubectl, scale, '
            f"{kind.lower()}/{scene.name}, --replicas=1, -n, {NS}]}}\n{{{{- end }}}}\n"
        ),
    }
    scene.truths["template"] = UNKNOWN


def another_chart(scene: Scene, style: str) -> None:
    """Of a shop, in a namespace of its own."""
    scene.files |= {
        "charts/shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\n",
        "charts/shop/templates/shop.yaml": (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .Release.Name }}, namespace: shop}\nspec:\n"
            "  selector: {matchLabels: {app: shop}}\n  template:\n    metadata: {labels: {app: shop}}\n    spec:\n"
            "      containers: [{name: shop, image: {{ .Values.image }}}]\n"
        ),
    }


def monitoring(scene: Scene, style: str) -> None:
    """An exporter that reads, its scrape, and a dashboard."""
    rules = [{"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    labels = {"app": "exporter"}
    container = {"name": "exporter", "image": "registry.example.net/exporter:2"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"serviceAccountName": "exporter", "containers": [container]},
        },
    }
    scene.objects += [
        *account("exporter", NS, rules),
        made("apps/v1", "Deployment", "exporter", spec),
        made("monitoring.coreos.com/v1", "PodMonitor", "llm", {"selector": {"matchLabels": {"app": scene.name}}}),
    ]


BESIDE: dict[str, Callable[[Scene, str], None]] = {
    "nothing": lambda _scene, _style: None,
    "Argo CD that heals": argo_heals,
    "Argo CD at zero": argo_at_zero,
    "Argo CD by hand": argo_by_hand,
    "Argo CD without heal": argo_without_heal,
    "Argo CD that ignores replicas": argo_that_ignores_replicas,
    "Argo CD turned off": argo_turned_off,
    "Flux": flux,
    "Flux suspended": flux_suspended,
    "Flux that passes it by": flux_passes_it_by,
    "Kyverno over the switch": kyverno_over_the_switch,
    "Kyverno that audits": kyverno_that_audits,
    "Gatekeeper over the switch": gatekeeper_over_the_switch,
    "a policy over the Jobs": vap_over_the_jobs,
    "a policy that warns": vap_that_warns,
    "a policy on the scale": vap_on_the_scale,
    "a disruption budget": budget,
    "a quota of Jobs": quota_of_jobs,
    "a quota of CPU": quota_of_cpu,
    "a quota with defaults": quota_with_defaults,
    "an autoscaler": autoscaler,
    "KEDA's floor": keda_floor,
    "KEDA paused at one": keda_paused_at_one,
    "KEDA with a queue": keda_that_knows_a_queue,
    "a scaler never heard of": unknown_scaler,
    "a template of a chart": template_of_a_chart,
    "another chart": another_chart,
    "monitoring": monitoring,
}


# -- how it is written down ---------------------------------------------------------------------------------------
def _plain(scene: Scene) -> None:
    """One file."""


def _kustomize(scene: Scene) -> None:
    """A base and an overlay that adds labels; the base's namespace is another, and the overlay's counts."""
    scene.files |= {
        "base/kustomization.yaml": "resources: [all.yaml]\n",
        "overlays/prod/kustomization.yaml": (
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../../base]\n"
            "labels: [{pairs: {env: prod}}]\n"
        ),
    }
    scene.main = "base/all.yaml"


def _overlay_that_suspends(scene: Scene) -> None:
    """The overlay takes the switch away: suspend, or no replica of the loop."""
    _kustomize(scene)
    kind = "CronJob" if any(o["kind"] == "CronJob" for o in scene.objects) else "Deployment"
    patch = "suspend: true" if kind == "CronJob" else "replicas: 0"
    api = "batch/v1" if kind == "CronJob" else "apps/v1"
    scene.files["overlays/prod/kustomization.yaml"] += "patches: [{path: off.yaml}]\n"
    scene.files["overlays/prod/off.yaml"] = (
        f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: lights-out, namespace: {NS}}}\nspec: {{{patch}}}\n"
    )
    scene.truths["overlay"] = ON


def _helm_output(scene: Scene) -> None:
    """As ``helm template`` prints it: labels of the chart, and no release's annotations."""
    for obj in scene.objects:
        meta = obj["metadata"]
        meta["labels"] = {**meta.get("labels", {}), "app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "gpu-1.0"}


WRITTEN: dict[str, Callable[[Scene], None]] = {
    "plain": _plain,
    "kustomize": _kustomize,
    "an overlay that suspends": _overlay_that_suspends,
    "Helm's output": _helm_output,
}


@dataclass(frozen=True)
class Draw:
    """One folder, by the names of its parts."""

    target: str
    style: str
    switch: str
    beside: tuple[str, ...]
    written: str

    def __str__(self) -> str:
        return " / ".join([self.target, self.style, self.switch, *self.beside, self.written])

    def scene(self) -> Scene:
        """Put together."""
        scene = Scene()
        TARGETS[self.target](scene)
        truth, line = scene.ways[self.style]
        scene.truths["way"] = truth
        SWITCHES[self.switch](scene, line)
        for name in self.beside:
            BESIDE[name](scene, self.style)
        WRITTEN[self.written](scene)
        return scene


#: What a whole verdict can be had of.
SOUND = [one for one in TARGETS if one not in ("a claim without its class", "pods with a finalizer")]
#: What has a scale: an autoscaler and KEDA refuse all others.
SCALED = ("Deployment", "StatefulSet", "LeaderWorkerSet", "CloneSet")
#: What cannot stand beside each other: two owners of one field.
SCALERS = ["an autoscaler", "KEDA's floor", "KEDA paused at one", "KEDA with a queue"]
#: More of what needs a scale.
STARTS: list[str] = []


def draw(chance: random.Random, more: Sequence[str] = ()) -> Draw:
    """Any folder; half of them have nothing that bills. ``more``: parts to be drawn beside it as often as all others."""
    target = chance.choice([*TARGETS, *TARGETS, *SOUND])
    scene = Scene()
    TARGETS[target](scene)
    style = chance.choice(list(scene.ways))
    switch = chance.choice(["a CronJob", "a CronJob", "a CronJob", "a loop", *SWITCHES])
    known = [one for one in BESIDE if one not in more]
    beside = chance.sample(list(more) if more and chance.random() < 0.5 else known, chance.choice((1, 1, 1, 2)))
    if set(beside) & {*SCALERS, *STARTS} and scene.objects[0]["kind"] not in SCALED:
        beside = ["nothing"]
    if len(set(beside) & {*SCALERS, *STARTS}) > 1 or sum(one.startswith(("Argo", "Flux")) for one in beside) > 1:
        beside = beside[:1]
    if len([one for one in beside if "policy o" in one or "policy t" in one or "quota" in one]) > 1:
        beside = beside[:1]
    written = chance.choice(["plain", "plain", "plain", "Helm's output", *WRITTEN])
    return Draw(target, style, switch, tuple(beside), written)
