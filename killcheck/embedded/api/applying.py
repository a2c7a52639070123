"""What server-side apply compares: a configuration as it was spelled, and what client-side apply left behind.

Fields are compared as the configuration spells them, before the type has read them: ``cpu: 1`` differs from the ``"1"``
that is stored, and conflicts with whoever manages it (structured-merge-diff merge/update.go, Updater.Apply). kubectl's
annotation of the last applied configuration makes it an owner of what that has and nobody has changed since
(apimachinery pkg/util/managedfields/internal/lastappliedmanager.go). Both of Kubernetes v1.36.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from killcheck.embedded.api.fieldsets import Fields, changed, fields_of, subtract
from killcheck.embedded.api.mergekeys import ApplyLists
from killcheck.kube.objects import Obj, annotations_of

__all__ = ["KUBECTL", "LAST_APPLIED", "Configuration", "as_spelled", "of_last_applied"]

#: Who is taken for the owner of what client-side apply wrote.
KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Configuration(NamedTuple):
    """An applied configuration: as its type has it, and the same fields as they were spelled."""

    typed: Obj
    spelled: Obj


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
