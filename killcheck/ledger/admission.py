"""Admission webhooks whose rules match a target, its scale or its pods: their answers are not known without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from killcheck.entries import Entry, Status
from killcheck.kube.objects import Obj, labels_of, name_of, ref_of
from killcheck.kube.selectors import from_match_labels
from killcheck.ledger.stakes import Held, Stakes

__all__ = ["KINDS", "entry_of"]

KINDS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
_SETTLES = (
    "drill it on a cluster where it answers (--on CONTEXT), leave the target's namespace out with its "
    "namespaceSelector, or say under assume: what it leaves alone"
)


def entry_of(obj: Obj, stakes: Stakes, *, live: bool) -> Entry:
    """The entry of one configuration."""
    ref = ref_of(obj)
    mutating = obj.get("kind") == "MutatingWebhookConfiguration"
    for hook in obj.get("webhooks") or ():
        for what in _matches(hook, stakes, mutating):
            where = f"webhook {hook.get('name')} is asked about {what}"
            if live:
                return Entry(ref, Status.EXECUTED, f"{where}; it answers on this cluster")
            does = "may change it" if mutating else "may refuse what turns it off"
            return Entry(ref, Status.NOT_MODELLED, f"{where} and {does}; nothing answers for it here", _SETTLES)
    return Entry(ref, Status.HARMLESS, "no rule of it matches a target, its scale or its pods")


def _matches(hook: Obj, stakes: Stakes, mutating: bool) -> Iterator[str]:
    for held in stakes.targets:
        namespace = stakes.namespace(held.namespace)
        labels = {"kubernetes.io/metadata.name": name_of(namespace), **labels_of(namespace)}
        if not _selected(hook.get("namespaceSelector"), labels):
            continue
        for rule in hook.get("rules") or ():
            yield from _ruled(rule, hook, held, mutating)


def _ruled(rule: Obj, hook: Obj, held: Held, mutating: bool) -> Iterator[str]:
    operations = set(rule.get("operations") or ())
    own, pods = (held.labels or [{}])[0], (held.labels or [{}])[-1]
    written = operations & {"UPDATE", "*"} or (mutating and operations & {"CREATE"})
    if written and _covers(rule, held.group, held.plural) and _selected(hook.get("objectSelector"), own):
        yield str(held)
    if written and _covers(rule, held.group, f"{held.plural}/scale"):
        yield f"the scale of {held}"
    if (
        mutating
        and operations & {"CREATE", "*"}
        and _covers(rule, "", "pods")
        and _selected(hook.get("objectSelector"), pods)
    ):
        yield f"the pods of {held}"


def _covers(rule: Obj, group: str, resource: str) -> bool:
    groups, resources = set(rule.get("apiGroups") or ()), set(rule.get("resources") or ())
    main, slash, sub = resource.partition("/")
    names = {resource, "*/*"} | ({f"*/{sub}", f"{main}/*"} if slash else {"*"})
    return bool(groups & {group, "*"} and resources & names)


def _selected(selector: Any, labels: Mapping[str, str]) -> bool:
    return not selector or from_match_labels(selector).matches(labels)
