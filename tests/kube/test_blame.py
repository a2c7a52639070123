"""Objects of a wrong shape: each is named and passed over, and stops nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from killcheck.probes.base import Probe

from killcheck.discover.shapes import read_as_typed, sound
from killcheck.fence import policies
from killcheck.kube.blame import blamed
from killcheck.kube.manifests import ManifestError, loads
from killcheck.lint.asking import ask, world_of

#: By kind: what is sound, and fields whose values are taken for another type.
SOUND: dict[str, dict[str, Any]] = {
    "kueue.x-k8s.io/v1beta1/ClusterQueue": {
        "resourceGroups": [{"flavors": [{"name": "f", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4"}]}]}]
    },
    "argoproj.io/v1alpha1/Application": {
        "syncPolicy": {"automated": {"selfHeal": True}},
        "ignoreDifferences": [{"kind": "Deployment", "jsonPointers": ["/spec/replicas"]}],
    },
    "monitoring.coreos.com/v1/PrometheusRule": {
        "groups": [{"name": "g", "rules": [{"alert": "A", "expr": "up == 0"}]}]
    },
    "ray.io/v1/RayCluster": {
        "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "h", "args": None}]}}},
        "workerGroupSpecs": [{"replicas": 1, "template": {"metadata": {}, "spec": {"nodeSelector": None}}}],
    },
    "jobset.x-k8s.io/v1alpha2/JobSet": {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": {}}}}]},
    "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {}}},
}


def _paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all mappings and lists below a value."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [here] if here and isinstance(value, dict | list) else []
    return [*found, *(path for key, inner in below for path in _paths(inner, (*here, key)))]


def _document(which: str, spec: dict[str, Any]) -> dict[str, Any]:
    api_version, _, kind = which.rpartition("/")
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "odd", "namespace": "ml"}, "spec": spec}


def _plain(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ml"}, "data": {}}


@pytest.mark.parametrize("which", SOUND)
def test_a_custom_resource_of_a_wrong_shape_is_passed_over_with_its_line(which: str) -> None:
    """Whichever of its mappings and lists is a word; nulls are nothing, as an API server takes them."""
    others = [_plain("a"), _plain("b")]
    assert len(sound(loads(yaml.safe_dump_all([*others, _document(which, SOUND[which])]))).manifests) == 3
    for path in _paths(SOUND[which]):
        odd = yaml.safe_load(yaml.safe_dump(SOUND[which]))
        holder = odd
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = "a word"
        kept = sound(loads(yaml.safe_dump_all([*others, _document(which, odd)]), "odd.yaml"))
        assert len(kept.manifests) == 2, path
        (skipped,) = kept.skipped
        assert skipped.file == "odd.yaml"
        assert skipped.line > 12


@pytest.mark.parametrize("rules", ["x", [None], [{"match": "x"}], [{"match": {"any": 3}}], {"a": "b"}])
def test_a_policy_of_a_wrong_shape_may_change_pools(rules: object) -> None:
    unknown, notes = policies.told([_document("kyverno.io/v1/ClusterPolicy", {"rules": rules})])
    assert len(unknown) == 1
    assert "ClusterPolicy/ml/odd" in unknown[0]
    assert notes == []


class Stumbles(Probe):
    """Takes everything for what it is not."""

    id = "stumbles"
    claim = remedy = "none"
    failures = ()
    sources = ("this test",)

    def ask(self, world: Any) -> Any:
        for obj in world.objects:
            for part in obj["spec"]["parts"]:
                yield part.get("name")


def test_a_question_that_stumbles_is_an_error_and_says_over_what() -> None:
    objects = [_document("example.com/v1/Thing", {"parts": []}), _document("example.com/v1/Odd", {"parts": ["x"]})]
    holder = _plain("holder") | {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"parts": [], "containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
    }
    world, _ = world_of([holder, *objects], datetime(2026, 1, 1, tzinfo=UTC))
    (finding,) = ask(world, [Stumbles()])
    assert (finding.severity, finding.unproven) == ("error", False)  # else an odd object would silence the question
    assert finding.object == "Odd/ml/odd"
    assert "its fields have other types" in finding.message


def test_a_stumble_over_nobodys_object_is_ours() -> None:
    """That is a defect, and is not put down to a manifest."""
    loaded = loads(yaml.safe_dump_all([_plain("a")]))
    with pytest.raises(ZeroDivisionError), read_as_typed(lambda: loaded):
        raise ZeroDivisionError
    with pytest.raises(AttributeError, match="ours"), read_as_typed(lambda: loaded):
        raise AttributeError("ours")


def test_a_stumble_over_a_manifest_is_told_with_its_line() -> None:
    loaded = loads(yaml.safe_dump_all([_plain("a"), _document("example.com/v1/Odd", {"parts": ["x"]})]), "odd.yaml")
    parts = loaded.manifests[1].obj["spec"]["parts"]
    with pytest.raises(ManifestError, match=r"odd\.yaml:\d+: Odd/ml/odd"), read_as_typed(lambda: loaded):
        parts[0].get("name")


def test_who_is_blamed_is_innermost_first() -> None:
    one, other = _plain("one"), _plain("other")

    def inner(part: dict[str, Any]) -> None:
        part["data"].missing()

    def outer(obj: dict[str, Any]) -> None:
        assert obj is one
        inner(other)

    with pytest.raises(AttributeError) as error:
        outer(one)
    assert blamed(error.value, [one, other]) is other
    assert blamed(error.value, [_plain("third")]) is None
