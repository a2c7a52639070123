"""Validation: what kill paths get wrong, refused in Kubernetes' words. CronJobs are checked against recording 19."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from killcheck.embedded.api import defaults, schemas
from killcheck.embedded.api.kinds import Registry
from killcheck.embedded.api.strategy import prepare_for_create
from killcheck.embedded.api.validation import validate
from killcheck.kube.objects import Obj, copy

RECORDINGS = Path(__file__).parents[2] / "conformance" / "recordings"
NOW = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
REGISTRY = Registry()
GVS = {
    "Pod": "v1",
    "Secret": "v1",
    "ConfigMap": "v1",
    "Namespace": "v1",
    "Node": "v1",
    "Service": "v1",
    "ResourceQuota": "v1",
    "LimitRange": "v1",
    "ServiceAccount": "v1",
    "PersistentVolumeClaim": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "PodDisruptionBudget": "policy/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "ClusterRole": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding": "rbac.authorization.k8s.io/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "Lease": "coordination.k8s.io/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
}


def kind_of(name: str) -> Any:
    group, _, version = GVS[name].rpartition("/")
    kind = REGISTRY.by_kind(group, name, version)
    assert kind is not None
    return kind


def made(name: str, obj: Obj) -> Obj:
    """Decoded and defaulted, as it comes to validation."""
    kind = kind_of(name)
    meta = {"name": "x", "uid": "0-1"} | ({"namespace": "gpu"} if kind.resource.namespaced else {})
    new = schemas.decode(kind.schema, obj | {"metadata": meta | obj.get("metadata", {})}).obj
    defaults.apply(kind, new, NOW)
    prepare_for_create(kind, new, NOW)
    return new


def said(causes: list[Obj]) -> list[str]:
    return [f"{cause['field']}: {cause['message']}" for cause in causes]


def wrong(name: str, obj: Obj) -> list[str]:
    """What is said of a new object."""
    return said(validate(kind_of(name), made(name, obj), None))


def wrong_change(name: str, old: Obj, change: Any) -> list[str]:
    """What is said when an object that was right is changed (in place, by ``change``)."""
    before = made(name, old)
    assert said(validate(kind_of(name), before, None)) == []
    new = copy(before)
    change(new)
    return said(validate(kind_of(name), new, before))


def at(obj: Obj, *path: str | int) -> Any:
    for step in path:
        obj = obj[step]
    return obj


def container(**more: Any) -> Obj:
    return {"name": "c", "image": "i:1"} | more


def pod(**spec: Any) -> Obj:
    return {"spec": {"containers": [container()]} | spec}


def job(**spec: Any) -> Obj:
    return {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container()]}}} | spec}


def deployment(**spec: Any) -> Obj:
    return {
        "spec": {
            "selector": {"matchLabels": {"app": "v"}},
            "template": {"metadata": {"labels": {"app": "v"}}, "spec": {"containers": [container()]}},
        }
        | spec
    }


SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    r"end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
GPU = "nvidia.com/gpu"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def cronjob_requests() -> list[Any]:
    recording = json.loads((RECORDINGS / "19-cronjob-invalid.json").read_text("utf-8"))
    return [
        pytest.param(exchange["request_body"], exchange, id=exchange["note"])
        for exchange in recording["http"]
        if exchange["request"].startswith("POST /apis/batch/v1/") and exchange["status"] in (201, 422)
    ]


@pytest.mark.parametrize(("request_body", "exchange"), cronjob_requests())
def test_cronjobs_as_a_real_server_judged_them(request_body: Obj, exchange: Obj) -> None:
    kind = kind_of("CronJob")
    new = schemas.decode("V1CronJob", request_body).obj
    defaults.apply(kind, new, NOW)
    assert validate(kind, new, None) == exchange["body"].get("details", {}).get("causes", [])


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        ("Pod", pod()),
        ("Job", job()),
        (
            "Job",
            job(
                podFailurePolicy={
                    "rules": [
                        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [22]}},
                        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                    ]
                }
            ),
        ),
        ("Deployment", deployment()),
        ("ReplicaSet", deployment()),
        ("StatefulSet", deployment()),
        ("DaemonSet", deployment()),
        ("Deployment", deployment(replicas=0)),
        (
            "StatefulSet",
            deployment(
                volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": CLAIM}],
                template={
                    "metadata": {"labels": {"app": "v"}},
                    "spec": {"containers": [container(volumeMounts=[{"name": "data", "mountPath": "/d"}])]},
                },
            ),
        ),
        (
            "Pod",
            pod(
                containers=[
                    container(
                        resources={"limits": {GPU: 8, "cpu": "2"}, "requests": {"cpu": "1"}},
                        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}],
                        readinessProbe={"httpGet": {"port": "http"}},
                    )
                ]
            ),
        ),
        ("ConfigMap", {"data": {"run.sh": "true"}}),
        ("Secret", {"stringData": {"token": "t"}}),
        ("PodDisruptionBudget", {"spec": {"minAvailable": "50%"}}),
        (
            "HorizontalPodAutoscaler",
            {
                "spec": {
                    "maxReplicas": 2,
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "v"},
                }
            },
        ),
        ("Role", {"rules": [{"verbs": ["patch"], "apiGroups": ["apps"], "resources": ["deployments/scale"]}]}),
        ("ResourceQuota", {"spec": {"hard": {"requests.nvidia.com/gpu": "8", "pods": "1", "count/jobs.batch": "3"}}}),
        ("Service", {"spec": {"ports": [{"port": 80}]}}),
        ("Service", {"spec": {"clusterIP": "None"}}),
        ("NetworkPolicy", {"spec": {"podSelector": {}, "egress": [{"to": [{"namespaceSelector": {}}]}]}}),
        ("Lease", {"spec": {"leaseDurationSeconds": 15}}),
    ],
)
def test_what_is_right_is_accepted(kind: str, obj: Obj) -> None:
    assert wrong(kind, obj) == []


@pytest.mark.parametrize(
    ("kind", "obj", "words"),
    [
        # names, labels, annotations
        ("Pod", pod() | {"metadata": {"name": "GPU_off"}}, [f'metadata.name: Invalid value: "GPU_off": {SUBDOMAIN}']),
        ("Namespace", {"metadata": {"name": "a.b"}}, ['metadata.name: Invalid value: "a.b": must not contain dots']),
        (
            "ConfigMap",
            {"metadata": {"labels": {"app": "no spaces"}}},
            [f'metadata.labels: Invalid value: "no spaces": {VALUE}'],
        ),
        (
            "ConfigMap",
            {"metadata": {"annotations": {"a": "x" * (256 * 1024)}}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        # pods
        ("Pod", pod(containers=[]), ["spec.containers: Required value"]),
        (
            "Pod",
            pod(containers=[container(name="Bad_Name", image="")]),
            [
                f'spec.containers[0].name: Invalid value: "Bad_Name": {LABEL}',
                "spec.containers[0].image: Required value",
            ],
        ),
        ("Pod", pod(containers=[container(), container()]), ['spec.containers[1].name: Duplicate value: "c"']),
        (
            "Pod",
            pod(containers=[container(resources={"limits": {GPU: "1.5"}})]),
            [
                f'spec.containers[0].resources.limits[{GPU}]: Invalid value: "1500m": must be an integer',
                f'spec.containers[0].resources.requests[{GPU}]: Invalid value: "1500m": must be an integer',
            ],
        ),
        (
            "Pod",
            pod(containers=[container(resources={"limits": {GPU: 8}, "requests": {GPU: 4}})]),
            [f'spec.containers[0].resources.requests: Invalid value: "4": must be equal to {GPU} limit of 8'],
        ),
        (
            "Pod",
            pod(containers=[container(resources={"requests": {GPU: 4}})]),
            ["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"],
        ),
        (
            "Pod",
            pod(containers=[container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})]),
            ['spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
        ),
        (
            "Pod",
            pod(containers=[container(resources={"requests": {"gpus": 1}})]),
            [
                'spec.containers[0].resources.requests[gpus]: Invalid value: "gpus": must be a standard resource type or '
                "fully qualified",
                'spec.containers[0].resources.requests[gpus]: Invalid value: "gpus": must be a standard resource for '
                "containers",
            ],
        ),
        (
            "Pod",
            pod(containers=[container(volumeMounts=[{"name": "token", "mountPath": "/t"}])]),
            ['spec.containers[0].volumeMounts[0].name: Not found: "token"'],
        ),
        (
            "Pod",
            pod(
                containers=[
                    container(
                        env=[{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
                    )
                ]
            ),
            ['spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
        ),
        (
            "Pod",
            pod(volumes=[{"name": "v", "secret": {"secretName": "s"}, "configMap": {"name": "c"}}]),
            ["spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            "Pod",
            pod(restartPolicy="Sometimes"),
            ['spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'],
        ),
        (
            "Pod",
            pod(tolerations=[{"key": GPU, "operator": "Exists", "value": "x"}]),
            ["spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'"],
        ),
        (
            "Pod",
            pod(containers=[container(lifecycle={"preStop": {"sleep": {"seconds": 99}}})]),
            [
                "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 99: must be non-negative and less than "
                "terminationGracePeriodSeconds (30)"
            ],
        ),
        (
            "Pod",
            pod(initContainers=[container(name="i", readinessProbe={"exec": {"command": ["x"]}})]),
            [
                "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without "
                "restartPolicy=Always"
            ],
        ),
        (
            "Pod",
            pod(resourceClaims=[{"name": "gpu"}]),
            [
                'spec.resourceClaims[0]: Invalid value: {"Name":"gpu","ResourceClaimName":null,'
                '"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`'
            ],
        ),
        (
            "Pod",
            pod(containers=[container(resources={"claims": [{"name": "gpu"}]})]),
            [
                'spec.containers[0].resources.claims[0]: Not found: "gpu": must be one of the names in pod.spec.resourceClaims '
                "which is empty"
            ],
        ),
        (
            "Pod",
            pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}),
            [
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: "
                "must have at least one node selector term"
            ],
        ),
        # Jobs
        (
            "Job",
            job(completionMode="Indexed", completions=None, parallelism=2),
            ["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (
            "Job",
            job(podFailurePolicy={"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]}),
            [
                "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator"
            ],
        ),
        (
            "Job",
            job(activeDeadlineSeconds=-1),
            ["spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0"],
        ),
        # apps
        (
            "Deployment",
            deployment(selector={"matchLabels": {"app": "w"}}),
            ['spec.template.metadata.labels: Invalid value: {"app":"v"}: `selector` does not match template `labels`'],
        ),
        (
            "Deployment",
            deployment(selector={}),
            ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        ),
        (
            "Deployment",
            {"spec": {"template": deployment()["spec"]["template"]}},
            [
                "spec.selector: Required value",
                'spec.template.metadata.labels: Invalid value: {"app":"v"}: `selector` does not match template `labels`',
            ],
        ),
        (
            "Deployment",
            deployment(replicas=-1),
            ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            "Deployment",
            deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
        ),
        (
            "Deployment",
            deployment(
                template={
                    "metadata": {"labels": {"app": "v"}},
                    "spec": {"restartPolicy": "Never", "containers": [container()]},
                }
            ),
            ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
        ),
        (
            "DaemonSet",
            deployment(updateStrategy={"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}),
            [
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is "
                "non-zero"
            ],
        ),
        # scaling
        (
            "HorizontalPodAutoscaler",
            {
                "spec": {
                    "minReplicas": 0,
                    "maxReplicas": 2,
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "v"},
                }
            },
            [
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero "
                "replicas",
            ],
        ),
        (
            "PodDisruptionBudget",
            {"spec": {"minAvailable": 1, "maxUnavailable": 1}},
            [
                'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: '
                "minAvailable and maxUnavailable cannot be both set"
            ],
        ),
        (
            "PodDisruptionBudget",
            {"spec": {"minAvailable": "150%"}},
            ['spec.minAvailable: Invalid value: "150%": must not be greater than 100%'],
        ),
        # access
        (
            "Role",
            {"rules": [{"verbs": [], "nonResourceURLs": ["/x"]}]},
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
            ],
        ),
        (
            "RoleBinding",
            {"roleRef": {"kind": "Rolle", "name": "r"}, "subjects": [{"kind": "Person", "name": "p"}]},
            [
                'roleRef.kind: Unsupported value: "Rolle": supported values: "Role", "ClusterRole"',
                'subjects[0].kind: Unsupported value: "Person": supported values: "ServiceAccount", "User", "Group"',
            ],
        ),
        (
            "ClusterRoleBinding",
            {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]},
            ["subjects[0].namespace: Required value"],
        ),
        # configuration
        ("Secret", {"type": "kubernetes.io/dockerconfigjson"}, ["data[.dockerconfigjson]: Required value"]),
        (
            "Secret",
            {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "hunter2"}},
            ['data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid character in JSON text'],
        ),
        (
            "ConfigMap",
            {"data": {"a b": ""}},
            [
                "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or "
                "'.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            ],
        ),
        (
            "ResourceQuota",
            {"spec": {"hard": {"podz": "1", "pods": "0.5"}}},
            [
                'spec.hard[podz]: Invalid value: "podz": must be a standard resource type or fully qualified',
                'spec.hard[podz]: Invalid value: "podz": must be a standard resource for quota',
                'spec.hard[pods]: Invalid value: "500m": must be an integer',
            ],
        ),
        (
            "LimitRange",
            {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}]}},
            ['spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1'],
        ),
        # cluster
        (
            "Node",
            {"spec": {"taints": [{"key": GPU, "effect": "Never"}]}},
            [
                'metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", '
                '"NoExecute"'
            ],
        ),
        (
            "PriorityClass",
            {"value": 2_000_000_000},
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
        (
            "Service",
            {"spec": {"ports": [{"port": 0}, {"port": 80}]}},
            [
                "spec.ports[0].name: Required value",
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[1].name: Required value",
            ],
        ),
        (
            "ResourceClaim",
            {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {}}]}}},
            ["spec.devices.requests[0].exactly.deviceClassName: Required value"],
        ),
        # extensions
        (
            "ValidatingWebhookConfiguration",
            {
                "webhooks": [
                    {"name": "short", "clientConfig": {}, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
                ]
            },
            [
                'webhooks[0].name: Invalid value: "short": should be a domain with at least three segments separated by dots',
                "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
            ],
        ),
        (
            "CustomResourceDefinition",
            {
                "spec": {
                    "group": "a.b",
                    "scope": "Cluster",
                    "names": {"plural": "cs", "kind": "C"},
                    "versions": [{"name": "v1", "served": True, "storage": True}],
                }
            },
            [
                'metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group',
                "spec.versions[0].schema.openAPIV3Schema: Required value",
            ],
        ),
    ],
)
def test_what_is_wrong_is_refused(kind: str, obj: Obj, words: list[str]) -> None:
    assert wrong(kind, obj) == words


def setting(*path: Any) -> Any:
    """A change: the last of ``path`` is put at the place that the others lead to."""
    *where, field, value = path

    def change(obj: Obj) -> None:
        at(obj, *where)[field] = value

    return change


@pytest.mark.parametrize(
    ("kind", "old", "change", "words"),
    [
        ("Deployment", deployment(), setting("spec", "replicas", 0), []),
        (
            "Deployment",
            deployment(),
            setting("spec", "selector", {"matchLabels": {"app": "v", "a": "b"}}),
            [
                'spec.template.metadata.labels: Invalid value: {"app":"v"}: `selector` does not match template `labels`',
                'spec.selector: Invalid value: {"matchLabels":{"app":"v","a":"b"}}: field is immutable',
            ],
        ),
        (
            "StatefulSet",
            deployment(),
            setting("spec", "serviceName", "other"),
            [
                "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
                "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
                "forbidden"
            ],
        ),
        ("StatefulSet", deployment(), setting("spec", "replicas", 0), []),
        ("Job", job(), setting("spec", "suspend", True), []),
        ("Job", job(), setting("spec", "completions", 2), ["spec.completions: Invalid value: 2: field is immutable"]),
        (
            "Job",
            job(),
            setting("spec", "podFailurePolicy", {"rules": []}),
            [
                'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
                'spec.podFailurePolicy: Invalid value: {"rules":[]}: field is immutable',
            ],
        ),
        ("Job", job(suspend=True), setting("spec", "template", "spec", "nodeSelector", {"pool": "cpu"}), []),
        ("Pod", pod(), setting("spec", "containers", 0, "image", "i:2"), []),
        ("Pod", pod(), setting("spec", "activeDeadlineSeconds", 5), []),
        (
            "Pod",
            pod(activeDeadlineSeconds=5),
            setting("spec", "activeDeadlineSeconds", 6),
            ["spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value"],
        ),
        ("Pod", pod(), setting("spec", "tolerations", [{"key": "k", "operator": "Exists"}]), []),
        (
            "Pod",
            pod(tolerations=[{"key": "k", "operator": "Exists"}]),
            setting("spec", "tolerations", []),
            ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"],
        ),
        (
            "Pod",
            pod(),
            setting("spec", "containers", []),
            [
                "spec.containers: Required value",
                "spec.containers: Forbidden: pod updates may not add or remove containers",
            ],
        ),
        (
            "Secret",
            {"type": "Opaque"},
            setting("type", "custom"),
            ['type: Invalid value: "custom": field is immutable'],
        ),
        (
            "ConfigMap",
            {"immutable": True, "data": {"a": "b"}},
            setting("data", "a", "c"),
            ["data: Forbidden: field is immutable when `immutable` is set"],
        ),
        (
            "RoleBinding",
            {"roleRef": {"kind": "Role", "name": "gpu-off"}},
            setting("roleRef", "name", "other"),
            [
                'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"other"}: '
                "cannot change roleRef"
            ],
        ),
        ("PriorityClass", {"value": 1}, setting("value", 2), ["value: Forbidden: may not be changed in an update."]),
        (
            "Node",
            {"spec": {"providerID": "a"}},
            setting("spec", "providerID", "b"),
            ['spec.providerID: Forbidden: node updates may not change providerID except from "" to valid'],
        ),
    ],
)
def test_what_may_change_and_what_may_not(kind: str, old: Obj, change: Any, words: list[str]) -> None:
    assert wrong_change(kind, old, change) == words


def test_a_jobs_template_is_immutable_once_it_runs() -> None:
    [words] = wrong_change("Job", job(), setting("spec", "template", "spec", "containers", 0, "image", "i:2"))
    assert words.startswith("spec.template: Invalid value: {")
    assert words.endswith(": field is immutable")


def test_a_pods_other_fields_are_immutable_and_named() -> None:
    [words] = wrong_change("Pod", pod(), setting("spec", "containers", 0, "command", ["x"]))
    assert words.startswith("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,")
    assert words.partition("\n")[2].splitlines() == [
        "@@ -5,7 +5,9 @@",
        "   {",
        '    "Name": "c",',
        '    "Image": "i:1",',
        '-   "Command": null,',
        '+   "Command": [',
        '+    "x"',
        "+   ],",
        '    "Args": null,',
        '    "WorkingDir": "",',
        '    "Ports": null,',
    ]


def test_names_of_jobs_made_by_cronjobs_must_fit() -> None:
    cron = {"spec": {"schedule": "@daily", "jobTemplate": job()}, "metadata": {"name": "g" * 53}}
    assert wrong("CronJob", cron) == [f'metadata.name: Invalid value: "{"g" * 53}": must be no more than 52 characters']
    assert wrong("CronJob", cron | {"metadata": {"name": "g" * 52}}) == []


def test_a_zone_in_the_schedule_stays_where_it_was_before_time_zones() -> None:
    kind = kind_of("CronJob")
    old = made("CronJob", {"spec": {"schedule": "TZ=Europe/Berlin 0 3 * * *", "jobTemplate": job()}})
    new = copy(old)
    new["spec"]["suspend"] = True
    assert validate(kind, new, old) == []
    new["spec"]["timeZone"] = "Europe/Berlin"
    assert said(validate(kind, new, old)) == [
        'spec.schedule: Invalid value: "TZ=Europe/Berlin 0 3 * * *": cannot use both timeZone field and TZ or CRON_TZ '
        "in schedule"
    ]


def test_types_without_rules_of_their_own_still_have_names() -> None:
    assert wrong("ServiceAccount", {"metadata": {"name": "gpu-off"}}) == []
    assert wrong("ServiceAccount", {"metadata": {"name": "Gpu"}}) == [
        f'metadata.name: Invalid value: "Gpu": {SUBDOMAIN}'
    ]


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.json")), ids=lambda path: path.stem)
def test_what_a_real_server_keeps_is_never_refused(path: Path) -> None:
    recording = json.loads(path.read_text("utf-8"))
    for obj in [*recording["objects"], *recording.get("deleted_objects", [])]:
        group, _, version = obj["apiVersion"].rpartition("/")
        kind = REGISTRY.by_kind(group, obj["kind"], version)
        assert kind is not None
        assert said(validate(kind, obj, obj)) == []
        if obj["kind"] != "Pod" or not obj["spec"].get("nodeName"):
            assert said(validate(kind, obj, None)) == []
