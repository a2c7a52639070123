"""Objects to put beside a kill path: what nobody here could vouch for, what lights it again, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from composed import Obj, account, workload

API = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Aim:
    """What the objects are about: a target and its labels."""

    api_version: str
    kind: str
    namespace: str
    name: str
    labels: dict[str, str]

    @property
    def plural(self) -> str:
        """Its resource."""
        return f"{self.kind.lower()}s"

    @property
    def group(self) -> str:
        """Its API group."""
        return self.api_version.rpartition("/")[0]


def custom(kind: str, spec: Obj, *, namespace: str = "", group: str = "ops.example.io", **more: Any) -> Obj:
    """A custom resource of a kind that nobody has heard of."""
    meta: Obj = {"name": "of-a-stranger"} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": meta, "spec": spec} | more


def program(rules: list[Obj], namespace: str = "platform", *, cluster: bool = True, **container: Any) -> list[Obj]:
    """A Deployment whose account has these rights."""
    return [
        *account("night-owl", namespace, rules, cluster=cluster),
        workload("night-owl", namespace, "night-owl", **container),
    ]


def bound(role: str, namespace: str, subject: Obj, *, inside: str = "") -> Obj:
    """A binding to a role that every cluster has."""
    meta: Obj = {"name": "owl"} | ({"namespace": inside} if inside else {})
    return {
        "apiVersion": f"{API}/v1",
        "kind": "RoleBinding" if inside else "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": API, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def _webhook(kind: str, aim: Aim, rule: Obj) -> Obj:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "of-a-stranger"},
        "webhooks": [
            {
                "name": "a.example.io",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "clientConfig": {"service": {"name": "hook", "namespace": "platform"}},
                "rules": [{"apiVersions": ["*"], "scope": "*"} | rule],
            }
        ],
    }


def _cron(aim: Aim) -> list[Obj]:
    rules = [{"apiGroups": [aim.group], "resources": [f"{aim.plural}/scale"], "verbs": ["patch"]}]
    return [
        *account("monthly", aim.namespace, rules),
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "monthly", "namespace": aim.namespace},
            "spec": {
                "schedule": "0 5 1 * *",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {
                                "serviceAccountName": "monthly",
                                "restartPolicy": "Never",
                                "containers": [{"name": "main", "image": "registry.example.net/platform/monthly:3"}],
                            }
                        }
                    }
                },
            },
        },
    ]


OWL: Obj = {"kind": "ServiceAccount", "name": "owl", "namespace": "platform"}


def _owl(namespace: str) -> Obj:
    return workload("owl", namespace, "owl")


def _role(name: str, rules: list[Obj], labels: dict[str, str] | None = None) -> Obj:
    meta = {"name": name, "labels": labels or {}}
    return {"apiVersion": f"{API}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules}


def _patching(aim: Aim) -> list[Obj]:
    return [{"apiGroups": [aim.group], "resources": [f"{aim.plural}/scale"], "verbs": ["patch"]}]


def _with_pod_spec(obj: Obj, **more: Any) -> Obj:
    obj["spec"]["template"]["spec"].update(more)
    return obj


def _mounting_itself(aim: Aim) -> list[Obj]:
    *rights, deployment = program(_patching(aim))
    token = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    return [*rights, _with_pod_spec(deployment, automountServiceAccountToken=False, volumes=[token])]


def _without_token(aim: Aim) -> list[Obj]:
    """Its account may anything, and is mounted nowhere."""
    service_account, *rights = program([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
    return [service_account | {"automountServiceAccountToken": False}, *rights]


def _hourly(name: str, *command: str, image: str = "registry.example.net/platform/tools:1") -> Obj:
    """A CronJob of the platform without any right."""
    container = {"name": "main", "image": image, "command": list(command)}
    pod = {"restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": "platform"},
        "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }


def _with_a_kubeconfig(aim: Aim) -> list[Obj]:
    volume = {"name": "k", "secret": {"secretName": "admin"}}
    owl = workload("owl", "platform", "default", env=[{"name": "KUBECONFIG", "value": "/k/config"}])
    return [_with_pod_spec(owl, volumes=[volume])]


def _in_the_place_of(aim: Aim, resource: str, verb: str, *more: Obj) -> list[Obj]:
    """Who may act as an account that may scale, by a right over something of the core group in its namespace."""
    rules = [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}]
    return [*account("scaler", "ops", _patching(aim), cluster=True), *program(rules, "ops", cluster=False), *more]


def _token_of(name: str, namespace: str) -> Obj:
    meta = {"name": "t", "namespace": namespace, "annotations": {"kubernetes.io/service-account.name": name}}
    return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": meta}


def _woken(aim: Aim) -> list[Obj]:
    """At zero, until KEDA lets it up on some evening."""
    cron = {"timezone": "Etc/UTC", "start": "0 22 * * 0", "end": "0 23 * * 0", "desiredReplicas": "1"}
    spec = {"scaleTargetRef": {"name": "night-owl"}, "triggers": [{"type": "cron", "metadata": cron}]}
    *rights, owl = program(_patching(aim))
    return [*rights, _at_zero(owl), custom("ScaledObject", spec, namespace="platform", group="keda.sh")]


def _sharing(aim: Aim) -> list[Obj]:
    made = workload("notebook", aim.namespace, "default")
    made["spec"]["template"]["metadata"]["annotations"] = {"gpu.example.net/share": "0.5"}
    return [made]


def _let_go(aim: Aim) -> list[Obj]:
    """A CronJob that asks for GPUs, rests, and may be set going by a program that nobody here runs."""
    train = _hourly("train", "train.py")
    train["metadata"]["namespace"] = aim.namespace
    train["spec"]["suspend"] = True
    (container,) = train["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    rules = [{"apiGroups": ["batch"], "resources": ["cronjobs"], "resourceNames": ["train"], "verbs": ["patch"]}]
    return [*program(rules), train]


def _by_a_parameter(aim: Aim) -> list[Obj]:
    """A policy over all that is written, whose parameter somebody made by hand, or nobody did."""
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    policy = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "params.data.on != 'yes'"}],
    }
    where = {"name": "floor", "namespace": "platform", "parameterNotFoundAction": "Allow"}
    binding = {"policyName": "of-a-stranger", "paramRef": where, "validationActions": ["Deny"]}
    kind = "ValidatingAdmissionPolicy"
    group = "admissionregistration.k8s.io"
    return [
        custom(kind, policy, group=group, apiVersion=f"{group}/v1"),
        custom(f"{kind}Binding", binding, group=group, apiVersion=f"{group}/v1"),
    ]


#: What could turn a target on again, or keep it on, and what nobody here runs.
UNKNOWN: dict[str, Callable[[Aim], list[Obj]]] = {
    "what claims devices by a selector": lambda a: [custom("Claimer", {"deviceSelector": {"nvidia.com/gpu": "2"}})],
    "an operator that may patch the scale": lambda a: program(
        [{"apiGroups": [a.group], "resources": [f"{a.plural}/scale"], "verbs": ["patch"]}]
    ),
    "an operator that may update it, by name": lambda a: program(
        [{"apiGroups": [a.group], "resources": [a.plural], "resourceNames": [a.name], "verbs": ["update"]}],
        a.namespace,
        cluster=False,
    ),
    "an operator that may do anything": lambda a: program([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
    "an operator that is cluster-admin": lambda a: [
        _owl("platform"),
        bound("cluster-admin", "platform", {"kind": "ServiceAccount", "name": "owl", "namespace": "platform"}),
    ],
    "an editor of the namespace": lambda a: [
        _owl("platform"),
        bound(
            "edit", a.namespace, {"kind": "ServiceAccount", "name": "owl", "namespace": "platform"}, inside=a.namespace
        ),
    ],
    "everybody of a namespace may": lambda a: [
        _owl("platform"),
        bound(
            "admin",
            a.namespace,
            {"apiGroup": API, "kind": "Group", "name": "system:serviceaccounts:platform"},
            inside=a.namespace,
        ),
    ],
    "one that may create pods beside it": lambda a: program(
        [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create"]}], a.namespace, cluster=False
    ),
    "a monthly CronJob whose program nobody knows": _cron,
    "one that may create what nobody looks at": lambda a: program(
        [{"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["create"]}], a.namespace, cluster=False
    ),
    "one whose account no manifest holds": lambda a: [workload("owl", "platform", "platform-admin")],
    "one with a kubeconfig that is made by hand": _with_a_kubeconfig,
    "one with its node's own kubeconfig": lambda a: [
        _with_pod_spec(
            workload("owl", "platform", "default"), volumes=[{"name": "k", "hostPath": {"path": "/etc/kubernetes"}}]
        )
    ],
    "one that may run commands in pods of who may": lambda a: _in_the_place_of(a, "pods/exec", "create"),
    "one that may run pods as who may": lambda a: _in_the_place_of(a, "pods", "create"),
    "one that may read the token of who may": lambda a: _in_the_place_of(
        a, "secrets", "get", _token_of("scaler", "ops")
    ),
    "a starter at zero that something wakes": _woken,
    "an order to Argo CD": lambda a: [
        _hourly("sync", "argocd", "app", "sync", a.namespace, image="quay.io/argoproj/argocd:v3.0.0")
    ],
    "an order to a cloud": lambda a: [
        _hourly(
            "warm", "aws", "eks", "update-nodegroup-config", "--nodegroup-name", "gpu", "--scaling-config", "minSize=2"
        )
    ],
    "an order to a cloud about what was asked": lambda a: [
        _hourly(
            "warm", "sh", "-c", f"aws ec2 describe-instances --filters {a.namespace} | xargs aws ec2 start-instances"
        )
    ],
    "an order to a cloud about a machine that is called as a question is": lambda a: [
        _hourly("warm", "gcloud", "compute", "instances", "start", "list", f"--project={a.namespace}")
    ],
    "a program that is told the target, whose rights nobody knows": lambda a: [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "owl", "namespace": "platform"}},
        workload("owl", "platform", "owl", args=[f"--target={a.namespace}/{a.name}"]),
    ],
    "a part of a GPU by the word of a sharer": _sharing,
    "a training run that something lets go": _let_go,
    "a policy that goes by what no manifest holds": _by_a_parameter,
    "what is laid where something fetches it": lambda a: [
        _hourly("publish", "aws", "s3", "cp", f"/out/{a.namespace}.yaml", "s3://fleet/")
    ],
    "an order to a forge": lambda a: [
        _hourly("deploy", "curl", "-fsS", "-X", "POST", f"https://api.example.com/{a.namespace}/deploy/dispatches")
    ],
    "a clock that selects the namespace": lambda a: [
        custom(
            "SleepWindow",
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": a.namespace}}, "wakeUpAt": "06:00"},
            namespace="platform",
        )
    ],
    "a clock that names labels alone": lambda a: [
        custom(
            "Uptime",
            {"match": {"labels": a.labels or {"app": a.name}, "kind": a.kind, "in": a.namespace}, "replicas": 1},
        )
    ],
    "a workflow with a script": lambda a: [
        custom(
            "CronWorkflow",
            {"templates": [{"script": {"source": f"kubectl -n {a.namespace} scale {a.kind} {a.name} --replicas=1"}}]},
            namespace="ops",
        )
    ],
    "a loop that scales it, without rights in the manifests": lambda a: [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "keeper", "namespace": a.namespace}},
        workload(
            "keeper",
            a.namespace,
            "keeper",
            image="alpine/k8s:1.32.0",
            command=["/bin/sh", "-c"],
            args=[
                f"while true; do sleep 600\nkubectl -n {a.namespace} scale {a.kind.lower()} {a.name} --replicas=1\ndone"
            ],
        ),
    ],
    "an operator whose role is put together from others": lambda a: [
        _owl("platform"),
        {
            **_role("whole", []),
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"example.io/part": "1"}}]},
        },
        _role("part", _patching(a), {"example.io/part": "1"}),
        bound("whole", "platform", OWL),
    ],
    "a right that was added to view": lambda a: [
        _owl("platform"),
        _role("part", _patching(a), {"rbac.authorization.k8s.io/aggregate-to-view": "true"}),
        bound("view", "platform", OWL),
    ],
    "one that may impersonate": lambda a: program(
        [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]
    ),
    "one that may bind any role": lambda a: program(
        [{"apiGroups": [API], "resources": ["clusterroles"], "verbs": ["bind"]}]
    ),
    "one that has tokens made for who may": lambda a: [
        *account("powerful", "platform", _patching(a), cluster=True),
        *program(
            [{"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]}],
            "platform",
            cluster=False,
        ),
    ],
    "one that is given the token of who may": lambda a: [
        *account("powerful", "platform", _patching(a), cluster=True),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "powerful-token",
                "namespace": "platform",
                "annotations": {"kubernetes.io/service-account.name": "powerful"},
            },
            "type": "kubernetes.io/service-account-token",
        },
        _with_pod_spec(
            _owl("platform"),
            automountServiceAccountToken=False,
            volumes=[{"name": "token", "secret": {"secretName": "powerful-token"}}],
        ),
    ],
    "one that mounts its token itself": _mounting_itself,
    "a pipeline that runs as who may": lambda a: [
        *account("powerful", a.namespace, _patching(a), cluster=False),
        custom("Listener", {"serviceAccountName": "powerful", "triggers": []}, namespace=a.namespace),
    ],
    "a manifest in a ConfigMap that something applies": lambda a: [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "workloads", "namespace": a.namespace},
            "data": {"all.yaml": f"kind: {a.kind}\nmetadata:\n  name: {a.name}\nspec:\n  replicas: 1\n"},
        },
        custom("ResourceSet", {"resources": [{"kind": "ConfigMap", "name": "workloads"}]}, namespace=a.namespace),
    ],
    "a webhook on the deletion of its pods": lambda a: [
        _webhook(
            "ValidatingWebhookConfiguration", a, {"apiGroups": [""], "resources": ["pods"], "operations": ["DELETE"]}
        )
    ],
    "a scaler of a kind never heard of": lambda a: [
        custom(
            "PredictiveScaler",
            {"scaleTargetRef": {"apiVersion": a.api_version, "kind": a.kind, "name": a.name}},
            namespace=a.namespace,
        )
    ],
    "a list of workloads": lambda a: [custom("Fleetwake", {"workloads": [{"kind": a.kind.lower(), "name": a.name}]})],
    "a name in a text": lambda a: [
        custom("OnCallPlan", {"keepAlive": f"{a.namespace}/{a.name}"}, namespace="platform")
    ],
    "a selector": lambda a: [
        custom("Warmer", {"selector": {"matchLabels": a.labels}, "minimum": 1}, namespace=a.namespace)
    ],
    "a clock for a namespace": lambda a: [custom("WorkingHours", {"namespaces": [a.namespace], "from": "06:00"})],
    "a reference to the namespace": lambda a: [
        custom("Freezer", {"target": {"kind": "Namespace", "name": a.namespace}})
    ],
    "a clock in the namespace": lambda a: [
        custom(
            "SleepInfo",
            {"weekdays": "1-5", "sleepAt": "20:00", "wakeUpAt": "22:10"},
            namespace=a.namespace,
            group="sleep.example.io",
        )
    ],
    "without a spec": lambda a: [custom("Pinned", {}, namespace=a.namespace, target={"kind": a.kind, "name": a.name})],
    "a webhook on its scale": lambda a: [
        _webhook(
            "MutatingWebhookConfiguration",
            a,
            {"apiGroups": [a.group], "resources": [f"{a.plural}/scale"], "operations": ["UPDATE"]},
        )
    ],
    "a webhook on its pods": lambda a: [
        _webhook(
            "MutatingWebhookConfiguration", a, {"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}
        )
    ],
    "a webhook on everything": lambda a: [
        _webhook("MutatingWebhookConfiguration", a, {"apiGroups": ["*"], "resources": ["*/*"], "operations": ["*"]})
    ],
    "a policy that mutates": lambda a: [
        custom(
            "ClusterPolicy",
            {
                "rules": [
                    {
                        "name": "min",
                        "match": {"any": [{"resources": {"kinds": [a.kind]}}]},
                        "mutate": {"patchStrategicMerge": {"spec": {"replicas": 1}}},
                    }
                ]
            },
            group="kyverno.io",
        )
    ],
    "a Flux Kustomization": lambda a: [
        custom(
            "Kustomization",
            {"interval": "1h", "path": "./clusters/one", "prune": True},
            namespace="flux-system",
            group="kustomize.toolkit.fluxcd.io",
        )
    ],
    "a HelmRelease that detects drift": lambda a: [
        custom(
            "HelmRelease",
            {"interval": "30m", "driftDetection": {"mode": "enabled"}, "targetNamespace": a.namespace},
            namespace="flux-system",
            group="helm.toolkit.fluxcd.io",
        )
    ],
    "an ApplicationSet whose generator says otherwise": lambda a: [
        custom(
            "ApplicationSet",
            {
                "generators": [
                    {"list": {"template": {"spec": {"syncPolicy": {"automated": {"selfHeal": True}}}}, "elements": []}}
                ],
                "template": {"spec": {"destination": {"namespace": a.namespace}}},
            },
            namespace="argocd",
            group="argoproj.io",
        )
    ],
    "an Application for a cluster that it calls by its URL": lambda a: [
        custom(
            "Application",
            {
                "destination": {"server": "https://192.0.2.7:6443", "namespace": a.namespace},
                "syncPolicy": {"automated": {"selfHeal": True}},
            },
            namespace="argocd",
            group="argoproj.io",
        )
    ],
    "a reservation of machines with GPUs": lambda a: [
        custom("CapacityReservation", {"instanceType": "p5.48xlarge", "instanceCount": 2}, namespace="elsewhere")
    ],
    "a chart whose values are a text": lambda a: [
        custom("HelmChart", {"valuesContent": "resources: {limits: {nvidia.com/gpu: 4}}"}, namespace="elsewhere")
    ],
    "an ApplicationSet": lambda a: [
        custom(
            "ApplicationSet",
            {
                "generators": [],
                "template": {
                    "spec": {
                        "destination": {"namespace": a.namespace},
                        "syncPolicy": {"automated": {"selfHeal": True}},
                    }
                },
            },
            namespace="argocd",
            group="argoproj.io",
        )
    ],
}


def _soon(aim: Aim) -> list[Obj]:
    rules = [{"apiGroups": [aim.group], "resources": [aim.plural, f"{aim.plural}/scale"], "verbs": ["get", "patch"]}]
    line = f"kubectl -n {aim.namespace} scale {aim.kind.lower()} {aim.name} --replicas=1"
    return [
        *account("warm-up", aim.namespace, rules),
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "warm-up", "namespace": aim.namespace},
            "spec": {
                "schedule": "10,40 * * * *",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {
                                "serviceAccountName": "warm-up",
                                "restartPolicy": "Never",
                                "containers": [
                                    {
                                        "name": "main",
                                        "image": "alpine/k8s:1.32.0",
                                        "command": ["/bin/sh", "-c"],
                                        "args": [line],
                                    }
                                ],
                            }
                        }
                    }
                },
            },
        },
    ]


#: What lights it again here, or what no API server would know: whatever the verdict, no pass.
RELIGHTING: dict[str, Callable[[Aim], list[Obj]]] = {
    "KEDA's minimum": lambda a: [
        custom(
            "ScaledObject",
            {
                "scaleTargetRef": {"kind": a.kind, "name": a.name},
                "minReplicaCount": 1,
                "triggers": [
                    {
                        "type": "cron",
                        "metadata": {
                            "timezone": "Etc/UTC",
                            "start": "0 6 * * *",
                            "end": "0 20 * * *",
                            "desiredReplicas": "1",
                        },
                    }
                ],
            },
            namespace=a.namespace,
            group="keda.sh",
        )
    ],
    "a CronJob a quarter of an hour later": _soon,
}


def _reader(name: str) -> list[Obj]:
    rules = [{"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    return [*account(name, "monitoring", rules, cluster=True), workload(name, "monitoring", name)]


_VM = "operator.victoriametrics.com"
#: Subcommands by which an image of furniture is one of its parts.
_OF_FURNITURE = {"external-secrets/external-secrets": ["certcontroller"]}
#: Cluster furniture that has no power over a target.
HARMLESS: dict[str, Callable[[Aim], list[Obj]]] = {
    "Kyverno that makes NetworkPolicies": lambda a: [
        custom(
            "ClusterPolicy",
            {
                "rules": [
                    {
                        "name": "closed",
                        "match": {"any": [{"resources": {"kinds": ["Namespace"]}}]},
                        "generate": {
                            "kind": "NetworkPolicy",
                            "name": "closed",
                            "synchronize": True,
                            "data": {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
                        },
                    }
                ]
            },
            group="kyverno.io",
        )
    ],
    "what fetches, and applies nothing": lambda a: [
        custom("Build", {"source": {"git": {"url": "https://git.example.net/a.git"}}, "chart": "a"}),
        custom("Release", {"chart": {"name": "cert-manager", "repository": "https://charts.example.net"}}),
    ],
    "data and names": lambda a: [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": a.namespace},
            "data": {"target": a.name, "replicas": "1", "schedule": "0 6 * * *"},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": a.name, "namespace": a.namespace},
            "spec": {"selector": a.labels, "ports": [{"port": 80}]},
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": a.name, "namespace": a.namespace},
            "spec": {"defaultBackend": {"service": {"name": a.name, "port": {"number": 80}}}},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "cache", "namespace": a.namespace},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    ],
    "who only reads": lambda a: _reader("kube-state-metrics"),
    "rights elsewhere": lambda a: program(
        [{"apiGroups": ["apps"], "resources": ["*", "deployments/scale"], "verbs": ["*"]}], "web", cluster=False
    ),
    "rights over something else by name": lambda a: program(
        [
            {
                "apiGroups": [a.group],
                "resources": [a.plural, f"{a.plural}/scale"],
                "resourceNames": [f"{a.name}-ui"],
                "verbs": ["patch"],
            }
        ],
        a.namespace,
        cluster=False,
    ),
    "rights that nobody has a token for": _without_token,
    "roles that are put together from others": lambda a: [
        _owl("platform"),
        {
            **_role("whole", []),
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"example.io/part": "1"}}]},
        },
        _role("part", _patching(a), {"example.io/part": "2"}),
        bound("whole", "platform", OWL),
    ],
    "what may bind nothing and reads alone": lambda a: program(
        [
            {"apiGroups": [API], "resources": ["rolebindings"], "verbs": ["create"]},
            {"apiGroups": ["apps"], "resources": [f"{a.plural}/status"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        ]
    ),
    "a name that makes nothing": lambda a: program(
        [{"apiGroups": ["apps"], "resources": [a.plural], "resourceNames": [f"{a.name}-ui"], "verbs": ["*"]}]
    ),
    "an agent on each node": lambda a: [
        *account(
            "agent",
            "kube-system",
            [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch", "patch"]}],
            cluster=True,
        ),
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "agent", "namespace": "kube-system"},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "template": {
                    "metadata": {"labels": {"app": "agent"}},
                    "spec": {
                        "serviceAccountName": "agent",
                        "containers": [{"name": "agent", "image": "registry.example.net/agent:9"}],
                        "volumes": [
                            {"name": f"at-{i}", "hostPath": {"path": path}}
                            for i, path in enumerate(
                                (
                                    "/etc/kubernetes/node-feature-discovery/features.d",
                                    "/etc/kubernetes/azure.json",
                                    "/var/lib/rancher/k3s/agent/containerd",
                                )
                            )
                        ],
                    },
                },
            },
        },
    ],
    "operators of their own kinds": lambda a: [
        part
        for name, group, made in (
            ("kuberay/operator", "", "pods"),
            ("jobset/jobset", "batch", "jobs"),
            ("nvidia/gpu-operator", "apps", "daemonsets"),
            ("external-secrets/external-secrets", "apps", "statefulsets"),
        )
        for rules in [[{"apiGroups": [group], "resources": [made], "verbs": ["get", "create"]}]]
        for part in (
            *account(made, "operators", rules, cluster=True),
            workload(
                made, "operators", made, image=f"registry.example.net/{name}:v1", args=_OF_FURNITURE.get(name, [])
            ),
        )
    ],
    "monitors and routes and certificates": lambda a: [
        custom(
            "ServiceMonitor",
            {"selector": {"matchLabels": a.labels}, "endpoints": [{"port": "http"}]},
            namespace=a.namespace,
            group="monitoring.coreos.com",
        ),
        custom(
            "HTTPRoute",
            {"rules": [{"backendRefs": [{"name": a.name, "port": 80}]}]},
            namespace=a.namespace,
            group="gateway.networking.k8s.io",
        ),
        custom(
            "Certificate",
            {"secretName": a.name, "dnsNames": [f"{a.name}.example.net"]},
            namespace=a.namespace,
            group="cert-manager.io",
        ),
        custom(
            "Schedule",
            {"schedule": "0 4 * * *", "template": {"includedNamespaces": [a.namespace]}},
            namespace="velero",
            group="velero.io",
        ),
        custom("VMRule", {"groups": [{"rules": [{"labels": a.labels}]}]}, namespace=a.namespace, group=_VM),
        custom("Topic", {"serviceAccount": a.name, "role": {"name": a.name}, "displayName": a.name}, namespace="web"),
    ],
    "orders about something else": lambda a: [
        _hourly("backup", "aws", "s3", "cp", "/data", "s3://backups/web"),
        _hourly("stock", "aws", "ec2", "describe-instances", "--filters", "Name=tag:for,Values=gpu"),
        _hourly("model", "aws", "s3", "sync", f"s3://models/{a.name}", "/models"),
        _hourly("charts", "sh", "-c", f"helm list -n {a.namespace} | grep gpu"),
        _hourly("report", "curl", "-fsS", "-X", "POST", "https://hooks.example.com/web"),
        custom("CronWorkflow", {"source": "kubectl -n web rollout restart deploy/web"}, namespace="web"),
        custom("Tool", {"image": "alpine/k8s:1.31.3", "media": "text/html", "api": "apps/v1"}, namespace="web"),
        custom("SleepWindow", {"namespaceSelector": {"matchLabels": {"team": "web"}}, "replicas": 1}, namespace="web"),
    ],
    "a custom resource about something else": lambda a: [
        custom("PostgresCluster", {"instances": 3, "storage": {"size": "1Gi"}}, namespace=a.namespace),
        custom("PredictiveScaler", {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}, namespace="web"),
        custom("Probe", {"service": {"kind": "Service", "name": a.name, "namespace": a.namespace}}),
    ],
    "marks, selectors and addresses that look like resources": lambda a: [
        custom("Trainer", {"worker": {"annotations": {"gke-gcsfuse/volumes": "true"}}, "args": ["18.190.12.32/32"]}),
        custom("Finder", {"clusterSelector": {"ray.io/cluster": "c"}, "head": {"labels": {"ray.io/region": "eu"}}}),
    ],
    "a starter that is off": lambda a: [
        *account("night-owl", "platform", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], cluster=True),
        _at_zero(workload("night-owl", "platform", "night-owl")),
    ],
    "GitOps that is asleep": lambda a: [
        custom(
            "Kustomization",
            {"suspend": True, "interval": "5m"},
            namespace="flux-system",
            apiVersion="kustomize.toolkit.fluxcd.io/v1",
        ),
        custom(
            "GitRepository",
            {"url": "https://git.example.net/x.git", "interval": "5m"},
            namespace="flux-system",
            apiVersion="source.toolkit.fluxcd.io/v1",
        ),
    ],
    "a webhook on something else": lambda a: [
        _webhook(
            "MutatingWebhookConfiguration",
            a,
            {"apiGroups": ["ops.example.io"], "resources": ["*"], "operations": ["*"]},
        )
    ],
    "Karpenter itself": lambda a: [
        *account(
            "karpenter",
            "kube-system",
            [{"apiGroups": ["karpenter.sh"], "resources": ["*"], "verbs": ["*"]}],
            cluster=True,
        ),
        workload("karpenter", "kube-system", "karpenter", image="public.ecr.aws/karpenter/controller:1.8.0"),
    ],
}


def _at_zero(obj: Obj) -> Obj:
    obj["spec"]["replicas"] = 0
    return obj
