"""Whether Prometheus loads the rules of a PrometheusRule at all: who selects it, and what its operator refuses whole.

Sources: prometheus-operator Documentation/api-reference (Prometheus, ThanosRuler: ruleSelector, ruleNamespaceSelector,
enforcedNamespaceLabel, evaluationInterval) and pkg/operator/rules.go (one rule that is refused drops its object).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from killcheck.kube.objects import Obj, dig, labels_of, mappings, name_of, namespace_of, ref_of
from killcheck.kube.selectors import SelectorError, from_match_labels
from killcheck.promql.language import Unsupported, duration_s
from killcheck.witnesses import promtool
from killcheck.witnesses.rules import Rule

__all__ = ["as_loaded", "selected"]


def as_loaded(
    rules: Sequence[Rule], objects: Iterable[Obj], servers: Sequence[Obj], namespaces: Iterable[Obj]
) -> list[Rule]:
    """The rules, each with why it is never evaluated, or by what its Prometheus changes it.

    ``servers``: every Prometheus and ThanosRuler there is; none: nobody saw who loads rules.
    """
    said = {f"{namespace_of(obj)}/{name_of(obj)}": obj for obj in objects}
    labels = {name_of(one): labels_of(one) for one in namespaces}
    of_each = {where: _loaded(said[where], servers, labels) for where in {rule.object for rule in rules}}
    return [structs.replace(rule, **_changed(rule, *of_each[rule.object])) for rule in rules]


def selected(objects: Iterable[Obj], servers: Sequence[Obj], namespaces: Iterable[Obj]) -> list[Obj]:
    """The objects that some server loads; all of them where nobody saw one."""
    labels = {name_of(one): labels_of(one) for one in namespaces}
    return [obj for obj in objects if not servers or any(_selects(one, obj, labels) for one in servers)]


def _loaded(obj: Obj, servers: Sequence[Obj], labels: Mapping[str, Mapping[str, str]]) -> tuple[str, Obj | None]:
    """Why nobody evaluates an object's rules; and who does, of those that were seen."""
    refused = promtool.refusal(dig(obj, "spec", "groups", default=[]))
    if refused:
        return f"Prometheus refuses its PrometheusRule whole: {refused}", None
    by = next((one for one in servers if _selects(one, obj, labels)), None)
    if servers and by is None:
        return f"no Prometheus here loads it: {_wanted(servers[0])}", None
    return "", by


def _selects(server: Obj, obj: Obj, labels: Mapping[str, Mapping[str, str]]) -> bool:
    home = namespace_of(obj) or "default"
    named = {"kubernetes.io/metadata.name": home, **labels.get(home, {})}
    spaces = dig(server, "spec", "ruleNamespaceSelector")
    within = home == (namespace_of(server) or "default") if spaces is None else _matches(spaces, named)
    return within and _matches(dig(server, "spec", "ruleSelector"), labels_of(obj))


def _matches(selector: Any, labels: Mapping[str, str]) -> bool:
    """Whether a selector selects labels; what the operator cannot read selects nothing."""
    try:
        return isinstance(selector, dict) and from_match_labels(selector).matches(labels)
    except SelectorError:
        return False


def _wanted(server: Obj) -> str:
    """What the first of them selects, in its own words."""
    for field in ("ruleSelector", "ruleNamespaceSelector"):
        said = dig(server, "spec", field)
        wanted = ", ".join(f"{key}={value}" for one in mappings(dig(said, "matchLabels")) for key, value in one.items())
        if wanted:
            return f"{field} of {ref_of(server)} is {wanted}"
    return f"{ref_of(server)} selects no rules of that namespace"


def _changed(rule: Rule, silent: str, by: Obj | None) -> dict[str, object]:
    enforced = dig(by, "spec", "enforcedNamespaceLabel") if by is not None else ""
    changed: dict[str, object] = {"silent": silent}
    if enforced:
        changed["problem"] = f"{ref_of(by or {})} adds {enforced}= to every expression (enforcedNamespaceLabel)"
    usual = dig(by, "spec", "evaluationInterval") if by is not None else None
    if usual and rule.interval_s is None:
        try:
            changed["interval_s"] = duration_s(str(usual))
        except Unsupported as error:
            changed["problem"] = str(error)
    return changed
