"""SIGKILL between any two steps of a drill on a real engine, then ``killcheck restore`` in another process.

What is compared is the whole engine: containers and what they are like, volumes, tags of images, tags in the registry.
The default run takes a sample of the kill points, spread over all of them; ``KILLCHECK_KILL_POINTS=all`` takes each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import urllib3
from docker_host import CRON_LAYER, ONE_SHOT_LAYER, until

HERE = Path(__file__).parent
#: Faults, and how many kill points of each are tried by default.
SETS = {
    "tag-deleted": 3, "registry-throttles": 3, "container-disconnected": 2, "container-paused": 2,
    "container-stopped": 2}


class Mortals:
    """The process that forks children, for one engine."""

    def __init__(self, host, spec):
        self.host, self.spec = host, spec
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "mortal_engine.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def order(self, cwd, *argv, at=0, when="before"):
        cwd.mkdir(exist_ok=True)
        self.process.stdin.write(json.dumps({"argv": argv, "cwd": str(cwd), "at": at, "when": when}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def drill(self, cwd, fault, **death):
        return self.order(cwd, "drill", str(self.spec), "--on", f"docker:{self.host.address}", "--under", fault,
                          "--watch", "1s", "--yes", "--json", **death)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def points(steps, how_many):
    """(step, before or after it): after only where an answer can be lost."""
    found = [(n, when) for n, what in enumerate(steps, 1) for when in ("before", "after")
             if when == "before" or not what.startswith("journal")]
    if os.environ.get("KILLCHECK_KILL_POINTS") == "all":
        return found
    return [found[len(found) * (2 * i + 1) // (2 * how_many)] for i in range(how_many)]


@pytest.mark.parametrize("fault", SETS)
def test_killed_anywhere_restore_leaves_nothing_paused_stopped_or_cut_off(host, path, tmp_path, fault):
    where = ""
    if fault.startswith(("tag", "registry")):
        where = host.registry()
        host.push(host.cli, f"{where}/gpu-off:1")
        host.run("gpu-off", "docker", "stop", "vllm", image=f"{where}/gpu-off:1", start=False,
                 volumes=[f"{host.socket}:/var/run/docker.sock"])
    else:
        host.client.networks.create("backend")
        host.cron(network="backend")
    host.gpu_server()
    mortals = Mortals(host, path.write(ONE_SHOT_LAYER if where else CRON_LAYER))
    before = picture(host, where)
    try:
        whole = mortals.drill(tmp_path / "whole", fault)
        assert whole["code"] in (0, 1), whole["out"]
        until(lambda: picture(host, where) == before, "the engine is as it was after a whole drill")
        for number, (at, when) in enumerate(points(whole["steps"], SETS[fault])):
            folder = tmp_path / str(number)
            what = f"killed {when} step {at}, {whole['steps'][at - 1]}"
            killed = mortals.drill(folder, fault, at=at, when=when)
            if killed["code"] != -9:  # a drill that was faster has fewer steps
                assert killed["code"] in (0, 1), (what, killed["out"])
                continue
            restored = mortals.order(folder, "restore", "--on", f"docker:{host.address}")
            assert restored["code"] == 0, (what, restored["out"])
            until(lambda: picture(host, where) == before, f"the engine is as it was: {what}; {restored['out']}; "
                  f"{picture(host, where)}")
    finally:
        mortals.close()


def picture(host, where):
    found = host.picture()
    if where:
        try:
            answer = urllib3.request("GET", f"http://{where}/v2/gpu-off/tags/list", retries=False, timeout=2.0)
            found["registry"] = answer.data
        except urllib3.exceptions.HTTPError:
            found["registry"] = "does not answer"
    return found
