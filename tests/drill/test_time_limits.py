"""Jobs that the cluster ends when their time is over: by their own deadline, or as Kueue does; drilled, not told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from killcheck.cli import main
from killcheck.kube.client import Kube
from killcheck.kube.errors import Forbidden
from killcheck.kube.objects import Obj, format_time
from killcheck.kube.time_limits import limit_of
from killcheck.layers.time_limits import ended_by_limit
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml, labels: {LABELS}}
spec:
  FIELDS
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "trainer:1", resources: {limits: {nvidia.com/gpu: 4}}}]
---
"""
QUEUES = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: gpu}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: gpus}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: gpu, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: team, namespace: ml}
spec: {clusterQueue: gpus}
"""
QUEUED = "kueue.x-k8s.io/queue-name: team, kueue.x-k8s.io/max-exec-time-seconds: '3600'"
AT = datetime(2026, 1, 15, 14, tzinfo=UTC)


def drilled(folder: Path, text: str, layer: str = "") -> Any:
    """The drill of the one layer that ``init`` finds among these manifests."""
    deploy, spec = folder / "deploy.yaml", folder / "killcheck.yaml"
    deploy.write_text(text)
    written = CliRunner().invoke(main, ["init", "--manifests", str(deploy), "-o", str(spec)])
    assert written.exit_code == 0, written.output
    assert "not drilled" not in written.output
    assert "name: train-self" in spec.read_text()
    (drill,) = (
        Run(Session(spec=spec, manifests=[deploy], exec_mode="none"), [PlannedDrill("train-self")], sinks=[])
        .execute()
        .drills
    )
    return drill


@pytest.mark.parametrize(
    ("labels", "fields", "more", "said"),
    [
        ("", "activeDeadlineSeconds: 3600", "", "was ended by its activeDeadlineSeconds"),
        (QUEUED, "suspend: true", QUEUES, "Kueue ended Job train: The maximum execution time (3600s) exceeded"),
    ],
    ids=["deadline", "kueue"],
)
def test_a_job_that_the_cluster_ends_survives_by_the_clusters_word(
    tmp_path: Path, labels: str, fields: str, more: str, said: str
):
    drill = drilled(tmp_path, JOB.replace("LABELS", labels).replace("FIELDS", fields) + more)
    assert (str(drill.verdict), drill.off_by) == ("survived", "train-self")
    assert said in drill.why
    assert 3600 <= drill.seconds_to_zero <= 3700


def test_a_limit_of_kueues_that_no_queue_admits_proves_nothing(tmp_path: Path):
    closed = QUEUES.replace("spec: {clusterQueue: gpus}", "spec: {clusterQueue: gpus, stopPolicy: Hold}")
    drill = drilled(tmp_path, JOB.replace("LABELS", QUEUED).replace("FIELDS", "suspend: true") + closed)
    assert str(drill.verdict) == "inconclusive"


def test_a_limit_of_kueues_whose_queue_is_in_no_manifest_proves_nothing(tmp_path: Path):
    drill = drilled(tmp_path, JOB.replace("LABELS", QUEUED).replace("FIELDS", "parallelism: 1"))
    assert str(drill.verdict) == "inconclusive"
    assert "its LocalQueue team is not here" in drill.why


def test_a_deadline_far_beyond_the_workers_own_delay_is_not_that_layers_doing(tmp_path: Path):
    idle = 'image: "trainer:1", env: [{name: MAX_IDLE_SECONDS, value: "1800"}]'
    text = (
        JOB.replace("LABELS", "").replace("FIELDS", "activeDeadlineSeconds: 3600").replace('image: "trainer:1"', idle)
    )
    drill = drilled(tmp_path, text)
    assert str(drill.verdict) != "survived"


@pytest.mark.parametrize(
    ("labels", "deadline", "limit"),
    [
        ({}, None, None),
        ({}, 60, 60.0),
        ({"kueue.x-k8s.io/max-exec-time-seconds": "30"}, None, None),  # Kueue manages what names a queue
        ({"kueue.x-k8s.io/max-exec-time-seconds": "30", "kueue.x-k8s.io/queue-name": "q"}, None, 30.0),
        ({"kueue.x-k8s.io/max-exec-time-seconds": "30", "kueue.x-k8s.io/queue-name": "q"}, 20, 20.0),
        ({"kueue.x-k8s.io/max-exec-time-seconds": "soon", "kueue.x-k8s.io/queue-name": "q"}, None, None),
    ],
)
def test_the_time_after_which_a_job_is_ended(labels: dict[str, str], deadline: int | None, limit: float | None):
    spec = {} if deadline is None else {"activeDeadlineSeconds": deadline}
    assert limit_of({"kind": "Job", "metadata": {"labels": labels}, "spec": spec}) == limit
    assert limit_of({"kind": "JobSet", "metadata": {"labels": labels}, "spec": spec}) is None


class _Events:
    """An API that has these events, or refuses to list any."""

    def __init__(self, events: list[Obj] | None) -> None:
        self.items = events

    def list(self, *_of: object) -> Any:
        if self.items is None:
            raise Forbidden(403, {"reason": "Forbidden"})
        return self


def _told(workload: str, at: datetime = AT, reason: str = "MaximumExecutionTimeExceeded") -> Obj:
    about = {"kind": "Workload", "name": workload}
    return {"metadata": {}, "involvedObject": about, "reason": reason, "message": "m", "lastTimestamp": format_time(at)}


@pytest.mark.parametrize(
    ("events", "ended"),
    [
        ([_told("job-train-2bc6e")], True),
        ([_told("job-train-2-2bc6e")], False),  # another Job's
        ([_told("job-train-2bc6e", AT - timedelta(hours=1))], False),
        ([_told("job-train-2bc6e", reason="Preempted")], False),
        ([], False),
        (None, False),
    ],
)
def test_only_kueues_own_word_on_this_job_and_of_this_time_is_one(events: list[Obj] | None, ended: bool):
    job = {"kind": "Job", "metadata": {"name": "train", "namespace": "ml"}, "spec": {"suspend": True}}
    said = ended_by_limit(cast("Kube", _Events(events)), job, AT)
    assert (said is not None) is ended


@pytest.mark.parametrize(
    ("reason", "at", "ended"),
    [("DeadlineExceeded", 0, True), ("DeadlineExceeded", 1, False), ("BackoffLimitExceeded", 0, False)],
)
def test_a_job_that_failed_otherwise_was_not_ended_by_its_deadline(reason: str, at: int, ended: bool):
    failed = {
        "type": "Failed",
        "status": "True",
        "reason": reason,
        "lastTransitionTime": format_time(AT - timedelta(hours=at)),
    }
    job = {
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {},
        "status": {"conditions": [failed]},
    }
    assert (ended_by_limit(cast("Kube", _Events(None)), job, AT) is not None) is ended
