"""Policies that refuse the deletion of the pods that hold the GPUs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, namespace_or_default, selected

from killcheck.kube.objects import Obj, copy, dig, items, labels_of, mappings, name_of, namespace_of
from killcheck.kube.workloads import PodTemplate

__all__ = ["DeletionRefused"]

_GROUP = "admissionregistration.k8s.io"
_POLICY, _BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
#: Who deletes the pods of a workload that is scaled to zero, and who takes them off their node.
_CONTROLLERS = {"StatefulSet": "statefulset-controller", "Job": "job-controller"}
_KUBELET = "system:node:gpu"


class DeletionRefused(Probe):
    """Zero is written, the controller may not delete the pods, and the GPUs bill on beside a spec of zero."""

    id = "deletion-refused"
    claim = "No policy refuses the controllers the deletion of the targets' pods."
    remedy = (
        "Let the policy except the controllers of kube-system (system:serviceaccounts:kube-system) and the kubelets."
    )
    failures = (11,)
    sources = ("apiserver admission/plugin/policy/validating", "kyverno.io/docs: validate deny rules, exclude")

    def ask(self, world: World) -> Iterable[Finding]:
        """ValidatingAdmissionPolicies by what they answer, Kyverno's rules and webhooks by what they match."""
        places = [(obj, template, namespace_or_default(obj)) for obj, template in world.target_templates]
        for policy in world.of(_POLICY):
            yield from self._by_policy(world, policy, places)
        for policy in world.of("ClusterPolicy", "Policy"):
            if str(policy.get("apiVersion", "")).startswith("kyverno.io/"):
                yield from self._by_kyverno(world, policy, {namespace for _, _, namespace in places})
        for config in world.of("ValidatingWebhookConfiguration"):
            yield from self._by_webhook(world, config, {namespace for _, _, namespace in places})

    def _by_policy(
        self, world: World, policy: Obj, places: Iterable[tuple[Obj, PodTemplate, str]]
    ) -> Iterator[Finding]:
        bindings = [one for one in world.of(_BINDING) if dig(one, "spec", "policyName") == name_of(policy)]
        for target, template, namespace in places if bindings else ():
            why = _refusal(world, target, template, namespace, [policy, *bindings])
            if why is None:
                continue
            if _refusal(world, target, template, namespace, [_lenient(policy), *bindings]) is None:
                yield self.unproven(world, policy, f"what it answers to a deletion of pods is not known here: {why}")
            else:
                yield self.finding(world, policy, ("spec", "validations"), f"pods of {name_of(target)} stay: {why}")
            return

    def _by_kyverno(self, world: World, policy: Obj, namespaces: set[str]) -> Iterator[Finding]:
        enforced = str(dig(policy, "spec", "validationFailureAction", default="Audit")).lower() == "enforce"
        for index, rule in enumerate(mappings(dig(policy, "spec", "rules"))):
            validate = rule.get("validate") or {}
            acts = str(validate.get("failureAction", "enforce" if enforced else "audit")).lower() == "enforce"
            here = policy.get("kind") == "ClusterPolicy" or namespace_of(policy) in namespaces
            if not (acts and here and "deny" in validate and _deletes_pods(rule.get("match") or {}, namespaces)):
                continue
            path, what = ("spec", "rules", index), f"rule {rule.get('name')} denies the deletion of pods"
            if (validate.get("deny") or {}).get("conditions") or rule.get("exclude") or rule.get("preconditions"):
                yield self.unproven(world, policy, f"{what} on conditions that are not evaluated here")
            else:
                yield self.finding(world, policy, path, what)

    def _by_webhook(self, world: World, config: Obj, namespaces: set[str]) -> Iterator[Finding]:
        for hook in mappings(config.get("webhooks")):
            asked = any(
                {"DELETE", "*"} & set(items(rule.get("operations")))
                and {"", "*"} & set(items(rule.get("apiGroups")))
                and {"pods", "*", "*/*"} & set(items(rule.get("resources")))
                for rule in mappings(hook.get("rules"))
            )
            if asked and any(selected(hook.get("namespaceSelector"), _labels(world, name)) for name in namespaces):
                message = f"{hook.get('name')} is asked before pods are deleted, and what it answers is not known"
                yield self.unproven(world, config, message)


def _labels(world: World, namespace: str) -> dict[str, str]:
    known = labels_of(world.find("Namespace", "", namespace) or {})
    return {"kubernetes.io/metadata.name": namespace} | dict(known)


def _deletes_pods(match: Obj, namespaces: set[str]) -> bool:
    """Whether a rule is about deletions of pods there; what names people or roles is not about controllers."""
    for one in (match, *mappings(match.get("any")), *mappings(match.get("all"))):
        of = one.get("resources") or {}
        within = items(of.get("namespaces"))
        pods = {"Pod", "v1/Pod", "*"} & set(map(str, items(of.get("kinds"))))
        somebody = one.get("subjects") or one.get("roles") or one.get("clusterRoles")
        if pods and "DELETE" in items(of.get("operations")) and not somebody:
            return not within or any(str(name) in namespaces or "*" in str(name) for name in within)
    return False


def _lenient(policy: Obj) -> Obj:
    """The same, of which an expression that cannot be evaluated refuses nothing."""
    return {**policy, "spec": {**policy["spec"], "failurePolicy": "Ignore"}}


def _refusal(world: World, target: Obj, template: PodTemplate, namespace: str, policies: list[Obj]) -> str | None:
    """What the API server would answer to the deletion of a pod, by its controller or its kubelet; None: it is done."""
    from killcheck.clock import VirtualLoop
    from killcheck.embedded import AdmissionRequest, Authorizer, Chain, Registry, StatusError, Store, User

    loop, store, kinds = VirtualLoop(world.now), Store(), Registry()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}, "status": {"phase": "Active"}}
    space["metadata"] = {"name": namespace, "labels": _labels(world, namespace)}
    for obj in (space, *policies, *world.config_maps.values()):
        kind = kinds.by_kind(*_group_kind(obj))
        if kind is not None:
            store.put(kind.table, (namespace_of(obj), name_of(obj)), copy(obj))
    pods = kinds.by_kind("", "Pod")
    if pods is None:
        return None
    chain = Chain(store, loop, Authorizer(store), random.Random(1))  # noqa: S311 - names, not secrets
    pod, account = _pod(target, template, namespace), _CONTROLLERS.get(str(target.get("kind")), "replicaset-controller")
    spaces = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    for user in (
        User(f"system:serviceaccount:kube-system:{account}", spaces),
        User(_KUBELET, ("system:nodes", "system:authenticated")),
    ):
        request = AdmissionRequest("DELETE", pods, "", namespace, name_of(pod), None, pod, user, dry_run=True)
        try:
            chain.admit(request)
        except StatusError as error:
            return str(error)
    return None


def _group_kind(obj: Obj) -> tuple[str, str]:
    return str(obj["apiVersion"]).rpartition("/")[0], str(obj["kind"])


def _pod(target: Obj, template: PodTemplate, namespace: str) -> Obj:
    """A pod as the controller made it, running on a node."""
    name = f"{name_of(target)}-0"
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": name}
    metadata |= {key: dict(template.metadata.get(key) or {}) for key in ("labels", "annotations")}
    spec = {**copy(template.spec), "nodeName": _KUBELET.rpartition(":")[2]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
