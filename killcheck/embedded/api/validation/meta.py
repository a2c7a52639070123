"""Metadata of any object.

Source: k8s.io/apimachinery/pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from killcheck.embedded.api.validation import names
from killcheck.embedded.api.validation.fields import Causes, forbidden, immutable, invalid, required
from killcheck.kube.objects import Obj

__all__ = ["create", "path_segment", "selector", "template", "update"]

NameRule = Callable[[str], Sequence[str]]


def path_segment(value: str) -> list[str]:
    """What can stand in a URL: names of roles and their bindings, and of custom resources' oldest ways."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in value]


def create(meta: Obj, rule: NameRule) -> Causes:
    """A new object's metadata; ``rule`` says what is wrong with a name."""
    causes: Causes = []
    generate = meta.get("generateName")
    if generate:
        # A prefix may end in a dash.
        checked = generate[:-1] + "a" if generate.endswith("-") else generate
        causes += [invalid("metadata.generateName", generate, words) for words in rule(checked)]
    name = meta.get("name", "")
    if name:
        causes += [invalid("metadata.name", name, words) for words in rule(name)]
    else:
        causes.append(required("metadata.name", "name or generateName is required"))
    if meta.get("namespace"):
        namespace = meta["namespace"]
        causes += [invalid("metadata.namespace", namespace, words) for words in names.dns_label(namespace)]
    return causes + _common(meta)


def update(new: Obj, old: Obj) -> Causes:
    """Changed metadata."""
    causes: Causes = []
    for field in ("name", "namespace", "uid", "creationTimestamp"):
        if new.get(field) is not None and old.get(field) is not None:
            causes += immutable(f"metadata.{field}", new.get(field), old.get(field))
    return causes + _common(new)


def _common(meta: Obj) -> Causes:
    causes = names.labels("metadata.labels", meta.get("labels"))
    causes += names.annotation_map("metadata.annotations", meta.get("annotations"))
    causes += _owners(meta.get("ownerReferences") or [])
    finalizers = meta.get("finalizers") or []
    for name in finalizers:
        causes += [invalid("metadata.finalizers", name, words) for words in names.qualified_name(name)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        causes.append(invalid(
            "metadata.finalizers", finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))
    return causes


def _owners(owners: list[Obj]) -> Causes:
    causes: Causes = []
    path, controller = "metadata.ownerReferences", ""
    for owner in owners:
        for field, words in (("apiVersion", "version must not be empty"), ("kind", "must not be empty"),
                             ("name", "must not be empty"), ("uid", "must not be empty")):
            if not owner.get(field):
                causes.append(invalid(f"{path}.{field}", owner.get(field, ""), words))
        if owner.get("controller"):
            this = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                causes.append(invalid(
                    path, owners, 'Only one reference can have Controller set to true. Found "true" in references '
                    f"for {controller} and {this}"))
            controller = controller or this
    return causes


def template(meta: Obj, path: str) -> Causes:
    """The metadata of a template of pods."""
    causes = names.labels(f"{path}.labels", meta.get("labels"))
    return causes + names.annotation_map(f"{path}.annotations", meta.get("annotations"))


_NEEDS_VALUES = ("In", "NotIn")
_NO_VALUES = ("Exists", "DoesNotExist")


def selector(given: Obj | None, path: str) -> Causes:
    """A label selector (metav1.LabelSelector)."""
    if not given:
        return []
    causes = names.labels(f"{path}.matchLabels", given.get("matchLabels"))
    for i, one in enumerate(given.get("matchExpressions") or []):
        at = f"{path}.matchExpressions[{i}]"
        operator, values = one.get("operator", ""), one.get("values") or []
        if operator in _NEEDS_VALUES:
            if not values:
                causes.append(required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in _NO_VALUES:
            if values:
                causes.append(forbidden(
                    f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
        else:
            causes.append(invalid(f"{at}.operator", operator, "not a valid selector operator"))
        causes += names.label_name(f"{at}.key", one.get("key", ""))
        for j, value in enumerate(values):
            causes += [invalid(f"{at}.values[{j}]", value, words) for words in names.label_value(value)]
    return causes
