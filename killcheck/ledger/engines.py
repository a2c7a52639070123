"""Policy engines' rules over what a switch makes: its Jobs and their pods may be refused, or come to be others.

Kyverno's first form is :mod:`killcheck.ledger.kyverno`'s. Sources: policies.kyverno.io ValidatingPolicy,
MutatingPolicy (``matchConstraints``, ``validationActions``); Gatekeeper's constraints.gatekeeper.sh (``match.kinds``,
``namespaces``, ``excludedNamespaces``; ``enforcementAction``, deny by default) and mutations.gatekeeper.sh. What a rule
says of a pod is not evaluated: that it is asked is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from killcheck.kube.objects import Obj, dig, items, mappings, namespace_of
from killcheck.ledger.stakes import Stakes, group_of

__all__ = ["about_a_switch"]

#: What a switch makes, by its kind.
_MAKES = {"CronJob": "Jobs and pods"} | dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet"), "pods")
_KYVERNO = "policies.kyverno.io"
_MADE = frozenset({"Pod", "Job", "pods", "jobs", "*", "*/*"})
#: What makes a rule say no, where it says anything: by engine, in small letters.
_REFUSES = frozenset({"enforce", "deny", "scoped"})


def about_a_switch(obj: Obj, stakes: Stakes) -> str | None:
    """What a rule of it has to do with what turns targets off, in a phrase; None where nothing."""
    for ref in stakes.switches:
        made = _MAKES.get(ref.kind)
        if made and namespace_of(obj) in ("", ref.namespace):
            for does in _rules_for(obj, ref.namespace):
                return f"it is asked about the {made} of {ref}, and {does}"
    return None


def _rules_for(obj: Obj, namespace: str) -> Iterator[str]:
    """What the rules that match Jobs or pods of a namespace may do to them."""
    group, kind = group_of(obj), str(obj.get("kind"))
    if group == _KYVERNO and dig(obj, "spec", "matchConstraints"):
        rules = mappings(dig(obj, "spec", "matchConstraints", "resourceRules"))
        named = [str(one) for rule in rules for one in items(rule.get("resources"))]
        acts = [str(one).lower() for one in items(dig(obj, "spec", "validationActions", default=["Deny"]))]
        if _MADE & set(named) and (not kind.endswith("ValidatingPolicy") or _REFUSES & set(acts)):
            yield _does(changes=not kind.endswith("ValidatingPolicy"))
    elif group in ("constraints.gatekeeper.sh", "mutations.gatekeeper.sh"):
        changes = group.startswith("mutations")
        action = str(dig(obj, "spec", "enforcementAction", default="deny")).lower()
        if (changes or action in _REFUSES) and _gated(obj, namespace):
            yield _does(changes=changes)


def _does(*, changes: bool) -> str:
    return "may change them" if changes else "may refuse them"


def _of_kind(kinds: Any) -> bool:
    return any(str(one).rpartition("/")[2] in _MADE for one in items(kinds) or ["*"])


def _within(patterns: Any, namespace: str) -> bool:
    return not patterns or any(fnmatchcase(namespace, str(one)) for one in items(patterns))


def _gated(obj: Obj, namespace: str) -> bool:
    """Whether a Gatekeeper match is about Jobs or pods of a namespace; one without kinds is about everything."""
    given = dig(obj, "spec", "match")
    match = given if isinstance(given, dict) else {}
    asked = mappings(match.get("kinds")) or mappings(dig(obj, "spec", "applyTo"))
    kinds = [name for one in asked for name in items(one.get("kinds")) or ["*"]]
    out = items(match.get("excludedNamespaces"))
    return _of_kind(kinds) and _within(match.get("namespaces"), namespace) and not (out and _within(out, namespace))
