"""Pods as objects: new ones, and the little that may change in one that exists.

Source: ``ValidatePodCreate`` and ``ValidatePodUpdate`` in pkg/apis/core/validation/validation.go, Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import internalpod, meta, names, placement, podspec
from killcheck.embedded.api.validation.fields import Causes, forbidden, invalid, required
from killcheck.kube.objects import Obj, copy

__all__ = ["create", "update"]

_CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_MAX_INT32 = 2**31 - 1


def create(kind: Kind, new: Obj) -> Causes:
    """A new Pod or PodTemplate."""
    causes = meta.create(new["metadata"], names.dns_subdomain)
    if kind.resource.kind == "PodTemplate":
        return causes + podspec.template(new.get("template") or {}, "template")
    spec = new.get("spec") or {}
    causes += podspec.pod_spec(spec, "spec", pod=True)
    if spec.get("ephemeralContainers"):
        causes.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        causes.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return causes


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed Pod or PodTemplate."""
    causes = meta.update(new["metadata"], old["metadata"])
    if kind.resource.kind == "PodTemplate":
        return causes + podspec.template(new.get("template") or {}, "template")
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec == before:
        return causes
    causes += podspec.pod_spec(spec, "spec", pod=True)
    for field in ("containers", "initContainers"):
        ours, theirs = spec.get(field) or [], before.get(field) or []
        if len(ours) != len(theirs):
            return [*causes, forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
        causes += _images(ours, f"spec.{field}")
    wrong = _deadline(spec, before)
    if wrong:
        return causes + wrong
    causes += _tolerations(spec, before)
    causes += _gates(spec, before)
    if _munged(spec, before) != before:
        causes.append(
            forbidden(
                "spec",
                f"pod updates may not change fields other than {_CHANGEABLE}\n"
                f"{internalpod.difference(before, _munged(spec, before))}",
            )
        )
    return causes


def _images(given: list[Obj], path: str) -> Causes:
    causes: Causes = []
    for i, container in enumerate(given):
        image = container.get("image", "")
        if not image:
            causes.append(required(f"{path}[{i}].image"))
        if image.strip() != image:
            causes.append(invalid(f"{path}[{i}].image", image, "must not have leading or trailing whitespace"))
    return causes


def _deadline(spec: Obj, before: Obj) -> Causes:
    """It may be set, and be brought nearer."""
    path = "spec.activeDeadlineSeconds"
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if new is None:
        return [] if old is None else [invalid(path, None, "must not update from a positive integer to nil value")]
    if not 0 <= new <= _MAX_INT32:
        return [invalid(path, new, f"must be between 0 and {_MAX_INT32}, inclusive")]
    if old is not None and old < new:
        return [invalid(path, new, "must be less than or equal to previous value")]
    return []


def _tolerations(spec: Obj, before: Obj) -> Causes:
    """They may be added, and their seconds changed."""

    def bare(toleration: Obj) -> Obj:
        return {k: v for k, v in toleration.items() if k != "tolerationSeconds"}

    given = [bare(one) for one in spec.get("tolerations") or []]
    for one in before.get("tolerations") or []:
        if bare(one) not in given:
            words = "existing toleration can not be modified except its tolerationSeconds"
            return [forbidden("spec.tolerations", words)]
    return placement.tolerations(spec.get("tolerations") or [], "spec.tolerations")


def _gates(spec: Obj, before: Obj) -> Causes:
    there = {gate.get("name") for gate in before.get("schedulingGates") or []}
    last = {gate.get("name"): i for i, gate in enumerate(spec.get("schedulingGates") or [])}
    return [
        forbidden(
            f"spec.schedulingGates[{i}].name",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for name, i in last.items()
        if name not in there
    ]


def _munged(spec: Obj, before: Obj) -> Obj:
    """The new spec with what may change set back."""
    munged = copy(spec)
    for field in ("containers", "initContainers"):
        for ours, theirs in zip(munged.get(field) or [], before.get(field) or [], strict=True):
            if "image" in theirs:
                ours["image"] = theirs["image"]
    changeable = ["activeDeadlineSeconds", "schedulingGates", "tolerations"]
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        changeable.append("terminationGracePeriodSeconds")
    if before.get("schedulingGates"):  # a gated pod may still be told where to go
        changeable += ["nodeSelector", "affinity"]
    for field in changeable:
        munged.pop(field, None)
        if field in before:
            munged[field] = before[field]
    return munged
