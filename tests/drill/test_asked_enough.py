"""A program that asks the API server on and on takes the wall's time: no more of it than a verdict needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from killcheck.cli import main
from killcheck.drill import watching

MANIFESTS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: ml}
spec:
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec: {containers: [{name: c, image: "chat:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: lights-out, namespace: ml}
spec:
  schedule: "0 20 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: c
              image: python:3.12-slim
              command: [python3, -c, SCRIPT]
"""
SCRIPT = """\
import os, ssl, time, urllib.error, urllib.request
home = "/var/run/secrets/kubernetes.io/serviceaccount"
url = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}/apis/apps/v1/namespaces/ml/deployments/chat/scale"
asked = urllib.request.Request(url, headers={"Authorization": "Bearer " + open(f"{home}/token").read()})
while True:
    try:
        urllib.request.urlopen(asked, context=ssl.create_default_context(cafile=f"{home}/ca.crt"))
    except urllib.error.HTTPError as error:
        print(error.code)
    time.sleep(20)
"""


@pytest.mark.parametrize("patience_s", [0.0, 600.0])
@pytest.mark.one_in(2)
def test_watching_ends_where_the_verdict_is_certain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    monkeypatch.setattr(watching, "PATIENCE_S", patience_s)
    monkeypatch.setattr(watching, "MANY_REQUESTS", 20)
    (tmp_path / "all.yaml").write_text(MANIFESTS.replace("SCRIPT", json.dumps(SCRIPT)))
    words = ["drill", "--manifests", str(tmp_path), "--exec", "host", "--json"]
    result = CliRunner().invoke(main, words if not patience_s else [*words, "--watch", "20m"])
    assert result.stdout, result.stderr
    (drill,) = json.loads(result.stdout)["drills"]
    assert drill["verdict"] == "exposed"
    enough = [note for note in drill["notes"] if "which is enough: the deadline of" in note]
    assert bool(enough) is (not patience_s)
    assert (drill["watched_s"] < 1000) is (not patience_s)
