"""Draws of what stands between a request and its object, and of the courses that nodes, claims and budgets take.

As in ``drawing.py``: what has no namespace is called after the sequence's own, and speaks of that namespace alone.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from steps import TABLE, Step, content, create
from vocabulary import APPLY, APPS, BATCH, CORE, JSON_PATCH, MERGE, RBAC, SORTS, STRATEGIC, named, put, value_for

_HERE = {"matchLabels": {"kubernetes.io/metadata.name": "{ns}"}}
_NOWHERE = {"nowhere": "at-all"}
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def _pod(name: str, **spec) -> dict:
    pod = named("pods", name, a="b")
    pod["spec"] |= {"nodeSelector": _NOWHERE} | spec
    return pod


def _deployment(name: str, **spec) -> dict:
    one = named("deployments", name, p="q")
    one["spec"] |= {"paused": True} | spec
    return one


# -- policies ---------------------------------------------------------------------------------------------------------
_EXPRESSIONS = [
    "object.spec.replicas > 0",
    "object.spec.replicas <= 3",
    "!has(object.spec.replicas) || object.spec.replicas >= 1",
    "request.operation != 'UPDATE' || object.spec.replicas == oldObject.spec.replicas",
    "request.userInfo.username.startsWith('kubernetes-')",
    "request.userInfo.groups.exists(g, g == 'system:masters')",
    "request.namespace == '{ns}' && request.name != 'b'",
    "request.kind.kind == 'Scale' || request.resource.resource == 'deployments'",
    "request.subResource == ''",
    "request.dryRun",
    "object.metadata.labels.p == 'q'",
    "'p' in object.metadata.labels",
    "has(object.metadata.labels) && object.metadata.labels.all(k, k != 'bad')",
    "object.spec.template.spec.containers.all(c, c.image.matches('^registry.local/'))",
    "object.spec.template.spec.containers[0].resources.limits['nvidia.com/gpu'] != '8'",
    "quantity(object.spec.template.spec.containers[0].resources.limits.memory).isGreaterThan(quantity('64Mi'))",
    "namespaceObject.metadata.name.endsWith('a')",
    "variables.few",
    "variables.names.join(',').size() > 0",
    "authorizer.group('apps').resource('deployments').namespace('{ns}').check('delete').allowed()",
    "authorizer.serviceAccount('{ns}', 'default').group('').resource('pods').check('get').allowed()",
    "params == null",
    "object.spec.strategy.type in ['Recreate', 'RollingUpdate']",
    "oldObject == null || oldObject.metadata.uid == object.metadata.uid",
    "object.?spec.?replicas.orValue(1) > 0",
    "[1, 2].map(x, x * 2).sum() == 6",
    "object.metadata.name.lowerAscii().split('-')[0].size() < 5",
    "duration('1h') < duration('61m')",
    "timestamp('2026-01-01T00:00:00Z').getHours() == 0",
    "url('https://a.b/c').getHost() == 'a.b'",
    "isQuantity('1Gi') && ip.isCanonical('10.0.0.1')",
    "object.spec.replicas / 0 > 1",
    "dyn(object.spec.replicas) == 'x'",
]
_BROKEN = [
    "request.",
    "object.",
    "object.spec.replicas >",
    "requests.name == 'a'",
    "request.nothing",
    "variables.none",
    "x",
]


def policies(rng) -> Iterator[Step]:
    """Admission policies in CEL over one namespace, and what is asked under them."""
    validation = {"expression": rng.choice(_EXPRESSIONS)} | rng.choice(
        [
            {},
            {},
            {"message": "no"},
            {"messageExpression": "'it has ' + string(object.spec.replicas)"},
            {"messageExpression": "object.metadata.nothing", "message": "fallback"},
            {"reason": rng.choice(["Forbidden", "Unauthorized", "Invalid", "RequestEntityTooLarge"])},
        ]
    )
    spec: dict = {
        "failurePolicy": rng.choice(["Fail", "Fail", "Ignore"]),
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["apps"],
                    "apiVersions": ["v1"],
                    "operations": rng.choice([["CREATE", "UPDATE"], ["*"], ["UPDATE"], ["DELETE", "UPDATE"]]),
                    "resources": rng.choice(
                        [["deployments"], ["deployments/scale"], ["*", "*/*"], ["deployments", "deployments/*"]]
                    ),
                }
            ]
        },
        "variables": [
            {"name": "few", "expression": "object.spec.replicas < 3"},
            {"name": "names", "expression": "object.spec.template.spec.containers.map(c, c.name)"},
        ],
        "validations": [validation, *rng.choice([[], [], [{"expression": rng.choice(_EXPRESSIONS)}]])],
    }
    if rng.random() < 0.3:
        spec["matchConditions"] = [{"name": "some", "expression": rng.choice(_EXPRESSIONS)}]
    if rng.random() < 0.2:
        spec["auditAnnotations"] = [{"key": "k", "valueExpression": "'v'"}]
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p.{ns}"},
        "spec": spec,
    }
    broken = copy.deepcopy(policy)
    put(
        broken["spec"],
        rng.choice(["validations.0.expression", "validations.0.messageExpression", "variables.0.expression"]),
        rng.choice(_BROKEN),
    )
    yield Step(f"POST {_ADMISSION}/validatingadmissionpolicies?dryRun=All", broken)
    yield Step(f"POST {_ADMISSION}/validatingadmissionpolicies", policy)
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b.{ns}"},
        "spec": {
            "policyName": "p.{ns}",
            "validationActions": rng.choice(
                [["Deny"], ["Deny"], ["Warn"], ["Warn", "Audit"], ["Audit"], ["Deny", "Audit"]]
            ),
            "matchResources": {"namespaceSelector": _HERE},
        },
    }
    yield Step(f"POST {_ADMISSION}/validatingadmissionpolicybindings", binding)
    yield Step("WAIT 4")
    yield create("deployments", _deployment("a"), rng.choice(["", "", "?dryRun=All"]))
    url = SORTS["deployments"].url
    for _ in range(7):
        replicas = rng.choice([0, 1, 2, 5])
        name = rng.choice(["a", "a", "b"])
        yield rng.choice(
            [
                Step(f"PATCH {url}/{name}/scale", {"spec": {"replicas": replicas}}, content(MERGE)),
                Step(f"PATCH {url}/{name}", {"spec": {"replicas": replicas}}, content(MERGE)),
                Step(
                    f"PATCH {url}/{name}?dryRun=All",
                    {"metadata": {"labels": {"p": rng.choice(["q", "x", None])}}},
                    content(MERGE),
                ),
                Step(f"PUT {url}/{name}", _deployment(name, replicas=replicas)),
                Step(f"POST {url}", _deployment("b", replicas=replicas)),
                Step(
                    f"PATCH {url}/{name}?fieldManager=me&force=true",
                    _deployment(name, replicas=replicas),
                    content(APPLY),
                ),
                Step(f"DELETE {url}/{name}"),
                Step(f"DELETE {url}"),
            ]
        )
    yield Step(f"GET {_ADMISSION}/validatingadmissionpolicies/p.{{ns}}")
    yield Step(f"DELETE {_ADMISSION}/validatingadmissionpolicybindings/b.{{ns}}")
    yield Step(f"DELETE {_ADMISSION}/validatingadmissionpolicies/p.{{ns}}")


def hooks(rng) -> Iterator[Step]:
    """Webhooks over one namespace that nobody answers: what they stop, and what they let go."""
    kind = rng.choice(["Validating", "Mutating"])
    url = f"{_ADMISSION}/{kind.lower()}webhookconfigurations"
    hook = {
        "name": "h.example.com",
        "clientConfig": rng.choice(
            [
                {"service": {"name": "s", "namespace": "{ns}"}},
                {"service": {"name": "s", "namespace": "{ns}", "port": 8443, "path": "/x"}},
                {"url": "https://127.0.0.1:1/x"},
                {"service": {"name": "s", "namespace": "no-such-namespace"}},
            ]
        ),
        "rules": [
            {
                "apiGroups": [rng.choice(["*", "apps", "apps"])],
                "apiVersions": ["*"],
                "operations": rng.choice([["*"], ["CREATE"], ["UPDATE"], ["DELETE"], ["CREATE", "UPDATE"]]),
                "resources": [rng.choice(["*", "deployments", "deployments/scale", "*/*", "*/scale"])],
                "scope": rng.choice(["*", "Namespaced"]),
            }
        ],
        "sideEffects": rng.choice(["None", "None", "NoneOnDryRun"]),
        "admissionReviewVersions": ["v1"],
        "failurePolicy": rng.choice(["Fail", "Fail", "Fail", "Ignore"]),
        "namespaceSelector": _HERE,
        "timeoutSeconds": 2,
    }
    if rng.random() < 0.3:
        hook["objectSelector"] = rng.choice(
            [{"matchLabels": {"p": "q"}}, {"matchExpressions": [{"key": "p", "operator": "DoesNotExist"}]}]
        )
    if rng.random() < 0.3:
        hook["matchConditions"] = [
            {
                "name": "some",
                "expression": rng.choice(
                    [
                        "request.operation != 'DELETE'",
                        "object.spec.replicas > 0",
                        "!request.userInfo.username.startsWith('system:')",
                        "has(object.metadata.labels)",
                        "request.subResource == 'scale'",
                        "request.dryRun == true",
                    ]
                ),
            }
        ]
    if rng.random() < 0.3:
        yield create("services", named("services", "s") | {"spec": {"ports": [{"port": 443}]}})
    config = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "h.{ns}"},
    }
    yield create("deployments", _deployment("a"))
    yield Step(f"POST {url}", config | {"webhooks": [hook]})
    yield Step("WAIT 3")
    at = SORTS["deployments"].url
    for _ in range(7):
        replicas = rng.choice([0, 1, 2])
        yield rng.choice(
            [
                Step(
                    f"PATCH {at}/a/scale{rng.choice(['', '?dryRun=All'])}",
                    {"spec": {"replicas": replicas}},
                    content(MERGE),
                ),
                Step(f"PATCH {at}/a", {"spec": {"replicas": replicas}}, content(STRATEGIC)),
                Step(
                    f"PUT {at}/a/scale",
                    {"metadata": {"name": "a", "namespace": "{ns}"}, "spec": {"replicas": replicas}},
                ),
                Step(f"POST {at}", _deployment("b")),
                Step(f"DELETE {at}/a"),
                Step(f"DELETE {at}"),
                Step(f"PATCH {at}/a?fieldManager=me&force=true", _deployment("a", replicas=replicas), content(APPLY)),
                Step(f"POST {CORE}/configmaps", named("configmaps", "c")),
                Step(f"PATCH {at}/a/status", {"status": {"replicas": 1}}, content(MERGE)),
                Step("PATCH /api/v1/namespaces/{ns}", {"metadata": {"labels": {"x": "y"}}}, content(MERGE)),
            ]
        )
    yield Step(f"GET {url}/h.{{ns}}")
    yield Step(f"DELETE {url}/h.{{ns}}")


def security(rng) -> Iterator[Step]:
    """Pod security levels of a namespace, over pods and over what makes them."""
    levels = ["privileged", "baseline", "restricted", "restricted", "No"]
    labels = {
        f"pod-security.kubernetes.io/{mode}": rng.choice(levels)
        for mode in rng.sample(["enforce", "warn", "audit"], k=2)
    }
    if rng.random() < 0.3:
        labels["pod-security.kubernetes.io/enforce-version"] = rng.choice(["latest", "v1.24", "v1.0", "x"])
    yield Step("PATCH /api/v1/namespaces/{ns}", {"metadata": {"labels": labels}}, content(MERGE))
    yield Step("WAIT 1")
    good = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    changes = [
        ("hostNetwork", True),
        ("hostPID", True),
        ("securityContext.runAsUser", 0),
        ("securityContext.seccompProfile", {"type": "Unconfined"}),
        ("securityContext.sysctls", [{"name": "kernel.msgmax", "value": "1"}]),
        ("securityContext.sysctls", [{"name": "net.ipv4.ip_local_port_range", "value": "1"}]),
        ("securityContext.runAsNonRoot", False),
        ("securityContext.windowsOptions", {"hostProcess": True}),
        ("containers.0.securityContext.privileged", True),
        ("containers.0.securityContext.allowPrivilegeEscalation", True),
        ("containers.0.securityContext.capabilities", {"add": ["NET_ADMIN", "CHOWN"]}),
        ("containers.0.securityContext.capabilities", {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
        ("containers.0.securityContext.procMount", "Unmasked"),
        ("containers.0.securityContext.runAsUser", 0),
        ("containers.0.securityContext.seLinuxOptions", {"type": "spc_t", "user": "u"}),
        ("containers.0.ports.0.hostPort", 80),
        ("volumes", [{"name": "v", "hostPath": {"path": "/x"}}]),
        ("volumes", [{"name": "v", "nfs": {"server": "s", "path": "/x"}}, {"name": "w", "emptyDir": {}}]),
        ("initContainers", [{"name": "i", "image": "x", "securityContext": {"privileged": True}}]),
        ("hostUsers", False),
        ("containers.0.lifecycle", {"preStop": {"httpGet": {"port": 80, "host": "1.2.3.4"}}}),
    ]
    for number in range(8):
        sort = rng.choice(["pods", "pods", "pods", "deployments", "jobs", "cronjobs", "replicasets", "statefulsets"])
        obj = named(sort, f"o{number}")
        inside = {"pods": "spec", "cronjobs": "spec.jobTemplate.spec.template.spec"}.get(sort, "spec.template.spec")
        for key, value in (
            (("nodeSelector", _NOWHERE), *good.items()) if rng.random() < 0.7 else (("nodeSelector", _NOWHERE),)
        ):
            put(obj, f"{inside}.{key}", copy.deepcopy(value))
        if rng.random() < 0.6:
            put(
                obj,
                f"{inside}.containers.0.securityContext",
                {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            )
        for path, value in rng.sample(changes, k=rng.choice([0, 1, 1, 2])):
            put(obj, f"{inside}.{path}", copy.deepcopy(value))
        yield create(sort, obj, rng.choice(["", "?dryRun=All"]))
    yield Step(
        "PATCH /api/v1/namespaces/{ns}" + rng.choice(["", "?dryRun=All"]),
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": rng.choice(levels)}}},
        content(MERGE),
    )


def escalations(rng) -> Iterator[Step]:
    """Rights that nobody may give who has not got them: roles, bindings, and the verbs that allow it."""
    pool = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"], "resourceNames": ["a"]},
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["*"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get", "delete"]},
    ]
    group = "rbac.authorization.k8s.io"
    mine = [
        {"apiGroups": [group], "resources": ["roles", "rolebindings"], "verbs": ["*"]},
        *rng.sample(pool, k=rng.choice([1, 2])),
        *rng.choice(
            [
                [],
                [],
                [
                    {
                        "apiGroups": [group],
                        "resources": ["roles", "clusterroles"],
                        "verbs": ["bind"],
                        **rng.choice([{}, {"resourceNames": ["other"]}]),
                    }
                ],
                [{"apiGroups": [group], "resources": ["roles"], "verbs": ["escalate"]}],
                [{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}],
            ]
        ),
    ]
    # '*' over roles holds bind and escalate
    mine[0]["verbs"] = rng.choice(
        [["*"], ["create", "update", "patch", "get", "delete"], ["create", "update", "patch", "get", "delete"]]
    )
    yield Step(f"POST {RBAC}/roles", named("roles", "r") | {"rules": mine})
    yield Step(f"POST {RBAC}/roles", named("roles", "other") | {"rules": [rng.choice(pool)]})
    yield Step(
        f"POST {RBAC}/rolebindings",
        named("rolebindings", "rb") | {"subjects": [{"kind": "User", "name": "ann", "apiGroup": group}]},
    )
    yield Step("WAIT 2")
    ann = {"Impersonate-User": "ann"}
    for number in range(9):
        rules = [copy.deepcopy(rng.choice(pool)) for _ in range(rng.choice([1, 1, 2]))]
        ref = {
            "apiGroup": group,
            "kind": rng.choice(["Role", "Role", "ClusterRole"]),
            "name": rng.choice(["r", "other", "view", "admin", "none"]),
        }
        bound = named("rolebindings", f"b{number}") | {
            "roleRef": ref,
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "{ns}"}],
        }
        yield rng.choice(
            [
                Step(f"POST {RBAC}/roles", named("roles", f"n{number}") | {"rules": rules}, ann),
                Step(f"PUT {RBAC}/roles/other", named("roles", "other") | {"rules": rules}, ann),
                Step(f"PATCH {RBAC}/roles/other", {"rules": rules}, content(MERGE) | ann),
                Step(
                    f"PATCH {RBAC}/roles/other?fieldManager=ann&force=true",
                    named("roles", "other") | {"rules": rules},
                    content(APPLY) | ann,
                ),
                Step(f"PATCH {RBAC}/roles/other", {"metadata": {"labels": {"x": "y"}}}, content(MERGE) | ann),
                Step(f"POST {RBAC}/rolebindings", bound, ann),
                Step(f"POST {RBAC}/rolebindings", bound, ann),
                Step(f"PATCH {RBAC}/rolebindings/rb", {"roleRef": ref}, content(MERGE) | ann),
                Step(
                    "POST /apis/rbac.authorization.k8s.io/v1/clusterroles?dryRun=All",
                    {"metadata": {"name": "c.{ns}"}, "rules": rules},
                    ann,
                ),
                Step(
                    f"GET {CORE}/pods",
                    None,
                    {"Impersonate-User": "system:serviceaccount:{ns}:default"}
                    | rng.choice([{}, {"Impersonate-Uid": "x"}]),
                ),
            ]
        )


def tokens(rng) -> Iterator[Step]:
    """Tokens of service accounts: made, used, bound to pods, and dead with what they belong to."""
    yield create("serviceaccounts", named("serviceaccounts", "s"))
    yield Step(
        f"POST {RBAC}/roles",
        named("roles", "r") | {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]},
    )
    yield Step(
        f"POST {RBAC}/rolebindings",
        named("rolebindings", "rb") | {"subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "{ns}"}]},
    )
    yield create("pods", _pod("p", serviceAccountName="s"))
    at = f"{CORE}/serviceaccounts/s/token"
    bound = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "{3:metadata.uid}"}}
    spec = rng.choice(
        [
            {},
            {"audiences": []},
            {"audiences": ["elsewhere"]},
            {"expirationSeconds": 600},
            bound,
            {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}},
            {"boundObjectRef": {"kind": "Deployment", "apiVersion": "apps/v1", "name": "p"}},
            {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "none"}},
        ]
    )
    yield Step(f"POST {at}", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
    yield Step(f"POST {at}", {"spec": bound})
    yield Step("WAIT 1")
    acts = [
        Step(f"DELETE {CORE}/pods/p?gracePeriodSeconds=0"),
        Step(f"DELETE {CORE}/serviceaccounts/s"),
        Step(f"DELETE {RBAC}/rolebindings/rb"),
        Step(f"PATCH {RBAC}/roles/r", {"rules": []}, content(MERGE)),
    ]
    for _ in range(8):
        token = f"Bearer {{{rng.choice([4, 5])}:status.token}}"
        yield rng.choice(
            [
                Step(f"GET {CORE}/pods?limit=1", None, {"Authorization": token, "Accept": TABLE}),
                Step(f"GET {CORE}/configmaps", None, {"Authorization": token}),
                Step("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", {}, {"Authorization": token}),
                Step(
                    "POST /apis/authentication.k8s.io/v1/tokenreviews",
                    {
                        "spec": {
                            "token": rng.choice([token[7:], "x", ""]),
                            "audiences": rng.choice([[], ["elsewhere"], ["x"]]),
                        }
                    },
                ),
                Step(
                    "GET /version",
                    None,
                    {
                        "Authorization": rng.choice(
                            [token, token.replace("Bearer", "bearer"), token + "x", "Basic YTpi", token[7:]]
                        )
                    },
                ),
                Step(f"GET {CORE}/pods/p", None, {"Authorization": token, "Impersonate-User": "ann"}),
                rng.choice(acts),
                Step("WAIT 12"),
            ]
        )


def collections(rng) -> Iterator[Step]:
    """Many objects at once: field selectors of each kind, lists across namespaces, collections that are deleted."""
    sort = rng.choice(
        [  # no ConfigMaps: a distribution's own would be counted
            "secrets",
            "pods",
            "jobs",
            "services",
            "leases",
            "deployments",
            "events",
            "replicationcontrollers",
        ]
    )
    at = f"{CORE}/events" if sort == "events" else SORTS[sort].url
    for name, tier in zip("abc", ("x", "y", "x"), strict=True):
        if sort == "events":
            about = {"kind": "Pod", "name": name, "namespace": "{ns}"}
            yield Step(
                f"POST {at}",
                {
                    "metadata": {"name": name, "labels": {"tier": tier}},
                    "involvedObject": about,
                    "reason": f"R{tier}",
                    "type": "Normal",
                    "message": "m",
                },
            )
            continue
        obj = named(sort, name, tier=tier)
        if sort == "pods":
            obj["spec"]["nodeSelector"] = _NOWHERE
        if rng.random() < 0.2:
            obj["metadata"]["finalizers"] = ["a.b/c"]
        yield create(sort, obj)
    if sort in ("jobs", "deployments", "pods", "services", "replicationcontrollers"):
        yield Step("WAIT 2")
    fields = [
        "metadata.name=a",
        "metadata.name!=a,metadata.namespace={ns}",
        "status.phase=Pending",
        "spec.nodeName=",
        "spec.schedulerName=default-scheduler",
        "spec.restartPolicy!=Never",
        "spec.hostNetwork=true",
        "status.podIP=",
        "spec.serviceAccountName=default",
        "involvedObject.kind=Pod",
        "involvedObject.name=a,type=Normal",
        "reason=Rx",
        "source=x",
        "reportingComponent=",
        "status.successful=0",
        "status.replicas=0",
        "type=Opaque",
        "spec.clusterIP=None",
        "spec.type=ClusterIP",
        "spec.unschedulable=true",
        "status.nothing=1",
    ]
    from urllib.parse import quote

    for _ in range(6):
        selector = "fieldSelector=" + quote(rng.choice(fields), safe="{}")
        labels = "labelSelector=" + quote(rng.choice(["tier=x", "tier!=x", "tier", "none", "tier in (x,y)"]))
        query = rng.choice([selector, labels, f"{selector}&{labels}", "limit=2", selector, selector])
        body = rng.choice(
            [
                None,
                None,
                {
                    "kind": "DeleteOptions",
                    "apiVersion": "v1",
                    "propagationPolicy": rng.choice(["Background", "Orphan", "Foreground"]),
                },
                {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0},
                {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": "1"}},
                {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]},
            ]
        )
        yield rng.choice(
            [
                Step(f"GET {at}?{query}", None, rng.choice([{}, {}, {"Accept": TABLE}])),
                Step(f"GET {at.replace('/namespaces/{ns}', '')}?{selector}%2Cmetadata.namespace%3D{{ns}}"),
                Step(f"DELETE {at}?{query}{rng.choice(['', '&dryRun=All', '&propagationPolicy=Orphan'])}", body),
                Step(
                    f"GET {at}?{query}",
                    None,
                    {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
                ),
                Step(f"GET {at}/a?{selector}"),
            ]
        )
        yield Step("WAIT 1")
    yield Step(f"DELETE {at}?dryRun=All")
    yield Step(f"DELETE {at}?gracePeriodSeconds=0")
    yield Step("WAIT 2")
    yield Step(f"GET {at}")


def versions(rng) -> Iterator[Step]:
    """One object by another of its kind's versions: autoscalers, events, and kinds that older clients ask for."""
    two, one = (
        "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers",
        "/apis/autoscaling/v1/namespaces/{ns}/horizontalpodautoscalers",
    )
    obj = named("horizontalpodautoscalers", "a")
    path = rng.choice(["spec.metrics", "spec.behavior", "spec.minReplicas", "spec.maxReplicas"])
    put(obj, path, value_for(rng, path))
    yield Step(f"POST {two}", obj)
    old = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": rng.choice(["a", "b"])},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "none", "apiVersion": "apps/v1"},
            "maxReplicas": 4,
            **rng.choice([{}, {"targetCPUUtilizationPercentage": 50}, {"minReplicas": 0}]),
        },
    }
    yield Step(f"POST {one}", old)
    for _ in range(6):
        url = rng.choice([one, two])
        yield rng.choice(
            [
                Step(f"GET {url}/a", None, rng.choice([{}, {"Accept": TABLE}])),
                Step(
                    f"PATCH {one}/a",
                    {"spec": {"targetCPUUtilizationPercentage": rng.choice([70, None, 0])}},
                    content(rng.choice([MERGE, STRATEGIC])),
                ),
                Step(
                    f"PATCH {two}/a",
                    {
                        "spec": {
                            "behavior": rng.choice(
                                [
                                    None,
                                    {"scaleDown": {"stabilizationWindowSeconds": 5}},
                                    {"scaleUp": {"selectPolicy": "Disabled"}},
                                ]
                            )
                        }
                    },
                    content(MERGE),
                ),
                Step(
                    f"PATCH {url}/a?fieldManager={rng.choice(['me', 'you'])}",
                    (old if url == one else named("horizontalpodautoscalers", "a")) | {"metadata": {"name": "a"}},
                    content(APPLY),
                ),
                Step(f"PUT {one}/a", old | {"metadata": {"name": "a"}}),
                Step(
                    f"PATCH {url}/a",
                    [{"op": "replace", "path": "/spec/maxReplicas", "value": rng.choice([2, 9, 0])}],
                    content(JSON_PATCH),
                ),
                Step(f"GET {url}"),
                Step(
                    f"PATCH {url}/a",
                    {"metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "[]"}}},
                    content(MERGE),
                ),
            ]
        )
    yield Step(f"GET {one}/a")
    yield Step(f"GET {two}/a")
    events = "/apis/events.k8s.io/v1/namespaces/{ns}/events"
    told = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": rng.choice(["a.b/c", "", "x y"]),
        "reportingInstance": "i",
        "action": "Tried",
        "reason": rng.choice(["R", ""]),
        "regarding": {"kind": "Pod", "name": "p", "namespace": "{ns}"},
        "note": "n",
        "type": rng.choice(["Normal", "Warning", "No"]),
    }
    yield Step(f"POST {events}", told)
    yield Step(f"GET {rng.choice([events, CORE + '/events'])}/e")
    yield Step(
        "GET "
        + rng.choice(
            [
                "/apis/batch/v1beta1/namespaces/{ns}/cronjobs",
                "/apis/extensions/v1beta1/namespaces/{ns}/deployments",
                "/apis/policy/v1beta1/poddisruptionbudgets",
                "/apis/autoscaling/v2beta2/horizontalpodautoscalers",
                "/apis/apps/v1beta1",
            ]
        )
    )


def autoscalers(rng) -> Iterator[Step]:
    """Autoscalers over targets whose metrics nobody serves, that are not there, or are scaled to zero."""
    yield create(
        "deployments",
        named("deployments", "d") | {"spec": named("deployments", "d")["spec"] | {"replicas": rng.choice([0, 1, 1])}},
    )
    metric = rng.choice(
        [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
            },
            {
                "type": "Resource",
                "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
            },
            {
                "type": "External",
                "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "5"}},
            },
            {
                "type": "Pods",
                "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "5"}},
            },
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "m"},
                    "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"},
                    "target": {"type": "Value", "value": "5"},
                },
            },
            {
                "type": "ContainerResource",
                "containerResource": {
                    "name": "cpu",
                    "container": "c",
                    "target": {"type": "Utilization", "averageUtilization": 50},
                },
            },
        ]
    )
    obj = named("horizontalpodautoscalers", "h")
    obj["spec"] |= {
        "metrics": [metric],
        "minReplicas": rng.choice([1, 1, 2]),
        "scaleTargetRef": rng.choice(
            [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"},
                {"apiVersion": "v1", "kind": "Nothing", "name": "d"},
                {"apiVersion": "batch/v1", "kind": "Job", "name": "d"},
            ]
        ),
    }
    at = SORTS["horizontalpodautoscalers"].url
    deployment = SORTS["deployments"].url
    yield Step(f"POST {at}", obj)
    yield Step("WAIT 20")
    yield Step(f"GET {at}/h")
    yield rng.choice(
        [
            Step(f"PATCH {deployment}/d/scale", {"spec": {"replicas": rng.choice([0, 1, 5])}}, content(MERGE)),
            Step(f"PATCH {at}/h", {"spec": {"minReplicas": 3}}, content(MERGE)),
            Step(f"PATCH {at}/h", {"spec": {"maxReplicas": 1, "minReplicas": 1}}, content(MERGE)),
        ]
    )
    yield Step("WAIT 20")
    yield Step(f"GET {at}/h")
    yield Step(f"GET {deployment}/d")
    yield Step(f"GET {at}", None, {"Accept": TABLE})
    yield Step(f"GET {CORE}/events")


def storage(rng) -> Iterator[Step]:
    """Claims and volumes that find each other, are held, and are let go."""
    size = rng.choice(["1Gi", "2Gi"])
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v.{ns}"},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": [rng.choice(["ReadWriteOnce", "ReadWriteMany"])],
            "hostPath": {"path": "/x"},
            "storageClassName": "c.{ns}",
            "persistentVolumeReclaimPolicy": rng.choice(["Retain", "Delete", "Retain"]),
            **rng.choice([{}, {"claimRef": {"name": "c", "namespace": "{ns}"}}]),
        },
    }
    claim = named("persistentvolumeclaims", "c")
    claim["spec"]["storageClassName"] = rng.choice(["c.{ns}", "c.{ns}", "c.{ns}", "", "none"])
    if rng.random() < 0.3:
        yield Step(
            "POST /apis/storage.k8s.io/v1/storageclasses",
            {
                "metadata": {"name": "c.{ns}"},
                "provisioner": rng.choice(["kubernetes.io/no-provisioner", "example.com/p"]),
                "volumeBindingMode": rng.choice(["Immediate", "WaitForFirstConsumer"]),
            },
        )
    else:
        yield Step(f"GET {CORE}/persistentvolumeclaims")
    yield Step("POST /api/v1/persistentvolumes", volume)
    yield create("persistentvolumeclaims", claim)
    yield Step("WAIT 4")
    where = ["/api/v1/persistentvolumes/v.{ns}", f"{CORE}/persistentvolumeclaims/c"]
    for url in where:
        yield Step(f"GET {url}")
    if rng.random() < 0.6:
        yield create("pods", _pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))
        yield Step("WAIT 2")
    yield Step(
        f"PATCH {where[1]}",
        {"spec": {"resources": {"requests": {"storage": rng.choice(["3Gi", "1Mi"])}}}},
        content(MERGE),
    )
    yield Step(f"DELETE {rng.choice(where)}")
    yield Step("WAIT 3")
    for url in where:
        yield Step(f"GET {url}")
    yield Step(f"DELETE {CORE}/pods?gracePeriodSeconds=0")
    yield Step("WAIT 3")
    for url in where:
        yield Step(f"GET {url}")
    yield Step(f"GET {CORE}/events")
    yield Step("DELETE /api/v1/persistentvolumes/v.{ns}")
    yield Step("DELETE /apis/storage.k8s.io/v1/storageclasses/c.{ns}")


def nodes(rng) -> Iterator[Step]:
    """A node that no kubelet keeps, for a while: what is put on it, what its taints drive away, and what it leaves."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "{ns}", "labels": {"kubernetes.io/hostname": "{ns}", "own": "{ns}"}},
        "spec": {"taints": [{"key": "own", "value": "{ns}", "effect": "NoSchedule"}]},
    }
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "2"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": None,
        "lastTransitionTime": None,
    }
    tolerated = [
        {"key": "own", "operator": "Exists"},
        *rng.choice([[], [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": rng.choice([1, 3])}]]),
    ]
    yield Step("POST /api/v1/nodes", node)
    yield Step("WAIT 1")
    yield Step(
        "PATCH /api/v1/nodes/{ns}/status",
        {"status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}},
        content(STRATEGIC),
    )
    yield Step("WAIT 2")
    yield Step("GET /api/v1/nodes/{ns}")
    mine = {"nodeSelector": {"own": "{ns}"}, "tolerations": tolerated}
    sort = rng.choice(["deployments", "daemonsets", "jobs", "statefulsets", "pods"])
    obj = named(sort, "w", t="u")
    inside = "spec" if sort == "pods" else "spec.template.spec"
    for key, value in mine.items():
        put(obj, f"{inside}.{key}", value)
    gpus = rng.choice(["0", "1", "1", "2", "3"])
    put(
        obj,
        f"{inside}.containers.0.resources",
        {"limits": {"nvidia.com/gpu": gpus}, "requests": {"cpu": rng.choice(["100m", "3"])}},
    )
    if sort in ("deployments", "statefulsets"):
        obj["spec"]["replicas"] = rng.choice([1, 2, 3])
    if sort == "jobs":
        obj["spec"] |= {"suspend": False, "parallelism": rng.choice([1, 3]), "completions": 3}
    yield create(sort, obj)
    yield Step("WAIT 4")
    yield Step(f"GET {CORE}/pods")
    acts = [
        Step("PATCH /api/v1/nodes/{ns}", {"spec": {"unschedulable": True}}, content(STRATEGIC)),
        Step(
            "PATCH /api/v1/nodes/{ns}", {"spec": {"taints": [{"key": "more", "effect": "NoExecute"}]}}, content(MERGE)
        ),
        Step(
            "PATCH /api/v1/nodes/{ns}",
            {"spec": {"taints": [{"key": "more", "effect": "NoSchedule"}]}},
            content(STRATEGIC),
        ),
        Step("PATCH /api/v1/nodes/{ns}", {"metadata": {"labels": {"own": "other"}}}, content(MERGE)),
        Step("PATCH /api/v1/nodes/{ns}/status", {"status": {"allocatable": {"nvidia.com/gpu": "0"}}}, content(MERGE)),
        Step(
            "PATCH /api/v1/nodes/{ns}/status",
            {"status": {"conditions": [ready | {"status": "False", "reason": "KubeletNotReady"}]}},
            content(STRATEGIC),
        ),
        Step("DELETE /api/v1/nodes/{ns}"),
        Step(f"PATCH {SORTS[sort].url}/w", {"metadata": {"labels": {"z": "y"}}}, content(MERGE)),
    ]
    for act in rng.sample(acts, k=2):
        yield act
        yield Step("WAIT 8")
        yield Step(f"GET {CORE}/pods")
        yield Step(f"GET {SORTS[sort].url}/w")
        yield Step("GET /api/v1/nodes/{ns}")
    yield Step("GET /api/v1/nodes?fieldSelector=metadata.name%3D{ns}", None, {"Accept": TABLE})
    yield Step(f"GET {CORE}/pods", None, {"Accept": TABLE})
    yield Step(f"GET {CORE}/events")
    yield Step(f"DELETE {SORTS[sort].url}?propagationPolicy=Background")
    yield Step("WAIT 2")
    yield Step(f"DELETE {CORE}/pods?gracePeriodSeconds=0")
    yield Step("DELETE /api/v1/nodes/{ns}")
    yield Step("WAIT 2")


def crons(rng) -> Iterator[Step]:
    """CronJobs that fire, are suspended, or have missed their hour; and Jobs that are made from them by hand."""
    obj = named("cronjobs", "w")
    obj["spec"] |= {
        "schedule": rng.choice(["* * * * *", "* * * * *", "0 0 31 2 *", "@yearly", "* * * * *"]),
        "suspend": rng.choice([False, False, False, True]),
        "concurrencyPolicy": rng.choice(["Allow", "Forbid", "Replace"]),
        **rng.choice([{}, {"timeZone": "Etc/UTC"}, {"startingDeadlineSeconds": 200}]),
    }
    put(obj, "spec.jobTemplate.spec.template.spec.nodeSelector", _NOWHERE)
    put(obj, "spec.jobTemplate.spec.backoffLimit", 0)
    yield create("cronjobs", obj)
    by_hand = named("jobs", "by-hand")
    by_hand["metadata"] |= {
        "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "name": "w",
                "uid": "{0:metadata.uid}",
                "controller": rng.choice([True, False]),
            }
        ],
    }
    by_hand["spec"]["suspend"] = rng.choice([True, False])
    put(by_hand, "spec.template.spec.nodeSelector", _NOWHERE)
    yield Step(f"POST {BATCH}/jobs", by_hand)
    yield Step("WAIT 63")
    yield Step(f"GET {BATCH}/jobs")
    yield Step(f"GET {BATCH}/cronjobs/w")
    act = rng.choice(
        [
            Step(
                f"PATCH {BATCH}/jobs/by-hand/status",
                {
                    "status": {
                        "conditions": [
                            {
                                "type": "Failed",
                                "status": "True",
                                "reason": "R",
                                "lastTransitionTime": "2026-01-01T00:00:00Z",
                            }
                        ]
                    }
                },
                content(STRATEGIC),
            ),
            Step(f"PATCH {BATCH}/cronjobs/w", {"spec": {"suspend": True}}, content(MERGE)),
            Step(f"PATCH {BATCH}/cronjobs/w", {"spec": {"schedule": "0 0 1 1 *"}}, content(MERGE)),
            Step(f"DELETE {BATCH}/jobs/by-hand?propagationPolicy=Background"),
            Step(f"DELETE {BATCH}/cronjobs/w?propagationPolicy={rng.choice(['Foreground', 'Background', 'Orphan'])}"),
        ]
    )
    yield act
    yield Step("WAIT 3")
    yield Step(f"GET {BATCH}/jobs")
    yield Step(f"GET {BATCH}/cronjobs", None, {"Accept": TABLE})
    yield Step(f"GET {CORE}/pods")


def endpoints(rng) -> Iterator[Step]:
    """What stands behind a Service, as pods come and go; and ports that a Service is given."""
    service = named("services", "s")
    service["spec"] |= rng.choice(
        [
            {},
            {"type": "NodePort"},
            {"clusterIP": "None"},
            {"publishNotReadyAddresses": True},
            {"type": "LoadBalancer"},
            {"type": "ExternalName", "externalName": "a.b", "ports": []},
        ]
    )
    service["spec"]["ports"] = rng.choice(
        [
            [{"name": "web", "port": 80, "targetPort": "web"}],
            [{"port": 80, "targetPort": 8080}],
            [{"port": 80}, {"port": 81, "name": "x"}],
        ]
    )
    yield create("services", service)
    yield create("pods", _pod("p"))
    yield Step("WAIT 1")  # so that the scheduler has said what it has to say
    ready = {
        "type": "Ready",
        "status": rng.choice(["True", "True", "False"]),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    yield Step(
        f"POST {CORE}/pods/p/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "p"},
            "target": {"kind": "Node", "name": "no-{ns}"},
        },
    )
    yield Step(
        f"PATCH {CORE}/pods/p/status",
        {"status": {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}], "conditions": [ready]}},
        content(STRATEGIC),
    )
    yield Step("WAIT 3")
    slices = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"
    yield Step(f"GET {slices}")
    yield Step(f"GET {CORE}/endpoints")
    for _ in range(3):
        port = rng.choice([30500, 31999, 29999, 32768])
        yield rng.choice(
            [
                Step(f"PATCH {CORE}/pods/p", {"metadata": {"labels": {"a": rng.choice(["x", "b"])}}}, content(MERGE)),
                Step(
                    f"PATCH {CORE}/services/s",
                    {"spec": {"selector": rng.choice([None, {"a": "b"}, {"a": "c"}])}},
                    content(MERGE),
                ),
                Step(
                    f"PATCH {CORE}/services/s",
                    {"spec": {"type": rng.choice(["NodePort", "ClusterIP", "LoadBalancer"])}},
                    content(MERGE),
                ),
                Step(
                    f"POST {CORE}/services",
                    named("services", "t")
                    | {
                        "spec": {
                            "type": "NodePort",
                            "ports": [
                                {"port": 80, "nodePort": port},
                                {"name": "o", "port": 81, **rng.choice([{}, {"nodePort": port}])},
                            ],
                        }
                    },
                ),
                Step(
                    f"POST {CORE}/services",
                    named("services", "c") | {"spec": {"clusterIP": "{0:spec.clusterIP}", "ports": [{"port": 80}]}},
                ),
                Step(f"DELETE {CORE}/pods/p?gracePeriodSeconds={rng.choice([0, 5])}"),
                Step(
                    f"PATCH {CORE}/services/s",
                    {"spec": {"ports": [{"name": "web", "port": 80, "targetPort": 9}]}},
                    content(MERGE),
                ),
            ]
        )
        yield Step("WAIT 3")
        yield Step(f"GET {slices}")
        yield Step(f"GET {CORE}/endpoints/s")
        yield Step(f"GET {CORE}/services/s")
    yield Step(
        f"GET {CORE}/services/{rng.choice(['s', 's:80', 's:web', 'https:s:443', 'none'])}/proxy/{rng.choice(['', 'x'])}"
    )
    yield Step(f"GET {CORE}/pods/{rng.choice(['none', 'none:80'])}/proxy/x")


def budgets(rng) -> Iterator[Step]:
    """Budgets over the pods of a workload: what they allow, and what evictions take from it."""
    deployment = named("deployments", "d")
    deployment["spec"] |= {"replicas": rng.choice([1, 2, 3])}
    put(deployment, "spec.template.spec.nodeSelector", _NOWHERE)
    yield create("deployments", deployment)
    budget = named("poddisruptionbudgets", "b")
    budget["spec"] = {"selector": {"matchLabels": {"a": "b"}}} | rng.choice(
        [
            {"minAvailable": 1},
            {"maxUnavailable": 1},
            {"minAvailable": "50%"},
            {"maxUnavailable": "34%"},
            {"maxUnavailable": 0},
            {"minAvailable": 0},
        ]
    )
    yield create("poddisruptionbudgets", budget)
    yield Step("WAIT 3")
    yield Step(f"GET {CORE}/pods")
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    for number in range(rng.choice([1, 2])):
        pod = f"{CORE}/pods/{{3:items.{number}.metadata.name}}"
        yield Step(f"PATCH {pod}/status", {"status": {"phase": "Running", "conditions": ready}}, content(STRATEGIC))
    yield Step("WAIT 2")
    at = SORTS["poddisruptionbudgets"].url
    yield Step(f"GET {at}/b")
    pod = "{3:items.0.metadata.name}"
    for _ in range(3):
        yield rng.choice(
            [
                Step(
                    f"POST {CORE}/pods/{pod}/eviction",
                    {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}},
                ),
                Step(
                    f"POST {CORE}/pods/{pod}/eviction",
                    {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}},
                ),
                Step(f"PATCH {at}/b", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}, content(MERGE)),
                Step(
                    f"PATCH {APPS}/deployments/d/scale", {"spec": {"replicas": rng.choice([0, 1, 4])}}, content(MERGE)
                ),
                Step(f"PATCH {at}/b", {"spec": {"selector": {"matchLabels": {"a": "none"}}}}, content(MERGE)),
                create("poddisruptionbudgets", named("poddisruptionbudgets", "other")),
                Step(f"DELETE {at}/b"),
            ]
        )
        yield Step("WAIT 3")
        yield Step(f"GET {at}/b")
        yield Step(f"GET {CORE}/pods")
    yield Step(f"GET {at}", None, {"Accept": TABLE})


FURTHER = (
    policies,
    hooks,
    security,
    escalations,
    tokens,
    collections,
    versions,
    autoscalers,
    storage,
    nodes,
    crons,
    endpoints,
    budgets,
)
#: Where controllers' writes are a part of what is compared.
SETTLED_FURTHER = frozenset({"autoscalers", "storage", "nodes", "crons", "endpoints", "budgets"})
