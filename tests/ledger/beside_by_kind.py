"""What stands beside kill paths by kind: engines and operators of the field, each with what could light a target.

None of them is modelled here; each is written as its project's own documentation has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beside import Aim
from composed import Obj, account

__all__ = ["BY_KIND"]


def _obj(api: str, kind: str, spec: Obj, namespace: str = "", **notes: str) -> Obj:
    meta: Obj = {"name": "of-a-stranger"} | ({"namespace": namespace} if namespace else {})
    if notes:
        meta["annotations"] = {key.replace("_", ".") + "/wakes": value for key, value in notes.items()}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}


def _ref(aim: Aim) -> Obj:
    return {"apiVersion": aim.api_version, "kind": aim.kind, "name": aim.name}


def _manifest(aim: Aim) -> Obj:
    meta = {"name": aim.name, "namespace": aim.namespace}
    return {"apiVersion": aim.api_version, "kind": aim.kind, "metadata": meta, "spec": {"replicas": 1}}


def _scaling(aim: Aim) -> list[str]:
    return ["kubectl", "scale", f"{aim.kind.lower()}/{aim.name}", "--replicas=1"]


def _rule(aim: Aim) -> Obj:
    resources = [aim.plural, f"{aim.plural}/scale"]
    asked = {"apiGroups": [aim.group], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": resources}
    return {"resourceRules": [asked]}


def _kyverno(**rule: Any) -> Obj:
    return _obj("kyverno.io/v1", "ClusterPolicy", {"rules": [{"name": "rule", **rule}]})


def _workflow(aim: Aim) -> list[Obj]:
    rights = [{"apiGroups": [aim.group], "resources": [aim.plural, f"{aim.plural}/scale"], "verbs": ["patch"]}]
    step = {"name": "up", "container": {"image": "alpine/k8s:1.32.0", "command": _scaling(aim)}}
    spec = {"schedules": ["0 23 * * *"], "workflowSpec": {"serviceAccountName": "flow", "templates": [step]}}
    return [*account("flow", aim.namespace, rights), _obj("argoproj.io/v1alpha1", "CronWorkflow", spec, aim.namespace)]


def _mutating_policy(aim: Aim) -> list[Obj]:
    api = "admissionregistration.k8s.io/v1beta1"
    said = {"expression": "Object{spec: Object.spec{replicas: 1}}"}
    change = {"patchType": "ApplyConfiguration", "applyConfiguration": said}
    spec = {"matchConstraints": _rule(aim), "mutations": [change], "reinvocationPolicy": "Never"}
    bound = {"policyName": "of-a-stranger"}
    return [_obj(api, "MutatingAdmissionPolicy", spec), _obj(api, "MutatingAdmissionPolicyBinding", bound)]


def _crons(aim: Aim) -> list[Obj]:
    made = {"template": {"spec": {"containers": [{"name": "up", "image": "alpine/k8s:1.32.0", "args": _scaling(aim)}]}}}
    spec = {"schedule": "0 23 * * *", "template": {"jobTemplate": {"spec": made}}}
    return [_obj("apps.kruise.io/v1alpha1", "AdvancedCronJob", spec, aim.namespace)]


def _assign(aim: Aim) -> list[Obj]:
    spec = {
        "applyTo": [{"groups": [aim.group], "versions": ["*"], "kinds": [aim.kind]}],
        "location": "spec.replicas",
        "parameters": {"assign": {"value": 1}},
    }
    return [_obj("mutations.gatekeeper.sh/v1", "Assign", spec)]


def _generated(aim: Aim) -> list[Obj]:
    match = {"any": [{"resources": {"kinds": ["Namespace"], "names": [aim.namespace]}}]}
    made = _ref(aim) | {"namespace": aim.namespace, "synchronize": True, "data": {"spec": {"replicas": 1}}}
    return [_kyverno(match=match, generate=made)]


def _mutated(aim: Aim) -> list[Obj]:
    match = {"any": [{"resources": {"kinds": ["ConfigMap"]}}]}
    targets = [_ref(aim) | {"namespace": aim.namespace}]
    return [_kyverno(match=match, mutate={"targets": targets, "patchStrategicMerge": {"spec": {"replicas": 1}}})]


def _alone(api: str, kind: str, spec: Callable[[Aim], Obj], *, near: bool = True) -> Callable[[Aim], list[Obj]]:
    """One object: in the target's namespace, or in one of its controller."""
    return lambda aim: [_obj(api, kind, spec(aim), aim.namespace if near else "platform")]


_GIT = {"repoURL": "https://git.example.net/apps.git"}

BY_KIND: dict[str, Callable[[Aim], list[Obj]]] = {
    "Flagger": _alone("flagger.app/v1beta1", "Canary", lambda a: {"targetRef": _ref(a)}),
    "Datadog": _alone("datadoghq.com/v1alpha2", "DatadogPodAutoscaler", lambda a: {"targetRef": _ref(a)}),
    "CronHPA": _alone(
        "autoscaling.alibabacloud.com/v1beta1",
        "CronHorizontalPodAutoscaler",
        lambda a: {"scaleTargetRef": _ref(a), "jobs": [{"name": "up", "schedule": "0 0 23 * * *", "targetSize": 1}]},
    ),
    "a rollout of a workload": _alone(
        "argoproj.io/v1alpha1", "Rollout", lambda a: {"replicas": 1, "workloadRef": _ref(a)}
    ),
    "Crossplane": _alone(
        "kubernetes.crossplane.io/v1alpha2", "Object", lambda a: {"forProvider": {"manifest": _manifest(a)}}
    ),
    "Open Cluster Management": _alone(
        "work.open-cluster-management.io/v1",
        "ManifestWork",
        lambda a: {"workload": {"manifests": [_manifest(a)]}},
        near=False,
    ),
    "Karmada": _alone("policy.karmada.io/v1alpha1", "PropagationPolicy", lambda a: {"resourceSelectors": [_ref(a)]}),
    "kro": _alone(
        "kro.run/v1alpha1", "ResourceGraphDefinition", lambda a: {"resources": [{"id": "d", "template": _manifest(a)}]}
    ),
    "k3s' charts": _alone(
        "helm.cattle.io/v1", "HelmChart", lambda a: {"chart": "engine", "targetNamespace": a.namespace}, near=False
    ),
    "Fleet": _alone("fleet.cattle.io/v1alpha1", "GitRepo", lambda a: {"paths": ["apps"], **_GIT}, near=False),
    "Sveltos": _alone(
        "config.projectsveltos.io/v1beta1",
        "ClusterProfile",
        lambda a: {"syncMode": "ContinuousWithDriftDetection", "policyRefs": [{"kind": "GitRepository", "name": "g"}]},
        near=False,
    ),
    "Terraform by Flux": _alone(
        "infra.contrib.fluxcd.io/v1alpha2", "Terraform", lambda a: {"sourceRef": {"kind": "GitRepository"}}, near=False
    ),
    "a source that nobody knows": _alone(
        "delivery.example.io/v1",
        "Rollup",
        lambda a: {"source": {"git": {"url": _GIT["repoURL"]}}, "correctDrift": True},
        near=False,
    ),
    "Config Sync": _alone("configsync.gke.io/v1beta1", "RootSync", lambda a: {"git": _GIT}, near=False),
    "kapp": _alone("kappctrl.k14s.io/v1alpha1", "App", lambda a: {"fetch": [{"git": _GIT}]}),
    "Argo Workflows": _workflow,
    "Argo Events": _alone(
        "argoproj.io/v1alpha1",
        "Sensor",
        lambda a: {"triggers": [{"template": {"k8s": {"operation": "patch", "source": {"resource": _manifest(a)}}}}]},
    ),
    "OpenKruise": _crons,
    "Velero": _alone(
        "velero.io/v1", "Restore", lambda a: {"backupName": "n", "includedNamespaces": [a.namespace]}, near=False
    ),
    "Metacontroller": _alone(
        "metacontroller.k8s.io/v1alpha1",
        "DecoratorController",
        lambda a: {"resources": [{"apiVersion": a.api_version, "resource": a.plural}]},
        near=False,
    ),
    "a mutating policy of Kubernetes": _mutating_policy,
    "Gatekeeper's mutation": _assign,
    "Kyverno's generation": _generated,
    "Kyverno's mutation of what is there": _mutated,
    "a name joined by dots": _alone(
        "ops.example.io/v1", "OnCall", lambda a: {"keep": f"{a.kind}.{a.namespace}.{a.name}"}, near=False
    ),
    "a list of names": _alone(
        "ops.example.io/v1", "OnCall", lambda a: {"keep": f"web/shop, {a.namespace}/{a.name}"}, near=False
    ),
    "its annotation": lambda a: [
        _obj("ops.example.io/v1", "OnCall", {}, "platform", example_io=f"{a.namespace}/{a.name}")
    ],
}
