"""Instance metadata out of the executor's reach by a NetworkPolicy: on any cluster, where a probe proves it."""

from __future__ import annotations

import pytest
from faults_world import World

from killcheck import events, faults
from killcheck.embedded.nodes.spawnerclient import SetUpError, SpawnerClient

ASKS = """
set -eu
curl -fsS --max-time 5 -o /dev/null -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 60" \\
  http://169.254.169.254/latest/api/token
"""


def asking(objects):
    """The executor takes a token of its node's instance first; without one it does nothing."""
    for obj in objects:
        if obj["kind"] == "CronJob":
            job = obj["spec"]["jobTemplate"]["spec"]
            job["backoffLimit"] = 0
            job["template"]["spec"]["containers"][0]["args"][0] = (
                ASKS + (job["template"]["spec"]["containers"][0]["args"][0])
            )


@pytest.fixture
def world():
    made = World(asking, real=True)
    made.settle()
    yield made
    made.close()


def test_an_executor_that_takes_its_role_from_its_node_is_left_without(world):
    result = world.drill(faults.MetadataDenied, horizon_s=900.0)
    assert str(result.verdict) == "exposed", result.why
    assert list(result.bites) == ["metadata-denied"]
    told = [change for event in world.seen if isinstance(event, events.FaultInjected) for change in event.changes]
    assert "without it: killcheck probe: through" in told
    assert "with it: killcheck probe: blocked" in told
    assert not result.dirty


def test_where_policies_are_ignored_nothing_is_proven(world):
    world.cluster.embedded.stop_controller("network-plugin")
    result = world.drill(faults.MetadataDenied, horizon_s=900.0)
    assert (str(result.verdict), result.phases) == ("inconclusive", ())
    assert "does not enforce NetworkPolicies" in result.why


def test_a_probe_that_cannot_be_run_here_says_why(world, monkeypatch):
    def refuse(client, job, files):
        raise SetUpError("no room for another network")

    monkeypatch.setattr(SpawnerClient, "spawn", refuse)
    result = world.drill(faults.MetadataDenied, horizon_s=900.0)
    assert (str(result.verdict), result.phases) == ("inconclusive", ())
    assert "a probe pod did not come to an end in time" in result.why
    assert "no room for another network" in result.why


def test_where_there_is_no_metadata_the_probe_says_so_before_any_trigger(world):
    world.cluster.embedded.nodes.runtime.external.metadata = lambda pod: None
    result = world.drill(faults.MetadataDenied, horizon_s=900.0)
    assert (str(result.verdict), result.phases) == ("inconclusive", ())
    assert "could not reach 169.254.169.254 even without a policy" in result.why


def test_a_matrix_leaves_it_out_where_nobody_asks():
    assert faults.named("metadata-denied").unsuited_executor("x", {"kind": "CronJob", "spec": {}})
