"""A network plugin that ignores NetworkPolicies shows nothing, and the drill says so; one that enforces them is
believed when a probe pod has met both.
"""

from __future__ import annotations

import pytest
from faults_world import World

from killcheck import events, faults

KINDS = [faults.EgressDenied, faults.DnsDenied, faults.ApiUnreachable]


@pytest.fixture
def world():
    made = World(real=True)
    made.settle()
    yield made
    made.close()


def injected(world):
    return [change for event in world.seen if isinstance(event, events.FaultInjected) for change in event.changes]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_where_policies_are_ignored_nothing_is_proven(world, kind):
    from safety_world import differences, picture

    world.cluster.embedded.stop_controller("network-plugin")
    before = picture(world.cluster.embedded)
    result = world.drill(kind, horizon_s=1800.0)
    assert str(result.verdict) == "inconclusive"
    assert "does not enforce NetworkPolicies" in result.why
    assert result.phases == ()  # found out before any trigger was pulled
    world.settle()
    assert differences(before, picture(world.cluster.embedded)) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_where_they_are_enforced_a_probe_has_met_both(world, kind):
    result = world.drill(kind, horizon_s=1800.0)
    assert str(result.verdict) == "exposed", result.why
    assert list(result.bites) == [kind.name]
    told = injected(world)
    assert "without it: killcheck probe: through" in told
    assert "with it: killcheck probe: blocked" in told


def test_an_image_that_can_open_no_connection_tells_nothing():
    def bare(objects):
        for obj in objects:
            if obj["kind"] == "CronJob":
                container = obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
                container["image"] = "debian:12-slim"

    world = World(bare, real=True)
    try:
        world.settle()
        result = world.drill(faults.EgressDenied, horizon_s=1800.0)
    finally:
        world.close()
    assert str(result.verdict) == "inconclusive"
    assert "has nothing that opens a connection" in result.why


def test_an_image_without_a_shell_tells_nothing():
    def distroless(objects):
        for obj in objects:
            if obj["kind"] == "CronJob":
                container = obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
                container["image"] = "registry.k8s.io/kubectl:v1.36.2"

    world = World(distroless, real=True)
    try:
        world.settle()
        result = world.drill(faults.EgressDenied, horizon_s=1800.0)
    finally:
        world.close()
    assert str(result.verdict) == "inconclusive"
    assert "could not run /bin/sh" in result.why


def test_a_cluster_whose_plugin_is_known_needs_no_probe():
    world = World()
    try:
        world.settle()
        result = world.drill(faults.ApiUnreachable, horizon_s=1800.0)
    finally:
        world.close()
    assert list(result.bites) == ["api-unreachable"]
    assert [change for change in injected(world) if "probe" in change] == []
