"""Whole drills over a network that drops, delays, duplicates and answers 429, 500, 409 and 410, seeded.

No verdict is wrong, nothing is left behind. Not knowing is allowed; being wrong is not.

``KILLCHECK_LOSSY_RUNS`` says how many runs (default 6; 200 and more before a release).
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest
from killcheck.fixtures import path
from safety_world import Lossy, differences, picture, through

from killcheck import faults
from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.drill.sequence import Drill, Options
from killcheck.kube import manifests
from killcheck.kube.errors import KubeError
from killcheck.safety import lease
from killcheck.safety.journal import Journal, JournalError
from killcheck.spec import specfile

#: What is drilled, and the only verdict that may be claimed of it.
DRILLS = (
    ((), "survived"),
    (("image-gone",), "exposed"),
    (("rolebinding-gone",), "exposed"),
    (("suspended",), "exposed"),
    (("token-dead",), "exposed"),
    (("quota-exhausted",), "exposed"),
    (("finalizer",), "exposed"),
    (("podsecurity", "registry-unreachable"), "survived"),
    (("rival-operator",), "exposed"),
    (("zone-changed",), "exposed"),
    (("laptop-killed", "volume-stuck"), "survived"),
    (("second-starter",), "exposed"),
    (("missed-firings",), "exposed"),
)
RUNS = int(os.environ.get("KILLCHECK_LOSSY_RUNS", "6"))


class LossyCluster(EmbeddedDrillCluster):
    """killcheck's own way to the API is bad; the cluster's is not."""

    def __init__(self, seed):
        folder = path("dead-man")
        self.kill_path = specfile.load(folder / "killcheck.yaml")
        found = [m.obj for m in manifests.load([folder]).manifests if m.obj.get("apiVersion") != "killcheck/v1"]
        super().__init__(found, exec_mode="host", start=datetime(2026, 1, 15, 3, 0, 1, tzinfo=UTC), seed=seed)
        self.loop.run_until(lambda: False, 400)
        self.before = picture(self.embedded)
        self.lossy = []

        def wrap(inner):
            self.lossy.append(Lossy(inner, self.loop, seed, rate=5 + seed % 4 * 5))
            return self.lossy[0]

        self.kube = through(self.embedded, wrap)

    def drill(self, names, folder):
        run = "20260115-030001-abc123-0"
        layer = self.kill_path.layer("nightly-off")
        journal = Journal(
            run, self.loop, self.kube, path=folder / "journal-0.jsonl", home="inference", capabilities=self.capabilities
        )
        claim = lease.Claim(self.kube, self.loop, run, lease.wanted(self.kill_path, layer, "inference"))
        claim.acquire()
        journal.guard = claim.check
        drill = Drill(
            self,
            self.kill_path,
            layer,
            [faults.named(name) for name in names],
            run=run,
            journal=journal,
            options=Options(horizon_s=3600.0),
        )
        try:
            result = drill.run()
        finally:
            claim.release()
        return result


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.one_in(2)
def test_over_a_lossy_network_no_verdict_is_wrong_and_nothing_is_left(tmp_path, seed, record_property):
    names, truth = DRILLS[seed % len(DRILLS)]
    cluster = LossyCluster(seed)
    try:
        try:
            result = cluster.drill(names, tmp_path)
        except (KubeError, JournalError):
            result = None  # could not begin: exit 4
        cluster.loop.run_until(lambda: False, 600)
        left = differences(cluster.before, picture(cluster.embedded))
    finally:
        cluster.close()
    record_property("verdict", str(result.verdict) if result else "not begun")
    assert cluster.lossy[0].met > 0
    assert left == []
    if result is not None:
        assert str(result.verdict) in (truth, "inconclusive"), result.why
        assert result.problems == ()
