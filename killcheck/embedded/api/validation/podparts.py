"""What may change in a pod through its subresources: ephemeral containers are added, resources are resized.

Source: ``ValidatePodEphemeralContainersUpdate`` and ``ValidatePodResize`` in pkg/apis/core/validation/validation.go,
Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.embedded.api.validation import meta, podspec
from killcheck.embedded.api.validation.fields import Causes, forbidden, invalid
from killcheck.kube.objects import Obj, dig

__all__ = ["ephemeral", "resize"]

_MIRROR = "kubernetes.io/config.mirror"
_RESIZED = ("cpu", "memory")


def ephemeral(new: Obj, old: Obj) -> Causes:
    """New ephemeral containers beside those there are."""
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods do not support ephemeral containers")]
    causes = meta.update(new["metadata"], old["metadata"]) + podspec.pod_spec(new["spec"], "spec", pod=True)
    now = {one.get("name"): one for one in new["spec"].get("ephemeralContainers") or []}
    for before in old["spec"].get("ephemeralContainers") or []:
        name, path = before["name"], "spec.ephemeralContainers"
        if name not in now:
            causes.append(forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif now[name] != before:
            causes.append(forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n'))
    return causes


def resize(new: Obj, old: Obj) -> Causes:
    """Other amounts of CPU and memory."""
    from killcheck.embedded.api.strategy import qos_class

    if _MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods cannot be resized")]
    causes = meta.update(new["metadata"], old["metadata"]) + podspec.pod_spec(new["spec"], "spec", pod=True)
    before = str(dig(old, "status", "qosClass", default=""))
    if qos_class(new["spec"]) != before:
        causes.append(invalid("spec", before, "Pod QOS Class may not change as a result of resizing"))
    misplaced = [
        cause
        for field in ("containers", "initContainers")
        for cause in _same_containers(new["spec"].get(field) or [], old["spec"].get(field) or [], field)
    ]
    if misplaced:
        return causes + misplaced
    for field in ("initContainers", "containers"):
        for i, (now, then) in enumerate(zip(new["spec"].get(field) or [], old["spec"].get(field) or [], strict=True)):
            fixed = field == "initContainers" and then.get("restartPolicy") != "Always"
            if not fixed:
                causes += _container(now, then, f"spec.{field}[{i}].resources")
            elif now != then:
                causes.append(forbidden("spec", "resources for non-sidecar init containers are immutable"))
    return causes


def _same_containers(ours: list[Obj], theirs: list[Obj], field: str) -> Causes:
    if len(ours) != len(theirs):
        return [forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")]
    return [
        forbidden(f"spec.{field}[{i}].name", f"{field} may not be renamed or reordered on resize")
        for i, (now, then) in enumerate(zip(ours, theirs, strict=True))
        if now.get("name") != then.get("name")
    ]


def _container(now: Obj, then: Obj, path: str) -> Causes:
    causes: Causes = []
    others: list[bool] = []
    for field in ("requests", "limits"):
        ours, theirs = (dig(container, "resources", field, default={}) for container in (now, then))
        if set(theirs) - set(ours):
            causes.append(forbidden(f"{path}.{field}", f"resource {field} cannot be removed"))
        others.append(_besides(ours) != _besides(theirs))
    return causes + [forbidden("spec", "only cpu and memory resources are mutable")] * any(others)


def _besides(amounts: Obj) -> Obj:
    return {name: amount for name, amount in amounts.items() if name not in _RESIZED}
