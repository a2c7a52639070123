"""Executors that take pods or nodes and leave the workload as it is: whoever owns the pods makes others."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from killcheck.cli import main
from killcheck.diagnosis.targets import made_again
from killcheck.embedded.api.http import Request, Response
from killcheck.embedded.models.assumednodes import Assumptions
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec.killpath import Target
from killcheck.spec.phases import PHASES

DEPLOY = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: notebook, namespace: lab}
spec:
  replicas: 1
  selector: {matchLabels: {app: nb}}
  template:
    metadata: {labels: {app: nb}}
    spec: {containers: [{name: nb, image: "nb:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: evening, namespace: lab}
spec:
  schedule: "0 19 * * *"
  jobTemplate:
    spec:
      activeDeadlineSeconds: 300
      template:
        spec:
          restartPolicy: Never
          serviceAccountName: ops
          containers: [{name: x, image: "k:1", command: [sh, -ec, kubectl drain -l gpu=true]}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: ops, namespace: lab}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ops}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: ops, namespace: lab}]
"""


def test_a_drain_by_labels_that_nobody_gave_the_assumed_nodes_proves_nothing(tmp_path: Path):
    deploy, spec = tmp_path / "deploy.yaml", tmp_path / "killcheck.yaml"
    deploy.write_text(DEPLOY)
    assert CliRunner().invoke(main, ["init", "--manifests", str(deploy), "-o", str(spec)]).exit_code == 0
    session = Session(spec=spec, manifests=[deploy], exec_mode="host")
    (drill,) = Run(session, [PlannedDrill("evening")], sinks=[]).execute().drills
    assert str(drill.verdict) == "inconclusive"
    assert "it selects nodes by gpu=true, and what labels the nodes with GPUs have is in no manifest" in drill.why
    assert "nodes: selector: gpu=true" in drill.why


def stuck(
    reached: str = "", lost: str = "", *, asks: int = 3, complete: bool = True, log: str = "", made: str = "23:00:05"
) -> Any:
    """A drill's case: its phases that hold and those that held, what the target asks for, the Job's end, a pod of it."""
    start = datetime(2026, 1, 15, 23, tzinfo=UTC)
    timeline = SimpleNamespace(reached=reached.split(), lost=lost.split(), phases=PHASES, start=start)
    pod = {"metadata": {"name": "nb-0", "namespace": "lab", "creationTimestamp": f"2026-01-15T{made}Z"}}
    path = SimpleNamespace(covered_by=lambda layer: [Target("nb", "apps/v1", "StatefulSet", "lab", "nb")])
    scene = SimpleNamespace(
        kill_path=path,
        replicas=lambda target: asks,
        pods=SimpleNamespace(values=lambda: [pod]),
        is_of=lambda target, pod: True,
    )
    layer = SimpleNamespace(layer=None)
    return SimpleNamespace(
        timeline=timeline,
        scene=scene,
        layer=layer,
        job_condition=lambda kind: {"type": kind} if complete else None,
        log=lambda: log,
    )


@pytest.mark.parametrize(
    ("case", "made"),
    [
        (stuck("pods_terminating"), True),
        (stuck("pods_terminating", "pods_gone"), True),
        (stuck("", "pods_gone"), True),
        (stuck(""), False),  # nothing went
        (stuck("pods_terminating scale_written"), False),
        (stuck("pods_terminating", "scale_written pods_gone"), False),  # somebody scaled it back
        (stuck("pods_terminating", complete=False), False),
        (stuck("pods_terminating", complete=False, log='pod "nb-0" deleted from lab namespace'), True),
        (stuck("pods_terminating", complete=False, log="pod/nb-0 evicted"), True),
        (stuck("pods_terminating", made="22:59:00"), False),  # another target's pods went
        (stuck("pods_terminating", asks=0), False),
    ],
)
def test_pods_that_went_from_a_workload_that_asks_for_them_are_made_again(case: Any, made: bool):
    found = made_again(case)
    assert (found is not None) is made
    if found is not None:
        assert found.cause == "pods of StatefulSet/lab/nb went, and as it still asks for 3, others were made"
        assert "kubectl scale --replicas=0" in found.remedy


@pytest.mark.parametrize(
    ("path", "selector", "names", "guessed"),
    [
        ("/api/v1/nodes", "gpu=true", [], True),
        ("/api/v1/nodes", "gpu=true", ["cpu-1"], True),
        ("/api/v1/nodes", "gpu=true", ["gpu-1", "gpu-2"], False),
        ("/api/v1/nodes", "gpu=true", ["gpu-2"], False),
        ("/api/v1/nodes", "", [], False),
        ("/api/v1/pods", "gpu=true", [], False),
    ],
)
def test_that_no_assumed_node_has_a_label_is_a_guess(path: str, selector: str, names: list[str], guessed: bool):
    assumptions = Assumptions(made={"gpu-1": "gpu", "gpu-2": "gpu", "cpu-1": "cpu"})
    request = Request("GET", path, {"labelSelector": [selector]})
    items = [{"metadata": {"name": name}} for name in names]
    for body in ({"items": items}, {"rows": [{"object": item} for item in items]}):
        assert (assumptions.guessed(request, Response(200, body)) is not None) is guessed
    assert Assumptions().guessed(request, Response(200, {"items": []})) is None
