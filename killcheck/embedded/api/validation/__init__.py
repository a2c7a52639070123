"""What is wrong with an object of a built-in type, in Kubernetes' words.

What kill paths get wrong is checked as there: names, schedules, pods, selectors, what must not change. What no kill
path touches (windows, iSCSI, cluster trust) is taken as it comes. One module a group of types; nothing in here knows
of requests or of the store.
"""

from __future__ import annotations

import importlib

from killcheck.embedded.api.kinds import Kind
from killcheck.kube.objects import Obj

__all__ = ["validate"]

#: (group, kind) -> the module that has ``create(kind, new)`` and ``update(kind, new, old)`` for it.
_MODULES = {
    ("", "Pod"): "podrules",
    ("", "PodTemplate"): "podrules",
    ("", "ReplicationController"): "apps",
    ("apps", "Deployment"): "apps",
    ("apps", "ReplicaSet"): "apps",
    ("apps", "StatefulSet"): "apps",
    ("apps", "DaemonSet"): "apps",
    ("batch", "Job"): "batch",
    ("batch", "CronJob"): "batch",
    ("autoscaling", "HorizontalPodAutoscaler"): "scaling",
    ("policy", "PodDisruptionBudget"): "scaling",
    ("", "Event"): "events",
    ("events.k8s.io", "Event"): "events",
    ("", "Service"): "services",
    ("", "Secret"): "config",
    ("", "ConfigMap"): "config",
    ("", "ResourceQuota"): "config",
    ("", "LimitRange"): "config",
    ("", "Namespace"): "cluster",
    ("", "Node"): "cluster",
    ("scheduling.k8s.io", "PriorityClass"): "cluster",
    ("coordination.k8s.io", "Lease"): "cluster",
    ("networking.k8s.io", "NetworkPolicy"): "cluster",
    ("", "PersistentVolumeClaim"): "cluster",
    ("", "ServiceAccount"): "cluster",
    ("resource.k8s.io", "ResourceClaim"): "cluster",
    ("resource.k8s.io", "ResourceClaimTemplate"): "cluster",
    ("rbac.authorization.k8s.io", "Role"): "access",
    ("rbac.authorization.k8s.io", "ClusterRole"): "access",
    ("rbac.authorization.k8s.io", "RoleBinding"): "access",
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): "access",
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): "extensions",
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): "extensions",
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): "expressions",
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): "expressions",
    ("resource.k8s.io", "DeviceClass"): "expressions",
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): "extensions",
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): "extensions",
    ("apiextensions.k8s.io", "CustomResourceDefinition"): "extensions",
    ("apiregistration.k8s.io", "APIService"): "aggregation",
    ("networking.k8s.io", "Ingress"): "other_kinds",
    ("discovery.k8s.io", "EndpointSlice"): "other_kinds",
    ("", "PersistentVolume"): "other_kinds",
    ("node.k8s.io", "RuntimeClass"): "other_kinds",
    ("storage.k8s.io", "StorageClass"): "other_kinds",
}


def validate(kind: Kind, new: Obj, old: Obj | None, subresource: str = "") -> list[Obj]:
    """Causes (reason, message, field) in the order in which Kubernetes lists them; empty: nothing is wrong.

    ``new`` is decoded and defaulted; ``old`` is None for a new object.
    """
    resource = kind.resource
    if old is not None and subresource in ("ephemeralcontainers", "resize"):
        from killcheck.embedded.api.validation import podparts

        return podparts.resize(new, old) if subresource == "resize" else podparts.ephemeral(new, old)
    if old is not None and subresource == "status" and (resource.group, resource.kind) == ("batch", "Job"):
        from killcheck.embedded.api.validation import jobstatus

        return jobstatus.update(new, old)
    whole = (resource.group, resource.kind) == ("", "Node")  # whose status is looked at as all of it is
    if old is not None and subresource == "status" and not whole:
        from killcheck.embedded.api.validation import statuses

        return statuses.update(kind, new, old)
    name = _MODULES.get((resource.group, resource.kind), "anything")
    module = importlib.import_module(f"{__name__}.{name}")
    causes: list[Obj] = module.create(kind, new) if old is None else module.update(kind, new, old)
    return causes
