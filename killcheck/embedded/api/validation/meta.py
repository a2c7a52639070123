"""Metadata of any object.

Source: k8s.io/apimachinery/pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import names
from killcheck.embedded.api.validation.fields import Causes, forbidden, immutable, invalid, required
from killcheck.kube.objects import Obj

__all__ = ["addressed", "again", "core", "create", "masked", "path_segment", "selector", "template", "update"]

NameRule = Callable[[str], Sequence[str]]


#: Types whose whole metadata is looked at with every update, as with a creation (what ``Validate*Update`` and the
#: strategies of pkg/apis and pkg/registry call); of all others only what changed is.
_AGAIN = frozenset(
    "ConfigMap ControllerRevision Endpoints EndpointSlice Ingress IngressClass LimitRange MutatingAdmissionPolicy "
    "MutatingAdmissionPolicyBinding MutatingWebhookConfiguration PersistentVolume PersistentVolumeClaim ResourceClaim "
    "ResourceClaimTemplate RuntimeClass Secret ServiceAccount StorageClass ValidatingAdmissionPolicy "
    "ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration".split()
)
_AGAIN_IN_PATHS = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})


def again(kind: str) -> NameRule | None:
    """The rule for names that an update of this kind is asked for, too; None: none is."""
    return names.dns_subdomain if kind in _AGAIN else path_segment if kind in _AGAIN_IN_PATHS else None


def path_segment(value: str) -> list[str]:
    """What can stand in a URL: names of roles and their bindings, and of custom resources' oldest ways."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in value]


def addressed(meta: Obj) -> Causes:
    """What is asked of every new object once its type's own rules are met (``rest.BeforeCreate``): its names can stand
    in a URL, what a name is made from too.
    """
    return [
        invalid(f"metadata.{field}", meta[field], words)
        for field in ("generateName", "name")
        if meta.get(field)
        for words in path_segment(meta[field])
    ]


def create(meta: Obj, rule: NameRule, *, core: bool = True, generated: bool = True) -> Causes:
    """A new object's metadata; ``rule`` says what is wrong with a name; ``core``: :func:`_standard_finalizers` too.

    ``generated``: whether what a name is to be made from is looked at; types whose name is validated by declaration do
    not (seen on v1.36: DeviceClass, ReplicationController).
    """
    causes: Causes = []
    generate = meta.get("generateName") if generated else None
    if generate:
        causes += [invalid("metadata.generateName", generate, words) for words in rule(masked(generate))]
    name = meta.get("name", "")
    if name:
        causes += [invalid("metadata.name", name, words) for words in rule(name)]
    else:
        causes.append(required("metadata.name", "name or generateName is required"))
    if meta.get("namespace"):
        namespace = meta["namespace"]
        causes += [invalid("metadata.namespace", namespace, words) for words in names.dns_label(namespace)]
    return causes + _common(meta) + _finalizers(meta) + (_standard_finalizers(meta) if core else [])


def update(new: Obj, old: Obj, *, core: bool = True, rule: NameRule | None = None) -> Causes:
    """Changed metadata: first what all types have in common, then, once more, as the type's own rules see it.

    ``rule``: of a type whose names are looked at with every update.
    """
    changed: Causes = []
    prefix = new.get("generateName") or ""
    segment = [invalid("metadata.generateName", prefix, words) for words in path_segment(prefix)]
    named = [invalid("metadata.generateName", prefix, words) for words in rule(masked(prefix))] if rule else []
    named = named if prefix else []
    for field in ("name", "namespace", "uid", "creationTimestamp"):
        if new.get(field) is not None and old.get(field) is not None:
            changed += immutable(f"metadata.{field}", new.get(field), old.get(field))
    changed += _common(new)
    if not changed and not new.get("finalizers"):
        return segment + named
    standard = _standard_finalizers(new) if core else []
    return [*segment, *_common(new), *_finalizers(new), *changed, *changed, *named, *standard]


def masked(prefix: str) -> str:
    """A prefix may end in a dash, which takes its neighbour with it (``maskTrailingDash``)."""
    return prefix[:-2] + "a" if prefix.endswith("-") and len(prefix) > 1 else prefix


def _common(meta: Obj) -> Causes:
    causes = names.labels("metadata.labels", meta.get("labels"))
    causes += names.annotation_map("metadata.annotations", meta.get("annotations"))
    return causes + _owners(meta.get("ownerReferences") or [])


def _finalizers(meta: Obj) -> Causes:
    finalizers = meta.get("finalizers") or []
    causes = [
        invalid("metadata.finalizers", name, words) for name in finalizers for words in names.qualified_name(name)
    ]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        causes.append(
            invalid("metadata.finalizers", finalizers, "finalizer orphan and foregroundDeletion cannot be both set")
        )
    return causes


_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


#: Groups whose types go by apimachinery's rules of metadata alone (imports of pkg/apis/*/validation, v1.36).
_BY_THEMSELVES = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "coordination.k8s.io",
        "node.k8s.io",
        "policy",
    }
)


def core(kind: Kind) -> bool:
    """Whether a built-in type's metadata meets core's rules, too."""
    return kind.resource.group not in _BY_THEMSELVES


def _standard_finalizers(meta: Obj) -> Causes:
    """What types that share core's metadata rules ask of finalizers besides."""
    words = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"metadata.finalizers[{i}]", name, words)
        for i, name in enumerate(meta.get("finalizers") or [])
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def _owners(owners: list[Obj]) -> Causes:
    causes: Causes = []
    path, controller = "metadata.ownerReferences", ""
    for owner in owners:
        for field, words in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not owner.get(field):
                causes.append(invalid(f"{path}.{field}", owner.get(field, ""), words))
        if owner.get("kind") == "Event" and owner.get("apiVersion") == "v1":
            causes.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            this = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                causes.append(
                    invalid(
                        path,
                        owners,
                        'Only one reference can have Controller set to true. Found "true" in references '
                        f"for {controller} and {this}",
                    )
                )
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
                causes.append(
                    forbidden(f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
                )
        else:
            causes.append(invalid(f"{at}.operator", operator, "not a valid selector operator"))
        causes += names.label_name(f"{at}.key", one.get("key", ""))
        for j, value in enumerate(values):
            causes += [invalid(f"{at}.values[{j}]", value, words) for words in names.label_value(value)]
    return causes
