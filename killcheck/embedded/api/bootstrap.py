"""What a fresh cluster holds before anybody has written to it.

Roles and bindings are those of a fresh control plane of Kubernetes v1.36.2, all of them (``bootstrap_rbac.json``; made
there by plugin/pkg/auth/authorizer/rbac/bootstrappolicy). The controllers here act as ``system:masters`` all the same.
The rest is kubeadm's defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from killcheck.embedded.api.kinds import builtin
from killcheck.embedded.api.managedfields import Manager
from killcheck.kube.objects import Obj, format_time, name_of, namespace_of

if TYPE_CHECKING:
    from killcheck.embedded.api.server import ApiServer

__all__ = [
    "SERVICE_IP",
    "authentication",
    "install_api_services",
    "install_definitions",
    "install_roles",
    "namespaces",
    "objects",
    "priority_classes",
    "roles",
]

RBAC = "rbac.authorization.k8s.io"
API = f"{RBAC}/v1"
#: ClusterIP of the Service ``kubernetes`` in a cluster with kubeadm's service network.
SERVICE_IP = "10.96.0.1"

#: How far in front a group comes, and a version in its group (a v1.36.2 API server's own APIServices).
_PRIORITIES = {
    "v1": (18000, 1),
    "admissionregistration.k8s.io/v1": (16700, 15),
    "apiextensions.k8s.io/v1": (16700, 15),
    "apps/v1": (17800, 15),
    "authentication.k8s.io/v1": (17700, 15),
    "authorization.k8s.io/v1": (17600, 15),
    "autoscaling/v1": (17500, 15),
    "autoscaling/v2": (17500, 30),
    "batch/v1": (17400, 15),
    "certificates.k8s.io/v1": (17300, 15),
    "coordination.k8s.io/v1": (16500, 15),
    "discovery.k8s.io/v1": (16200, 15),
    "events.k8s.io/v1": (17750, 15),
    "flowcontrol.apiserver.k8s.io/v1": (16100, 21),
    "networking.k8s.io/v1": (17200, 15),
    "node.k8s.io/v1": (16300, 15),
    "policy/v1": (17100, 15),
    "rbac.authorization.k8s.io/v1": (17000, 15),
    "resource.k8s.io/v1": (16200, 21),
    "scheduling.k8s.io/v1": (16600, 15),
    "storage.k8s.io/v1": (16800, 15),
}
_API_SERVICES = next(kind for kind in builtin() if kind.resource.kind == "APIService")
_DEFINITIONS = next(kind for kind in builtin() if kind.resource.kind == "CustomResourceDefinition")
_ROLE_KINDS = {kind.resource.kind: kind for kind in builtin() if kind.resource.group == RBAC}


def objects(endpoint: tuple[str, int] = ("192.0.2.2", 6443)) -> list[Obj]:
    """What is created through the API, in order. ``endpoint``: where the API server itself listens."""
    return [*namespaces(), *priority_classes(), *_service(endpoint)]


def authentication(ca_pem: str, since: datetime) -> list[Obj]:
    """What extension API servers and token tracking read of how clients are known here (pkg/controlplane)."""
    proxies = {
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-client-ca-file": ca_pem,
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
    held = {
        "extension-apiserver-authentication": {"client-ca-file": ca_pem} | proxies,
        "kube-apiserver-legacy-service-account-token-tracking": {"since": f"{since:%Y-%m-%d}"},
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "kube-system"},
            "data": data,
        }
        for name, data in held.items()
    ]


def namespaces() -> list[Obj]:
    """default, kube-system, kube-public, kube-node-lease."""
    names = ("default", "kube-system", "kube-public", "kube-node-lease")
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]


def priority_classes() -> list[Obj]:
    """The two that Kubernetes reserves for itself."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": f"Used for system critical pods that must {what}.",
            "preemptionPolicy": "PreemptLowerPriority",
        }
        for name, value, what in (
            (
                "system-cluster-critical",
                2_000_000_000,
                "run in the cluster, but can be moved to another node if necessary",
            ),
            ("system-node-critical", 2_000_001_000, "not be moved from their current node"),
        )
    ]


@cache
def roles() -> tuple[Obj, ...]:
    """Every default ClusterRole, Role and binding; shared by all clusters, and read-only."""
    told = json.loads((Path(__file__).parent / "bootstrap_rbac.json").read_text())["objects"]
    return tuple(_default(**one) for one in told)


def _default(kind: str, name: str, namespace: str = "", labels: dict[str, str] | None = None, **content: Obj) -> Obj:
    meta: Obj = {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    meta |= {"namespace": namespace} if namespace else {}
    return {"kind": kind, "apiVersion": API, "metadata": meta, **content}


def install_roles(server: ApiServer) -> None:
    """Put :func:`roles` in the store, as the server's own post-start hook makes them; the namespaces are there.

    Not by way of requests: that would be a third of the time a cluster takes to begin.
    """
    now = format_time(server.loop.now())
    for role in roles():
        kind = _ROLE_KINDS[role["kind"]]
        key = (namespace_of(role), name_of(role))
        meta = role["metadata"] | {"uid": server.new_uid(), "creationTimestamp": now}
        stored = server.store.put(kind.table, key, role | {"metadata": meta})
        server.managed.note(kind, key, Manager("kube-apiserver", "Update", API), stored)


def install_api_services(server: ApiServer) -> None:
    """Put an APIService in the store for every group and version that is served here, as a server does at its start."""
    now = format_time(server.loop.now())
    manager = Manager("kube-apiserver", "Update", _API_SERVICES.resource.api_version)
    local = {"reason": "Local", "message": "Local APIServices are always available"}
    condition = {"type": "Available", "status": "True", "lastTransitionTime": now} | local
    serves = {kind.resource.api_version for kind in server.kinds.all()}
    for api_version, (group_priority, version_priority) in _PRIORITIES.items():
        if api_version not in serves:
            continue
        group, _, version = api_version.rpartition("/")
        asked: Obj = {
            "kind": "APIService",
            "apiVersion": _API_SERVICES.resource.api_version,
            "metadata": {
                "name": f"{version}.{group}",
                "uid": server.new_uid(),
                "creationTimestamp": now,
                "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
            },
            "spec": ({"group": group} if group else {})
            | {"version": version, "groupPriorityMinimum": group_priority, "versionPriority": version_priority},
        }
        key = ("", name_of(asked))
        stored = server.store.put(_API_SERVICES.table, key, asked | {"status": {"conditions": [condition]}})
        server.managed.note(_API_SERVICES, key, manager, asked | {"metadata": stored["metadata"]})


def install_definitions(server: ApiServer, definitions: Iterable[Obj], manager: str) -> None:
    """Put CustomResourceDefinitions in the store as a POST by ``manager`` would; they are complete, and stay unchanged.

    Not by way of requests, as the roles: they are what nearly every cluster begins with, and were read once.
    """
    now = format_time(server.loop.now())
    who = Manager(manager, "Update", _DEFINITIONS.resource.api_version)
    for asked in definitions:
        key = ("", name_of(asked))
        own = {"uid": server.new_uid(), "creationTimestamp": now, "generation": 1}
        crd = asked | {"metadata": asked["metadata"] | own}
        crd["spec"] = asked["spec"] | {"names": dict(asked["spec"]["names"])}
        server.custom.accept(crd)
        stored = server.store.put(_DEFINITIONS.table, key, crd)
        server.managed.note(_DEFINITIONS, key, who, asked | {"spec": stored["spec"]})


def _service(endpoint: tuple[str, int]) -> list[Obj]:
    """The Service ``kubernetes`` and where it leads."""
    labels = {"component": "apiserver", "provider": "kubernetes"}
    address, port = endpoint
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
            "spec": {
                "clusterIP": SERVICE_IP,
                "clusterIPs": [SERVICE_IP],
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            },
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "addressType": "IPv4",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        },
    ]
