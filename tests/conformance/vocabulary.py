"""What drawn requests speak of: kinds with a valid object each, what may be set in it, and values that are tricky."""

from __future__ import annotations

import copy
from typing import NamedTuple

CORE, APPS, BATCH = "/api/v1/namespaces/{ns}", "/apis/apps/v1/namespaces/{ns}", "/apis/batch/v1/namespaces/{ns}"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
JSON, MERGE, STRATEGIC = "application/json", "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"


class Sort(NamedTuple):
    """A kind as it is drawn: where its objects are, one that is valid (as JSON without its name), and what to change."""

    url: str
    base: dict
    fields: tuple[str, ...]


POD_SPEC = {
    "terminationGracePeriodSeconds": 5,
    "containers": [
        {
            "name": "c",
            "image": "registry.local/busybox:1",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"name": "web", "containerPort": 80}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        }
    ],
}
_IN_POD = (
    "restartPolicy dnsPolicy nodeName nodeSelector tolerations priority priorityClassName activeDeadlineSeconds "
    "terminationGracePeriodSeconds hostNetwork serviceAccountName automountServiceAccountToken schedulerName affinity "
    "volumes initContainers securityContext hostname subdomain overhead readinessGates runtimeClassName "
    "topologySpreadConstraints preemptionPolicy imagePullSecrets os schedulingGates resourceClaims containers "
    "containers.0.name containers.0.image containers.0.command containers.0.env containers.0.env.0.name "
    "containers.0.env.0.value containers.0.env.0.valueFrom containers.0.ports.0.containerPort "
    "containers.0.ports.0.protocol containers.0.ports.0.hostPort containers.0.ports.0.name containers.0.resources "
    "containers.0.resources.limits containers.0.resources.requests.cpu containers.0.resources.limits.memory "
    "containers.0.imagePullPolicy containers.0.livenessProbe containers.0.readinessProbe containers.0.lifecycle "
    "containers.0.securityContext containers.0.volumeMounts containers.0.workingDir containers.0.tty "
    "containers.0.terminationMessagePolicy containers.0.envFrom containers.0.restartPolicy"
).split()
_META = "metadata.name metadata.labels metadata.annotations metadata.generateName metadata.finalizers \
metadata.ownerReferences metadata.namespace metadata.uid metadata.resourceVersion metadata.generation kind \
apiVersion metadata".split()


def _within(path: str) -> list[str]:
    return [f"{path}.{field}" for field in _IN_POD]


def _sort(url: str, api_version: str, kind: str, rest: dict, fields: str = "", pods: str = "") -> Sort:
    named = [*fields.split(), *(_within(pods) if pods else ())]
    return Sort(url, {"apiVersion": api_version, "kind": kind, "metadata": {}, **rest}, (*named, *_META))


_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
_ENDING = {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", **POD_SPEC}}
_SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}

SORTS = {
    "configmaps": _sort(
        f"{CORE}/configmaps", "v1", "ConfigMap", {"data": {"x": "1", "y": "2"}}, "data data.x binaryData immutable"
    ),
    "secrets": _sort(f"{CORE}/secrets", "v1", "Secret", {"data": {"x": "MQ=="}}, "data data.x stringData type"),
    "serviceaccounts": _sort(
        f"{CORE}/serviceaccounts",
        "v1",
        "ServiceAccount",
        {},
        "automountServiceAccountToken secrets imagePullSecrets",
    ),
    "services": _sort(
        f"{CORE}/services",
        "v1",
        "Service",
        {"spec": {"selector": {"a": "b"}, "ports": [{"name": "web", "port": 80}]}},
        "spec.selector spec.ports spec.ports.0.port spec.ports.0.targetPort spec.ports.0.protocol spec.ports.0.name "
        "spec.ports.0.nodePort spec.type spec.clusterIP spec.sessionAffinity spec.externalName spec.externalIPs "
        "spec.ipFamilyPolicy spec.publishNotReadyAddresses spec.internalTrafficPolicy",
    ),
    "pods": _sort(f"{CORE}/pods", "v1", "Pod", {"spec": POD_SPEC}, "spec spec.resources", "spec"),
    "limitranges": _sort(
        f"{CORE}/limitranges",
        "v1",
        "LimitRange",
        {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}]}},
        "spec.limits spec.limits.0.type spec.limits.0.default spec.limits.0.default.cpu spec.limits.0.max.cpu "
        "spec.limits.0.min spec.limits.0.defaultRequest spec.limits.0.maxLimitRequestRatio",
    ),
    "resourcequotas": _sort(
        f"{CORE}/resourcequotas",
        "v1",
        "ResourceQuota",
        {"spec": {"hard": {"pods": "3", "count/jobs.batch": "2"}}},
        "spec.hard spec.hard.pods spec.scopes spec.scopeSelector spec",
    ),
    "persistentvolumeclaims": _sort(
        f"{CORE}/persistentvolumeclaims",
        "v1",
        "PersistentVolumeClaim",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        "spec.accessModes spec.resources spec.resources.requests.storage spec.storageClassName spec.volumeMode "
        "spec.volumeName spec.selector spec.dataSource",
    ),
    "replicationcontrollers": _sort(
        f"{CORE}/replicationcontrollers",
        "v1",
        "ReplicationController",
        {"spec": {"replicas": 0, "selector": {"a": "b"}, "template": _TEMPLATE}},
        "spec.replicas spec.selector spec.minReadySeconds",
    ),
    "deployments": _sort(
        f"{APPS}/deployments",
        "apps/v1",
        "Deployment",
        {"spec": {"replicas": 0, **_SELECTED}},
        "spec spec.replicas spec.selector spec.selector.matchLabels spec.selector.matchExpressions spec.template "
        "spec.strategy spec.strategy.type spec.minReadySeconds spec.revisionHistoryLimit "
        "spec.progressDeadlineSeconds spec.paused spec.template.metadata.labels",
        "spec.template.spec",
    ),
    "replicasets": _sort(
        f"{APPS}/replicasets",
        "apps/v1",
        "ReplicaSet",
        {"spec": {"replicas": 0, **_SELECTED}},
        "spec.replicas spec.selector spec.selector.matchLabels spec.minReadySeconds spec.template",
    ),
    "statefulsets": _sort(
        f"{APPS}/statefulsets",
        "apps/v1",
        "StatefulSet",
        {"spec": {"replicas": 0, "serviceName": "s", **_SELECTED}},
        "spec.replicas spec.selector spec.serviceName spec.podManagementPolicy spec.updateStrategy "
        "spec.volumeClaimTemplates spec.minReadySeconds spec.ordinals spec.persistentVolumeClaimRetentionPolicy "
        "spec.revisionHistoryLimit",
    ),
    "daemonsets": _sort(
        f"{APPS}/daemonsets",
        "apps/v1",
        "DaemonSet",
        {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}},
        "spec.selector spec.updateStrategy spec.minReadySeconds spec.template.spec.restartPolicy",
    ),
    "jobs": _sort(
        f"{BATCH}/jobs",
        "batch/v1",
        "Job",
        {"spec": {"suspend": True, "template": _ENDING}},
        "spec spec.suspend spec.parallelism spec.completions spec.backoffLimit spec.activeDeadlineSeconds "
        "spec.ttlSecondsAfterFinished spec.completionMode spec.podFailurePolicy spec.manualSelector spec.selector "
        "spec.backoffLimitPerIndex spec.maxFailedIndexes spec.podReplacementPolicy spec.successPolicy spec.managedBy "
        "spec.template",
        "spec.template.spec",
    ),
    "cronjobs": _sort(
        f"{BATCH}/cronjobs",
        "batch/v1",
        "CronJob",
        {"spec": {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": {"template": _ENDING}}}},
        "spec.schedule spec.timeZone spec.suspend spec.concurrencyPolicy spec.startingDeadlineSeconds "
        "spec.successfulJobsHistoryLimit spec.failedJobsHistoryLimit spec.jobTemplate spec.jobTemplate.spec.suspend "
        "spec.jobTemplate.spec.backoffLimit spec.jobTemplate.metadata",
        "spec.jobTemplate.spec.template.spec",
    ),
    "poddisruptionbudgets": _sort(
        "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
        "policy/v1",
        "PodDisruptionBudget",
        {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
        "spec.minAvailable spec.maxUnavailable spec.selector spec.unhealthyPodEvictionPolicy spec",
    ),
    "horizontalpodautoscalers": _sort(
        "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers",
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"},
                "minReplicas": 1,
                "maxReplicas": 3,
            }
        },
        "spec.minReplicas spec.maxReplicas spec.scaleTargetRef spec.scaleTargetRef.kind spec.scaleTargetRef.name "
        "spec.metrics spec.behavior",
    ),
    "roles": _sort(
        f"{RBAC}/roles",
        "rbac.authorization.k8s.io/v1",
        "Role",
        {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
        "rules rules.0.apiGroups rules.0.resources rules.0.verbs rules.0.resourceNames rules.0.nonResourceURLs",
    ),
    "rolebindings": _sort(
        f"{RBAC}/rolebindings",
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "{ns}"}],
        },
        "roleRef roleRef.kind roleRef.name roleRef.apiGroup subjects subjects.0.kind subjects.0.name "
        "subjects.0.namespace subjects.0.apiGroup",
    ),
    "networkpolicies": _sort(
        "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies",
        "networking.k8s.io/v1",
        "NetworkPolicy",
        {"spec": {"podSelector": {}, "policyTypes": ["Egress"]}},
        "spec.podSelector spec.policyTypes spec.egress spec.ingress spec",
    ),
    "leases": _sort(
        "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
        "coordination.k8s.io/v1",
        "Lease",
        {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
        "spec.holderIdentity spec.leaseDurationSeconds spec.renewTime spec.acquireTime spec.leaseTransitions spec",
    ),
}

_RULES = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments/scale"]}]
_HOOK = {
    "name": "h.example.com",
    "clientConfig": {"service": {"name": "s", "namespace": "none"}},
    "rules": _RULES,
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Ignore",
}
_IN_HOOK = (
    "webhooks webhooks.0.name webhooks.0.clientConfig webhooks.0.clientConfig.service webhooks.0.clientConfig.url "
    "webhooks.0.rules webhooks.0.rules.0.operations webhooks.0.rules.0.resources webhooks.0.rules.0.scope "
    "webhooks.0.sideEffects webhooks.0.admissionReviewVersions webhooks.0.failurePolicy webhooks.0.timeoutSeconds "
    "webhooks.0.matchPolicy webhooks.0.namespaceSelector webhooks.0.matchConditions"
)
_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}
_IN_CLAIM = (
    "{0}.devices {0}.devices.requests {0}.devices.requests.0.name {0}.devices.requests.0.exactly "
    "{0}.devices.requests.0.exactly.deviceClassName {0}.devices.requests.0.exactly.count "
    "{0}.devices.requests.0.exactly.allocationMode {0}.devices.requests.0.exactly.selectors "
    "{0}.devices.requests.0.exactly.adminAccess {0}.devices.requests.0.firstAvailable {0}.devices.constraints"
)
_ADMISSION, _RESOURCE = "admissionregistration.k8s.io/v1", "resource.k8s.io/v1"
#: Kinds beside the workloads: some have no namespace, and are only tried.
BESIDE = {
    "priorityclasses": _sort(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "scheduling.k8s.io/v1",
        "PriorityClass",
        {"value": 10},
        "value globalDefault description preemptionPolicy",
    ),
    "persistentvolumes": _sort(
        "/api/v1/persistentvolumes",
        "v1",
        "PersistentVolume",
        {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}},
        "spec.capacity spec.capacity.storage spec.accessModes spec.hostPath spec.storageClassName spec.volumeMode "
        "spec.persistentVolumeReclaimPolicy spec.nodeAffinity spec.claimRef spec",
    ),
    "storageclasses": _sort(
        "/apis/storage.k8s.io/v1/storageclasses",
        "storage.k8s.io/v1",
        "StorageClass",
        {"provisioner": "example.com/p"},
        "provisioner reclaimPolicy volumeBindingMode allowVolumeExpansion parameters mountOptions",
    ),
    "runtimeclasses": _sort(
        "/apis/node.k8s.io/v1/runtimeclasses",
        "node.k8s.io/v1",
        "RuntimeClass",
        {"handler": "runc"},
        "handler overhead overhead.podFixed scheduling scheduling.nodeSelector scheduling.tolerations",
    ),
    "deviceclasses": _sort(
        "/apis/resource.k8s.io/v1/deviceclasses",
        _RESOURCE,
        "DeviceClass",
        {"spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}},
        "spec spec.selectors spec.selectors.0.cel spec.selectors.0.cel.expression spec.config spec.extendedResourceName",
    ),
    "resourceclaims": _sort(
        "/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims",
        _RESOURCE,
        "ResourceClaim",
        {"spec": {"devices": {"requests": [_REQUEST]}}},
        "spec " + _IN_CLAIM.format("spec"),
    ),
    "resourceclaimtemplates": _sort(
        "/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaimtemplates",
        _RESOURCE,
        "ResourceClaimTemplate",
        {"spec": {"spec": {"devices": {"requests": [_REQUEST]}}}},
        "spec spec.metadata spec.spec " + _IN_CLAIM.format("spec.spec"),
    ),
    "clusterroles": _sort(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        {"rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]},
        "rules rules.0.apiGroups rules.0.resources rules.0.verbs rules.0.resourceNames rules.0.nonResourceURLs "
        "aggregationRule",
    ),
    "clusterrolebindings": _sort(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "{ns}"}],
        },
        "roleRef roleRef.kind roleRef.name subjects subjects.0.kind subjects.0.name subjects.0.namespace "
        "subjects.0.apiGroup",
    ),
    "ingresses": _sort(
        "/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses",
        "networking.k8s.io/v1",
        "Ingress",
        {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
        "spec spec.defaultBackend spec.defaultBackend.service spec.defaultBackend.service.port "
        "spec.defaultBackend.service.name spec.rules spec.tls spec.ingressClassName",
    ),
    "endpointslices": _sort(
        "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices",
        "discovery.k8s.io/v1",
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"name": "web", "port": 80}]},
        "addressType endpoints endpoints.0.addresses endpoints.0.conditions endpoints.0.hostname endpoints.0.nodeName "
        "ports ports.0.port ports.0.name ports.0.protocol",
    ),
    "podtemplates": _sort(
        f"{CORE}/podtemplates", "v1", "PodTemplate", {"template": _TEMPLATE}, "template", "template.spec"
    ),
    "namespaces": _sort("/api/v1/namespaces", "v1", "Namespace", {}, "spec spec.finalizers status"),
    "nodes": _sort(
        "/api/v1/nodes",
        "v1",
        "Node",
        {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "1"}}},
        "spec spec.taints spec.taints.0.effect spec.taints.0.key spec.unschedulable spec.podCIDR spec.providerID "
        "status.capacity status.allocatable status.addresses status.conditions",
    ),
    "validatingwebhooks": _sort(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        _ADMISSION,
        "ValidatingWebhookConfiguration",
        {"webhooks": [_HOOK]},
        _IN_HOOK,
    ),
    "mutatingwebhooks": _sort(
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        _ADMISSION,
        "MutatingWebhookConfiguration",
        {"webhooks": [_HOOK]},
        _IN_HOOK + " webhooks.0.reinvocationPolicy",
    ),
    "validatingpolicies": _sort(
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        _ADMISSION,
        "ValidatingAdmissionPolicy",
        {
            "spec": {
                "matchConstraints": {"resourceRules": _RULES},
                "validations": [{"expression": "object.spec.replicas == 0"}],
            }
        },
        "spec spec.matchConstraints spec.matchConstraints.resourceRules spec.validations "
        "spec.validations.0.expression spec.validations.0.message spec.validations.0.reason spec.failurePolicy "
        "spec.matchConditions spec.variables spec.paramKind spec.auditAnnotations",
    ),
    "policybindings": _sort(
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        _ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        {"spec": {"policyName": "p", "validationActions": ["Deny"]}},
        "spec spec.policyName spec.validationActions spec.paramRef spec.matchResources",
    ),
}

_TEXTS = ["", "A_b", "x" * 64, "a b", "-a", "a.b", "Always", "Never", "OnFailure", "Recreate", "1", "${x}", "é", "a/b"]
_WRONG = [None, True, 5, 1.5, [], {}, "x", ["x"], {"a": "b"}, [{}], [None]]
_NUMBERS = [-1, 0, 1, 2, 30, 2147483648, 9223372036854775807, 1.5, "1", "50%", "", None, True, 1e3]
_AMOUNTS = ["0", "1", "-1", "1.5", "100m", "1e3", "1Ki", "1KB", "", "x", 1, 0.5, None, "0.0001", "1Gi"]
#: Values that some fields take, beside what anything may be wrongly given.
KNOWN: dict[str, list] = {
    "metadata.labels": [{"a": "b"}, {"a/b": ""}, {"A_": "x"}, {"a b": "c"}, {"a": "-"}, {"a": 1}, {"x" * 64: "y"}],
    "metadata.finalizers": [["a.b/c"], ["x"], [""], ["kubernetes"], ["foregroundDeletion"], ["orphan", "a.b/c"]],
    "metadata.ownerReferences": [
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}],
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}],
        [{"apiVersion": "v1", "kind": "Event", "name": "o", "uid": "u"}],
        [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u", "controller": True}] * 2,
    ],
    "nodeSelector": [{"a": "b"}, {"a b": "c"}, {"a": "b c"}, {}],
    "tolerations": [
        [{"operator": "Exists"}],
        [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
        [{"key": "a", "operator": "In"}],
        [{"key": "a", "tolerationSeconds": 3}],
        [{"operator": "Equal", "value": "b"}],
        [{"key": "a", "effect": "Never"}],
        [{"key": "a", "operator": "Gt", "value": "3"}],
    ],
    "volumes": [
        [{"name": "v", "emptyDir": {}}],
        [{"name": "v"}],
        [{"name": "v", "configMap": {}}],
        [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}],
        [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}],
        [{"name": "V", "secret": {"secretName": "s", "defaultMode": 999}}],
        [{"name": "v", "hostPath": {"path": "../x", "type": "No"}}],
    ],
    "volumeMounts": [
        [{"name": "v", "mountPath": "/v"}],
        [{"name": "v"}],
        [{"mountPath": "/a"}, {"mountPath": "/a"}],
        [{"name": "v", "mountPath": "/v", "subPath": "../x"}],
    ],
    "env": [
        [{"name": "A"}],
        [{"name": "a b"}],
        [{"name": ""}],
        [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        [{"name": "1=2", "value": "x"}],
        [{"value": "x"}],
        [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    ],
    "valueFrom": [
        {"fieldRef": {"fieldPath": "metadata.name"}},
        {"fieldRef": {"fieldPath": "metadata.no"}},
        {"secretKeyRef": {"name": "s"}},
        {"configMapKeyRef": {"name": "s", "key": "a b"}},
        {},
        {"resourceFieldRef": {"resource": "limits.cpu"}},
    ],
    "envFrom": [[{"configMapRef": {"name": "c"}}], [{"prefix": "="}], [{}]],
    "resources": [
        {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
        {"requests": {"nvidia.com/gpu": "1"}},
        {"limits": {"nvidia.com/gpu": "1"}},
        {"limits": {"nvidia.com/gpu": "0.5"}},
        {"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": 2}},
        {"limits": {"gpu": 1}},
        {"claims": [{"name": "none"}]},
        {"requests": {"storage": "1Gi"}},
    ],
    "limits": [{"cpu": "1"}, {"cpu": "50m"}, {"memory": "32Mi"}, {"hugepages-2Mi": "2Mi"}, {"a.b/c": "1"}],
    "livenessProbe": [
        {"httpGet": {"port": 80}},
        {"exec": {}},
        {"tcpSocket": {"port": "web"}, "periodSeconds": 0},
        {"tcpSocket": {"port": 80}, "successThreshold": 2},
        {},
        {"httpGet": {"path": "/", "port": 0}},
        {"grpc": {"port": 99999}},
        {"exec": {"command": ["a"]}, "initialDelaySeconds": -1},
    ],
    "lifecycle": [
        {"preStop": {"sleep": {"seconds": 3}}},
        {"preStop": {"sleep": {"seconds": 30}}},
        {"preStop": {}},
        {"preStop": {"exec": {"command": []}}},
        {"postStart": {"httpGet": {"port": "x_y"}}},
        {"stopSignal": "SIGUSR1"},
    ],
    "securityContext": [
        {"runAsUser": -1},
        {"runAsNonRoot": True},
        {"privileged": True},
        {"capabilities": {"add": ["SYS_ADMIN"]}},
        {"fsGroup": -2},
        {"seccompProfile": {"type": "No"}},
        {"runAsUser": 99999999999},
    ],
    "affinity": [
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]
                }
            }
        },
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}},
        {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 101, "podAffinityTerm": {"topologyKey": "a"}}
                ]
            }
        },
    ],
    "topologySpreadConstraints": [
        [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}],
        [{"maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "x"}],
        [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}],
    ],
    "initContainers": [
        [{"name": "c", "image": "x"}],
        [{"name": "i", "image": "x", "restartPolicy": "Always"}],
        [{"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["a"]}}}],
        [{"name": "i"}],
    ],
    "containers": [[], [{"name": "c"}], [{"image": "x"}], [{"name": "c", "image": "x"}, {"name": "c", "image": "y"}]],
    "schedulingGates": [[{"name": "a.b/c"}], [{"name": ""}], [{"name": "a"}, {"name": "a"}]],
    "strategy": [
        {"type": "Recreate"},
        {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
        {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
        {"rollingUpdate": {"maxSurge": "150%", "maxUnavailable": "150%"}},
        {"rollingUpdate": {"maxSurge": "x%", "maxUnavailable": -1}},
        {"type": "No"},
    ],
    "updateStrategy": [
        {"type": "OnDelete"},
        {"type": "No"},
        {"rollingUpdate": {"partition": -1}},
        {"rollingUpdate": {"maxUnavailable": 0}},
        {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
    ],
    "selector": [{}, {"matchLabels": {"a": "c"}}, {"matchExpressions": [{"key": "a", "operator": "In"}]}, None],
    "matchExpressions": [
        [{"key": "a", "operator": "In", "values": ["b"]}],
        [{"key": "a", "operator": "Exists", "values": ["b"]}],
        [{"key": "", "operator": "Is"}],
    ],
    "schedule": ["* * * * *", "@daily", "@every 5m", "0 3 * *", "61 * * * *", "TZ=UTC 0 3 * * *", "0 0 * * 7", "?"],
    "timeZone": ["UTC", "Europe/Berlin", "Local", "Mars/Base", "", "utc", "../UTC"],
    "concurrencyPolicy": ["Allow", "Forbid", "Replace", "Deny"],
    "completionMode": ["Indexed", "NonIndexed", "No"],
    "podFailurePolicy": [
        {"rules": []},
        {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]},
        {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]},
        {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
        {"rules": [{"action": "Stop"}]},
        {"rules": [{"action": "Count", "onExitCodes": {"operator": "No", "values": [3, 2, 2]}}]},
    ],
    "successPolicy": [{"rules": []}, {"rules": [{"succeededCount": 1}]}, {"rules": [{"succeededIndexes": "3-1"}]}],
    "podReplacementPolicy": ["Failed", "TerminatingOrFailed", "No"],
    "managedBy": ["kueue.x-k8s.io/multikueue", "x", "a/b/c"],
    "minAvailable": ["50%", "150%", "x", 0, -1, "1"],
    "unhealthyPodEvictionPolicy": ["AlwaysAllow", "IfHealthyBudget", "No"],
    "metrics": [
        [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}],
        [{"type": "Resource"}],
        [{"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "0"}}}],
        [{"type": "No"}],
    ],
    "behavior": [
        {"scaleDown": {"stabilizationWindowSeconds": 3601}},
        {"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 1}]}},
        {"scaleDown": {"selectPolicy": "Disabled"}},
        {"scaleDown": {"policies": []}},
    ],
    "verbs": [[], ["*"], [""]],
    "hard": [{"pods": "1"}, {"no": "1"}, {"count/pods": "-1"}, {"requests.nvidia.com/gpu": "4"}, {"pods": "1.5"}],
    "scopes": [["Terminating"], ["Terminating", "NotTerminating"], ["No"], ["BestEffort"]],
    "ports": [
        [{"port": 80}, {"port": 81}],
        [{"name": "a", "port": 80}, {"name": "a", "port": 81}],
        [{"name": "a", "port": 80}, {"name": "b", "port": 80}],
        [],
    ],
    "targetPort": ["web", "Web_", 0, 99999, "x" * 16, "80"],
    "type": ["NodePort", "ClusterIP", "ExternalName", "LoadBalancer", "Opaque", "kubernetes.io/tls", "Recreate", "No"],
    "clusterIP": ["None", "10.96.300.1", "192.168.0.1", ""],
    "egress": [[{}], [{"to": [{}]}], [{"to": [{"ipBlock": {"cidr": "10.0.0.0/33"}}]}], [{"ports": [{"port": 0}]}]],
    "policyTypes": [["Egress", "Egress"], ["No"], ["Ingress"]],
    "renewTime": ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z", "yesterday"],
    "stringData": [{"y": "z"}, {"a b": "c"}],
    "accessModes": [["ReadWriteOnce", "ReadOnlyMany"], ["ReadWriteOncePod", "ReadWriteOnce"], ["No"]],
    "volumeClaimTemplates": [
        [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
        [{"metadata": {"name": "v"}}],
    ],
    "persistentVolumeClaimRetentionPolicy": [{"whenDeleted": "Delete"}, {"whenScaled": "No"}],
    "annotations": [{"a": "b"}, {"a b": "c"}, {"a": 1}],
    "preemptionPolicy": ["Never", "PreemptLowerPriority", "No"],
    "priorityClassName": ["system-node-critical", "none", ""],
    "os": [{"name": "linux"}, {"name": "windows"}, {"name": "mac"}],
    "restartPolicy": ["Always", "Never", "OnFailure", "No"],
    "imagePullPolicy": ["Always", "Never", "IfNotPresent", "No"],
}
KNOWN |= {
    "globalDefault": [True, False],
    "hostPath": [{"path": "/y"}, {"path": "../y"}, {}, {"path": "/", "type": "Directory"}, {"path": "/", "type": "No"}],
    "persistentVolumeReclaimPolicy": ["Retain", "Delete", "Recycle", "No"],
    "reclaimPolicy": ["Retain", "Delete", "No"],
    "volumeBindingMode": ["Immediate", "WaitForFirstConsumer", "No", ""],
    "capacity": [{"storage": "1Gi"}, {"cpu": "1"}, {}, {"storage": "x"}, {"nvidia.com/gpu": "8"}, {"storage": "-1"}],
    "allocatable": [{"nvidia.com/gpu": "8"}, {"cpu": "2"}, {"gpu": "1"}],
    "podFixed": [{"cpu": "1"}, {"no": "1"}, {"cpu": "-1"}],
    "expression": ["true", "object.", "1", "object.spec.replicas > 0", "device.driver", "no.such == 1", ""],
    "exactly": [
        {"deviceClassName": "c"},
        {"deviceClassName": "c", "count": 0},
        {"deviceClassName": "c", "allocationMode": "All", "count": 2},
        {"count": 1},
    ],
    "allocationMode": ["All", "ExactCount", "No", ""],
    "selectors": [[{"cel": {"expression": "true"}}], [{}], [{"cel": {"expression": "x"}}], [{"cel": {}}]],
    "firstAvailable": [[{"name": "a", "deviceClassName": "c"}], [{"name": "a"}], []],
    "constraints": [[{"requests": ["none"], "matchAttribute": "a.b/c"}], [{"matchAttribute": "x"}], [{}]],
    "requests": [[{"name": "a"}], [{"name": "A_", "exactly": {"deviceClassName": "c"}}], [], [_REQUEST] * 2],
    "aggregationRule": [{"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}, {}, {"clusterRoleSelectors": []}],
    "spec.rules": [
        [{"host": "a.b", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {}}]}}],
        [{"host": "A_b"}],
        [{"http": {"paths": []}}],
        [{"http": {"paths": [{"path": "x", "pathType": "No"}]}}],
    ],
    "taints": [
        [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}],
        [{"key": "a b", "effect": "NoExecute"}],
        [{"key": "a", "effect": "No"}],
        [{"key": "a"}],
    ],
    "effect": ["NoSchedule", "NoExecute", "PreferNoSchedule", "No", ""],
    "conditions": [{"ready": False}, [{"type": "Ready", "status": "True"}], [{"type": "Ready"}]],
    "addresses": [["10.1.2.3"], ["x"], [], ["10.1.2.3", "10.1.2.4"], [{"type": "InternalIP", "address": "10.1.2.3"}]],
    "addressType": ["IPv4", "IPv6", "FQDN", "No"],
    "operations": [["*"], ["*", "CREATE"], ["No"], [], ["CREATE", "DELETE"]],
    "resources": [
        *KNOWN["resources"],
        ["*/*"],
        ["*", "pods"],
        ["pods", "pods/"],
        ["*/scale", "pods/scale"],
        [""],
    ],
    "clientConfig": [
        {"url": "https://a.b/c"},
        {"url": "http://a.b/c"},
        {"url": "https://u@a.b/c?d#e"},
        {"service": {"name": "s", "namespace": "n"}, "url": "https://a.b"},
        {"service": {"name": "s"}},
        {"service": {"name": "s", "namespace": "n", "port": 0, "path": "x"}},
        {},
    ],
    "sideEffects": ["None", "NoneOnDryRun", "Some", "Unknown", "No"],
    "failurePolicy": ["Fail", "Ignore", "No"],
    "matchPolicy": ["Exact", "Equivalent", "No"],
    "admissionReviewVersions": [["v1"], ["v1beta1"], ["v2"], [], ["v1", "v1"]],
    "matchConditions": [
        [{"name": "a", "expression": "true"}],
        [{"name": "a b", "expression": "true"}],
        [{"name": "a", "expression": "x."}],
        [{"expression": "true"}],
        [{"name": "a", "expression": "true"}] * 2,
    ],
    "validations": [
        [],
        [{"expression": ""}],
        [{"expression": "true", "reason": "No"}],
        [{"expression": "object.x"}, {"expression": "1 +"}],
    ],
    "validationActions": [["Deny"], ["Warn", "Audit"], ["Deny", "Warn"], ["No"], [], ["Deny", "Deny"]],
    "paramRef": [{}, {"name": "a"}, {"name": "a", "parameterNotFoundAction": "Deny"}, {"name": "a", "selector": {}}],
    "paramKind": [{"apiVersion": "v1", "kind": "ConfigMap"}, {"kind": "A"}, {"apiVersion": "a/b/c", "kind": "X"}],
    "variables": [[{"name": "v", "expression": "1"}], [{"name": "a b", "expression": "1"}], [{"name": "v"}]],
}
for _same, _as in (("readinessProbe", "livenessProbe"), ("maxUnavailable", "minAvailable"), ("ingress", "egress")):
    KNOWN[_same] = KNOWN[_as]
for _amount in ("cpu", "memory", "pods", "storage"):
    KNOWN[_amount] = _AMOUNTS
_COUNTED = (
    "Seconds",
    "replicas",
    "parallelism",
    "completions",
    "Limit",
    "port",
    "Port",
    "Replicas",
    "Indexes",
    "priority",
)


def value_for(rng, path: str):
    """A value for a field: mostly what it may take, at times what nothing takes."""
    last = path.rpartition(".")[2]
    pool = KNOWN.get(path) or KNOWN.get(last)
    if last.endswith(_COUNTED):
        pool = (pool or []) + _NUMBERS
    if pool is None or rng.random() < 0.2:
        pool = [*_TEXTS, *_WRONG]
    return copy.deepcopy(rng.choice(pool))


def put(obj: dict, path: str, value) -> None:
    """Set one field; what is in its way is left as it is. None with a chance of its own stays null."""
    at = obj
    *steps, last = [int(s) if s.isdigit() else s for s in path.split(".")]
    for step in steps:
        if isinstance(at, list):
            if not isinstance(step, int) or step >= len(at):
                return
            at = at[step]
        elif isinstance(at, dict):
            at = at.setdefault(step, {})
        else:
            return
    if (isinstance(at, dict) and isinstance(last, str)) or (
        isinstance(at, list) and isinstance(last, int) and last < len(at)
    ):
        at[last] = value


def named(sort: str, name: str, **labels: str) -> dict:
    """The valid object of a kind, by a name."""
    obj = copy.deepcopy((SORTS | BESIDE)[sort].base)
    obj["metadata"] = {"name": name, **({"labels": labels} if labels else {})}
    return obj


def kept_fields(sort: str) -> list[str]:
    """What may be changed in an object that stays: with an owner that is not there, the collector takes it some time."""
    return [field for field in (SORTS | BESIDE)[sort].fields if field != "metadata.ownerReferences"]


def drawn(rng, sort: str, name: str, changes: int) -> dict:
    """An object of a kind with some fields changed, and at times one that nobody knows."""
    obj = named(sort, name)
    for _ in range(changes):
        path = rng.choice((SORTS | BESIDE)[sort].fields)
        put(obj, path, value_for(rng, path))
    if rng.random() < 0.1:
        put(obj, rng.choice(["spec.unknown", "metadata.unknown", "unknown", "Spec", "metadata.Labels"]), {"a": 1})
    return obj
