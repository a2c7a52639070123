"""Webhooks and policies that are asked about a target, its scale, its pods, or the Job that turns them off.

The answers of webhooks are not known without them: one may change what is written, one may refuse it. Policies are
judged here where the API server of the embedded cluster does not serve their version; where it does it applies them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from killcheck.entries import Becomes, Entry, Status, leaves
from killcheck.kube.objects import Obj, dig, labels_of, name_of, ref_of
from killcheck.kube.selectors import from_match_labels
from killcheck.ledger.stakes import Stakes, home_of

__all__ = ["KINDS", "POLICIES", "entry_of", "policy_entry", "unknown_parameters"]

KINDS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
_POLICIES = frozenset({"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"})
POLICIES = _POLICIES | {f"{kind}Binding" for kind in _POLICIES}
_SETTLES = (
    "drill it on a cluster where it answers (--on CONTEXT), leave the target's namespace out with its "
    "namespaceSelector, or say under assume: what it leaves alone"
)
_WRITE = (
    "write it as a version that is served (killcheck lint says which); or drill it on a cluster that has it "
    "(--on CONTEXT), or say under assume: what it leaves alone"
)
_PARAMETER = (
    "add it to the manifests, drill it on a cluster that has it (--on CONTEXT), or say under assume: what it says"
)


@leaves("policies", "Kyverno, Gatekeeper: rules over pods", Becomes.OPEN)
def entry_of(obj: Obj, stakes: Stakes, *, live: bool) -> Entry:
    """The entry of one configuration."""
    ref = ref_of(obj)
    mutating = obj.get("kind") == "MutatingWebhookConfiguration"
    for hook in obj.get("webhooks") or ():
        for asked in (*_of_targets(stakes, mutating=mutating), *_of_switches(stakes)):
            if not _matches(hook, asked, stakes):
                continue
            where = f"webhook {hook.get('name')} is asked about {asked.what}"
            if live:
                return Entry(ref, Status.EXECUTED, f"{where}; it answers on this cluster")
            does = "may change it" if mutating else "may refuse it"
            return Entry(ref, Status.NOT_MODELLED, f"{where} and {does}; nothing answers for it here", _SETTLES)
    return Entry(ref, Status.HARMLESS, "no rule of it matches a target, its pods or what turns them off")


def policy_entry(obj: Obj, stakes: Stakes) -> Entry:
    """The entry of a policy, or of a binding of one, that no API server here applies: its version is not served."""
    about = next((asked for policy in _policies(obj, stakes) if (asked := _about(policy, stakes))), None)
    if about is None:
        because = "no rule of its policy matches a target, its pods or what turns them off"
        return Entry(ref_of(obj), Status.HARMLESS, because)
    why = f"its policy is about {about}, and no API server here serves {obj.get('apiVersion')}"
    return Entry(ref_of(obj), Status.NOT_MODELLED, why, _WRITE)


def unknown_parameters(obj: Obj, stakes: Stakes) -> Entry | None:
    """The entry of a binding that is judged by an object which no manifest holds; None: of any other.

    Without it the policy says nothing here (``parameterNotFoundAction: Allow``).
    """
    said = dig(obj, "spec", "paramRef", default={})
    if said.get("parameterNotFoundAction") != "Allow":
        return None
    for policy in _policies(obj, stakes):
        kind, about = dig(policy, "spec", "paramKind", "kind"), _about(policy, stakes)
        if about and kind and not any(_is_parameter(one, str(kind), said) for one in stakes.objects):
            why = f"its policy is about {about}, and goes by a {kind} that no manifest holds"
            return Entry(ref_of(obj), Status.NOT_MODELLED, why, _PARAMETER)
    return None


def _is_parameter(obj: Obj, kind: str, said: Obj) -> bool:
    """Whether an object may be what a binding's ``paramRef`` names or selects."""
    if obj.get("kind") != kind or said.get("namespace") not in (None, "", home_of(obj)):
        return False
    name = said.get("name")
    return name_of(obj) == name if name else _selected(said.get("selector"), labels_of(obj))


def _policies(obj: Obj, stakes: Stakes) -> Iterator[Obj]:
    """The policy itself, or those that a binding names."""
    kind = str(obj.get("kind")).removesuffix("Binding")
    name = dig(obj, "spec", "policyName") if obj.get("kind") != kind else name_of(obj)
    yield from (one for one in stakes.objects if one.get("kind") == kind and name_of(one) == name)


def _about(policy: Obj, stakes: Stakes) -> str | None:
    """What a policy is asked about, of what a verdict is about; None: nothing."""
    constraints = dig(policy, "spec", "matchConstraints", default={})
    hook = {**constraints, "rules": constraints.get("resourceRules")}
    asked = (*_of_targets(stakes, mutating=policy.get("kind") == "MutatingAdmissionPolicy"), *_of_switches(stakes))
    return next((one.what for one in asked if _matches(hook, one, stakes)), None)


class _Asked(Struct, frozen=True):
    """A request that webhooks are asked about: operation, group, resource, whose labels, and what it is in words."""

    operation: str
    group: str
    resource: str
    namespace: str
    labels: Mapping[str, str]
    what: str


def _of_targets(stakes: Stakes, *, mutating: bool) -> Iterator[_Asked]:
    """What is written to it or its scale, its pods that are deleted; and what makes them, which may be changed."""
    for held in stakes.targets:
        own, pods = (held.labels or [{}])[0], (held.labels or [{}])[-1]
        # Who scales a target asks for its scale alone: what may refuse other writes refuses nothing of that.
        own_writes = () if not mutating and stakes.only_scales(held) else ("UPDATE", "CREATE" if mutating else "DELETE")
        for operation in own_writes:
            yield _Asked(operation, held.group, held.plural, held.namespace, own, str(held))
        yield _Asked("UPDATE", held.group, f"{held.plural}/scale", held.namespace, {}, f"the scale of {held}")
        yield _Asked("CREATE" if mutating else "DELETE", "", "pods", held.namespace, pods, f"the pods of {held}")


def _of_switches(stakes: Stakes) -> Iterator[_Asked]:
    """What a schedule's firing makes: its Job and the Job's pods."""
    for ref in stakes.switches:
        if ref.kind != "CronJob":
            continue
        found = [
            o for o in stakes.objects if (o.get("kind"), home_of(o), name_of(o)) == ("CronJob", ref.namespace, ref.name)
        ]
        for obj in found[:1]:
            job = labels_of(dig(obj, "spec", "jobTemplate", default={}))
            pods = labels_of(dig(obj, "spec", "jobTemplate", "spec", "template", default={}))
            yield _Asked("CREATE", "batch", "jobs", ref.namespace, job, f"the Jobs of {ref}")
            yield _Asked("CREATE", "", "pods", ref.namespace, pods, f"the pods of {ref}")


def _matches(hook: Obj, asked: _Asked, stakes: Stakes) -> bool:
    namespace = stakes.namespace(asked.namespace)
    labels = {"kubernetes.io/metadata.name": name_of(namespace), **labels_of(namespace)}
    return (
        _selected(hook.get("namespaceSelector"), labels)
        # a Scale has no labels of its own: which objects are meant by them is not seen from it
        and (asked.resource.endswith("/scale") or _selected(hook.get("objectSelector"), asked.labels))
        and any(
            {asked.operation, "*"} & set(rule.get("operations") or ()) and _covers(rule, asked.group, asked.resource)
            for rule in hook.get("rules") or ()
        )
    )


def _covers(rule: Obj, group: str, resource: str) -> bool:
    groups, resources = set(rule.get("apiGroups") or ()), set(rule.get("resources") or ())
    main, slash, sub = resource.partition("/")
    names = {resource, "*/*"} | ({f"*/{sub}", f"{main}/*"} if slash else {"*"})
    return bool(groups & {group, "*"} and resources & names)


def _selected(selector: Any, labels: Mapping[str, str]) -> bool:
    return not selector or from_match_labels(selector).matches(labels)
