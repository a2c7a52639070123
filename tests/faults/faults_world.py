"""The reference path on an embedded cluster, and the same taken for somebody's: no capabilities, its own names."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from killcheck.fixtures import path

from killcheck.capabilities.offered import Capabilities
from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.drill.sequence import Drill, Options
from killcheck.kube import manifests
from killcheck.safety.journal import Journal
from killcheck.spec import specfile

sys.path.insert(0, str(Path(__file__).parents[1] / "safety"))

from safety_world import PULL_SECRET, PULLS_WITH

RUN = "20260115-030001-abc123-0"
#: Just after the reference path's slot.
NIGHT = datetime(2026, 1, 15, 3, 0, 1, tzinfo=UTC)


class World:
    """The reference path on an embedded cluster, its GPUs on; ``change`` alters its manifests first."""

    def __init__(self, change=lambda objects: None, under=(), *, real=False, fixture="dead-man"):
        folder = path(fixture)
        self.kill_path = specfile.load(folder / "killcheck.yaml")
        found = [m.obj for m in manifests.load([folder]).manifests if m.obj.get("apiVersion") != "killcheck/v1"]
        change(found)
        if any(kind.name == "pull-secret-expired" for kind in under):
            for obj in found:
                if obj["kind"] == "CronJob":
                    obj["spec"]["jobTemplate"]["spec"]["template"]["spec"] |= PULLS_WITH
            found.append(PULL_SECRET)
        cron_job = next((obj for obj in found if obj["kind"] == "CronJob"), {})
        nights = [kind().night(cron_job, NIGHT) for kind in under]
        start = next((night for night in nights if night is not None), NIGHT)
        self.cluster = EmbeddedDrillCluster(found, exec_mode="host", start=start)
        if real:
            self.cluster.real, self.cluster.name, self.cluster.capabilities = True, "staging", Capabilities()
        self.seen = []

    def settle(self):
        self.cluster.loop.run_until(lambda: False, 400)

    def drill(self, *kinds, horizon_s=3 * 3600.0):
        journal = Journal(RUN, self.cluster.loop, self.cluster.kube, capabilities=self.cluster.capabilities)
        return Drill(
            self.cluster,
            self.kill_path,
            self.kill_path.layers[0],
            [kind() for kind in kinds],
            run=RUN,
            journal=journal,
            sink=self.seen.append,
            price=lambda kind: 10.0,
            options=Options(horizon_s=horizon_s),
        ).run()

    def close(self):
        self.cluster.close()
