"""Policies beside a fence: what may change a pool on its way into the cluster, and what may refuse one.

Nothing of them is evaluated. What could *widen* a pool (a mutating webhook or policy over Karpenter's objects) leaves
the fence unproven; what can only refuse is told, and counts for nothing: a fence that holds, holds without it.

Sources: admissionregistration.k8s.io/v1 (rules, matchConstraints); kyverno.io/v1 ClusterPolicy (match, mutate,
validate); mutations.gatekeeper.sh (Assign, ModifySet: match.kinds), constraints.gatekeeper.sh (match.kinds).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from killcheck.entries import Becomes, leaves
from killcheck.fence.makers import launches_nothing
from killcheck.kube.manifests import STUMBLES
from killcheck.kube.objects import Obj, dig, name_of, namespace_of

__all__ = ["told"]

_GROUP = "karpenter.sh"
#: What Karpenter launches by, in both spellings that policies use.
_KINDS = frozenset({"NodePool", "NodeClaim", "NodeOverlay", "EC2NodeClass", "AKSNodeClass", "NodeClass"})
_PLURALS = frozenset(f"{one.lower()}s".replace("classs", "classes") for one in _KINDS)
_GROUPS = frozenset({_GROUP, "karpenter.k8s.aws", "karpenter.azure.com", "eks.amazonaws.com"})
_MUTATES = frozenset({"MutatingWebhookConfiguration", "MutatingAdmissionPolicy"})
_REFUSES = frozenset({"ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy"})
_KYVERNO = frozenset(
    {"ClusterPolicy", "Policy", "MutatingPolicy", "ValidatingPolicy", "GeneratingPolicy"}
    | {"NamespacedMutatingPolicy", "NamespacedGeneratingPolicy"}
)


@leaves("policies", "any policy over pools, in a fence: those that could widen one", Becomes.UNPROVEN)
@leaves("policies", "any policy over pools, in a fence: those that could refuse one", Becomes.SAID)
def told(objects: Iterable[Obj]) -> tuple[list[str], list[str]]:
    """What keeps a fence from being proven, and what is only to be noted; a sentence each."""
    unknown, notes = list[str](), list[str]()
    for obj in objects:
        what = "/".join(filter(None, (str(obj.get("kind")), namespace_of(obj), name_of(obj))))
        try:
            does = _does(obj)
        except STUMBLES:
            unknown.append(
                f"{what} has fields of other types than policies have: whether it changes pools is not known"
            )
            continue
        if "mutates" in does:
            unknown.append(f"{what} may change pools as they are written, and is not evaluated")
        elif does:
            notes.append(f"{what} may refuse pools, and is not evaluated: nothing here rests on it")
    return unknown, notes


def _does(obj: Obj) -> set[str]:
    """What an object may do to Karpenter's own: ``mutates``, ``refuses``; nothing for what is no policy over them."""
    kind, group = str(obj.get("kind")), str(obj.get("apiVersion", "")).partition("/")[0]
    if group == "admissionregistration.k8s.io":
        if kind not in _MUTATES | _REFUSES or not any(map(_about, _rules(obj))):
            return set()
        return {"mutates" if kind in _MUTATES else "refuses"}
    if group in ("kyverno.io", "policies.kyverno.io") and kind in _KYVERNO:
        return _kyverno(obj)
    if group == "mutations.gatekeeper.sh":
        return {"mutates"} if _matches(obj) else set()
    if group == "constraints.gatekeeper.sh":
        return {"refuses"} if _matches(obj) else set()
    return set()


def _rules(obj: Obj) -> Iterator[Any]:
    for webhook in obj.get("webhooks") or ():
        if not _karpenters(webhook):
            yield from webhook.get("rules") or ()
    yield from dig(obj, "spec", "matchConstraints", "resourceRules", default=[])


def _karpenters(webhook: Any) -> bool:
    """Whether a webhook is one that Karpenter brings: by its name, and by whom it asks where that is said."""
    service = str(dig(webhook, "clientConfig", "service", "name", default="karpenter"))
    ours = str(webhook.get("name", "")).endswith((f".{_GROUP}", ".karpenter.k8s.aws"))
    return ours and service.startswith("karpenter") and not dig(webhook, "clientConfig", "url")


def _about(rule: Any) -> bool:
    """Whether an admission rule matches what Karpenter launches by."""
    groups, names = rule.get("apiGroups") or (), {str(one).partition("/")[0] for one in rule.get("resources") or ()}
    writes = {"CREATE", "UPDATE", "*"} & set(rule.get("operations") or ("*",))
    own = {"*", *_GROUPS} & set(groups) and ({"*"} | _PLURALS) & names
    return bool(writes and (own or any(map(_makes_machines, groups))))


def _makes_machines(group: Any, kind: str = "") -> bool:
    """Whether objects of a group are not known to launch nothing."""
    of = {"apiVersion": f"{group}/v1", "kind": kind}
    return "*" not in str(group) and group not in _GROUPS and not launches_nothing(of)


def _kyverno(obj: Obj) -> set[str]:
    """What it mutates is what it matches, or, of what exists, its targets; what it generates it makes."""
    if "Generating" in str(obj.get("kind")):
        return {"mutates"}  # what it makes is an expression
    if dig(obj, "spec", "matchConstraints"):
        rules = [*_rules(obj), *dig(obj, "spec", "targetMatchConstraints", "resourceRules", default=[])]
        return {"mutates" if "Mutating" in obj["kind"] else "refuses"} if any(map(_about, rules)) else set()
    return {does for rule in dig(obj, "spec", "rules", default=[]) for does in _rule(rule)}


def _rule(rule: Any) -> Iterator[str]:
    made = {**(rule.get("generate") or {})}
    version, kind = str(made.get("apiVersion") or ""), str(made.get("kind") or "")
    if any(map(_kyverno_kind, _made_by(rule))) or ("/" in version and _makes_machines(version.partition("/")[0], kind)):
        yield "mutates"
    elif any(map(_kyverno_kind, _kinds_of(rule.get("match") or {}))):
        yield "mutates" if rule.get("mutate") else "refuses"


def _made_by(rule: Any) -> Iterator[str]:
    """The kinds of what a rule generates, or mutates where it is there already; of a list of kinds, any."""
    made = rule.get("generate") or {}
    for one in (made, *(made.get("foreach") or ()), *dig(rule, "mutate", "targets", default=[])):
        if one.get("kind"):
            yield str(one["kind"])
    for one in (made, *(made.get("foreach") or ())):
        yield from map(str, dig(one, "cloneList", "kinds", default=[]))


def _kinds_of(match: Any) -> Iterator[str]:
    parts = [match, *(match.get("any") or ()), *(match.get("all") or ())]
    for part in parts:
        yield from map(str, dig(part, "resources", "kinds", default=[]))


def _kyverno_kind(text: str) -> bool:
    """``NodePool``, ``karpenter.sh/v1/NodePool``, ``NodePool/status``, ``Node*``, a variable.

    Of a group and a version, whatever stands for them, the part that begins as kinds do is the kind.
    """
    parts = text.split("/")
    kinds = [part for part in parts if part[:1].isupper()] or parts
    if "{{" in text or any(fnmatchcase(kind, part) for part in kinds for kind in _KINDS):
        return True
    return "." in parts[0] and _makes_machines(parts[0], kinds[0])


def _matches(obj: Obj) -> bool:
    """A Gatekeeper match without kinds is about everything."""
    entries = dig(obj, "spec", "match", "kinds", default=[]) or dig(obj, "spec", "applyTo", default=[])
    if not entries:
        return True
    return any(
        ({"*", *_GROUPS} & set(groups) and ({"*"} | _KINDS) & set(entry.get("kinds") or ("*",)))
        or any(map(_makes_machines, groups))
        for entry in entries
        for groups in [entry.get("apiGroups") or entry.get("groups") or ("*",)]
    )
