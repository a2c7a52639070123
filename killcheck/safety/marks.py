"""The mark of a change on the very object that is changed, put there and taken away with it.

A journal in a cluster may be written by anybody who may write a ConfigMap. The mark is the digest of the one undo that
belongs to it: who could put it there may change that object anyway, and nothing but that undo is done on its account.
It is an entry of ``metadata.managedFields``. Labels and annotations are copied by whoever makes other objects of this
one, and stay there: by KEDA to its HPA (controllers/keda/hpa.go), by KServe and others into the templates of pods,
which are replaced then. What these entries say nobody copies, and no controller acts on it. The API server takes them
as they are sent (apimachinery, util/managedfields/internal/fieldmanager.go, Update); of appliers it keeps any number.
"""

from __future__ import annotations

import hashlib
import json

from killcheck.kube.objects import Obj, copy, dig
from killcheck.safety.changes import MARK, Entry, Undo

__all__ = ["SHOWN", "carries", "mark_of", "with_mark", "without_mark"]

#: With this in the query the embedded API server shows managedFields inside its process too; others pass it over.
SHOWN = {"managedFields": "true"}


def mark_of(run: str, number: int, undo: Undo) -> str:
    """The name of the field manager that marks an object as changed so."""
    said = [run, number, undo.action, undo.path, undo.body or {}, undo.uid, undo.left or {}, undo.transient]
    digest = hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return f"{MARK}{digest[:40]}"


def carries(found: Obj, entry: Entry) -> bool:
    """Whether an object carries the mark of just this change; ``found``: with its managedFields."""
    mark = mark_of(entry.run, entry.number, entry.undo)
    return any(one.get("manager") == mark for one in _managers(found))


def with_mark(patch: Obj, found: Obj, mark: str) -> Obj:
    """A merge patch that marks the very version of an object that was ``found``, too."""
    fields: Obj = {"f:metadata": {"f:labels": {f"f:{mark}": {}}}}  # of nothing it would be dropped
    own = {"manager": mark, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}
    return _managed(patch, found, [*_managers(found), own | {"apiVersion": found["apiVersion"]}])


def without_mark(patch: Obj, found: Obj, entry: Entry) -> Obj:
    """A merge patch that takes the mark of a change from the very version of an object that was ``found``, too."""
    mark = mark_of(entry.run, entry.number, entry.undo)
    left = [one for one in _managers(found) if one.get("manager") != mark]
    return _managed(patch, found, left or [{}])  # an empty list would mean: as they are


def _managers(obj: Obj) -> list[Obj]:
    return dig(obj, "metadata", "managedFields", default=[]) or []


def _managed(patch: Obj, found: Obj, entries: list[Obj]) -> Obj:
    made = copy(patch)
    made["metadata"] = (made.get("metadata") or {}) | {
        "managedFields": entries,
        "resourceVersion": found["metadata"]["resourceVersion"],
    }
    return made
