"""What a fresh cluster holds before anybody has written to it.

Sources: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go of Kubernetes v1.36 (the roles that people and
kill paths meet; the controllers here act as ``system:masters`` and need none), and kubeadm's defaults for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.kube.objects import Obj

__all__ = ["SERVICE_IP", "namespaces", "objects", "priority_classes", "roles"]

RBAC = "rbac.authorization.k8s.io"
API = f"{RBAC}/v1"
#: ClusterIP of the Service ``kubernetes`` in a cluster with kubeadm's service network.
SERVICE_IP = "10.96.0.1"

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_READ_WRITE = (*_READ, *_WRITE)

_APPS_VIEW = (
    "controllerrevisions", "daemonsets", "daemonsets/status", "deployments", "deployments/scale", "deployments/status",
    "replicasets", "replicasets/scale", "replicasets/status", "statefulsets", "statefulsets/scale",
    "statefulsets/status",
)
_APPS_EDIT = (
    "daemonsets", "deployments", "deployments/rollback", "deployments/scale", "replicasets", "replicasets/scale",
    "statefulsets", "statefulsets/scale",
)


def objects(endpoint: tuple[str, int] = ("192.0.2.2", 6443)) -> list[Obj]:
    """Everything, in an order in which it can be created. ``endpoint``: where the API server itself listens."""
    return [*namespaces(), *priority_classes(), *roles(), *_bindings(), *_service(endpoint)]


def namespaces() -> list[Obj]:
    """default, kube-system, kube-public, kube-node-lease."""
    names = ("default", "kube-system", "kube-public", "kube-node-lease")
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]


def priority_classes() -> list[Obj]:
    """The two that Kubernetes reserves for itself."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            "description": f"Used for system critical pods that must {what}.",
            "preemptionPolicy": "PreemptLowerPriority",
        }
        for name, value, what in (
            ("system-cluster-critical", 2_000_000_000, "run in the cluster, but can be moved to another node if "
             "necessary"),
            ("system-node-critical", 2_000_001_000, "not be moved from their current node"),
        )
    ]


def roles() -> list[Obj]:
    """The default ClusterRoles."""
    probes = ("/healthz", "/livez", "/readyz")
    aggregate = f"{RBAC}/aggregate-to-"
    return [
        _role("cluster-admin", [_rule("*", "*", "*"), _urls("*", verb="*")]),
        _role("system:discovery", [_urls(
            "/api", "/api/*", "/apis", "/apis/*", *probes, "/openapi", "/openapi/*", "/version", "/version/")]),
        _role("system:public-info-viewer", [_urls(*probes, "/version", "/version/")]),
        _role("system:monitoring", [
            _urls("/metrics", "/metrics/slis", *probes, *(f"{probe}/*" for probe in probes)),
            _rule("get", "", "nodes/metrics"),
        ]),
        *_components(),
        _role("system:basic-user", [
            _rule("create", "authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
            _rule("create", "authentication.k8s.io", "selfsubjectreviews"),
        ]),
        _aggregated("admin"),
        _aggregated("edit", {aggregate + "admin": "true"}),
        _aggregated("view", {aggregate + "edit": "true"}),
        _role("system:aggregate-to-admin", _admin_rules(), {aggregate + "admin": "true"}),
        _role("system:aggregate-to-edit", _edit_rules(), {aggregate + "edit": "true"}),
        _role("system:aggregate-to-view", _view_rules(), {aggregate + "view": "true"}),
        _role("system:auth-delegator", [
            _rule("create", "authentication.k8s.io", "tokenreviews"),
            _rule("create", "authorization.k8s.io", "subjectaccessreviews"),
        ]),
        _role("system:service-account-issuer-discovery", [_urls(
            "/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks",
            "/openid/v1/jwks/")]),
        _role("system:node", _node_rules()),
    ]


def _bindings() -> list[Obj]:
    everyone = ("system:authenticated", "system:unauthenticated")
    wanted = (
        ("cluster-admin", ("system:masters",)), ("system:monitoring", ("system:monitoring",)),
        ("system:discovery", everyone[:1]), ("system:basic-user", everyone[:1]),
        ("system:public-info-viewer", everyone),
        ("system:service-account-issuer-discovery", ("system:serviceaccounts",)),
    )
    schedulers = [_binding(name, user="system:kube-scheduler") for name in (
        "system:kube-scheduler", "system:volume-scheduler")]
    return [*(_binding(name, groups) for name, groups in wanted), *schedulers, *_kube_system()]


def _service(endpoint: tuple[str, int]) -> list[Obj]:
    """The Service ``kubernetes`` and where it leads."""
    labels = {"component": "apiserver", "provider": "kubernetes"}
    address, port = endpoint
    return [
        {
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
            "spec": {
                "clusterIP": SERVICE_IP, "clusterIPs": [SERVICE_IP], "type": "ClusterIP", "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            },
        },
        {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        },
    ]


def _role(name: str, rules: list[Obj], labels: dict[str, str] | None = None) -> Obj:
    return {
        "apiVersion": API, "kind": "ClusterRole",
        "metadata": {
            "name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
            "annotations": {f"{RBAC}/autoupdate": "true"},
        },
        "rules": rules,
    }


def _aggregated(name: str, labels: dict[str, str] | None = None) -> Obj:
    chosen = {"matchLabels": {f"{RBAC}/aggregate-to-{name}": "true"}}
    rules = {
        "admin": [*_admin_rules(), *_edit_rules(), *_view_rules()], "edit": [*_edit_rules(), *_view_rules()],
        "view": _view_rules(),
    }[name]
    return _role(name, rules, labels) | {"aggregationRule": {"clusterRoleSelectors": [chosen]}}


def _binding(role: str, groups: Sequence[str] = (), *, user: str = "") -> Obj:
    subjects = [("Group", group) for group in groups] + ([("User", user)] if user else [])
    return {
        "apiVersion": API, "kind": "ClusterRoleBinding",
        "metadata": {
            "name": role, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {f"{RBAC}/autoupdate": "true"},
        },
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": kind, "name": name} for kind, name in subjects],
    }


def _kube_system() -> list[Obj]:
    """What extension API servers and metrics adapters bind their ServiceAccounts to."""
    name = "extension-apiserver-authentication-reader"
    rule = _rule(_READ, "", "configmaps") | {"resourceNames": ["extension-apiserver-authentication"]}
    role = _role(name, [rule]) | {"kind": "Role"}
    role["metadata"]["namespace"] = "kube-system"
    return [role]


def _components() -> list[Obj]:
    """The roles of the scheduler, whose permissions people look up and whose stand-ins are bound to them."""
    dra = "resource.k8s.io"
    return [
        _role("system:kube-scheduler", [
            _rule(("create", "patch", "update"), ("", "events.k8s.io"), "events"),
            _rule("create", "coordination.k8s.io", "leases"),
            _rule(("get", "list", "update", "watch"), "coordination.k8s.io", "leases") | {
                "resourceNames": ["kube-scheduler"]},
            _rule(_READ_WRITE, "coordination.k8s.io", "leasecandidates"),
            _rule(_READ, "", "nodes"),
            _rule(("delete", *_READ), "", "pods"),
            _rule("create", "", "bindings", "pods/binding"),
            _rule(("patch", "update"), "", "pods/status"),
            _rule(_READ, "", "replicationcontrollers", "services"),
            _rule(_READ, ("apps", "extensions"), "replicasets"),
            _rule(_READ, "apps", "statefulsets"),
            _rule(_READ, "policy", "poddisruptionbudgets"),
            _rule(_READ, "", "persistentvolumeclaims", "persistentvolumes"),
            _rule("create", "authentication.k8s.io", "tokenreviews"),
            _rule("create", "authorization.k8s.io", "subjectaccessreviews"),
            _rule(_READ, "storage.k8s.io", "csidrivers", "csinodes", "csistoragecapacities", "volumeattachments"),
            _rule(_READ, "", "namespaces"),
            _rule(_READ, dra, "deviceclasses", "resourceslices"),
            _rule((*_READ, "create", "delete", "patch", "update"), dra, "resourceclaims"),
            _rule((*_READ, "patch", "update"), dra, "resourceclaims/status"),
            _rule(("patch", "update"), dra, "resourceclaims/binding"),
            _rule("update", "", "pods/finalizers"),
        ]),
        _role("system:volume-scheduler", [
            _rule((*_READ, "patch", "update"), "", "persistentvolumeclaims", "persistentvolumes"),
            _rule(_READ, "storage.k8s.io", "storageclasses"),
        ]),
    ]


def _rule(verbs: str | Sequence[str], groups: str | Sequence[str], *resources: str) -> Obj:
    return {
        "verbs": [verbs] if isinstance(verbs, str) else sorted(verbs),
        "apiGroups": [groups] if isinstance(groups, str) else list(groups), "resources": list(resources),
    }


def _urls(*paths: str, verb: str = "get") -> Obj:
    return {"verbs": [verb], "nonResourceURLs": sorted(paths)}


def _admin_rules() -> list[Obj]:
    return [
        _rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        _rule(_READ_WRITE, RBAC, "rolebindings", "roles"),
    ]


def _edit_rules() -> list[Obj]:
    return [
        _rule(_READ, "", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"),
        _rule("impersonate", "", "serviceaccounts"),
        _rule(_WRITE, "", "pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"),
        _rule("create", "", "pods/eviction"),
        _rule(_WRITE, "", "configmaps", "persistentvolumeclaims", "replicationcontrollers",
              "replicationcontrollers/scale", "secrets", "serviceaccounts", "services", "services/proxy"),
        _rule("create", "", "serviceaccounts/token"),
        _rule(_WRITE, ("", "events.k8s.io"), "events"),
        _rule(_WRITE, "apps", *_APPS_EDIT),
        _rule(_WRITE, "autoscaling", "horizontalpodautoscalers"),
        _rule(_WRITE, "batch", "cronjobs", "jobs"),
        _rule(_WRITE, "policy", "poddisruptionbudgets"),
        _rule(_WRITE, "networking.k8s.io", "ingresses", "networkpolicies"),
        _rule(_READ_WRITE, "coordination.k8s.io", "leases"),
        _rule(_WRITE, "resource.k8s.io", "resourceclaims", "resourceclaimtemplates"),
    ]


def _view_rules() -> list[Obj]:
    return [
        _rule(_READ, "", "configmaps", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "pods",
              "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts", "services",
              "services/status"),
        _rule(_READ, "", "bindings", "limitranges", "namespaces/status", "pods/log", "pods/status",
              "replicationcontrollers/status", "resourcequotas", "resourcequotas/status"),
        _rule(_READ, "", "namespaces"),
        _rule(_READ, ("", "events.k8s.io"), "events"),
        _rule(_READ, "discovery.k8s.io", "endpointslices"),
        _rule(_READ, "apps", *_APPS_VIEW),
        _rule(_READ, "autoscaling", "horizontalpodautoscalers", "horizontalpodautoscalers/status"),
        _rule(_READ, "batch", "cronjobs", "cronjobs/status", "jobs", "jobs/status"),
        _rule(_READ, "policy", "poddisruptionbudgets", "poddisruptionbudgets/status"),
        _rule(_READ, "networking.k8s.io", "ingresses", "ingresses/status", "networkpolicies"),
        _rule(_READ, "resource.k8s.io", "resourceclaims", "resourceclaims/status", "resourceclaimtemplates"),
    ]


def _node_rules() -> list[Obj]:
    modify = ("patch", "update")
    lease = ("create", "delete", "get", "patch", "update")
    return [
        _rule("create", "authentication.k8s.io", "tokenreviews"),
        _rule("create", "authorization.k8s.io", "localsubjectaccessreviews", "subjectaccessreviews"),
        _rule(_READ, "", "services"),
        _rule(("create", *_READ), "", "nodes"),
        _rule(modify, "", "nodes/status"),
        _rule(modify, "", "nodes"),
        _rule(("create", *modify), ("", "events.k8s.io"), "events"),
        _rule(_READ, "", "pods"),
        _rule(("create", "delete"), "", "pods"),
        _rule(modify, "", "pods/status"),
        _rule("create", "", "pods/eviction"),
        _rule(_READ, "", "configmaps", "secrets"),
        _rule("get", "", "persistentvolumeclaims", "persistentvolumes"),
        _rule("get", "", "endpoints"),
        _rule(lease, "coordination.k8s.io", "leases"),
        _rule("get", "storage.k8s.io", "volumeattachments"),
        _rule("create", "", "serviceaccounts/token"),
        _rule(("get", *modify), "", "persistentvolumeclaims/status"),
        _rule(_READ, "storage.k8s.io", "csidrivers"),
        _rule(lease, "storage.k8s.io", "csinodes"),
        _rule(_READ, "node.k8s.io", "runtimeclasses"),
        _rule("get", "resource.k8s.io", "resourceclaims"),
        _rule("get", "", "serviceaccounts"),
    ]
