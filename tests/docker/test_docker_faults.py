"""Each fault of what an engine runs: it bites, is seen for what it is, and leaves the engine as it was."""

from __future__ import annotations

import pytest
from docker_host import CRON_LAYER, ONE_SHOT_LAYER, drilled, killcheck
from test_docker_pulls import ONE_SHOT

from killcheck import faults

#: fault: (verdict, stuck at, in the cause).
CRON = {
    "container-stopped": ("exposed", "triggered", "container cron is stopped or paused"),
    "container-paused": ("exposed", "triggered", "container cron is stopped or paused"),
}
#: Those of pulls are in test_docker_pulls.py, those of kind's nodes are in test_kind.py.
NODES = {"node-paused", "node-stopped", "node-disconnected", "node-reclaimed"}


def test_nothing_is_missing_from_the_tables():
    own = {kind.name for kind in faults.every() if kind.on_docker or kind in faults.ENGINE}
    assert own == {*ONE_SHOT, *CRON, *NODES, "container-disconnected"}
    for kind in faults.ENGINE:
        assert all((kind.name, kind.simulates, kind.family, kind.failures)), kind
        assert "row" in (kind.__doc__ or ""), kind


@pytest.mark.parametrize("fault", CRON)
def test_a_cron_container(host, path, fault):
    host.client.networks.create("backend")
    host.cron(network="backend")
    host.gpu_server()
    verdict, stuck_at, cause = CRON[fault]
    _, result = drilled(host, path.write(CRON_LAYER), fault, "--watch", "2s")
    assert (result["verdict"], result["stuck_at"] or "") == (verdict, stuck_at), result
    assert cause in (result["cause"] or "")


def test_a_cron_container_that_needs_its_network_says_so_when_it_is_cut_off(host, path):
    host.client.networks.create("backend")
    host.cron(network="backend")
    host.gpu_server()
    asks = CRON_LAYER.replace("[docker, stop, vllm]", "[sh, -c, 'nc -w 2 192.0.2.1 80 && docker stop vllm']")
    _, result = drilled(host, path.write(asks), "container-disconnected", "--watch", "5s")
    assert "Network is unreachable" in result["bites"]["container-disconnected"]


def test_a_cron_container_that_needs_no_network_has_not_met_its_loss(host, path):
    """Its engine's socket is no network: it stops the server all the same, and that says nothing of the fault."""
    host.client.networks.create("backend")
    host.cron(network="backend")
    host.gpu_server()
    before, spec = host.picture(), path.write(CRON_LAYER)
    code, out, document = killcheck(
        spec.parent, "drill", str(spec), "--on", f"docker:{host.address}", "--under", "container-disconnected", "--yes",
        "--json",
    )  # fmt: skip
    result = document["drills"][0]
    assert (code, result["verdict"], result["bites"]) == (3, "inconclusive", {}), out
    assert "nothing was seen to meet it" in result["why"]
    assert host.picture() == before


def test_a_fault_that_acts_through_kubernetes_means_nothing_here(host, path):
    host.gpu_server()
    host.cron()
    spec, on = path.write(CRON_LAYER), f"docker:{host.address}"
    code, out, document = killcheck(
        spec.parent, "drill", str(spec), "--on", on, "--under", "egress-denied", "--yes", "--json"
    )
    assert (code, document["drills"][0]["verdict"]) == (3, "inconclusive"), out
    assert "a Docker Engine has none" in document["drills"][0]["why"]


def test_a_registry_that_did_not_opt_in_is_left_alone(host, path):
    where = host.registry(labels={})
    host.push(host.cli, f"{where}/gpu-off:1")
    host.gpu_server()
    host.run("gpu-off", "docker", "stop", "vllm", image=f"{where}/gpu-off:1", start=False)
    before, spec = host.picture(), path.write(ONE_SHOT_LAYER)
    code, out, _ = killcheck(
        spec.parent, "drill", str(spec), "--on", f"docker:{host.address}", "--under", "tag-deleted", "--yes"
    )
    assert (code, "container registry has not opted in" in out) == (3, True), out
    assert host.picture() == before
