"""SIGKILL between any two steps of a drill on a real engine, then ``killcheck restore`` in another process.

What is compared is the whole engine: containers and what they are like, volumes, tags of images, tags in the registry.
The default run takes a sample of the kill points, spread over all of them; ``KILLCHECK_KILL_POINTS=all`` takes each.
"""

from __future__ import annotations

import os

import pytest
import urllib3
from docker_host import CRON_LAYER, ONE_SHOT_LAYER, until
from mortal import Mortals, kill_points

#: Faults, and how many kill points of each are tried by default.
SETS = {
    "tag-deleted": 3,
    "registry-throttles": 3,
    "container-disconnected": 2,
    "container-paused": 2,
    "container-stopped": 2,
}


def chosen(steps, how_many):
    """The points to be tried: so many of them, or all."""
    found = kill_points(steps)
    if os.environ.get("KILLCHECK_KILL_POINTS") == "all":
        return found
    return [found[len(found) * (2 * i + 1) // (2 * how_many)] for i in range(how_many)]


@pytest.mark.parametrize("fault", SETS)
@pytest.mark.one_in(2)
def test_killed_anywhere_restore_leaves_nothing_paused_stopped_or_cut_off(host, path, tmp_path, fault, record_property):
    where = ""
    if fault.startswith(("tag", "registry")):
        where = host.registry()
        host.push(host.cli, f"{where}/gpu-off:1")
        host.run(
            "gpu-off",
            "docker",
            "stop",
            "vllm",
            image=f"{where}/gpu-off:1",
            start=False,
            volumes=[f"{host.socket}:/var/run/docker.sock"],
        )
    else:
        host.client.networks.create("backend")
        host.cron(network="backend")
    host.gpu_server()
    spec, on = path.write(ONE_SHOT_LAYER if where else CRON_LAYER), f"docker:{host.address}"
    mortals = Mortals("engine")

    def drill(folder, **death):
        return mortals.order(
            folder, "drill", str(spec), "--on", on, "--under", fault, "--watch", "1s", "--yes", "--json", **death
        )

    before = picture(host, where)
    try:
        whole = drill(tmp_path / "whole")
        assert whole["code"] in (0, 1, 3), whole["out"]
        until(lambda: picture(host, where) == before, "the engine is as it was after a whole drill")
        points = chosen(whole["steps"], SETS[fault])
        record_property("kill_points", len(points))
        for number, (at, when) in enumerate(points):
            folder = tmp_path / str(number)
            what = f"killed {when} step {at}, {whole['steps'][at - 1]}"
            killed = drill(folder, at=at, when=when)
            if killed["code"] != -9:  # a drill that was faster has fewer steps
                assert killed["code"] in (0, 1, 3), (what, killed["out"])
                continue
            restored = mortals.order(folder, "restore", "--on", on)
            assert restored["code"] == 0, (what, restored["out"])
            until(
                lambda: picture(host, where) == before,
                f"the engine is as it was: {what}; {restored['out']}; {picture(host, where)}",
            )
    finally:
        mortals.close()


def picture(host, where):
    found = host.picture()
    if where:
        try:
            answer = urllib3.request("GET", f"http://{where}/v2/gpu-off/tags/list", retries=False, timeout=30.0)
            found["registry"] = answer.data
        except urllib3.exceptions.HTTPError:
            found["registry"] = "does not answer"
    return found
