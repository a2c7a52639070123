"""Stand-ins for what holders of GPUs refer to and no manifest shows: made empty, and each of them told.

A stranger's repository keeps its Secrets, claims and classes elsewhere; what it is drilled for is whether its GPUs go
off, so the steady state must come about. The other side is never helped: what an executor names (a CronJob, a workload
of a ServiceAccount that is named, whatever a binding speaks of) is not made, because its absence is a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from killcheck.entries import Assumption
from killcheck.kube import gpus, workloads
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, annotations_of, dig, name_of, namespace_of, ref_of

__all__ = ["missing"]

#: (kind, namespace, name).
Key = tuple[str, str, str]

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_SYSTEM_PRIORITIES = ("system-cluster-critical", "system-node-critical")
_MODE = {
    "ServiceAccount": "without rights",
    "Secret": "empty",
    "ConfigMap": "empty",
    "PersistentVolumeClaim": "empty",
    "StorageClass": "provisioning at once",
    "RuntimeClass": "like the default",
    "PriorityClass": "of value 0",
}


class _Wanted(Struct):
    """What is referred to: who names each, and the keys of it."""

    by: dict[Key, str] = field(default_factory=dict)
    keys: dict[Key, set[str]] = field(default_factory=dict)

    def name(self, key: Key, who: str, entry: str = "") -> None:
        self.by.setdefault(key, who)
        if entry:
            self.keys.setdefault(key, set()).add(entry)


def missing(objects: Iterable[Obj], kube: Kube) -> tuple[list[Obj], list[Assumption]]:
    """What to create beside ``objects``, and a sentence for each; a claim's class is looked at for every claim."""
    everything = list(objects)
    claims = gpus.claims_of(everything)
    wanted, others = _Wanted(), _Wanted()
    for obj in everything:
        held = [t for t in workloads.templates(obj) if workloads.holds(t, namespace_of(obj), claims)]
        for template in workloads.templates(obj):
            holder = obj.get("kind") != "CronJob" and bool(held)
            if holder or _acts(obj, template):
                _references(obj, template.spec, wanted if holder else others)
        own = [dig(v, "ephemeral", "volumeClaimTemplate") for t in workloads.templates(obj) for v in _volumes(t.spec)]
        for claim in (*dig(obj, "spec", "volumeClaimTemplates", default=[]), *filter(None, own)):
            _class_of(claim, ref_of(obj), wanted)
        if obj.get("kind") == "PersistentVolumeClaim":
            _class_of(obj, ref_of(obj), wanted)
        for subject in obj.get("subjects") or () if str(obj.get("kind")).endswith("RoleBinding") else ():
            others.name(
                (
                    "ServiceAccount",
                    str(subject.get("namespace") or namespace_of(obj) or "default"),
                    str(subject.get("name")),
                ),
                ref_of(obj),
            )
    there = {(str(o.get("kind")), _place(o), name_of(o)) for o in everything}
    absent = [key for key in wanted.by if key not in there and key not in others.by and not _in_cluster(kube, key)]
    if ("StorageClass", "", "") in absent and _has_default(everything):
        absent.remove(("StorageClass", "", ""))
    made = [obj for key in absent for obj in _made(key, sorted(wanted.keys.get(key, ())))]
    return made, [_told(key, wanted.by[key]) for key in absent]


def _place(obj: Obj) -> str:
    """The namespace that an object is made in; none of what has none."""
    return namespace_of(obj) or ("default" if obj.get("kind") in _NAMESPACED else "")


def _acts(obj: Obj, template: workloads.PodTemplate) -> bool:
    """Whether it may be an executor: what is scheduled, what ends, and what has an identity of its own."""
    return obj.get("kind") in ("CronJob", "Job", "Pod") or bool(template.spec.get("serviceAccountName"))


def _references(obj: Obj, spec: Obj, into: _Wanted) -> None:
    """Everything that a pod of this spec cannot start without."""
    ns, who = namespace_of(obj) or "default", ref_of(obj)
    for field_name, kind in (("runtimeClassName", "RuntimeClass"), ("priorityClassName", "PriorityClass")):
        if spec.get(field_name) and spec[field_name] not in _SYSTEM_PRIORITIES:
            into.name((kind, "", str(spec[field_name])), who)
    account = str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default")
    if account != "default":
        into.name(("ServiceAccount", ns, account), who)
    for kind, name, entry in (*_of_containers(spec), *_of_volumes(spec)):
        into.name((kind, ns, name), who, entry)


def _of_containers(spec: Obj) -> Iterator[tuple[str, str, str]]:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for env in container.get("env") or ():
            for part, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
                ref = dig(env, "valueFrom", part)
                if ref and not ref.get("optional"):
                    yield kind, str(ref.get("name")), str(ref.get("key") or "")
        for source in container.get("envFrom") or ():
            for part, kind in (("secretRef", "Secret"), ("configMapRef", "ConfigMap")):
                ref = source.get(part)
                if ref and not ref.get("optional"):
                    yield kind, str(ref.get("name")), ""


def _volumes(spec: Obj) -> list[Obj]:
    return list(spec.get("volumes") or ())


def _of_volumes(spec: Obj) -> Iterator[tuple[str, str, str]]:
    for volume in _volumes(spec):
        sources = [volume, *(dig(volume, "projected", "sources", default=[]))]
        for source in sources:
            for part, kind, name in (("secret", "Secret", "secretName"), ("configMap", "ConfigMap", "name")):
                ref = source.get(part)
                if not ref or ref.get("optional"):
                    continue
                named = str(ref.get(name) or ref.get("name"))
                yield kind, named, ""
                yield from ((kind, named, str(item.get("key"))) for item in ref.get("items") or ())
        claim = dig(volume, "persistentVolumeClaim", "claimName")
        if claim:
            yield "PersistentVolumeClaim", str(claim), ""


def _class_of(claim: Obj, who: str, into: _Wanted) -> None:
    """A claim without a class takes the default one; one with an empty class is of no class."""
    if dig(claim, "spec", "volumeName") or dig(claim, "spec", "storageClassName") == "":
        return
    into.name(("StorageClass", "", str(dig(claim, "spec", "storageClassName", default=""))), who)


def _has_default(objects: Iterable[Obj]) -> bool:
    return any(o.get("kind") == "StorageClass" and annotations_of(o).get(_DEFAULT_CLASS) == "true" for o in objects)


_VERSIONS = {
    "ServiceAccount": "v1",
    "Secret": "v1",
    "ConfigMap": "v1",
    "PersistentVolumeClaim": "v1",
    "StorageClass": "storage.k8s.io/v1",
    "RuntimeClass": "node.k8s.io/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
}
#: Those of them that live in a namespace.
_NAMESPACED = frozenset({"ServiceAccount", "Secret", "ConfigMap", "PersistentVolumeClaim"})


def _in_cluster(kube: Kube, key: Key) -> bool:
    kind, namespace, name = key
    resource = kube.resource_for(_VERSIONS[kind], kind)
    if not name:
        return any(annotations_of(one).get(_DEFAULT_CLASS) == "true" for one in kube.list(resource).items)
    if namespace and kube.find(r.NAMESPACES, namespace) is None:
        return False
    return kube.find(resource, name, namespace) is not None


def _made(key: Key, entries: list[str]) -> Iterator[Obj]:
    kind, namespace, name = key
    meta: Obj = {"name": name or "assumed-default", **({"namespace": namespace} if namespace else {})}
    obj: Obj = {"apiVersion": _VERSIONS[kind], "kind": kind, "metadata": meta}
    if kind in ("Secret", "ConfigMap"):
        obj["data"] = dict.fromkeys(entries, "")
    elif kind == "PersistentVolumeClaim":
        volume = f"assumed-{namespace}-{name}"
        modes, size = ["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"], "1Ti"
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": modes,
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": {"namespace": namespace, "name": name},
                "csi": {"driver": "assumed.killcheck.dev", "volumeHandle": volume},
            },
        }
        obj["spec"] = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": volume,
            "resources": {"requests": {"storage": size}},
        }
    elif kind == "StorageClass":
        obj["provisioner"] = "assumed.killcheck.dev"
        if not name:
            meta["annotations"] = {_DEFAULT_CLASS: "true"}
    elif kind == "RuntimeClass":
        obj["handler"] = "runc"
    elif kind == "PriorityClass":
        obj["value"] = 0
    yield obj


def _told(key: Key, who: str) -> Assumption:
    kind, namespace, name = key
    what = "a default StorageClass" if not name else f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
    said = f"{what} is in no manifest: assumed {_MODE[kind]}, because {who} names it"
    return Assumption(said, "/".join(part for part in key if part))
