"""A live cluster's objects as manifests, for a stage of their own: what they want, and nothing of where they are.

Secrets are not read anywhere; those that pods name are empty shells here. What controllers made they make again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of, owners
from killcheck.kube.workloads import templates

__all__ = ["copied"]

#: What is the other cluster's own: its webhooks answer nowhere else, its machines and addresses are not here.
_STAYS = frozenset(
    {
        "EndpointSlice",
        "Endpoints",
        "Event",
        "Lease",
        "NodeClaim",
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "Secret",
    }
)
_METADATA = ("name", "generateName", "namespace", "labels", "annotations", "finalizers")
#: Fields of a spec that say where something is, and are given anew.
_PLACED = {
    "Service": ("clusterIP", "clusterIPs", "healthCheckNodePort"),
    "Pod": ("nodeName",),
    "Node": ("podCIDR", "podCIDRs", "providerID"),
    "PersistentVolumeClaim": ("volumeName",),
    "Job": ("selector", "manualSelector"),
}


def copied(objects: Iterable[Obj]) -> list[Obj]:
    """Copies of what a person or a tool has put into a cluster, and the Secrets that their pods name, empty."""
    found = [_copy(obj) for obj in objects if not _is_given(obj)]
    return [*found, *_shells(found)]


def _is_given(obj: Obj) -> bool:
    """Whether something makes it by itself, in any cluster or for another object."""
    own = labels_of(obj).get("kubernetes.io/bootstrapping") == "rbac-defaults" or (
        obj.get("kind") == "Service" and (namespace_of(obj), name_of(obj)) == ("default", "kubernetes")
    )
    return own or obj.get("kind") in _STAYS or any(True for _ in owners(obj))


def _copy(obj: Obj) -> Obj:
    kind = str(obj.get("kind"))
    made = {key: value for key, value in obj.items() if key not in ("metadata", "status", "spec")}
    made["metadata"] = {key: obj["metadata"][key] for key in _METADATA if key in obj["metadata"]}
    if "spec" in obj:
        left_out = _PLACED.get(kind, ())
        made["spec"] = {key: value for key, value in obj["spec"].items() if key not in left_out}
    if kind == "Node":
        made["status"] = {key: dig(obj, "status", key, default={}) for key in ("capacity", "allocatable")}
    return made


def _shells(objects: list[Obj]) -> Iterator[Obj]:
    """An empty Secret for each that a pod would not start without."""
    keys: dict[tuple[str, str], dict[str, str]] = {}
    for obj in objects:
        for template in templates(obj):
            for name, key in filter(lambda found: found[0], _named(template.spec)):
                entries = keys.setdefault((namespace_of(obj) or "default", name), {})
                entries |= {key: ""} if key else {}
    for (namespace, name), entries in keys.items():
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "data": entries,
        }


def _named(spec: Obj) -> Iterator[tuple[str, str]]:
    """(Secret, key or nothing) that a pod's containers and volumes name."""
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            for source in container.get("envFrom") or ():
                yield str(dig(source, "secretRef", "name", default="")), ""
            for entry in container.get("env") or ():
                ref = dig(entry, "valueFrom", "secretKeyRef", default={})
                yield str(ref.get("name", "")), str(ref.get("key", ""))
    for volume in spec.get("volumes") or ():
        yield str(dig(volume, "secret", "secretName", default="")), ""
        for source in dig(volume, "projected", "sources", default=[]):
            yield str(dig(source, "secret", "name", default="")), ""
