"""Dead-man's switches that know their hour: loops of a Deployment, kube-green, kube-downscaler. It is waited for."""

from __future__ import annotations

import pytest

from killcheck.drill import night
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.verdict import Verdict

TARGET = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: lab}
spec:
  replicas: 1
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec: {containers: [{name: c, image: "vllm/vllm-openai:v0.6.4", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
OFF = "kubectl scale deploy/chat -n lab --replicas=0"
LOOP = """
---
{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: owl, namespace: lab}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: owl, namespace: lab}}
rules:
- {{apiGroups: [apps], resources: [deployments, deployments/scale], verbs: [get, patch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: owl, namespace: lab}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: owl}}
subjects: [{{kind: ServiceAccount, name: owl, namespace: lab}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: owl, namespace: lab}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: owl}}}}
  template:
    metadata: {{labels: {{app: owl}}}}
    spec:
      serviceAccountName: owl
      containers:
      - name: loop
        image: alpine/k8s:1.31.3
        env: [{{name: TZ, value: Asia/Tokyo}}]
        command:
        - /bin/sh
        - -c
        - while true; do [ $(date +%H) -lt {hour} ] || kubectl scale deploy/chat -n lab --replicas=0; sleep 3600; done
"""
SLEEP = """
---
apiVersion: kube-green.com/v1alpha1
kind: SleepInfo
metadata: {name: owl, namespace: lab}
spec: {weekdays: "*", sleepAt: "19:30", wakeUpAt: "06:00", timeZone: Asia/Tokyo}
"""
#: A downscaler whose account may do nothing.
DOWNSCALER = """
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: owl, namespace: ops}
spec:
  replicas: 1
  selector: {matchLabels: {app: owl}}
  template:
    metadata: {labels: {app: owl}}
    spec:
      containers:
      - {name: d, image: "hjacobs/kube-downscaler:23.2.0", args: ["--default-uptime=Mon-Sun 07:00-20:00 UTC"]}
"""


@pytest.mark.parametrize(
    ("owl", "verdict", "said"),
    [
        (LOOP.format(hour=19), Verdict.SURVIVED, "its own pod wrote it, at 1"),
        (LOOP.format(hour=24), Verdict.EXPOSED, "Deployment/lab/owl was at work, and turned nothing off in a day"),
        (SLEEP, Verdict.SURVIVED, "kube-green wrote it, at 10:30 UTC"),
        (SLEEP.replace("06:00", "21:00"), Verdict.INCONCLUSIVE, "it wakes at 12:00 UTC what it put to sleep at 10:30"),
        (DOWNSCALER, Verdict.EXPOSED, "Deployment/ops/owl was at work, and turned nothing off in a day"),
        (
            LOOP.format(hour=19).replace(OFF, f"{{ mkdir /tmp/off && {OFF}; }}"),
            Verdict.EXPOSED,
            "came and left on what was",
        ),
        (
            LOOP.format(hour=19).replace(OFF, f"[ $(date +%u) = 7 ] || {OFF}"),
            Verdict.EXPOSED,
            "its program does not do the same every night",
        ),
    ],
)
@pytest.mark.one_in(4)
def test_what_knows_its_hour_is_left_to_it(owl, verdict, said, tmp_path, monkeypatch):
    monkeypatch.setattr(night, "LEAST_S", 2 * 3600.0)
    (tmp_path / "all.yaml").write_text(TARGET + owl)
    session = Session(manifests=[tmp_path / "all.yaml"], exec_mode="host")
    (drill,) = Run(session, [PlannedDrill("owl")], folder=tmp_path / "state").execute().drills
    assert drill.verdict is verdict, drill.why
    assert said in f"{drill.why} {drill.cause}"
