"""What server-side apply compares: a configuration as it was spelled, and what client-side apply left behind.

Fields are compared as the configuration spells them, before the type has read them: ``cpu: 1`` differs from the ``"1"``
that is stored, and conflicts with whoever manages it (structured-merge-diff merge/update.go, Updater.Apply). kubectl's
annotation of the last applied configuration makes it an owner of what that has and nobody has changed since
(apimachinery pkg/util/managedfields/internal/lastappliedmanager.go). Both of Kubernetes v1.36.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from killcheck.embedded.api import schemas
from killcheck.embedded.api.fieldsets import Fields, changed, fields_of, subtract
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.mergekeys import ApplyLists
from killcheck.embedded.api.status import StatusError
from killcheck.kube.objects import Obj, annotations_of

__all__ = ["KUBECTL", "LAST_APPLIED", "Configuration", "as_spelled", "of_last_applied", "with_nulls"]

#: Who is taken for the owner of what client-side apply wrote.
KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Configuration(NamedTuple):
    """An applied configuration: as its type has it, and the same fields as they were spelled; ``sent``: all of it."""

    typed: Obj
    spelled: Obj
    sent: Obj
    #: What is said of it once nobody is in its way: it does not fit its type, and ``typed`` is as it was sent.
    refusal: StatusError | None = None


def with_nulls(typed: Any, raw: Any, kind: Kind, schema: str | None) -> Any:
    """The same with every null that was sent: it is a field like any other, and takes a single value away."""
    name = schema or kind.schema
    return typed if name is None or (kind.crd is not None and schema is None) else _nulls(typed, raw, name, "")


def _nulls(typed: Any, raw: Any, schema: str, shape: str) -> Any:
    if shape:
        if isinstance(typed, list) and isinstance(raw, list) and len(typed) == len(raw):
            return [_nulls(one, other, schema, shape[2:]) for one, other in zip(typed, raw, strict=True)]
        if isinstance(typed, dict) and isinstance(raw, dict):
            return {key: _nulls(value, raw.get(key), schema, shape[2:]) for key, value in typed.items()}
        return typed
    if not isinstance(typed, dict) or not isinstance(raw, dict):
        return typed
    found = dict(typed)
    for field, of in schemas.fields(schema).items():
        inside = of.base in schemas.load()
        if field in raw and raw[field] is None:
            found[field] = None
        elif inside and field in found:
            found[field] = _nulls(found[field], raw.get(field), of.base, of.shape)
    return found


def as_spelled(typed: Any, raw: Any) -> Any:
    """What of ``raw`` its type knows, with the values that ``raw`` has."""
    if isinstance(typed, dict) and isinstance(raw, dict):
        return {key: as_spelled(value, raw.get(key, value)) for key, value in typed.items()}
    if isinstance(typed, list) and isinstance(raw, list) and len(typed) == len(raw):
        return [as_spelled(one, other) for one, other in zip(typed, raw, strict=True)]
    return typed if raw is None or isinstance(raw, dict | list) else raw


def of_last_applied(live: Obj, api_version: str, lists: ApplyLists) -> Fields:
    """The fields of the last applied configuration that are still as it had them; none where there is no such thing."""
    try:
        last = json.loads(annotations_of(live).get(LAST_APPLIED) or "null")
    except ValueError:
        return {}
    if not isinstance(last, dict) or last.get("apiVersion") != api_version:
        return {}
    return subtract(fields_of(last, lists), changed(live, last, lists))
