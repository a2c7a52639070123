"""What layers share."""

from __future__ import annotations

from killcheck.fixtures import path, spec

from killcheck.independence import Dependency, dependencies, shared
from killcheck.kube import manifests
from killcheck.kube.objects import copy, dig
from killcheck.specfile import load

KILL_PATH = load(spec("two-switches"))
OBJECTS = manifests.load(path("two-switches")).objects


def test_two_switches_share_only_what_fires_them():
    assert [str(one.dependency) for one in shared(KILL_PATH, OBJECTS)] == [
        "controller kube-controller-manager (CronJobs)"]


def test_one_image_for_both_is_found():
    changed = [copy(obj) for obj in OBJECTS]
    for obj in changed:
        if obj["kind"] == "CronJob":
            dig(obj, "spec", "jobTemplate", "spec", "template", "spec", "containers")[0]["image"] = "tools/kill:1"
    found = {one.dependency for one in shared(KILL_PATH, changed)}
    assert {Dependency("image", "tools/kill:1"), Dependency("registry", "docker.io")} <= found


def test_a_layer_lists_what_it_is_made_of():
    kinds = {one.kind for one in dependencies(KILL_PATH.layer("second-switch"), OBJECTS)}
    assert kinds == {"image", "registry", "identity", "network", "controller"}
