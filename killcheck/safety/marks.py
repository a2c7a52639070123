"""The mark of a change on the very object that is changed, put there and taken away with it.

A journal in a cluster may be written by anybody who may write a ConfigMap. The mark is the digest of the one undo that
belongs to it: who could put it there may change that object anyway, and nothing but that undo is done on its account.
It is a label, for annotations of a Deployment are copied to its ReplicaSets, and stay there.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from killcheck.kube.objects import Obj, copy, labels_of
from killcheck.safety.changes import MARK, Entry, Undo
from killcheck.text.values import replace

__all__ = ["carries", "label_of", "marked", "with_label"]


def label_of(run: str, number: int, undo: Undo) -> str:
    """The key of the label that a change puts on its object; the value is the run's id."""
    body, left = _bare(undo.body), _bare(undo.left)
    said = [run, number, undo.action, undo.path, body, undo.uid, left, undo.transient]
    digest = hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return f"{MARK}{digest[:40]}"


def marked(run: str, number: int, undo: Undo, patch: Obj) -> tuple[Undo, Obj]:
    """The undo that takes the mark away too, and the merge patch that puts it there too."""
    label = label_of(run, number, undo)
    better = replace(undo, body=with_label(undo.body, label, None), left=with_label(undo.left or {}, label, run))
    return better, with_label(patch, label, run)


def carries(found: Obj, entry: Entry) -> bool:
    """Whether an object carries the mark of just this change."""
    return labels_of(found).get(label_of(entry.run, entry.number, entry.undo)) == entry.run


def with_label(patch: Obj, label: str, value: str | None) -> Obj:
    """A merge patch that sets a label too."""
    made = copy(patch)
    meta = made.get("metadata")
    made["metadata"] = meta = meta if isinstance(meta, dict) else {}
    labels = meta.get("labels")
    meta["labels"] = {**(labels if isinstance(labels, dict) else {}), label: value}
    return made


def _bare(patch: Any) -> Any:
    """What an undo says without the marks, and without what is empty for the want of them."""
    if patch is None:
        return {}
    meta = patch.get("metadata") if isinstance(patch, dict) else None
    if not isinstance(meta, dict):
        return patch
    labels = meta.get("labels")
    if isinstance(labels, dict):
        kept = {key: value for key, value in labels.items() if not key.startswith(MARK)}
        meta = {key: value for key, value in meta.items() if key != "labels"} | ({"labels": kept} if kept else {})
    return {key: value for key, value in patch.items() if key != "metadata"} | ({"metadata": meta} if meta else {})
