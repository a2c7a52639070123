"""SIGKILL between any two steps of a drill's life, over the wire, then ``killcheck restore`` in another process.

What is compared is the whole cluster. The default run takes a sample of the kill points, spread over all of them and
different for each set of faults; ``KILLCHECK_KILL_POINTS=all`` takes every one.
"""

from __future__ import annotations

import _thread
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from killcheck.fixtures import path
from safety_world import differences, picture

from killcheck import faults
from killcheck.clock import wall_now
from killcheck.embedded.cluster import EmbeddedCluster
from killcheck.kube import manifests
from killcheck.kube import resources as r

HERE = Path(__file__).parent
CONTEXT = "killcheck-embedded"
#: Virtual seconds in a wall second: the drill under test lives by the wall clock.
SPEED = 400.0
#: Sets of faults that can be there together; each API fault is in one.
SETS = {
    "none": [],
    "image": ["image-gone", "command-missing", "token-audience"],
    "secrets": ["pull-secret-expired", "token-dead"],
    "edits": ["rolebinding-gone", "podsecurity", "pool-floor"],
    "schedule": ["suspended", "job-hung-under-forbid", "no-room"],
    "zone": ["zone-changed", "second-starter"],
    "egress": ["egress-denied", "token-not-mounted"],
    "dns": ["dns-denied", "podsecurity"],
    "network": ["api-unreachable"],
    "admission": ["quota-exhausted", "webhook-down", "registry-unreachable"],
    "rivals": ["keda-minimum"],
    "operator": ["rival-operator", "volume-stuck"],
    "runs": ["laptop-killed", "run-never-finishes"],
    "drain": ["pdb-blocks", "finalizer", "do-not-disrupt"],
    "grace": ["long-grace"],
}
#: What only an embedded cluster's levers can do goes with its process; an autoscaler's Deployment is not in these.
NOT_OVER_THE_WIRE = {kind.name for kind in faults.ALL if kind.needs} | {"autoscaler-down"}
SAMPLE = 2


class Mortals:
    """The process that forks children, and the cluster they work on."""

    def __init__(self, folder):
        self.folder = folder
        self.cluster = EmbeddedCluster(start=wall_now(), exec_mode="host", speed=SPEED)
        home = path("dead-man")
        self.cluster.load(
            m.obj for m in manifests.load([home]).manifests if m.obj.get("apiVersion") != "killcheck/v1")
        self.cluster.kube.patch(r.NAMESPACES, "inference", {"metadata": {"labels": {"killcheck.dev/consent": "true"}}})
        # Months pass here: the schedule must not fire by itself in the middle of a test.
        self.cluster.kube.patch(r.CRONJOBS, "gpu-nightly-off", {"spec": {"schedule": "0 3 29 2 *"}}, "inference")
        self.kubeconfig = folder / "kubeconfig"
        self.cluster.wire.start()
        self.cluster.wire.write_kubeconfig(self.kubeconfig)
        self.spec = folder / "killcheck.yaml"
        self.spec.write_text((home / "killcheck.yaml").read_text().replace("[staging]", f"[{CONTEXT}]"))
        self.over = False
        self.thread = threading.Thread(target=self.live, daemon=True)
        self.thread.start()
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "mortal.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.cluster.loop.advance(400)
        self.before = self.picture()

    def live(self):
        """Let the cluster live; should it die, nobody waits for it."""
        try:
            self.cluster.loop.run_until(lambda: self.over)
        except BaseException:
            _thread.interrupt_main()
            raise

    def picture(self):
        with self.cluster.loop.entered():
            return picture(self.cluster)

    def order(self, cwd, *argv, at=0, when="before"):
        cwd.mkdir(exist_ok=True)
        order = {"argv": [*argv, "--kubeconfig", str(self.kubeconfig)], "cwd": str(cwd), "at": at, "when": when}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def drill(self, cwd, names, **death):
        under = [word for name in names for word in ("--under", name)]
        return self.order(
            cwd, "drill", str(self.spec), "--on", CONTEXT, *under, "--watch", "1s", "--yes", "--json", **death)

    def settled(self):
        """What is different, once what is under way has come to its end."""
        for _ in range(8):
            left = differences(self.before, self.picture())
            if not left and self.on():
                return []
            self.cluster.loop.advance(120)
        return differences(self.before, self.picture()) or ([] if self.on() else ["the GPUs are not on"])

    def on(self):
        with self.cluster.loop.entered():
            pods = self.cluster.kube.list(r.PODS, "inference", labels="app=vllm").items
            jobs = self.cluster.kube.list(r.PODS, "inference", labels="batch.kubernetes.io/job-name").items
        return not jobs and [p["status"].get("phase") for p in pods if "deletionTimestamp" not in p["metadata"]] == [
            "Running"] and len(pods) == 1

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.over = True
        with self.cluster.loop.entered():
            pass
        self.thread.join()
        self.cluster.close()


@pytest.fixture(scope="module")
def mortals(tmp_path_factory):
    made = Mortals(tmp_path_factory.mktemp("mortals"))
    yield made
    made.close()


def kill_points(steps, offset):
    """(step, before or after it): after only where an answer can be lost."""
    points = [(n, when) for n, what in enumerate(steps, 1) for when in ("before", "after")
              if when == "before" or not what.startswith("journal")]
    if os.environ.get("KILLCHECK_KILL_POINTS") == "all":
        return points
    stride = max(1, len(points) // SAMPLE)
    return points[offset % stride::stride]


def restore(mortals, folder, elsewhere):
    """From the same machine, which knows that the process is dead; or from one that has only the cluster's word."""
    if not elsewhere:
        return mortals.order(folder, "restore")
    other = folder / "elsewhere"
    left = json.loads(mortals.order(other, "restore", "--on", CONTEXT, "--dry-run", "--json")["out"])["left"]
    answer = {"code": 0, "out": ""}
    for run in left:
        answer = mortals.order(other, "restore", "--on", CONTEXT, "--run", run["run"])
    return answer


def test_every_fault_that_works_over_the_wire_is_in_a_set():
    assert {name for names in SETS.values() for name in names} | NOT_OVER_THE_WIRE == {k.name for k in faults.ALL}


@pytest.mark.parametrize("name", SETS)
def test_killed_anywhere_it_is_put_back(mortals, tmp_path, name, record_property):
    assert mortals.settled() == []
    whole = mortals.drill(tmp_path / "whole", SETS[name])
    assert whole["code"] in (0, 1, 3), whole["out"]
    assert json.loads(whole["out"])["drills"][0]["problems"] == []
    assert mortals.settled() == []
    points = kill_points(whole["steps"], list(SETS).index(name))
    for number, (at, when) in enumerate(points):
        folder = tmp_path / f"{at}-{when}"
        killed = mortals.drill(folder, SETS[name], at=at, when=when)
        if killed["code"] != -9:  # this time it took fewer steps
            assert killed["code"] in (0, 1, 3), killed["out"]
        answer = restore(mortals, folder, elsewhere=number % 2 == 1)
        assert answer["code"] == 0, (at, when, answer["out"])
        # What never came to a journal is not known on this machine's; the Leases of a dead process lapse, or go here.
        mortals.order(folder, "restore", "--on", CONTEXT)
        assert mortals.settled() == [], (at, when, killed["steps"][-3:], answer["out"])
    record_property("kill_points", len(points))


def test_what_would_refuse_it_is_a_part_of_the_plan(mortals, tmp_path):
    spec = tmp_path / "none-allowed.yaml"
    spec.write_text(mortals.spec.read_text().replace("maxGpuNodes: 1", "maxGpuNodes: 0"))
    shown = mortals.order(tmp_path / "a", "drill", str(spec), "--on", CONTEXT, "--under", "suspended", "--dry-run")
    assert shown["code"] == 2, shown["out"]
    assert "CronJob inference/gpu-nightly-off is suspended for the length of the drill" in shown["out"]
    assert "at stake: 1 GPU node(s)" in shown["out"]
    assert "1 GPU nodes are on; the spec allows 0" in shown["out"]
    assert shown["steps"] == []


@pytest.mark.parametrize(("under", "code", "words"), [
    (["image-gone+pull-secret-expired"], 3, "cannot be there together: image-gone and pull-secret-expired both set"),
    (["suspended+"], 2, "the name of a fault is missing beside a +"),
    (["suspended", "image-gone+suspended"], 2, "suspended is named twice"),
    (["registry-quota"], 3, "it needs registry"),
], ids=["clash", "half", "twice", "lever"])
def test_faults_that_cannot_be_had_are_refused_before_anything_is_changed(mortals, tmp_path, under, code, words):
    words_of = [word for name in under for word in ("--under", name)]
    answer = mortals.order(
        tmp_path / "a", "drill", str(mortals.spec), "--on", CONTEXT, *words_of, "--watch", "1s", "--yes")
    assert (answer["code"], answer["steps"]) == (code, []), answer["out"]
    assert words in answer["out"]


def test_restore_is_told_where_to_look_and_says_what_it_did_not_find(mortals, tmp_path):
    nowhere = mortals.order(tmp_path / "a", "restore", "--on", CONTEXT, "-n", "inferense")
    assert nowhere["code"] == 2
    assert "there is no namespace inferense here" in nowhere["out"]
    nothing = mortals.order(tmp_path / "a", "restore", "--on", CONTEXT, "--run", "20200101-000000-abcdef-0")
    assert (nothing["code"], nothing["out"].strip()) == (0, "nothing is left of a run 20200101-000000-abcdef-0")
