"""``--exec docker``: executors of a user's manifests in real containers, against the embedded cluster's API."""

from __future__ import annotations

import pytest
from docker_host import killcheck

MANIFESTS = """
apiVersion: v1
kind: Namespace
metadata: {{name: a}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: vllm, namespace: a}}
spec:
  selector: {{matchLabels: {{app: vllm}}}}
  template:
    metadata: {{labels: {{app: vllm}}}}
    spec: {{containers: [{{name: v, image: "vllm:1", resources: {{limits: {{nvidia.com/gpu: "1"}}}}}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: script, namespace: a}}
data:
  off.sh: |
    set -eu
    test -s /var/run/secrets/kubernetes.io/serviceaccount/token
    exec {command}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: gpu-off, namespace: a}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: gpu-off, namespace: a}}
rules:
  - {{apiGroups: [apps], resources: [deployments], verbs: [get]}}
  - {{apiGroups: [apps], resources: [deployments/scale], verbs: [get, patch, update]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: gpu-off, namespace: a}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: gpu-off}}
subjects: [{{kind: ServiceAccount, name: gpu-off, namespace: a}}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {{name: gpu-off, namespace: a}}
spec:
  schedule: "0 3 * * *"
  timeZone: Etc/UTC
  jobTemplate:
    spec:
      backoffLimit: 0
      template:
        spec:
          serviceAccountName: gpu-off
          restartPolicy: Never
          volumes: [{{name: script, configMap: {{name: script}}}}]
          containers:
            - name: x
              image: "{image}"
              command: [sh, /scripts/off.sh]
              volumeMounts: [{{name: script, mountPath: /scripts}}]
"""
SPEC = """
apiVersion: killcheck/v1
name: a
targets: [{name: vllm, kind: Deployment, namespace: a, object: vllm}]
layers: [{name: gpu-off, type: dead-man, covers: [vllm], cronJob: {namespace: a, name: gpu-off}}]
proof: [P1, P4]
"""
SCALE = "kubectl scale deployment/vllm --replicas=0 -n a"


@pytest.fixture
def drilled(host, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", host.address)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "killcheck.yaml").write_text(SPEC)

    def drill(image, command):
        (tmp_path / "deploy" / "all.yaml").write_text(MANIFESTS.format(image=image, command=command))
        before = host.picture()
        code, out, document = killcheck(
            tmp_path, "drill", "killcheck.yaml", "--manifests", "deploy", "--exec", "docker", "--json"
        )
        assert document, out
        assert host.picture() == before
        assert [n.name for n in host.client.networks.list() if n.name.startswith("killcheck")] == []
        return code, document["drills"][0]

    return drill


def test_the_executor_runs_in_its_own_image_with_the_pods_own_token(host, drilled):
    code, result = drilled(host.image("kubectl", ["kubectl"], {}), SCALE)
    assert (code, result["verdict"], result["off_by"]) == (0, "survived", "gpu-off"), result
    assert not any("kubectl" in note for note in result["notes"])  # what really ran is no assumption


def test_what_its_image_lacks_it_lacks_here(host, drilled):
    code, result = drilled(host.busybox, SCALE)
    assert (code, result["verdict"], result["stuck_at"]) == (1, "exposed", "executor_finished"), result
    assert "kubectl: not found" in result["cause"]


def test_it_reaches_nothing_but_the_api(host, drilled):
    code, result = drilled(host.busybox, "nc -w 2 1.1.1.1 443")
    assert (code, result["verdict"]) == (1, "exposed"), result
    assert "nreachable" in " ".join(result["evidence"]) or "timed out" in " ".join(result["evidence"]), result


def test_an_image_that_cannot_be_had_leaves_the_outcome_unknown(drilled):
    code, result = drilled("localhost:1/gpu-off:1", SCALE)
    assert (code, result["verdict"]) == (3, "inconclusive"), result
    assert "cannot run localhost:1/gpu-off:1" in result["why"]
