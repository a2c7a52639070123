"""ResourceQuota: a create that would take a namespace past its hard limits is refused.

What is used is counted live from the store, so it can never lag behind. Sources: apiserver's
admission/plugin/resourcequota/controller.go and pkg/quota/v1/evaluator/core; recordings 12 and 12b.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from killcheck.clock import Loop
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.pod_resources import ZERO, Quantity, pod_resources, quantity
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, dig, name_of, parse_time

__all__ = ["ResourceQuota", "usage"]

QUOTAS = ("", "resourcequotas")
PODS = ("", "pods")
CLAIMS = ("", "persistentvolumeclaims")
SERVICES = ("", "services")

ONE = quantity(1)
#: Core resources that can be limited by their bare name.
COUNTED = frozenset(
    {"configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
#: Where one of these is limited, every container must ask for it (Kubernetes calls it a mistake, and keeps it).
MUST_SPECIFY = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
POD_NAMES = MUST_SPECIFY | {
    "pods",
    "count/pods",
    "ephemeral-storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
}


class ResourceQuota:
    """ResourceQuota admission; the last plugin of the chain."""

    def __init__(self, store: Store, loop: Loop) -> None:
        self.store = store
        self.loop = loop

    def validate(self, request: AdmissionRequest) -> list[str]:
        """Refuse what exceeds a quota, and pods that do not say what a quota limits."""
        if request.operation != "CREATE" or request.subresource or request.obj is None or not request.namespace:
            return []
        now = self.loop.now()
        for _, quota in self.store.items(QUOTAS, request.namespace):
            if _matches(quota, request.resource, request.obj):
                self._check(request, quota, now)
        return []

    def _check(self, request: AdmissionRequest, quota: Obj, now: datetime) -> None:
        hard = _hard(quota)
        if request.resource == PODS:
            missing = _unspecified(request.obj or {}, hard)
            if missing:
                raise request.forbidden(f"failed quota: {name_of(quota)}: must specify {missing}")
        asked = {
            name: amount
            for name, amount in _of_object(request.resource, request.obj or {}, now).items()
            if name in hard and amount.value
        }
        if not asked:
            return
        used = _used(self.store, quota, now)
        over = sorted(name for name, amount in asked.items() if hard[name] < used.get(name, ZERO) + amount)
        if over:
            raise request.forbidden(
                f"exceeded quota: {name_of(quota)}, requested: {_listed(over, asked)}, used: {_listed(over, used)}, "
                f"limited: {_listed(over, hard)}"
            )


def usage(store: Store, quota: Obj, now: datetime) -> dict[str, str]:
    """``status.used`` of a quota as it is now: canonical quantities by name."""
    used = _used(store, quota, now)
    return {name: str(used.get(name, ZERO)) for name in sorted(_hard(quota))}


def _hard(quota: Obj) -> dict[str, Quantity]:
    return {name: quantity(value) for name, value in dig(quota, "spec", "hard", default={}).items()}


def _listed(names: Iterable[str], amounts: Mapping[str, Quantity]) -> str:
    return ",".join(f"{name}={amounts.get(name, ZERO)}" for name in names)


def _used(store: Store, quota: Obj, now: datetime) -> dict[str, Quantity]:
    """What the namespace uses of what a quota limits."""
    hard = _hard(quota)
    namespace = dig(quota, "metadata", "namespace", default="")
    total: dict[str, Quantity] = {}
    for resource in _resources(hard, store):
        for obj in store.values(resource, namespace):
            if not _in_scope(quota, resource, obj):
                continue
            for name, amount in _of_object(resource, obj, now).items():
                if name in hard:
                    total[name] = total.get(name, ZERO) + amount
    return total


def _resources(hard: Mapping[str, Quantity], store: Store) -> Iterator[tuple[str, str]]:
    """The tables that a set of limits is about."""
    if any(_limits_pods(name) for name in hard):
        yield PODS
    if any("storage" in name or name == "persistentvolumeclaims" for name in hard):
        yield CLAIMS
    for table in store.tables():
        if table not in (PODS, CLAIMS) and any(name in hard for name in _count_names(table)):
            yield table


def _count_names(table: tuple[str, str]) -> tuple[str, ...]:
    group, plural = table
    names = [f"count/{plural}.{group}" if group else f"count/{plural}"]
    if not group and plural in COUNTED:
        names.append(plural)
    if table == SERVICES:
        names += ["services.nodeports", "services.loadbalancers"]
    return tuple(names)


def _limits_pods(name: str) -> bool:
    extended = name.startswith("requests.") and _extended(name.removeprefix("requests."))
    return name in POD_NAMES or extended or name.removeprefix("requests.").startswith("hugepages-")


def _extended(resource: str) -> bool:
    """Whether a resource is an extended one (``nvidia.com/gpu``)."""
    return "/" in resource and not resource.partition("/")[0].endswith("kubernetes.io")


def _matches(quota: Obj, resource: tuple[str, str], obj: Obj) -> bool:
    """Whether a quota limits this object at all."""
    hard = dig(quota, "spec", "hard", default={})
    if resource == PODS:
        concerned = any(_limits_pods(name) for name in hard)
    elif resource == CLAIMS:
        concerned = any("storage" in name or name in _count_names(CLAIMS) for name in hard)
    else:
        concerned = any(name in hard for name in _count_names(resource))
    return concerned and _in_scope(quota, resource, obj)


def _in_scope(quota: Obj, resource: tuple[str, str], obj: Obj) -> bool:
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in dig(quota, "spec", "scopes", default=[])]
    scopes += dig(quota, "spec", "scopeSelector", "matchExpressions", default=[])
    return all(resource == PODS and _scope_holds(scope, obj) for scope in scopes)


def _scope_holds(scope: Obj, pod: Obj) -> bool:
    name = scope.get("scopeName")
    terminating = dig(pod, "spec", "activeDeadlineSeconds") is not None
    if name == "PriorityClass":
        return _priority_class_holds(scope, dig(pod, "spec", "priorityClassName", default=""))
    if name == "CrossNamespacePodAffinity":
        return _crosses_namespaces(pod)
    return bool(
        {
            "Terminating": terminating,
            "NotTerminating": not terminating,
            "BestEffort": _best_effort(pod),
            "NotBestEffort": not _best_effort(pod),
        }.get(str(name), False)
    )


def _priority_class_holds(scope: Obj, name: str) -> bool:
    values = scope.get("values") or ()
    match scope.get("operator"):
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in values
        case "NotIn":
            return name not in values
    return False


def _best_effort(pod: Obj) -> bool:
    containers = (*dig(pod, "spec", "containers", default=[]), *dig(pod, "spec", "initContainers", default=[]))
    containers = (pod["spec"],) if dig(pod, "spec", "resources") else containers
    return not any(
        quantity(value).value
        for container in containers
        for part in ("requests", "limits")
        for name, value in dig(container, "resources", part, default={}).items()
        if name in ("cpu", "memory")
    )


def _crosses_namespaces(pod: Obj) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = dig(pod, "spec", "affinity", kind, default={})
        terms = list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [term.get("podAffinityTerm") or {} for term in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def _of_object(resource: tuple[str, str], obj: Obj, now: datetime) -> dict[str, Quantity]:
    """What one object counts for, under every name that a quota may limit."""
    counted = dict.fromkeys(_count_names(resource), ONE)
    if resource == PODS:
        return counted | (_of_pod(obj) if _charged(obj, now) else {})
    if resource == CLAIMS:
        return counted | _of_claim(obj)
    if resource == SERVICES:
        kind = dig(obj, "spec", "type", default="ClusterIP")
        ports = sum(1 for port in dig(obj, "spec", "ports", default=[]) if kind != "ClusterIP" or port.get("nodePort"))
        counted["services.nodeports"] = quantity(ports if kind in ("NodePort", "LoadBalancer") else 0)
        counted["services.loadbalancers"] = ONE if kind == "LoadBalancer" else ZERO
    return counted


def _charged(pod: Obj, now: datetime) -> bool:
    """A pod that has ended, or whose grace has run out, is no longer charged."""
    if dig(pod, "status", "phase") in ("Failed", "Succeeded"):
        return False
    deleted = dig(pod, "metadata", "deletionTimestamp")
    grace = dig(pod, "metadata", "deletionGracePeriodSeconds")
    if not deleted or grace is None:
        return True
    return now <= parse_time(deleted) + timedelta(seconds=int(grace))


def _of_pod(pod: Obj) -> dict[str, Quantity]:
    return {"pods": ONE} | _names_of(pod_resources(pod, "requests"), pod_resources(pod, "limits"))


def _names_of(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Requests and limits under the names that quotas use for them."""
    found: dict[str, Quantity] = {}
    for name, amount in requests.items():
        if name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-"):
            found[name] = found[f"requests.{name}"] = amount
        elif _extended(name):
            found[f"requests.{name}"] = amount
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name in limits:
            found[f"limits.{name}"] = limits[name]
    return found


def _of_claim(claim: Obj) -> dict[str, Quantity]:
    storage = dig(claim, "spec", "resources", "requests", "storage")
    if storage is None:
        return {}
    amount = quantity(storage)
    found = {"requests.storage": amount}
    storage_class = dig(claim, "spec", "storageClassName", default="")
    if storage_class:
        prefix = f"{storage_class}.storageclass.storage.k8s.io/"
        found |= {prefix + "requests.storage": amount, prefix + "persistentvolumeclaims": ONE}
    return found


def _unspecified(pod: Obj, hard: Mapping[str, Quantity]) -> str | None:
    """What limited resources which containers do not ask for, in Kubernetes' words; None if all do."""
    required = MUST_SPECIFY & hard.keys()
    if not required or dig(pod, "spec", "resources"):
        return None
    missing: dict[str, set[str]] = {}
    for key in ("containers", "initContainers"):
        for container in dig(pod, "spec", key, default=[]):
            resources = container.get("resources") or {}
            requests, limits = (
                {name: quantity(value) for name, value in (resources.get(part) or {}).items()}
                for part in ("requests", "limits")
            )
            for name in required - _names_of(requests, limits).keys():
                missing.setdefault(name, set()).add(str(container.get("name", "")))
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
