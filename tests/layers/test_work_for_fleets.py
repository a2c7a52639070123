"""A fleet's own scaler beside a switch: what it does when work comes after the switch, by the spec's own request."""

from __future__ import annotations

import shutil
from pathlib import Path

from killcheck import fixtures
from killcheck.run.public import run_drill

SCALER = """
apiVersion: v1
kind: ConfigMap
metadata: {name: fleet, namespace: inference}
data:
  fleet.sh: |
    api=https://kubernetes.default.svc/apis/apps/v1/namespaces/inference/deployments/vllm
    own=/var/run/secrets/kubernetes.io/serviceaccount
    ask() { curl -sf --cacert $own/ca.crt -H "Authorization: Bearer $(cat $own/token)" "$@"; }
    while true; do
      if ask $api | grep -q 'example.com/work'; then
        ask -X PATCH -H 'Content-Type: application/merge-patch+json' $api/scale -d '{"spec":{"replicas":2}}'
      fi
      sleep 600
    done
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: fleet, namespace: inference}
rules:
  - {apiGroups: [apps], resources: [deployments, deployments/scale], resourceNames: [vllm], verbs: [get, patch]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: fleet, namespace: inference}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: fleet, namespace: inference}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: fleet}
subjects: [{kind: ServiceAccount, name: fleet, namespace: inference}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: fleet, namespace: inference}
spec:
  selector: {matchLabels: {app: fleet}}
  template:
    metadata: {labels: {app: fleet}}
    spec:
      serviceAccountName: fleet
      containers:
        - name: fleet
          image: public.ecr.aws/docker/library/buildpack-deps:bookworm-curl
          command: [bash, /app/fleet.sh]
          volumeMounts: [{name: app, mountPath: /app}]
      volumes: [{name: app, configMap: {name: fleet}}]
"""
LAYER = """
layers:
  - name: fleet
    type: idle-monitor
    covers: [vllm]
    workload: {kind: Deployment, namespace: inference, name: fleet}
    idle: 10m
    busy: {shell: kubectl -n inference annotate deployment vllm example.com/work=much --overwrite}
"""


def test_who_starts_for_work_is_seen_to(tmp_path: Path) -> None:
    folder = tmp_path / "path"
    shutil.copytree(fixtures.path("dead-man"), folder)
    spec = folder / "killcheck.yaml"
    spec.write_text(spec.read_text().replace("layers:\n", LAYER.lstrip("\n"), 1))
    (folder / "fleet.yaml").write_text(SCALER)
    result = run_drill(spec, layer="nightly-off", under=["work-comes"], exec_mode="host", horizon_s=3600.0)
    assert str(result.verdict) == "exposed", result.why
    assert "kubectl -n inference annotate" in result.bites["work-comes"]
    assert "to 2 replica(s)" in result.cause
