"""What is modelled is one group and one version: the same words in another's are read by nobody here."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
import yaml
from composed import Composition

from killcheck.capabilities.inventory import Inventory
from killcheck.discover.finding import from_objects
from killcheck.embedded import crds
from killcheck.embedded.cluster import MODELS
from killcheck.entries import Entry, Status
from killcheck.ledger.keeping import keep
from killcheck.ledger.kinds import MODELLED, model_of
from killcheck.spec import specfile

RUNNING = frozenset(model.name for model in MODELS)
KINDS = [(version, kind) for version, (_, kinds) in MODELLED.items() for kind in sorted(kinds)]
#: Sources of Git that do nothing by themselves: in words that are read, that is known.
ASLEEP = {
    "argoproj.io/v1alpha1 Application": {"destination": {"namespace": "serving"}},
    "kustomize.toolkit.fluxcd.io/v1 Kustomization": {"suspend": True},
    "helm.toolkit.fluxcd.io/v2 HelmRelease": {"suspend": True},
}


def _others(api_version: str) -> list[str]:
    """The same group in another version, and another group in the same one."""
    group, _, version = api_version.rpartition("/")
    return [f"{group}/v9alpha1", f"{group}/{version}x", f"apps.example.io/{version}"]


def _entry(api_version: str, kind: str, spec: dict[str, Any], tmp_path: Any, namespace: str = "serving") -> Entry:
    one = Composition()
    file = tmp_path / "killcheck.yaml"
    file.write_text(yaml.safe_dump(one.spec))
    path = specfile.load(file)
    meta = {"name": "beside"} | ({"namespace": namespace} if namespace else {})
    beside = {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}
    kept = keep(Inventory([*one.objects, beside]), path, path.layers[0], today=date(2026, 1, 15), models=RUNNING)
    return next(entry for entry in kept.entries if entry.object.startswith(f"{kind}/"))


@pytest.mark.parametrize(("api_version", "kind"), KINDS)
def test_model_reads_the_version_that_is_served(api_version: str, kind: str) -> None:
    assert model_of({"apiVersion": api_version, "kind": kind}, RUNNING)
    served = {
        (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"])
        for crd in crds()
        for version in crd["spec"]["versions"]
        if version["served"]
    }
    assert (api_version, kind) in served
    for other in _others(api_version):
        assert not model_of({"apiVersion": other, "kind": kind}, RUNNING), other


@pytest.mark.parametrize("namespace", ["serving", ""])
@pytest.mark.parametrize(("api_version", "kind"), KINDS)
@pytest.mark.one_in(4)
def test_another_version_of_it_is_open(api_version: str, kind: str, namespace: str, tmp_path: Any) -> None:
    """Even where it names no target: what its controllers do with it is not guessed from another version's words."""
    for other in _others(api_version)[:2]:
        entry = _entry(other, kind, {}, tmp_path, namespace)
        assert entry.status is Status.NOT_MODELLED, entry
        assert other in entry.because
    if namespace:
        assert _entry(_others(api_version)[0], kind, {}, tmp_path, "far-away").status is not Status.NOT_MODELLED


@pytest.mark.parametrize("kind", ["ScaledObject", "HorizontalPodAutoscaler", "HTTPScaledObject"])
def test_scaler_of_another_group_is_open_and_no_layer(kind: str, tmp_path: Any) -> None:
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "llama"}, "minReplicaCount": 0, "minReplicas": 0}
    assert _entry("scaling.example.io/v1alpha1", kind, spec, tmp_path).status is Status.NOT_MODELLED
    meta = {"name": "beside", "namespace": "serving"}
    scaler = {"apiVersion": "scaling.example.io/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}
    found = from_objects([*Composition().objects, scaler])
    assert [layer.name for layer in found.kill_path.layers] == ["lights-out"]


@pytest.mark.parametrize("source", ASLEEP)
def test_git_source_of_a_version_that_nobody_reads_does_not_sleep(source: str, tmp_path: Any) -> None:
    api_version, _, kind = source.partition(" ")
    assert _entry(api_version, kind, ASLEEP[source], tmp_path).status is not Status.NOT_MODELLED
    entry = _entry(f"{api_version.rpartition('/')[0]}/v9", kind, ASLEEP[source], tmp_path)
    assert entry.status is Status.NOT_MODELLED, entry


@pytest.mark.parametrize("mutating", [True, False])
@pytest.mark.parametrize(
    ("version", "resource", "open_"),
    [
        ("v1beta1", "deployments", True),
        ("v1alpha1", "deployments/scale", True),
        ("v1beta1", "ingresses", False),
        ("v1", "deployments", False),
    ],
)
def test_policy_of_a_version_that_is_not_served_is_open_with_its_binding(
    mutating: bool, version: str, resource: str, open_: bool
) -> None:
    """The API server here never asks it: what it makes of the switch's write nobody saw.

    The switch writes a scale: what may refuse other writes of a Deployment refuses nothing of it.
    """
    open_ = open_ and (mutating or resource != "deployments")
    kind, api = f"{'Mutating' if mutating else 'Validating'}AdmissionPolicy", "admissionregistration.k8s.io"
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": [resource]}
    spec = {"matchConstraints": {"resourceRules": [rule]}}
    head = {"apiVersion": f"{api}/{version}", "metadata": {"name": "floor"}}
    bound = {**head, "kind": f"{kind}Binding", "spec": {"policyName": "floor"}}
    one = Composition()
    path = specfile.loads(yaml.safe_dump(one.spec))
    objects = [*one.objects, {**head, "kind": kind, "spec": spec}, bound]
    kept = keep(Inventory(objects), path, path.layers[0], today=date(2026, 1, 15), models=RUNNING)
    assert {f"{kind}/floor", f"{kind}Binding/floor"} & {e.object for e in kept.open} == (
        {f"{kind}/floor", f"{kind}Binding/floor"} if open_ else set()
    )


def test_pool_of_another_product_is_no_pool_of_karpenter() -> None:
    claims = {
        "template": {"spec": {"requirements": [{"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt"}]}}
    }
    pool = {"apiVersion": "nodes.example.io/v1", "kind": "NodePool", "metadata": {"name": "gpu"}, "spec": claims}
    found = from_objects([*Composition().objects, pool])
    assert not [one for one in found.kill_path.nodes if one.node_pool]
