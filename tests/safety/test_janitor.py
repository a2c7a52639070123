"""The janitor: killcheck's own dead-man's switch, as ``ci/janitor.yaml`` has it, on a cluster where a run died.

Its pod is a pod: made by the CronJob controller, admitted, scheduled, with its own token, CA and rights, and what it
runs is ``killcheck restore --on in-cluster --expired``. For every set of faults it must start and put everything back:
none of what a fault breaks may be among its dependencies.
"""

from __future__ import annotations

import base64
import io
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from killcheck.fixtures import path
from safety_world import differences, picture

import killcheck
from killcheck import faults, layers
from killcheck.capabilities.offered import Capabilities
from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.faults.combination import in_order
from killcheck.kube import manifests
from killcheck.kube import resources as r
from killcheck.kube.objects import dig
from killcheck.layers.base import Stage
from killcheck.safety.journal import Journal
from killcheck.spec import specfile
from killcheck.watch import steady
from killcheck.watch.scene import Scene

CI = Path(__file__).parents[2] / "ci"
RUN = "20260115-030001-abc123-0"
#: When the janitor may take back what was changed, in seconds: here before its second round.
LIFETIME_S = 900.0
LONG_S = 12 * 3600
#: What a dead run can leave on somebody's cluster (what is modelled dies with its process), in sets that do not clash.
SETS = (
    ("image-gone", "token-dead", "command-missing"),
    ("pull-secret-expired", "token-audience", "no-room"),
    ("rolebinding-gone", "token-not-mounted", "registry-unreachable"),
    ("egress-denied", "proxy-in-the-way"),
    ("dns-denied", "dns-wrong"),
    ("api-unreachable", "zone-changed", "sidecar-not-ready"),
    ("suspended", "job-hung-under-forbid"),
    ("quota-exhausted", "webhook-down", "podsecurity"),
    ("keda-minimum", "pool-floor", "volume-stuck"),
    ("rival-operator", "finalizer"),
    ("second-starter", "long-grace"),
    ("pdb-blocks", "do-not-disrupt", "laptop-killed", "run-never-finishes"),
)
#: Needs an autoscaler's Deployment; the rest of what is not in a set needs a lever.
ELSEWHERE = {kind.name for kind in faults.ALL if kind.needs} | {"autoscaler-down"}
#: The container's command with killcheck's own source in a ConfigMap in place of an image that has it installed.
START = "import sys; sys.path.insert(0, '/source/killcheck.zip'); from killcheck.cli import main; main()"


#: Rooms that ``restore`` has no use for: a ConfigMap holds a mebibyte.
UNUSED = {
    "diagnosis", "discover", "embedded", "faults", "fence", "fleet", "history", "images", "instances", "layers", "ledger",
    "lint", "promql", "proof", "pytest", "rehearsal", "reports", "standins", "witnesses",
}  # fmt: skip


def source():
    """killcheck as a zip archive that Python imports from: what ``restore`` needs of it."""
    root = Path(killcheck.__file__).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*.py")):
            if not UNUSED & set(file.relative_to(root).parts):
                archive.write(file, f"killcheck/{file.relative_to(root)}")
    return base64.b64encode(packed.getvalue()).decode()


def recipe():
    """The janitor and its rights as they are shipped, its image given."""
    found = [m.obj for m in manifests.load([CI / "rbac.yaml", CI / "janitor.yaml"]).manifests]
    for obj in found:
        if obj["kind"] == "CronJob":
            # Time here runs ahead of a process that waits on a lock, as killcheck's loop does between two looks.
            obj["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] = LONG_S
            spec = obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]
            (container,) = spec["containers"]
            assert container["command"][0] == "killcheck"
            container["command"] = ["python3", "-c", START, *container["command"][1:]]
            container["volumeMounts"] = [*container.get("volumeMounts", []), {"name": "source", "mountPath": "/source"}]
            spec["volumes"] = [*spec.get("volumes", []), {"name": "source", "configMap": {"name": "source"}}]
    held = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "source", "namespace": "killcheck"},
        "binaryData": {"killcheck.zip": source()},
    }
    return [*found, held]


class Abandoned(EmbeddedDrillCluster):
    """An embedded cluster that a run takes for somebody's; the run injects its faults, and is never heard of again."""

    def __init__(self):
        folder = path("dead-man")
        self.kill_path = specfile.load(folder / "killcheck.yaml")
        found = [m.obj for m in manifests.load([folder]).manifests if m.obj.get("apiVersion") != "killcheck/v1"]
        super().__init__([*found, *recipe()], exec_mode="host", start=datetime(2026, 1, 15, 3, 0, 1, tzinfo=UTC))
        self.embedded.kube.patch(r.NAMESPACES, "inference", {"metadata": {"labels": {"killcheck.dev/consent": "true"}}})
        # In the hours of this test the schedule must not fire by itself.
        self.kube.patch(r.CRONJOBS, "gpu-nightly-off", {"spec": {"schedule": "0 3 1 12 *"}}, "inference")
        self.loop.run_until(lambda: False, 400)
        self.capabilities = Capabilities()

    def sabotage(self, names):
        """As a drill does, and then nothing more."""
        layer = self.kill_path.layer("nightly-off")
        scene = Scene(self, self.kill_path, lambda change, old, new: None, namespaces=["inference"], layer=layer)
        journal = Journal(RUN, self.loop, self.kube, home="inference", context="staging", lifetime_s=LIFETIME_S)
        stage = Stage(self, self.kill_path, scene, journal, RUN)
        runner = layers.of(layer, stage)
        runner.prepare()
        scene.open()
        for fault in in_order([faults.named(name) for name in names]):
            journal.owner = fault.name
            fault.inject(stage, runner)
        for target in self.kill_path.targets:
            steady.remember(scene, journal, target)
        runner.trigger()
        scene.close()
        return journal

    def rounds(self):
        """Let the changes expire, and the janitor come once after that, to its end."""
        self.loop.run_until(lambda: False, LIFETIME_S + 900.0)
        self.loop.run_until(lambda: all(code is not None for code, _ in self.janitors()), LONG_S)

    def janitors(self):
        """(exit code, log) of every janitor that ran, in order."""
        ended = []
        pods = self.embedded.kube.list(r.PODS, "killcheck").items
        for pod in sorted(pods, key=lambda pod: pod["metadata"]["creationTimestamp"]):
            code = dig(pod, "status", "containerStatuses", 0, "state", "terminated", "exitCode")
            name = pod["metadata"]["name"]
            ended.append((code, self.embedded.kube.logs(name, "killcheck") if code is not None else ""))
        return ended


@pytest.fixture
def cluster():
    made = Abandoned()
    yield made
    made.close()


def test_every_fault_that_a_run_can_leave_behind_is_in_a_set():
    assert {name for names in SETS for name in names} | ELSEWHERE == {kind.name for kind in faults.ALL}


@pytest.mark.parametrize("names", SETS, ids="+".join)
@pytest.mark.one_in(12)
def test_whatever_a_dead_run_left_the_janitor_still_runs_and_puts_it_back(cluster, names):
    before = picture(cluster.embedded)
    journal = cluster.sabotage(names)
    assert len(journal.open) >= 1
    assert differences(before, picture(cluster.embedded)) != []
    cluster.rounds()
    ran = cluster.janitors()
    assert {code for code, _ in ran} == {0}, ran
    assert any("deleted: " in log or "undone: " in log for _, log in ran), ran
    assert differences(before, picture(cluster.embedded)) == []


def test_before_its_expiry_nothing_is_touched(cluster):
    cluster.sabotage(["suspended"])
    cluster.loop.run_until(lambda: False, LIFETIME_S - 100.0)
    assert {log.strip() for _, log in cluster.janitors()} == {"nothing is left to put back"}
    assert cluster.kube.get(r.CRONJOBS, "gpu-nightly-off", "inference")["spec"]["suspend"] is True


def test_what_it_cannot_put_back_makes_it_fail_where_people_see_it(cluster):
    cluster.sabotage(["zone-changed"])
    cluster.kube.patch(r.CRONJOBS, "gpu-nightly-off", {"spec": {"timeZone": "Europe/Paris"}}, "inference")
    cluster.rounds()
    failed = [log for code, log in cluster.janitors() if code == 5]
    assert failed
    assert "spec.timeZone was left at" in failed[0]
    assert "kubectl patch cronjobs.batch gpu-nightly-off -n inference" in failed[0]
