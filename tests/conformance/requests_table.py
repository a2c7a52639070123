"""Requests, in groups that are played in order in a namespace of their own.

Each is (what it is about, method and path, body, content type); ``{ns}`` is the namespace. The answers are a real
kube-apiserver's, recorded by ``record_answers.py`` into ``answers/``.
"""

import copy

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
JSON = "application/json"
CORE, APPS, BATCH = "/api/v1/namespaces/{ns}", "/apis/apps/v1/namespaces/{ns}", "/apis/batch/v1/namespaces/{ns}"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"

POD_SPEC = {"containers": [{"name": "c", "image": "registry.local/busybox:1"}]}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC},
    },
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", **POD_SPEC}}},
}
MANAGED = {**JOB, "spec": {**JOB["spec"], "podReplacementPolicy": "Odd", "completionMode": "Odd"}}
CRONJOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "off"},
    "spec": {
        "schedule": "0 3 * * *",
        "suspend": True,
        "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", **POD_SPEC}}}},
    },
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "nowhere", **POD_SPEC}}


NOW = {"gracePeriodSeconds": 0}


def eviction(version):
    said = {"kind": "Eviction", "metadata": {"name": "p", "namespace": "{ns}"}}
    return {"apiVersion": version} | said if version else said


def configmap(name="a", **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def changed(obj, path, value):
    """A copy with one field set (``None`` removes it); ``path`` is dotted, numbers are list positions."""
    obj = copy.deepcopy(obj)
    at = obj
    *steps, last = [int(s) if s.isdigit() else s for s in path.split(".")]
    for step in steps:
        at = at[step] if isinstance(step, int) else at.setdefault(step, {})
    if value is None:
        del at[last]
    else:
        at[last] = value
    return obj


def tries(url, obj, changes, *, also=""):
    return [
        (f"{path} = {str(value)[:60]}", f"POST {url}?dryRun=All{also}", changed(obj, path, value), JSON)
        for path, value in changes
    ]


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POOLS = "/apis/conformance.example.com/v1/namespaces/{ns}/pools"
#: With rules in CEL of every sort: of the whole, of a field, of a change, with a reason, of items, of quantities.
POOL_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "pools.conformance.example.com"},
    "spec": {
        "group": "conformance.example.com",
        "scope": "Namespaced",
        "names": {"plural": "pools", "kind": "Pool", "singular": "pool", "listKind": "PoolList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-validations": [
                            {"rule": "self.metadata.name != 'bad'", "message": "no bad names"}
                        ],
                        "properties": {
                            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                            "spec": {
                                "type": "object",
                                "x-kubernetes-validations": [
                                    {
                                        "rule": "!has(self.max) || self.replicas <= self.max",
                                        "message": "replicas above max",
                                    },
                                    {
                                        "rule": "self.replicas >= oldSelf.replicas - 5",
                                        "messageExpression": "self.replicas > 0 ? 'cannot drop that far' : 'cannot drop to nothing'",
                                    },
                                    {
                                        "rule": "self.memory == '' || quantity(self.memory).isLessThan(quantity('1Gi'))",
                                        "fieldPath": ".memory",
                                        "reason": "FieldValueForbidden",
                                    },
                                    {
                                        "rule": "!self.tags.exists(t, t.key.startsWith('kubernetes.io/'))",
                                        "message": "reserved tags",
                                    },
                                ],
                                "properties": {
                                    "replicas": {
                                        "type": "integer",
                                        "default": 1,
                                        "x-kubernetes-validations": [{"rule": "self >= 0", "message": "not negative"}],
                                    },
                                    "max": {"type": "integer"},
                                    "memory": {"type": "string", "default": "", "maxLength": 20},
                                    "zone": {
                                        "type": "string",
                                        "maxLength": 9,
                                        "enum": ["y", "z"],
                                        "x-kubernetes-validations": [
                                            {"rule": "self == oldSelf", "message": "immutable"}
                                        ],
                                    },
                                    "tags": {
                                        "type": "array",
                                        "default": [],
                                        "maxItems": 10,
                                        "items": {
                                            "type": "object",
                                            "required": ["key"],
                                            "properties": {
                                                "key": {
                                                    "type": "string",
                                                    "maxLength": 64,
                                                    "x-kubernetes-validations": [
                                                        {
                                                            "rule": "self.matches('^[a-z./]+$')",
                                                            "message": "only letters",
                                                        }
                                                    ],
                                                }
                                            },
                                        },
                                    },
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}


def pool(name="a", **spec):
    return {"apiVersion": "conformance.example.com/v1", "kind": "Pool", "metadata": {"name": name}, "spec": spec}


#: (who, verb, group, resource) as a line each; ``-`` is the core group.
_OF_CONTROLLERS = """
    attachdetach-controller patch - nodes/status
    certificate-controller update certificates.k8s.io certificatesigningrequests/status
    clusterrole-aggregation-controller escalate rbac.authorization.k8s.io clusterroles
    cronjob-controller create batch jobs
    cronjob-controller create - pods
    daemon-set-controller create - pods/binding
    deployment-controller update apps deployments/status
    deployment-controller delete - pods
    disruption-controller update policy poddisruptionbudgets/status
    endpointslice-controller create discovery.k8s.io endpointslices/restricted
    generic-garbage-collector delete apps deployments
    horizontal-pod-autoscaler update apps deployments/scale
    horizontal-pod-autoscaler list custom.metrics.k8s.io pods
    horizontal-pod-autoscaler update apps deployments
    job-controller create - pods
    job-controller deletecollection - pods
    namespace-controller deletecollection batch jobs
    node-controller delete - pods
    node-controller patch - pods/status
    persistent-volume-binder update - persistentvolumes
    pod-garbage-collector delete - pods
    pod-garbage-collector delete - nodes
    pvc-protection-controller update - persistentvolumeclaims
    replicaset-controller patch - pods
    resource-claim-controller create resource.k8s.io resourceclaims
    resourcequota-controller list - secrets
    service-account-controller create - serviceaccounts
    statefulset-controller create - persistentvolumeclaims
    ttl-after-finished-controller delete batch jobs
    ttl-controller patch - nodes
    ttl-controller delete - nodes
    nobody-controller get - pods
"""
_OF_COMPONENTS = """
    system:kube-scheduler create - pods/binding
    system:kube-scheduler update apps deployments
    system:kube-controller-manager create - serviceaccounts/token
    system:kube-controller-manager delete - pods
    system:kube-proxy list discovery.k8s.io endpointslices
    system:kube-proxy list - pods
    system:node:nobody get - secrets
    jane create authorization.k8s.io selfsubjectaccessreviews
"""


def _may(prefix, lines):
    """Reviews of who may do what."""
    for who, verb, group, resource in map(str.split, lines.strip().splitlines()):
        plural, _, sub = resource.partition("/")
        yield (
            f"may {who} {verb} {resource}",
            "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": prefix + who,
                    "groups": ["system:authenticated"],
                    "resourceAttributes": {
                        "verb": verb,
                        "group": group.strip("-"),
                        "resource": plural,
                        "namespace": "{ns}",
                        **({"subresource": sub} if sub else {}),
                    },
                },
            },
            JSON,
        )


_KINDS = {
    "deployments": ("apps/v1", "Deployment"),
    "configmaps": ("v1", "ConfigMap"),
    "serviceaccounts": ("v1", "ServiceAccount"),
    "networkpolicies": ("networking.k8s.io/v1", "NetworkPolicy"),
}


def _applies(plural, path, steps):
    """Configurations of one object, applied one after another by their managers."""
    version, kind = _KINDS[plural]
    for number, (manager, config) in enumerate(steps):
        yield (
            f"{plural}, {number}: {manager}",
            f"PATCH {path}?fieldManager={manager}",
            {
                "apiVersion": version,
                "kind": kind,
                **config,
                "metadata": {"name": path.rpartition("/")[2], **config.get("metadata", {})},
            },
            APPLY,
        )


def _deployment(env=({"name": "A", "value": "1"},), **spec):
    return {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "containers": [{"name": "c", "image": "i", "env": list(env), "ports": [{"containerPort": 80}]}],
                    **spec,
                },
            },
        }
    }


POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
POLICY_BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
_LABEL = "Object{metadata: Object.metadata{labels: {%s}}}"
_TOLERATES = 'Object{spec: Object.spec{tolerations: [Object.spec.tolerations{key: "a", operator: "Exists"}]}}'
#: Name of a policy -> (resource, mutations, what else its spec says); it concerns objects of its own name alone.
_MUTATIONS = {
    "labels": ("configmaps", [_LABEL % '"team": request.namespace, "big": string(size(object.data) > 1)'], {}),
    "patched": (
        "configmaps",
        [
            [
                'JSONPatch{op: "add", path: "/metadata/annotations", value: {"a/b": "1"}}',
                'JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("c/d"), value: "2"}',
            ]
        ],
        {},
    ),
    "side": (
        "pods",
        [
            "Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, "
            'env: [Object.spec.containers.env{name: "IMAGE", value: c.image}]}), initContainers: ['
            'Object.spec.initContainers{name: "side", image: "a:1", restartPolicy: "Always"}]}}'
        ],
        {},
    ),
    "image": (
        "pods",
        [
            [
                'JSONPatch{op: "replace", path: "/spec/containers/0/image", value: "mirror.local/" + object.spec.containers[0]'
                ".image}",
                'JSONPatch{op: "add", path: "/spec/tolerations/-", value: '
                'Object.spec.tolerations{key: "gpu", operator: "Exists"}}',
            ]
        ],
        {},
    ),
    "tested": (
        "configmaps",
        [
            [
                'JSONPatch{op: "test", path: "/data/x", value: "2"}',
                'JSONPatch{op: "replace", path: "/data/x", value: "3"}',
            ],
            _LABEL % '"x": object.data.x',
        ],
        {},
    ),
    "turns": ("configmaps", [_LABEL % '"first": "1"', _LABEL % '"second": object.metadata.labels["first"] + "2"'], {}),
    "varied": (
        "configmaps",
        ["variables.many ? " + _LABEL % '"many": "yes"' + " : Object{}"],
        {"variables": [{"name": "many", "expression": "size(object.data) > 1"}]},
    ),
    "atomic": ("pods", [_TOLERATES], {}),
    "ignored": ("pods", [_TOLERATES], {"failurePolicy": "Ignore"}),
    "lacking": ("configmaps", [_LABEL % '"x": object.data.nope'], {}),
    "removing": ("configmaps", [['JSONPatch{op: "remove", path: "/data/nope"}']], {}),
    "adding": ("configmaps", [['JSONPatch{op: "add", path: "/metadata/annotations/a", value: "b"}']], {}),
    "replacing": ("configmaps", [['JSONPatch{op: "replace", path: "/metadata/annotations/a", value: "b"}']], {}),
    "asked": (
        "configmaps",
        [_LABEL % '"team": params.data.team'],
        {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}},
    ),
    "unasked": (
        "secrets",
        [_LABEL % '"team": params.data.team'],
        {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}},
    ),
}
_PARAMS = {"asked": "parameters", "unasked": "none"}


def _mutates(mutation):
    if isinstance(mutation, str):
        return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": mutation}}
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{', '.join(mutation)}]"}}


def _policies():
    """Every policy and its binding, in this namespace only."""
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "{ns}"}}}
    for name, (resource, mutations, more) in _MUTATIONS.items():
        yield (
            f"the policy {name}",
            f"POST {POLICIES}",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingAdmissionPolicy",
                "metadata": {"name": f"cf-{name}"},
                "spec": {
                    "matchConstraints": {
                        "resourceRules": [
                            {
                                "operations": ["CREATE"],
                                "apiGroups": [""],
                                "apiVersions": ["v1"],
                                "resources": [resource],
                            }
                        ]
                    },
                    "matchConditions": [{"name": "own", "expression": f"object.metadata.name == '{name}'"}],
                    "mutations": [_mutates(one) for one in mutations],
                    "reinvocationPolicy": "Never",
                    **more,
                },
            },
            JSON,
        )
    for name in _MUTATIONS:
        params = (
            {"paramRef": {"name": _PARAMS[name], "namespace": "{ns}", "parameterNotFoundAction": "Deny"}}
            if (name in _PARAMS)
            else {}
        )
        yield (
            f"the binding of {name}",
            f"POST {POLICY_BINDINGS}",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingAdmissionPolicyBinding",
                "metadata": {"name": f"cf-{name}"},
                "spec": {"policyName": f"cf-{name}", "matchResources": here, **params},
            },
            JSON,
        )


def _definition(schema, /, **version):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.{ns}.example.com"},
        "spec": {
            "group": "{ns}.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}} | version
            ],
        },
    }


_TEXT, _LIST, _KEYS = {"type": "string"}, "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
_EMBEDDED, _KEPT = "x-kubernetes-embedded-resource", "x-kubernetes-preserve-unknown-fields"
_EITHER, _RULES = "x-kubernetes-int-or-string", "x-kubernetes-validations"
_KEYED = {"type": "object", "properties": {"k": _TEXT}}
#: Schemas of one field: what a definition may say of it, and what no server takes.
_FIELDS = [
    {},
    {"type": "nope"},
    {"type": "array"},
    {"type": "array", "items": [_TEXT]},
    {"type": "array", "items": {}},
    {"type": "array", "items": _TEXT, "uniqueItems": True},
    {"type": "array", "items": _TEXT, _LIST: "map"},
    {"type": "array", "items": {"type": "object"}, _LIST: "map"},
    {"type": "array", "items": _KEYED, _LIST: "map", _KEYS: ["k"]},
    {"type": "array", "items": _KEYED, _LIST: "map", _KEYS: ["z"]},
    {"type": "array", "items": _KEYED | {"required": ["k"]}, _LIST: "map", _KEYS: ["k"]},
    {"type": "array", "items": _TEXT, _LIST: "odd"},
    {"type": "array", "items": _TEXT, _KEYS: ["k"]},
    _TEXT | {_LIST: "set"},
    _TEXT | {"default": 1},
    _TEXT | {"default": "abc", "maxLength": 2},
    _TEXT | {"pattern": "["},
    _TEXT | {"nullable": True, "default": None},
    _TEXT | {"enum": [1]},
    _TEXT | {"id": "x"},
    _TEXT | {"x-kubernetes-map-type": "atomic"},
    _TEXT | {_EITHER: True},
    _TEXT | {_KEPT: True},
    _TEXT | {_RULES: [{"rule": ""}]},
    _TEXT | {_RULES: [{"rule": "self.size() < 3", "message": "a\nb"}]},
    {_EITHER: True, "anyOf": [{"type": "integer"}, _TEXT]},
    {_KEPT: True},
    {"$ref": "#/x"},
    {"type": "object", "additionalProperties": _TEXT, "properties": {"x": _TEXT}},
    {"type": "object", "additionalProperties": False},
    {"type": "object", _KEPT: False},
    {"type": "object", _EMBEDDED: True},
    {"type": "object", _EMBEDDED: True, _KEPT: True},
    {"type": "object", "allOf": [{"type": "object"}]},
    {"type": "object", "oneOf": [{"properties": {"b": _TEXT}}]},
    {"type": "object", "not": {"default": 1}},
    {"type": "object", "patternProperties": {"a": _TEXT}},
    {"type": "object", "definitions": {"a": _TEXT}},
    {"type": "object", "dependencies": {"a": ["b"]}},
    {"type": "object", "default": {"b": 1}, "properties": {"b": _TEXT}},
    {"type": "object", "default": {"c": 1}, "properties": {"b": _TEXT}},
    {"type": "object", "x-kubernetes-map-type": "odd"},
]
#: What else a version may have wrong.
_VERSIONS = [
    {"schema": None},
    {"deprecationWarning": "x"},
    {"additionalPrinterColumns": [{"name": "a", "type": "nope", "jsonPath": ".x"}]},
    {"additionalPrinterColumns": [{"name": "a", "type": "string", "jsonPath": "x"}]},
    {"subresources": {"scale": {}}},
    {"subresources": {"scale": {"specReplicasPath": ".x", "statusReplicasPath": ".y"}}},
    {
        "subresources": {
            "scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r", "labelSelectorPath": ".z"}
        }
    },
]
#: Schemas of a whole object.
_ROOTS = [
    _TEXT,
    {},
    {
        "type": "object",
        "properties": {"metadata": {"type": "object", "properties": {"name": {"maxLength": 3} | _TEXT}}},
    },
    {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}},
    {"type": "object", "properties": {"apiVersion": {"type": "integer"}}},
]


def _status_of(path, statuses):
    return [(f"the status {status}", f"PATCH {path}/status", {"status": status}, MERGE) for status in statuses]


CLAIMS, NODE = "/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims", "/api/v1/nodes/{ns}-n"
_RESULT = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
_ALLOCATED = {"devices": {"results": [_RESULT]}}
_HOLDER = {"resource": "pods", "name": "p", "uid": "1"}
POLICY = "/apis/policy/v1/namespaces/{ns}"
#: What is written as a whole by who read it alone.
_BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "none"}}},
}
_CLASS = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "{ns}-r"}, "handler": "x"}
_ALONE = changed(POD, "spec.automountServiceAccountToken", False)
_LIMITED = changed(changed(_ALONE, "spec.resources", {"limits": {"cpu": "2"}}), "metadata.name", "limited")


C0 = "spec.template.spec.containers.0"
GROUPS = {
    "definitions": [
        *(
            (
                f"a field {field}",
                f"POST {CRDS}?dryRun=All",
                _definition({"type": "object", "properties": {"a": field}}),
                JSON,
            )
            for field in _FIELDS
        ),
        *((f"an object {root}", f"POST {CRDS}?dryRun=All", _definition(root), JSON) for root in _ROOTS),
        *(
            (f"a version {version}", f"POST {CRDS}?dryRun=All", _definition({"type": "object"}, **version), JSON)
            for version in _VERSIONS
        ),
    ],
    "statuses": [
        (
            "a node",
            "POST /api/v1/nodes",
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{ns}-n"}},
            JSON,
        ),
        (
            "a node with a taint twice",
            "POST /api/v1/nodes",
            {"kind": "Node", "metadata": {"name": "m"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}},
            JSON,
        ),
        *_status_of(
            NODE,
            [
                {"capacity": {"nvidia.com/gpu": "-1"}},
                {"allocatable": {"nvidia.com/gpu": "-1"}},
                {"capacity": {"nvidia.com/gpu": "1500m"}},
                {"capacity": {"pods": "1.5"}},
                {"addresses": [{"type": "InternalIP", "address": "1.2.3.4"}] * 2},
            ],
        ),
        ("no node", f"DELETE {NODE}", None, JSON),
        (
            "a claim",
            f"POST {CLAIMS}",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "c"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
            },
            JSON,
        ),
        *_status_of(
            f"{CLAIMS}/c",
            [
                {"reservedFor": [_HOLDER]},
                {"allocation": _ALLOCATED, "reservedFor": [_HOLDER, _HOLDER]},
                {"allocation": _ALLOCATED, "reservedFor": [{"name": "p"}]},
                {"allocation": _ALLOCATED, "reservedFor": [_HOLDER]},
                {"allocation": None},
                {"allocation": {"devices": {"results": [_RESULT | {"device": "y"}]}}},
                {"devices": [{"driver": "d.example.com", "pool": "p", "device": "z"}]},
                {"reservedFor": None, "allocation": None},
            ],
        ),
        (
            "a load balancer",
            f"POST {CORE}/services",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "lb"},
                "spec": {"type": "LoadBalancer", "clusterIP": "None", "ports": [{"port": 80}]},
            },
            JSON,
        ),
        *_status_of(
            f"{CORE}/services/lb",
            [
                {"loadBalancer": {"ingress": [entry]}}
                for entry in (
                    {"ip": "1.2.3.4"},
                    {"ip": "1.2.3.4", "ipMode": "Odd"},
                    {"hostname": "a.b", "ipMode": "VIP"},
                    {"ip": "x"},
                    {"hostname": "A_"},
                    {"hostname": "1.2.3.4"},
                )
            ],
        ),
        ("a pod with limits of its own", f"POST {CORE}/pods?dryRun=All", _LIMITED, JSON),
        (
            "and a container that asks",
            f"POST {CORE}/pods?dryRun=All",
            changed(_LIMITED, "spec.containers.0.resources", {"requests": {"cpu": "1", "memory": "1Gi"}}),
            JSON,
        ),
        ("a pod", f"POST {CORE}/pods", _ALONE, JSON),
        *_status_of(f"{CORE}/pods/p", [{"qosClass": "Guaranteed"}]),
        *(
            (f"{method} a budget", f"{method} {POLICY}/poddisruptionbudgets{name}", _BUDGET, JSON)
            for method, name in (("POST", ""), ("PUT", "/b"))
        ),
        *(
            (f"{method} a class", f"{method} /apis/node.k8s.io/v1/runtimeclasses{name}", _CLASS, JSON)
            for method, name in (("POST", ""), ("PUT", "/{ns}-r"), ("DELETE", "/{ns}-r"))
        ),
        ("options of no format", f"DELETE {CORE}/configmaps/none", "{}", "text/plain"),
    ],
    "configmaps": [
        ("create", f"POST {CORE}/configmaps", configmap(x="1"), JSON),
        ("create again", f"POST {CORE}/configmaps", configmap(), JSON),
        ("bad name", f"POST {CORE}/configmaps", configmap("A_b"), JSON),
        ("long name", f"POST {CORE}/configmaps", configmap("n" * 254), JSON),
        ("a number for a string", f"POST {CORE}/configmaps", configmap("b", x=1), JSON),
        ("a bad key", f"POST {CORE}/configmaps", configmap("b", **{"a b": "1"}), JSON),
        ("no name", f"POST {CORE}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}, JSON),
        ("another kind", f"POST {CORE}/configmaps", configmap("b") | {"kind": "Secret"}, JSON),
        ("another version", f"POST {CORE}/configmaps", configmap("b") | {"apiVersion": "v2"}, JSON),
        ("no kind", f"POST {CORE}/configmaps", {"metadata": {"name": "b"}, "data": {}}, JSON),
        (
            "another namespace",
            f"POST {CORE}/configmaps",
            configmap("b") | {"metadata": {"name": "b", "namespace": "other"}},
            JSON,
        ),
        ("not JSON", f"POST {CORE}/configmaps", "{", JSON),
        ("an empty body", f"POST {CORE}/configmaps", "", JSON),
        ("a body in XML", f"POST {CORE}/configmaps", "<a/>", "application/xml"),
        (
            "a body in YAML",
            f"POST {CORE}/configmaps",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {x: 'off'}\n",
            "application/yaml",
        ),
        (
            "YAML's off is no string",
            f"POST {CORE}/configmaps",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: z}\ndata: {x: off}\n",
            "application/yaml",
        ),
        ("bad label value", f"POST {CORE}/configmaps", changed(configmap("b"), "metadata.labels", {"a": "b c"}), JSON),
        ("bad label key", f"POST {CORE}/configmaps", changed(configmap("b"), "metadata.labels", {"a/b/c": "d"}), JSON),
        (
            "bad annotation key",
            f"POST {CORE}/configmaps",
            changed(configmap("b"), "metadata.annotations", {"a b": "d"}),
            JSON,
        ),
        ("bad finalizer", f"POST {CORE}/configmaps", changed(configmap("b"), "metadata.finalizers", ["x y"]), JSON),
        (
            "owner without uid",
            f"POST {CORE}/configmaps",
            changed(configmap("b"), "metadata.ownerReferences", [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]),
            JSON,
        ),
        (
            "a resourceVersion at create",
            f"POST {CORE}/configmaps",
            changed(configmap("b"), "metadata.resourceVersion", "7"),
            JSON,
        ),
        (
            "unknown field, warned",
            f"POST {CORE}/configmaps?dryRun=All&fieldValidation=Warn",
            configmap("b") | {"dta": {}},
            JSON,
        ),
        (
            "unknown field, strict",
            f"POST {CORE}/configmaps?dryRun=All&fieldValidation=Strict",
            configmap("b") | {"dta": {}},
            JSON,
        ),
        (
            "unknown field, ignored",
            f"POST {CORE}/configmaps?dryRun=All&fieldValidation=Ignore",
            configmap("b") | {"dta": {}},
            JSON,
        ),
        ("bad fieldValidation", f"POST {CORE}/configmaps?fieldValidation=Maybe", configmap("b"), JSON),
        ("bad dryRun", f"POST {CORE}/configmaps?dryRun=Some", configmap("b"), JSON),
        (
            "duplicate field, strict",
            f"POST {CORE}/configmaps?dryRun=All&fieldValidation=Strict",
            '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"x":"1","x":"2"}}',
            JSON,
        ),
        ("get", f"GET {CORE}/configmaps/a", None, JSON),
        ("get none", f"GET {CORE}/configmaps/none", None, JSON),
        ("no such resource", f"GET {CORE}/nothings", None, JSON),
        ("no such group", "GET /apis/nope.io/v1/things", None, JSON),
        ("no such version", "GET /apis/apps/v9/deployments", None, JSON),
        ("no such path", "GET /nope", None, JSON),
        ("no such subresource", f"GET {CORE}/configmaps/a/scale", None, JSON),
        ("POST on a name", f"POST {CORE}/configmaps/a", configmap(), JSON),
        ("PUT on a collection", f"PUT {CORE}/configmaps", configmap(), JSON),
        ("PATCH on a collection", f"PATCH {CORE}/configmaps", {}, MERGE),
        ("update none", f"PUT {CORE}/configmaps/zz", configmap("zz"), JSON),
        ("update under another name", f"PUT {CORE}/configmaps/a", configmap("zz"), JSON),
        ("update an old one", f"PUT {CORE}/configmaps/a", changed(configmap(), "metadata.resourceVersion", "1"), JSON),
        (
            "update with a bad resourceVersion",
            f"PUT {CORE}/configmaps/a",
            changed(configmap(), "metadata.resourceVersion", "abc"),
            JSON,
        ),
        (
            "update with another uid",
            f"PUT {CORE}/configmaps/a",
            changed(configmap(), "metadata.uid", "00000000-0000-0000-0000-000000000000"),
            JSON,
        ),
        ("update", f"PUT {CORE}/configmaps/a", configmap(x="2"), JSON),
        ("make immutable", f"PATCH {CORE}/configmaps/a", {"immutable": True}, MERGE),
        ("change what is immutable", f"PATCH {CORE}/configmaps/a", {"data": {"x": "3"}}, MERGE),
        ("make mutable again", f"PATCH {CORE}/configmaps/a", {"immutable": False}, MERGE),
        (
            "delete with another uid",
            f"DELETE {CORE}/configmaps/a",
            {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "x"}},
            JSON,
        ),
        (
            "delete with another version",
            f"DELETE {CORE}/configmaps/a",
            {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": "1"}},
            JSON,
        ),
        (
            "delete with a bad policy",
            f"DELETE {CORE}/configmaps/a",
            {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Never"},
            JSON,
        ),
        ("delete, dry run", f"DELETE {CORE}/configmaps/a?dryRun=All", None, JSON),
        ("delete", f"DELETE {CORE}/configmaps/a", None, JSON),
        ("delete again", f"DELETE {CORE}/configmaps/a", None, JSON),
        (
            "delete what has a finalizer: create",
            f"POST {CORE}/configmaps",
            changed(configmap("held"), "metadata.finalizers", ["example.com/hold"]),
            JSON,
        ),
        ("delete what has a finalizer", f"DELETE {CORE}/configmaps/held", None, JSON),
        (
            "add a finalizer to what is going",
            f"PATCH {CORE}/configmaps/held",
            {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}},
            MERGE,
        ),
        ("take the finalizer away", f"PATCH {CORE}/configmaps/held", {"metadata": {"finalizers": None}}, MERGE),
        ("it is gone", f"GET {CORE}/configmaps/held", None, JSON),
    ],
    "patches": [
        ("create", f"POST {CORE}/configmaps", configmap(x="1"), JSON),
        ("merge", f"PATCH {CORE}/configmaps/a", {"data": {"y": "2"}}, MERGE),
        ("merge removes", f"PATCH {CORE}/configmaps/a", {"data": {"y": None}}, MERGE),
        ("merge with a wrong type", f"PATCH {CORE}/configmaps/a", {"data": {"y": 2}}, MERGE),
        ("merge of a list", f"PATCH {CORE}/configmaps/a", [], MERGE),
        ("merge that is no JSON", f"PATCH {CORE}/configmaps/a", "{", MERGE),
        ("merge on none", f"PATCH {CORE}/configmaps/none", {"data": {"y": "2"}}, MERGE),
        ("merge of an old one", f"PATCH {CORE}/configmaps/a", {"metadata": {"resourceVersion": "1"}}, MERGE),
        ("merge of the name", f"PATCH {CORE}/configmaps/a", {"metadata": {"name": "b"}}, MERGE),
        ("merge of the namespace", f"PATCH {CORE}/configmaps/a", {"metadata": {"namespace": "b"}}, MERGE),
        ("merge unknown, strict", f"PATCH {CORE}/configmaps/a?fieldValidation=Strict", {"dta": {"y": "2"}}, MERGE),
        ("strategic", f"PATCH {CORE}/configmaps/a", {"data": {"z": "3"}}, STRATEGIC),
        ("strategic replace", f"PATCH {CORE}/configmaps/a", {"data": {"$patch": "replace", "w": "4"}}, STRATEGIC),
        ("strategic bad directive", f"PATCH {CORE}/configmaps/a", {"data": {"$patch": "what"}}, STRATEGIC),
        ("JSON patch", f"PATCH {CORE}/configmaps/a", [{"op": "add", "path": "/data/v", "value": "5"}], JSON_PATCH),
        (
            "JSON patch: test fails",
            f"PATCH {CORE}/configmaps/a",
            [{"op": "test", "path": "/data/v", "value": "9"}],
            JSON_PATCH,
        ),
        ("JSON patch: nothing there", f"PATCH {CORE}/configmaps/a", [{"op": "remove", "path": "/data/zz"}], JSON_PATCH),
        ("JSON patch: unknown op", f"PATCH {CORE}/configmaps/a", [{"op": "jump", "path": "/data/v"}], JSON_PATCH),
        ("JSON patch: an object", f"PATCH {CORE}/configmaps/a", {"op": "remove"}, JSON_PATCH),
        (
            "JSON patch: replace nothing",
            f"PATCH {CORE}/configmaps/a",
            [{"op": "replace", "path": "/data/q", "value": "1"}],
            JSON_PATCH,
        ),
        (
            "JSON patch: copy and move",
            f"PATCH {CORE}/configmaps/a",
            [
                {"op": "copy", "from": "/data/v", "path": "/data/u"},
                {"op": "move", "from": "/data/v", "path": "/data/t"},
            ],
            JSON_PATCH,
        ),
        ("another content type", f"PATCH {CORE}/configmaps/a", {}, "text/plain"),
        ("JSON as a patch", f"PATCH {CORE}/configmaps/a", {}, JSON),
        ("apply makes", f"PATCH {CORE}/configmaps/ap?fieldManager=one", configmap("ap", x="1"), APPLY),
        ("apply again", f"PATCH {CORE}/configmaps/ap?fieldManager=one", configmap("ap", x="1"), APPLY),
        ("apply conflicts", f"PATCH {CORE}/configmaps/ap?fieldManager=two", configmap("ap", x="2"), APPLY),
        ("apply by force", f"PATCH {CORE}/configmaps/ap?fieldManager=two&force=true", configmap("ap", x="2"), APPLY),
        ("apply what is now another's", f"PATCH {CORE}/configmaps/ap?fieldManager=one", configmap("ap"), APPLY),
        ("apply without a manager", f"PATCH {CORE}/configmaps/ap", configmap("ap"), APPLY),
        ("apply of another name", f"PATCH {CORE}/configmaps/ap?fieldManager=one", configmap("zz"), APPLY),
        (
            "apply of another kind",
            f"PATCH {CORE}/configmaps/ap?fieldManager=one",
            configmap("ap") | {"kind": "Secret"},
            APPLY,
        ),
        (
            "apply with managed fields",
            f"PATCH {CORE}/configmaps/ap?fieldManager=one",
            changed(configmap("ap"), "metadata.managedFields", [{"manager": "x"}]),
            APPLY,
        ),
        ("force on a merge", f"PATCH {CORE}/configmaps/a?force=true", {}, MERGE),
        ("a Deployment", f"POST {APPS}/deployments", DEPLOYMENT, JSON),
        (
            "strategic by name",
            f"PATCH {APPS}/deployments/d",
            {"spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]}}}},
            STRATEGIC,
        ),
        (
            "strategic adds a container",
            f"PATCH {APPS}/deployments/d",
            {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "i"}]}}}},
            STRATEGIC,
        ),
        (
            "strategic removes a container",
            f"PATCH {APPS}/deployments/d",
            {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}},
            STRATEGIC,
        ),
        (
            "strategic without the key",
            f"PATCH {APPS}/deployments/d",
            {"spec": {"template": {"spec": {"containers": [{"image": "i"}]}}}},
            STRATEGIC,
        ),
        (
            "merge replaces a list",
            f"PATCH {APPS}/deployments/d?dryRun=All",
            {"spec": {"template": {"spec": {"containers": [{"name": "x", "image": "i"}]}}}},
            MERGE,
        ),
        (
            "the selector cannot change",
            f"PATCH {APPS}/deployments/d",
            {"spec": {"selector": {"matchLabels": {"a": "c"}}}},
            MERGE,
        ),
        ("status through the main resource", f"PATCH {APPS}/deployments/d", {"status": {"replicas": 7}}, MERGE),
        ("scale", f"GET {APPS}/deployments/d/scale", None, JSON),
        ("scale to nothing said", f"PATCH {APPS}/deployments/d/scale", {"spec": {}}, MERGE),
        ("scale below zero", f"PATCH {APPS}/deployments/d/scale", {"spec": {"replicas": -1}}, MERGE),
        ("scale to a word", f"PATCH {APPS}/deployments/d/scale", {"spec": {"replicas": "0"}}, MERGE),
        ("scale to a fraction", f"PATCH {APPS}/deployments/d/scale", {"spec": {"replicas": 0.5}}, MERGE),
        ("scale with a strategic patch", f"PATCH {APPS}/deployments/d/scale", {"spec": {"replicas": 0}}, STRATEGIC),
        ("scale none", f"PATCH {APPS}/deployments/none/scale", {"spec": {"replicas": 0}}, MERGE),
        ("delete a scale", f"DELETE {APPS}/deployments/d/scale", None, JSON),
        (
            "a budget",
            "POST /apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
            {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
            JSON,
        ),
        (
            "strategic on what is replaced as a whole",
            "PATCH /apis/policy/v1/namespaces/{ns}/poddisruptionbudgets/b",
            {"spec": {"selector": {"matchLabels": {"c": "d"}}}},
            STRATEGIC,
        ),
    ],
    "workloads": [
        ("a Deployment", f"POST {APPS}/deployments?dryRun=All", DEPLOYMENT, JSON),
        *tries(
            f"{APPS}/deployments",
            DEPLOYMENT,
            [
                ("spec.template.metadata.labels", {"x": "y"}),
                (f"{C0}.name", True),
                (f"{C0}.name", "A_b"),
                (f"{C0}.name", "off"),
                (f"{C0}.image", ""),
                (f"{C0}.image", " i"),
                (f"{C0}.command", "sh -c x"),
                (f"{C0}.args", [0]),
                (f"{C0}.env", [{"name": "A", "value": 1}]),
                (f"{C0}.env", [{"value": "1"}]),
                (f"{C0}.env", [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
                (f"{C0}.env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}}]),
                (f"{C0}.imagePullPolicy", "Sometimes"),
                (f"{C0}.ports", [{"containerPort": 0}]),
                (f"{C0}.ports", [{"containerPort": 70000}]),
                (f"{C0}.resources", {"limits": {"nvidia.com/gpu": "1"}}),
                (f"{C0}.resources", {"requests": {"nvidia.com/gpu": "1"}}),
                (f"{C0}.resources", {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}),
                (f"{C0}.resources", {"limits": {"nvidia.com/gpu": "0.5"}}),
                (f"{C0}.resources", {"limits": {"cpu": "x"}}),
                (f"{C0}.resources", {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
                (f"{C0}.resources", {"limits": {"gpu": "1"}}),
                (f"{C0}.resources", {"limits": {"memory": "-1"}}),
                (f"{C0}.volumeMounts", [{"name": "v", "mountPath": "/v"}]),
                (f"{C0}.livenessProbe", {"httpGet": {"path": "/", "port": 0}}),
                (f"{C0}.livenessProbe", {"periodSeconds": 5}),
                (f"{C0}.securityContext", {"runAsUser": -1}),
                ("spec.template.spec.containers", []),
                ("spec.template.spec.containers", None),
                ("spec.template.spec.restartPolicy", "Never"),
                ("spec.template.spec.nodeSelector", {"a": "b c"}),
                ("spec.template.spec.terminationGracePeriodSeconds", -1),
                ("spec.template.spec.tolerations", [{"key": "a", "operator": "Is"}]),
                ("spec.template.spec.tolerations", [{"operator": "Exists", "value": "x"}]),
                ("spec.template.spec.tolerations", [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]),
                ("spec.template.spec.volumes", [{"name": "v"}, {"name": "v"}]),
                ("spec.template.spec.dnsPolicy", "None"),
                ("spec.template.spec.hostNetwork", "yes"),
                ("spec.replicas", -1),
                ("spec.replicas", "1"),
                ("spec.replicas", 1.5),
                ("spec.selector", None),
                ("spec.selector", {}),
                ("spec.selector", {"matchExpressions": [{"key": "a", "operator": "In"}]}),
                ("spec.strategy", {"type": "Fast"}),
                ("spec.strategy", {"type": "Recreate", "rollingUpdate": {}}),
                ("spec.strategy", {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
                ("spec.strategy", {"rollingUpdate": {"maxSurge": "10"}}),
                ("spec.minReadySeconds", -1),
                ("spec.progressDeadlineSeconds", 5),
                ("spec.revisionHistoryLimit", -1),
                ("metadata.name", "D"),
            ],
        ),
        *tries(
            f"{APPS}/deployments", DEPLOYMENT, [("spec.wrong", 1), (f"{C0}.imag", "x")], also="&fieldValidation=Strict"
        ),
        *tries(
            f"{APPS}/statefulsets",
            changed(DEPLOYMENT | {"kind": "StatefulSet"}, "spec.serviceName", "s"),
            [("metadata.name", "s"), ("spec.podManagementPolicy", "Some"), ("spec.updateStrategy", {"type": "Never"})],
        ),
        *tries(
            f"{APPS}/daemonsets",
            changed(DEPLOYMENT | {"kind": "DaemonSet"}, "spec.replicas", None),
            [("metadata.name", "s"), ("spec.updateStrategy", {"type": "Never"})],
        ),
    ],
    "jobs": [
        *tries(
            f"{BATCH}/jobs",
            JOB,
            [
                ("metadata.name", "ok"),
                ("spec.template.spec.restartPolicy", "Always"),
                ("spec.template.spec.restartPolicy", None),
                ("spec.backoffLimit", -1),
                ("spec.parallelism", -1),
                ("spec.completions", -1),
                ("spec.activeDeadlineSeconds", -1),
                ("spec.activeDeadlineSeconds", "10"),
                ("spec.ttlSecondsAfterFinished", -1),
                ("spec.completionMode", "Both"),
                ("spec.completionMode", "Indexed"),
                ("spec.selector", {"matchLabels": {"a": "b"}}),
                ("spec.podFailurePolicy", {"rules": [{"action": "Stop"}]}),
                ("spec.podReplacementPolicy", "Never"),
                ("metadata.name", "n" * 64),
                ("metadata.name", "a.b"),
                ("spec.suspend", "yes"),
                ("spec.manualSelector", True),
                ("spec.backoffLimitPerIndex", 1),
            ],
        ),
        *tries(
            f"{BATCH}/cronjobs",
            CRONJOB,
            [
                ("metadata.name", "ok"),
                ("spec.schedule", "0 25 * * *"),
                ("spec.schedule", ""),
                ("spec.schedule", "@daily"),
                ("spec.schedule", "0 3 * * MON-FRI"),
                ("spec.schedule", "0 3 * *"),
                ("spec.schedule", "TZ=UTC 0 3 * * *"),
                ("spec.schedule", "0 3 * * 7"),
                ("spec.schedule", "60 3 * * *"),
                ("spec.schedule", "* * * * * *"),
                ("spec.timeZone", "Mars/Base"),
                ("spec.timeZone", ""),
                ("spec.timeZone", "Local"),
                ("spec.timeZone", "Europe/Berlin"),
                ("spec.timeZone", "europe/berlin"),
                ("spec.concurrencyPolicy", "Never"),
                ("spec.concurrencyPolicy", "Replace"),
                ("spec.startingDeadlineSeconds", -1),
                ("spec.successfulJobsHistoryLimit", -1),
                ("spec.suspend", "false"),
                ("metadata.name", "n" * 53),
                ("metadata.name", "n" * 52),
                ("spec.jobTemplate", {}),
                ("spec.jobTemplate.spec.template.spec.restartPolicy", "Always"),
            ],
        ),
        ("a CronJob", f"POST {BATCH}/cronjobs", CRONJOB, JSON),
        ("patch it to what it is", f"PATCH {BATCH}/cronjobs/off", {"spec": {"suspend": True}}, MERGE),
        ("patch the schedule", f"PATCH {BATCH}/cronjobs/off", {"spec": {"schedule": "every night"}}, MERGE),
        ("an old version", "GET /apis/batch/v1beta1/cronjobs", None, JSON),
    ],
    "pods": [
        *tries(
            f"{CORE}/pods",
            POD,
            [
                ("metadata.name", "ok"),
                ("spec.serviceAccountName", "nobody"),
                ("spec.priorityClassName", "nope"),
                ("spec.priority", 7),
                ("spec.containers.0.image", "Bad Image"),
                ("spec.restartPolicy", "Maybe"),
                ("spec.containers.0.resources", {"requests": {"nvidia.com/gpu": "1"}}),
                ("spec.containers", [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]),
                ("spec.initContainers", [{"name": "c", "image": "i"}]),
                ("spec.activeDeadlineSeconds", 0),
                ("spec.ephemeralContainers", [{"name": "e", "image": "i"}]),
                ("metadata.name", "p" * 254),
                ("metadata.generateName", "g-"),
                ("spec.nodeName", "a b"),
            ],
        ),
        ("logs of none", f"GET {CORE}/pods/none/log", None, JSON),
        (
            "evict none",
            f"POST {CORE}/pods/none/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "none", "namespace": "{ns}"}},
            JSON,
        ),
        (
            "a pod",
            f"POST {CORE}/pods",
            changed(POD, "spec.schedulingGates", [{"name": "example.com/wait"}])
            | {"spec": {**POD_SPEC, "schedulingGates": [{"name": "example.com/wait"}]}},
            JSON,
        ),
        (
            "its image may change",
            f"PATCH {CORE}/pods/p",
            {"spec": {"containers": [{"name": "c", "image": "registry.local/curl:1"}]}},
            STRATEGIC,
        ),
        (
            "its command may not",
            f"PATCH {CORE}/pods/p",
            {"spec": {"containers": [{"name": "c", "command": ["x"]}]}},
            STRATEGIC,
        ),
        (
            "no containers are added",
            f"PATCH {CORE}/pods/p",
            {"spec": {"containers": [{"name": "d", "image": "x"}]}},
            STRATEGIC,
        ),
        (
            "bind to a node while gated",
            f"POST {CORE}/pods/p/binding",
            {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}},
            JSON,
        ),
        (
            "eviction of another name",
            f"POST {CORE}/pods/p/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "q", "namespace": "{ns}"}},
            JSON,
        ),
        (
            "eviction, dry run",
            f"POST {CORE}/pods/p/eviction?dryRun=All",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "{ns}"}},
            JSON,
        ),
        ("status with a bad phase type", f"PATCH {CORE}/pods/p/status", {"status": {"phase": 1}}, MERGE),
        ("exec without a command", f"POST {CORE}/pods/none/exec", None, JSON),
        ("delete at once", f"DELETE {CORE}/pods/p?gracePeriodSeconds=0", None, JSON),
        ("delete with a negative grace", f"DELETE {CORE}/pods/p?gracePeriodSeconds=-1", None, JSON),
    ],
    # What becomes part of a path.
    "paths": [
        (
            "a name made from what can be no path",
            f"POST {CORE}/replicationcontrollers?dryRun=All",
            {
                "apiVersion": "v1",
                "kind": "ReplicationController",
                "metadata": {"name": "v", "generateName": "a/b"},
                "spec": {
                    "selector": {"a": "b"},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                },
            },
            JSON,
        ),
        *[
            (
                f"a Job managed by {text[:16]!r}",
                f"POST {BATCH}/jobs?dryRun=All",
                changed(MANAGED, "spec.managedBy", text),
                JSON,
            )
            for text in (
                "",
                "x",
                "a/",
                "/b",
                "a b/c",
                "a.io/f o",
                "A.io/x",
                "a.io/b?",
                "a.io/" + "x" * 59,
                "a b/" + "?" * 60,
            )
        ],
        *[
            (f"RuntimeClass {text}", f"POST {CORE}/pods?dryRun=All", changed(POD, "spec.runtimeClassName", text), JSON)
            for text in ("a/b", "..", ".", "a%b", "%/", "Ab", "")
        ],
    ],
    # kubectl 1.20 evicts by the version that is no longer served.
    "evictions": [
        (
            "a pod",
            f"POST {CORE}/pods",
            changed(POD, "spec.automountServiceAccountToken", False),
            JSON,
        ),
        *[
            (
                f"{version or 'no version'}, {about}",
                f"POST {CORE}/pods/p/eviction?dryRun=All{how}",
                eviction(version) | more,
                JSON,
            )
            for version in ("policy/v1beta1", "policy/v1", "policy/v1alpha1", "")
            for about, how, more in (
                ("as it is", "", {}),
                ("more, warned of", "", {"spec": {}}),
                ("more, refused", "&fieldValidation=Strict", {"spec": {}}),
                ("of another kind", "", {"kind": "Banishment"}),
                ("another name", "", {"metadata": {"name": "q"}}),
            )
        ],
        ("at once", f"POST {CORE}/pods/p/eviction", eviction("policy/v1beta1") | {"deleteOptions": NOW}, JSON),
        ("it has gone", f"GET {CORE}/pods/p", None, JSON),
    ],
    "lists": [
        ("one", f"POST {CORE}/configmaps", changed(configmap("l1", x="1"), "metadata.labels", {"k": "1"}), JSON),
        ("two", f"POST {CORE}/configmaps", changed(configmap("l2", x="1"), "metadata.labels", {"k": "2"}), JSON),
        *[
            (f"labels {selector}", f"GET {CORE}/configmaps?labelSelector={selector}", None, JSON)
            for selector in (
                "k",
                "k=1",
                "k==2",
                "k!=1,k",
                "k%20in%20(1,2)",
                "k%20notin%20(1),k",
                "a%20in%20(b",
                "k=a%20b",
                "=1",
                "k%3E0",
                "k%20exists",
                "k%3Dx%3Dy",
            )
        ],
        *[
            (f"fields {selector}", f"GET {CORE}/{kind}?fieldSelector={selector}", None, JSON)
            for kind, selector in (
                ("configmaps", "metadata.name=l1"),
                ("configmaps", "metadata.name!=l1,metadata.name!=kube-root-ca.crt"),
                ("configmaps", "data.x=1"),
                ("pods", "spec.nope=1"),
                ("pods", "status.phase=Running"),
                ("pods", "spec.nodeName="),
                ("events", "involvedObject.kind=Pod"),
                ("secrets", "type=Opaque"),
                ("configmaps", "metadata.name"),
                ("configmaps", "metadata.name%3E1"),
            )
        ],
        ("first page", f"GET {CORE}/configmaps?limit=1&labelSelector=k", None, JSON),
        ("a bad limit", f"GET {CORE}/configmaps?limit=x", None, JSON),
        ("a bad continue", f"GET {CORE}/configmaps?limit=1&continue=xyz", None, JSON),
        ("a bad resourceVersion", f"GET {CORE}/configmaps?resourceVersion=abc", None, JSON),
        ("a match without a version", f"GET {CORE}/configmaps?resourceVersionMatch=Exact", None, JSON),
        ("a bad match", f"GET {CORE}/configmaps?resourceVersion=1&resourceVersionMatch=Most", None, JSON),
        ("delete many", f"DELETE {CORE}/configmaps?labelSelector=k", None, JSON),
        ("none left", f"GET {CORE}/configmaps?labelSelector=k", None, JSON),
    ],
    "policies": [
        *tries(
            f"{RBAC}/roles",
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": []},
            [
                ("rules", [{"verbs": ["get"]}]),
                ("rules", [{"verbs": [], "resources": ["pods"], "apiGroups": [""]}]),
                ("rules", [{"verbs": ["get"], "resources": ["pods"], "apiGroups": [""]}]),
                ("rules", [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]),
                ("metadata.name", "a:b"),
                ("metadata.name", "a/b"),
            ],
        ),
        *tries(
            f"{RBAC}/rolebindings",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "r"},
                "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
            },
            [
                ("metadata.name", "ok"),
                ("roleRef.kind", "User"),
                ("roleRef.name", ""),
                ("subjects", [{"kind": "ServiceAccount", "name": "s"}]),
                ("subjects", [{"kind": "Robot", "name": "s"}]),
                ("subjects", [{"kind": "User", "name": "u"}]),
            ],
        ),
        *tries(
            f"{CORE}/resourcequotas",
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}},
            [
                ("spec.hard", {"pods": "0", "requests.nvidia.com/gpu": "1"}),
                ("spec.hard", {"nonsense": "1"}),
                ("spec.hard", {"pods": "-1"}),
                ("spec.hard", {"limits.nvidia.com/gpu": "1"}),
                ("spec.scopes", ["Odd"]),
            ],
        ),
        *tries(
            f"{CORE}/limitranges",
            {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}},
            [
                ("spec.limits", [{"type": "Container", "default": {"cpu": "1"}}]),
                ("spec.limits", [{"type": "Odd"}]),
                ("spec.limits", [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]),
            ],
        ),
        *tries(
            "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {}},
            [
                ("spec", {"minAvailable": 1, "maxUnavailable": 1}),
                ("spec", {"minAvailable": "150%", "selector": {}}),
                ("spec", {"minAvailable": -1}),
                ("spec", {"unhealthyPodEvictionPolicy": "Never"}),
                ("spec", {}),
            ],
        ),
        *tries(
            "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers",
            {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "h"},
                "spec": {
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                    "maxReplicas": 3,
                },
            },
            [
                ("spec.minReplicas", 1),
                ("spec.minReplicas", 0),
                ("spec.minReplicas", 5),
                ("spec.maxReplicas", 0),
                ("spec.scaleTargetRef", {}),
                ("spec.metrics", [{"type": "Odd"}]),
            ],
        ),
        *tries(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "cf"}, "value": 1},
            [("value", 2000000000), ("preemptionPolicy", "Always"), ("metadata.name", "system-x")],
        ),
        *tries(
            "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies",
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": "n"},
                "spec": {"podSelector": {}},
            },
            [
                ("spec.policyTypes", ["Egress"]),
                ("spec.policyTypes", ["Sideways"]),
                ("spec.egress", [{"to": [{"ipBlock": {"cidr": "10.0.0.0"}}]}]),
            ],
        ),
        *[
            (
                f"may {user} {verb} {resource}",
                "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SubjectAccessReview",
                    "spec": {
                        "user": user,
                        "resourceAttributes": {"verb": verb, "resource": resource, "namespace": "{ns}"},
                    },
                },
                JSON,
            )
            for user, verb, resource in (
                ("nobody", "get", "pods"),
                ("system:kube-scheduler", "list", "pods"),
                ("system:serviceaccount:{ns}:default", "patch", "deployments"),
            )
        ],
        (
            "may I",
            "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
            },
            JSON,
        ),
        (
            "may nobody",
            "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
            },
            JSON,
        ),
        (
            "may who do what",
            "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
            {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "u"}},
            JSON,
        ),
        (
            "a token for none",
            f"POST {CORE}/serviceaccounts/nobody/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
            JSON,
        ),
        (
            "a token for a minute",
            f"POST {CORE}/serviceaccounts/default/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 60}},
            JSON,
        ),
        (
            "a review of nothing",
            "POST /apis/authentication.k8s.io/v1/tokenreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {}},
            JSON,
        ),
        (
            "a review of garbage",
            "POST /apis/authentication.k8s.io/v1/tokenreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "garbage"}},
            JSON,
        ),
    ],
    "customs": [
        (
            "rules that are none",
            f"POST {CRDS}",
            changed(POOL_CRD, "spec.versions.0.schema.openAPIV3Schema.x-kubernetes-validations", [{"rule": " "}]),
            JSON,
        ),
        ("a definition", f"POST {CRDS}", POOL_CRD, JSON),
        ("a rule of the whole", f"POST {POOLS}", pool("bad"), JSON),
        ("rules of a spec and of a field", f"POST {POOLS}", pool(replicas=-1, max=-3), JSON),
        (
            "four rules at once",
            f"POST {POOLS}",
            pool(replicas=5, max=3, memory="2Gi", tags=[{"key": "kubernetes.io/x"}, {"key": "A1"}]),
            JSON,
        ),
        ("what the schema refuses is not asked", f"POST {POOLS}", pool(replicas="x"), JSON),
        ("none of the values", f"POST {POOLS}", pool(zone="x"), JSON),
        ("a field is missing", f"POST {POOLS}", pool(tags=[{}]), JSON),
        ("a bad name", f"POST {POOLS}", pool("A_"), JSON),
        ("a good one", f"POST {POOLS}", pool(replicas=10, zone="z"), JSON),
        ("a transition", f"PATCH {POOLS}/a", {"spec": {"replicas": 1}}, MERGE),
        ("an immutable field", f"PATCH {POOLS}/a", {"spec": {"zone": "y"}}, MERGE),
        ("a rule that fails to evaluate", f"PATCH {POOLS}/a", {"spec": {"memory": "junk"}}, MERGE),
        ("unknown, warned", f"PATCH {POOLS}/a", {"spec": {"wrong": 1}}, MERGE),
        ("unknown, strict", f"PATCH {POOLS}/a?fieldValidation=Strict", {"spec": {"wrong": 1}}, MERGE),
        ("a wrong type", f"PATCH {POOLS}/a", {"spec": {"max": "x"}}, MERGE),
        ("a bad label", f"PATCH {POOLS}/a", {"metadata": {"labels": {"a b": "c"}}}, MERGE),
        ("strategic", f"PATCH {POOLS}/a", {"spec": {}}, STRATEGIC),
        ("without the field no rule", f"PATCH {POOLS}/a", {"spec": {"zone": None}}, MERGE),
        ("a rule through scale", f"PATCH {POOLS}/a/scale", {"spec": {"replicas": 1}}, MERGE),
        ("scale", f"PATCH {POOLS}/a/scale", {"spec": {"replicas": 8}}, MERGE),
        ("no such subresource", f"GET {POOLS}/a/nope", None, JSON),
        ("POST on a name", f"POST {POOLS}/a", pool(), JSON),
        ("PATCH on a collection", f"PATCH {POOLS}", {}, MERGE),
        ("another version of the group", "GET /apis/conformance.example.com/v2/pools", None, JSON),
        ("another resource of the group", "GET /apis/conformance.example.com/v1/nopes", None, JSON),
        ("an update without a version", f"PUT {POOLS}/a", pool(), JSON),
        ("another type", f"POST {POOLS}", configmap("b"), JSON),
        ("status", f"PATCH {POOLS}/a/status", {"status": {"replicas": 3}, "spec": {"replicas": 9}}, MERGE),
        ("a bad status", f"PATCH {POOLS}/a/status", {"status": {"replicas": "x"}}, MERGE),
        ("delete", f"DELETE {POOLS}/a", None, JSON),
    ],
    "connects": [
        ("a pod on a node that nobody has", f"POST {CORE}/pods", POD, JSON),
        (
            "a pod that nobody schedules",
            f"POST {CORE}/pods",
            changed(
                changed(changed(POD, "metadata.name", "q"), "spec.nodeName", None),
                "spec.schedulingGates",
                [{"name": "a.b/c"}],
            ),
            JSON,
        ),
        (
            "two containers",
            f"POST {CORE}/pods",
            changed(
                changed(
                    changed(changed(POD, "metadata.name", "two"), "spec.nodeName", None),
                    "spec.schedulingGates",
                    [{"name": "a.b/c"}],
                ),
                "spec.containers",
                [{"name": "a", "image": "a"}, {"name": "b", "image": "b"}],
            ),
            JSON,
        ),
        *(
            (f"{what}, {why}", f"{method} {CORE}/pods/{pod}/{what}?{query}", None, JSON)
            for what, query in (
                ("exec", "command=x&stdout=true"),
                ("attach", "stdout=true"),
                ("portforward", "ports=80"),
            )
            for method, pod, why in (
                ("GET", "p", "no such node"),
                ("POST", "p", "no such node, by POST"),
                ("GET", "q", "not scheduled"),
                ("GET", "nope", "no such pod"),
                ("PUT", "p", "by PUT"),
                ("DELETE", "p", "by DELETE"),
            )
        ),
        (
            "exec in a container that is not there",
            f"GET {CORE}/pods/q/exec?command=x&container=z&stdout=true",
            None,
            JSON,
        ),
        ("exec in one of two", f"GET {CORE}/pods/two/exec?command=x&stdout=true", None, JSON),
        ("attach to one of two", f"GET {CORE}/pods/two/attach?stdout=true", None, JSON),
        ("exec with a flag that is none", f"GET {CORE}/pods/q/exec?command=x&stdout=maybe", None, JSON),
        ("a port that is none", f"GET {CORE}/pods/q/portforward?ports=x", None, JSON),
        *(
            (f"log, {about}", f"GET {CORE}/pods/q/log?{query}", None, JSON)
            for about, query in (
                ("of nobody's node", ""),
                ("one stream", "stream=Stdout"),
                ("all streams", "stream=All"),
                ("a stream that is none", "stream=Some"),
                ("the tail of a stream", "stream=Stderr&tailLines=1"),
            )
        ),
        ("log, no such node", f"GET {CORE}/pods/p/log", None, JSON),
        ("Endpoints are deprecated", f"GET {CORE}/endpoints", None, JSON),
        ("one of them, too", f"GET {CORE}/endpoints/nope", None, JSON),
        (
            "and their creation",
            f"POST {CORE}/endpoints",
            {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"}},
            JSON,
        ),
        (
            "their slices are not",
            "GET /apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices?labelSelector=none",
            None,
            JSON,
        ),
        (
            "resize, another class",
            f"PATCH {CORE}/pods/q/resize",
            {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]}},
            STRATEGIC,
        ),
        (
            "a claim is protected",
            f"POST {CORE}/persistentvolumeclaims",
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "v"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": "none",
                },
            },
            JSON,
        ),
    ],
    "roles": [
        *(
            (f"the role {name}", f"GET /apis/rbac.authorization.k8s.io/v1/clusterroles/{name}", None, JSON)
            for name in (
                "view",
                "edit",
                "admin",
                "cluster-admin",
                "system:node",
                "system:controller:job-controller",
                "system:controller:horizontal-pod-autoscaler",
                "system:kube-controller-manager",
            )
        ),
        *(
            (f"the binding {name}", f"GET /apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}", None, JSON)
            for name in ("system:controller:cronjob-controller", "system:public-info-viewer", "system:node")
        ),
        *(
            (
                f"the {plural} of {space}",
                f"GET /apis/rbac.authorization.k8s.io/v1/namespaces/{space}/{plural}?"
                "labelSelector=kubernetes.io%2Fbootstrapping%3Drbac-defaults",
                None,
                JSON,
            )
            for space, plural in (("kube-system", "roles"), ("kube-public", "rolebindings"))
        ),
        *_may("system:serviceaccount:kube-system:", _OF_CONTROLLERS),
        *_may("", _OF_COMPONENTS),
    ],
    "applies": [
        *_applies(
            "deployments",
            f"{APPS}/deployments/d",
            [
                (
                    "one",
                    _deployment(nodeSelector={"a": "b"}, imagePullSecrets=[{"name": "x"}], tolerations=[{"key": "k"}]),
                ),
                ("another", {"metadata": {"labels": {"c": "d"}}, "spec": {"replicas": 1}}),
                ("another", {"spec": {"template": {"spec": {"nodeSelector": {"e": "f"}}}}}),
                ("one", _deployment(nodeSelector={}, env=[{"name": "B", "value": "2"}])),
                ("one", {"metadata": {"labels": {"a": "b"}, "annotations": {}}, **_deployment()}),
                ("one", _deployment()),
            ],
        ),
        *_applies(
            "configmaps",
            f"{CORE}/configmaps/m",
            [
                ("one", {"data": {"x": "1", "y": "2"}, "metadata": {"labels": {"a": "b"}, "finalizers": ["a.b/c"]}}),
                ("another", {"data": {"x": "1"}}),
                ("another", {"data": {"x": "2"}}),
                ("another", {"data": {}}),
                ("one", {"data": {}}),
                ("one", {}),
                ("another", {"data": {"z": "1"}}),
                ("another", {}),
            ],
        ),
        *_applies(
            "serviceaccounts",
            f"{CORE}/serviceaccounts/s",
            [
                ("one", {"imagePullSecrets": [{"name": "x"}], "secrets": [{"name": "yy"}, {"name": "zz"}]}),
                ("another", {"imagePullSecrets": [{"name": "y"}]}),
                ("one", {"secrets": [{"name": "zz"}]}),
            ],
        ),
        *_applies(
            "networkpolicies",
            "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies/n",
            [
                ("one", {"spec": {"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Egress"]}}),
                ("another", {"spec": {"podSelector": {"matchLabels": {"c": "d"}}}}),
            ],
        ),
        (
            "an update between",
            f"PATCH {APPS}/deployments/d?fieldManager=third",
            {
                "spec": {
                    "template": {
                        "spec": {"nodeSelector": {"g": "h"}, "tolerations": None, "imagePullSecrets": [{"name": "z"}]}
                    }
                }
            },
            MERGE,
        ),
        (
            "and one again",
            f"PATCH {APPS}/deployments/d?fieldManager=one",
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d"},
                **_deployment(nodeSelector={"i": "j"}),
            },
            APPLY,
        ),
        (
            "without a name",
            f"PATCH {CORE}/configmaps/m?fieldManager=one",
            {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}},
            APPLY,
        ),
        (
            "without a name, a new one",
            f"PATCH {CORE}/configmaps/new?fieldManager=one",
            {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}},
            APPLY,
        ),
    ],
    "components": [
        ("the store's health", "GET /api/v1/componentstatuses/etcd-0", None, JSON),
        ("the scheduler's", "GET /api/v1/componentstatuses/scheduler", None, JSON),
        ("nobody's", "GET /api/v1/componentstatuses/nope", None, JSON),
        ("by its name", "GET /api/v1/componentstatuses?fieldSelector=metadata.name%3Dcontroller-manager", None, JSON),
        ("by a label", "GET /api/v1/componentstatuses?labelSelector=a%3Db", None, JSON),
        ("by a field that is none", "GET /api/v1/componentstatuses?fieldSelector=spec.x%3Db", None, JSON),
        *(
            (f"{method} of one", f"{method} /api/v1/componentstatuses/etcd-0", {}, MERGE if method == "PATCH" else JSON)
            for method in ("PUT", "PATCH", "DELETE")
        ),
        ("watched", "GET /api/v1/componentstatuses?watch=1", None, JSON),
        ("created", "POST /api/v1/componentstatuses", {}, JSON),
        ("deleted", "DELETE /api/v1/componentstatuses", None, JSON),
        ("in a namespace", f"GET {CORE}/componentstatuses", None, JSON),
        ("in a namespace, one", f"GET {CORE}/componentstatuses/etcd-0", None, JSON),
        ("a status of one", "GET /api/v1/componentstatuses/etcd-0/status", None, JSON),
    ],
    "mutations": [
        ("what a policy asks for", f"POST {CORE}/configmaps", configmap("parameters", team="gpu"), JSON),
        *_policies(),
        *(
            (
                f"a pod, {name}",
                f"POST {CORE}/pods?dryRun=All",
                changed(changed(POD, "metadata.name", name), "spec.automountServiceAccountToken", False),
                JSON,
            )
            for name in ("side", "image", "atomic", "ignored", "p")
        ),
        *(
            (f"a ConfigMap, {name}", f"POST {CORE}/configmaps?dryRun=All", configmap(name, **data), JSON)
            for name, data in (
                ("labels", {"x": "1"}),
                ("patched", {}),
                ("tested", {"x": "1"}),
                ("turns", {}),
                ("varied", {"x": "1"}),
                ("varied", {"x": "1", "y": "2"}),
                ("lacking", {"x": "1"}),
                ("removing", {"x": "1"}),
                ("adding", {}),
                ("replacing", {}),
                ("asked", {}),
            )
        ),
        (
            "a Secret, unasked",
            f"POST {CORE}/secrets?dryRun=All",
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other"}},
            JSON,
        ),
        (
            "one by server-side apply",
            f"PATCH {CORE}/configmaps/labels?dryRun=All&fieldManager=m",
            configmap("labels", x="1"),
            APPLY,
        ),
        (
            "no reinvocationPolicy",
            f"POST {POLICIES}?dryRun=All",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingAdmissionPolicy",
                "metadata": {"name": "x"},
                "spec": {},
            },
            JSON,
        ),
        *tries(
            POLICIES,
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingAdmissionPolicy",
                "metadata": {"name": "x"},
                "spec": {
                    "matchConstraints": {
                        "resourceRules": [
                            {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
                        ]
                    },
                    "mutations": [_mutates("Object{}")],
                    "reinvocationPolicy": "IfNeeded",
                },
            },
            [
                ("metadata.name", "A_"),
                ("spec.reinvocationPolicy", "Often"),
                ("spec.failurePolicy", "Odd"),
                ("spec.matchConstraints.resourceRules", []),
                ("spec.mutations", [{}]),
                ("spec.mutations.0.patchType", "Odd"),
                ("spec.mutations.0.patchType", "JSONPatch"),
                ("spec.mutations.0.applyConfiguration", None),
                ("spec.mutations.0.applyConfiguration", {}),
                ("spec.matchConstraints.resourceRules.0.operations", ["DELETE"]),
                ("spec.matchConstraints.resourceRules.0.operations", []),
                ("spec.mutation", []),
            ],
        ),
        (
            "no policyName",
            f"POST {POLICY_BINDINGS}?dryRun=All",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingAdmissionPolicyBinding",
                "metadata": {"name": "x"},
                "spec": {},
            },
            JSON,
        ),
        *(
            (f"without {name}", f"DELETE {path}/cf-{name}", None, JSON)
            for name in _MUTATIONS
            for path in (POLICY_BINDINGS, POLICIES)
        ),
        ("a status of one", f"GET {POLICIES}/x/status", None, JSON),
    ],
    "services": [
        *tries(
            f"{CORE}/services",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "x"},
                "spec": {"ports": [{"port": 80}], "sessionAffinity": "ClientIP", "type": "ClusterIP"},
            },
            [
                ("spec.ports.0.nodePort", -1),
                ("spec.ports.0.nodePort", 30000),
                ("spec.ports.0.appProtocol", "a b"),
                ("spec.type", "Nope"),
                ("spec.type", "ExternalName"),
                ("spec.sessionAffinity", "Nope"),
                ("spec.sessionAffinityConfig", {"clientIP": {"timeoutSeconds": -3}}),
                ("spec.allocateLoadBalancerNodePorts", True),
                ("spec.loadBalancerClass", "a/b"),
                ("spec.loadBalancerSourceRanges", ["10.0.0.0/8"]),
                ("spec.externalTrafficPolicy", "Local"),
                ("spec.healthCheckNodePort", 3),
                ("spec.internalTrafficPolicy", "x"),
                ("spec.trafficDistribution", "x"),
                ("spec.ipFamilies", ["IPv4", "IPv4"]),
                ("spec.ipFamilies", ["IPv5"]),
                ("spec.ipFamilies", ["IPv6"]),
                ("spec.ipFamilyPolicy", "RequireDualStack"),
                ("spec.externalIPs", ["x", "127.0.0.1"]),
                ("spec.clusterIPs", ["10.96.0.77"]),
            ],
        ),
    ],
    "embedded": [  # a value of another type in a field of a structure that another one embeds
        *tries(
            f"{CORE}/pods",
            POD,
            [
                ("spec.volumes", [{"name": "v", "secret": "x"}]),
                ("spec.volumes", [{"name": "v", "configMap": {"name": 1}}]),
                ("spec.containers.0.livenessProbe", {"exec": "a"}),
                ("spec.containers.0.livenessProbe", {"httpGet": {"port": True}}),
                ("spec.containers.0.env", [{"name": "A", "valueFrom": {"secretKeyRef": {"name": 1}}}]),
                ("spec.containers.0.env", [{"name": "A", "valueFrom": {"secretKeyRef": {"key": 1}}}]),
                ("spec.containers.0.envFrom", [{"secretRef": {"name": 1}}]),
                ("spec.ephemeralContainers", [{"env": [{"name": 1}]}]),
                ("spec.imagePullSecrets", [{"name": 1}]),
            ],
        ),
        *tries(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "x"},
                "webhooks": [{"rules": [{}]}],
            },
            [("webhooks.0.rules.0.resources", "x"), ("webhooks.0.rules.0.operations", "x")],
        ),
    ],
    "hostnetwork": [  # whose ports are filled in in pods, and not in templates
        *tries(
            f"{APPS}/deployments",
            changed(DEPLOYMENT, "spec.template.spec.containers.0.ports", [{"containerPort": 80}]),
            [("spec.template.spec.hostNetwork", True)],
        ),
    ],
    "conditions": [
        *tries(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "x"},
                "webhooks": [
                    {
                        "name": "h.example.com",
                        "clientConfig": {"url": "https://example.com"},
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                        "matchConditions": [{"name": "a", "expression": "true"}],
                    }
                ],
            },
            [
                ("webhooks.0.matchConditions", [{"expression": "true"}]),
                ("webhooks.0.matchConditions", [{"name": "a b", "expression": "nothing"}]),
                ("webhooks.0.matchConditions", [{"name": "a"}, {"name": "a", "expression": "1"}]),
                (
                    "webhooks.0.matchConditions.0.expression",
                    "authorizer.group('').resource('pods').check('get').allowed()",
                ),
            ],
        ),
        *tries(
            "/apis/resource.k8s.io/v1/deviceclasses",
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "x"}, "spec": {}},
            [
                ("spec.extendedResourceName", "Never"),
                ("spec.extendedResourceName", "requests.example.com/gpu"),
                ("spec.extendedResourceName", "example.com/a b"),
                ("spec.selectors", [{}]),
            ],
        ),
    ],
}
