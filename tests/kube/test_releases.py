"""Kubernetes' releases: what is a version, what stands in for one that is not modelled, and a table that holds together."""

from __future__ import annotations

import pytest

from killcheck.embedded.api import schemas
from killcheck.embedded.api.kinds import Registry, builtin
from killcheck.kube import releases
from killcheck.kube.releases import Release, ReleaseError, nearest, parse, told
from killcheck.run.rehearsing import stood_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Release(36, "v1.36.2")),
        ("1.34", Release(34, "v1.34.9")),
        ("v1.37", Release(37, "v1.37.1")),
        ("1.33.4", Release(33, "v1.33.4")),
        ("v1.35.1-eks-3025e55", Release(35, "v1.35.1-eks-3025e55")),
        ("1.34+", Release(34, "v1.34.9")),
        ("v1.34.2+k3s1", Release(34, "v1.34.2+k3s1")),
    ],
)
def test_a_version_is_a_release(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["1", "latest", "2.34", "1.34.x", "134", "1.34.1 "[:-1] + "/etc"])
def test_what_is_no_version_is_told_with_one_that_is(text):
    with pytest.raises(ReleaseError, match=r"is no Kubernetes version: say 1\.36, or any of 1\.33 to 1\.37"):
        parse(text)


def test_a_release_that_is_not_modelled_is_refused_and_stood_in_for_where_it_is_a_clusters():
    with pytest.raises(ReleaseError, match=r"1\.29 is not among the releases that are modelled: 1\.33 to 1\.37"):
        parse("1.29")
    assert nearest("v1.29.3-gke.100")[0].name == "v1.33"
    assert nearest("v1.99.0")[0].name == "v1.37"
    assert nearest("v1.34.3-eks-1") == (Release(34, "v1.34.3-eks-1"), "")
    assert nearest("")[0] == releases.DEFAULT
    assert (told("1.34"), told("v1.29.3-gke.100")) == ("v1.34.9", "v1.29.3-gke.100")


def test_that_another_release_stands_in_for_a_cluster_is_said():
    (said,) = stood_in("v1.29.3-gke.100")
    assert said == (
        "programs were rehearsed on another Kubernetes: the cluster is v1.29.3-gke.100, which is not modelled: v1.33 "
        "stands in for it"
    )
    assert stood_in("v1.34.3") == []


def test_every_field_of_the_tables_is_one_of_its_type():
    for kind, name in (*releases.FIELDS, *releases.GATED):
        assert name in schemas.fields(kind), f"{kind} has no {name}"


def test_every_gate_of_a_field_is_in_the_table_and_every_step_is_of_a_release():
    assert set(releases.GATED.values()) <= set(releases.GATES)
    steps = [step for given, _ in releases.GATES.values() for step, _ in given]
    assert min(steps) >= min(releases.LATEST)
    assert max(steps) <= max(releases.LATEST)


def test_every_type_of_the_table_is_one_that_some_release_here_serves():
    newest = {(k.resource.api_version, k.resource.plural) for k in Registry(parse("1.37")).all()}
    assert set(releases.TYPES) <= newest
    assert {k.resource for k in builtin()} == {k.resource for k in Registry().all()}
