"""Rules of policy engines and plugins' network policies around a switch: what is not decided here proves less."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from typing import Any

import parts
import pytest
import yaml
from composed import Composition

from killcheck.capabilities.inventory import Inventory
from killcheck.ledger.engines import about_a_switch
from killcheck.ledger.keeping import keep
from killcheck.ledger.stakes import Stakes
from killcheck.spec import specfile

PODS: Any = {"any": [{"resources": {"kinds": ["Pod"]}}]}


def kyverno(
    action: str = "Enforce", *, match: Any = PODS, exclude: Any = None, does: str = "validate"
) -> dict[str, Any]:
    rule = {"name": "owner", "match": match, "exclude": exclude, does: {"message": "no"}}
    return _obj("kyverno.io/v1", "ClusterPolicy", {"validationFailureAction": action, "rules": [rule]})


def pattern(wanted: Any, *kinds: str) -> dict[str, Any]:
    """A policy of Kyverno's that enforces a pattern; what the composed path has is Pod, Job and Deployment."""
    rule = {"name": "owner", "match": {"any": [{"resources": {"kinds": list(kinds)}}]}, "validate": {"pattern": wanted}}
    return _obj("kyverno.io/v1", "ClusterPolicy", {"validationFailureAction": "Enforce", "rules": [rule]})


def cilium(*egress: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return _obj("cilium.io/v2", "CiliumClusterwideNetworkPolicy", {"endpointSelector": {}, "egress": [*egress], **spec})


def gatekeeper(**spec: Any) -> dict[str, Any]:
    match = {"kinds": [{"apiGroups": [""], "kinds": ["Pod"]}], **spec.pop("match", {})}
    return _obj("constraints.gatekeeper.sh/v1beta1", "K8sRequiredLabels", {"match": match, **spec})


def _obj(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "require-owner"}, "spec": spec}


ASKED = {
    "Enforce": kyverno(),
    "Enforce of a rule": kyverno("Audit")
    | {"spec": {"rules": [{"match": PODS, "validate": {"failureAction": "Enforce"}}]}},
    "Jobs by group and version": kyverno(match={"resources": {"kinds": ["batch/*/Job"]}}),
    "a mutation": kyverno("Audit", does="mutate"),
    "another namespace left out": kyverno(exclude={"any": [{"resources": {"namespaces": ["kube-*"]}}]}),
    "pods with a label left out": kyverno(exclude={"any": [{"resources": {"selector": {"matchLabels": {"a": "b"}}}}]}),
    "Kyverno's CEL": _obj(
        "policies.kyverno.io/v1alpha1",
        "ValidatingPolicy",
        {"matchConstraints": {"resourceRules": [{"resources": ["pods"]}]}, "validationActions": ["Deny"]},
    ),
    "Gatekeeper": gatekeeper(),
    "a pattern that its pods lack": pattern({"spec": {"containers": [{"image": "registry.example.com/*"}]}}, "Pod"),
    "a pattern of quantities": pattern({"spec": {"containers": [{"resources": {"limits": {"cpu": "<2"}}}]}}, "Pod"),
    "a scale that may never be zero": pattern({"spec": {"replicas": ">0"}}, "Deployment/scale"),
    "Cilium, to DNS alone": cilium({"toPorts": [{"ports": [{"port": "53"}]}]}),
    "Calico": _obj("projectcalico.org/v3", "GlobalNetworkPolicy", {"types": ["Egress"], "selector": "all()"}),
}
NOT_ASKED = {
    "Audit": kyverno("Audit"),
    "nothing said": _obj("kyverno.io/v1", "ClusterPolicy", {"rules": [{"match": PODS, "validate": {}}]}),
    "another kind": kyverno(match={"any": [{"resources": {"kinds": ["Service"]}}]}),
    "other namespaces": kyverno(match={"any": [{"resources": {"kinds": ["Pod"], "namespaces": ["web-*"]}}]}),
    "its namespace left out": kyverno(exclude={"any": [{"resources": {"namespaces": ["serv*"]}}]}),
    "a pattern that its pods have": pattern(
        {
            "spec": {
                "=(hostNetwork)": False,
                "(restartPolicy)": "Always|Never",
                "containers": [{"image": "*:* & !*:latest"}],
            }
        },
        "Pod",
    ),
    "a Deployment of which the scale alone is written": pattern({"metadata": {"labels": {"team": "?*"}}}, "Deployment"),
    "Cilium that lets it through": cilium(
        {"toEntities": ["kube-apiserver"]}, {"toPorts": [{"ports": [{"port": "53"}]}]}
    ),
    "Cilium around others": cilium(endpointSelector={"matchLabels": {"k8s:app": "web"}}),
    "Cilium on what comes in": _obj(
        "cilium.io/v2", "CiliumClusterwideNetworkPolicy", {"endpointSelector": {}, "ingress": [{}]}
    ),
    "a dry run": gatekeeper(enforcementAction="dryrun"),
    "its namespace excluded": gatekeeper(match={"excludedNamespaces": ["serving"]}),
}


@pytest.mark.parametrize("what", ASKED)
def test_a_rule_that_may_refuse_the_switch_s_pods_is_open(what: str) -> None:
    assert _because(ASKED[what]).endswith("no controller here acts on it")


@pytest.mark.parametrize("what", NOT_ASKED)
def test_a_rule_that_refuses_nothing_of_it_is_harmless(what: str) -> None:
    assert _because(NOT_ASKED[what]) == ""


@pytest.mark.parametrize(("what", "open_"), [("Gatekeeper", True), ("another kind", False)])
def test_a_loop_that_is_the_switch_needs_its_pod_too(what: str, open_: bool) -> None:
    scene = parts.Draw("a Deployment", "scale", "a loop", ("nothing",), "plain").scene()
    path = specfile.loads(yaml.safe_dump(scene.spec))
    policy = {**ASKED, **NOT_ASKED}[what]
    asked = about_a_switch(policy, Stakes(scene.objects, path, path.layers[0]))
    assert asked == (
        "it is asked about the pods of Deployment/gpu-apps/lights-out, and may refuse them" if open_ else None
    )


def _because(policy: dict[str, Any]) -> str:
    one = Composition()
    path = specfile.loads(yaml.safe_dump(one.spec))
    kept = keep(Inventory([*one.objects, policy]), path, path.layers[0], today=date(2026, 1, 15))
    return next((entry.because for entry in kept.open if "require-owner" in entry.object), "")


ENGINES = [what for what, policy in {**ASKED, **NOT_ASKED}.items() if "policies" in policy["apiVersion"]]
ENGINES += ["Gatekeeper", "its namespace excluded"]


@pytest.mark.parametrize("what", ENGINES)
def test_whatever_a_stranger_wrote_there_is_read(what: str) -> None:
    """No schema of these kinds is known here: any field may hold anything."""
    one = Composition()
    path = specfile.loads(json.dumps(one.spec))
    stakes = Stakes(one.objects, path, path.layers[0])
    policy = {**ASKED, **NOT_ASKED}[what]
    for odd in _oddly(policy["spec"]):
        about_a_switch(policy | {"spec": odd}, stakes)
    asks_about_all = "gatekeeper" in policy["apiVersion"]  # by default it denies, and is asked about everything
    assert (about_a_switch(policy | {"spec": None}, stakes) is not None) is asks_about_all


def _oddly(value: Any) -> Iterator[Any]:
    """A value with each part of it in turn replaced by what does not belong there."""
    yield from (None, 7, "x", ["x"], [None], {"x": "y"}, [{"x": None}])
    if isinstance(value, dict):
        yield from (value | {key: odd} for key, inner in value.items() for odd in _oddly(inner))
    elif isinstance(value, list):
        yield from ([*value[:i], odd, *value[i + 1 :]] for i, inner in enumerate(value) for odd in _oddly(inner))
