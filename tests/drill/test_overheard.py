"""What a drill tells of Kubernetes' events: those about the kill path, none of anybody else's troubles."""

from __future__ import annotations

import pytest

from killcheck import events, fixtures
from killcheck.drill.sequence import Options
from killcheck.run.session import Session

#: Somebody else's: a pod that fits nowhere, one whose image nobody has, a node of no pool of ours.
ELSEWHERE = """\
apiVersion: v1
kind: Namespace
metadata: {name: somebody-elses}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: every-minute, namespace: somebody-elses}
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec:
      backoffLimit: 0
      template:
        spec:
          restartPolicy: Never
          containers: [{name: a, image: "registry.example/a:1", resources: {requests: {cpu: "4000"}}}]
"""


@pytest.fixture
def beside(tmp_path):
    path = tmp_path / "elsewhere.yaml"
    path.write_text(ELSEWHERE)
    return Session(spec=fixtures.spec("dead-man"), manifests=(fixtures.path("dead-man"), path), exec_mode="host")


def test_nobody_elses_warnings_are_told(drill, beside):
    found = drill(session=beside, under=["image-gone"], options=Options(horizon_s=120.0))
    said = found.of(events.Said)
    assert any(one.reason == "Failed" and "/inference/" in one.object for one in said)
    assert any(one.object.startswith("Job/inference/gpu-nightly-off-killcheck") for one in said)
    assert not [one for one in said if "somebody-elses" in one.object]


def test_what_its_nodes_go_through_is_told(drill, beside):
    said = drill(session=beside).of(events.Said)
    assert {one.object.partition("/")[0] for one in said} >= {"Node", "NodeClaim", "Pod", "Deployment"}
    assert not [one for one in said if "somebody-elses" in one.object]
