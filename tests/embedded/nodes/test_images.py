"""The catalogue of well-known images."""

import pytest
import yaml

from killcheck.images.contents import _catalogue, contents_of
from killcheck.images.reference import parse


def contents(image):
    return contents_of(parse(image))


@pytest.mark.parametrize(
    ("image", "has", "lacks"),
    [
        ("python:3.12-slim", ["sh", "bash", "python3", "pip"], ["curl", "wget", "ps", "kubectl"]),
        ("python:3.12", ["curl", "wget", "git", "python3"], ["kubectl", "jq"]),
        ("python:3.12-alpine", ["sh", "wget", "python3"], ["bash", "curl"]),
        ("curlimages/curl:8.5.0", ["curl", "sh"], ["bash", "jq", "kubectl"]),
        ("alpine:3.20", ["sh", "wget"], ["bash", "curl", "kubectl"]),
        ("busybox", ["sh", "wget"], ["bash", "curl"]),
        ("debian:12-slim", ["bash", "perl"], ["curl", "wget"]),
        ("registry.k8s.io/kubectl:v1.34.0", ["kubectl"], ["sh", "bash"]),
        ("rancher/kubectl:v1.31.0", ["kubectl"], ["sh"]),
        ("alpine/k8s:1.31.0", ["kubectl", "bash", "curl", "jq", "helm", "aws"], []),
        ("bitnamilegacy/kubectl:1.33", ["kubectl", "bash", "curl", "jq"], ["wget"]),
        ("amazon/aws-cli:2.17.0", ["aws", "sh", "jq"], ["kubectl"]),
        ("public.ecr.aws/amazonlinux/amazonlinux:2023.8.20250808.1", ["sh", "curl"], ["wget", "kubectl", "tar"]),
        ("gcr.io/distroless/static-debian12", [], ["sh", "ls"]),
    ],
)
def test_what_an_image_has_and_lacks(image, has, lacks):
    known = contents(image)
    assert [name for name in has if not known.find(name)] == []
    assert [name for name in lacks if known.find(name)] == []


def test_a_name_without_a_registry_is_an_official_image_by_its_name_alone():
    """Most of them are somebody's own, that a node was given by hand: of these nothing is known."""
    assert contents("golang:1.23").without
    assert contents("public.ecr.aws/docker/library/rust:1").without
    for own in ("gpu-off:1", "kubectl:1.33", "ops-tools@sha256:" + "0" * 64):
        assert (contents(own).known, contents(own).without) == (False, frozenset()), own


def test_what_is_known_of_its_time_zones_and_of_its_python():
    """Where ``TZ`` is UTC whatever it says, and by which version a program is read."""
    found = {
        image: (contents(image).zones, contents(image).python_version)
        for image in ("alpine:3.20", "busybox", "ubuntu:24.04", "python:3.9.18-alpine", "python:slim", "debian:12-slim")
    }
    assert list(found.values()) == [
        *((False, None), (False, None), (False, None), (True, (3, 9)), (True, None), (True, None))
    ]


def test_a_merged_layout_is_found_under_both_names():
    slim = contents("python:3.12-slim")
    assert slim.has("/bin/sh")
    assert slim.has("/usr/bin/sh")
    alpine = contents("alpine:3.20")
    assert alpine.has("/bin/sh")
    assert not alpine.has("/usr/bin/sh")


def test_where_a_command_is_counts():
    assert contents("registry.k8s.io/kubectl:v1.34.0").has("/bin/kubectl")
    assert not contents("registry.k8s.io/kubectl:v1.34.0").has("/usr/local/bin/kubectl")
    assert contents("bash:5").find("bash") == "/usr/local/bin/bash"


def test_an_image_of_a_team_is_unknown_and_says_so():
    known = contents("ghcr.io/team/executor:1")
    assert not known.known
    assert known.assumed


def test_every_entry_says_where_its_facts_are_from():
    catalogue = _catalogue()
    for entry in catalogue["images"]:
        assert entry.get("source"), entry["repository"]
        for item in entry.get("contains", ()):
            assert item in catalogue["layouts"] or not item.isupper()
    assert yaml.safe_load(yaml.safe_dump(catalogue))
