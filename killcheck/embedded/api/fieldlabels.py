"""Which fields of which types a field selector may name, and how their values read.

Source: the ``AddFieldLabelConversionFunc`` and ``ToSelectableFields`` of each type in Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.status import bad_request
from killcheck.kube.objects import Obj, dig
from killcheck.kube.selectors import FieldSelector, field_text

__all__ = ["check_fields", "value_of"]

_META = ("metadata.name", "metadata.namespace")
_EVENT = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_EXTRA: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    ("", "events"): _EVENT,
    ("", "nodes"): ("spec.unschedulable",),
    ("", "namespaces"): ("status.phase",),
    ("", "secrets"): ("type",),
    ("", "replicationcontrollers"): ("status.replicas",),
    ("", "services"): ("spec.clusterIP", "spec.type"),
    ("apps", "replicasets"): ("status.replicas",),
    ("batch", "jobs"): ("status.successful",),
    ("resource.k8s.io", "resourceslices"): ("spec.nodeName", "spec.driver"),
}
#: Fields that are always there in Go's types: what an object that lacks them is taken to hold.
_ZERO = {"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.replicas": "0", "status.successful": "0"}
_PATHS: dict[str, tuple[str, ...]] = {"status.successful": ("status", "succeeded")}


def check_fields(kind: Kind, selector: FieldSelector) -> None:
    """Raise StatusError 400 where a term names a field that cannot be selected by."""
    if not selector.terms:
        return
    custom = [str(entry.get("jsonPath", "")).lstrip(".") for entry in kind.crd_version.get("selectableFields") or []]
    extra = _EXTRA.get(kind.table, ())
    for field, _, _ in selector.terms:
        if field in _META or field in extra or field in custom:
            continue
        if kind.table == ("batch", "jobs"):
            raise bad_request(f'field label "{field}" not supported for Job')
        if extra or kind.crd:
            raise bad_request(f"field label not supported: {field}")
        raise bad_request(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def value_of(obj: Obj, field: str) -> str:
    """The value that a selector's field has in an object."""
    if field == "metadata.name":
        return str(obj["metadata"].get("name", ""))
    if field == "source":
        return field_text(dig(obj, "source", "component") or obj.get("reportingComponent"))
    value = dig(obj, *_PATHS.get(field, field.split(".")))
    return field_text(value) or _ZERO.get(field, "")
