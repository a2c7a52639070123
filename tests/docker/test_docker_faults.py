"""Each fault of what an engine runs: it bites, is seen for what it is, and leaves the engine as it was."""

from __future__ import annotations

import pytest
from docker_host import CONSENT, CRON_LAYER, ONE_SHOT_LAYER, killcheck

from killcheck import faults

#: fault: (verdict, stuck at, in the cause). The executor's image is pulled at each firing.
ONE_SHOT = {
    "tag-deleted": ("exposed", "image_pulled", "manifest unknown"),
    "registry-stopped": ("exposed", "image_pulled", "connection refused"),
    "registry-throttles": ("exposed", "image_pulled", "toomanyrequests"),
    "registry-refuses": ("exposed", "image_pulled", "unauthorized"),
    "image-gone": ("exposed", "image_pulled", "manifest unknown"),
    "command-missing": ("exposed", "container_started", "executable file not found"),
}
CRON = {
    "container-stopped": ("exposed", "triggered", "container cron is stopped or paused"),
    "container-paused": ("exposed", "triggered", "container cron is stopped or paused"),
    # Its engine's socket is no network: it stops the server all the same.
    "container-disconnected": ("survived", "", ""),
}
#: Those of kind's nodes are in test_kind.py.
NODES = {"node-paused", "node-stopped", "node-disconnected", "node-reclaimed"}


def test_nothing_is_missing_from_the_tables():
    own = {kind.name for kind in faults.every() if kind.on_docker or kind in faults.ENGINE}
    assert own == {*ONE_SHOT, *CRON, *NODES}
    for kind in faults.ENGINE:
        assert all((kind.name, kind.simulates, kind.family, kind.failures)), kind
        assert "row" in (kind.__doc__ or ""), kind


def drilled(host, spec, fault, *argv):
    before = host.picture()
    code, out, document = killcheck(
        spec.parent, "drill", str(spec), "--on", f"docker:{host.address}", "--under", fault, "--yes", "--json", *argv)
    assert document, out
    result = document["drills"][0]
    assert fault in result["bites"], result
    assert result["problems"] == []
    assert host.picture() == before
    return code, result


@pytest.mark.parametrize("fault", ONE_SHOT)
def test_an_executor_that_pulls_its_image(host, path, fault):
    where = host.registry()
    host.push(host.cli, f"{where}/gpu-off:1")
    host.gpu_server()
    host.run("gpu-off", "docker", "stop", "vllm", image=f"{where}/gpu-off:1", start=False,
             labels={**CONSENT, "killcheck.dev/pull": "always"}, volumes=[f"{host.socket}:/var/run/docker.sock"])
    _, result = drilled(host, path.write(ONE_SHOT_LAYER), fault, "--watch", "10s" if "registry" in fault else "4s")
    verdict, stuck_at, cause = ONE_SHOT[fault]
    assert (result["verdict"], result["stuck_at"] or "") == (verdict, stuck_at), result
    assert cause in result["cause"].lower(), result["cause"]


@pytest.mark.parametrize("fault", CRON)
def test_a_cron_container(host, path, fault):
    host.client.networks.create("backend")
    host.cron(network="backend")
    host.gpu_server()
    verdict, stuck_at, cause = CRON[fault]
    _, result = drilled(host, path.write(CRON_LAYER), fault, *([] if verdict == "survived" else ["--watch", "2s"]))
    assert (result["verdict"], result["stuck_at"] or "") == (verdict, stuck_at), result
    assert cause in (result["cause"] or "")


def test_a_fault_that_acts_through_kubernetes_means_nothing_here(host, path):
    host.gpu_server()
    host.cron()
    spec, on = path.write(CRON_LAYER), f"docker:{host.address}"
    code, out, document = killcheck(
        spec.parent, "drill", str(spec), "--on", on, "--under", "egress-denied", "--yes", "--json")
    assert (code, document["drills"][0]["verdict"]) == (3, "inconclusive"), out
    assert "a Docker Engine has none" in document["drills"][0]["why"]


def test_a_registry_that_did_not_opt_in_is_left_alone(host, path):
    where = host.registry(labels={})
    host.push(host.cli, f"{where}/gpu-off:1")
    host.gpu_server()
    host.run("gpu-off", "docker", "stop", "vllm", image=f"{where}/gpu-off:1", start=False)
    before, spec = host.picture(), path.write(ONE_SHOT_LAYER)
    code, out, _ = killcheck(
        spec.parent, "drill", str(spec), "--on", f"docker:{host.address}", "--under", "tag-deleted", "--yes")
    assert (code, "container registry has not opted in" in out) == (3, True), out
    assert host.picture() == before
