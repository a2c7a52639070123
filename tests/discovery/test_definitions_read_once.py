"""The schemas of CustomResourceDefinitions are read where a cluster is made of them, and nowhere else."""

from pathlib import Path

import pytest

from killcheck.run.session import Session

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.com}
spec:
  group: example.com
  names: {kind: Lamp, plural: lamps}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {watts: {type: integer}}}
"""
TARGET = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: asr, namespace: voice}
spec:
  replicas: 1
  selector: {matchLabels: {app: asr}}
  template:
    metadata: {labels: {app: asr}}
    spec:
      containers: [{name: m, image: registry.example.com/asr:1, resources: {limits: {nvidia.com/gpu: 1}}}]
"""
SWITCH = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: night, namespace: voice}
spec:
  schedule: "0 22 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
          - {name: kubectl, image: registry.example.com/kubectl:1, command: [kubectl, -n, voice, scale, deploy/asr, --replicas=0]}
"""


@pytest.mark.parametrize("switch", ["", SWITCH], ids=["no layer", "a layer"])
def test_schemas_are_read_where_something_is_drilled(tmp_path: Path, switch: str) -> None:
    (tmp_path / "all.yaml").write_text("---".join([DEFINITION, TARGET, *filter(None, [switch])]))
    session = Session(manifests=[tmp_path], strict=False)
    assert bool(session.kill_path.layers) == bool(switch)
    [version] = next(o for o in session.objects if o["kind"] == "CustomResourceDefinition")["spec"]["versions"]
    assert ("watts" in str(version)) == bool(switch)
    assert version["schema"]["openAPIV3Schema"]["type"] == "object"  # without one no API server takes it
    assert len(session.notes) == len(set(session.notes))
